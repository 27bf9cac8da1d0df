//! The image as a kernel of the board ([`schedlab_board::board`]): the questions of its drivers, halts, and the way
//! back to user mode.

use crate::cpu::{Activity, Current, Halt, Next};
use crate::engine::Engine;
use crate::kernel::has_idle_driver;
use crate::task::Slept;
use schedlab_base::{CpuId, Error, Ns, TaskId};
use schedlab_board::board::{Board, Context, Kernel};
use schedlab_board::calls::Call;
use schedlab_board::drivers::{Calls, Transfers, UserMode};
use schedlab_board::engine::NEVER;
use schedlab_board::objects::table::When;
use schedlab_board::objects::{InPipe, Touched};
use schedlab_board::thread::UserOp;
use schedlab_machine::{Distance, IdleGovernor};
use schedlab_trace::{EventKind, Sink};
use schedlab_workload::Usage;

impl<'s> Kernel<'s> for Engine<'s> {
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
        (&mut self.board, &mut *self.sink)
    }
    fn fail(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }
    #[inline]
    fn next_event(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].next_event(self.now)
    }
    #[inline]
    fn touch(&mut self, cpu: CpuId) {
        self.touched.push(cpu);
    }
    #[inline]
    fn pop_touched(&mut self) -> Option<CpuId> {
        self.touched.pop()
    }

    #[inline]
    fn running(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu].current.program()
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
        let runs = |c: &CpuId| self.cpus[*c].in_user() && self.cpus[*c].current == Current::Task(task);
        self.cpus.ids().find(runs)
    }
    #[inline]
    fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        self.distance[a.index() * self.cpus.len() + b.index()]
    }
    fn user_until(&mut self, cpu: CpuId, ends: u64) {
        let c = &mut self.cpus[cpu];
        (c.activity, c.ends) = (Activity::User, ends);
    }

    fn call_after(&mut self, cpu: CpuId, call: Call, cost_ns: u64) {
        // Lines take as long for a CPU that shares its core, and a vCPU is polled for up to an instant.
        let lines_ns = std::mem::take(&mut self.lines_ns).min(cost_ns);
        let cost_ns = match call {
            Call::VcpuPolls => cost_ns,
            _ => self.slowed_ns(cpu, cost_ns - lines_ns) + lines_ns,
        };
        self.begin_open(cpu, Next::Call(call), cost_ns);
    }
    fn wake_listed(&mut self, cpu: CpuId) {
        self.wake_next(cpu);
    }
    fn wake_heard(&mut self, cpu: CpuId) {
        let readers = std::mem::take(&mut self.board.seats[cpu].to_wake[Context::Hard as usize]);
        let pids: Vec<i32> = readers.iter().map(|task| self.tasks[*task].pid).collect();
        self.enter(cpu);
        self.kernel.image().irq_device(&pids);
        self.settle_after(cpu);
    }
    /// The task is marked now, and leaves its CPU when the way to `schedule()` is over. A wakeup in between keeps it
    /// running, as in the kernel.
    fn block(&mut self, cpu: CpuId, _: TaskId) {
        self.blocks(cpu);
    }
    fn returns(&mut self, cpu: CpuId) {
        self.begin_open(cpu, Next::Settle, 0);
    }
    fn begin_sleep(&mut self, cpu: CpuId, curr: TaskId, length: Ns) {
        let timer_ns = self.timer_ns(cpu, curr, length.0);
        self.begin_call(cpu, Call::SleepFor { length }, timer_ns);
    }
    fn timer_ns(&self, _: CpuId, _: TaskId, _: u64) -> u64 {
        self.board.machine.costs.timer_start_ns
    }
    fn sleep_on(&mut self, cpu: CpuId, curr: TaskId, word: u32, until: u64) {
        if until == NEVER {
            self.tasks[curr].slept = Some(Slept::Waits);
            return self.blocks(cpu);
        }
        self.sleep(cpu, curr, until, Some(word));
    }
    /// The image's timers belong to the task that starts them: when another vCPU sets this one's timer anew, the thread
    /// is woken, and sleeps again until then.
    fn sleep_until(&mut self, cpu: CpuId, curr: TaskId, until: u64) {
        if until == NEVER {
            return self.blocks(cpu);
        }
        // `runs_alone` has entered the CPU.
        self.kernel.image().prepare_sleep(false);
        let until = self.kernel_time(until);
        self.kernel.image().whole(|image| image.start_timer(until, 0));
        self.tasks[curr].timed = true;
        let spent_ns = self.take_notes(cpu);
        self.begin_open(cpu, Next::Schedule, spent_ns + self.board.machine.costs.schedule_sleep_ns);
    }
    fn stops_waiting(&mut self, _: TaskId) {}
    fn usage(&mut self, cpu: CpuId, of: TaskId) -> Option<Usage> {
        let pid = self.tasks.get(of.index()).map(|t| t.pid).filter(|pid| *pid != 0)?;
        self.enter(cpu);
        let used = self.kernel.usage(pid);
        Some(Usage {
            cpu: Ns(used.runtime_ns),
            ticked: Ns(used.utime_ns),
            voluntary: used.nvcsw as u32,
            involuntary: used.nivcsw as u32,
        })
    }
    fn kernel_call(&mut self, cpu: CpuId, curr: TaskId, call: Call) {
        self.call(cpu, curr, call);
    }
    fn sets_up(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        let yet = self.tasks[curr].own.is_some();
        if yet {
            self.begin_call(cpu, Call::SetUp, 0);
        }
        yet
    }

    fn touch_lines(&mut self, cpu: CpuId, touched: &[Touched]) -> u64 {
        if touched.is_empty() {
            return 0;
        }
        self.enter(cpu);
        self.kernel.image().touch(touched);
        let ns = self.kernel.image().take_charge_ns();
        self.lines_ns += ns;
        ns
    }
    fn touch_elsewhere(&mut self, cpu: CpuId, other: CpuId, touched: &[Touched]) {
        if !touched.is_empty() {
            self.enter(other);
            self.kernel.image().touch(touched);
            self.kernel.image().take_charge_ns();
            self.enter(cpu);
        }
    }

    fn runs_alone(&mut self, cpu: CpuId) -> bool {
        self.enter(cpu);
        !self.kernel.view().gives_way() && self.kernel.image().single_task()
    }
    fn end_wait(&mut self, cpu: CpuId, call: Call, at: u64) {
        let (now, waits) = (self.now, Next::Call(call));
        let c = &mut self.cpus[cpu];
        if let Some((next, left_ns)) = &mut c.left {
            if *next == waits {
                *left_ns = (*left_ns).min(at.saturating_sub(now));
            }
        } else if matches!(c.activity, Activity::Path { next, .. } if next == waits) {
            c.ends = c.ends.min(at.max(now));
        }
        self.touch(cpu);
    }
    fn run_delay_ns(&mut self, thread: TaskId) -> u64 {
        match self.tasks[thread].pid {
            0 => 0,
            pid => self.kernel.usage(pid).wait_ns,
        }
    }
    fn interrupt_at(&mut self, cpu: CpuId, at: u64) {
        let c = &mut self.cpus[cpu];
        c.device_at = c.device_at.min(at);
    }
    fn others_acted(&mut self, steps: u64, left: usize) {
        self.steps += steps;
        self.alive -= left;
    }
}

impl Engine<'_> {
    /// How long a CPU halts up to `until`; one that polls executes.
    fn halted_since(&self, cpu: CpuId, since: u64, until: u64) -> u64 {
        let polls = self.cpus[cpu].ends != NEVER;
        if polls { 0 } else { until.saturating_sub(since.max(self.board.counted_from)) }
    }

    /// The time for which CPUs were halted up to `until`.
    pub fn halted_ns(&self, until: u64) -> u64 {
        let still = self.cpus.ids().filter_map(|cpu| match self.cpus[cpu].activity {
            Activity::Halted { at, .. } => Some(self.halted_since(cpu, at, until)),
            Activity::User | Activity::Path { .. } => None,
        });
        self.accounts.halted_ns + still.sum::<u64>()
    }

    /// The CPU leaves its halt, which began at `since`. Returns the cost of that, ns.
    pub fn wakes_up(&mut self, cpu: CpuId, state: Option<u8>, since: u64) -> u64 {
        self.accounts.halted_ns += self.halted_since(cpu, since, self.now);
        let state = state.map(|s| self.sunk_to(s, since));
        let state = state.and_then(|s| self.board.machine.idle_states.get(usize::from(s)));
        let exit_ns = state.map_or(0, |s| s.typical.0);
        self.accounts.idle_exit_ns += exit_ns;
        let kind = EventKind::IdleExit { exit_ns: exit_ns.min(u64::from(u32::MAX)) as u32 };
        self.emit(cpu, kind);
        self.set_active(cpu, true);
        exit_ns
    }

    /// The CPU halts, or polls; a CPU that polls slows its siblings like work.
    pub fn halts_in(&mut self, cpu: CpuId, halt: Halt) {
        self.emit(cpu, EventKind::IdleEnter { state: halt.state });
        let deepest = self.board.machine.idle_states.len().checked_sub(1).map(|s| s as u8);
        let state = match self.board.machine.idle_governor {
            IdleGovernor::Menu if has_idle_driver(self.board.machine) => halt.state.checked_sub(1),
            IdleGovernor::Menu => deepest,
            IdleGovernor::Haltpoll | IdleGovernor::Halt => deepest.filter(|s| *s > 0),
        };
        let polls = halt.polls_until.is_some();
        let c = &mut self.cpus[cpu];
        c.activity = Activity::Halted { state: state.filter(|_| !polls), at: self.now };
        // CPUs that take turns poll without end, since the one that has the turn would not give it away.
        c.ends = halt.polls_until.filter(|_| self.board.turns.is_none()).map_or(NEVER, |at| at.max(self.now));
        self.set_active(cpu, polls);
    }

    /// The present state of a halted CPU. A guest's CPU halts in one way, and its hypervisor takes it deeper with time:
    /// each state after the polling one is such a depth, reached after its residency. A CPU that is not a guest's has
    /// chosen its state itself.
    fn sunk_to(&self, state: u8, since: u64) -> u8 {
        if self.board.machine.idle_governor == IdleGovernor::Menu {
            return state;
        }
        let is_there =
            |s: &u8| self.board.machine.idle_states[usize::from(*s)].residency.0 <= self.now - since;
        (1..=state).rev().find(is_there).unwrap_or(1)
    }

    /// The current task continues in user mode, or gives way first.
    pub fn return_to_user(&mut self, cpu: CpuId) {
        let view = self.kernel.view();
        let costs = &self.board.machine.costs;
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
        match self.tasks[curr].slept.take() {
            Some(Slept::Timed { word }) => return self.back_from_timer(cpu, curr, word),
            Some(Slept::Waits) => {
                self.touch_task(curr, When::Sleeps);
                let return_ns = self.kernel.image().take_charge_ns() + costs.idle_return_ns;
                return self.begin_open(cpu, Next::Settle, return_ns);
            }
            None => {}
        }
        match self.board.threads[curr].user {
            UserOp::Transfer(t) => self.transfer_on(cpu, curr, t),
            UserOp::Poll(set) => self.poll_on(cpu, set),
            UserOp::Ask => self.ask(cpu, curr),
            UserOp::Vcpu { .. } if std::mem::take(&mut self.tasks[curr].timed) => {
                self.kernel.image().timed_out(self.tasks[curr].pid);
                let spent_ns = self.take_notes(cpu);
                self.begin_open(cpu, Next::Settle, spent_ns + costs.idle_return_ns);
            }
            _ => self.start_user(cpu),
        }
    }

    /// The entered CPU touches lines of a task's that the kernel keeps outside kernel/sched; its next charge has them.
    pub fn touch_task(&mut self, task: TaskId, when: When) {
        if let Some(objects) = &self.board.objects {
            let touches = objects.of_task(task, when);
            self.kernel.image().touch(touches.all());
        }
    }
    /// The current task, which finds nothing at its channel, touches what it sleeps on.
    pub fn touch_sleep(&mut self, curr: TaskId) {
        self.touch_task(curr, When::Sleeps);
        let (Some(objects), UserOp::Transfer(t)) = (&self.board.objects, self.board.threads[curr].user)
        else {
            return;
        };
        let touches =
            objects.of_transfer(self.board.channels.kind(t.port), t, InPipe::default(), &[When::Sleeps]);
        self.kernel.image().touch(touches.all());
    }

    /// The kernel's clock at a time of the run.
    pub fn kernel_time(&self, at: u64) -> u64 {
        self.epoch.saturating_add(at)
    }
}
