//! Our rules as a kernel of the board ([`schedlab_board::board`]): what its drivers ask, and the way back to user mode.

use crate::frame::Step;
use crate::system::System;
use crate::task::{Class, TaskState};
use schedlab_base::{CpuId, Error, Ns, TaskId};
use schedlab_board::board::{Board, Context, Kernel};
use schedlab_board::calls::Call;
use schedlab_board::drivers::{Calls, UserMode};
use schedlab_board::nested::Direction;
use schedlab_board::net::Packet;
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
    }
    #[inline]
    fn touch(&mut self, cpu: CpuId) {
        self.stepping.touched.push(cpu);
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
        let frame = &mut self.cpus[cpu].task;
        (frame.step, frame.ends) = (Step::User, ends);
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
        self.tasks[curr].state = TaskState::Sleeping;
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
    fn leaves_word(&mut self, waiter: TaskId) {
        self.tasks[waiter].waits_on = None;
        self.cancel_timer(waiter);
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
        self.others.hosted.as_ref().map(|hosted| hosted.speed(cpu))
    }
    #[inline]
    fn stands_still(&self, cpu: CpuId) -> bool {
        self.others.hosted.as_ref().is_some_and(|h| !h.runs(cpu))
    }
    fn enter_vcpu(&mut self, cpu: CpuId, curr: TaskId, vcpu: (usize, CpuId), speed: Speed) -> u64 {
        self.enters_vcpu(cpu, curr, vcpu, speed)
    }
    fn pause_vcpu(&mut self, vcpu: (usize, CpuId)) {
        self.pauses_vcpu(vcpu);
    }
    fn vcpu_acts(&mut self, cpu: CpuId, curr: TaskId, vcpu: (usize, CpuId)) {
        self.act_of_vcpu(cpu, curr, vcpu);
    }
    #[inline]
    fn moves_messages(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        if self.others.nested.is_empty() || !self.board.threads[curr].background {
            return false;
        }
        let Some(machine) = self.vhost_of(curr) else { return false };
        self.vhost_continues(cpu, curr, machine);
        true
    }
    fn give_vhost(
        &mut self,
        cpu: CpuId,
        machine: usize,
        (way, packet): (Direction, Packet),
        context: Context,
    ) {
        if let Some(thread) = self.others.nested[machine].vhost.take(way, packet) {
            self.board.seats[cpu].to_wake[context as usize].push(thread);
        }
    }
    fn interrupt_at(&mut self, cpu: CpuId, at: u64) {
        let c = &mut self.cpus[cpu];
        c.ipi_at = c.ipi_at.min(at);
    }
    fn peer_acted(&mut self, steps: u64, ended: bool) {
        self.stepping.steps += steps;
        self.run.alive -= usize::from(ended);
    }
}

impl System<'_> {
    /// How much later than asked a timer of the task may fire, ns: 0 for real-time tasks (`hrtimer_nanosleep`).
    pub fn timer_slack_ns(&self, task: TaskId) -> u64 {
        if self.tasks[task].class == Class::Rt { 0 } else { self.board.threads[task].slack_ns }
    }
    /// The time of a slot's next event: of a CPU, or of a machine behind a link.
    #[inline]
    pub fn slot_event(&self, slot: CpuId) -> u64 {
        match slot.index().checked_sub(self.nr_cpus() + 1) {
            None => self.next_event(slot),
            Some(number) => self.board.peers[number].next_event(),
        }
    }
}
