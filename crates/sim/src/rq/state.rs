//! State: the facts about a runqueue that other CPUs read. Each fact has its own vector, because scans read one fact of
//! many CPUs.
//!
//! Only this room writes it: a class counts a task with `add_nr_running`, and `refresh_idle` follows.

use super::pelt_lag::PeltLag;
use schedlab_base::{Arena, CpuId};

/// The facts, by CPU.
pub struct Rqs {
    pub(super) nr_running: Arena<CpuId, u32>,
    /// Of these, the SCHED_IDLE ones, including delayed ones (`cfs.h_nr_idle`, earlier `idle_h_nr_running`).
    pub(super) nr_sched_idle: Arena<CpuId, u32>,
    /// `idle_cpu()`: idle task current, nothing runnable, wake list empty.
    pub(super) idle: Arena<CpuId, bool>,
    /// The lag of the clock of the load averages.
    pub(super) pelt_lag: Arena<CpuId, PeltLag>,
}

impl Rqs {
    /// All CPUs are idle.
    pub fn new(nr_cpus: usize) -> Rqs {
        Rqs {
            nr_running: Arena::filled(0, nr_cpus),
            nr_sched_idle: Arena::filled(0, nr_cpus),
            idle: Arena::filled(true, nr_cpus),
            pelt_lag: Arena::filled(PeltLag::default(), nr_cpus),
        }
    }
    #[inline]
    pub fn nr_running(&self, cpu: CpuId) -> u32 {
        self.nr_running[cpu]
    }
    #[inline]
    pub fn is_idle(&self, cpu: CpuId) -> bool {
        self.idle[cpu]
    }
    /// `nr_running` and whether it reads as idle, of all CPUs.
    #[inline]
    pub fn by_cpu(&self) -> (&[u32], &[bool]) {
        (&self.nr_running, &self.idle)
    }
    /// The sum of `nr_running` over all CPUs.
    pub fn all_running(&self) -> u32 {
        self.nr_running.iter().sum()
    }
    /// Stops counting `tasks` throttled tasks of `cpu`, `idle` of which are SCHED_IDLE.
    pub fn hide(&mut self, cpu: CpuId, tasks: u32, idle: u32) {
        debug_assert!(tasks <= self.nr_running[cpu], "{cpu} hides {tasks} of {} tasks", self.nr_running[cpu]);
        let all_idle = self.nr_sched_idle[cpu];
        debug_assert!(idle <= all_idle, "{cpu} hides {idle} of {all_idle} SCHED_IDLE tasks");
        self.nr_running[cpu] -= tasks;
        self.nr_sched_idle[cpu] -= idle;
        self.assert_counts(cpu);
    }
    /// Counts them again.
    pub fn show(&mut self, cpu: CpuId, tasks: u32, idle: u32) {
        self.nr_running[cpu] += tasks;
        self.nr_sched_idle[cpu] += idle;
        self.assert_counts(cpu);
    }
    /// Asserts that the SCHED_IDLE tasks are some of the running ones.
    #[inline]
    pub(super) fn assert_counts(&self, cpu: CpuId) {
        let (idle, all) = (self.nr_sched_idle[cpu], self.nr_running[cpu]);
        debug_assert!(idle <= all, "{cpu} counts {idle} SCHED_IDLE tasks among {all}");
    }
    #[inline]
    pub fn add_sched_idle(&mut self, cpu: CpuId, tasks: u32) {
        self.nr_sched_idle[cpu] += tasks;
    }
    #[inline]
    pub fn sub_sched_idle(&mut self, cpu: CpuId, tasks: u32) {
        let all = self.nr_sched_idle[cpu];
        debug_assert!(tasks <= all, "{tasks} of {all} SCHED_IDLE tasks leave {cpu}");
        self.nr_sched_idle[cpu] -= tasks;
    }
    /// Sets the facts of a CPU directly, without any tasks.
    #[cfg(test)]
    pub fn set(&mut self, cpu: CpuId, nr_running: u32, nr_sched_idle: u32, idle: bool) {
        self.nr_running[cpu] = nr_running;
        self.nr_sched_idle[cpu] = nr_sched_idle;
        self.idle[cpu] = idle;
    }
}
