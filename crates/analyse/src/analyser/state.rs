//! The analyser's state of each task and CPU between events, and its counters.

use super::task_groups::NO_TASK_GROUP;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_record::Better;
use schedlab_record::Series;
use schedlab_record::Tally;
use schedlab_record::wait::FRESH_NS;
use schedlab_trace::{BalanceReason, BalanceTrigger, MoveReason, PlaceReason, SwitchReason};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// No event has named the task yet, or events were lost.
    Unknown,
    Asleep,
    /// Its wakeup has begun, but it is not queued yet.
    Waking,
    Queued,
    Running,
    Gone,
}

impl Phase {
    /// Whether the task runs or could run.
    pub fn is_awake(self) -> bool {
        matches!(self, Phase::Waking | Phase::Queued | Phase::Running)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub background: bool,
    pub group: u8,
    pub task_group: u16,
    pub phase: Phase,
    /// Whether its open wait began with a wakeup.
    pub by_wakeup: bool,
    /// Whether a wakeup began while it ran.
    pub woken_early: bool,
    /// Begin of its open wait.
    pub since: Ns,
    pub stay_from: Ns,
    pub last_cpu: Option<CpuId>,
    /// When a wakeup or fork last queued it.
    pub woken_at: Option<Ns>,
    /// The CPU on whose runqueue it waits, if known from events.
    pub queued_on: Option<CpuId>,
    pub pending: Pending,
    // The fields from here on are its account.
    pub cpu_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub migrations: u64,
}

impl Task {
    pub fn new(background: bool, group: u8) -> Task {
        Task {
            cpu_ns: 0,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            group,
            task_group: NO_TASK_GROUP,
            background,
            phase: Phase::Unknown,
            by_wakeup: false,
            woken_early: false,
            since: Ns::ZERO,
            stay_from: Ns::ZERO,
            last_cpu: None,
            woken_at: None,
            queued_on: None,
            pending: Pending::by(None, CpuId(0)),
        }
    }
}

/// A wakeup that has not yet led to a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub waker: Option<TaskId>,
    pub waker_cpu: CpuId,
    pub reason: Option<PlaceReason>,
    pub probes: u16,
    /// The CPU on which the task was queued, and the time.
    pub chosen: CpuId,
    pub enqueued_at: Ns,
    pub nr_running: u16,
    /// The task running on that CPU, its time there, and whether it had just been woken.
    pub occupant: Option<TaskId>,
    pub occupant_ran_ns: u64,
    pub occupant_fresh: bool,
    /// The reason of the last move since then.
    pub moved: Option<MoveReason>,
}

impl Pending {
    pub fn by(waker: Option<TaskId>, waker_cpu: CpuId) -> Pending {
        Pending {
            waker,
            waker_cpu,
            reason: None,
            probes: 0,
            chosen: waker_cpu,
            enqueued_at: Ns::ZERO,
            nr_running: 0,
            occupant: None,
            occupant_ran_ns: 0,
            occupant_fresh: false,
            moved: None,
        }
    }
    pub fn queue(&mut self, at: Ns, id: CpuId, cpu: &Cpu, occupant_woken_at: Option<Ns>, nr_running: u16) {
        self.chosen = id;
        self.enqueued_at = at;
        self.nr_running = nr_running;
        self.occupant = cpu.current;
        self.occupant_ran_ns = at.since(cpu.since).0;
        self.occupant_fresh = occupant_woken_at.is_some_and(|w| at.since(w).0 < FRESH_NS);
        self.moved = None;
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    /// The running task; `None` if idle.
    pub current: Option<TaskId>,
    pub since: Ns,
    /// Duration of the current exit from idle; 0 outside of one.
    pub idle_exit_ns: u32,
    /// Whether a switch was seen on this CPU.
    pub known: bool,
    /// Number of tasks that wait on its runqueue.
    pub queued: u32,
}

impl Cpu {
    /// Runnable tasks there, the running one included.
    pub fn nr_running(&self) -> u16 {
        let all = self.queued.saturating_add(u32::from(self.current.is_some()));
        u16::try_from(all).unwrap_or(u16::MAX)
    }
}

/// Counters of the balance passes of one trigger.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passes {
    pub passes: u64,
    pub moved: u64,
    pub visited: u64,
    pub took_ns: u64,
}

/// All counters. Arrays are indexed by reason.
pub(super) struct RunCounts {
    pub slice: Tally,
    pub slice_end: [u64; SwitchReason::ALL.len()],
    pub slice_by_end: [Tally; SwitchReason::ALL.len()],
    pub placement: [u64; PlaceReason::ALL.len()],
    pub moves: [u64; MoveReason::ALL.len()],
    pub balance: [Passes; BalanceTrigger::ALL.len()],
    pub balance_ends: [u64; BalanceReason::ALL.len()],
    pub probes: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub migrations: u64,
    pub wakeups: u64,
    pub cpu_ns: u64,
    pub background_ns: u64,
    pub idle_ns: u64,
    /// Switches whose prev was not the task that ran there by earlier events.
    pub gaps: u64,
    /// CPU time that ended in such a switch: whose it was is unknown.
    pub unknown_ns: u64,
    /// Whether the source reports placements with reasons, moves with reasons, and balance passes.
    pub any_placed: bool,
    pub any_move: bool,
    pub any_balance: bool,
}

impl RunCounts {
    pub fn new() -> RunCounts {
        RunCounts {
            slice: Tally::new(Series::new("ns", Better::Neither)),
            slice_end: [0; SwitchReason::ALL.len()],
            slice_by_end: std::array::from_fn(|_| Tally::new(Series::new("ns", Better::Neither))),
            placement: [0; PlaceReason::ALL.len()],
            moves: [0; MoveReason::ALL.len()],
            balance: [Passes::default(); BalanceTrigger::ALL.len()],
            balance_ends: [0; BalanceReason::ALL.len()],
            probes: 0,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            wakeups: 0,
            cpu_ns: 0,
            background_ns: 0,
            idle_ns: 0,
            gaps: 0,
            unknown_ns: 0,
            any_placed: false,
            any_move: false,
            any_balance: false,
        }
    }
    /// Counts a finished pass. A pass before the measured time only shows that the source reports passes.
    pub fn balance(&mut self, trigger: BalanceTrigger, why: BalanceReason, counts: bool, pass: Passes) {
        self.any_balance = true;
        if counts {
            let row = &mut self.balance[trigger as usize];
            row.passes += pass.passes;
            row.moved += pass.moved;
            row.visited += pass.visited;
            row.took_ns += pass.took_ns;
            self.balance_ends[why as usize] += 1;
        }
    }
}
