//! Changes of the CPUs that a task may use (`__set_cpus_allowed_ptr`), by the task's own call or from outside.
//!
//! A task that is queued or runs on a CPU that it may no longer use goes to a CPU of its new mask. Kernels since 5.7
//! spread such tasks: each CPU that changes masks remembers the CPU that it chose last, and takes the next one.

use crate::class::{Arrival, Dequeue, Enqueue};
use crate::system::System;
use crate::task::{QueueState, TaskState};
use schedlab_base::{CpuId, CpuSet, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_trace::{EventKind, MoveReason, SwitchReason};

/// The first CPU of `set` after the one chosen last, wrapping around (`cpumask_any_and_distribute`).
pub(crate) fn after(set: &CpuSet, last: CpuId) -> Option<CpuId> {
    set.iter().find(|c| *c > last).or_else(|| set.lowest())
}

impl System<'_> {
    /// The running task gets another mask, and leaves its CPU if that is not in it.
    pub(crate) fn take_cpus(&mut self, cpu: CpuId, curr: TaskId, allowed: Option<CpuSet>) {
        let to = self.choose_allowed(cpu, curr, allowed.as_ref());
        self.tasks[curr].allowed = allowed;
        self.set_cpus_allowed(curr);
        match to {
            Some(to) if !self.tasks[curr].may_run_on(cpu) => {
                self.cpus[cpu].push = Some((curr, to, MoveReason::Affinity));
                self.schedule(cpu, SwitchReason::Moved);
            }
            _ => self.returns(cpu),
        }
    }

    /// A task gets another mask from outside.
    pub(crate) fn allow(&mut self, task: TaskId, mask: u32) {
        let allowed = self.board.masks[mask as usize].clone();
        let (by, cpu) = (self.stepping.acting, self.tasks[task].cpu);
        let to = self.choose_allowed(by, task, Some(&allowed));
        let stays = allowed.contains(cpu);
        self.tasks[task].allowed = Some(allowed);
        self.emit_detail(cpu, EventKind::Allowed { task, mask });
        self.set_cpus_allowed(task);
        let Some(to) = to.filter(|_| !stays) else { return };
        if self.cpus[cpu].curr == Some(task) {
            // The stopper moves it.
            self.cpus[cpu].push = Some((task, to, MoveReason::Affinity));
            self.resched(by, cpu, SwitchReason::Moved);
            return;
        }
        if self.tasks[task].on_rq || self.is_delayed(task) {
            self.move_queued_task(by, task, to, MoveReason::Affinity);
        }
    }

    /// Moves a queued task. A delayed task remains asleep, and works off its lag on the new queue.
    pub(crate) fn move_queued_task(&mut self, by: CpuId, task: TaskId, to: CpuId, why: MoveReason) {
        let was = self.detach_task(task, to, why);
        self.attach_task(by, task, was);
    }

    /// Takes a task off its queue for another CPU (`detach_task`). Returns the state of its queueing, for
    /// [`Self::attach_task`].
    pub(crate) fn detach_task(&mut self, task: TaskId, to: CpuId, why: MoveReason) -> QueueState {
        debug_assert!(
            self.tasks[task].may_run_on(to),
            "{task:?} moves from its queue to {to}, which it may not use"
        );
        let from = self.tasks[task].cpu;
        self.update_rq_clock(from);
        let was = self.take_off(task);
        self.migrate_task(task, to);
        self.emit(to, EventKind::Migrate { task, from, why });
        was
    }

    /// Puts a detached task on the queue of its new CPU (`attach_task`).
    pub(crate) fn attach_task(&mut self, by: CpuId, task: TaskId, was: QueueState) {
        let to = self.tasks[task].cpu;
        let begun = self.begin_enqueue(to, self.now);
        if was == QueueState::Delayed {
            self.put_on_delayed(to, task);
        } else {
            self.tasks[task].state = TaskState::Runnable;
            self.activate_task(to, task, Enqueue::Moved);
        }
        if self.wakeup_preempt(to, Arrival { task, how: Enqueue::Moved, sync: false }) {
            self.resched_for(by, to, task, SwitchReason::Arrived);
        }
        self.end_enqueue(to, begun);
    }

    /// The CPU of a new mask to which a task goes if it must leave its own. `by` changes the mask, and remembers the
    /// choice even if the task stays.
    fn choose_allowed(&mut self, by: CpuId, task: TaskId, allowed: Option<&CpuSet>) -> Option<CpuId> {
        if self.tasks[task].allowed.as_ref() == allowed {
            return None;
        }
        if !self.fixed.history.affinity_distributes {
            return allowed.and_then(CpuSet::lowest);
        }
        let last = self.cpus[by].distributed;
        let chosen = match allowed {
            Some(allowed) => after(allowed, last)?,
            None => CpuId((last.0 + 1) % self.nr_cpus() as u32),
        };
        self.cpus[by].distributed = chosen;
        Some(chosen)
    }

    /// Takes a task off its queue, or from the tasks that wait for quota (limbo, where `on_rq` stays set). Returns the
    /// state of its queueing.
    pub(crate) fn take_off(&mut self, task: TaskId) -> QueueState {
        let queue = self.entity(task).cfs_rq;
        if self.is_delayed(task) {
            self.take_off_delayed(task);
            return QueueState::Delayed;
        }
        let limbo = &mut self.fair.group_rqs[queue].limbo;
        if let Some(at) = limbo.iter().position(|t| *t == task) {
            limbo.remove(at);
            return QueueState::Waits;
        }
        if !self.tasks[task].on_rq {
            return QueueState::No;
        }
        let runs = self.cpus[self.tasks[task].cpu].curr == Some(task);
        self.deactivate_task(task, Dequeue::Move);
        if runs { QueueState::Runs } else { QueueState::Waits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::{new_hog, with_system};

    #[test]
    fn cpus_of_a_mask_take_turns_since_5_7() {
        let set: CpuSet = [0, 1, 3].map(CpuId).into_iter().collect();
        let turns = [0, 1, 2, 3].map(|last| after(&set, CpuId(last)).map(|c| c.0));
        assert_eq!(turns, [Some(1), Some(3), Some(3), Some(0)], "the first choice skips CPU 0");
        for (version, wanted) in [("v5.4", [1, 1, 1]), ("v6.1", [1, 2, 3])] {
            with_system(version, |sys| {
                let task = crate::run::add(sys, new_hog());
                let mask = |from| Some((from..4).map(CpuId).collect::<CpuSet>());
                let chosen = [1, 1, 1].map(|from| sys.choose_allowed(CpuId(0), task, mask(from).as_ref()));
                assert_eq!(chosen.map(|c| c.map(|c| c.0)), wanted.map(Some), "{version}");
            });
        }
    }
}
