//! System calls: an operation of a program becomes a call, the call takes its price, then it has its effect.
//!
//! A call enters the kernel (`program_ns`, `syscall_ns`), takes its row of [`price_ns`], and has its effect at the end
//! of that time. Effects on memory that programs share are here: words, channels, sets of ends. The kernel has the
//! others ([`Kernel::kernel_call`]). A call that wakes tasks leaves them in the CPU's list; the kernel wakes them one
//! after another, and then calls [`end_call`](Calls::end_call).
//!
//! To add a call: a variant of [`Call`], its row of `price_ns`, an arm of [`perform`](Calls::perform) for the operation
//! that makes it, and its effect: an arm of [`effect`](Calls::effect), or one in the `kernel_call` of each kernel.

use crate::board::{Context, Kernel};
use crate::channel::drive::Transfers;
use crate::env::SimEnv;
use crate::nested::drive::VirtualMachines;
use crate::spin::Spins;
use crate::thread::UserOp;
use crate::user::UserMode;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::Attr;
use schedlab_machine::Costs;
use schedlab_workload::{Op, Outcome, SetId};
use std::sync::atomic::Ordering::SeqCst;

/// Reading the clock by the vDSO, ns.
const CLOCK_READ_NS: u64 = 30;

/// More than any run lasts, ns: 52 days.
const WHOLE_RUN_NS: u64 = 1 << 52;

/// A system call, or another stay of the running task in the kernel, that has its effect when its time has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Read the CPU time that the task has used, then compute until it has grown by `work_ns`.
    Compute { work_ns: u64 },
    /// Sleep until a time.
    Sleep { until: u64 },
    /// Sleep for a time that counts from the effect on.
    SleepFor { length: Ns },
    /// Sleep, unless the timer has fired already (our rules).
    FallAsleep,
    /// futex wait.
    Wait { word: u32, value: u32, until: u64 },
    /// futex wake.
    Wake { word: u32, count: u32 },
    /// Take the lock of a channel; the task holds the operation.
    Lock,
    /// Its line has come: take it.
    TryLock,
    /// Take the lock of a socket's sleepers; the seat holds the transfer.
    LockSleepers,
    /// The copy to or from a channel is over; the task holds the operation.
    Copied,
    /// Release the lock of a channel for which others spin; the task holds the operation.
    Unlock,
    /// Look for an end of the set with something to read, or sleep until there is one (epoll_wait).
    Poll { set: SetId },
    /// The rest of a call from its next wakeup on.
    Wakeups,
    /// The rest of a call after its wakeups.
    End,
    /// sched_yield.
    Yield,
    /// Create a task.
    Spawn { task: TaskId },
    /// exec: choose a CPU and go there.
    Exec,
    /// Read the CPU time of a task.
    Usage { task: TaskId },
    /// A new task sets up its next property: its group, its CPUs or its attributes.
    SetUp,
    /// Change attributes.
    SetAttr { attr: Attr },
    /// Change allowed CPUs.
    SetAffinity { mask: u32 },
    /// A vCPU has signalled others whose threads sleep.
    VcpuKicks,
    /// A vCPU has halted, and its thread is in the host's kernel.
    VcpuHalts,
    /// The host polls for work of a halted vCPU.
    VcpuPolls,
    /// Leave.
    Exit,
}

impl Call {
    /// Whether its next step may sleep (`might_sleep`): a mutex, memory for a new task or program.
    #[inline]
    pub fn might_sleep(self) -> bool {
        matches!(self, Call::Lock | Call::Spawn { .. } | Call::Exec)
    }
}

/// The facts that decide a call's price, other than the call.
#[derive(Clone, Copy, Default)]
pub struct PricedBy {
    /// Someone waits for the word.
    pub waiter: bool,
    /// The task stays asleep at its end.
    pub stays: bool,
}

/// The time a call takes behind its entry, ns, without the timer that it may start. Calls on channels have their prices
/// in [`crate::channel::price`].
fn price_ns(call: Call, costs: &Costs, by: PricedBy) -> u64 {
    match call {
        Call::Wait { .. } => costs.futex_wait_ns,
        Call::Wake { .. } if by.waiter => costs.futex_wake_ns,
        Call::Wake { .. } => costs.futex_wake_empty_ns,
        Call::Spawn { .. } => costs.fork_ns,
        Call::Exec => costs.exec_ns,
        Call::Usage { .. } => costs.usage_read_ns,
        Call::Exit if by.stays => costs.futex_wait_ns,
        Call::Exit => costs.exit_ns,
        _ => 0,
    }
}

/// The system calls of a board's tasks.
pub trait Calls<'s>: Kernel<'s> {
    /// Asks the current task's program for its next operation and begins it.
    fn ask(&mut self, cpu: CpuId, curr: TaskId) {
        if self.moves_messages(cpu, curr) || self.sets_up(cpu, curr) {
            return;
        }
        let now = self.now();
        let (board, sink) = self.board_and_sink();
        let seat = &board.seats[cpu];
        let (listed, left_ns) = (seat.to_wake[Context::Task as usize].len(), seat.call_left_ns);
        debug_assert!(listed == 0, "{curr:?} is asked with {listed} tasks to wake");
        debug_assert!(left_ns == 0, "{curr:?} is asked with {left_ns} ns of its call left");
        let thread = &mut board.threads[curr];
        thread.user = UserOp::Ask;
        let mut env = SimEnv {
            now,
            cpu,
            outcome: std::mem::take(&mut thread.outcome),
            words: &board.user.words,
            slots: &board.user.slots,
            sink,
            task: curr,
            recording: now >= board.measure_from && !thread.background,
            measure_from: board.measure_from,
            intervals: &mut board.intervals,
        };
        let op = thread.program.next(&mut env);
        self.perform(cpu, curr, op);
    }

    /// Begins a system call of the current task, which takes `more_ns` over its price.
    #[inline]
    fn begin_call(&mut self, cpu: CpuId, call: Call, more_ns: u64) {
        self.begin_call_that(cpu, call, PricedBy::default(), more_ns);
    }
    /// As [`Calls::begin_call`], for a call whose price depends on the state it finds.
    #[inline]
    fn begin_call_that(&mut self, cpu: CpuId, call: Call, by: PricedBy, more_ns: u64) {
        let costs = &self.board().machine.costs;
        let entry_ns = costs.program_ns + costs.syscall_ns;
        let cost_ns = entry_ns + price_ns(call, costs, by) + more_ns;
        debug_assert!(cost_ns < WHOLE_RUN_NS, "{call:?} takes {cost_ns} ns");
        self.call_after(cpu, call, cost_ns);
    }

    /// Begins an operation of the current task. Every one takes some time, so that no program can stop the clock.
    fn perform(&mut self, cpu: CpuId, curr: TaskId, op: Op) {
        match op {
            Op::Run { work } => self.compute(cpu, curr, work.0.max(1)),
            Op::Execute { length } => {
                self.continues_with(cpu, curr, UserOp::Touch { left_ns: length.0.max(1), kb: 0 });
            }
            Op::SpinTo { at } => {
                let until = at.0.max(self.now() + CLOCK_READ_NS);
                self.continues_with(cpu, curr, UserOp::Spin { until });
            }
            Op::Sleep { length } => self.begin_sleep(cpu, curr, length),
            Op::SleepTo { at } => {
                let timer_ns = self.timer_ns(cpu, curr, at.0);
                self.begin_call(cpu, Call::Sleep { until: at.0 }, timer_ns);
            }
            Op::Wait { word, value, until } => {
                let timer_ns = if until == Ns::MAX { 0 } else { self.timer_ns(cpu, curr, until.0) };
                let more_ns = timer_ns + self.word_lines_ns(cpu, word.index(), false, true);
                self.begin_call(cpu, Call::Wait { word: word.0, value, until: until.0 }, more_ns);
            }
            Op::Wake { word, count } => {
                let waiter = !self.board().user.waiters[word.index()].is_empty();
                let by = PricedBy { waiter, ..PricedBy::default() };
                let lines_ns = self.word_lines_ns(cpu, word.index(), true, waiter);
                self.begin_call_that(cpu, Call::Wake { word: word.0, count }, by, lines_ns);
            }
            Op::SpinLock { word } => self.begin_spin(cpu, curr, word),
            Op::SpinUnlock { word } => self.unlock_spin(cpu, curr, word),
            Op::Send { port, bytes } => self.begin_transfer(cpu, curr, port, true, bytes),
            Op::Recv { port, bytes } => self.begin_transfer(cpu, curr, port, false, bytes),
            Op::Poll { set } => self.begin_poll(cpu, set),
            Op::Touch { kb, rounds } => self.go_over(cpu, curr, kb, rounds),
            Op::Yield => self.begin_call(cpu, Call::Yield, 0),
            Op::Spawn { task } => self.begin_call(cpu, Call::Spawn { task }, 0),
            Op::Exec => self.begin_call(cpu, Call::Exec, 0),
            Op::SetAttr { attr } => self.begin_call(cpu, Call::SetAttr { attr }, 0),
            Op::SetAffinity { mask } => self.begin_call(cpu, Call::SetAffinity { mask }, 0),
            Op::Usage { task } => self.begin_call(cpu, Call::Usage { task }, 0),
            Op::Exit => {
                let by = PricedBy { stays: self.board().threads[curr].waits_at_end, ..PricedBy::default() };
                self.begin_call_that(cpu, Call::Exit, by, 0);
            }
        }
    }

    /// What the word's lines cost that the current task's wait or wake touches; 0 where lines have no owners.
    #[inline]
    fn word_lines_ns(&mut self, cpu: CpuId, word: usize, wakes: bool, waiter: bool) -> u64 {
        let Some(objects) = &self.board().objects else { return 0 };
        let touches = objects.of_word(word, wakes, waiter);
        self.touch_lines(cpu, touches.all())
    }

    /// The current task's program computes. It reads its CPU time before it begins, and again before it ends.
    #[inline]
    fn compute(&mut self, cpu: CpuId, curr: TaskId, work_ns: u64) {
        let board = self.board();
        let costs = &board.machine.costs;
        let asks_ns = 2 * board.turns.as_ref().map_or(costs.cpu_clock_ns, |s| s.spec.cpu_clock_ns);
        if board.turns.is_some() || asks_ns > 0 {
            return self.call_after(cpu, Call::Compute { work_ns }, asks_ns);
        }
        self.continues_with(cpu, curr, UserOp::Run { left_ns: work_ns });
    }

    /// The current task goes over the first `kb` KB of its memory, `rounds` times.
    fn go_over(&mut self, cpu: CpuId, curr: TaskId, kb: u32, rounds: u32) {
        let board = self.board_mut();
        let thread = &mut board.threads[curr];
        let kb = kb.min(thread.footprint_kb);
        if let Some(memory) = &mut board.by_level {
            memory.begin_touch(curr, kb, rounds);
            thread.user = UserOp::Touch { left_ns: u64::from(!memory.touches_on(curr)), kb };
            return self.start_user(cpu);
        }
        let passes_ns = u64::from(kb) * board.machine.costs.touch_ns_per_kb;
        thread.user = UserOp::Touch { left_ns: passes_ns.saturating_mul(rounds.into()).max(1), kb };
        // Its memory is warm from now on. The part that a move left behind, or that other tasks displaced, is fetched
        // first.
        thread.warm_kb = thread.warm_kb.max(kb);
        let passes_kb = u64::from(kb) * u64::from(rounds);
        board.by_core.touch(cpu, &mut thread.reuse, &mut thread.refill_ns, (kb, passes_kb));
        self.start_user(cpu);
    }

    /// The current task's program continues with `user`.
    #[inline]
    fn continues_with(&mut self, cpu: CpuId, curr: TaskId, user: UserOp) {
        self.board_mut().threads[curr].user = user;
        self.start_user(cpu);
    }

    /// The call's time has passed: it has its effect now.
    fn effect(&mut self, cpu: CpuId, call: Call) {
        let Some(curr) = self.running(cpu) else { return };
        match call {
            Call::Compute { work_ns } => {
                let now = self.now();
                let board = self.board_mut();
                board.threads[curr].user = UserOp::Run { left_ns: work_ns };
                board.seats[cpu].user_since = now;
                self.returns(cpu);
            }
            Call::Wait { word, value, until } => self.futex_wait(cpu, curr, word, value, until),
            Call::Wake { word, count } => self.futex_wake(cpu, curr, word, count),
            Call::Lock => self.lock_buffer(cpu, curr),
            Call::TryLock => self.take_buffer(cpu, curr),
            Call::LockSleepers => self.lock_sleepers(cpu, curr),
            Call::Copied => self.copied(cpu, curr),
            Call::Unlock => self.carried(cpu, curr),
            Call::Poll { set } => self.poll(cpu, curr, set),
            Call::Wakeups | Call::VcpuKicks => self.wake_listed(cpu),
            Call::VcpuHalts => self.vcpu_halts(cpu, curr, false),
            Call::VcpuPolls => self.vcpu_halts(cpu, curr, true),
            Call::End => self.end_call(cpu),
            Call::Usage { task } => {
                if let Some(used) = self.usage(cpu, task) {
                    self.board_mut().threads[curr].outcome = Outcome::Used(used);
                }
                self.returns(cpu);
            }
            _ => self.kernel_call(cpu, curr, call),
        }
    }

    fn futex_wait(&mut self, cpu: CpuId, curr: TaskId, word: u32, value: u32, until: u64) {
        let now = self.now();
        let board = self.board_mut();
        let refused = if board.user.words[word as usize].load(SeqCst) != value {
            Some(Outcome::WouldNotWait)
        } else {
            (until <= now).then_some(Outcome::TimedOut)
        };
        if let Some(outcome) = refused {
            board.threads[curr].outcome = outcome;
            return self.returns(cpu);
        }
        let waiters = &mut board.user.waiters[word as usize];
        debug_assert!(!waiters.contains(&curr), "{curr:?} waits for word {word} twice");
        waiters.push_back(curr);
        self.sleep_on(cpu, curr, word, until);
    }

    /// Waiters leave the queue together, then are woken one after another (as by a wake queue).
    fn futex_wake(&mut self, cpu: CpuId, curr: TaskId, word: u32, count: u32) {
        let mut woken = 0;
        while woken < count
            && let Some(waiter) = self.board_mut().user.waiters[word as usize].pop_front()
        {
            debug_assert!(waiter != curr, "{curr:?} waits for word {word} and wakes its waiters");
            self.stops_waiting(waiter);
            self.board_mut().seats[cpu].to_wake[Context::Task as usize].push(waiter);
            woken += 1;
        }
        self.board_mut().threads[curr].outcome = Outcome::Count(woken);
        self.wake_listed(cpu);
    }

    /// The wakeups of the current task's call are over. Returns how long the call still takes, ns.
    #[inline]
    fn wakeups_over(&mut self, cpu: CpuId) -> u64 {
        self.unlock_sleepers(cpu);
        let seat = &mut self.board_mut().seats[cpu];
        let listed = seat.to_wake[Context::Task as usize].len();
        debug_assert!(listed == 0, "the wakeups on {cpu} are over, and {listed} are left");
        seat.sync_wakes = false;
        std::mem::take(&mut seat.call_left_ns)
    }

    /// The current task's call continues or returns.
    fn end_call(&mut self, cpu: CpuId) {
        if let Some(curr) = self.running(cpu)
            && let UserOp::Transfer(t) = self.board().threads[curr].user
            && !t.returned
        {
            return self.transfer_on(cpu, curr, t);
        }
        self.returns(cpu);
    }
}

impl<'s, K: Kernel<'s>> Calls<'s> for K {}
