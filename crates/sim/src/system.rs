//! One simulated kernel on one machine: CPUs, tasks, runqueues, and the dispatch of the next event of a CPU.
//!
//! A [`System`] owns neither clock nor queue: the caller asks `next_event(cpu)` when a CPU acts next, and calls
//! `step(cpu, now)` then; CPUs whose next event changed are named in `stepping.touched`. Time is ns since the run
//! began.
//!
//! Its state is grouped by the room that owns it. Each group is defined in that room, and its fields are private to the
//! room where no other one needs them.

use crate::balance::state::BalanceState;
use crate::booted;
use crate::cpu::Cpu;
use crate::fair::granularity::Granularity;
use crate::fair::state::FairState;
use crate::fair::{CfsRqId, Entity};
use crate::fixed::{Fixed, history_of};
use crate::frame::{Frame, Step};
use crate::nested::Hosted;
use crate::o1::state::O1Rq;
use crate::observe::Accounts;
use crate::preempt::Parked;
use crate::remote_reads::RemoteReads;
use crate::rq::state::Rqs;
use crate::rt::RtState;
use crate::task::Task;
use crate::wakeup::llc::LlcShared;
use schedlab_base::{Arena, CpuId, Error, Ns, TaskId};
use schedlab_board::board::{Board, Context};
use schedlab_board::drivers::UserMode;
use schedlab_kernel::{Feature, Kernel};
use schedlab_machine::Machine;
use schedlab_trace::{Counters, Event, EventKind, Sink};
use schedlab_workload::Later;
use std::collections::VecDeque;

/// The step under way, as the loop that drives the clock and the step agree on it.
pub struct Stepping {
    pub acting: CpuId,
    /// What acts is not one of the CPUs, but a writer outside of the run: whatever it asks of a CPU, it signals.
    pub from_outside: bool,
    /// No other CPU acts before this time, ns: a scan may continue inline until then.
    pub horizon: u64,
    /// CPUs whose next event changed in this step, beside the one that stepped.
    pub touched: Vec<CpuId>,
    /// A CPU may continue at once with what follows at the same instant; see [`System::at_once`].
    pub merge: bool,
    /// Steps made so far.
    pub steps: u64,
    /// The number of steps at which the loop looks whether the run is over: 0 once a task has left or failed.
    pub look_at: u64,
}

impl Default for Stepping {
    fn default() -> Stepping {
        Stepping {
            acting: CpuId(0),
            from_outside: false,
            horizon: 0,
            touched: Vec::with_capacity(16),
            merge: false,
            steps: 0,
            look_at: 0,
        }
    }
}

/// What decides when the run ends and what happens to it from outside.
#[derive(Default)]
pub struct RunState {
    /// Workload tasks that have not left yet.
    pub alive: usize,
    /// Changes of groups and tasks in mid-run, with their times.
    pub later: VecDeque<(u64, Later)>,
    /// A task's request that cannot be simulated: ends the run.
    pub fault: Option<Error>,
}

/// Where events go.
pub struct EventOutput<'s> {
    sink: &'s mut dyn Sink,
    /// The sink asks for details.
    details: bool,
    /// The counters that the sink asks for.
    counters: Counters,
}

impl<'s> EventOutput<'s> {
    fn new(sink: &'s mut dyn Sink) -> EventOutput<'s> {
        EventOutput { details: sink.wants_details(), counters: sink.wants_counters(), sink }
    }
    #[inline]
    pub fn wants_details(&self) -> bool {
        self.details
    }
    #[inline]
    pub fn wants(&self) -> Counters {
        self.counters
    }
    #[inline]
    pub fn sink(&mut self) -> &mut dyn Sink {
        &mut *self.sink
    }
}

/// A simulated kernel.
pub struct System<'s> {
    /// The instant being simulated, ns.
    pub now: u64,
    pub board: Board<'s>,
    pub fixed: Fixed<'s>,
    pub stepping: Stepping,
    pub run: RunState,
    pub cpus: Arena<CpuId, Cpu>,
    /// What other CPUs read of a runqueue, dense because scans read many.
    pub rqs: Rqs,
    pub tasks: Arena<TaskId, Task>,
    /// System calls that tasks have left in the middle, by task.
    pub parked: Arena<TaskId, Parked>,
    pub fair: FairState,
    pub rt: RtState,
    /// The O(1) scheduler's arrays, by CPU; none under kernels without it.
    pub o1: Arena<CpuId, O1Rq>,
    pub balance: BalanceState,
    /// Shared state of each cache domain.
    pub llc: Vec<LlcShared>,
    /// Who has read each CPU's line since it changed.
    pub remote_reads: RemoteReads,
    /// The part that depends on the host, if this kernel is a guest's.
    pub hosted: Option<Hosted>,
    pub accounts: Accounts,
    pub out: EventOutput<'s>,
}

impl<'s> System<'s> {
    /// A system with idle CPUs and no tasks.
    pub fn new(machine: &'s Machine, kernel: Kernel, seed: u64, sink: &'s mut dyn Sink) -> System<'s> {
        let topology = &machine.topology;
        let n = topology.nr_cpus();
        let board = Board::new(machine, history_of(&kernel));
        let (fixed, shared) = Fixed::new(&board, kernel, seed);
        let cpu = |c| {
            let levels = &fixed.domains.of_cpu[c];
            booted::cpu(machine, &fixed.kernel, &fixed.history, seed, c, levels)
        };
        let nr_llc = topology.cpus.iter().map(|c| c.llc as usize + 1).max().unwrap_or(0);
        System {
            now: 0,
            stepping: Stepping::default(),
            run: RunState::default(),
            cpus: fixed.domains.of_cpu.ids().map(cpu).collect(),
            rqs: Rqs::new(n),
            tasks: Arena::new(),
            parked: Arena::new(),
            fair: FairState::new(n),
            rt: RtState::new(n),
            o1: Arena::filled(O1Rq::default(), if fixed.history.o1 { n } else { 0 }),
            balance: BalanceState::new(&fixed.domains, shared, fixed.kernel.features),
            llc: (0..nr_llc).map(|l| LlcShared::new(topology, l)).collect(),
            remote_reads: RemoteReads::new(topology),
            hosted: None,
            accounts: Accounts::new(&fixed.domains, fixed.kernel.features),
            out: EventOutput::new(sink),
            board,
            fixed,
        }
    }

    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }
    /// CPU `n`'s root queue.
    #[inline]
    pub fn root(&self, cpu: CpuId) -> CfsRqId {
        CfsRqId(cpu.0)
    }
    #[inline]
    pub fn entity(&self, task: TaskId) -> &Entity {
        &self.fair.entities[self.tasks[task].entity]
    }
    /// Number of a CPU's fair tasks that sleep while queued (DELAY_DEQUEUE).
    #[inline]
    pub fn nr_delayed(&self, cpu: CpuId) -> u32 {
        let q = &self.fair.queues[self.root(cpu)];
        q.h_nr_queued - q.h_nr_running
    }
    /// Whether a CPU has no runnable task; `nr_running` alone counts delayed ones, too.
    #[inline]
    pub fn only_delayed(&self, cpu: CpuId) -> bool {
        self.rqs.nr_running(cpu) == self.nr_delayed(cpu)
    }
    /// Number of a CPU's fair tasks as balancing counts them: since 6.14 without delayed ones.
    #[inline]
    pub fn h_nr_balanced(&self, cpu: CpuId) -> u32 {
        self.fair.queues[self.root(cpu)].balanced(self.fixed.history.delayed_set_apart)
    }
    /// Runnable fair tasks of a CPU (`cfs.h_nr_runnable`).
    #[inline]
    pub fn h_nr_running(&self, cpu: CpuId) -> u32 {
        self.fair.queues[self.root(cpu)].h_nr_running
    }
    #[inline]
    pub fn has(&self, feature: Feature) -> bool {
        self.fixed.kernel.features.has(feature)
    }
    /// From this instant on, features and tunables are `kernel`'s, as after a write to `sched/features`:
    /// operations under way continue, and use the new ones from their next step on. The version stays.
    pub fn switch_kernel(&mut self, kernel: Kernel) {
        debug_assert!(kernel.version == self.fixed.kernel.version, "a running kernel keeps its version");
        self.fixed.gran = Granularity::of(&kernel, self.nr_cpus());
        self.fixed.kernel = kernel;
    }
    /// Emits an event at this instant on `cpu`.
    #[inline]
    pub fn emit(&mut self, cpu: CpuId, kind: EventKind) {
        self.out.sink().event(&Event { at: Ns(self.now), cpu, kind });
    }
    /// Emits a detail ([`EventKind::is_detail`]), if the sink asks for details.
    #[inline]
    pub fn emit_detail(&mut self, cpu: CpuId, kind: EventKind) {
        if self.out.wants_details() {
            self.emit_detail_now(cpu, kind);
        }
    }
    /// A separate function, so that runs without details do not load its code.
    #[cold]
    #[inline(never)]
    fn emit_detail_now(&mut self, cpu: CpuId, kind: EventKind) {
        debug_assert!(kind.is_detail(), "{kind:?} is for every sink");
        self.emit(cpu, kind);
    }

    /// Whether `cpu` is amid a softirq.
    #[inline]
    pub fn is_in_softirq(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].soft.active()
    }

    /// Lets `cpu` handle the events that are due at `now`.
    pub fn step(&mut self, cpu: CpuId, now: u64) {
        debug_assert!(now >= self.now, "{cpu} steps at {now}, and it is {} already", self.now);
        self.now = now;
        self.stepping.acting = cpu;
        let c = &self.cpus[cpu];
        if matches!(c.task.step, Step::Newidle) {
            // Interrupts are off. On large machines most steps are such ones.
            self.newidle_step(cpu);
        } else if c.hard.active() {
            self.hard_step(cpu);
        } else if (c.soft.active() || !c.task.step.irqs_off()) && c.irq_due() <= now {
            self.interrupt(cpu);
        } else if c.soft.active() {
            self.soft_step(cpu);
        } else {
            self.task_step(cpu);
        }
    }

    /// The task context's step has ended.
    fn task_step(&mut self, cpu: CpuId) {
        let step = self.cpus[cpu].task.step;
        match step {
            Step::User => self.user_done(cpu),
            Step::Syscall(call) => self.syscall(cpu, call),
            Step::Wakeup => self.wakeup_step(cpu, Context::Task),
            Step::Fork { task } => self.fork_step(cpu, task),
            Step::Exec => self.exec_step(cpu),
            Step::Pick => self.pick_and_switch(cpu, 0),
            Step::Switch { prev } => self.switched(cpu, prev),
            Step::IdleExit => self.begin_idle_loop(cpu),
            Step::IdleLoop => self.idle_loop(cpu),
            Step::BeforeIdle { at } => self.update_before_idle(cpu, at),
            Step::Halted { .. } => self.end_of_polling(cpu),
            Step::None
            | Step::Newidle
            | Step::Rebalance
            | Step::Tick
            | Step::Timer
            | Step::TimerExit
            | Step::Ipi => {
                unreachable!("{cpu} stepped in task context at {step:?}")
            }
        }
    }

    /// Starts a step of the task context that takes `cost_ns`.
    #[inline]
    pub fn begin(&mut self, cpu: CpuId, step: Step, cost_ns: u64) {
        let c = &mut self.cpus[cpu];
        debug_assert!(!c.hard.active(), "{cpu} begins {step:?} amid {:?}", c.hard.step);
        c.task = Frame::until(step, self.now + cost_ns);
    }
    /// Allows or forbids merged steps, also of guests.
    pub fn let_merge(&mut self, merge: bool) {
        self.stepping.merge = merge;
        self.board.nested.iter_mut().for_each(|own| own.guest.let_merge(merge));
        self.board.peers.iter_mut().for_each(|own| own.let_merge(merge));
    }
    /// Whether the acting CPU may continue at once with a step that follows at this very instant. It may if arming and
    /// finding it would give the same order, that is, unless a CPU it has touched could come before it.
    #[inline]
    pub fn at_once(&mut self) -> bool {
        let goes_on = self.stepping.merge && self.stepping.touched.is_empty();
        self.stepping.steps += u64::from(goes_on);
        goes_on
    }
    /// The next tick of the one grid all CPUs share, after `now`.
    #[inline]
    pub fn next_tick(&self) -> u64 {
        (self.now / self.fixed.tick_ns + 1) * self.fixed.tick_ns
    }
}

pub fn frame_of(cpu: &mut Cpu, context: Context) -> &mut Frame {
    match context {
        Context::Task => &mut cpu.task,
        Context::Hard => &mut cpu.hard,
    }
}
