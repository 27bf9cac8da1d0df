//! The progress of a walk over the source's queue, including the affinity of the tasks seen. Each family of rules
//! decides by it when the walk ends and which tasks move.

use super::can_migrate::{BREAK, MigrateRules, Movable, Offer, Refusal, Stop};
use super::era::PassKind;
use schedlab_base::CpuId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkProgress {
    /// Amount still wanted; 0 or less once enough has moved.
    pub left: i64,
    pub(super) looked_at: u32,
    pub(super) next_break: u32,
    /// The number of tasks to examine.
    pub(super) max: u32,
    /// Number of tasks moved so far.
    pub moved: u32,
    /// Whether no task seen could run on the destination. Also true if no task was examined, as when nothing was
    /// wanted: the kernel then excludes the source and looks for another group and queue.
    pub all_pinned: bool,
    /// Whether some task could not run on the destination.
    pub some_pinned: bool,
    /// The first CPU found on which a task may run instead (`new_dst_cpu`).
    nearby: Option<CpuId>,
}

/// Affinity of the tasks that a walk has seen.
#[derive(Clone, Copy)]
pub struct Pinned {
    /// Whether no task may run on the destination, and none moved.
    pub all: bool,
    /// Whether some task may not, and more was wanted.
    pub some: bool,
}

impl WalkProgress {
    /// A walk for `wanted` over a queue of `src_nr_running` (at least 2: shorter ones are not walked).
    pub fn new(wanted: u64, nr_migrate: u64, src_nr_running: u32) -> WalkProgress {
        WalkProgress {
            left: i64::try_from(wanted).unwrap_or(i64::MAX),
            looked_at: 0,
            next_break: BREAK,
            max: u32::try_from(nr_migrate).map_or(src_nr_running, |n| n.min(src_nr_running)),
            moved: 0,
            all_pinned: true,
            some_pinned: false,
            nearby: None,
        }
    }

    /// Starts over for another destination of the same group, which [`WalkProgress::nearby`] has named.
    pub fn redirect(&mut self) {
        (self.looked_at, self.next_break, self.nearby) = (0, BREAK, None);
    }

    /// Another CPU of the destination's group on which some task could run, if more is still wanted (since 4.5, not in
    /// newidle passes).
    pub fn nearby(&self) -> Option<CpuId> {
        self.nearby.filter(|_| self.left > 0)
    }

    /// Affinity of the tasks seen.
    pub fn pinned(&self) -> Pinned {
        Pinned { all: self.all_pinned && self.moved == 0, some: self.some_pinned && self.left > 0 }
    }

    /// Stops if nothing more is wanted.
    pub(super) fn stop_when_satisfied(&self) -> Option<Stop> {
        (self.left <= 0).then_some(if self.moved == 0 { Stop::NothingWanted } else { Stop::Enough })
    }

    /// Notes the result of the affinity test. `nearby`: another CPU of the destination's group on which the task may
    /// run.
    pub(super) fn note_affinity(&mut self, judged: Result<Movable, Refusal>, nearby: Option<CpuId>) {
        if judged == Err(Refusal::NotAllowed) {
            self.some_pinned = true;
            self.nearby = self.nearby.or(nearby);
        } else if !judged.is_err_and(Refusal::comes_before_affinity) {
            self.all_pinned = false;
        }
    }

    pub(super) fn take(&mut self, rules: &MigrateRules, size: u64, hot: bool) -> Offer {
        self.moved += 1;
        self.left = self.left.saturating_sub(i64::try_from(size).unwrap_or(i64::MAX));
        let then = match () {
            () if rules.preemptible && rules.pass == PassKind::Newidle => Some(Stop::OneForNewidle),
            () if self.left <= 0 => Some(Stop::Enough),
            () => None,
        };
        Offer::Take { hot, then }
    }
}
