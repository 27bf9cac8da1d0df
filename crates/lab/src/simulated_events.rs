//! What the events of a simulated run need beside the simulator: two sinks for one run, the cast, and the check that a
//! run made again is the stored one.

use schedlab_base::{Error, ErrorKind, Ns, Result, TaskId};
use schedlab_kernel::Policy;
use schedlab_machine::Machine;
use schedlab_record::{Findings, Series, TaskName, Wait};
use schedlab_trace::{Actor, Cast, Counter, Counters, Event, Sink};
use schedlab_workload::Built;
use schedlab_workload::group::ROOT_GROUP;
use std::collections::BTreeMap;

/// Number of the first task of a simulated run. The first numbers belong to a kernel's own threads.
const FIRST_TID: u32 = 1000;
/// Priority of nice 0, as the kernel counts.
const NICE_0: i32 = 120;

/// Two sinks of the same events.
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.0.sample(at, task, series, value);
        self.1.sample(at, task, series, value);
    }
    fn wants_details(&self) -> bool {
        self.0.wants_details() || self.1.wants_details()
    }
    fn counter(&mut self, at: Ns, counter: Counter, value: i64) {
        self.0.counter(at, counter, value);
        self.1.counter(at, counter, value);
    }
    fn wants_counters(&self) -> Counters {
        self.0.wants_counters().or(self.1.wants_counters())
    }
}

/// Whether a counter or series says why decisions were made: a run of the kernel's own code knows it only if it was
/// made to be explained. That a task went to sleep or ended is always known.
fn is_of_reasons(name: &str) -> bool {
    let is_known = ["blocked", "exited"].iter().any(|end| name.ends_with(end));
    ["placement.", "affine.", "rules."].iter().any(|begin| name.starts_with(begin))
        || name.starts_with("slice.") && !is_known
}

/// Stays of tasks by the reasons of their ends, summed over the reasons: how many are counted, how many there are, and
/// how long they are together. Rules move a stay from one reason to another.
fn stays(found: &Findings) -> (u64, u64, u128) {
    let counted =
        found.counters.iter().filter(|(name, _)| name.starts_with("slice.end.")).map(|(_, n)| n).sum();
    let stays = || found.series.iter().filter(|(name, _)| name.starts_with("slice.")).map(|(_, s)| s);
    (counted, stays().map(Series::count).sum(), stays().map(Series::sum).sum())
}

/// A wait without what is known of it only if the run was made to be explained.
fn unexplained(wait: &Wait) -> Wait {
    Wait { placement: None, probes: 0, ended_why: String::new(), ..wait.clone() }
}

/// Refuses a run made again whose findings differ from the stored record.
pub(crate) fn check_same(stored: &Findings, again: &Findings) -> Result<()> {
    let of = |same: bool, what: &str| (!same).then(|| what.to_owned());
    let is_explained = |found: &Findings| found.counters.contains_key("rules.choices");
    let explains = is_explained(again) && !is_explained(stored);
    let compared = |name: &str| !(explains && is_of_reasons(name));
    let counter =
        again.counters.iter().find(|(name, n)| compared(name) && stored.counters.get(*name) != Some(n));
    let series = again.series.iter().find(|(name, s)| compared(name) && stored.series.get(*name) != Some(s));
    let bare = |found: &Findings| found.waits.iter().map(unexplained).collect::<Vec<_>>();
    let same_waits = stored.waits == again.waits || explains && bare(stored) == bare(again);
    let other = of(stored.duration == again.duration, "its length")
        .or_else(|| counter.map(|(name, _)| name.clone()))
        .or_else(|| series.map(|(name, _)| name.clone()))
        .or_else(|| of(stays(stored) == stays(again), "slice.*"))
        .or_else(|| of(stored.tasks == again.tasks, "the accounts of its tasks"))
        .or_else(|| of(stored.stays == again.stays, "its stays by CPU"))
        .or_else(|| of(same_waits, "its longest waits"));
    match other {
        None => Ok(()),
        Some(what) => Err(Error::new(
            ErrorKind::CheckFailed,
            format!("simulated again, the run is another one than the stored: {what} differs"),
        )
        .help("this build does not simulate as the one that made the run; make it anew, with --keep-events to keep its events")),
    }
}

/// The cast of a simulated run.
pub(crate) fn cast(machine: &Machine, built: &Built, names: &[TaskName], release: String, end: Ns) -> Cast {
    // The first task of each part of a workload leads the part's process.
    let mut leaders: BTreeMap<u64, u32> = BTreeMap::new();
    let actor = |(at, name): (usize, &TaskName)| {
        let tid = FIRST_TID + at as u32;
        let Some(task) = built.tasks.get(at) else {
            // A task of the machine.
            let name = name.name.clone();
            return Actor { name, tid, process: tid, background: true, prio: NICE_0, group: None };
        };
        let leader = *leaders.entry(task.part).or_insert(tid);
        let prio = match task.attr.policy {
            Policy::Fifo | Policy::Rr => 99 - i32::from(task.attr.rt_priority),
            Policy::Deadline => -1,
            _ => NICE_0 + i32::from(task.attr.nice),
        };
        Actor {
            name: name.name.clone(),
            tid,
            process: if built.processes { tid } else { leader },
            background: name.background,
            prio,
            group: (task.group != ROOT_GROUP).then(|| built.groups[task.group.index()].path.clone()),
        }
    };
    let tasks = names.iter().enumerate().map(actor).collect();
    Cast { tasks, cpus: machine.topology.nr_cpus(), release, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_run_is_refused_and_named() {
        let stored = Findings {
            duration: Ns(10),
            counters: [("migrations".to_owned(), 3), ("sim.events".to_owned(), 9)].into(),
            ..Findings::default()
        };
        let again = |migrations| Findings {
            duration: Ns(10),
            counters: [("migrations".to_owned(), migrations)].into(),
            ..Findings::default()
        };
        assert!(check_same(&stored, &again(3)).is_ok());
        let e = check_same(&stored, &again(4)).unwrap_err();
        assert!(e.message().contains("migrations differs"), "{e}");
        let longer = Findings { duration: Ns(11), ..again(3) };
        assert!(check_same(&stored, &longer).unwrap_err().message().contains("its length"));
    }
    #[test]
    fn stays_may_have_other_reasons_in_a_run_that_is_explained_and_no_other_number() {
        let of = |counters: &[(&str, u64)]| Findings {
            counters: counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            ..Findings::default()
        };
        let stored = of(&[("slice.end.blocked", 2), ("slice.end.preempted", 5)]);
        let asked = ("rules.choices", 1);
        let again = [("slice.end.blocked", 2), ("slice.end.wakeup", 4), ("slice.end.slice", 1), asked];
        assert!(check_same(&stored, &of(&again)).is_ok());
        let fewer = of(&[("slice.end.blocked", 2), ("slice.end.wakeup", 4), asked]);
        assert!(check_same(&stored, &fewer).unwrap_err().message().contains("slice.* differs"));
        let slept = of(&[("slice.end.blocked", 3), ("slice.end.wakeup", 4), asked]);
        assert!(check_same(&stored, &slept).unwrap_err().message().contains("slice.end.blocked differs"));
    }
}
