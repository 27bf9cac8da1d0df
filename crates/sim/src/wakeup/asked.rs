//! A single question: to which CPU a woken task goes, with the state at one instant.

use super::state::{WakeStage, Waking};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Context;
use schedlab_trace::AffineReason;

/// The chosen CPU, and why.
pub(crate) struct Chosen {
    pub cpu: CpuId,
    /// The answer of `wake_affine`, if it was called.
    pub affine: Option<AffineReason>,
}

impl System<'_> {
    /// The CPU to which a sleeping task would go. No other CPU acts meanwhile.
    pub(crate) fn ask_select(&mut self, by: CpuId, task: TaskId, sync: bool) -> Chosen {
        self.board.seats[by].sync_wakes = sync;
        let mut w = Waking { task, began_ns: self.now, ..Waking::default() };
        self.settle(by, Context::Task, &mut w);
        while matches!(w.stage, WakeStage::Prelude(_) | WakeStage::Search(_)) {
            self.probe_on(by, &mut w);
        }
        let affine = &self.accounts.stats.affine;
        let affine = AffineReason::ALL.iter().copied().find(|why| affine[*why as usize] > 0);
        Chosen { cpu: w.chosen, affine }
    }
}
