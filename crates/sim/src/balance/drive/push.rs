//! Active balance: a running task is pushed to a CPU that found no task to take (`active_load_balance_cpu_stop`).
//!
//! Each generation has its own rule for when this happens (`average/active.rs`, `spare/active.rs`); the rest is the
//! same. The stopper's time (`active_balance_ns`) passes on the source before its next pick. Not modelled: the stopper
//! may take another task of the queue.

use crate::balance::settle::Active;
use crate::system::System;
use crate::task::Class;
use crate::task::TaskState;
use schedlab_base::{CpuId, TaskId};
use schedlab_record::schedstat::IdleType;
use schedlab_trace::{MoveReason, SwitchReason};

impl System<'_> {
    /// Sends the stopper to `src` to push its running task to `dst`. `idle`: the outcome if no fair task runs there.
    pub(crate) fn start_push(&mut self, by: CpuId, src: CpuId, dst: CpuId, idle: Active) -> Active {
        match self.cpus[src].curr {
            Some(curr) if !self.tasks[curr].may_run_on(dst) => Active::Pinned,
            Some(curr) if self.class(curr) == Class::Rt => idle,
            Some(_) if self.cpus[src].push.is_some() => Active::UnderWay,
            Some(curr) => {
                self.cpus[src].push = Some((curr, dst, MoveReason::Active));
                // The stopper counts on its runqueue: with a single task there are two.
                self.balance.overload |= self.rqs.nr_running(src) == 1;
                self.resched(by, src, SwitchReason::Moved);
                Active::Started
            }
            None => idle,
        }
    }

    /// The stopper runs on `src` to push a task to `to`. It is counted in the lowest domain of `to` that spans both,
    /// unless there is no runnable task at all. A task that may move counts as gained by an idle CPU, and the domain's
    /// failures are cleared (5.5+).
    pub fn count_active(&mut self, src: CpuId, to: CpuId, moves: bool) {
        let leaves = |t: TaskId| self.tasks[t].state != TaskState::Runnable;
        let leaving = self.cpus[src].curr.is_some_and(leaves);
        if self.rqs.nr_running(src) == u32::from(leaving) {
            return;
        }
        let spans = |d: &schedlab_machine::Domain| d.span.contains(src);
        let Some(level) = self.fixed.domains.of_cpu[to].iter().position(spans) else { return };
        let domain = &mut self.accounts.schedstat.cpus[to.index()].domains[level];
        domain.counters.alb_count += 1;
        domain.counters.alb_pushed += u64::from(moves);
        domain.counters.alb_failed += u64::from(!moves);
        domain.lb[IdleType::Idle as usize].lb_gained += u64::from(moves);
        if moves && self.looks_at_spare() {
            self.cpus[to].levels[level].state.nr_balance_failed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::{born, with_system};

    #[test]
    fn the_stopper_counts_as_a_second_task_and_takes_its_time() {
        with_system("v6.5", |sys| {
            let (src, dst) = (CpuId(0), CpuId(1));
            let task = born(sys, src);
            sys.pick_next_task(src, None);
            sys.cpus[src].curr = Some(task);
            sys.balance.overload = false;
            assert_eq!(sys.start_push(dst, src, dst, Active::Pinned), Active::Started);
            assert!(sys.balance.overload);
            sys.schedule(src, schedlab_trace::SwitchReason::Moved);
            let busy_ns = sys.cpus[src].task.ends - sys.now;
            assert!(busy_ns >= sys.fixed.machine.costs.active_balance_ns, "{busy_ns} ns");
        });
    }
}
