//! State: a wakeup in progress in one context of a CPU.

use super::prelude::Prelude;
use super::search::{Answer, Search, SearchStep, View};
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::PlaceReason;

#[derive(Clone, Copy, Debug)]
pub(super) enum WakeStage {
    /// The task may still be on its old CPU.
    Settle,
    /// The task sleeps but is still queued: the waker takes its runqueue's lock.
    Requeue,
    /// The tests before the search.
    Prelude(Prelude),
    Search(Search),
    /// A CPU is chosen: the waker takes its lock, or writes its wake list.
    Enqueue {
        remote_list: bool,
    },
    /// The task is enqueued: the waker signals the CPU.
    Signal,
}

/// One wakeup in progress in one context of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Waking {
    pub(super) task: TaskId,
    pub(super) stage: WakeStage,
    pub(super) target: CpuId,
    pub(super) prev: CpuId,
    /// The task's `recent_used_cpu` when the wakeup began.
    pub(super) recent: CpuId,
    pub(super) probes: u16,
    /// A probe whose answer arrives when the step ends.
    pub(super) asked: Option<CpuId>,
    pub(super) began_ns: u64,
    /// When the scan whose cost is averaged began, ns.
    pub(super) timed_from_ns: Option<u64>,
    pub(super) chosen: CpuId,
    /// When the waker got the chosen CPU's lock, ns.
    pub(super) locked_ns: u64,
    /// The waker's domain in which `wake_affine` chose the waker's CPU, if the choice is to be counted.
    pub(super) affine: Option<u8>,
    /// The CPU to take if the search finds none.
    pub(super) fallback: Option<(CpuId, PlaceReason)>,
}

impl Waking {
    pub fn task(&self) -> TaskId {
        self.task
    }
    /// Whether the task is still to be woken. The waker signals a task's CPU when the task is already queued; if the
    /// waker is paused meanwhile (it lost its turn, or its vCPU's thread lost the CPU), the task may run and sleep
    /// again.
    pub fn is_pending(&self) -> bool {
        !matches!(self.stage, WakeStage::Signal)
    }
    /// The next step of the tests or of the search, at `at`. Notes when a scan whose cost is averaged begins.
    #[inline]
    pub(super) fn search_on(&mut self, view: &View<'_>, answer: Option<Answer>, at: u64) -> SearchStep {
        match &mut self.stage {
            WakeStage::Prelude(p) => p.step(view, answer),
            WakeStage::Search(s) => {
                let next = s.step(view, answer);
                if self.timed_from_ns.is_none() && s.is_timed(view) {
                    self.timed_from_ns = Some(at);
                }
                next
            }
            WakeStage::Settle | WakeStage::Requeue | WakeStage::Enqueue { .. } | WakeStage::Signal => {
                unreachable!("not probing")
            }
        }
    }
    /// The wakeup was paused for `by_ns`, and has taken no lock yet.
    pub fn put_off(&mut self, by_ns: u64) {
        self.locked_ns += by_ns;
    }
}

impl Default for Waking {
    fn default() -> Waking {
        let none = CpuId(0);
        Waking {
            task: TaskId(0),
            stage: WakeStage::Settle,
            target: none,
            prev: none,
            recent: none,
            probes: 0,
            asked: None,
            began_ns: 0,
            timed_from_ns: None,
            chosen: none,
            locked_ns: 0,
            affine: None,
            fallback: None,
        }
    }
}
