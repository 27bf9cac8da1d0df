//! The executor of plans with several backends: each cell runs on its own.

use super::{Executor, Host, Made, Sim, Vm, under_way};
use crate::cell::Cell;
use schedlab_base::{Backend, Result};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The executor of all backends.
#[derive(Debug)]
pub struct Any {
    sim: Sim,
    vm: Vm,
    /// Steps between two walks over a simulation's invariants; 0: none.
    walk_every: AtomicU64,
    /// The folder in which runs' events are written; unset: they are not kept.
    keep_in: OnceLock<PathBuf>,
}

impl Any {
    /// An executor that simulates with `sim`.
    pub const fn new(sim: Sim) -> Any {
        Any { sim, vm: Vm::new(), walk_every: AtomicU64::new(0), keep_in: OnceLock::new() }
    }
    /// From now on the invariants of simulations are walked every `steps` steps. Records stay the same.
    pub fn walk_every(&self, steps: u64) {
        self.walk_every.store(steps, Relaxed);
    }
    /// From now on the events of runs are written to files in that folder ([`Made::events`]), which is the store's, so
    /// that they can be moved.
    pub fn keep_events(&self, folder: PathBuf) {
        // A second call has the same store.
        let _ = self.keep_in.set(folder);
    }
    fn of(&self, cell: &Cell) -> &dyn Executor {
        match cell.backend {
            Backend::Sim => &self.sim,
            Backend::Host => &Host,
            Backend::Vm => &self.vm,
        }
    }
}

impl Executor for Any {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        let keep_in = self.keep_in.get().map(PathBuf::as_path);
        under_way::making(cell, seed, || match (cell.backend, self.walk_every.load(Relaxed)) {
            (Backend::Sim, steps @ 1..) => self.sim.run_walking(cell, seed, stop, Some(steps)),
            (Backend::Sim, 0) if keep_in.is_some() => self.sim.run_kept(cell, seed, stop, keep_in),
            (Backend::Host, _) if keep_in.is_some() => Host.run_kept(cell, seed, stop, keep_in),
            (Backend::Vm, _) if keep_in.is_some() => self.vm.run_kept(cell, seed, stop, keep_in),
            _ => self.of(cell).run(cell, seed, stop),
        })
    }
    fn parallel(&self, cell: &Cell) -> bool {
        self.of(cell).parallel(cell)
    }
}
