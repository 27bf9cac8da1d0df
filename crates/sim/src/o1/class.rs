//! The O(1) class behind the core's interface: enqueue, dequeue, the pick with its accounting of sleep and running, the
//! tick, fork and exit.
//!
//! The running task stays in its list. `schedule()` charges the average of the task that leaves the CPU, and credits
//! the next one for its wait. A new task and one that comes back from another class keep their average; a task that is
//! moved goes to the same array on its new CPU.

use super::O1;
use super::bonus::{Scale, Sleep, Slept, after_exit};
use super::expiry::{self, Runs, Tick, Waiting};
use super::prio;
use super::state::O1Task;
use crate::class::{Arrival, Dequeue, Enqueue, SchedClass};
use crate::system::System;
use crate::task::{Class, TaskState};
use schedlab_base::{CpuId, TaskId};
use schedlab_board::thread::UserOp;
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::SwitchReason;
use schedlab_workload::ChannelKind;

impl SchedClass for O1 {
    fn enqueue_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId, why: Enqueue) {
        match why {
            Enqueue::Wakeup => {
                sys.o1_wakes(cpu, task);
                let expired = sys.o1_is_batch(task);
                sys.o1_push(cpu, task, expired);
            }
            Enqueue::New => sys.o1_push_new(cpu, task),
            Enqueue::Moved => {
                let expired = sys.tasks[task].o1.was_expired;
                sys.o1_push(cpu, task, expired);
            }
        }
        let weight = prio::weight(sys.o1_static_prio(task), sys.fixed.kernel.tunables.hz);
        sys.tasks[task].o1.weight = weight;
        sys.o1[cpu].weight += weight;
        sys.rqs.add_sched_idle(cpu, sys.counts_as_sched_idle(task));
        sys.add_nr_running(cpu);
    }

    fn dequeue_task(sys: &mut System<'_>, task: TaskId, _why: Dequeue) {
        let cpu = sys.tasks[task].cpu;
        if sys.cpus[cpu].curr == Some(task) {
            sys.o1_charge(cpu, task);
        }
        sys.o1_remove(cpu, task);
        sys.o1[cpu].weight -= sys.tasks[task].o1.weight;
        sys.rqs.sub_sched_idle(cpu, sys.counts_as_sched_idle(task));
        sys.sub_nr_running(cpu);
    }

    /// The task goes to the expired array, or to the end of its list if it is already there.
    fn yield_task(sys: &mut System<'_>, task: TaskId) {
        let cpu = sys.tasks[task].cpu;
        sys.o1_remove(cpu, task);
        sys.o1_push(cpu, task, true);
    }

    /// The better priority preempts. A waker on this CPU that is about to sleep is not preempted; a process
    /// created here preempts, a thread created here does not.
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool {
        let here = sys.stepping.acting == cpu;
        let better = sys.tasks[wakee.task].o1.prio < sys.tasks[curr].o1.prio;
        match wakee.how {
            Enqueue::New if here => sys.tasks[wakee.task].mm != sys.tasks[curr].mm,
            Enqueue::Wakeup if here && wakee.sync => false,
            Enqueue::New | Enqueue::Wakeup | Enqueue::Moved => better,
        }
    }

    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let clock = sys.rq_clock(cpu);
        let next = sys.o1[cpu].first().map(|(_, task)| task);
        match next {
            Some(task) => sys.o1_credit_wait(cpu, task),
            None => sys.o1[cpu].expired_since = None,
        }
        if let Some(prev) = prev {
            sys.o1_leaves(cpu, prev);
        }
        if let Some(task) = next.filter(|next| prev != Some(*next)) {
            sys.tasks[task].o1.since_ns = clock;
            let e = &mut sys.fair.entities[sys.tasks[task].entity];
            e.exec_start = clock;
            e.prev_sum_exec = e.sum_exec;
        }
        next
    }

    fn is_runnable(sys: &System<'_>, cpu: CpuId) -> bool {
        !sys.o1[cpu].is_empty()
    }

    fn put_prev_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId) {
        sys.o1_leaves(cpu, task);
    }

    fn set_next_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId) {
        let clock = sys.rq_clock(cpu);
        sys.tasks[task].o1.since_ns = clock;
        let e = &mut sys.fair.entities[sys.tasks[task].entity];
        e.exec_start = clock;
        e.prev_sum_exec = e.sum_exec;
    }

    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
        let cpu = sys.tasks[task].cpu;
        sys.o1_charge(cpu, task);
        let scale = sys.o1_scale();
        let (now, static_prio) = (sys.jiffies(), sys.o1_static_prio(task));
        let rq = &sys.o1[cpu];
        let own = sys.tasks[task].o1;
        if own.array.is_none_or(|number| rq.is_expired(number)) {
            // It has expired, and was not taken off the CPU yet.
            return Some(SwitchReason::TickSlice);
        }
        let left = own.left.saturating_sub(1);
        sys.tasks[task].o1.left = left;
        // The first task that expires starts the array's waiting time.
        let since_ticks = rq.expired_since.map(|since| now - since);
        let waiting = Waiting {
            since_ticks: since_ticks.or(Some(0)),
            best_static_prio: rq.best_expired,
            nr_running: u64::from(sys.rqs.nr_running(cpu)),
        };
        let nr_cpus = sys.nr_cpus() as u64;
        let runs = Runs { static_prio, prio: own.prio, avg_ns: own.avg_ns, left, nr_cpus };
        let (prio, expires) = match expiry::tick(scale, &runs, &waiting) {
            Tick::GoesOn => return None,
            Tick::TakesTurns => {
                sys.o1[cpu].array_mut(false).requeue(own.prio, task);
                return Some(SwitchReason::TickSlice);
            }
            Tick::StaysActive(prio) => (prio, false),
            Tick::Expires(prio) => (prio, true),
        };
        sys.o1_remove(cpu, task);
        let own = &mut sys.tasks[task].o1;
        own.prio = prio;
        own.left = prio::slice(static_prio, scale.hz);
        own.first_slice = false;
        sys.o1[cpu].expired_since.get_or_insert(now);
        if expires {
            sys.o1[cpu].note_expired(static_prio);
        }
        sys.o1_push(cpu, task, expires);
        Some(SwitchReason::TickSlice)
    }

    fn charge_curr(sys: &mut System<'_>, cpu: CpuId) {
        if let Some(curr) = sys.cpus[cpu].curr {
            sys.o1_charge(cpu, curr);
        }
    }

    fn migrate_task(sys: &mut System<'_>, task: TaskId, to: CpuId) {
        sys.set_task_rq(task, to);
    }

    /// The parent shares its slice and its average with the new task (`sched_fork`, `wake_up_new_task`).
    fn task_fork(sys: &mut System<'_>, task: TaskId, _to: CpuId) {
        let (cpu, scale) = (sys.tasks[task].cpu, sys.o1_scale());
        sys.set_task_rq(task, cpu);
        let (clock, static_prio) = (sys.rq_clock(cpu), sys.o1_static_prio(task));
        let forks = |t: &TaskId| sys.class(*t) == Class::O1 && sys.tasks[*t].state == TaskState::Runnable;
        let parent = sys.cpus[cpu].curr.filter(forks);
        let own = &mut sys.tasks[task].o1;
        (own.since_ns, own.parent) = (clock, parent);
        own.left = prio::slice(static_prio, scale.hz);
        if let Some(parent) = parent {
            let mut of_parent = sys.tasks[parent].o1;
            let own = &mut sys.tasks[task].o1;
            own.left = of_parent.left.div_ceil(2);
            own.first_slice = true;
            own.avg_ns = scale.child(of_parent.avg_ns);
            of_parent.left /= 2;
            of_parent.avg_ns = scale.parent(of_parent.avg_ns);
            sys.tasks[parent].o1 = of_parent;
            sys.o1_used_up(cpu, parent);
        }
        let own = &mut sys.tasks[task].o1;
        own.prio = scale.prio(static_prio, own.avg_ns);
    }

    /// A task that exits in its first slice gives the rest back; one that slept less lowers its parent's average.
    fn task_dead(sys: &mut System<'_>, task: TaskId) {
        let own = sys.tasks[task].o1;
        let alive = |t: &TaskId| sys.class(*t) == Class::O1 && sys.tasks[*t].state != TaskState::Dead;
        let Some(parent) = own.parent.filter(alive) else { return };
        let near = sys.fixed.history.exit_gives_anywhere || sys.tasks[parent].cpu == sys.tasks[task].cpu;
        let most = prio::slice(sys.o1_static_prio(task), sys.fixed.kernel.tunables.hz);
        let of_parent = &mut sys.tasks[parent].o1;
        if own.first_slice && near {
            of_parent.left = (of_parent.left + own.left).min(most);
        }
        of_parent.avg_ns = after_exit(of_parent.avg_ns, own.avg_ns);
    }

    fn prio_changed(sys: &mut System<'_>, task: TaskId, _old: Attr) {
        let cpu = sys.tasks[task].cpu;
        let (static_prio, scale) = (sys.o1_static_prio(task), sys.o1_scale());
        let expired = sys.o1_remove(cpu, task);
        let own = &mut sys.tasks[task].o1;
        own.prio = scale.prio(static_prio, own.avg_ns);
        let weight = prio::weight(static_prio, scale.hz);
        let before = std::mem::replace(&mut own.weight, weight);
        sys.o1[cpu].weight = sys.o1[cpu].weight + weight - before;
        sys.o1_push(cpu, task, expired);
        sys.resched(sys.stepping.acting, cpu, SwitchReason::PolicyChanged);
    }

    fn switched_from(_sys: &mut System<'_>, _task: TaskId) {}

    fn switched_to(sys: &mut System<'_>, task: TaskId) {
        let (static_prio, scale) = (sys.o1_static_prio(task), sys.o1_scale());
        let clock = sys.rq_clock(sys.tasks[task].cpu);
        let own = &mut sys.tasks[task].o1;
        own.prio = scale.prio(static_prio, own.avg_ns);
        own.left = own.left.max(1);
        (own.was_expired, own.sleep, own.since_ns) = (false, Sleep::Normal, clock);
    }

    fn walk(sys: &mut System<'_>, cpu: CpuId) -> Result<u32, String> {
        let rq = &sys.o1[cpu];
        let mut weight = 0;
        for expired in [false, true] {
            rq.array(expired).check()?;
            for (prio, task) in rq.array(expired).iter() {
                let t = &sys.tasks[task];
                let there = t.cpu == cpu && t.on_rq && t.o1.prio == prio;
                if !there || t.o1.array != Some(rq.number(expired)) {
                    return Err(format!("{task:?} is in a priority array and does not know it"));
                }
                weight += t.o1.weight;
            }
        }
        if weight == rq.weight {
            Ok(rq.len() as u32)
        } else {
            Err(format!("tasks weigh {weight}, the runqueue says {}", rq.weight))
        }
    }
}

impl System<'_> {
    /// The units of this kernel's averages.
    #[inline]
    pub(crate) fn o1_scale(&self) -> Scale {
        let history = &self.fixed.history;
        Scale {
            hz: self.fixed.kernel.tunables.hz,
            rounds_to_zero: history.delta_rounds_to_zero,
            multiplied: history.credit_multiplied,
        }
    }
    #[inline]
    fn o1_static_prio(&self, task: TaskId) -> u8 {
        prio::static_prio(self.tasks[task].attr.nice)
    }
    fn o1_is_batch(&self, task: TaskId) -> bool {
        self.fixed.history.o1_batch && self.tasks[task].attr.policy == Policy::Batch
    }

    fn o1_push(&mut self, cpu: CpuId, task: TaskId, expired: bool) {
        let number = self.o1[cpu].number(expired);
        let own = &mut self.tasks[task].o1;
        own.array = Some(number);
        self.o1[cpu].numbered(number).push(own.prio, task);
    }
    /// Removes a task from its array. Returns whether that is the expired one.
    fn o1_remove(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let own = &mut self.tasks[task].o1;
        let Some(number) = own.array.take() else { return false };
        let rq = &mut self.o1[cpu];
        own.was_expired = rq.is_expired(number);
        let found = rq.numbered(number).remove(own.prio, task);
        debug_assert!(found, "{task:?} is in its array");
        own.was_expired
    }
    /// A new process is queued directly before its parent, with the parent's priority; a thread goes to the end.
    fn o1_push_new(&mut self, cpu: CpuId, task: TaskId) {
        let beside = self.tasks[task].o1.parent.filter(|p| {
            let parent = &self.tasks[*p];
            self.cpus[cpu].curr == Some(*p) && parent.mm != self.tasks[task].mm && parent.o1.array.is_some()
        });
        let Some(parent) = beside else {
            let expired = self.o1_is_batch(task);
            return self.o1_push(cpu, task, expired);
        };
        let O1Task { prio, array, .. } = self.tasks[parent].o1;
        let own = &mut self.tasks[task].o1;
        (own.prio, own.array) = (prio, array);
        if let Some(number) = array {
            self.o1[cpu].numbered(number).push_before(prio, task, parent);
        }
    }
    /// The slice of a parent that has shared its last tick ends as by a tick.
    fn o1_used_up(&mut self, cpu: CpuId, parent: TaskId) {
        if self.tasks[parent].o1.left > 0 {
            return;
        }
        self.tasks[parent].o1.left = 1;
        if let Some(why) = O1::task_tick(self, parent) {
            self.resched(cpu, cpu, why);
        }
    }

    /// Charges the CPU time of a running task.
    fn o1_charge(&mut self, cpu: CpuId, task: TaskId) {
        let clock = self.rq_clock(cpu);
        let entity = self.tasks[task].entity;
        self.fair.entities[entity].charge_time(clock);
    }

    /// A task is woken: its sleep is credited (`activate_task`).
    fn o1_wakes(&mut self, cpu: CpuId, task: TaskId) {
        let clock = self.rq_clock(cpu);
        let pipe = match self.board.threads[task].user {
            UserOp::Transfer(t) => self.board.channels.kind(t.port) == ChannelKind::Pipe,
            _ => false,
        };
        if pipe && self.fixed.history.quiet_pipes {
            self.tasks[task].o1.sleep = Sleep::Quiet;
        }
        self.o1_recalc(task, clock.saturating_sub(self.tasks[task].o1.since_ns));
        let by_interrupt = self.cpus[self.stepping.acting].hard.active();
        let own = &mut self.tasks[task].o1;
        if own.sleep == Sleep::Normal {
            own.sleep = if by_interrupt { Sleep::Interrupted } else { Sleep::Interactive };
        }
        own.since_ns = clock;
    }
    /// Credits a task, which is in no list, for a sleep (`recalc_task_prio`).
    fn o1_recalc(&mut self, task: TaskId, slept_ns: u64) {
        let (scale, static_prio) = (self.o1_scale(), self.o1_static_prio(task));
        let batch = self.o1_is_batch(task);
        let t = &mut self.tasks[task];
        let user = t.mm.is_some();
        let (avg_ns, kind) = (t.o1.avg_ns, t.o1.sleep);
        let slept = Slept { static_prio, avg_ns, slept_ns, kind, user, batch };
        (t.o1.avg_ns, t.o1.sleep) = scale.credit(&slept);
        t.o1.prio = scale.prio(static_prio, t.o1.avg_ns);
    }
    /// A task is picked: part of its wait since it woke counts as sleep.
    fn o1_credit_wait(&mut self, cpu: CpuId, task: TaskId) {
        let own = self.tasks[task].o1;
        if matches!(own.sleep, Sleep::Interactive | Sleep::Interrupted) {
            let waited_ns = self.rq_clock(cpu).saturating_sub(own.since_ns);
            let counts_ns = self.o1_scale().waited(own.sleep, waited_ns);
            self.o1_recalc(task, counts_ns);
            let new = self.tasks[task].o1.prio;
            if let Some(number) = own.array
                && (new != own.prio || self.fixed.history.picked_goes_last)
            {
                let array = self.o1[cpu].numbered(number);
                array.remove(own.prio, task);
                array.push(new, task);
            }
        }
        self.tasks[task].o1.sleep = Sleep::Normal;
    }
    /// A task leaves the CPU, or is picked again: its time there is charged to its average.
    fn o1_leaves(&mut self, cpu: CpuId, task: TaskId) {
        self.o1_charge(cpu, task);
        let (clock, scale) = (self.rq_clock(cpu), self.o1_scale());
        let own = &mut self.tasks[task].o1;
        own.avg_ns = scale.charge(own.avg_ns, clock.saturating_sub(own.since_ns));
        (own.since_ns, own.last_ran_ns) = (clock, clock);
    }
}
