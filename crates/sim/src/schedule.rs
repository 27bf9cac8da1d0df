//! `schedule()`: the leaving task, newidle balance, the pick, the switch; and requests for switches between CPUs.
//!
//! Two instants differ: a task leaves `nr_running` when `schedule()` dequeues it, but stays current while newidle
//! balance runs, and stays `on_cpu` until the switch is over. Interrupts are off from dequeue to switch.

use crate::class::{Arrival, Dequeue, Enqueue};
use crate::costs::ipi_ns;
use crate::frame::Step;
use crate::system::System;
use crate::task::Class;
use crate::task::TaskState;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::drivers::UserMode;
use schedlab_board::engine::NEVER;
use schedlab_kernel::preempt::Preempt;
use schedlab_trace::{EventKind, MoveReason, SwitchReason};

/// A task that the stopper is asked to move, and where to.
type Push = (TaskId, CpuId, MoveReason);

impl System<'_> {
    /// Switches out the current task of `cpu`, for the given reason.
    pub fn schedule(&mut self, cpu: CpuId, why: SwitchReason) {
        self.account_user(cpu);
        let now = self.now;
        let c = &mut self.cpus[cpu];
        let (hard, soft) = (c.hard.step, c.soft.step);
        debug_assert!(!c.hard.active() && !c.soft.active(), "{cpu} schedules amid {hard:?} and {soft:?}");
        c.clock.hold(now);
        c.need_resched = None;
        c.leaving = why;
        let (push, stays, stopper_ns) = self.take_push(cpu);
        let c = &mut self.cpus[cpu];
        if let Some(prev) = c.curr {
            match self.tasks[prev].state {
                TaskState::Sleeping => self.deactivate_task(prev, Dequeue::Sleep),
                TaskState::Dead => {
                    self.deactivate_task(prev, Dequeue::Exit);
                    self.task_dead(prev);
                }
                _ => self.stopper_takes(cpu, prev, push, (why, stays)),
            }
            if self.out.wants_details() {
                let carries = self.cpus[cpu].carried.is_some();
                self.emit_detail(cpu, EventKind::Schedule { carries });
            }
            self.balance(cpu, prev);
            self.check_quotas(prev);
            if self.only_delayed(cpu) {
                self.drain(cpu);
                self.cpus[cpu].need_resched = None;
                self.begin_newidle(cpu);
                // The stopper ran before that.
                self.cpus[cpu].task.ends += stopper_ns;
                return;
            }
        }
        self.begin_pick(cpu, stopper_ns);
    }

    /// What the stopper of `cpu` is asked to move, whether that stays for want of quota, and the stopper's time, ns.
    fn take_push(&mut self, cpu: CpuId) -> (Option<Push>, bool, u64) {
        let asked = self.cpus[cpu].push.take();
        let push = asked.filter(|(task, to, why)| {
            *why != MoveReason::Active
                || !self.fair.any_quota
                || !self.stays_for_quota(self.tasks[*task].group, cpu, *to)
        });
        let stays = asked.is_some() && push.is_none();
        let active_ns = self.fixed.machine.costs.active_balance_ns;
        match push {
            Some((_, _, MoveReason::Exec)) => (push, stays, active_ns),
            Some((task, to, MoveReason::Active)) => {
                // The running task that the stopper finds may move if it is still the same one and has neither gone to
                // sleep nor ended.
                let moves =
                    self.cpus[cpu].curr == Some(task) && self.tasks[task].state == TaskState::Runnable;
                self.count_active(cpu, to, moves);
                (push, stays, active_ns)
            }
            _ => (push, stays, 0),
        }
    }

    /// The stopper takes the current task off its queue, if it is to move it. `why` the task leaves; `stays`: what the
    /// stopper was asked to move stays for want of quota.
    fn stopper_takes(
        &mut self,
        cpu: CpuId,
        prev: TaskId,
        push: Option<Push>,
        (why, stays): (SwitchReason, bool),
    ) {
        // Active balance only takes fair tasks.
        let is_rt = self.class(prev) == Class::Rt;
        let takes = |(t, _, why): &Push| *t == prev && !(is_rt && *why == MoveReason::Active);
        if let Some((task, to, reason)) = push.filter(takes) {
            self.deactivate_task(task, Dequeue::Move);
            let c = &mut self.cpus[cpu];
            debug_assert!(c.carried.is_none(), "{cpu} carries {:?} and takes {task:?}", c.carried);
            c.carried = Some((task, to, reason));
            // The task leaves in order to move, even if another request for a switch came first.
            c.leaving = SwitchReason::Moved;
        } else if why == SwitchReason::Moved {
            // The stopper ran, but does not move the task.
            let leaving = if stays { SwitchReason::Throttled } else { SwitchReason::Preempted };
            self.cpus[cpu].leaving = leaving;
        }
    }

    /// Picks the next task after the time that `schedule()` needs until then; `extra_ns` is other work on the way. If
    /// the machine does not state that time, it is in the costs of the switch, which come after the pick.
    pub fn begin_pick(&mut self, cpu: CpuId, extra_ns: u64) {
        let costs = &self.fixed.machine.costs;
        let schedule_ns = match self.cpus[cpu].curr.map(|t| self.tasks[t].state) {
            None => costs.schedule_idle_ns,
            Some(TaskState::Runnable) => costs.schedule_preempt_ns,
            Some(_) if self.rqs.nr_running(cpu) == 0 && costs.schedule_empty_ns > 0 => {
                costs.schedule_empty_ns
            }
            Some(_) => costs.schedule_sleep_ns,
        };
        if schedule_ns == 0 {
            return self.pick_and_switch(cpu, extra_ns);
        }
        self.begin(cpu, Step::Pick, extra_ns + schedule_ns);
    }

    /// Picks the next task of `cpu` and switches to it; `extra_ns` is other work on the way.
    pub fn pick_and_switch(&mut self, cpu: CpuId, extra_ns: u64) {
        self.count_schedule(cpu);
        let prev = self.cpus[cpu].curr;
        self.cpus[cpu].need_resched = None;
        let next = self.pick_next_task(cpu, prev);
        // A charge on the way may have requested a switch; this pick was that switch.
        let c = &mut self.cpus[cpu];
        c.need_resched = None;
        if prev.is_some() && next == prev {
            return self.stay(cpu);
        }
        if c.push.is_some() && next.is_some() {
            // The stopper was requested meanwhile, and runs next.
            c.need_resched = Some(SwitchReason::Moved);
        }
        self.switch_to(cpu, prev, next, extra_ns);
    }

    /// The current task continues.
    fn stay(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu].curr;
        debug_assert!(curr.is_some_and(|t| self.tasks[t].on_rq), "{curr:?} stays on {cpu}, on no queue");
        self.cpus[cpu].clock.release();
        self.emit_detail(cpu, EventKind::Stay);
        if self.cpus[cpu].curr.is_some_and(|curr| self.unpark(cpu, curr)) {
            return;
        }
        if self.cpus[cpu].push.is_some() {
            // The stopper was requested during the pick.
            return self.schedule(cpu, SwitchReason::Moved);
        }
        if self.fair.any_quota && self.throttle_on_return(cpu) {
            return self.schedule(cpu, SwitchReason::Throttled);
        }
        self.start_user(cpu);
    }

    fn switch_to(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>, extra_ns: u64) {
        if prev.is_none() && next.is_some() && self.fixed.history.idle_sampled_at_switch {
            self.end_idle_sample(cpu);
        }
        let cost = extra_ns + self.switch_ns(cpu, prev, next);
        let history = &self.fixed.history;
        let keeps_no_tick = !history.short_nap_keeps_tick && !history.periodic_tick;
        let tick = self.next_tick();
        let uncharged_ns = self.since_charged(prev) - self.since_charged(next);
        if let Some(next) = next {
            let t = &self.tasks[next];
            debug_assert!(t.cpu == cpu && t.on_rq, "{cpu} switches to {next:?}, which is not on its queue");
            debug_assert!(!t.on_cpu, "{cpu} switches to {next:?}, which runs");
            debug_assert!(t.state == TaskState::Runnable, "{cpu} switches to {next:?} while {:?}", t.state);
        }
        let c = &mut self.cpus[cpu];
        debug_assert!(prev == c.curr, "{cpu} switches from {prev:?}, and {:?} runs", c.curr);
        c.uncharged_ns += uncharged_ns;
        c.clock.release();
        debug_assert!(c.since <= self.now, "{cpu} has had {prev:?} since {}, after {}", c.since, self.now);
        let stayed = self.now - std::mem::replace(&mut c.since, self.now);
        c.curr = next;
        if prev.is_some() != next.is_some() {
            self.switch_pelt_clock(cpu, next.is_some());
        }
        let c = &mut self.cpus[cpu];
        match prev {
            Some(_) => c.busy_ns += stayed,
            // Since 4.17 the tick may still be on after a short nap, and may be pending by now.
            None if c.tick_at == NEVER || keeps_no_tick => c.tick_at = tick,
            None => {}
        }
        let why = if prev.is_some() { c.leaving } else { SwitchReason::FromIdle };
        if let Some(p) = prev {
            debug_assert!(self.tasks[p].on_cpu, "{cpu} switches from {p:?}, which is on no CPU");
        }
        if let Some(n) = next {
            self.tasks[n].on_cpu = true;
        }
        self.count_switch(cpu, prev, next, stayed);
        if let Some(p) = prev {
            self.leaves_cpu(cpu, p, stayed, why);
        }
        self.emit(cpu, EventKind::Switch { prev, next, why });
        self.report_counters(cpu, [prev, next]);
        self.refresh_idle(cpu);
        if next.is_none() {
            self.note_idle_core(cpu);
        }
        self.begin(cpu, Step::Switch { prev }, cost);
    }

    /// What the switch of `cpu` takes, with the way back of the next task and its address space, ns.
    #[inline]
    fn switch_ns(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) -> u64 {
        let timed_out = next.is_some_and(|n| std::mem::take(&mut self.tasks[n].timed_out));
        let has_halted = next.is_some() && std::mem::take(&mut self.cpus[cpu].has_halted);
        let mm_ns = self.load_mm(cpu, next);
        let costs = &self.fixed.machine.costs;
        let return_ns = match (timed_out, has_halted) {
            (true, _) => costs.timer_return_ns,
            (false, true) => costs.idle_return_ns,
            (false, false) => 0,
        };
        let both = prev.is_some() && next.is_some();
        let switch_ns = if both { costs.context_switch_ns } else { costs.idle_switch_ns };
        return_ns + mm_ns + switch_ns + costs.trace_event_ns + self.hrtick_ns(cpu)
    }

    /// A task leaves `cpu` after `stayed` ns: its data stay in the core's cache, and its switches are counted.
    #[inline]
    fn leaves_cpu(&mut self, cpu: CpuId, task: TaskId, stayed: u64, why: SwitchReason) {
        let thread = &mut self.board.threads[task];
        let (kb, costs) = (thread.footprint_kb, &self.fixed.machine.costs);
        self.board.by_core.leave((cpu, task), &mut thread.reuse, kb, stayed, costs);
        let counted = &mut self.tasks[task].counted;
        match why {
            SwitchReason::Blocked | SwitchReason::Exited => counted.voluntary += 1,
            _ => counted.involuntary += 1,
        }
    }

    /// Time since a task was last charged, ns, or since the start of its next charge; 0 for the idle task.
    pub fn since_charged(&self, task: Option<TaskId>) -> i64 {
        let entity = task.map(|t| self.tasks[t].entity);
        entity.map_or(0, |e| self.now as i64 - self.fair.entities[e].exec_start as i64)
    }

    /// Loads the next task's address space if it differs from the last one's; returns the time, ns. The idle task and
    /// the kernel's own tasks have none and keep the one that is loaded (`context_switch`, lazy TLB).
    fn load_mm(&mut self, cpu: CpuId, next: Option<TaskId>) -> u64 {
        let Some(mm) = next.and_then(|n| self.tasks[n].mm) else { return 0 };
        let loaded = std::mem::replace(&mut self.cpus[cpu].mm, mm);
        if loaded == mm { 0 } else { self.fixed.machine.costs.mm_switch_ns }
    }

    /// The switch is over: the previous task is off the CPU, the next one continues in its last state.
    pub fn switched(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        if let Some(p) = prev {
            let on_cpu = std::mem::take(&mut self.tasks[p].on_cpu);
            debug_assert!(on_cpu, "{cpu} has switched from {p:?}, which was on no CPU");
        }
        if let Some((task, to, reason)) = self.cpus[cpu].carried.take() {
            debug_assert!(prev == Some(task), "{cpu} has switched from {prev:?} and carries {task:?}");
            self.arrive(cpu, to, task, reason);
        }
        self.switched_in(cpu);
        match self.cpus[cpu].curr {
            Some(curr) => {
                self.pay_move(cpu, curr);
                self.continue_task(cpu, curr);
            }
            None => self.begin_idle_loop(cpu),
        }
    }

    /// A runnable task that `by` has just switched out arrives on `to`. If its affinity has changed since the push was
    /// requested, `to` may no longer be allowed: the kernel's stopper checks again (`can_migrate_task`), this one does
    /// not.
    fn arrive(&mut self, by: CpuId, to: CpuId, task: TaskId, why: MoveReason) {
        let from = self.tasks[task].cpu;
        debug_assert!(from != to, "{task:?} is carried from {from} to itself");
        self.migrate_task(task, to);
        self.emit(to, EventKind::Migrate { task, from, why });
        self.activate((by, self.now), to, task, Enqueue::Moved, SwitchReason::Arrived);
    }

    /// Enqueues a task on `to` and requests a switch if it preempts. `by` is the acting CPU, with the time since which
    /// it has held the lock, ns. Returns whether it had to signal another CPU.
    pub fn activate(
        &mut self,
        by: (CpuId, u64),
        to: CpuId,
        task: TaskId,
        how: Enqueue,
        why: SwitchReason,
    ) -> bool {
        let begun = self.begin_enqueue(to, by.1);
        let signals = self.enqueue_and_preempt(by.0, to, task, how, why);
        self.end_enqueue(to, begun);
        signals
    }

    fn enqueue_and_preempt(
        &mut self,
        by: CpuId,
        to: CpuId,
        task: TaskId,
        how: Enqueue,
        why: SwitchReason,
    ) -> bool {
        self.tasks[task].state = TaskState::Runnable;
        self.activate_task(to, task, how);
        if how == Enqueue::Wakeup && !self.fixed.history.idle_sampled_at_switch {
            self.end_idle_sample(to);
        }
        // For a reader of the trace a delayed task is asleep.
        let runnable = self.rqs.nr_running(to) - self.nr_delayed(to);
        let nr_running = runnable.min(u32::from(u16::MAX)) as u16;
        self.emit(to, EventKind::Enqueued { task, nr_running, new: how == Enqueue::New });
        self.report_counters(to, [Some(task), None]);
        let sync_wakes = self.board.seats[by].sync_wakes;
        let sync = how == Enqueue::Wakeup && sync_wakes && !self.cpus[by].hard.active();
        let preempts = self.wakeup_preempt(to, Arrival { task, how, sync });
        let signals = preempts && self.resched_for(by, to, task, why);
        if self.rt.shared.any && how != Enqueue::Moved {
            self.task_woken(to, task);
        }
        signals
    }

    /// Asks `to` to switch in favour of a task. Only a fair one may have to wait.
    #[inline]
    pub fn resched_for(&mut self, by: CpuId, to: CpuId, task: TaskId, why: SwitchReason) -> bool {
        match self.class(task) {
            Class::Rt => self.resched(by, to, why),
            _ => self.resched_fair(by, to, why),
        }
    }

    /// Asks `to` to call `schedule()` (`resched_curr`), by IPI or, if it is idle, by the flag that its idle loop
    /// watches. Returns whether a signal was sent.
    pub fn resched(&mut self, by: CpuId, to: CpuId, why: SwitchReason) -> bool {
        let c = &mut self.cpus[to];
        if c.must_resched() {
            return false;
        }
        // An earlier lazy request stays the reason.
        c.need_resched.get_or_insert(why);
        c.lazy = false;
        let signals = by != to || self.stepping.from_outside;
        if signals {
            self.kick(by, to);
        }
        signals
    }

    /// The same for a fair task in favour of another: under the lazy model no CPU is signalled, and `to` obeys the
    /// request at its next return to user mode, from a system call or an interrupt, at the latest the tick's
    /// (`resched_curr_lazy`).
    pub fn resched_fair(&mut self, by: CpuId, to: CpuId, why: SwitchReason) -> bool {
        let lazily = Preempt::of(&self.fixed.kernel) == Preempt::Lazy;
        let c = &mut self.cpus[to];
        if c.curr.is_none() || !lazily {
            return self.resched(by, to, why);
        }
        if c.need_resched.is_none() {
            (c.need_resched, c.lazy) = (Some(why), true);
        }
        false
    }

    /// Time that `by` needs to signal `to`, ns: sending an IPI, or writing to a line that a polling CPU reads.
    pub fn signal_ns(&self, by: CpuId, to: CpuId) -> u64 {
        let costs = &self.fixed.machine.costs;
        match self.polls(to) {
            true if self.shares_cache(by, to) => costs.probe_miss_near_ns,
            true => costs.probe_miss_far_ns,
            false => costs.ipi_send_ns,
        }
    }

    /// Signals `to`: by an IPI, or by a write to the flag that an idle CPU watches.
    pub fn kick(&mut self, by: CpuId, to: CpuId) {
        let watches = self.cpus[to].curr.is_none();
        let delay = match self.board.turns {
            Some(_) => 0,
            None if watches => self.signal_ns(by, to),
            None => ipi_ns(&self.fixed.machine.costs, self.remote_reads.distance(by, to)),
        };
        let c = &mut self.cpus[to];
        c.ipi_at = c.ipi_at.min(self.now + delay);
        self.touch(to);
    }
}
