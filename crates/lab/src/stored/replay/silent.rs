//! Infers what a recording does not show: that a task was given more work while it was awake.
//!
//! A reader of a pipe sleeps when it has read everything. Between a wakeup and its next sleep it may read twenty
//! messages, but the recording shows one: nobody has to wake a reader that is awake. If these were replayed as one
//! burst, all twenty would be read as soon as the first is written, and the sleeps between them, which another order of
//! events brings about, could never happen. So such a burst is cut into *units*, and each unit after the first needs
//! something that one of the task's wakers gives.
//!
//! - A task's unit is the work that one wakeup gives: the median length of the bursts that had the least time to be
//!   given more, since their wakers ran least between the wakeup and the burst (the quarter with the least).
//! - Units are given by wakers that ran between the wakeup and the unit's beginning, evenly over the time that they
//!   ran. If none did, the wakeup itself also gave that unit (a writer that finds a drained pipe has room for many
//!   messages).
//!
//! The recorded order of events is always possible: everything is given before it is used.
//!
//! A burst has at most [`MOST_UNITS`] units, and a schedule at most [`MOST_IN_ALL`]. If a recording would have more,
//! several are given as one.

use super::lower::{Action, Mark, Stretch, TaskSoFar};
use schedlab_base::{Ns, TaskId};
use schedlab_workload::replay::Step;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most units of a burst.
const MOST_UNITS: u64 = 1 << 16;
/// Most units of a schedule.
const MOST_IN_ALL: u64 = 1 << 22;

/// A burst that a task's wakeup began.
struct Burst {
    /// When it was woken.
    woken: Ns,
    /// Its work: beginning and end.
    from: u64,
    to: u64,
}

/// Adds steps that give and need units to the marks of the kept tasks. Returns the number of bursts that have fewer
/// units than were given; `None`: `stop` ended it.
pub fn add(seen: &mut [TaskSoFar], keeps: impl Fn(TaskId) -> bool, stop: &AtomicBool) -> Option<u64> {
    let mut more: Vec<(usize, Mark)> = Vec::new();
    let (mut coarse, mut left) = (0, MOST_IN_ALL);
    for task in (0..seen.len()).filter(|t| keeps(TaskId::from(*t))) {
        let wakers = wakers(&seen[task], &keeps);
        if wakers.is_empty() {
            continue;
        }
        let bursts = bursts(&seen[task], &keeps);
        let Some(unit) = unit(&bursts, &seen[task], &wakers, seen, stop) else { continue };
        for burst in &bursts {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let length = burst.to - burst.from;
            let wanted = length.saturating_add(unit / 2) / unit;
            let units = wanted.min(MOST_UNITS).min(left);
            coarse += u64::from(units < wanted);
            if units > 1 {
                left -= units;
                cut(task, burst, units, &wakers, seen, &mut more);
            }
        }
    }
    for (task, mark) in more {
        seen[task].marks.push(mark);
    }
    for task in seen {
        task.marks.sort_by_key(|m| (m.work, m.at));
    }
    Some(coarse)
}

/// The tasks that ended a sleep of this one.
fn wakers(task: &TaskSoFar, keeps: &impl Fn(TaskId) -> bool) -> Vec<usize> {
    let of = |m: &Mark| match m.action {
        Action::Awaits { waker, .. } if keeps(waker) => Some(waker.index()),
        _ => None,
    };
    let mut all: Vec<usize> = task.marks.iter().filter_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn bursts(task: &TaskSoFar, keeps: &impl Fn(TaskId) -> bool) -> Vec<Burst> {
    let mut all = Vec::new();
    let mut begun: Option<(Ns, u64)> = None;
    let end = Mark { work: task.work, at: Ns::MAX, action: Action::Step(Step::Sleep(Ns::ZERO)) };
    for mark in task.marks.iter().chain(std::iter::once(&end)) {
        let next = match mark.action {
            Action::Awaits { waker, .. } => Some((keeps(waker), mark.at)),
            Action::Step(Step::Sleep(_)) => Some((false, mark.at)),
            Action::Step(_) => None,
        };
        let Some((by_task, at)) = next else { continue };
        if let Some((woken, from)) = begun.take()
            && mark.work > from
        {
            all.push(Burst { woken, from, to: mark.work });
        }
        begun = by_task.then_some((at, mark.work));
    }
    all
}

/// The stretches of a task between two times.
fn within(task: &TaskSoFar, from: Ns, to: Ns) -> impl Iterator<Item = Stretch> {
    let first = task.stretches.partition_point(|s| s.to <= from);
    task.stretches[first..].iter().take_while(move |s| s.from < to).copied()
}

/// When a task had done that much work.
fn time_of(task: &TaskSoFar, work: u64) -> Ns {
    let at = task.stretches.partition_point(|s| s.end_work() <= work);
    task.stretches.get(at).or(task.stretches.last()).map_or(Ns::ZERO, |s| s.time_of(work))
}

/// The work that one wakeup gives a task: the median of the bursts that had the least time to be given more.
fn unit(
    bursts: &[Burst],
    task: &TaskSoFar,
    wakers: &[usize],
    seen: &[TaskSoFar],
    stop: &AtomicBool,
) -> Option<u64> {
    let waited = |b: &Burst| {
        if stop.load(Ordering::Relaxed) {
            return 0;
        }
        let began = time_of(task, b.from);
        let ran = |w: &usize| -> u64 {
            let clipped = |s: Stretch| s.to.min(began).since(s.from.max(b.woken)).0;
            within(&seen[*w], b.woken, began).map(clipped).sum()
        };
        wakers.iter().map(ran).sum::<u64>()
    };
    let mut all: Vec<(u64, u64)> = bursts.iter().map(|b| (waited(b), b.to - b.from)).collect();
    all.sort_unstable();
    // All that waited as little as the first quarter.
    let (most, _) = *all.get(all.len().saturating_sub(1) / 4)?;
    let mut lengths: Vec<u64> =
        all.iter().take_while(|(waited, _)| *waited <= most).map(|(_, l)| *l).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied()
}

/// Cuts a burst into units that were given one by one.
fn cut(
    task: usize,
    burst: &Burst,
    units: u64,
    wakers: &[usize],
    seen: &[TaskSoFar],
    more: &mut Vec<(usize, Mark)>,
) {
    let length = burst.to - burst.from;
    let begins = |n: u64| burst.from + length * n / units;
    let last = time_of(&seen[task], begins(units - 1));
    // The stretches of the wakers meanwhile, in order of time.
    let mut ran: Vec<(Ns, Ns, usize)> = Vec::new();
    for waker in wakers {
        let clip = |s: Stretch| (s.from.max(burst.woken), s.to.min(last), *waker);
        ran.extend(within(&seen[*waker], burst.woken, last).map(clip).filter(|(from, to, _)| from < to));
    }
    ran.sort_unstable();
    let mut walk = Walk::along(&ran);
    let total = walk.total();
    for n in 1..units {
        let used = time_of(&seen[task], begins(n));
        let by_then = walk.to(used);
        if by_then == 0 {
            continue;
        }
        // The place in the wakers' running time before the unit was used.
        let Some((waker, at)) = walk.place((total * n / units).min(by_then - 1)) else { continue };
        let Some(on) = within(&seen[waker], at, at.plus(Ns(1))).next() else { continue };
        more.push((waker, Mark { work: on.work_at(at), at, action: Action::Step(Step::Give(task)) }));
        more.push((task, Mark { work: begins(n), at: used, action: Action::Step(Step::Need) }));
    }
}

/// A walk along the times that wakers ran, as if they followed each other in the order of their beginnings.
struct Walk<'a> {
    ran: &'a [(Ns, Ns, usize)],
    /// The sum of all times before each.
    sums: Vec<u64>,
    /// The end of the walk so far. Later stretches are not there yet, and open ones end here.
    used: Ns,
    /// The number of stretches that have begun.
    begun: usize,
    /// The places of stretches that have not ended.
    open: Vec<usize>,
}

impl Walk<'_> {
    fn along(ran: &[(Ns, Ns, usize)]) -> Walk<'_> {
        let mut sums = vec![0];
        sums.extend(ran.iter().scan(0, |sum, (from, to, _)| {
            *sum += to.since(*from).0;
            Some(*sum)
        }));
        Walk { ran, sums, used: Ns::ZERO, begun: 0, open: Vec::new() }
    }
    /// The sum of all stretches.
    fn total(&self) -> u64 {
        self.sums[self.ran.len()]
    }
    /// Walks on to that time; returns how much the wakers have run by then.
    fn to(&mut self, used: Ns) -> u64 {
        self.used = used;
        while self.ran.get(self.begun).is_some_and(|(from, ..)| *from < used) {
            self.open.push(self.begun);
            self.begun += 1;
        }
        self.open.retain(|at| self.ran[*at].1 > used);
        let after: u64 = self.open.iter().map(|at| self.ran[*at].1.since(used).0).sum();
        self.sums[self.begun] - after
    }
    /// The waker and the time after this much running.
    fn place(&self, mut so_much: u64) -> Option<(usize, Ns)> {
        // The part of open stretches that is still to come is skipped.
        for &open in &self.open {
            let (from, to, _) = self.ran[open];
            if so_much < self.sums[open] + self.used.since(from).0 {
                break;
            }
            so_much += to.since(self.used).0;
        }
        let at = self.sums.partition_point(|sum| *sum <= so_much) - 1;
        let (from, _, waker) = *self.ran.get(at)?;
        Some((waker, from.plus(Ns(so_much - self.sums[at]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_the_places_that_a_search_from_the_beginning_finds() {
        let ran = [(0, 10, 1), (5, 100, 2), (20, 30, 1), (31, 32, 3), (32, 90, 1), (95, 99, 3)]
            .map(|(from, to, waker)| (Ns(from), Ns(to), waker));
        let mut walk = Walk::along(&ran);
        assert_eq!(walk.total(), 10 + 95 + 10 + 1 + 58 + 4);
        for used in [3, 5, 6, 10, 25, 31, 40, 89, 90, 97, 98, 100].map(Ns) {
            let length = |(from, to, _): &(Ns, Ns, usize)| (*to).min(used).0.saturating_sub(from.0);
            assert_eq!(walk.to(used), ran.iter().map(length).sum::<u64>(), "{used:?}");
            for so_much in 0..walk.to(used) {
                let mut left = so_much;
                let searched = ran.iter().find_map(|one| {
                    if left < length(one) {
                        return Some((one.2, one.0.plus(Ns(left))));
                    }
                    left -= length(one);
                    None
                });
                assert_eq!(walk.place(so_much), searched, "{so_much} of {used:?}");
            }
        }
    }
}
