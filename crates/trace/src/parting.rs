//! Finds the first instant at which the scheduler acts differently in two runs of the same programs.
//!
//! Compared are: the task on each CPU, the CPU of each wakeup, and moves. CPUs that act at one instant have no order in
//! time, so the actions of an instant are a set. Of each CPU's switches only the first and the last task count, since
//! tasks in between took no time. A kernel's own threads count as idle, because only backend code has them. A task that
//! is taken off a CPU to move runs on elsewhere without a wakeup (`__migrate_task`); our rules have an event for it,
//! which is ignored.

use crate::{Event, EventKind, SwitchReason};
use schedlab_base::{CpuId, Ns, TaskId};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

/// An action of the scheduler at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Deed {
    /// The CPU switched from `before` to `after`; `None`: no task of the workload.
    Switched {
        cpu: CpuId,
        before: Option<TaskId>,
        after: Option<TaskId>,
    },
    /// The task woke up, or began, on the CPU's queue.
    Woken {
        task: TaskId,
        cpu: CpuId,
    },
    Moved {
        task: TaskId,
        from: CpuId,
        to: CpuId,
    },
}

/// The first instant at which two runs differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parting {
    pub at: Ns,
    /// The deeds at that instant in only one of the runs, with their reasons.
    pub deeds: [Vec<(Deed, &'static str)>; 2],
}

impl Parting {
    /// The kinds of each run's own deeds with their reasons, in words, without repetitions.
    pub fn kinds(&self) -> [String; 2] {
        self.deeds.each_ref().map(|deeds| {
            let mut kinds: Vec<String> = deeds.iter().map(|(deed, why)| kind(deed, why)).collect();
            kinds.sort();
            kinds.dedup();
            if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
        })
    }
}

fn kind(deed: &Deed, why: &str) -> String {
    match deed {
        Deed::Switched { after: None, .. } => format!("to idle ({why})"),
        Deed::Switched { before: None, .. } => "from idle".to_owned(),
        Deed::Switched { .. } => format!("switch ({why})"),
        Deed::Woken { .. } => "wakeup".to_owned(),
        Deed::Moved { .. } => format!("move ({why})"),
    }
}

/// The first instant at which two runs differ, if any. Tasks from number `tasks` on are the kernel's own.
pub fn parting(runs: [&[Event]; 2], tasks: usize) -> Option<Parting> {
    let [one, other] = runs.map(in_order);
    let (mut one, mut other) = (Moments::of(&one, tasks), Moments::of(&other, tasks));
    let (mut a, mut b) = (one.next(), other.next());
    loop {
        let times = (a.as_ref().map_or(Ns(u64::MAX), |m| m.at), b.as_ref().map_or(Ns(u64::MAX), |m| m.at));
        let deeds = match (&a, &b) {
            (None, None) => return None,
            (Some(a), Some(b)) if a.at == b.at => [beyond(&a.deeds, &b.deeds), beyond(&b.deeds, &a.deeds)],
            _ if times.0 < times.1 => [a.take().unwrap_or_default().deeds, Vec::new()],
            _ => [Vec::new(), b.take().unwrap_or_default().deeds],
        };
        if deeds.iter().any(|deeds| !deeds.is_empty()) {
            return Some(Parting { at: times.0.min(times.1), deeds });
        }
        (a, b) = (one.next(), other.next());
    }
}

/// The events sorted by time; events of one time keep their order.
fn in_order(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    events.sort_by_key(|e| e.at);
    events
}

/// The deeds in `of` that are not in `known`; both are sorted.
fn beyond(of: &[(Deed, &'static str)], known: &[(Deed, &'static str)]) -> Vec<(Deed, &'static str)> {
    let mut left = known.iter().map(|(deed, _)| deed).peekable();
    let mut found = Vec::new();
    for one in of {
        while left.peek().is_some_and(|known| known.cmp(&&one.0) == Ordering::Less) {
            left.next();
        }
        if left.peek().is_some_and(|known| **known == one.0) {
            left.next();
        } else {
            found.push(*one);
        }
    }
    found
}

/// The deeds of one instant, sorted.
#[derive(Default)]
struct Moment {
    at: Ns,
    deeds: Vec<(Deed, &'static str)>,
}

/// Walks over a run's instants that have deeds.
struct Moments<'e> {
    events: &'e [Event],
    tasks: usize,
}

impl<'e> Moments<'e> {
    fn of(events: &'e [Event], tasks: usize) -> Moments<'e> {
        Moments { events, tasks }
    }
    fn next(&mut self) -> Option<Moment> {
        loop {
            let at = self.events.first()?.at;
            let (now, rest) = self.events.split_at(self.events.partition_point(|e| e.at == at));
            self.events = rest;
            let deeds = done(now, self.tasks);
            if !deeds.is_empty() {
                return Some(Moment { at, deeds });
            }
        }
    }
}

/// The deeds in the events of one instant.
fn done(events: &[Event], tasks: usize) -> Vec<(Deed, &'static str)> {
    let own = |task: &Option<TaskId>| task.filter(|task| task.index() < tasks);
    let known = |task: TaskId| task.index() < tasks;
    let mut switches: BTreeMap<CpuId, (Option<TaskId>, Option<TaskId>, &'static str)> = BTreeMap::new();
    let mut deeds = Vec::new();
    let mut moved = Vec::new();
    for event in events {
        match event.kind {
            EventKind::Switch { prev, next, why } => {
                moved.extend(prev.filter(|_| why == SwitchReason::Moved));
                let first = switches.entry(event.cpu).or_insert((own(&prev), None, why.name()));
                first.1 = own(&next);
            }
            EventKind::Enqueued { task, .. } if known(task) => {
                if let Some(at) = moved.iter().position(|of| *of == task) {
                    moved.swap_remove(at);
                    continue;
                }
                deeds.push((Deed::Woken { task, cpu: event.cpu }, ""));
            }
            EventKind::Migrate { task, from, why } if known(task) => {
                deeds.push((Deed::Moved { task, from, to: event.cpu }, why.name()));
            }
            _ => {}
        }
    }
    let switched = switches.into_iter().filter(|(_, (before, after, _))| before != after);
    deeds.extend(switched.map(|(cpu, (before, after, why))| (Deed::Switched { cpu, before, after }, why)));
    deeds.sort_unstable_by_key(|(deed, _)| *deed);
    deeds
}

/// The part of a run's sorted events around an instant: all of the instant, and at most `before` events before it.
pub fn around(events: &[Event], at: Ns, before: usize) -> Vec<Event> {
    let events = in_order(events);
    let first = events.partition_point(|e| e.at < at);
    let range: Range<usize> = first.saturating_sub(before)..events.partition_point(|e| e.at <= at);
    events[range].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MoveReason, SwitchReason};

    fn switch(at: u64, cpu: u32, prev: Option<u32>, next: Option<u32>) -> Event {
        let why = SwitchReason::Blocked;
        let kind = EventKind::Switch { prev: prev.map(TaskId), next: next.map(TaskId), why };
        Event { at: Ns(at), cpu: CpuId(cpu), kind }
    }
    fn woken(at: u64, cpu: u32, task: u32) -> Event {
        let kind = EventKind::Enqueued { task: TaskId(task), nr_running: 1, new: false };
        Event { at: Ns(at), cpu: CpuId(cpu), kind }
    }

    #[test]
    fn the_order_of_cpus_at_one_instant_is_no_difference() {
        let one = [switch(5, 0, Some(0), None), woken(5, 1, 1), switch(5, 1, None, Some(1))];
        let other = [woken(5, 1, 1), switch(5, 1, None, Some(1)), switch(5, 0, Some(0), None)];
        assert_eq!(parting([&one, &other], 2), None);
    }

    #[test]
    fn a_stay_of_no_time_and_a_thread_of_the_kernel_are_no_difference() {
        let one = [switch(5, 0, Some(0), Some(7)), switch(5, 0, Some(7), Some(1))];
        let other = [switch(5, 0, Some(0), Some(1))];
        assert_eq!(parting([&one, &other], 2), None);
        assert_eq!(parting([&[woken(5, 0, 7)], &[]], 2), None, "a wakeup of the kernel's own thread");
        assert!(parting([&one, &other[..0]], 2).is_some());
    }

    #[test]
    fn a_running_task_that_is_moved_does_not_wake_up() {
        let moves = |why| {
            let kind = EventKind::Migrate { task: TaskId(1), from: CpuId(0), why };
            Event { at: Ns(5), cpu: CpuId(1), kind }
        };
        let off = |why| {
            let kind = EventKind::Switch { prev: Some(TaskId(1)), next: None, why };
            Event { at: Ns(5), cpu: CpuId(0), kind }
        };
        let rules = [off(SwitchReason::Moved), moves(MoveReason::Active), woken(5, 1, 1)];
        let code = [off(SwitchReason::Preempted), moves(MoveReason::Active)];
        assert_eq!(parting([&code, &rules], 2), None);
        let slept = [off(SwitchReason::Blocked), moves(MoveReason::Active), woken(5, 1, 1)];
        assert_eq!(parting([&code, &slept], 2).unwrap().kinds(), ["nothing", "wakeup"]);
    }

    #[test]
    fn the_first_difference_is_found_and_named() {
        let moved = |to: u32| {
            let kind = EventKind::Migrate { task: TaskId(1), from: CpuId(0), why: MoveReason::Newidle };
            Event { at: Ns(8), cpu: CpuId(to), kind }
        };
        let one = [woken(3, 0, 0), moved(1), switch(9, 0, Some(0), None)];
        let other = [woken(3, 0, 0), moved(2)];
        let found = parting([&one, &other], 2).unwrap();
        assert_eq!(found.at, Ns(8), "the same until then");
        assert_eq!(found.kinds(), ["move (newidle)", "move (newidle)"]);
        let found = parting([&one[..1], &other], 2).unwrap();
        assert_eq!(found.kinds(), ["nothing", "move (newidle)"]);
        assert_eq!(around(&one, Ns(8), 1), one[..2]);
    }
}
