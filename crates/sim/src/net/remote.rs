//! A machine behind a link: a kernel of its own, whose CPUs are many and never part of what is studied.
//!
//! It is driven by the same clock as the host, whichever simulator that is. All its CPUs share one slot of the host's
//! tree; within, its own tree says which of them acts.

use crate::nested::Relay;
use crate::system::System;
use schedlab_board::drivers::Runs;
use schedlab_board::engine::WinnerTree;

/// A machine behind a link.
pub struct Remote<'s> {
    /// Its kernel.
    pub(crate) sys: Box<System<'s>>,
    pub(super) delay_ns: u64,
    pub(super) queues: u32,
    pub(super) tree: WinnerTree,
    pub(super) relay: Relay,
    /// Its tasks have all left.
    pub(super) done: bool,
}

impl Remote<'_> {
    pub(super) fn rearm(&mut self) {
        self.sys.rearm(&mut self.tree);
    }
}
