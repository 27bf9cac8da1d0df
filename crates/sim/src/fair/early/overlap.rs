//! How soon a task wakes others, and how long it continues to run after that (2.6.30: `avg_wakeup`, `avg_overlap`).
//!
//! Both are moving averages (1/8) of CPU time, ns. A task that sleeps without having woken another counts as if it had
//! needed a whole wakeup granularity to do so. A new task also starts with that value. In 2.6.30 and 2.6.31 the overlap
//! is also updated when a preemption ends a turn, by at most two migration costs: otherwise a task that never sleeps
//! would keep the overlap of its last sleep.

/// A task's record of its wakeups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overlap {
    /// Mean CPU time until it wakes another task, ns.
    pub avg_wakeup_ns: u64,
    /// Mean CPU time from its last wakeup of another task until it sleeps, ns.
    pub avg_overlap_ns: u64,
    /// Its CPU time at its last wakeup of another task since it slept; 0 if there was none.
    last_wakeup: u64,
    /// Its CPU time when it was last woken.
    start: u64,
}

/// Moves by one eighth of the difference; a negative difference is shifted, which rounds down.
fn step(avg: &mut u64, sample: u64) {
    let diff = (i128::from(sample) - i128::from(*avg)) >> 3;
    *avg = (i128::from(*avg) + diff) as u64;
}

impl Overlap {
    /// The record of a new task.
    pub fn new(wakeup_granularity_ns: u64) -> Overlap {
        Overlap { avg_wakeup_ns: wakeup_granularity_ns, ..Overlap::default() }
    }
    /// The task was woken, having used `sum_exec_ns` so far.
    pub fn woken(&mut self, sum_exec_ns: u64) {
        self.start = sum_exec_ns;
    }
    /// The task has woken another one.
    pub fn wakes(&mut self, sum_exec_ns: u64) {
        let since = if self.last_wakeup > 0 { self.last_wakeup } else { self.start };
        step(&mut self.avg_wakeup_ns, sum_exec_ns - since);
        self.last_wakeup = sum_exec_ns;
    }
    /// The task stops running `ran_ns` after it was picked, but does not sleep. At most two migration costs count.
    pub fn preempted(&mut self, ran_ns: u64, migration_cost_ns: u64) {
        step(&mut self.avg_overlap_ns, ran_ns.min(2 * migration_cost_ns));
    }
    /// The task goes to sleep.
    pub fn sleeps(&mut self, sum_exec_ns: u64, wakeup_granularity_ns: u64) {
        match std::mem::take(&mut self.last_wakeup) {
            0 => step(&mut self.avg_wakeup_ns, wakeup_granularity_ns),
            at => step(&mut self.avg_overlap_ns, sum_exec_ns - at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAN: u64 = 10_000_000;

    #[test]
    fn a_task_that_wakes_no_other_has_the_whole_granularity() {
        let mut o = Overlap::new(GRAN);
        for cycle in 0..100u64 {
            o.woken(cycle * 20_000);
            o.sleeps((cycle + 1) * 20_000, GRAN);
        }
        assert_eq!((o.avg_wakeup_ns, o.avg_overlap_ns), (GRAN, 0));
    }

    #[test]
    fn a_turn_that_a_preemption_ends_counts_as_two_migration_costs_at_most() {
        let mut o = Overlap::new(GRAN);
        o.preempted(5_000_000, 500_000);
        assert_eq!(o.avg_overlap_ns, 125_000);
        o.preempted(45_000, 500_000);
        assert_eq!(o.avg_overlap_ns, 115_000);
    }

    #[test]
    fn time_to_the_wakeup_and_after_it_are_averaged_by_an_eighth() {
        let mut o = Overlap::new(8_000);
        o.woken(100);
        o.wakes(100 + 800);
        assert_eq!(o.avg_wakeup_ns, 7_100, "8000 + (800 - 8000) / 8");
        o.wakes(900 + 7_100);
        assert_eq!(o.avg_wakeup_ns, 7_100, "the second counts from the first");
        o.sleeps(8_000 + 80, 8_000);
        assert_eq!((o.avg_overlap_ns, o.avg_wakeup_ns), (10, 7_100), "it has woken: no granularity is added");
        o.sleeps(9_000, 7_099);
        assert_eq!(o.avg_wakeup_ns, 7_099, "falling rounds down");
    }
}
