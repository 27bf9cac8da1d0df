//! The host's side of a virtual machine: entering a vCPU, its steps, its halts, and signals to sleeping threads.

use crate::frame::Step;
use crate::system::System;
use crate::timer::Fires;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Context;
use schedlab_board::board::Kernel as _;
use schedlab_board::calls::Call;
use schedlab_board::drivers::UserMode;
use schedlab_board::engine::NEVER;
use schedlab_board::nested::{Direction, Guest};
use schedlab_board::speed::Speed;

impl System<'_> {
    /// The vCPU's thread begins a stretch of user mode on `cpu`; returns when the stretch ends, ns. A thread that has
    /// come from elsewhere fetches its data first.
    pub fn enters_vcpu(
        &mut self,
        cpu: CpuId,
        thread: TaskId,
        (machine, vcpu): (usize, CpuId),
        speed: Speed,
    ) -> u64 {
        let now = self.now;
        debug_assert!(self.cpus[cpu].curr == Some(thread), "{cpu} enters a vCPU of another thread");
        match self.board.threads[thread].refill_ns {
            0 => self.others.nested[machine].enter(vcpu, now, speed),
            refill_ns => now.saturating_add(speed.time(refill_ns)),
        }
    }

    /// The stretch of a vCPU's thread stops here.
    pub fn pauses_vcpu(&mut self, (machine, vcpu): (usize, CpuId)) {
        if !self.others.nested[machine].stands_still(vcpu) {
            let now = self.now;
            self.others.nested[machine].pause(vcpu, now);
        }
    }

    /// The stretch of a vCPU's thread has ended: the vCPU does what is due.
    pub fn act_of_vcpu(&mut self, cpu: CpuId, curr: TaskId, (machine, vcpu): (usize, CpuId)) {
        if self.board.threads[curr].refill_ns > 0 {
            return self.start_user(cpu);
        }
        let horizon = self.stepping.horizon.min(self.cpus[cpu].irq_due());
        let (times, speed) = ((self.now, horizon), self.speed(cpu));
        let mut sent = std::mem::take(&mut self.board.nic.sent);
        let own = &mut self.others.nested[machine];
        let acted = own.act(vcpu, times, speed, &mut sent, self.out.sink());
        self.stepping.steps += acted.steps;
        if let Some(fault) = acted.fault {
            self.run.fault = Some(fault);
        }
        self.signal(cpu, machine, Some(vcpu));
        for packet in sent.drain(..) {
            self.give_vhost(cpu, machine, (Direction::Out, packet), Context::Task);
        }
        self.board.nic.sent = sent;
        if acted.ended {
            // Its threads count as gone.
            self.run.alive -= self.others.nested[machine].vcpus.len();
        }
        let exit_ns = self.fixed.machine.costs.vm_exit_ns;
        if self.wakes_next(cpu, exit_ns) {
            return;
        }
        if self.others.nested[machine].idles(vcpu) {
            self.others.nested[machine].counted.halts += 1;
            return self.begin(cpu, Step::Syscall(Call::VcpuHalts), exit_ns);
        }
        self.returns(cpu);
    }

    /// Threads are to be woken by `cpu`, if there are any; it begins after `cost_ns`.
    pub fn wakes_next(&mut self, cpu: CpuId, cost_ns: u64) -> bool {
        let some = !self.board.seats[cpu].to_wake[Context::Task as usize].is_empty();
        if some {
            self.begin(cpu, Step::Syscall(Call::VcpuKicks), cost_ns);
        }
        some
    }

    /// Other vCPUs whose next event a step of `sender`, or the host, has changed: those that execute stop earlier,
    /// those that sleep are to be woken by `cpu`.
    pub fn signal(&mut self, cpu: CpuId, machine: usize, sender: Option<CpuId>) {
        while let Some(to) = self.others.nested[machine].touched() {
            if Some(to) == sender {
                continue;
            }
            let own = &self.others.nested[machine];
            let (state, next) = (own.vcpus[to.index()], own.next_event(to));
            let on = self.tasks[state.thread].cpu;
            if !own.stands_still(to) {
                self.cpus[on].task.ends = own.acts_at(to, self.now);
                self.touch(on);
            } else if let Some(on) = state.polls_on {
                self.end_poll(on, next);
            } else if state.asleep && next != NEVER {
                self.rouse(cpu, machine, to, next);
            }
        }
    }

    /// A vCPU whose thread sleeps has an event at `next`, ns. A signal wakes the thread; a timer sets its timer anew.
    fn rouse(&mut self, cpu: CpuId, machine: usize, to: CpuId, next: u64) {
        let thread = self.others.nested[machine].vcpus[to.index()].thread;
        if !self.others.nested[machine].is_signalled(to) {
            let Some((on, number)) = self.tasks[thread].timer.take() else { return };
            self.cpus[on].timers.cancel(number);
            let number = self.cpus[on].timers.start(Fires::Wakes(thread), next, 0);
            self.tasks[thread].timer = Some((on, number));
            return self.touch(on);
        }
        self.others.nested[machine].vcpus[to.index()].asleep = false;
        self.others.nested[machine].counted.kicks += 1;
        self.cancel_timer(thread);
        self.board.seats[cpu].to_wake[Context::Task as usize].push(thread);
    }

    /// The vCPU's exit is over: the host polls for its next event, or puts the thread to sleep.
    pub fn vcpu_halts(&mut self, cpu: CpuId, curr: TaskId, polled: bool) {
        let Some((machine, vcpu)) = self.board.threads[curr].vcpu() else { return };
        let now = self.now;
        let alone = self.rqs.nr_running(cpu) <= 1 && self.cpus[cpu].need_resched.is_none();
        let own = &mut self.others.nested[machine];
        own.vcpus[vcpu.index()].polls_on = None;
        let due = own.irq_due(vcpu, now);
        if due <= now {
            return self.returns(cpu);
        }
        // Another task of the host goes first (`single_task_running`).
        if own.halt_poll_ns > 0 && !polled && alone {
            own.vcpus[vcpu.index()].polls_on = Some(cpu);
            let poll_ns = own.halt_poll_ns.min(due - now);
            return self.begin(cpu, Step::Syscall(Call::VcpuPolls), poll_ns);
        }
        own.vcpus[vcpu.index()].asleep = true;
        own.counted.sleeps += 1;
        if due != NEVER {
            let number = self.cpus[cpu].timers.start(Fires::Wakes(curr), due, 0);
            self.tasks[curr].timer = Some((cpu, number));
        }
        self.block(cpu, curr);
    }

    /// An event of the vCPU that `cpu` polls for comes at `next`, ns: polling ends then.
    fn end_poll(&mut self, cpu: CpuId, next: u64) {
        let now = self.now;
        let task = &mut self.cpus[cpu].task;
        if !matches!(task.step, Step::Syscall(Call::VcpuPolls)) {
            return;
        }
        match task.ends {
            NEVER => task.left = task.left.min(next.saturating_sub(now)),
            _ => task.ends = task.ends.min(next.max(now)),
        }
        self.touch(cpu);
    }

    /// A vCPU's thread was woken by its timer.
    pub fn vcpu_timer(&mut self, task: TaskId) {
        if let Some((machine, vcpu)) = self.board.threads[task].vcpu() {
            self.others.nested[machine].vcpus[vcpu.index()].asleep = false;
        }
    }
}

impl System<'_> {
    /// The vCPU continues after `stood_ns`: what it was doing takes that much longer.
    pub(super) fn resume(&mut self, vcpu: CpuId, stood_ns: u64, speed: Speed) {
        if let Some(hosted) = &mut self.others.hosted {
            hosted.runs[vcpu.index()] = true;
            hosted.speed[vcpu.index()] = speed;
        }
        let c = &mut self.cpus[vcpu];
        let frame = match (c.hard.active(), c.soft.active()) {
            (true, _) => &mut c.hard,
            (false, true) => &mut c.soft,
            (false, false) => &mut c.task,
        };
        match frame.step {
            Step::User => self.start_user(vcpu),
            // Its timers have continued.
            Step::Halted { .. } => {}
            _ if frame.ends != NEVER => frame.ends += stood_ns,
            _ => {}
        }
        for context in [Context::Task, Context::Hard] {
            // A vCPU is taken off before it takes a lock, not while it has one.
            self.cpus[vcpu].waking[context as usize].put_off(stood_ns);
        }
    }

    /// The vCPU stands still from this instant on.
    pub(super) fn stand_still(&mut self, vcpu: CpuId) {
        self.account_user(vcpu);
        if let Some(hosted) = &mut self.others.hosted {
            hosted.runs[vcpu.index()] = false;
        }
    }
}
