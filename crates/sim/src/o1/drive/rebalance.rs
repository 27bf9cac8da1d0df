//! The tick's part of balancing (`rebalance_tick`): which domains of a CPU are due.
//!
//! Every CPU balances its own domains, from the lowest up, at its own ticks. The kernel does so in the tick's
//! interrupt; here it is a softirq directly after it, in which other interrupts may come.

use crate::balance::interval::ms_to_jiffies;
use crate::system::System;
use schedlab_base::CpuId;

/// NR_CPUS of that time, at least: it spreads the CPUs' passes over a second.
const NR_CPUS: u64 = 8;

/// The CPU's offset from others, ticks (`CPU_OFFSET`), so that passes of several CPUs do not begin at the same tick.
pub(crate) fn cpu_offset(cpu: CpuId, hz: u64, nr_cpus: usize) -> u64 {
    hz * u64::from(cpu.0) / NR_CPUS.max(nr_cpus as u64)
}

impl System<'_> {
    /// The tick raises the softirq if a domain of `cpu` is due.
    pub(crate) fn o1_rebalance_tick(&mut self, cpu: CpuId) {
        let idle = self.cpus[cpu].curr.is_none();
        let due = (0..self.cpus[cpu].levels.len()).any(|level| self.o1_is_due(cpu, level, idle).is_some());
        self.cpus[cpu].softirq |= due;
    }

    /// The interval of a domain that is due, ticks; `None` if it is not due.
    fn o1_is_due(&self, cpu: CpuId, level: usize, idle: bool) -> Option<u64> {
        let hz = self.fixed.kernel.tunables.hz;
        let params = &self.fixed.domains.of_cpu[cpu][level].params;
        let state = &self.cpus[cpu].levels[level];
        let factor = if idle { 1 } else { u64::from(params.busy_factor) };
        let interval = ms_to_jiffies(u64::from(state.state.interval_ms) * factor, hz).max(1);
        let now = self.jiffies() + cpu_offset(cpu, hz, self.nr_cpus());
        (now.saturating_sub(state.last_balance) >= interval).then_some(interval)
    }

    /// Whether a domain is due. If so, its last balance is set to one interval after the previous one, not to now.
    pub(crate) fn o1_takes_turn(&mut self, cpu: CpuId, level: usize, idle: bool) -> bool {
        let interval = self.o1_is_due(cpu, level, idle);
        self.cpus[cpu].levels[level].last_balance += interval.unwrap_or(0);
        interval.is_some()
    }

    /// Whether a pass over the threads of a core has found another of them busy. Since 2.6.13 the CPU then counts as
    /// busy for the domains above, and a newidle balance ends there. A CPU about to go idle is not idle itself.
    pub(crate) fn o1_counts_as_busy(&self, cpu: CpuId, level: usize) -> bool {
        let domain = &self.fixed.domains.of_cpu[cpu][level];
        self.fixed.history.o1
            && domain.params.share_capacity
            && !self.fixed.history.idle_pulls_hot
            && domain.cpus.iter().any(|c| self.cpus[*c].curr.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_of_cpus_are_spread_over_a_second() {
        assert_eq!([0, 1, 7].map(|c| cpu_offset(CpuId(c), 1000, 2)), [0, 125, 875]);
        assert_eq!(cpu_offset(CpuId(1), 1000, 16), 62);
    }
}
