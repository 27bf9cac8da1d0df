//! The counters of /proc/schedstat, incremented in the same places as in the kernel (`stats.h`, kernels 3.4 to 6.5).
//!
//! A wakeup is counted on the waker's CPU, wherever the task goes; for a timer that is the CPU on which it fires.
//! `run_delay` is the time from being queued to arriving on the CPU (`sched_info`), `rq_cpu_time` that from arriving to
//! departing. Both use the instants at which `schedule()` decides, so the time of the switch belongs to the next task.

use crate::balance::settle::PassOutcome;
use crate::balance::state::Pass;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;
use schedlab_record::schedstat::{Balance, DomainStat, IdleType};
use schedlab_trace::BalanceTrigger;

/// The idle type under which a pass is counted.
fn idle_type(trigger: BalanceTrigger) -> IdleType {
    match trigger {
        BalanceTrigger::Newidle => IdleType::Newidle,
        BalanceTrigger::Idle | BalanceTrigger::Nohz => IdleType::Idle,
        BalanceTrigger::Busy => IdleType::Busy,
    }
}

impl System<'_> {
    /// Counts a call of `schedule()` on `cpu`, which is about to pick. Counting here rather than at its beginning puts
    /// it in the same window as its pick.
    #[inline]
    pub fn count_schedule(&mut self, cpu: CpuId) {
        self.accounts.schedstat.cpus[cpu.index()].counters.sched_count += 1;
    }

    /// A task is queued: it waits from now on, unless it waits already (`sched_info_enqueue`).
    #[inline]
    pub fn count_queued(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        if t.queued_at == 0 {
            t.queued_at = self.now.max(1);
        }
    }

    /// A task leaves its queue, where its wait counts (`sched_info_dequeue`).
    #[inline]
    pub fn count_dequeued(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        let queued_at = std::mem::take(&mut t.queued_at);
        if queued_at != 0 {
            let cpu = t.cpu.index();
            debug_assert!(
                queued_at <= self.now.max(1),
                "{task:?} waits since {queued_at}, after {}",
                self.now
            );
            let waited_ns = self.now.saturating_sub(queued_at.max(self.board.counted_from));
            self.accounts.schedstat.cpus[cpu].counters.run_delay += waited_ns;
            if let Some((machine, _)) = self.board.threads[task].vcpu() {
                self.board.nested[machine].counted.steal_ns += waited_ns;
            }
        }
    }

    /// `prev` departs from `cpu` and `next` arrives; `stayed_ns` is how long `prev` had the CPU.
    #[inline]
    pub fn count_switch(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>, stayed_ns: u64) {
        if let Some(p) = prev {
            self.accounts.schedstat.cpus[cpu.index()].counters.rq_cpu_time += stayed_ns;
            if self.tasks[p].on_rq {
                self.count_queued(p);
            }
        }
        let Some(n) = next else {
            self.accounts.schedstat.cpus[cpu.index()].counters.sched_goidle += 1;
            return;
        };
        self.count_dequeued(n);
        self.accounts.schedstat.cpus[cpu.index()].counters.pcount += 1;
    }

    /// A wakeup by `by` has chosen `to` (`ttwu_stat`). `affine`: the domain of `by` in which `wake_affine` chose the
    /// waking CPU, counted with the wakeup so that both count in the same window.
    #[inline]
    pub fn count_wakeup(&mut self, by: CpuId, to: CpuId, affine: Option<u8>) {
        let cpu = &mut self.accounts.schedstat.cpus[by.index()];
        cpu.counters.ttwu_count += 1;
        if let Some(domain) = affine.and_then(|level| cpu.domains.get_mut(usize::from(level))) {
            domain.counters.ttwu_move_affine += 1;
        }
        if by == to {
            cpu.counters.ttwu_local += 1;
        } else if let Some(domain) = cpu.domains.iter_mut().find(|d| d.span.contains(to)) {
            domain.counters.ttwu_wake_remote += 1;
        }
    }

    /// Counts a pass that has ended. All its counts are made at this instant, so that the relations between counters
    /// always hold: a pass in progress at the end of the warm-up counts in the window in which it ends, one in progress
    /// at the end of the run does not count.
    pub fn count_pass(&mut self, p: &Pass, outcome: PassOutcome) {
        let scans = u64::from(p.groups_read()) * u64::from(self.has(Feature::LbSgScan));
        let lb = self.lb(p);
        lb.lb_count += 1;
        lb.lb_sg_scan += scans;
        lb.lb_balanced += u64::from(matches!(outcome, PassOutcome::Balanced { .. }));
    }

    /// The counters of the domain that a pass balances.
    #[inline]
    pub fn lb_domain(&mut self, p: &Pass) -> &mut DomainStat {
        &mut self.accounts.schedstat.cpus[p.dst.index()].domains[p.level]
    }
    /// The balance counters of a pass: by its CPU, its domain and its kind.
    #[inline]
    pub fn lb(&mut self, p: &Pass) -> &mut Balance {
        let kind = idle_type(p.trigger) as usize;
        &mut self.lb_domain(p).lb[kind]
    }
}
