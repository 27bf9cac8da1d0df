//! Changes to decisions that were found in kernel trees, but are not simulated.

use super::{Subject, any, between, since};
use crate::origin::Span;
use schedlab_base::Version;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Unmodelled {
    pub subject: Subject,
    pub span: Span,
    /// The kernel's functions that contain it.
    pub function: &'static str,
    /// The trees in which it was read.
    pub read: &'static str,
    /// The kernel's behaviour with it, one sentence.
    pub text: &'static str,
}

impl Unmodelled {
    pub fn is_in(&self, version: Version) -> bool {
        any(&[self.span], version)
    }
}

/// All known changes of this kind, by subject, in order of time.
#[rustfmt::skip]
pub const UNMODELLED: &[Unmodelled] = &[
    Unmodelled { subject: Subject::Cfs, span: between("4.9", "4.19"), function: "dequeue_entity()", read: "4.4 has it not, 4.15 has it, 5.4 has it not; the releases are from memory",
        text: "min_vruntime does not move on as an entity leaves the queue, but at the next charge." },
    Unmodelled { subject: Subject::Eevdf, span: since("7.1"), function: "hrtick_start_fair()", read: "7.0 has it not, 7.2.12 has it",
        text: "The slice timer runs longer where interrupts take part of the CPU." },
    Unmodelled { subject: Subject::Groups, span: between("3.2", "5.7"), function: "distribute_cfs_runtime()", read: "4.4, 4.15, 4.19 and 5.4 have it, 5.10 has it not; 5.7 is from memory",
        text: "Quota is handed out from a copy of the pool: what CPUs take of the pool meanwhile is given twice." },
    Unmodelled { subject: Subject::Groups, span: since("7.3"), function: "__sched_cgroup_mode_update()", read: "7.2.12 has it not, 7.3.4 has it",
        text: "cgroup_mode in debugfs (up, smp, concur, max, tasks) decides how a group's shares are spread over CPUs; only the default, concur, is modelled." },
    Unmodelled { subject: Subject::Wakeup, span: between("4.20", "5.7"), function: "select_task_rq_fair(), SD_BALANCE_WAKE", read: "6.1.192 has it not; the rest is from memory",
        text: "On machines whose CPUs differ in capacity, a wakeup that finds no affine domain takes the slow path, as a new task does." },
    Unmodelled { subject: Subject::Wakeup, span: since("5.0"), function: "find_energy_efficient_cpu(), cpu_overutilized()", read: "6.1.192 has it; 5.0 is from memory",
        text: "With an energy model, a wakeup goes where the machine uses the least energy, and nothing is balanced until some CPU is overutilised." },
    Unmodelled { subject: Subject::Wakeup, span: since("5.3"), function: "uclamp_eff_value(), util_fits_cpu(), rt_task_fits_capacity()", read: "6.1.192 has it; 5.3 is from memory",
        text: "Clamps of utilisation (uclamp) decide which CPUs a task fits; real-time tasks prefer the fastest CPUs." },
    Unmodelled { subject: Subject::Fork, span: between("4.10", "5.5"), function: "find_idlest_group()", read: "4.4 has it not, 4.15 and 5.4 have it, 5.10 has it not",
        text: "Groups are compared by runnable load first, and by average load if that is near." },
    Unmodelled { subject: Subject::Fork, span: between("4.17", "5.5"), function: "find_idlest_group()", read: "4.15 has it not, 5.4 has it, 5.10 has it not; 4.17 is from memory",
        text: "A new task stays on its node while others are no clear gain." },
    Unmodelled { subject: Subject::Balance, span: since("4.10"), function: "sched_asym_prefer(), SD_ASYM_PACKING", read: "6.1.192 has it; 4.10 is from memory",
        text: "Tasks are packed on the CPUs that the processor prefers (ITMT on x86, also of hybrid processors)." },
    Unmodelled { subject: Subject::Balance, span: since("7.1"), function: "can_migrate_llc_task(), group_llc_balance, SCHED_CACHE", read: "7.0 has it not, 7.2.12 and 7.3.4 have it",
        text: "Threads of a process are gathered in the cache in which the process runs most, by balancing." },
    Unmodelled { subject: Subject::Balance, span: since("7.3"), function: "sched_balance_rq()", read: "7.2.12 has it not, 7.3.4 has it",
        text: "No running task is pushed away that is about to sleep." },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_by_subject_and_time_and_are_sentences() {
        assert!(UNMODELLED.is_sorted_by_key(|u| (u.subject, u.span.since)));
        for u in UNMODELLED {
            assert!(
                u.text.ends_with('.') && u.text.starts_with(|c: char| !c.is_ascii_punctuation()),
                "{u:?}"
            );
            assert!(!u.function.is_empty() && !u.read.is_empty(), "{u:?}");
        }
    }

    #[test]
    fn a_version_has_those_of_its_time() {
        let of = |v: &str| UNMODELLED.iter().filter(|u| u.is_in(Version::parse(v).unwrap())).count();
        assert!(of("2.6.30") == 0 && of("4.5") == 1 && of("7.3") > of("6.12"));
    }
}
