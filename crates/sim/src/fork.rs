//! New tasks and new programs: the slow path chooses a CPU by visiting the domain's groups. A new task is then placed a
//! slice later in virtual time. A fair task at exec is moved to its CPU by the stopper (`sched_exec`). Not modelled:
//! before 2.6.32 real-time tasks also move at exec, and before 2.6.13 a task that is alone on its CPU stays.

use crate::balance::state::{Descent, Why};
use crate::class::{Enqueue, Select};
use crate::frame::Step;
use crate::system::System;
use crate::task::Class;
use crate::task::TaskState;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_trace::{EventKind, MoveReason, PlaceReason, SwitchReason};

impl System<'_> {
    /// Starts the choice of a CPU for `task`, which `cpu`'s current task has created.
    pub fn start_fork_search(&mut self, cpu: CpuId, task: TaskId) {
        self.tasks[task].cpu = cpu;
        self.cpus[cpu].walk =
            Descent::begin(&self.fixed.domains, cpu, Why::Fork, self.fixed.history.fork_stops_at_gap);
    }

    /// Continues the visits. After the last one the task is placed and enqueued.
    pub fn fork_step(&mut self, cpu: CpuId, task: TaskId) {
        let mut walk = self.cpus[cpu].walk;
        let chosen = self.fork_cpu(cpu, task, &mut walk);
        self.cpus[cpu].walk = walk;
        match chosen {
            Err(at) => self.cpus[cpu].task.ends = at,
            Ok(to) => {
                self.new_task(cpu, task, to);
                self.returns(cpu);
            }
        }
    }

    /// The CPU for a new task: its class's choice, or the next step of the slow path. `Err`: the time of the step after
    /// that.
    fn fork_cpu(&mut self, by: CpuId, task: TaskId, walk: &mut Descent) -> Result<CpuId, u64> {
        let allowed = self.tasks[task].allowed.as_ref();
        let prev = if self.tasks[task].may_run_on(by) { Some(by) } else { allowed.and_then(|a| a.lowest()) };
        match self.select_task_rq(by, task, prev.unwrap_or(by)) {
            Select::At(to, _) => Ok(to),
            Select::Search => self.walk_on(by, task, walk),
        }
    }

    /// Puts a new task on `to`; `by` is the CPU that created it.
    pub fn new_task(&mut self, by: CpuId, task: TaskId, to: CpuId) {
        let reason = self.fork_reason(by, task, to);
        self.place_task(by, task, to, reason);
    }

    /// Why `to` was chosen.
    fn fork_reason(&self, by: CpuId, task: TaskId, to: CpuId) -> PlaceReason {
        let only = self.tasks[task].allowed.as_ref().is_some_and(|a| a.len() == 1);
        match self.class(task) {
            _ if only => PlaceReason::OnlyAllowed,
            Class::Rt if to == by => PlaceReason::RtStays,
            Class::Rt => PlaceReason::RtLowest,
            _ => PlaceReason::IdlestFork,
        }
    }

    fn place_task(&mut self, by: CpuId, task: TaskId, to: CpuId, reason: PlaceReason) {
        self.emit(by, EventKind::Placed { task, target: to, reason, probes: 0 });
        self.tasks[task].cpu = by;
        self.task_fork(task, to);
        self.board.threads[task].ran_on = to;
        self.tasks[task].recent = by;
        if to != by {
            self.migrate_task(task, to);
            self.emit(to, EventKind::Migrate { task, from: by, why: MoveReason::Fork });
        }
        let before = std::mem::replace(&mut self.tasks[task].state, TaskState::Waking);
        debug_assert!(before == TaskState::Unborn, "{task:?} is born on {to} while {before:?}");
        self.activate((by, self.now), to, task, Enqueue::New, SwitchReason::Arrived);
    }

    /// exec's own time has passed: the search for the best CPU for the current task's new program begins.
    pub fn begin_exec(&mut self, cpu: CpuId, curr: TaskId) {
        // A real-time task stays (`select_task_rq_rt` chooses only for wakeups and new tasks).
        if self.class(curr) == Class::Rt {
            return self.returns(cpu);
        }
        self.cpus[cpu].walk =
            Descent::begin(&self.fixed.domains, cpu, Why::Exec, self.fixed.history.fork_stops_at_gap);
        self.begin(cpu, Step::Exec, 0);
    }

    /// Continues the visits. After the last one the stopper moves the task to the chosen CPU.
    pub fn exec_step(&mut self, cpu: CpuId) {
        let Some(curr) = self.cpus[cpu].curr else { return };
        let mut walk = self.cpus[cpu].walk;
        let chosen = self.walk_on(cpu, curr, &mut walk);
        self.cpus[cpu].walk = walk;
        match chosen {
            Err(at) => self.cpus[cpu].task.ends = at,
            Ok(to) if to == cpu || !self.tasks[curr].may_run_on(to) => self.returns(cpu),
            Ok(to) => {
                // An earlier request to the stopper comes first.
                self.cpus[cpu].push.get_or_insert((curr, to, MoveReason::Exec));
                self.schedule(cpu, SwitchReason::Moved);
            }
        }
    }

    /// Puts a task that exists from the start on the CPU that a fork by CPU 0 would choose for it, one task after
    /// another. It is placed as the engine's child that it was at first, whatever its class and policy are now
    /// ([`crate::set_up`]).
    pub fn start_task(&mut self, task: TaskId) {
        self.emit(CpuId(0), EventKind::Forked { task, parent: None });
        self.set_up_before(task, |sys| {
            sys.start_fork_search(CpuId(0), task);
            let mut walk = sys.cpus[CpuId(0)].walk;
            sys.stepping.horizon = u64::MAX;
            let to = loop {
                if let Ok(to) = sys.fork_cpu(CpuId(0), task, &mut walk) {
                    break to;
                }
            };
            sys.new_task(CpuId(0), task, to);
            if let Some(places) = &mut sys.balance.first_places {
                places.changed(to);
            }
            to
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::NewTask;
    use crate::upkeep_tests::{new_hog, with_system};
    use schedlab_kernel::{Attr, Policy};

    /// `wake_up_new_task()` asks the class of the new task, which is its parent's (read in 6.1.192).
    #[test]
    fn starters_are_placed_as_children_of_nice_0_whatever_they_are_later() {
        for (profile, policy) in [
            ("v6.5", Policy::Fifo),
            ("v6.5", Policy::Rr),
            ("v6.5", Policy::Idle),
            ("v6.12", Policy::Fifo),
            ("v7.3", Policy::Fifo),
        ] {
            with_system(profile, |sys| {
                let cpus = [0; 2].map(|_| {
                    let attr = match policy {
                        Policy::Idle => Attr { policy, ..Attr::default() },
                        _ => Attr { policy, rt_priority: 10, ..Attr::default() },
                    };
                    let task = crate::run::add(sys, NewTask { attr, cpu: CpuId(0), ..new_hog() });
                    sys.start_task(task);
                    sys.tasks[task].cpu
                });
                assert_eq!(cpus, [CpuId(0), CpuId(1)], "{profile}, {policy}: each on an idle CPU");
            });
        }
    }
}
