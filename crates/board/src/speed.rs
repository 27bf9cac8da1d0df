//! The speed of a CPU: a fraction of a fastest CPU's (its capacity), less while a sibling is not halted.
//!
//! Times of user work are measured on a fastest CPU alone on its core. Costs of kernel paths are the machine's own and
//! do not depend on the CPU.

/// The capacity of a fastest CPU, and the fixed point of every ratio of capacities (`SCHED_CAPACITY_SCALE`).
pub const SCALE: u64 = 1024;

/// A CPU's speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed {
    /// Per cent left while a sibling is busy.
    pct: u64,
    /// The CPU's capacity.
    capacity: u64,
}

impl Speed {
    /// A fastest CPU, alone on its core.
    pub const FULL: Speed = Speed { pct: 100, capacity: SCALE };

    /// `pct` per cent of a CPU of that capacity.
    pub fn of(pct: u64, capacity: u64) -> Speed {
        debug_assert!(pct <= 100 && capacity <= SCALE, "a CPU runs at {pct} % of {capacity} of {SCALE}");
        Speed { pct: pct.max(1), capacity: capacity.max(1) }
    }
    /// Whether a sibling takes part of it.
    #[inline]
    pub fn is_shared(self) -> bool {
        self.pct < 100
    }
    /// The fraction of full speed, as numerator and denominator.
    #[inline]
    fn part(self) -> (u64, u64) {
        if self.capacity == SCALE { (self.pct, 100) } else { (self.pct * self.capacity, 100 * SCALE) }
    }
    /// Work done in that time, ns.
    #[inline]
    pub fn work(self, time_ns: u64) -> u64 {
        let (part, whole) = self.part();
        let work_ns = time_ns.saturating_mul(part) / whole;
        debug_assert!(work_ns <= time_ns, "{work_ns} ns of work are done in {time_ns}");
        work_ns
    }
    /// Time that the work takes, ns.
    #[inline]
    pub fn time(self, work_ns: u64) -> u64 {
        let (part, whole) = self.part();
        work_ns.saturating_mul(whole).div_ceil(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_of_half_the_capacity_takes_twice_the_time() {
        assert_eq!((Speed::FULL.time(1000), Speed::FULL.work(1000)), (1000, 1000));
        let half = Speed::of(100, 512);
        assert_eq!((half.time(1000), half.work(1000)), (2000, 500));
        let beside = Speed::of(60, 512);
        assert_eq!((beside.time(300), beside.work(1000)), (1000, 300));
        assert!(beside.is_shared() && !half.is_shared());
        let odd = Speed::of(100, 446);
        assert!(odd.work(odd.time(12_345)) >= 12_345, "a stretch ends when its work is done");
    }
}
