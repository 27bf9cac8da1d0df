//! Our rules as a kernel of the board ([`schedlab_board::board`]): what its drivers ask, and the way back to user mode.

use crate::frame::Step;
use crate::system::System;
use crate::task::{Class, TaskState};
use crate::timer::Fires;
use schedlab_base::{CpuId, Error, Ns, TaskId};
use schedlab_board::board::{Board, Context, Kernel};
use schedlab_board::calls::Call;
use schedlab_board::drivers::{Calls, UserMode};
use schedlab_board::engine::NEVER;
use schedlab_board::speed::Speed;
use schedlab_machine::Distance;
use schedlab_trace::{Sink, SwitchReason};
use schedlab_workload::Usage;

impl<'s> Kernel<'s> for System<'s> {
    #[inline]
    fn now(&self) -> u64 {
        self.now
    }
    #[inline]
    fn board(&self) -> &Board<'s> {
        &self.board
    }
    #[inline]
    fn board_mut(&mut self) -> &mut Board<'s> {
        &mut self.board
    }
    fn board_and_sink(&mut self) -> (&mut Board<'s>, &mut dyn Sink) {
        (&mut self.board, self.out.sink())
    }
    fn fail(&mut self, error: Error) {
        self.run.fault.get_or_insert(error);
        self.stepping.look_at = 0;
    }
    #[inline]
    fn next_event(&self, cpu: CpuId) -> u64 {
        let c = &self.cpus[cpu];
        if c.hard.active() {
            return c.hard.ends;
        }
        let base = if c.soft.active() { c.soft.ends } else { c.task.ends };
        if !c.soft.active() && c.task.step.irqs_off() {
            return base;
        }
        base.min(c.irq_due().max(self.now))
    }
    #[inline]
    fn touch(&mut self, cpu: CpuId) {
        self.stepping.touched.push(cpu);
    }
    #[inline]
    fn pop_touched(&mut self) -> Option<CpuId> {
        self.stepping.touched.pop()
    }

    #[inline]
    fn running(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu].curr
    }
    #[inline]
    fn in_user(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].in_user()
    }
    #[inline]
    fn since(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].since
    }
    fn executes(&self, task: TaskId) -> Option<CpuId> {
        let on = self.tasks[task].cpu;
        (self.cpus[on].curr == Some(task) && self.cpus[on].in_user()).then_some(on)
    }
    #[inline]
    fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        self.remote_reads.distance(a, b)
    }
    #[inline]
    fn user_until(&mut self, cpu: CpuId, ends: u64) {
        let c = &mut self.cpus[cpu];
        debug_assert!(!c.hard.active(), "{cpu} is in user mode from {} on, and in an interrupt", self.now);
        debug_assert!(!c.soft.active(), "{cpu} is in user mode from {} on, and in a softirq", self.now);
        (c.task.step, c.task.ends) = (Step::User, ends);
    }

    #[inline]
    fn call_after(&mut self, cpu: CpuId, call: Call, cost_ns: u64) {
        self.begin(cpu, Step::Syscall(call), cost_ns);
    }
    #[inline]
    fn wake_listed(&mut self, cpu: CpuId) {
        self.next_wakeup(cpu, Context::Task);
    }
    fn wake_heard(&mut self, cpu: CpuId) {
        self.next_wakeup(cpu, Context::Hard);
    }
    fn block(&mut self, cpu: CpuId, curr: TaskId) {
        let t = &mut self.tasks[curr];
        debug_assert!(t.state == TaskState::Runnable, "{curr:?} falls asleep on {cpu} while {:?}", t.state);
        debug_assert!(
            self.cpus[cpu].curr == Some(curr),
            "{curr:?} falls asleep on {cpu}, which it does not have"
        );
        t.state = TaskState::Sleeping;
        self.schedule(cpu, SwitchReason::Blocked);
    }
    /// Back to user mode, through the scheduler if a switch was asked for.
    fn returns(&mut self, cpu: CpuId) {
        if let Some(why) = self.cpus[cpu].need_resched {
            return self.schedule(cpu, why);
        }
        if self.fair.any_quota && self.throttle_on_return(cpu) {
            return self.schedule(cpu, SwitchReason::Throttled);
        }
        self.start_user(cpu);
        let c = &self.cpus[cpu];
        if c.task.ends == self.now && c.irq_due() > self.now && self.at_once() {
            self.user_done(cpu);
        }
    }
    fn begin_sleep(&mut self, cpu: CpuId, curr: TaskId, length: Ns) {
        if self.board.turns.is_some() {
            return self.begin_call(cpu, Call::SleepFor { length }, 0);
        }
        let costs = &self.fixed.machine.costs;
        let until = self.now.saturating_add(costs.program_ns).saturating_add(length.0);
        let timer_ns = self.timer_ns(cpu, curr, until);
        // The kernel reads the clock within the call. So the sleep ends after the call even if it is shorter than the
        // call.
        let called = self.now + costs.program_ns + costs.syscall_ns + timer_ns;
        self.begin_call(cpu, Call::Sleep { until: until.max(called + 1) }, timer_ns);
    }
    fn timer_ns(&self, cpu: CpuId, curr: TaskId, until: u64) -> u64 {
        self.timer_start_ns(cpu, until.saturating_add(self.timer_slack_ns(curr)))
    }
    fn sleep_on(&mut self, cpu: CpuId, curr: TaskId, word: u32, until: u64) {
        debug_assert!(self.tasks[curr].waits_on.is_none(), "{curr:?} waits for two words");
        self.tasks[curr].waits_on = Some(word);
        if until != u64::MAX {
            self.start_timer(cpu, curr, until, self.timer_slack_ns(curr));
        }
        self.block(cpu, curr);
    }
    fn sleep_until(&mut self, cpu: CpuId, curr: TaskId, until: u64) {
        if until != NEVER {
            self.wake_at(cpu, curr, until);
        }
        self.block(cpu, curr);
    }
    fn stops_waiting(&mut self, sleeper: TaskId) {
        self.tasks[sleeper].waits_on = None;
        self.cancel_timer(sleeper);
    }
    /// CPU time that a task has used, the present stay included.
    fn usage(&mut self, _: CpuId, of: TaskId) -> Option<Usage> {
        let used = self.tasks.get(of.index())?;
        let entity = &self.fair.entities[used.entity];
        let runs = self.cpus[used.cpu].curr == Some(of);
        let since = if runs { self.now - entity.exec_start } else { 0 };
        Some(Usage {
            cpu: Ns(entity.sum_exec + since),
            ticked: Ns(u64::from(used.counted.ticks) * self.fixed.tick_ns),
            voluntary: used.counted.voluntary,
            involuntary: used.counted.involuntary,
        })
    }
    fn kernel_call(&mut self, cpu: CpuId, curr: TaskId, call: Call) {
        self.system_call(cpu, curr, call);
    }
    fn sets_up(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        self.tasks[curr].own.is_some() && self.begins_set_up(cpu, curr)
    }

    #[inline]
    fn host_speed(&self, cpu: CpuId) -> Option<Speed> {
        self.hosted.as_ref().map(|hosted| hosted.speed(cpu))
    }
    #[inline]
    fn stands_still(&self, cpu: CpuId) -> bool {
        self.hosted.as_ref().is_some_and(|h| !h.runs(cpu))
    }
    fn guest_horizon(&self, cpu: CpuId) -> u64 {
        self.stepping.horizon.min(self.cpus[cpu].irq_due())
    }
    fn runs_alone(&mut self, cpu: CpuId) -> bool {
        self.rqs.nr_running(cpu) <= 1 && self.cpus[cpu].need_resched.is_none()
    }
    fn sets_timer_anew(&mut self, thread: TaskId, at: u64) -> bool {
        if let Some((on, number)) = self.tasks[thread].timer.take() {
            self.cpus[on].timers.cancel(number);
            self.wake_at(on, thread, at);
            self.touch(on);
        }
        true
    }
    fn end_wait(&mut self, cpu: CpuId, call: Call, at: u64) {
        let now = self.now;
        let task = &mut self.cpus[cpu].task;
        if task.step != Step::Syscall(call) {
            return;
        }
        match task.ends {
            NEVER => task.left = task.left.min(at.saturating_sub(now)),
            _ => task.ends = task.ends.min(at.max(now)),
        }
        self.touch(cpu);
    }
    fn interrupt_at(&mut self, cpu: CpuId, at: u64) {
        let c = &mut self.cpus[cpu];
        c.ipi_at = c.ipi_at.min(at);
    }
    fn others_acted(&mut self, steps: u64, left: usize) {
        self.stepping.steps += steps;
        self.run.alive -= left;
        self.stepping.look_at = 0;
    }
}

impl System<'_> {
    /// How much later than asked a timer of the task may fire, ns: 0 for real-time tasks (`hrtimer_nanosleep`).
    pub fn timer_slack_ns(&self, task: TaskId) -> u64 {
        if self.tasks[task].class == Class::Rt { 0 } else { self.board.threads[task].slack_ns }
    }
    /// A timer of `cpu` wakes the task at `at`, to the nanosecond.
    pub fn wake_at(&mut self, cpu: CpuId, task: TaskId, at: u64) {
        let number = self.cpus[cpu].timers.start(Fires::Wakes(task), at, 0);
        self.has_timer(cpu, task, number);
    }
}
