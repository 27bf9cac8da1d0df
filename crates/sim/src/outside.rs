//! Events from outside of a run's CPUs, at stated times.

use crate::run::begin_measuring;
use crate::system::System;
use schedlab_base::Ns;
use schedlab_board::engine::NEVER;
use schedlab_kernel::Kernel;
use schedlab_workload::Later;
use std::collections::VecDeque;

/// How long a change waits for a task whose locks are held, ns.
const HELD_NS: u64 = 1_000;

/// The end of the warm-up, and later changes of the kernel's switches, of groups and of tasks.
pub(crate) struct Outside<'a> {
    measure_from: u64,
    changes: &'a [(Ns, Kernel)],
    /// Changes of groups and tasks, in order.
    later: VecDeque<(u64, Later)>,
    /// The first change waits until this time because its task's locks are held.
    held_until: u64,
}

impl<'a> Outside<'a> {
    pub(crate) fn new(sys: &System<'_>, changes: &'a [(Ns, Kernel)]) -> Outside<'a> {
        Outside { measure_from: sys.board.measure_from, changes, later: sys.run.later.clone(), held_until: 0 }
    }
    /// The time of the next such event.
    pub(crate) fn next(&self) -> u64 {
        let first = self.changes.first().map_or(NEVER, |(at, _)| at.0);
        let later = self.later.front().map_or(NEVER, |(at, _)| (*at).max(self.held_until));
        self.measure_from.min(first).min(later)
    }
    /// The time of the first change that has not been made.
    pub(crate) fn left(&self) -> Option<Ns> {
        let kernel = self.changes.first().map(|(at, _)| *at);
        let later = self.later.front().map(|(at, _)| Ns(*at));
        kernel.into_iter().chain(later).min()
    }
    /// Handles the events that are due.
    pub(crate) fn act(&mut self, sys: &mut System<'_>) {
        if self.measure_from <= sys.now {
            begin_measuring(sys);
            self.measure_from = NEVER;
        }
        while let Some(((_, kernel), rest)) =
            self.changes.split_first().filter(|((at, _), _)| at.0 <= sys.now)
        {
            sys.switch_kernel(*kernel);
            self.changes = rest;
        }
        sys.stepping.from_outside = true;
        while let Some((_, later)) =
            self.later.front().filter(|(at, _)| (*at).max(self.held_until) <= sys.now)
        {
            if !sys.change(*later) {
                // Later changes wait, too.
                self.held_until = sys.now + HELD_NS;
                break;
            }
            self.later.pop_front();
        }
        sys.stepping.from_outside = false;
    }
}
