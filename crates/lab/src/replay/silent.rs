//! What a recording does not show: that a task which was awake was given more to do.
//!
//! A reader of a pipe sleeps when it has read all that was written. Between a wakeup and its next sleep it may read
//! twenty messages, of which the recording shows one: nobody need wake a reader that is awake. Replayed as one burst,
//! all twenty would be read as soon as the first is written, and the sleeps between them, which another order of events
//! brings about, could never happen. So such a burst is cut into *units*, and each unit but the first needs something
//! that one of the task's wakers gives.
//!
//! - A task's unit is what one wakeup gives: the median length of those bursts that had least time to be given more,
//!   since its wakers ran least between the wakeup and the burst (the quarter with the least).
//! - Units are given by wakers that ran between the wakeup and the unit's beginning, evenly over the time that they
//!   ran. If none did, the wakeup itself gave that unit, too (a writer that finds a drained pipe has room for many
//!   messages).
//!
//! The recorded order of events is always possible: everything is given before it was used.

use super::lower::{Mark, Own, Seen, Stretch};
use schedlab_base::{Ns, TaskId};
use schedlab_workload::replay::Step;

/// A burst that a task's wakeup began.
struct Burst {
    /// When it was woken.
    woken: Ns,
    /// Its work, from and to.
    from: u64,
    to: u64,
}

/// Adds steps that give and need to the marks of the kept tasks.
pub fn add(seen: &mut [Seen], keeps: impl Fn(TaskId) -> bool) {
    let mut more: Vec<(usize, Mark)> = Vec::new();
    for task in (0..seen.len()).filter(|t| keeps(TaskId::from(*t))) {
        let wakers = wakers(&seen[task], &keeps);
        if wakers.is_empty() {
            continue;
        }
        let bursts = bursts(&seen[task], &keeps);
        let Some(unit) = unit(&bursts, &seen[task], &wakers, seen) else { continue };
        for burst in &bursts {
            cut(task, burst, unit, &wakers, seen, &mut more);
        }
    }
    for (task, mark) in more {
        seen[task].marks.push(mark);
    }
    for task in seen {
        task.marks.sort_by_key(|m| (m.work, m.at));
    }
}

/// The tasks that ended a sleep of this one.
fn wakers(task: &Seen, keeps: &impl Fn(TaskId) -> bool) -> Vec<usize> {
    let of = |m: &Mark| match m.own {
        Own::Awaits { waker, .. } if keeps(waker) => Some(waker.index()),
        _ => None,
    };
    let mut all: Vec<usize> = task.marks.iter().filter_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn bursts(task: &Seen, keeps: &impl Fn(TaskId) -> bool) -> Vec<Burst> {
    let mut all = Vec::new();
    let mut begun: Option<(Ns, u64)> = None;
    let end = Mark { work: task.work, at: Ns::MAX, own: Own::Step(Step::Sleep(Ns::ZERO)) };
    for mark in task.marks.iter().chain(std::iter::once(&end)) {
        let next = match mark.own {
            Own::Awaits { waker, .. } => Some((keeps(waker), mark.at)),
            Own::Step(Step::Sleep(_)) => Some((false, mark.at)),
            Own::Step(_) => None,
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

/// The stretches of a task in a time.
fn within(task: &Seen, from: Ns, to: Ns) -> impl Iterator<Item = Stretch> {
    let first = task.stretches.partition_point(|s| s.to <= from);
    task.stretches[first..].iter().take_while(move |s| s.from < to).copied()
}

/// When a task had done so much work.
fn time_of(task: &Seen, work: u64) -> Ns {
    let at = task.stretches.partition_point(|s| s.end_work() <= work);
    task.stretches.get(at).or(task.stretches.last()).map_or(Ns::ZERO, |s| s.time_of(work))
}

/// The work that one wakeup gives a task: the median of the bursts that had least time to be given more.
fn unit(bursts: &[Burst], task: &Seen, wakers: &[usize], seen: &[Seen]) -> Option<u64> {
    let waited = |b: &Burst| {
        let began = time_of(task, b.from);
        let ran = |w: &usize| -> u64 {
            let clipped = |s: Stretch| s.to.min(began).since(s.from.max(b.woken)).0;
            within(&seen[*w], b.woken, began).map(clipped).sum()
        };
        wakers.iter().map(ran).sum::<u64>()
    };
    let mut all: Vec<(u64, u64)> = bursts.iter().map(|b| (waited(b), b.to - b.from)).collect();
    all.sort_unstable();
    // As many as waited as little as the first quarter.
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
    unit: u64,
    wakers: &[usize],
    seen: &[Seen],
    more: &mut Vec<(usize, Mark)>,
) {
    let length = burst.to - burst.from;
    let units = (length + unit / 2) / unit;
    if units < 2 {
        return;
    }
    let begins = |n: u64| burst.from + length * n / units;
    let last = time_of(&seen[task], begins(units - 1));
    // What the wakers did meanwhile, in the order of time.
    let mut ran: Vec<(Ns, Ns, usize)> = Vec::new();
    for waker in wakers {
        let clip = |s: Stretch| (s.from.max(burst.woken), s.to.min(last), *waker);
        ran.extend(within(&seen[*waker], burst.woken, last).map(clip).filter(|(from, to, _)| from < to));
    }
    ran.sort_unstable();
    let total: u64 = ran.iter().map(|(from, to, _)| to.0 - from.0).sum();
    for n in 1..units {
        let used = time_of(&seen[task], begins(n));
        let by_then: u64 = ran.iter().map(|(from, to, _)| (*to).min(used).0.saturating_sub(from.0)).sum();
        if by_then == 0 {
            continue;
        }
        let mut left = (total * n / units).min(by_then - 1);
        // The place in the wakers' running time before the unit was used.
        let place = ran.iter().find_map(|(from, to, waker)| {
            let length = (*to).min(used).0.saturating_sub(from.0);
            if left < length {
                return Some((*waker, from.plus(Ns(left))));
            }
            left -= length;
            None
        });
        let Some((waker, at)) = place else { continue };
        let Some(on) = within(&seen[waker], at, at.plus(Ns(1))).next() else { continue };
        more.push((waker, Mark { work: on.work_at(at), at, own: Own::Step(Step::Give(task)) }));
        more.push((task, Mark { work: begins(n), at: used, own: Own::Step(Step::Need) }));
    }
}
