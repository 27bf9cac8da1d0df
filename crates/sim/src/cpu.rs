//! A CPU: its frames, pending interrupts, timers, and the parts of `struct rq` that belong to no class.

use crate::balance::state::NohzFlags;
use crate::cpu_load::CpuLoad;
use crate::frame::{Frame, Step};
use crate::idle::governor::Governor;
use crate::idle::haltpoll::Haltpoll;
use crate::rq::clock::RqClock;
use crate::timer::TimerQueue;
use crate::wakeup::scan_cost::ScanCost;
use crate::wakeup::state::Waking;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::engine::NEVER;
use schedlab_trace::SwitchReason;

/// One CPU.
///
/// The fields are in the order of memory: first those that every wakeup needs, then those that only a balance pass
/// needs. On machines with hundreds of CPUs, the number of cache lines read in a step decides its speed.
#[repr(C, align(64))]
pub struct Cpu {
    // The present activity; siblings read it, too.
    /// Task context: user mode, system calls, `schedule()`, the idle loop.
    pub task: Frame,
    /// Softirq context.
    pub soft: Frame,
    /// Hardirq context.
    pub hard: Frame,
    /// The running task; `None` is the idle task (`rq->curr`).
    pub curr: Option<TaskId>,
    // The next events.
    /// Pending sleeps and time-outs.
    pub timers: TimerQueue,
    /// Time of the next tick, [`NEVER`] while stopped.
    pub tick_at: u64,
    /// When HRTICK ends the running task's slice, [`NEVER`] if it is not armed.
    pub hrtick_at: u64,
    /// Whether the current pick has set `hrtick_at`.
    pub hrtick_moved: bool,
    /// When the tick woke it from a halt, ns; 0 if something else woke it last.
    pub idle_tick_at: u64,
    /// Whether it has halted since it last ran a task, so that its caches have lost their data.
    pub has_halted: bool,
    /// The earliest IPI or flag write on its way to this CPU.
    pub ipi_at: u64,
    /// The loaded address space. The idle task and the kernel's own tasks do not change it (lazy TLB).
    pub mm: u32,
    /// Why the task that is being switched out leaves.
    pub leaving: SwitchReason,
    /// TIF_NEED_RESCHED, and the reason of the request.
    pub need_resched: Option<SwitchReason>,
    /// Whether the request is lazy (TIF_NEED_RESCHED_LAZY): no CPU was signalled for it.
    pub lazy: bool,
    /// Whether SCHED_SOFTIRQ is raised.
    pub softirq: bool,
    /// Whether the tick that raised it found the CPU idle (`rq->idle_balance`); `None` once the softirq has begun.
    pub ticked_idle: Option<bool>,
    /// Requests of other CPUs to serve tickless CPUs. Since 5.5 its IPI moves them into `nohz_serves`; before, they
    /// remain until all are served.
    pub nohz_asked: NohzFlags,
    /// Requests that it is about to serve in the softirq raised by its IPI (`nohz_idle_balance`, 5.5+).
    pub nohz_serves: NohzFlags,
    // Its clocks.
    /// The clock of the runqueue: the time that the lock holder sees.
    pub clock: RqClock,
    /// When the current task (or idle) got the CPU, ns.
    pub since: u64,
    /// CPU time accounting: time with a current task, ns.
    pub busy_ns: u64,
    /// The part of `busy_ns` that was charged to no task, minus idle time that was charged to tasks. Both occur because
    /// a runqueue's clock lags behind the time of the switch.
    pub uncharged_ns: i64,
    /// When the current idle period began, ns, for the governor.
    pub halted_at: u64,
    /// When the idle period that `avg_idle` samples began (`idle_stamp`); 0 for none.
    pub idle_stamp: u64,
    pub avg_idle_ns: u64,
    /// The cost of its scans for idle CPUs, and the idle time available for them.
    pub scans: ScanCost,
    pub max_idle_balance_cost_ns: u64,
    /// When the next periodic balance is due, in ticks.
    pub next_balance: u64,
    // Idle, switches and wakeups.
    /// Idle state choice.
    pub governor: Governor,
    /// Polling of guests that poll before they halt.
    pub haltpoll: Haltpoll,
    /// Tasks queued by remote wakers (`wake_list`).
    pub wake_list: Vec<TaskId>,
    /// Tasks in the order they were enqueued (`cfs_tasks`), newest last. Tasks that a balancer refused are first.
    pub list: Vec<TaskId>,
    /// The task that the switch in progress moves to another CPU.
    pub carried: Option<(TaskId, CpuId, schedlab_trace::MoveReason)>,
    /// A running task that must move, with its destination.
    pub push: Option<(TaskId, CpuId, schedlab_trace::MoveReason)>,
    /// The CPU that it chose last among equally good ones of a mask (`distribute_cpu_mask_prev`).
    pub distributed: CpuId,
    /// Wakeups in task context and in hardirq context.
    pub waking: [Waking; 2],
    /// Queues that have received quota and that it must unthrottle (`cfsb_csd_list`).
    pub freed: Vec<crate::fair::CfsRqId>,
    // Balancing and forks.
    /// Balance state per domain.
    pub levels: Vec<crate::balance::state::LevelState>,
    /// `cpu_load[]`.
    pub load: CpuLoad,
    /// The current choice of a CPU for a new task.
    pub walk: crate::balance::state::Descent,
    pub newidle: crate::balance::state::Newidle,
    pub periodic: crate::balance::state::Periodic,
}

impl Cpu {
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
            ticked_idle: None,
            waking: [Waking::default(), Waking::default()],
            newidle: Default::default(),
            periodic: Default::default(),
            walk: Default::default(),
            halted_at: 0,
            idle_stamp: 0,
            avg_idle_ns: 2 * migration_cost_ns,
            scans: ScanCost::new(2 * migration_cost_ns),
            max_idle_balance_cost_ns: migration_cost_ns,
            load: CpuLoad::default(),
            list: Vec::with_capacity(16),
            governor: Governor::default(),
            haltpoll: Haltpoll::default(),
            push: None,
            distributed: CpuId(0),
            carried: None,
            freed: Vec::new(),
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
    /// Whether the CPU executes user mode at this instant.
    #[inline]
    pub fn in_user(&self) -> bool {
        matches!(self.task.step, Step::User) && !self.hard.active() && !self.soft.active()
    }
}
