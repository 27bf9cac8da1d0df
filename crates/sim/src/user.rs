//! User mode: work, spinning, slow-down by a busy sibling, cache refill after a move, and asking programs for
//! operations.
//!
//! Progress is kept as work left, with the time of the last accounting, so that interrupts, siblings and refills may
//! stretch it. A thread whose sibling is busy runs at `smt_speed_pct` of its speed alone. A moved task first repeats
//! the work of warming its warm data (KB touched so far, at most its footprint), at a price by distance. A task that
//! others have followed on its own core repeats the part that they displaced ([`schedlab_world::cache_by_core`]). On a
//! machine whose caches are known, both are paid gradually instead, as the task touches its set
//! ([`crate::cache_by_level`]).
//!
//! A live program computes until its CPU clock has moved by a stated time, and that clock continues in interrupts and
//! switches. So does simulated work if reading that clock has a price (`cpu_clock_ns`).

use crate::frame::{Frame, Step, Sys};
use crate::system::System;
use crate::task::Class;
use crate::task::{TaskState, UserOp};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::SwitchReason;
use schedlab_workload::Op;
use schedlab_world::cache_by_core::move_refill_ns;
use schedlab_world::env::SimEnv;
use schedlab_world::speed::Speed;

impl System<'_> {
    /// Speed of `cpu`: less while a sibling is not halted.
    #[inline]
    pub fn speed(&self, cpu: CpuId) -> Speed {
        if let Some(hosted) = &self.others.hosted {
            return hosted.speed(cpu);
        }
        let beside_busy = self.turns.is_none() && self.fixed.siblings[cpu].iter().any(|s| self.active[*s]);
        let pct = if beside_busy { self.fixed.machine.costs.smt_speed_pct } else { 100 };
        Speed::of(pct, self.fixed.speed[cpu])
    }

    /// Accounts the user-mode stretch that is running on `cpu`, if one is.
    pub fn account_user(&mut self, cpu: CpuId) {
        if !self.cpus[cpu].in_user() || self.works_without_turn(cpu) || self.stands_still(cpu) {
            return;
        }
        let speed = self.speed(cpu);
        let c = &mut self.cpus[cpu];
        let since = std::mem::replace(&mut c.user_since, self.now);
        let elapsed = self.now - since;
        let Some(curr) = c.curr else { return };
        let vcpu = self.vcpu_of(curr);
        if let Some(vcpu) = vcpu {
            self.pause_vcpu(vcpu);
        }
        if elapsed == 0 {
            return;
        }
        if speed.is_shared() {
            self.accounts.stats.smt_shared_ns += elapsed;
        }
        let done = speed.work(elapsed);
        let task = &mut self.tasks[curr];
        let refill = done.min(task.refill_ns);
        task.refill_ns -= refill;
        self.accounts.stats.refill_ns += refill;
        let work = done - refill;
        // A stretch that an interrupt had stopped when the warm-up ended counts from the end of the warm-up.
        let early = speed.work(self.accounts.counted_from.saturating_sub(since));
        match &mut task.user {
            UserOp::Run { left_ns } | UserOp::Touch { left_ns, .. } => {
                task.work_ns += work.min(*left_ns).saturating_sub(early);
                *left_ns -= work.min(*left_ns);
                if let (Some(memory), UserOp::Run { .. }) = (&mut self.memory.by_level, task.user) {
                    memory.ran(curr, work);
                }
            }
            UserOp::Spin { .. } => task.work_ns += work.saturating_sub(early),
            UserOp::Ask
            | UserOp::Transfer(_)
            | UserOp::Poll(_)
            | UserOp::SpinLock { .. }
            | UserOp::Vcpu { .. } => {}
        }
        if matches!(task.user, UserOp::Touch { .. }) {
            return;
        }
        let warmed = elapsed / self.fixed.machine.costs.warm_ns_per_kb.max(1);
        task.warm_kb = task.warm_kb.saturating_add(warmed.min(1 << 20) as u32).min(task.footprint_kb);
    }

    /// (Re)starts user mode on `cpu` at this instant: computes when the current operation ends.
    pub fn start_user(&mut self, cpu: CpuId) {
        let speed = self.speed(cpu);
        let by_clock = self.turns.is_none() && self.fixed.machine.costs.cpu_clock_ns > 0;
        let c = &mut self.cpus[cpu];
        let in_kernel = self.now - c.since.max(std::mem::replace(&mut c.user_since, self.now));
        let Some(curr) = c.curr else { return };
        if let Some(vcpu) = self.vcpu_of(curr) {
            let ends = self.enter_vcpu(cpu, vcpu, speed);
            self.cpus[cpu].task = Frame::until(Step::User, ends);
            return;
        }
        if let UserOp::SpinLock { word } = self.tasks[curr].user {
            return self.spin_on(cpu, curr, word, speed);
        }
        let task = &mut self.tasks[curr];
        if by_clock && let UserOp::Run { left_ns } = &mut task.user {
            // The program ends by its CPU clock, which continued in the kernel.
            *left_ns = left_ns.saturating_sub(in_kernel);
        }
        self.next_chunk(cpu, curr);
        let chunk_ns = self.chunk_left_ns(curr);
        let (c, task) = (&mut self.cpus[cpu], &self.tasks[curr]);
        c.task.step = Step::User;
        c.task.ends = match task.user {
            UserOp::Run { left_ns } | UserOp::Touch { left_ns, .. } => {
                let wanted = task.refill_ns.saturating_add(left_ns.min(chunk_ns));
                self.now.saturating_add(speed.time(wanted))
            }
            UserOp::Spin { until } => until.max(self.now),
            UserOp::Ask
            | UserOp::Transfer(_)
            | UserOp::Poll(_)
            | UserOp::SpinLock { .. }
            | UserOp::Vcpu { .. } => self.now,
        };
    }

    /// Notes that `cpu` halts or runs; its siblings' speed changes with it.
    pub fn set_active(&mut self, cpu: CpuId, active: bool) {
        if self.active[cpu] == active {
            return;
        }
        let mut in_user = false;
        for i in 0..self.fixed.siblings[cpu].len() {
            let sibling = self.fixed.siblings[cpu][i];
            if self.cpus[sibling].in_user() {
                self.account_user(sibling);
                in_user = true;
            }
        }
        self.active[cpu] = active;
        if !in_user || self.turns.is_some() {
            // CPUs that take turns never run beside each other.
            return;
        }
        for i in 0..self.fixed.siblings[cpu].len() {
            let sibling = self.fixed.siblings[cpu][i];
            if self.cpus[sibling].in_user() {
                self.start_user(sibling);
                self.touch(sibling);
            }
        }
    }

    /// The user-mode stretch has ended: account it, then ask the program unless something of it is left.
    pub fn user_done(&mut self, cpu: CpuId) {
        self.account_user(cpu);
        let Some(curr) = self.cpus[cpu].curr else { return };
        let finished = match self.tasks[curr].user {
            UserOp::Run { left_ns } => left_ns == 0,
            UserOp::Touch { left_ns, .. } => {
                left_ns == 0 && !self.memory.by_level.as_ref().is_some_and(|m| m.touches_on(curr))
            }
            UserOp::Spin { until } => until <= self.now,
            UserOp::Ask => true,
            UserOp::SpinLock { .. } => false,
            UserOp::Transfer(t) => return self.transfer_on(cpu, curr, t),
            UserOp::Poll(set) => return self.poll_on(cpu, set),
            UserOp::Vcpu { machine, vcpu } => return self.vcpu_acts(cpu, curr, (usize::from(machine), vcpu)),
        };
        if finished { self.ask(cpu, curr) } else { self.start_user(cpu) }
    }

    /// Asks the current task's program for its next operation and begins it.
    fn ask(&mut self, cpu: CpuId, curr: TaskId) {
        if !self.others.nested.is_empty()
            && self.tasks[curr].background
            && let Some(machine) = self.vhost_of(curr)
        {
            return self.vhost_continues(cpu, curr, machine);
        }
        if self.tasks[curr].own.is_some() && self.sets_up(cpu, curr) {
            return;
        }
        let recording = self.now >= self.accounts.measure_from && !self.tasks[curr].background;
        let task = &mut self.tasks[curr];
        task.user = UserOp::Ask;
        let outcome = std::mem::take(&mut task.outcome);
        let mut env = SimEnv {
            now: self.now,
            cpu,
            outcome,
            words: &self.user.words,
            slots: &self.user.slots,
            sink: self.out.sink(),
            task: curr,
            recording,
            measure_from: self.accounts.measure_from,
            intervals: &mut self.accounts.intervals,
        };
        let op = task.program.next(&mut env);
        self.perform(cpu, curr, op);
    }

    /// Begins an operation of the current task. Every one takes some time, so that no program can stop the clock.
    fn perform(&mut self, cpu: CpuId, curr: TaskId, op: Op) {
        let costs = self.fixed.machine.costs;
        let slack_ns = self.timer_slack_ns(curr);
        let sleep = |soft: u64| Sys::Sleep { soft, slack_ns };
        match op {
            Op::Run { work } => {
                let work_ns = work.0.max(1);
                // It reads its CPU time before it begins, and again before it ends.
                let asks_ns =
                    2 * self.turns.as_ref().map_or(costs.cpu_clock_ns, |sharing| sharing.spec.cpu_clock_ns);
                if self.turns.is_some() || asks_ns > 0 {
                    return self.begin(cpu, Step::Syscall(Sys::Compute { work_ns }), asks_ns);
                }
                self.tasks[curr].user = UserOp::Run { left_ns: work_ns };
                self.start_user(cpu);
            }
            Op::Execute { length } => {
                self.tasks[curr].user = UserOp::Touch { left_ns: length.0.max(1), kb: 0 };
                self.start_user(cpu);
            }
            Op::SpinTo { at } => {
                self.tasks[curr].user = UserOp::Spin { until: at.0.max(self.now + CLOCK_READ_NS) };
                self.start_user(cpu);
            }
            Op::Sleep { length } if self.turns.is_some() => {
                self.begin_syscall(cpu, Sys::StartSleep { length, slack_ns }, 0);
            }
            Op::Sleep { length } => {
                let soft = self.now.saturating_add(costs.program_ns).saturating_add(length.0);
                let timer = self.timer_start_ns(cpu, soft.saturating_add(slack_ns));
                // The kernel reads the clock within the call. So the sleep ends after the call even if it is shorter
                // than the call.
                let called = self.now + costs.program_ns + costs.syscall_ns + timer;
                self.begin_syscall(cpu, sleep(soft.max(called + 1)), timer);
            }
            Op::SleepTo { at } => {
                let timer = self.timer_start_ns(cpu, at.0.saturating_add(slack_ns));
                self.begin_syscall(cpu, sleep(at.0), timer);
            }
            Op::Wait { word, value, until } => {
                let timer = match until {
                    Ns::MAX => 0,
                    _ => self.timer_start_ns(cpu, until.0.saturating_add(slack_ns)),
                };
                let sys = Sys::Wait { word: word.0, value, until: until.0 };
                self.begin_syscall(cpu, sys, costs.futex_wait_ns + timer);
            }
            Op::Wake { word, count } => {
                let found = !self.user.waiters[word.index()].is_empty();
                let cost = if found { costs.futex_wake_ns } else { costs.futex_wake_empty_ns };
                self.begin_syscall(cpu, Sys::Wake { word: word.0, count }, cost);
            }
            Op::SpinLock { word } => self.begin_spin(cpu, curr, word),
            Op::SpinUnlock { word } => self.unlock_spin(cpu, curr, word),
            Op::Send { port, bytes } => self.begin_transfer(cpu, curr, port, true, bytes),
            Op::Recv { port, bytes } => self.begin_transfer(cpu, curr, port, false, bytes),
            Op::Poll { set } => self.begin_poll(cpu, set),
            Op::Touch { kb, rounds } => {
                let task = &mut self.tasks[curr];
                let kb = kb.min(task.footprint_kb);
                if let Some(memory) = &mut self.memory.by_level {
                    memory.begin_touch(curr, kb, rounds);
                    task.user = UserOp::Touch { left_ns: u64::from(!memory.touches_on(curr)), kb };
                    return self.start_user(cpu);
                }
                let passes_ns = u64::from(kb) * costs.touch_ns_per_kb;
                task.user = UserOp::Touch { left_ns: passes_ns.saturating_mul(rounds.into()).max(1), kb };
                // Its memory is warm from now on. The part that a move left behind, or other tasks displaced, is
                // fetched first.
                task.warm_kb = task.warm_kb.max(kb);
                let passes_kb = u64::from(kb) * u64::from(rounds);
                self.memory.by_core.touch(cpu, &mut task.reuse, &mut task.refill_ns, (kb, passes_kb));
                self.start_user(cpu);
            }
            Op::Yield => self.begin_syscall(cpu, Sys::Yield, 0),
            Op::Spawn { task } => self.begin_syscall(cpu, Sys::Spawn { task }, costs.fork_ns),
            Op::Exec => self.begin_syscall(cpu, Sys::Exec, costs.exec_ns),
            Op::SetAttr { attr } => self.begin_syscall(cpu, Sys::SetAttr { attr }, 0),
            Op::SetAffinity { mask } => self.begin_syscall(cpu, Sys::SetAffinity { mask }, 0),
            Op::Usage { task } => self.begin_syscall(cpu, Sys::Usage { task }, costs.usage_read_ns),
            Op::Exit if self.tasks[curr].waits_at_end => {
                self.begin_syscall(cpu, Sys::Exit, costs.futex_wait_ns);
            }
            Op::Exit => self.begin_syscall(cpu, Sys::Exit, costs.exit_ns),
        }
    }

    /// How much later than asked a timer of the task may fire, ns: 0 for real-time tasks (`hrtimer_nanosleep`).
    pub fn timer_slack_ns(&self, task: TaskId) -> u64 {
        let t = &self.tasks[task];
        if t.class == Class::Rt { 0 } else { t.slack_ns }
    }

    /// Back to user mode, through the scheduler if a switch was asked for.
    pub fn return_to_user(&mut self, cpu: CpuId) {
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

    /// The current task has just been switched to on `cpu`: it must fetch its warm data if it comes from elsewhere, and
    /// the part that others displaced if it comes back.
    pub fn pay_move(&mut self, cpu: CpuId, curr: TaskId) {
        let costs = &self.fixed.machine.costs;
        let task = &mut self.tasks[curr];
        let from = std::mem::replace(&mut task.ran_on, cpu);
        if self.memory.by_level.is_some() && !matches!(task.user, UserOp::Vcpu { .. }) {
            // It pays as it touches what it left behind.
            return;
        }
        let (by_core, task) = (&mut self.memory.by_core, &mut self.tasks[curr]);
        if by_core.enter((cpu, curr), from, &mut task.reuse)
            && let UserOp::Touch { kb, left_ns } = task.user
        {
            let left_kb = left_ns.div_ceil(costs.touch_ns_per_kb.max(1));
            by_core.touch(cpu, &mut task.reuse, &mut task.refill_ns, (kb, left_kb));
        }
        let refill_ns = move_refill_ns(costs, self.memory.remote_reads.distance(from, cpu), task.warm_kb);
        // Data that were not fetched yet were not warm there: their refill is paid once.
        task.refill_ns = task.refill_ns.max(refill_ns);
    }

    /// Puts the current task of `cpu` to sleep and gives the CPU away.
    pub fn block(&mut self, cpu: CpuId, curr: TaskId) {
        self.tasks[curr].state = TaskState::Sleeping;
        self.schedule(cpu, SwitchReason::Blocked);
    }
}

/// Reading the clock by the vDSO.
const CLOCK_READ_NS: u64 = 30;
