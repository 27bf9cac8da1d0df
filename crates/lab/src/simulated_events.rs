//! Parts for the events of a simulated run outside the simulator: two sinks for one run, the cast, and the check that a
//! run made again is the stored one.

use schedlab_analyse::TaskName;
use schedlab_base::{Error, ErrorKind, Ns, Result, TaskId};
use schedlab_kernel::Policy;
use schedlab_machine::Machine;
use schedlab_record::{Findings, Wait};
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

/// Whether a counter or series gives reasons for decisions: a run of the kernel's own code has it only if it was made
/// to be explained.
fn is_of_reasons(name: &str) -> bool {
    ["placement.", "rules.", "slice."].iter().any(|begin| name.starts_with(begin))
}

/// A wait without the facts that only a run made to be explained has.
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
}
