//! A CPU: its frames, pending interrupts, timers, and the parts of `struct rq` that are not the fair class's.

use crate::balance::state::NohzFlags;
use crate::engine::NEVER;
use crate::frame::{Frame, Step};
use crate::idle::governor::Governor;
use crate::idle::haltpoll::Haltpoll;
use crate::loads::CpuLoad;
use crate::rq::clock::RqClock;
use crate::timer::TimerQueue;
use crate::wakeup::state::Waking;
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::SwitchReason;

/// One CPU.
///
/// The order of the fields is the order in memory: what every wakeup needs lies together, what only a balance pass
/// needs lies behind it. On machines of hundreds of CPUs, how many cache lines a step reads decides its speed.
#[repr(C, align(64))]
pub struct Cpu {
    // What it is doing: asked by its siblings too.
    /// Task context: user mode, system calls, `schedule()`, the idle loop.
    pub task: Frame,
    /// Softirq context.
    pub soft: Frame,
    /// Hardirq context.
    pub hard: Frame,
    /// The running task; `None` is the idle task (`rq->curr`).
    pub curr: Option<TaskId>,
    // What comes next.
    /// Pending sleeps and time-outs.
    pub timers: TimerQueue,
    /// Next tick, [`NEVER`] while stopped.
    pub tick_at: u64,
    /// When the running task's slice ends by HRTICK, [`NEVER`] if that is not armed.
    pub hrtick_at: u64,
    /// The pick that is under way has set it.
    pub hrtick_moved: bool,
    /// When the tick woke it from a halt, if that is what woke it last, else 0, ns.
    pub idle_tick_at: u64,
    /// It has halted since it last ran a task, and lost what its caches held.
    pub has_halted: bool,
    /// Earliest IPI or flag write under way to this CPU.
    pub ipi_at: u64,
    /// The address space loaded; one that the idle task and the kernel's own tasks leave as it is (lazy TLB).
    pub mm: u32,
    /// Why the task that is being switched out leaves.
    pub leaving: SwitchReason,
    /// TIF_NEED_RESCHED, and what asked for it.
    pub need_resched: Option<SwitchReason>,
    /// The request is lazy (TIF_NEED_RESCHED_LAZY): nobody was signalled for it.
    pub lazy: bool,
    /// SCHED_SOFTIRQ raised.
    pub softirq: bool,
    /// What other CPUs have asked of it for tickless CPUs. Since 5.5 its IPI takes that over into `nohz_serves`; before,
    /// it stands until all are served.
    pub nohz_asked: NohzFlags,
    /// What it is about to do for them in the softirq that its IPI raised (`nohz_idle_balance`, 5.5+).
    pub nohz_serves: NohzFlags,
    /// What the call under way has yet to do after its wakeups, ns.
    pub call_left_ns: u64,
    /// The wakeups in task context come from a waker that is about to sleep (WF_SYNC).
    pub sync_wakes: bool,
    // Its clocks.
    /// What those see who charge and compare.
    pub clock: RqClock,
    /// When the current task (or idle) got the CPU, ns.
    pub since: u64,
    /// CPU time accounting: time with a current task, ns, and since when.
    pub busy_ns: u64,
    /// The part of it that no task was charged, less what tasks were charged of idle time: a runqueue's clock is behind
    /// the time of the switch.
    pub uncharged_ns: i64,
    /// When the current user-mode stretch was last accounted, ns.
    pub user_since: u64,
    /// When the current idle period began, ns, for the governor.
    pub halted_at: u64,
    /// When the idle period that `avg_idle` samples began (`idle_stamp`); 0 for none.
    pub idle_stamp: u64,
    /// Average idle time, ns.
    pub avg_idle_ns: u64,
    /// `max_idle_balance_cost`, ns.
    pub max_idle_balance_cost_ns: u64,
    /// Next periodic balance is due, in ticks.
    pub next_balance: u64,
    // Idle, switches and wakeups.
    /// Idle state choice.
    pub governor: Governor,
    /// The same, of guests that poll before they halt.
    pub haltpoll: Haltpoll,
    /// Tasks queued by remote wakers (`wake_list`).
    pub wake_list: Vec<TaskId>,
    /// Tasks to wake one after another, by context (futex wake list; expired timers).
    pub to_wake: [Vec<TaskId>; 2],
    /// Tasks in the order they were enqueued (`cfs_tasks`), newest last; those a balancer refused are first.
    pub list: Vec<TaskId>,
    /// The task being carried elsewhere by the switch in progress.
    pub carried: Option<(TaskId, CpuId, schedlab_trace::MoveReason)>,
    /// A running task that must go elsewhere, with its destination.
    pub push: Option<(TaskId, CpuId, schedlab_trace::MoveReason)>,
    /// Wakeups in task context and in hardirq context.
    pub waking: [Waking; 2],
    // Balancing and forks.
    /// Balance state per domain.
    pub levels: Vec<crate::balance::state::LevelState>,
    /// `cpu_load[]`.
    pub load: CpuLoad,
    /// Choice of a CPU for a new task in progress.
    pub walk: crate::balance::state::Walk,
    /// Newidle balance in progress.
    pub newidle: crate::balance::state::Newidle,
    /// Periodic balance in progress.
    pub periodic: crate::balance::state::Periodic,
}

impl Cpu {
    /// An idle CPU.
    pub fn new(levels: Vec<crate::balance::state::LevelState>, migration_cost_ns: u64) -> Cpu {
        Cpu {
            task: Frame::until(Step::Halted { state: 0 }, NEVER),
            soft: Frame::NONE,
            hard: Frame::NONE,
            curr: None,
            leaving: SwitchReason::FromIdle,
            need_resched: None,
            lazy: false,
            tick_at: NEVER,
            hrtick_at: NEVER,
            hrtick_moved: false,
            idle_tick_at: 0,
            has_halted: false,
            timers: TimerQueue::default(),
            ipi_at: NEVER,
            wake_list: Vec::with_capacity(8),
            softirq: false,
            waking: [Waking::default(), Waking::default()],
            to_wake: [Vec::with_capacity(8), Vec::with_capacity(8)],
            sync_wakes: false,
            call_left_ns: 0,
            newidle: Default::default(),
            periodic: Default::default(),
            walk: Default::default(),
            user_since: 0,
            halted_at: 0,
            idle_stamp: 0,
            avg_idle_ns: 2 * migration_cost_ns,
            max_idle_balance_cost_ns: migration_cost_ns,
            load: CpuLoad::default(),
            list: Vec::with_capacity(16),
            governor: Governor::default(),
            haltpoll: Haltpoll::default(),
            push: None,
            carried: None,
            mm: 0,
            levels,
            next_balance: 0,
            nohz_asked: NohzFlags::default(),
            nohz_serves: NohzFlags::default(),
            busy_ns: 0,
            uncharged_ns: 0,
            clock: RqClock::default(),
            since: 0,
        }
    }
    /// The time of the earliest pending interrupt.
    #[inline]
    pub fn irq_due(&self) -> u64 {
        self.tick_at.min(self.ipi_at).min(self.timers.due()).min(self.hrtick_at)
    }
    /// Whether it was asked, and signalled, to call `schedule()`.
    #[inline]
    pub fn must_resched(&self) -> bool {
        self.need_resched.is_some() && !self.lazy
    }
    /// Whether user mode is what the CPU is executing at this instant.
    #[inline]
    pub fn in_user(&self) -> bool {
        matches!(self.task.step, Step::User) && !self.hard.active() && !self.soft.active()
    }
}
