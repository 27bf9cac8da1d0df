//! User mode: work, spinning, slow-down by a busy sibling, cache refill after a move, and asking programs for
//! operations. The rules are those of `schedlab_world`; prices are the machine's.

use crate::board::Board;
use crate::cpu::{Activity, Call, Halt, Next};
use crate::kernel::has_idle_driver;
use crate::task::{Task, UserOp};
use schedlab_base::{CpuId, TaskId};
use schedlab_machine::IdleGovernor;
use schedlab_trace::EventKind;
use schedlab_workload::Op;
use schedlab_world::cache_by_core::move_refill_ns;
use schedlab_world::cache_by_level::Sets;
use schedlab_world::engine::NEVER;
use schedlab_world::env::SimEnv;
use schedlab_world::speed::{SCALE, Speed};

/// Reading the clock by the vDSO.
const CLOCK_READ_NS: u64 = 30;

impl Board<'_> {
    /// Speed of `cpu`: less while a sibling is not halted.
    pub fn speed(&self, cpu: CpuId) -> Speed {
        let beside_busy = self.turns.is_none() && self.siblings[cpu].iter().any(|s| self.active[*s]);
        let pct = if beside_busy { self.machine.costs.smt_speed_pct } else { 100 };
        let capacity = self.machine.topology.capacity.get(cpu.index()).map_or(SCALE, |c| u64::from(*c));
        Speed::of(pct, capacity)
    }

    /// Accounts the stretch of user mode that is running on `cpu`, if one is.
    pub fn account_user(&mut self, cpu: CpuId) {
        if !self.cpus[cpu].in_user() || self.works_without_turn(cpu) {
            return;
        }
        let speed = self.speed(cpu);
        let c = &mut self.cpus[cpu];
        let since = std::mem::replace(&mut c.user_since, self.now);
        let elapsed = self.now - since;
        let Some(curr) = c.current.program() else { return };
        if let Some(vcpu) = self.vcpu_of(curr) {
            self.pause_vcpu(vcpu);
        }
        if elapsed == 0 {
            return;
        }
        if speed.is_shared() {
            self.accounts.smt_shared_ns += elapsed;
        }
        let done = speed.work(elapsed);
        let task = &mut self.tasks[curr];
        let refill = done.min(task.refill_ns);
        task.refill_ns -= refill;
        self.accounts.refill_ns += refill;
        let work = done - refill;
        // Work of the warm-up does not count.
        let early = speed.work(self.accounts.counted_from.saturating_sub(since));
        match &mut task.user {
            UserOp::Run { left_ns } | UserOp::Touch { left_ns, .. } => {
                task.work_ns += work.min(*left_ns).saturating_sub(early);
                *left_ns -= work.min(*left_ns);
                if let (Some(memory), UserOp::Run { .. }) = (&mut self.by_level, task.user) {
                    memory.ran(curr, work);
                }
            }
            UserOp::Spin { .. } => task.work_ns += work.saturating_sub(early),
            _ => {}
        }
        if matches!(task.user, UserOp::Touch { .. }) {
            return;
        }
        let warmed = elapsed / self.machine.costs.warm_ns_per_kb.max(1);
        task.warm_kb = task.warm_kb.saturating_add(warmed.min(1 << 20) as u32).min(task.footprint_kb);
    }

    /// (Re)starts user mode on `cpu` at this instant.
    pub fn start_user(&mut self, cpu: CpuId) {
        let speed = self.speed(cpu);
        let by_clock = self.turns.is_none() && self.machine.costs.cpu_clock_ns > 0;
        let c = &mut self.cpus[cpu];
        let in_kernel = self.now - c.since.max(std::mem::replace(&mut c.user_since, self.now));
        let Some(curr) = c.current.program() else { return };
        if let Some(vcpu) = self.vcpu_of(curr) {
            let ends = self.enter_vcpu(curr, vcpu, speed);
            let c = &mut self.cpus[cpu];
            (c.activity, c.ends) = (Activity::User, ends);
            return;
        }
        if by_clock && let UserOp::Run { left_ns } = &mut self.tasks[curr].user {
            // The program ends by its CPU clock, which continued in the kernel.
            *left_ns = left_ns.saturating_sub(in_kernel);
        }
        let chunk_ns = self.next_chunk(cpu, curr);
        let task = &self.tasks[curr];
        let ends = match task.user {
            UserOp::Run { left_ns } | UserOp::Touch { left_ns, .. } => {
                let left_ns = left_ns.min(chunk_ns);
                self.now.saturating_add(speed.time(task.refill_ns.saturating_add(left_ns)))
            }
            UserOp::Spin { until } => until.max(self.now),
            UserOp::SpinLock { word } => self.spin_on(curr, word, speed),
            _ => self.now,
        };
        let c = &mut self.cpus[cpu];
        c.activity = Activity::User;
        c.ends = ends;
    }

    /// All tasks are declared: they get their blocks, if the machine's caches are known. CPUs that take turns have no
    /// caches of their own.
    pub fn lay_out_memory(&mut self) {
        if self.turns.is_none() {
            // A vCPU's thread pays for its moves as a whole.
            let kb = |t: &Task| if matches!(t.user, UserOp::Vcpu { .. }) { 0 } else { t.footprint_kb };
            self.by_level = Sets::new(self.machine, self.tasks.iter().map(kb));
        }
    }

    /// The current task continues with its operation. If it has gone over its last chunk, the next one begins. Returns
    /// the work after which a computation begins its next chunk, ns.
    fn next_chunk(&mut self, cpu: CpuId, curr: TaskId) -> u64 {
        let Some(memory) = &mut self.by_level else { return u64::MAX };
        let task = &mut self.tasks[curr];
        match &mut task.user {
            UserOp::Run { left_ns } => {
                if *left_ns > 0 && memory.run_left_ns(curr) == 0 {
                    let warm_ns_per_kb = self.machine.costs.warm_ns_per_kb;
                    task.refill_ns += memory.run_chunk(cpu, curr, *left_ns, warm_ns_per_kb);
                }
                memory.run_left_ns(curr)
            }
            UserOp::Touch { left_ns, .. } if *left_ns == 0 && memory.touches_on(curr) => {
                let chunk = memory.touch_chunk(cpu, curr);
                // Every operation takes some time.
                *left_ns = chunk.work_ns.max(1);
                task.refill_ns += chunk.refill_ns;
                u64::MAX
            }
            _ => u64::MAX,
        }
    }

    /// The current task has just been switched to: it must fetch its warm data if it comes from elsewhere, and the part
    /// that others displaced if it comes back.
    pub fn pay_move(&mut self, cpu: CpuId, curr: TaskId) {
        let costs = &self.machine.costs;
        let distance = self.distance(self.tasks[curr].ran_on, cpu);
        let task = &mut self.tasks[curr];
        let from = std::mem::replace(&mut task.ran_on, cpu);
        if self.by_level.is_some() && !matches!(task.user, UserOp::Vcpu { .. }) {
            // It pays as it touches what it left behind.
            return;
        }
        if self.caches.enter((cpu, curr), from, &mut task.reuse)
            && let UserOp::Touch { kb, left_ns } = task.user
        {
            let left_kb = left_ns.div_ceil(costs.touch_ns_per_kb.max(1));
            self.caches.touch(cpu, &mut task.reuse, &mut task.refill_ns, (kb, left_kb));
        }
        task.refill_ns = task.refill_ns.max(move_refill_ns(costs, distance, task.warm_kb));
    }

    /// How long a CPU halts up to `until`; one that polls executes.
    fn halted_since(&self, cpu: CpuId, since: u64, until: u64) -> u64 {
        let polls = self.cpus[cpu].ends != NEVER;
        if polls { 0 } else { until.saturating_sub(since.max(self.accounts.counted_from)) }
    }

    /// The time for which CPUs were halted up to `until`.
    pub fn halted_ns(&self, until: u64) -> u64 {
        let still = self.cpus.ids().filter_map(|cpu| match self.cpus[cpu].activity {
            Activity::Halted { at, .. } => Some(self.halted_since(cpu, at, until)),
            Activity::User | Activity::Path { .. } => None,
        });
        self.accounts.halted_ns + still.sum::<u64>()
    }

    /// The CPU leaves its halt, which began at `since`. Returns what that takes, ns.
    pub fn wakes_up(&mut self, cpu: CpuId, state: Option<u8>, since: u64) -> u64 {
        self.accounts.halted_ns += self.halted_since(cpu, since, self.now);
        let state = state.map(|s| self.sunk_to(s, since));
        let state = state.and_then(|s| self.machine.idle_states.get(usize::from(s)));
        let exit_ns = state.map_or(0, |s| s.typical.0);
        self.accounts.idle_exit_ns += exit_ns;
        let kind = EventKind::IdleExit { exit_ns: exit_ns.min(u64::from(u32::MAX)) as u32 };
        self.emit(cpu, kind);
        self.set_active(cpu, true);
        exit_ns
    }

    /// The CPU halts, or polls; then its siblings are as slow as beside work.
    pub fn halts_in(&mut self, cpu: CpuId, halt: Halt) {
        self.emit(cpu, EventKind::IdleEnter { state: halt.state });
        let deepest = self.machine.idle_states.len().checked_sub(1).map(|s| s as u8);
        let state = match self.machine.idle_governor {
            IdleGovernor::Menu if has_idle_driver(self.machine) => halt.state.checked_sub(1),
            IdleGovernor::Menu => deepest,
            IdleGovernor::Haltpoll | IdleGovernor::Halt => deepest.filter(|s| *s > 0),
        };
        let polls = halt.polls_until.is_some();
        let c = &mut self.cpus[cpu];
        c.activity = Activity::Halted { state: state.filter(|_| !polls), at: self.now };
        // CPUs that take turns poll without an end: the one that has the turn would not give it away.
        c.ends = halt.polls_until.filter(|_| self.turns.is_none()).map_or(NEVER, |at| at.max(self.now));
        self.set_active(cpu, polls);
    }

    /// The state that a halted CPU is in by now. A guest's CPU halts in one way, and its hypervisor takes it deeper
    /// with time: each state after the polling one is such a depth, reached after its residency. A CPU that is not a
    /// guest's has chosen its state itself.
    fn sunk_to(&self, state: u8, since: u64) -> u8 {
        if self.machine.idle_governor == IdleGovernor::Menu {
            return state;
        }
        let is_there = |s: &u8| self.machine.idle_states[usize::from(*s)].residency.0 <= self.now - since;
        (1..=state).rev().find(is_there).unwrap_or(1)
    }

    /// Notes that `cpu` halts or runs; its siblings' speed changes with it.
    fn set_active(&mut self, cpu: CpuId, active: bool) {
        if self.active[cpu] == active {
            return;
        }
        for i in 0..self.siblings[cpu].len() {
            self.account_user(self.siblings[cpu][i]);
        }
        self.active[cpu] = active;
        if self.turns.is_some() {
            // CPUs that take turns never run beside each other.
            return;
        }
        for i in 0..self.siblings[cpu].len() {
            let sibling = self.siblings[cpu][i];
            if self.cpus[sibling].in_user() {
                self.start_user(sibling);
                self.touch(sibling);
            }
        }
    }

    /// The stretch of user mode has ended: account it, then ask the program unless something of it is left.
    pub fn user_done(&mut self, cpu: CpuId) {
        self.account_user(cpu);
        let Some(curr) = self.cpus[cpu].current.program() else { return };
        let finished = match self.tasks[curr].user {
            UserOp::Run { left_ns } => left_ns == 0,
            UserOp::Touch { left_ns, .. } => {
                left_ns == 0 && !self.by_level.as_ref().is_some_and(|m| m.touches_on(curr))
            }
            UserOp::Spin { until } => until <= self.now,
            UserOp::Ask => true,
            UserOp::Vcpu { machine, vcpu } => return self.vcpu_acts(cpu, curr, (machine.into(), vcpu)),
            _ => false,
        };
        if finished { self.ask(cpu, curr) } else { self.start_user(cpu) }
    }

    /// The current task continues in user mode, or gives way first.
    pub fn return_to_user(&mut self, cpu: CpuId) {
        let view = self.kernel.view();
        let costs = &self.machine.costs;
        if view.gives_way() {
            return self.begin(cpu, Next::Schedule, costs.schedule_preempt_ns);
        }
        if view.has_user_work() {
            self.kernel.image().user_work();
            return self.settle_after(cpu);
        }
        if view.is_parked() {
            self.kernel.image().resume();
            return self.settle_after(cpu);
        }
        let Some(curr) = self.cpus[cpu].current.program() else { return };
        if self.continues_call(cpu, curr) {
            return;
        }
        match self.tasks[curr].user {
            UserOp::Timed { word } => self.back_from_timer(cpu, curr, word),
            UserOp::Waits { .. } => {
                self.tasks[curr].user = UserOp::Ask;
                self.begin_open(cpu, Next::Settle, costs.idle_return_ns);
            }
            UserOp::Transfer(t) => self.transfer_continues(cpu, curr, t),
            UserOp::Poll(set) => {
                self.begin_open(cpu, Next::Call(Call::Poll { set: set.0 }), costs.socket_wait_ns)
            }
            UserOp::Ask => self.ask(cpu, curr),
            UserOp::Vcpu { .. } => self.vcpu_returns(cpu, curr),
            _ => self.start_user(cpu),
        }
    }

    /// Asks the current task's program for its next operation and begins it.
    fn ask(&mut self, cpu: CpuId, curr: TaskId) {
        if !self.nested.is_empty()
            && let Some(machine) = self.vhost_of(curr)
        {
            return self.vhost_continues(cpu, curr, machine);
        }
        if self.tasks[curr].own.is_some() {
            return self.begin_call(cpu, Call::SetUp, 0);
        }
        let recording = self.now >= self.accounts.measure_from && !self.tasks[curr].background;
        let task = &mut self.tasks[curr];
        task.user = UserOp::Ask;
        let mut env = SimEnv {
            now: self.now,
            cpu,
            outcome: std::mem::take(&mut task.outcome),
            words: &self.user.words,
            slots: &self.user.slots,
            sink: &mut *self.sink,
            task: curr,
            recording,
            measure_from: self.accounts.measure_from,
            intervals: &mut self.accounts.intervals,
        };
        let op = task.program.next(&mut env);
        self.perform(cpu, curr, op);
    }

    /// A system call of the current task begins; it has its effect after the entry and `cost_ns`.
    pub fn begin_call(&mut self, cpu: CpuId, call: Call, cost_ns: u64) {
        let costs = &self.machine.costs;
        let entry_ns = costs.program_ns + costs.syscall_ns;
        self.begin_open(cpu, Next::Call(call), entry_ns + cost_ns);
    }

    /// Begins an operation of the current task. Every one takes some time, so that no program can stop the clock.
    fn perform(&mut self, cpu: CpuId, curr: TaskId, op: Op) {
        let costs = self.machine.costs;
        match op {
            Op::Run { work } => {
                let work_ns = work.0.max(1);
                // It reads its CPU time before it begins, and again before it ends.
                let asks_ns = 2 * self.turns.as_ref().map_or(costs.cpu_clock_ns, |s| s.spec.cpu_clock_ns);
                if asks_ns > 0 {
                    return self.begin_open(cpu, Next::Call(Call::Compute { work_ns }), asks_ns);
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
            Op::Sleep { length } => {
                self.begin_call(cpu, Call::SleepFor { length_ns: length.0 }, costs.timer_start_ns);
            }
            Op::SleepTo { at } => self.begin_call(cpu, Call::Sleep { until: at.0 }, costs.timer_start_ns),
            Op::Wait { word, value, until } => {
                let timer_ns = if until.0 == NEVER { 0 } else { costs.timer_start_ns };
                let call = Call::Wait { word: word.0, value, until: until.0 };
                self.begin_call(cpu, call, costs.futex_wait_ns + timer_ns);
            }
            Op::Wake { word, count } => {
                let found = !self.user.waiters[word.index()].is_empty();
                let cost_ns = if found { costs.futex_wake_ns } else { costs.futex_wake_empty_ns };
                self.begin_call(cpu, Call::Wake { word: word.0, count }, cost_ns);
            }
            Op::SpinLock { word } => self.begin_spin(cpu, curr, word),
            Op::SpinUnlock { word } => self.unlock_spin(cpu, curr, word),
            Op::Send { port, bytes } => self.begin_transfer(cpu, curr, port, true, bytes),
            Op::Recv { port, bytes } => self.begin_transfer(cpu, curr, port, false, bytes),
            Op::Poll { set } => {
                let call = Call::Poll { set: set.0 };
                if self.channels.sets[set.index()].found.is_empty() {
                    return self.begin_call(cpu, call, 0);
                }
                self.begin_open(cpu, Next::Call(call), costs.program_ns);
            }
            Op::Touch { kb, rounds } => {
                let task = &mut self.tasks[curr];
                let kb = kb.min(task.footprint_kb);
                if let Some(memory) = &mut self.by_level {
                    memory.begin_touch(curr, kb, rounds);
                    task.user = UserOp::Touch { left_ns: u64::from(!memory.touches_on(curr)), kb };
                    return self.start_user(cpu);
                }
                let passes_ns = u64::from(kb) * costs.touch_ns_per_kb;
                task.user = UserOp::Touch { left_ns: passes_ns.saturating_mul(rounds.into()).max(1), kb };
                task.warm_kb = task.warm_kb.max(kb);
                let passes_kb = u64::from(kb) * u64::from(rounds);
                self.caches.touch(cpu, &mut task.reuse, &mut task.refill_ns, (kb, passes_kb));
                self.start_user(cpu);
            }
            Op::Yield => self.begin_call(cpu, Call::Yield, 0),
            Op::Spawn { task } => self.begin_call(cpu, Call::Spawn { task }, costs.fork_ns),
            Op::Exec => self.begin_call(cpu, Call::Exec, costs.exec_ns),
            Op::SetAttr { attr } => self.begin_call(cpu, Call::SetAttr { attr }, 0),
            Op::SetAffinity { mask } => self.begin_call(cpu, Call::SetAffinity { mask }, 0),
            Op::Usage { task } => self.begin_call(cpu, Call::Usage { task }, costs.usage_read_ns),
            Op::Exit if self.tasks[curr].waits_at_end => {
                self.begin_call(cpu, Call::Exit, costs.futex_wait_ns)
            }
            Op::Exit => self.begin_call(cpu, Call::Exit, costs.exit_ns),
        }
    }

    /// The kernel's clock at a time of the run.
    pub fn kernel_time(&self, at: u64) -> u64 {
        self.epoch.saturating_add(at)
    }
}
