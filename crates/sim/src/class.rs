//! The interface between the scheduler's core and its classes (`struct sched_class`, `kernel/sched/sched.h`).
//!
//! The core (`schedule`, `interrupt`, `fork`, `wakeup`, `rq`) knows tasks and runqueues. A class knows the order of its
//! tasks, and which of them runs. Each question of the core to a class is a method of [`SchedClass`], named as in the
//! kernel. The core calls it by the task's [`Class`], with a `match` instead of a pointer, so that the compiler can
//! inline it.
//!
//! A class is a type without a value: the state is in the system. To add one: a room with its [`SchedClass`], a row of
//! [`Class`], a line of `of_class!`, and a policy for which [`Class::of`] returns it.

use crate::fair::{Cfs, Early, Eevdf, Fair};
use crate::o1::O1;
use crate::rt::Rt;
use crate::system::System;
use crate::task::{Class, TaskState};
use schedlab_base::{CpuId, GroupId, TaskId};
use schedlab_board::engine::NEVER;
use schedlab_kernel::Attr;
use schedlab_trace::{PlaceReason, SwitchReason};

/// Why a task is put on a queue (`ENQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// It woke up.
    Wakeup,
    New,
    /// It was moved while runnable.
    Moved,
}

/// Why a task is taken off its queue (`DEQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    Sleep,
    Exit,
    Move,
    /// Its group has no quota left (`DEQUEUE_THROTTLE`, 6.18).
    Throttle,
}

/// A task that was enqueued, as wakeup preemption sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub task: TaskId,
    pub how: Enqueue,
    /// Whether its waker is about to sleep (WF_SYNC).
    pub sync: bool,
}

/// The CPU for a task that wakes up or is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// The fair classes' answer: a search for a CPU begins, which takes time.
    Search,
    At(CpuId, PlaceReason),
}

/// The functions of a class. Each gets the system, and acts at `system.now`.
pub(crate) trait SchedClass {
    /// Puts a task on `cpu`'s queue, and counts it there with `add_nr_running`.
    fn enqueue_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId, why: Enqueue);
    /// Takes a task off its CPU's queue.
    fn dequeue_task(sys: &mut System<'_>, task: TaskId, why: Dequeue);
    /// The running task calls sched_yield.
    fn yield_task(sys: &mut System<'_>, task: TaskId);
    /// Whether a task just enqueued on `cpu` preempts `curr`, another task of the class, which runs there.
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool;
    /// Picks the next task to run on `cpu` and makes it current; `None` if the class has none. `prev` is the current
    /// task if it is of this class: it is put back unless it is picked again.
    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId>;
    /// Whether the class has a task that may run on `cpu` now, before those of later classes.
    fn is_runnable(sys: &System<'_>, cpu: CpuId) -> bool;
    /// The current task stops being current, and the next one is of another class.
    fn put_prev_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId);
    /// A queued task becomes current without a pick: it runs, and has just changed its class.
    fn set_next_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId);
    /// Removes tasks that are still on the class's queue of `cpu` although the runqueue counts no runnable one.
    /// `schedule()` calls it before a newidle balance.
    fn drain(_sys: &mut System<'_>, _cpu: CpuId) {}
    /// The tick of the running task. Returns the reason if the task must leave the CPU. A class may also ask for a
    /// switch separately.
    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason>;
    /// Charges the running task up to this instant, and does nothing else: it ends no slice.
    fn charge_curr(sys: &mut System<'_>, cpu: CpuId);
    /// The CPU for a task that wakes up, or is new; `by` is the CPU that wakes it, `prev` its own.
    fn select_task_rq(_sys: &mut System<'_>, _by: CpuId, _task: TaskId, _prev: CpuId) -> Select {
        Select::Search
    }
    /// A task was woken on `cpu`, and its wakeup preemption has been decided.
    fn task_woken(_sys: &mut System<'_>, _cpu: CpuId, _task: TaskId) {}
    /// `schedule()` has begun on `cpu`: the class may pull tasks before the pick. `prev` is of this class.
    fn balance(_sys: &mut System<'_>, _cpu: CpuId, _prev: TaskId) {}
    /// The switch to a task of this class is over: the class may push tasks away.
    fn switched_in(_sys: &mut System<'_>, _cpu: CpuId) {}
    /// A task that is on no queue moves to another CPU (`migrate_task_rq`).
    fn migrate_task(sys: &mut System<'_>, task: TaskId, to: CpuId);
    /// A new task, created on its current CPU, will be enqueued on `to`.
    fn task_fork(sys: &mut System<'_>, task: TaskId, to: CpuId);
    /// A task has ended and left its queue (`task_dead`).
    fn task_dead(sys: &mut System<'_>, task: TaskId);
    /// The task's attributes have changed from `old`, the class has not (`reweight_task`, `prio_changed`).
    fn prio_changed(sys: &mut System<'_>, task: TaskId, old: Attr);
    /// The CPUs that a task may use have changed.
    fn set_cpus_allowed(_sys: &mut System<'_>, _task: TaskId) {}
    fn shares_changed(_sys: &mut System<'_>, _cpu: CpuId, _group: GroupId) {}
    /// A task leaves the class; it is on no queue now.
    fn switched_from(sys: &mut System<'_>, task: TaskId);
    /// A task joins from another class; it is not queued yet.
    fn switched_to(sys: &mut System<'_>, task: TaskId);
    /// Checks the invariants of the class's queue of `cpu` (tests). Returns the number of its tasks, or the fault
    /// found.
    fn walk(sys: &mut System<'_>, cpu: CpuId) -> Result<u32, String>;
}

/// Calls a function of the class named by a [`Class`].
macro_rules! of_class {
    ($class:expr, $call:ident($($argument:expr),*)) => {
        match $class {
            Class::Rt => Rt::$call($($argument),*),
            Class::O1 => O1::$call($($argument),*),
            Class::Early => Fair::<Early>::$call($($argument),*),
            Class::Cfs => Fair::<Cfs>::$call($($argument),*),
            Class::Eevdf => Fair::<Eevdf>::$call($($argument),*),
        }
    };
}

/// Calls from the core.
impl System<'_> {
    #[inline]
    pub fn class(&self, task: TaskId) -> Class {
        self.tasks[task].class
    }

    /// Puts `task` on `cpu`'s runqueue (`activate_task`).
    pub fn activate_task(&mut self, cpu: CpuId, task: TaskId, why: Enqueue) {
        debug_assert!(
            self.tasks[task].state == TaskState::Runnable,
            "{task:?} is put on {cpu}'s queue while {:?}",
            self.tasks[task].state
        );
        // A task without quota is on its runqueue and on no class's.
        let (t, queued) = (&self.tasks[task], self.entity(task).on_rq);
        debug_assert!(!(t.on_rq && queued), "{task:?} is put on {cpu}'s queue while on that of {}", t.cpu);
        of_class!(self.class(task), enqueue_task(self, cpu, task, why));
        self.queued(cpu, task);
    }
    /// Takes `task` off its CPU's runqueue (`deactivate_task`).
    pub fn deactivate_task(&mut self, task: TaskId, why: Dequeue) {
        debug_assert!(self.tasks[task].on_rq, "{task:?} leaves a queue that it is not on");
        of_class!(self.class(task), dequeue_task(self, task, why));
        self.dequeued(task);
    }
    pub fn yield_task(&mut self, task: TaskId) {
        of_class!(self.class(task), yield_task(self, task));
    }
    /// Whether a task just enqueued on `cpu` preempts the current one (`wakeup_preempt`, earlier `check_preempt_curr`).
    pub fn wakeup_preempt(&mut self, cpu: CpuId, wakee: Arrival) -> bool {
        match self.cpus[cpu].curr {
            None => true,
            Some(curr) if curr == wakee.task => false,
            Some(curr) if self.class(curr) == self.class(wakee.task) => {
                of_class!(self.class(curr), wakeup_preempt(self, cpu, curr, wakee))
            }
            Some(curr) => self.class(wakee.task) < self.class(curr),
        }
    }
    /// Picks the next task to run on `cpu` after `prev` and makes it current (`__schedule`).
    pub fn pick_next_task(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        if self.rt.shared.any {
            self.pick_by_rank(cpu, prev)
        } else {
            of_class!(self.fixed.fair, pick_next_task(self, cpu, prev))
        }
    }
    /// The same if there are tasks of several classes: the first class that has one picks.
    fn pick_by_rank(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let fair = self.fixed.fair;
        self.stop_idle_server(cpu);
        let class = if of_class!(Class::Rt, is_runnable(self, cpu)) { Class::Rt } else { fair };
        let own = prev.filter(|p| self.class(*p) == class);
        if let Some(prev) = prev.filter(|_| own.is_none()) {
            of_class!(self.class(prev), put_prev_task(self, cpu, prev));
            self.cpus[cpu].hrtick_at = NEVER;
        }
        of_class!(class, pick_next_task(self, cpu, own))
    }
    /// `schedule()` has begun: a class may pull tasks before the pick (`put_prev_task_balance`).
    #[inline]
    pub fn balance(&mut self, cpu: CpuId, prev: TaskId) {
        if self.rt.shared.any {
            of_class!(self.class(prev), balance(self, cpu, prev));
        }
    }
    /// A switch on `cpu` is over (`finish_task_switch`).
    #[inline]
    pub fn switched_in(&mut self, cpu: CpuId) {
        if self.rt.shared.any
            && let Some(curr) = self.cpus[cpu].curr
        {
            of_class!(self.class(curr), switched_in(self, cpu));
        }
    }
    #[inline]
    pub fn select_task_rq(&mut self, by: CpuId, task: TaskId, prev: CpuId) -> Select {
        of_class!(self.class(task), select_task_rq(self, by, task, prev))
    }
    #[inline]
    pub fn task_woken(&mut self, cpu: CpuId, task: TaskId) {
        of_class!(self.class(task), task_woken(self, cpu, task));
    }
    /// The runqueue of `cpu` counts no runnable task: removes tasks that a class still has there.
    pub fn drain(&mut self, cpu: CpuId) {
        of_class!(self.fixed.fair, drain(self, cpu));
    }
    /// The tick finds `task` running.
    pub fn task_tick(&mut self, task: TaskId) -> Option<SwitchReason> {
        of_class!(self.class(task), task_tick(self, task))
    }
    /// Charges the running task of `cpu` up to this instant.
    pub fn charge_curr(&mut self, cpu: CpuId) {
        if let Some(curr) = self.cpus[cpu].curr {
            of_class!(self.class(curr), charge_curr(self, cpu));
        }
    }
    pub fn migrate_task(&mut self, task: TaskId, to: CpuId) {
        debug_assert!(!self.tasks[task].on_cpu, "{task:?} moves to {to} while it runs");
        of_class!(self.class(task), migrate_task(self, task, to));
        self.tasks[task].cpu = to;
    }
    /// A new task, created on its current CPU, will be enqueued on `to`.
    pub fn task_fork(&mut self, task: TaskId, to: CpuId) {
        of_class!(self.class(task), task_fork(self, task, to));
    }
    /// A task has ended and left its queue.
    pub fn task_dead(&mut self, task: TaskId) {
        of_class!(self.class(task), task_dead(self, task));
    }
    /// Checks the invariants of every class's queue of `cpu`, and that the runqueue counts all their tasks.
    pub(crate) fn walk_classes(&mut self, cpu: CpuId) -> Result<(), String> {
        let on_queues = of_class!(Class::Rt, walk(self, cpu))? + of_class!(self.fixed.fair, walk(self, cpu))?;
        if on_queues != self.rqs.nr_running(cpu) {
            return Err("nr_running of runqueue and its classes differ".into());
        }
        Ok(())
    }
    pub fn prio_changed(&mut self, task: TaskId, old: Attr) {
        of_class!(self.class(task), prio_changed(self, task, old));
    }
    pub fn set_cpus_allowed(&mut self, task: TaskId) {
        of_class!(self.class(task), set_cpus_allowed(self, task));
    }

    /// The shares of a group have changed: its entity on `cpu` takes its part of them.
    pub fn shares_changed(&mut self, cpu: CpuId, group: GroupId) {
        of_class!(self.fixed.fair, shares_changed(self, cpu, group));
    }
    /// The running task of `cpu`, no longer queued, stops being current.
    pub fn put_prev_task(&mut self, cpu: CpuId, task: TaskId) {
        of_class!(self.class(task), put_prev_task(self, cpu, task));
    }
    /// The task becomes current again.
    pub fn set_next_task(&mut self, cpu: CpuId, task: TaskId) {
        of_class!(self.class(task), set_next_task(self, cpu, task));
    }

    /// A running or queued task of `cpu` gets other attributes, and with them perhaps another class
    /// (`__sched_setscheduler`).
    pub fn set_attr(&mut self, cpu: CpuId, task: TaskId, attr: Attr) {
        let (old, new) = (self.class(task), Class::of(attr, self.fixed.fair));
        if old == new {
            // A wakeup may have frozen the clock until the next `schedule()`; it has advanced by now.
            let begun = self.begin_enqueue(cpu, self.now);
            let before = self.tasks[task].attr;
            self.change_attr(cpu, task, attr);
            self.prio_changed(task, before);
            return self.end_enqueue(cpu, begun);
        }
        self.changed(cpu, task, |sys| {
            of_class!(old, switched_from(sys, task));
            let t = &mut sys.tasks[task];
            (t.attr, t.class) = (attr, new);
            of_class!(new, switched_to(sys, task));
        });
    }

    /// A task leaves its class for another, or its group.
    pub fn switched_from(&mut self, task: TaskId) {
        of_class!(self.class(task), switched_from(self, task));
    }

    /// Takes a running or queued task of `cpu` off its queue, changes it, and puts it back.
    pub(crate) fn changed(&mut self, cpu: CpuId, task: TaskId, change: impl FnOnce(&mut Self)) {
        let begun = self.begin_enqueue(cpu, self.now);
        let runs = self.cpus[cpu].curr == Some(task);
        self.deactivate_task(task, Dequeue::Move);
        if runs {
            self.put_prev_task(cpu, task);
        }
        change(self);
        self.activate_task(cpu, task, Enqueue::Moved);
        if runs {
            self.set_next_task(cpu, task);
            self.cpus[cpu].hrtick_at = NEVER;
        }
        self.end_enqueue(cpu, begun);
        // `schedule()` decides again which task runs.
        self.resched(cpu, cpu, SwitchReason::PolicyChanged);
    }
}
