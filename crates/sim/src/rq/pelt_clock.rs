//! The clock of a CPU's load averages (`clock_pelt`, `lost_idle_time`; 5.1, read in 6.1.192).
//!
//! While a CPU of less than full capacity runs a task, the clock is proportionally slower. So an average shows how busy
//! a CPU of full capacity would have been. When the CPU goes idle, its clock catches up, and the averages decay. If the
//! CPU had no idle time at all, the lag of its clock is lost.

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

    /// The capacity with which a running task counts in utilisation: 1024 if the clock is scaled instead.
    #[inline]
    pub fn util_share(&self, cpu: CpuId) -> u64 {
        if self.fixed.scales_time { SCALE } else { self.board.speed[cpu] }
    }

    /// A CPU switches from idle to a task, or from a task to idle.
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
