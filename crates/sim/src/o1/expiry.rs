//! The end of a slice, and turns within one (`scheduler_tick`, `EXPIRED_STARVING`).
//!
//! Times are ticks. An interactive task whose slice ends goes back to the active array, unless tasks in the expired one
//! have waited too long, or one there has a better nice value. During its slice it takes turns with tasks of the same
//! priority.

use super::bonus::Scale;
use super::prio;

/// A CPU's expired array, as the tick of its running task sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// How long the first task of the array has waited, ticks; `None` if none waits.
    pub since_ticks: Option<u64>,
    /// The best static priority in the array; 140 for none.
    pub best_static_prio: u8,
    /// Number of runnable tasks of the CPU.
    pub nr_running: u64,
}

/// Whether the expired array must not wait any longer for a task of this static priority. With n runnable tasks the
/// array waits at most n seconds.
pub fn starves(scale: Scale, static_prio: u8, waiting: &Waiting) -> bool {
    let too_long = |ticks: u64| ticks > scale.max_ticks() * waiting.nr_running;
    waiting.since_ticks.is_some_and(too_long) || static_prio > waiting.best_static_prio
}

/// The running task at a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs {
    pub static_prio: u8,
    pub prio: u8,
    /// Its average of sleep, ns.
    pub avg_ns: u64,
    /// Ticks left of its slice after this one.
    pub left: u64,
    /// Number of CPUs of the machine.
    pub nr_cpus: u64,
}

/// The effect of a tick on the running task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tick {
    GoesOn,
    /// It goes to the end of its list, with the rest of its slice.
    TakesTurns,
    /// Its slice is over: it stays in the active array with this priority and a new slice.
    StaysActive(u8),
    /// Its slice is over: it goes to the expired array with this priority and a new slice.
    Expires(u8),
}

pub fn tick(scale: Scale, runs: &Runs, waiting: &Waiting) -> Tick {
    if runs.left > 0 {
        let used = prio::slice(runs.static_prio, scale.hz).saturating_sub(runs.left);
        let turn = scale.granularity(runs.avg_ns, runs.nr_cpus);
        let ends = scale.is_interactive(runs.static_prio, runs.prio)
            && used.is_multiple_of(turn)
            && runs.left >= turn;
        return if ends { Tick::TakesTurns } else { Tick::GoesOn };
    }
    let prio = scale.prio(runs.static_prio, runs.avg_ns);
    if scale.is_interactive(runs.static_prio, prio) && !starves(scale, runs.static_prio, waiting) {
        Tick::StaysActive(prio)
    } else {
        Tick::Expires(prio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SCALE: Scale = Scale { hz: 1000, rounds_to_zero: true, multiplied: true };
    const NOBODY: Waiting = Waiting { since_ticks: None, best_static_prio: 140, nr_running: 3 };

    fn runs(avg_ms: u64, left: u64) -> Runs {
        let avg_ns = avg_ms * MS;
        Runs { static_prio: 120, prio: SCALE.prio(120, avg_ns), avg_ns, left, nr_cpus: 1 }
    }

    #[test]
    fn a_hog_expires_and_an_interactive_task_stays() {
        assert_eq!(tick(SCALE, &runs(0, 1), &NOBODY), Tick::GoesOn);
        assert_eq!(tick(SCALE, &runs(0, 0), &NOBODY), Tick::Expires(125));
        assert_eq!(tick(SCALE, &runs(1000, 0), &NOBODY), Tick::StaysActive(115));
    }

    #[test]
    fn an_interactive_task_expires_once_others_have_waited_a_second_for_each_task() {
        let since = |ticks| Waiting { since_ticks: Some(ticks), ..NOBODY };
        assert_eq!(tick(SCALE, &runs(1000, 0), &since(3_000)), Tick::StaysActive(115));
        assert_eq!(tick(SCALE, &runs(1000, 0), &since(3_001)), Tick::Expires(115));
        let better = Waiting { best_static_prio: 119, ..NOBODY };
        assert_eq!(tick(SCALE, &runs(1000, 0), &better), Tick::Expires(115));
        let equal = Waiting { best_static_prio: 120, ..NOBODY };
        assert_eq!(tick(SCALE, &runs(1000, 0), &equal), Tick::StaysActive(115));
    }

    #[test]
    fn interactive_tasks_take_turns_within_a_slice() {
        assert_eq!(tick(SCALE, &runs(1000, 90), &NOBODY), Tick::TakesTurns, "10 of 100 ms are used");
        assert_eq!(tick(SCALE, &runs(1000, 91), &NOBODY), Tick::GoesOn);
        assert_eq!(tick(SCALE, &runs(1000, 10), &NOBODY), Tick::TakesTurns, "a turn is left");
        assert_eq!(tick(SCALE, &runs(700, 60), &NOBODY), Tick::TakesTurns, "turns of 40 ms");
        assert_eq!(tick(SCALE, &runs(700, 20), &NOBODY), Tick::GoesOn, "less than a turn is left");
        assert_eq!(tick(SCALE, &runs(0, 90), &NOBODY), Tick::GoesOn);
    }
}
