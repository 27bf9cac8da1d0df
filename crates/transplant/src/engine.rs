//! The engine: it drives the image on a board. Its state, and the dispatch of a CPU's next event.
//!
//! `run` asks `next_event` when a CPU acts next and calls [`Engine::step`] then; CPUs whose next event
//! changed are in `touched`. Times are ns since the run began; the kernel's clock is [`Engine::epoch`] ahead.

use crate::abi::LONGEST_NS;
use crate::choices::{Explained, Explaining};
use crate::cpu::{Activity, After, Cpu, Current, Interrupt, Next};
use crate::findings::Findings;
use crate::kernel::Kernel;
use crate::quotas::Quotas;
use crate::task::Task;
use schedlab_base::{Arena, CpuId, Error, GroupId, TaskId};
use schedlab_board::BEGINS_AT;
use schedlab_board::board::Board;
use schedlab_board::board::Kernel as _;
use schedlab_board::cache_by_core::Caches;
use schedlab_board::calls::Call;
use schedlab_board::drivers::{Calls, Links, UserMode};
use schedlab_board::engine::NEVER;
use schedlab_board::preempt::Point;
use schedlab_board::thread::Thread;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{History, Level};
use schedlab_machine::{Distance, Machine};
use schedlab_trace::{MoveReason, Sink};
use std::collections::BTreeMap;

/// The shortest rest before the run, ns: idle CPUs stop their ticks, and work left by the boot is done. The last such
/// work is the fair server's timer in 6.12, after 950 ms, which has idle CPUs balance.
const REST_NS: u64 = 2_000_000_000;

/// No path takes so long, ns: a price that large was below 0.
const MOST_NS: u64 = 1 << 62;

/// What is counted and recorded, and since when.
#[derive(Default)]
pub struct Accounts {
    pub wakeups: u64,
    pub idle_exit_ns: u64,
    pub newidle_ns: u64,
    pub periodic_ns: u64,
    /// Time for which CPUs were halted.
    pub halted_ns: u64,
    pub explained: Explained,
}

/// An image, the board that it runs on, and the engine's state of both.
pub struct Engine<'s> {
    pub now: u64,
    /// The kernel's clock at time 0.
    pub epoch: u64,
    /// Whether events go to the sink.
    pub watched: bool,
    pub board: Board<'s>,
    pub kernel: Kernel,
    pub preempt: Preempt,
    pub cpus: Arena<CpuId, Cpu>,
    pub tasks: Arena<TaskId, Task>,
    /// Tasks by pid.
    pub by_pid: Vec<Option<TaskId>>,
    /// The leader of each process: the task that was its first one.
    pub leaders: BTreeMap<(u32, Option<String>), i32>,
    /// The image's number of each task group.
    pub groups: Arena<GroupId, i32>,
    pub quotas: Quotas,
    pub distance: Vec<Distance>,
    pub accounts: Accounts,
    /// Workload tasks that have not left yet.
    pub alive: usize,
    /// CPUs whose next event changed, except for the one that stepped.
    pub touched: Vec<CpuId>,
    /// Why the verb under way moves tasks other than those that it wakes or makes.
    pub moves: MoveReason,
    pub steps: u64,
    /// How the kernel's code is charged.
    pub level: Level,
    /// Whether hardware threads of a core slow each other's kernel code: where it is counted.
    pub shares_cores: bool,
    /// The part of the next call's price that its lines are.
    pub lines_ns: u64,
    /// When another CPU acts next, if CPUs are woven; else [`NEVER`].
    pub horizon: u64,
    /// Faults that no kernel's code may have.
    pub findings: Findings,
    /// The explanation of the code's choices, if the run asks for it.
    pub explaining: Option<Explaining<'s>>,
    /// The error that ends the run.
    pub fault: Option<Error>,
    pub sink: &'s mut dyn Sink,
}

/// When the domains of a machine that has just booted are due, ns: a domain begins with an interval of as many ms as it
/// has CPUs.
pub fn first_due_ns(nr_cpus: usize) -> u64 {
    (nr_cpus as u64 + 10) * 1_000_000
}

/// How long a machine rests, ns. A pass at [`first_due_ns`] that finds nothing to move doubles the intervals; these
/// have passed once half-way, and once more at the end.
pub fn rest_ns(nr_cpus: usize) -> u64 {
    REST_NS.max(4 * first_due_ns(nr_cpus))
}

/// The kernel's clock when the machine has booted, ns.
pub fn booted_at_ns(nr_cpus: usize) -> u64 {
    BEGINS_AT - rest_ns(nr_cpus)
}

impl<'s> Engine<'s> {
    /// A machine whose kernel has booted: all CPUs are idle, and there are no tasks.
    pub fn new(
        machine: &'s Machine,
        kernel: Kernel,
        (history, preempt): (History, Preempt),
        sink: &'s mut dyn Sink,
    ) -> Engine<'s> {
        let topology = &machine.topology;
        let n = topology.nr_cpus();
        let cpus = || (0..n).map(CpuId::from);
        Engine {
            now: 0,
            epoch: booted_at_ns(n),
            watched: false,
            board: Board::new(machine, history),
            kernel,
            preempt,
            cpus: cpus().map(|_| Cpu::halted()).collect(),
            tasks: Arena::new(),
            by_pid: Vec::new(),
            leaders: BTreeMap::new(),
            groups: Arena::new(),
            quotas: Quotas::default(),
            distance: cpus().flat_map(|a| cpus().map(move |b| topology.distance(a, b))).collect(),
            accounts: Accounts::default(),
            alive: 0,
            touched: Vec::with_capacity(16),
            moves: MoveReason::Moved,
            steps: 0,
            level: Level::Free,
            shares_cores: false,
            lines_ns: 0,
            horizon: NEVER,
            findings: Findings::default(),
            explaining: None,
            fault: None,
            sink,
        }
    }
    /// The same with another sink.
    pub fn reporting_to<'t>(self, sink: &'t mut dyn Sink) -> Engine<'t>
    where
        's: 't,
    {
        Engine {
            now: self.now,
            epoch: self.epoch,
            watched: self.watched,
            board: self.board,
            kernel: self.kernel,
            preempt: self.preempt,
            cpus: self.cpus,
            tasks: self.tasks,
            by_pid: self.by_pid,
            leaders: self.leaders,
            groups: self.groups,
            quotas: self.quotas,
            distance: self.distance,
            accounts: self.accounts,
            alive: self.alive,
            touched: self.touched,
            moves: self.moves,
            steps: self.steps,
            level: self.level,
            shares_cores: self.shares_cores,
            lines_ns: self.lines_ns,
            horizon: self.horizon,
            findings: self.findings,
            explaining: None,
            fault: self.fault,
            sink,
        }
    }
    /// Takes the tasks out, which all sleep; those that come before them later are `first`.
    pub fn without_tasks(&mut self, first: usize) -> Vec<(Task, Thread)> {
        debug_assert!(
            self.cpus.iter().all(|c| c.current == Current::Idle),
            "a task runs on a machine at rest"
        );
        for id in self.by_pid.iter_mut().flatten() {
            *id = TaskId::from(id.index() + first);
        }
        // What tasks of other numbers have left in caches does not count.
        self.board.by_core = Caches::new(&self.board.machine.topology, &self.board.machine.costs);
        let tasks = std::mem::take(&mut self.tasks).into_iter();
        tasks.zip(std::mem::take(&mut self.board.threads)).collect()
    }
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }
    /// The task of a pid; `None` for idle and the kernel's own.
    #[inline]
    pub fn task_of(&self, pid: i32) -> Option<TaskId> {
        self.by_pid.get(pid as usize).copied().flatten()
    }

    /// Lets a CPU handle the events that are due at `now`.
    pub fn step(&mut self, cpu: CpuId, now: u64) {
        debug_assert!(now >= self.now, "{cpu} steps at {now}, and it is {} already", self.now);
        (self.now, self.lines_ns) = (now, 0);
        let c = &self.cpus[cpu];
        if c.takes_irqs() && c.irq_due() <= now {
            return self.begin_interrupt(cpu);
        }
        match c.activity {
            Activity::User => self.user_done(cpu),
            Activity::Path { next, .. } => self.act(cpu, next),
            Activity::Halted { state, at } => {
                // Polling is over. Without work the idle loop takes another state.
                let exit_ns = self.wakes_up(cpu, state, at);
                let has_work = self.level.counts() && {
                    self.enter(cpu);
                    self.kernel.view().needs_resched()
                };
                self.begin(cpu, if has_work { Next::IdleLeave } else { Next::Halt }, exit_ns);
            }
        }
    }

    /// A path of `cost_ns` begins, in which interrupts are off.
    #[inline]
    pub fn begin(&mut self, cpu: CpuId, next: Next, cost_ns: u64) {
        self.begin_path(cpu, Activity::Path { next, irqs: false }, cost_ns);
    }
    /// The same with interrupts on.
    #[inline]
    pub fn begin_open(&mut self, cpu: CpuId, next: Next, cost_ns: u64) {
        self.begin_path(cpu, Activity::Path { next, irqs: true }, cost_ns);
    }
    #[inline]
    fn begin_path(&mut self, cpu: CpuId, activity: Activity, cost_ns: u64) {
        debug_assert!(
            cost_ns < MOST_NS,
            "{activity:?} costs {cost_ns} ns on {cpu}: a price below 0 has run over"
        );
        let c = &mut self.cpus[cpu];
        (c.activity, c.ends) = (activity, self.now + cost_ns);
    }

    /// Kernel code runs on this CPU from here on, at this instant.
    #[inline]
    pub fn enter(&mut self, cpu: CpuId) {
        self.kernel.enter(cpu, self.epoch + self.now);
        self.set_horizon(cpu);
    }
    /// The same where a verb follows at once: before its end nobody looks at the view.
    #[inline]
    pub fn turn_to(&mut self, cpu: CpuId) {
        self.kernel.turn_to(cpu, self.epoch + self.now);
        self.set_horizon(cpu);
    }
    #[inline]
    fn set_horizon(&mut self, cpu: CpuId) {
        if self.shares_cores {
            let ps = self.instruction_ps(cpu);
            self.kernel.image().instruction_ps(ps);
        }
        if self.horizon != NEVER {
            self.kernel.image().set_horizon_ns(self.horizon.saturating_sub(self.now));
        }
    }

    /// Whether a hardware thread of the same core takes a part of the CPU's speed from kernel code. The price of a path
    /// is that of its begin.
    fn is_slowed(&self, cpu: CpuId) -> bool {
        self.shares_cores && self.board.siblings[cpu].iter().any(|s| self.board.active[*s])
    }
    /// An instruction of kernel code on this CPU at this instant, ps.
    fn instruction_ps(&self, cpu: CpuId) -> u32 {
        let costs = &self.board.machine.costs;
        let pct = if self.is_slowed(cpu) { costs.smt_speed_pct } else { 100 };
        (costs.instruction_ps * 100 / pct).min(u32::MAX.into()) as u32
    }
    /// How long kernel code takes on this CPU that takes `cost_ns` on a core of its own.
    pub fn slowed_ns(&self, cpu: CpuId, cost_ns: u64) -> u64 {
        if self.is_slowed(cpu) { cost_ns * 100 / self.board.machine.costs.smt_speed_pct } else { cost_ns }
    }

    /// An interrupt is due, and the CPU takes it.
    fn begin_interrupt(&mut self, cpu: CpuId) {
        let costs = &self.board.machine.costs;
        let which = self.cpus[cpu].first_irq();
        let mut cost_ns = match which {
            Interrupt::Timer => costs.timer_irq_ns,
            Interrupt::Resched | Interrupt::Call => costs.ipi_irq_ns,
            Interrupt::Device => costs.ipi_irq_ns + self.board.nic.take(cpu, self.now) * costs.nic_irq_ns,
        };
        match self.cpus[cpu].activity {
            Activity::Halted { state, at } => cost_ns += self.wakes_up(cpu, state, at),
            Activity::User => self.account_user(cpu),
            Activity::Path { next, .. } => {
                let left_ns = self.cpus[cpu].ends.saturating_sub(self.now);
                self.cpus[cpu].left = Some((next, left_ns));
            }
        }
        self.begin(cpu, Next::Interrupt(which), cost_ns);
    }

    /// Acts at the end of a path.
    fn act(&mut self, cpu: CpuId, next: Next) {
        match next {
            Next::Settle => self.settle(cpu),
            Next::Interrupt(which) => self.interrupt(cpu, which),
            Next::Schedule => {
                self.turn_to(cpu);
                self.moves = MoveReason::Newidle;
                self.kernel.image().schedule();
                self.settle_after(cpu);
                if !self.kernel.view().is_left() {
                    self.picked(cpu);
                }
            }
            Next::IdleLeave => {
                self.turn_to(cpu);
                self.moves = MoveReason::Newidle;
                self.kernel.image().idle_leave();
                self.settle_after(cpu);
            }
            Next::Halt => self.halt(cpu),
            Next::Kthread => {
                self.turn_to(cpu);
                self.moves = MoveReason::Active;
                self.kernel.image().kthread();
                self.settle_after(cpu);
            }
            Next::Call(call) => {
                self.enter(cpu);
                if call.might_sleep() && self.leaves_call(cpu, Point::MightSleep, (next, 0)) {
                    return;
                }
                self.effect(cpu, call);
            }
            Next::Wake => self.wake_listed(cpu),
            Next::Halted(halt) => self.halts_in(cpu, halt),
            Next::Proceed(after) => {
                self.turn_to(cpu);
                self.kernel.image().proceed();
                self.follow(cpu, after);
            }
        }
    }

    fn interrupt(&mut self, cpu: CpuId, which: Interrupt) {
        let in_user = self.cpus[cpu].left.is_none() && self.cpus[cpu].current.program().is_some();
        let c = &mut self.cpus[cpu];
        match which {
            Interrupt::Timer => c.timer_at = NEVER,
            Interrupt::Resched => c.resched_at = NEVER,
            Interrupt::Call => c.call_at = NEVER,
            Interrupt::Device => {
                c.device_at = NEVER;
                return self.receive(cpu);
            }
        }
        self.turn_to(cpu);
        let is_idle = self.cpus[cpu].current == Current::Idle;
        self.moves = if is_idle { MoveReason::Idle } else { MoveReason::Periodic };
        match which {
            Interrupt::Timer => self.kernel.image().irq_timer(in_user),
            Interrupt::Resched => self.kernel.image().irq_resched(),
            Interrupt::Call => self.kernel.image().irq_call(),
            Interrupt::Device => {}
        }
        self.settle_after(cpu);
    }

    /// Takes up the results of kernel code, and looks at the current task once their price has passed.
    pub fn settle_after(&mut self, cpu: CpuId) {
        self.follow(cpu, After::Settle);
    }

    /// Takes up the results of kernel code. `after` follows when their price has passed; a verb that was left in the
    /// middle continues then.
    pub fn follow(&mut self, cpu: CpuId, after: After) {
        let spent_ns = self.take_notes(cpu);
        let view = self.kernel.view();
        if view.is_left() {
            // A lock that is waited for has its own time.
            let longest_ns = if view.waits() { LONGEST_NS } else { 0 };
            return self.begin(cpu, Next::Proceed(after), spent_ns + longest_ns);
        }
        match after {
            After::Settle => {
                self.begin(cpu, Next::Settle, spent_ns);
                if spent_ns == 0 {
                    self.settle(cpu);
                }
            }
            After::Halt => match self.cpus[cpu].halts.take() {
                Some(halt) if spent_ns > 0 && self.level.counts() => {
                    self.begin(cpu, Next::Halted(halt), spent_ns);
                }
                Some(halt) => self.halts_in(cpu, halt),
                None => self.begin(cpu, Next::Settle, spent_ns),
            },
            After::Schedule => {
                let way_ns = spent_ns + self.board.machine.costs.schedule_sleep_ns;
                self.begin_open(cpu, Next::Schedule, way_ns);
            }
            After::Wake => {
                if !self.leaves_call(cpu, Point::WakeupEnd, (Next::Wake, spent_ns)) {
                    self.begin_open(cpu, Next::Wake, spent_ns);
                }
            }
        }
    }

    /// The CPU continues with its current task.
    fn settle(&mut self, cpu: CpuId) {
        if self.cpus[cpu].irq_due() <= self.now {
            // It came while interrupts were off.
            if let Some((next, left_ns)) = self.cpus[cpu].left.take() {
                self.begin_open(cpu, next, left_ns);
            } else {
                self.begin_open(cpu, Next::Settle, 0);
            }
            return;
        }
        self.enter(cpu);
        self.check_current(cpu);
        let view = self.kernel.view();
        if let Some((next, left_ns)) = self.cpus[cpu].left.take() {
            if self.leaves_call(cpu, Point::InterruptEnd, (next, left_ns)) {
                return;
            }
            // The host polls for a vCPU as long as nothing else is to run.
            let gives_way = next == Next::Call(Call::VcpuPolls) && view.gives_way();
            return self.begin_open(cpu, next, if gives_way { 0 } else { left_ns });
        }
        let costs = &self.board.machine.costs;
        if view.is_idle() {
            let (next, cost_ns) = match view.needs_resched() {
                true => (Next::IdleLeave, costs.schedule_idle_ns),
                false => (Next::Halt, costs.idle_enter_ns),
            };
            return self.begin(cpu, next, cost_ns);
        }
        if view.is_kthread() {
            return self.begin(cpu, Next::Kthread, 0);
        }
        self.return_to_user(cpu);
    }

    /// The idle loop: the CPU halts, unless it has to switch.
    fn halt(&mut self, cpu: CpuId) {
        self.turn_to(cpu);
        self.moves = MoveReason::NohzIdle;
        self.cpus[cpu].halts = None;
        self.kernel.image().idle_enter();
        self.follow(cpu, After::Halt);
    }

    /// CPUs in the middle of a verb finish it. Events from outside act on CPU 0, which may be in a verb.
    pub fn finish_verbs(&mut self) {
        if self.kernel.weaves() {
            self.enter(CpuId(0));
            self.kernel.image().finish();
            self.take_notes(CpuId(0));
        }
    }
}
