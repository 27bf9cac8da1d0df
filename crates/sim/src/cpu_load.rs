//! `cpu_load[]`: five averages of a CPU's load, each slower than the one before, updated at ticks (until 5.0).
//!
//! At each tick index i moves by 1/2^i of the difference, so it covers about 2^i ticks; index 0 is the load at the last
//! tick. The balancer and the affine wakeup read a low estimate of a source CPU and a high one of a target CPU
//! (LB_BIAS), so that a brief change of load moves no task. Loads are the sums that the kernel's runqueues keep:
//! weights (to 3.7), then runnable averages. Time is in ticks.

/// The five averages of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuLoad {
    /// Fastest first.
    pub load: [u64; 5],
    /// The tick up to which the averages are valid.
    pub last_tick: u64,
}

impl CpuLoad {
    /// Adds the load at tick number `now_tick`. Ticks missed since the last update were tickless idle: load zero.
    pub fn tick(&mut self, now_tick: u64, load: u64) {
        if now_tick <= self.last_tick {
            return;
        }
        self.catch_up(now_tick - 1);
        self.advance(load);
        self.last_tick = now_tick;
    }

    /// Updates a CPU that was tickless idle: every tick missed, including `now_tick`, found no load.
    pub fn catch_up(&mut self, now_tick: u64) {
        let mut missed = now_tick.saturating_sub(self.last_tick);
        // Rounding down subtracts at least one from every average at each tick, and 1/16 from the slowest: a few
        // hundred rounds reach zero from any load, and then the loop ends.
        while missed > 0 && self.load != [0; 5] {
            self.advance(0);
            missed -= 1;
        }
        self.last_tick = self.last_tick.max(now_tick);
    }

    /// Adds one tick. A rising average rounds up, so that it reaches the load.
    fn advance(&mut self, load: u64) {
        for (i, average) in self.load.iter_mut().enumerate() {
            let new = if load > *average { load + (1 << i) - 1 } else { load };
            *average = (*average * ((1 << i) - 1) + new) >> i;
        }
    }
}

/// A low estimate of a CPU's load, for a CPU that tasks may leave: the lower of the average named by `idx` and the
/// current load. Index `idx` reads `load[idx - 1]`; at 0, or with LB_BIAS off, the result is the current load.
#[inline]
pub fn source_load(cpu: &CpuLoad, idx: u8, now_load: u64, lb_bias: bool) -> u64 {
    average(cpu, idx, lb_bias).map_or(now_load, |average| average.min(now_load))
}

/// A high estimate, for a CPU that tasks may join: the higher of the two.
#[inline]
pub fn target_load(cpu: &CpuLoad, idx: u8, now_load: u64, lb_bias: bool) -> u64 {
    average(cpu, idx, lb_bias).map_or(now_load, |average| average.max(now_load))
}

fn average(cpu: &CpuLoad, idx: u8, lb_bias: bool) -> Option<u64> {
    let at = usize::from(idx).checked_sub(1).filter(|_| lb_bias)?;
    cpu.load.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(loads: &[u64]) -> CpuLoad {
        let mut c = CpuLoad::default();
        loads.iter().enumerate().for_each(|(i, load)| c.tick(i as u64 + 1, *load));
        c
    }

    #[test]
    fn each_index_moves_by_its_power_of_two_and_rounds_up_when_rising() {
        assert_eq!(ticks(&[1024]).load, [1024, 512, 256, 128, 64]);
        assert_eq!(ticks(&[1024, 1024]).load, [1024, 768, 448, 240, 124]);
        assert_eq!(ticks(&[1]).load, [1; 5], "rounded up, or it would never rise");
        assert_eq!(ticks(&[1, 0]).load, [0; 5], "rounded down when falling");
        assert_eq!(ticks(&[1024; 300]).load, [1024; 5], "and it arrives");
    }

    #[test]
    fn idx_1_is_the_last_tick_idx_2_the_two_tick_mean_idx_3_that_of_four() {
        let c = ticks(&[4096, 0, 1000]);
        // Index 1 halves its distance: 4096/2 = 2048, 1024, (1024 + 1000) / 2.
        let high = |idx| target_load(&c, idx, 0, true);
        assert_eq!([high(1), high(2)], [1000, 1012]);
        // Index 2 takes a quarter of its own: 1024, 768, (3 * 768 + 1000 + 3) / 4.
        assert_eq!(high(3), 826);
    }

    #[test]
    fn a_source_reads_low_and_a_target_high_only_with_bias() {
        let c = ticks(&[2048]);
        assert_eq!((source_load(&c, 1, 1024, true), target_load(&c, 1, 1024, true)), (1024, 2048));
        assert_eq!((source_load(&c, 1, 4096, true), target_load(&c, 1, 4096, true)), (2048, 4096));
        assert_eq!((source_load(&c, 0, 1024, true), target_load(&c, 0, 1024, true)), (1024, 1024));
        assert_eq!((source_load(&c, 1, 4096, false), target_load(&c, 1, 1024, false)), (4096, 1024));
    }

    #[test]
    fn missed_ticks_count_as_idle() {
        let mut ticked = ticks(&[3072, 3072, 3072]);
        let mut away = ticked;
        (4..=9).for_each(|t| ticked.tick(t, 0));
        ticked.tick(10, 500);
        away.tick(10, 500);
        assert_eq!(away, ticked);
        let mut later = away;
        later.catch_up(10);
        assert_eq!(later, away, "no tick missed");
        later.catch_up(u64::MAX);
        assert_eq!((later.load, later.last_tick), ([0; 5], u64::MAX));
        let mut same = away;
        same.tick(10, 9999);
        assert_eq!(same, away, "a tick counts once");
    }
}
