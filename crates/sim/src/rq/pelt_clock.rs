//! The clock of a CPU's load averages (`clock_pelt`, `lost_idle_time`; 5.1, read in 6.1.192).
//!
//! While a CPU of less than full capacity runs a task, the clock is slower in proportion. So an average says what a
//! fastest CPU would have had to do. When the CPU goes idle, its clock catches up, and the averages decay. If the CPU
//! had no idle time left at all, what its clock lags behind is lost.

use crate::balance::capacity::SCALE;
use crate::system::System;
use schedlab_base::CpuId;

impl System<'_> {
    /// The clock of a CPU's load averages, ns.
    #[inline]
    pub fn cpu_pelt_clock(&self, cpu: CpuId) -> u64 {
        if !self.fixed.scales_time {
            return self.now;
        }
        self.now - self.rqs.pelt_lag[cpu].at(self.now, self.board.speed[cpu])
    }

    /// The capacity that a running task counts with in utilisation: 1024 where the clock is scaled instead.
    #[inline]
    pub fn util_share(&self, cpu: CpuId) -> u64 {
        if self.fixed.scales_time { SCALE } else { self.board.speed[cpu] }
    }

    /// A CPU is about to run a task after an idle time, or the other way round.
    pub fn switch_pelt_clock(&mut self, cpu: CpuId, to_task: bool) {
        if !self.fixed.scales_time {
            return;
        }
        let (now, capacity) = (self.now, self.board.speed[cpu]);
        if to_task {
            return self.rqs.pelt_lag[cpu].busy(now);
        }
        let saturated = self.fair.queues[self.root(cpu)].avg.is_saturated(self.rt.taken_util_sum(cpu));
        self.rqs.pelt_lag[cpu].idle(now, capacity, saturated);
    }
}
