//! What a kernel counts of its sched_ext scheduler: its events (`/sys/kernel/sched_ext/root/events`, 6.15), and the
//! calls of each operation where programs of BPF are counted (`/proc/sys/kernel/bpf_stats_enabled`).

use crate::sys::bpf::{self, BpfProgram, MOST_NAME, STRUCT_OPS};
use std::fs;

const EVENTS: &str = "/sys/kernel/sched_ext/root/events";
/// The operations: the members of `struct sched_ext_ops` (7.3) that are functions.
#[rustfmt::skip]
const OPERATIONS: &[&str] = &[
    "select_cpu", "enqueue", "dequeue", "dispatch", "tick", "runnable", "running", "stopping", "quiescent", "yield",
    "core_sched_before", "set_weight", "set_cpumask", "update_idle", "cpu_acquire", "cpu_release", "init_task",
    "exit_task", "enable", "disable", "dump", "dump_cpu", "dump_task", "cgroup_init", "cgroup_exit",
    "cgroup_prep_move", "cgroup_move", "cgroup_cancel_move", "cgroup_set_weight", "cgroup_set_bandwidth",
    "cgroup_set_idle", "cpu_online", "cpu_offline", "init", "exit",
];

/// Counters of the loaded scheduler, under the names that backend `code` has for them.
pub fn counters() -> Vec<(String, u64)> {
    let events = fs::read_to_string(EVENTS).unwrap_or_default();
    let mut found = of_events(&events);
    found.extend(of_programs(&bpf::bpf_programs().unwrap_or_default()));
    found
}

fn of_events(text: &str) -> Vec<(String, u64)> {
    let one = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        let name = name.strip_prefix("SCX_EV_")?.to_ascii_lowercase();
        Some((format!("scx.event.{name}"), count.trim().parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// A program is named by the scheduler and the operation (`simple_enqueue`), as macros of scx do it; the kernel keeps
/// 15 bytes of it. A name that could be of several operations, or of none, is left out.
fn of_programs(programs: &[BpfProgram]) -> Vec<(String, u64)> {
    let programs: Vec<&BpfProgram> = programs.iter().filter(|p| p.kind == STRUCT_OPS).collect();
    let first = programs.first().map_or("", |p| &p.name);
    let shared = |text: &&str| programs.iter().all(|p| p.name.starts_with(text));
    let prefixes = first.match_indices('_').map(|(at, _)| &first[..=at]);
    let prefix = prefixes.take_while(shared).last().unwrap_or("");
    let cut = |operation: &str| format!("{prefix}{operation}").chars().take(MOST_NAME).collect::<String>();
    let one = |program: &&BpfProgram| {
        let mut fitting = OPERATIONS.iter().filter(|operation| cut(operation) == program.name);
        let operation = fitting.next().filter(|_| fitting.next().is_none())?;
        Some((format!("scx.calls.{operation}"), program.runs))
    };
    programs.iter().filter(|p| p.runs > 0).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, runs: u64) -> BpfProgram {
        BpfProgram { kind: STRUCT_OPS, name: name.to_owned(), runs }
    }

    #[test]
    fn cut_names_are_those_of_operations() {
        let mut all = vec![
            program("bpfland_select_", 3),
            program("bpfland_enqueue", 2),
            program("bpfland_exit_ta", 1),
            program("bpfland_init", 0),
        ];
        all.push(BpfProgram { kind: 1, ..program("other", 9) });
        let found = of_programs(&all);
        let named = [("scx.calls.select_cpu", 3), ("scx.calls.enqueue", 2), ("scx.calls.exit_task", 1)];
        assert_eq!(found, named.map(|(name, runs)| (name.to_owned(), runs)));
    }

    #[test]
    fn a_name_of_two_operations_or_of_none_is_left_out() {
        let found = of_programs(&[
            program("long_name_cgrou", 5),
            program("long_name_dispa", 4),
            program("long_name_xyz", 3),
        ]);
        assert_eq!(found, [("scx.calls.dispatch".to_owned(), 4)]);
    }

    #[test]
    fn events_have_the_kernels_names() {
        let found = of_events("SCX_EV_SELECT_CPU_FALLBACK 7\nSCX_EV_BYPASS_DURATION 12000\ngarbage\n");
        let named = [("scx.event.select_cpu_fallback", 7), ("scx.event.bypass_duration", 12_000)];
        assert_eq!(found, named.map(|(name, n)| (name.to_owned(), n)));
    }
}
