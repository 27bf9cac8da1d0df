//! Interrupts: entry, the effect of each, exit. An idle CPU first leaves its idle state; user mode continues or is
//! left.

use crate::class::Enqueue;
use crate::costs::enqueue_on_ns;
use crate::frame::{Frame, Step};
use crate::system::System;
use crate::task::TaskState;
use crate::timer::{Fires, Timer};
use schedlab_base::CpuId;
use schedlab_board::board::Context;
use schedlab_board::board::Kernel as _;
use schedlab_board::calls::Call;
use schedlab_board::drivers::{Links, UserMode};
use schedlab_board::engine::NEVER;
use schedlab_trace::SwitchReason;

impl System<'_> {
    /// Handles an interrupt that is due on `cpu`: IPIs first, then the tick and the timers, in the order of their
    /// expiry (`hrtimer_interrupt` runs both in that order).
    pub fn interrupt(&mut self, cpu: CpuId) {
        if let Step::Halted { state } = self.cpus[cpu].task.step {
            return self.leave_idle_state(cpu, state);
        }
        let within = self.cpus[cpu].hard.step;
        debug_assert!(within == Step::None, "{cpu} takes an interrupt at {} amid {within:?}", self.now);
        self.account_user(cpu);
        let costs = &self.fixed.machine.costs;
        let tick_ns = self.fixed.tick_ns;
        let now = self.now;
        let c = &mut self.cpus[cpu];
        let (step, cost) = if c.ipi_at <= now {
            c.ipi_at = NEVER;
            let received_ns = self.board.nic.take(cpu, now) * costs.nic_irq_ns;
            let queued_ns = c.wake_list.len() as u64 * enqueue_on_ns(costs, c.curr.is_some());
            (Step::Ipi, costs.ipi_irq_ns + received_ns + queued_ns)
        } else if c.timers.due().min(c.hrtick_at) <= now.min(c.tick_at) {
            (Step::Timer, costs.timer_irq_ns)
        } else {
            c.tick_at += tick_ns;
            (Step::Tick, costs.tick_ns)
        };
        let lower = if c.soft.active() { &mut c.soft } else { &mut c.task };
        lower.left = if lower.ends == NEVER { NEVER } else { lower.ends.saturating_sub(now) };
        lower.ends = NEVER;
        c.hard = Frame::until(step, now + cost);
    }

    /// The hardirq context's step has ended.
    pub fn hard_step(&mut self, cpu: CpuId) {
        match self.cpus[cpu].hard.step {
            Step::Tick => {
                self.scheduler_tick(cpu);
                let history = &self.fixed.history;
                if history.timers_on_ticks || history.tick_runs_timers {
                    self.run_timers(cpu);
                } else {
                    self.leave_hard(cpu);
                }
            }
            Step::Timer => {
                self.hrtick(cpu);
                self.run_timers(cpu);
            }
            Step::Wakeup => self.wakeup_step(cpu, Context::Hard),
            Step::TimerExit => self.leave_hard(cpu),
            Step::Ipi => {
                // The list was taken with the lock, before the time of the enqueues.
                let (costs, c) = (&self.fixed.machine.costs, &self.cpus[cpu]);
                let took_ns = c.wake_list.len() as u64 * enqueue_on_ns(costs, c.curr.is_some());
                self.flush_wake_list(cpu, self.now.saturating_sub(took_ns));
                self.unthrottle_freed(cpu);
                self.cpus[cpu].softirq |= self.take_nohz_flags(cpu);
                self.push_asked(cpu);
                if self.board.nic.next(cpu).is_none() {
                    return self.leave_hard(cpu);
                }
                self.receive(cpu);
            }
            step => unreachable!("{cpu} stepped in hardirq context at {step:?}"),
        }
    }

    /// Runs the timers of `cpu` that are due, then makes their wakeups.
    fn run_timers(&mut self, cpu: CpuId) {
        while let Some(timer) = self.next_timer(cpu) {
            self.expire(cpu, timer.fires);
        }
        self.next_wakeup(cpu, Context::Hard);
    }

    /// The next timer that this interrupt of `cpu` runs. The end of a slice (HRTICK) and the tick are timers, too.
    fn next_timer(&mut self, cpu: CpuId) -> Option<Timer> {
        let (now, c) = (self.now, &mut self.cpus[cpu]);
        let later = |at: u64| if at > now { at } else { NEVER };
        let ahead = if self.fixed.history.tick_runs_timers {
            later(c.tick_at).min(later(c.hrtick_at))
        } else {
            NEVER
        };
        c.timers.expire_before(now, ahead)
    }

    /// A timer of `cpu` has fired.
    fn expire(&mut self, cpu: CpuId, fires: Fires) {
        match fires {
            Fires::Wakes(task) if self.tasks[task].state == TaskState::Runnable => {
                let timer = self.tasks[task].timer;
                debug_assert!(timer.is_some(), "a timer of {cpu} fires for {task:?}, which has none");
                // The task has not fallen asleep yet, and will not.
                self.tasks[task].timer = None;
            }
            Fires::Wakes(task) => {
                let (on, state) = (self.tasks[task].timer.map(|(on, _)| on), self.tasks[task].state);
                debug_assert!(
                    on == Some(cpu),
                    "a timer of {cpu} fires for {task:?}, whose timer is on {on:?}"
                );
                debug_assert!(state == TaskState::Sleeping, "a timer of {cpu} fires for {task:?}: {state:?}");
                self.time_out(task);
                self.board.vcpu_woke(task);
                self.board.seats[cpu].to_wake[Context::Hard as usize].push(task);
            }
            Fires::RtPeriod => self.rt_period_ends(cpu),
            Fires::Quota(group) => self.period_ends(cpu, group),
            Fires::Slack(group) => self.slack_ends(cpu, group),
            Fires::FairServer => self.server_expires(cpu),
        }
    }

    /// A timer interrupt has made its wakeups: programs the timer again.
    pub fn end_timer(&mut self, cpu: CpuId) {
        let exit_ns = self.fixed.machine.costs.timer_exit_ns;
        if exit_ns == 0 {
            return self.leave_hard(cpu);
        }
        self.cpus[cpu].hard = Frame::until(Step::TimerExit, self.now + exit_ns);
    }

    /// Time to start a timer, ns; longer if the hardware must be programmed for it (`hrtimer_reprogram`).
    pub fn timer_start_ns(&self, cpu: CpuId, expires: u64) -> u64 {
        let (costs, c) = (&self.fixed.machine.costs, &self.cpus[cpu]);
        let is_first =
            !self.fixed.history.timers_on_ticks && expires < c.timers.due().min(c.tick_at).min(c.hrtick_at);
        costs.timer_start_ns + if is_first { costs.timer_program_ns } else { 0 }
    }

    /// The hardirq is over: a raised softirq runs, or the interrupted context continues.
    pub fn leave_hard(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        debug_assert!(c.hard.active(), "{cpu} leaves an interrupt at {} that it is not in", self.now);
        c.hard = Frame::NONE;
        if c.soft.active() {
            c.soft.ends = self.now + c.soft.left;
        } else if std::mem::take(&mut c.softirq) {
            self.begin_softirq(cpu);
        } else {
            self.resume_task_context(cpu);
        }
    }

    /// The softirq is over.
    pub fn leave_soft(&mut self, cpu: CpuId) {
        let (soft, hard) = (self.cpus[cpu].soft.step, self.cpus[cpu].hard.step);
        debug_assert!(soft != Step::None, "{cpu} leaves a softirq at {} that it is not in", self.now);
        debug_assert!(hard == Step::None, "{cpu} leaves a softirq at {} amid {hard:?}", self.now);
        self.cpus[cpu].soft = Frame::NONE;
        self.resume_task_context(cpu);
    }

    fn resume_task_context(&mut self, cpu: CpuId) {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if let Step::Syscall(sys) = c.task.step
            && c.need_resched.is_some()
        {
            let left_ns = c.task.left;
            if self.preempted_in_call(cpu, sys, left_ns) {
                return;
            }
        }
        let c = &mut self.cpus[cpu];
        match c.task.step {
            Step::User => self.returns(cpu),
            Step::IdleLoop => self.begin_idle_loop(cpu),
            // The host stops polling for a vCPU when another task has to run.
            Step::Syscall(Call::VcpuPolls) if c.need_resched.is_some() => c.task.ends = now,
            _ => c.task.ends = now + c.task.left,
        }
    }

    /// Enqueues the tasks that remote wakers queued for this CPU, with its clock read at `at`, ns; returns how many.
    pub fn flush_wake_list(&mut self, cpu: CpuId, at: u64) -> u64 {
        if self.cpus[cpu].wake_list.is_empty() {
            return 0;
        }
        let mut list = std::mem::take(&mut self.cpus[cpu].wake_list);
        for task in &list {
            let state = self.tasks[*task].state;
            debug_assert!(
                state == TaskState::Waking,
                "{task:?} is on the wake list of {cpu} while {state:?}"
            );
            self.activate((cpu, at), cpu, *task, Enqueue::Wakeup, SwitchReason::WakeupPreempt);
        }
        let n = list.len() as u64;
        list.clear();
        self.cpus[cpu].wake_list = list;
        self.refresh_idle(cpu);
        n
    }

    /// The tick: accounting, preemption test, balance trigger (`scheduler_tick`).
    fn scheduler_tick(&mut self, cpu: CpuId) {
        if self.fixed.history.o1 {
            self.o1[cpu].last_tick_ns = self.now;
        }
        self.update_cpu_load(cpu);
        let c = &self.cpus[cpu];
        if let Some(curr) = c.curr
            && matches!(c.task.step, Step::User)
            && !c.soft.active()
        {
            // account_process_tick: a tick that finds a task in user mode counts as user time.
            self.tasks[curr].counted.ticks += 1;
        }
        self.cpus[cpu].lazy = false;
        self.update_rq_clock(cpu);
        if let Some(curr) = self.cpus[cpu].curr
            && let Some(why) = self.task_tick(curr)
        {
            self.resched(cpu, cpu, why);
        }
        self.report_counters(cpu, [self.cpus[cpu].curr, None]);
        if self.fair.groups.len() > 1 && self.is_crowded(cpu) {
            self.accounts.stats.crowded_ticks += 1;
        }
        self.trigger_load_balance(cpu);
    }
}
