//! The facts by which a push of a running task is decided (`need_active_balance`). Each family of rules has its own
//! decision.

use super::capacity::is_reduced;
use super::era::PassKind;

/// The facts about a pass that moved nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveFacts {
    pub pass: PassKind,
    /// The domain's failures, including this one.
    pub nr_balance_failed: u32,
    pub cache_nice_tries: u32,
    pub imbalance_pct: u32,
    /// Runnable fair tasks on the source.
    pub src_h_nr_running: u32,
    pub src_capacity: u64,
    /// Capacity of the source, undisturbed.
    pub src_capacity_orig: u64,
    pub dst_capacity: u64,
}

impl ActiveFacts {
    pub fn has_failed_often(&self) -> bool {
        self.nr_balance_failed > self.cache_nice_tries + 2
    }
    /// Whether the source is disturbed and has one task, which would get clearly more of the destination.
    pub fn gives_its_only_task(&self) -> bool {
        self.pass != PassKind::Busy
            && self.src_h_nr_running == 1
            && is_reduced(self.src_capacity, self.src_capacity_orig, self.imbalance_pct)
            && self.src_capacity * u64::from(self.imbalance_pct) < self.dst_capacity * 100
    }
}
