//! Changes of task groups and of tasks during a run: shares (`sched_group_set_shares`), quotas
//! (`tg_set_cfs_bandwidth`), a task's move to another group (`sched_move_task`) and other CPUs for a group's tasks
//! ([`crate::affinity`]).
//!
//! They come from outside, like writes of a program that is not simulated, and take no CPU time. If a task is in a
//! wakeup, or on its way to another CPU, its locks are held: the change waits for it.

use super::bandwidth::Bandwidth;
use crate::class::{Arrival, Enqueue};
use crate::system::System;
use crate::task::{QueueState, TaskState};
use schedlab_base::{GroupId, TaskId};
use schedlab_board::engine::NEVER;
use schedlab_kernel::Limit;
use schedlab_trace::SwitchReason;
use schedlab_workload::{GroupDecl, Later};

impl System<'_> {
    /// Makes a change. Returns false if it has to wait for the task.
    pub(crate) fn change(&mut self, later: Later) -> bool {
        match later {
            Later::Shares(group, shares) => self.set_shares(group, shares),
            Later::Limited(group, _) if self.switches_within(group) => return false,
            Later::Limited(group, limit) => self.set_limit(group, limit),
            Later::Confined(group, mask) => {
                let inside = |t: &TaskId| self.is_within(self.tasks[*t].group, group);
                let tasks: Vec<TaskId> = self.tasks.ids().filter(inside).collect();
                if tasks.iter().any(|t| self.is_on_its_way(*t)) {
                    return false;
                }
                for task in tasks {
                    if self.is_there(task) {
                        self.allow(task, mask);
                    }
                }
            }
            Later::Moved(task, _) | Later::Allowed(task, _) if self.is_on_its_way(task) => return false,
            Later::Moved(task, _) | Later::Allowed(task, _) if !self.is_there(task) => {}
            Later::Moved(task, group) => self.move_to_group(task, group),
            Later::Allowed(task, mask) => self.allow(task, mask),
        }
        true
    }

    /// Whether a task of the workload has begun and not ended.
    fn is_there(&self, task: TaskId) -> bool {
        !self.board.threads[task].background
            && !matches!(self.tasks[task].state, TaskState::Unborn | TaskState::Dead)
    }

    /// Whether a CPU is about to switch from a task of the group, or of a group below it, and so has its runqueue
    /// locked.
    fn switches_within(&self, group: GroupId) -> bool {
        let mut running = self.cpus.ids().filter_map(|cpu| self.cpus[cpu].curr);
        running.any(|t| self.is_within(self.tasks[t].group, group) && self.is_on_its_way(t))
    }

    /// Whether another CPU holds the locks of a task, which is being woken, leaves its CPU, or is carried to another
    /// one.
    fn is_on_its_way(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        if t.state == TaskState::Waking || (t.state == TaskState::Runnable && !t.on_rq) {
            return true;
        }
        let c = &self.cpus[t.cpu];
        t.on_cpu && (c.curr != Some(task) || c.push.is_some() || !t.on_rq || c.task.step.schedules())
    }

    fn set_shares(&mut self, group: GroupId, shares: u64) {
        self.fair.groups[group].shares = shares;
        for cpu in self.cpus.ids() {
            let begun = self.begin_enqueue(cpu, self.now);
            self.shares_changed(cpu, group);
            self.end_enqueue(cpu, begun);
        }
    }

    /// The group begins a new period with a full pool; queues lose the rest of their slices, and throttled ones are
    /// unthrottled.
    fn set_limit(&mut self, group: GroupId, limit: Limit) {
        let decl =
            GroupDecl { quota: limit.quota, period: limit.period, burst: limit.burst, ..GroupDecl::root() };
        let phase_ns = self.phase_ns(group, &decl);
        let limited = limit.quota.is_some();
        match (&mut self.fair.groups[group].bandwidth, Bandwidth::of(&decl, phase_ns)) {
            (Some(own), new) => own.become_limited(new),
            (None, Some(new)) => self.fair.groups[group].bandwidth = Some(Box::new(new)),
            (None, None) => return,
        }
        self.fair.any_quota = true;
        if let Some(own) = self.fair.groups[group].bandwidth.as_deref_mut().filter(|_| limited) {
            own.renew(self.now);
        }
        if limited {
            self.start_period_of(group);
        }
        for cpu in self.cpus.ids() {
            let queue = self.group_queue(group, cpu);
            let begun = self.begin_enqueue(cpu, self.now);
            self.update_fair_curr(queue);
            let own = &mut self.fair.group_rqs[queue];
            // A throttled queue can only come back with some time.
            (own.limited, own.slice.left_ns) = (limited, i64::from(own.throttled));
            if self.is_throttled(queue) {
                self.unthrottle(queue);
            }
            self.end_enqueue(cpu, begun);
        }
    }

    fn move_to_group(&mut self, task: TaskId, group: GroupId) {
        if self.tasks[task].group == group {
            return;
        }
        let cpu = self.tasks[task].cpu;
        let begun = self.begin_enqueue(cpu, self.now);
        let queued = self.take_off(task);
        if queued == QueueState::Runs {
            self.put_prev_task(cpu, task);
        }
        self.change_group(cpu, task, group);
        match queued {
            QueueState::No => {}
            QueueState::Delayed => self.put_on_delayed(cpu, task),
            QueueState::Waits | QueueState::Runs => self.activate_task(cpu, task, Enqueue::Moved),
        }
        if queued == QueueState::Runs {
            self.set_next_task(cpu, task);
            self.cpus[cpu].hrtick_at = NEVER;
        } else if queued != QueueState::No && self.fixed.history.moved_task_preempts {
            let arrival = Arrival { task, how: Enqueue::Moved, sync: false };
            if self.wakeup_preempt(cpu, arrival) {
                self.resched_for(self.stepping.acting, cpu, task, SwitchReason::Arrived);
            }
        }
        self.refresh_idle(cpu);
        self.end_enqueue(cpu, begun);
        if queued == QueueState::Runs {
            // Another task may now be ahead of it.
            self.resched(self.stepping.acting, cpu, SwitchReason::PolicyChanged);
        }
    }
}
