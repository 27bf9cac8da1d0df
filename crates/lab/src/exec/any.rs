//! Each cell on its own backend: what makes the runs of plans that have several.

use super::{Executor, Host, Made, Sim, Vm};
use crate::plan::{Backend, Cell};
use schedlab_base::Result;
use std::sync::atomic::AtomicBool;

/// The executor of all backends.
#[derive(Debug)]
pub struct Any {
    sim: Sim,
    vm: Vm,
}

impl Any {
    /// One that simulates so.
    pub const fn new(sim: Sim) -> Any {
        Any { sim, vm: Vm::new() }
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
        self.of(cell).run(cell, seed, stop)
    }
    fn parallel(&self, cell: &Cell) -> bool {
        self.of(cell).parallel(cell)
    }
}
