//! Drives `capacity`: the capacity that real-time tasks leave, as balancing reads it.

use crate::rt::capacity::TakenTime;
use crate::system::System;
use crate::task::Class;
use schedlab_base::CpuId;

impl System<'_> {
    /// Capacity of a CPU for fair tasks, without the real-time tasks' part. 1024 is a whole CPU.
    #[inline]
    pub fn capacity_of(&self, cpu: CpuId) -> u64 {
        let whole = self.fixed.cpu_capacity[cpu];
        if self.rt.shared.any { self.capacity_left(cpu, whole) } else { whole }
    }

    fn capacity_left(&self, cpu: CpuId, whole: u64) -> u64 {
        let (history, taken) = (&self.fixed.history, self.rt.rqs[cpu].taken);
        let runs = self.cpus[cpu].curr.is_some_and(|c| self.class(c) == Class::Rt);
        let share = if runs { self.util_share(cpu) } else { 0 };
        match (history.rt_capacity, history.rt_average) {
            (false, _) => whole,
            (true, true) => taken.left(whole, self.cpu_pelt_clock(cpu), share),
            (true, false) => taken.left_by_time(whole, self.now),
        }
    }

    /// Sets the use of a CPU by real-time tasks and their number, in a state about which a question is asked.
    pub(crate) fn ask_beside_real_time(&mut self, cpu: CpuId, util: u64, nr: u32) {
        self.rt.shared.any = true;
        self.rt.rqs[cpu].taken = TakenTime::known(util, self.cpu_pelt_clock(cpu));
        self.rqs.show(cpu, nr, 0);
    }

    /// Capacity of a group of CPUs for fair tasks.
    #[inline]
    pub fn group_capacity(&self, group: u32) -> u64 {
        if !self.rt.shared.any {
            return self.fixed.group_capacity[group as usize];
        }
        self.fixed.domains.groups[group as usize].cpus.iter().map(|c| self.capacity_of(*c)).sum()
    }
}
