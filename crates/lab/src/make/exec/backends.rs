//! The executor of plans with several backends: each cell runs on its own.

use super::executor::{Executor, Made};
use super::options::RunOptions;
use super::{code, host, sim, under_way, vm};
use crate::ask::cell::Cell;
use schedlab_base::{Backend, Result};
use std::sync::atomic::AtomicBool;

/// The executor of all backends. Guests at rest are kept as long as it lives.
#[derive(Debug, Default)]
pub struct Backends {
    options: RunOptions,
    guests: vm::Guests,
}

impl Backends {
    /// An executor that makes runs with these options.
    pub fn new(options: RunOptions) -> Backends {
        Backends { options, guests: vm::Guests::default() }
    }
}

impl Executor for Backends {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        under_way::making(cell, seed, || match cell.backend {
            Backend::Sim => sim::run(cell, seed, &self.options, stop),
            Backend::Host => host::run(cell, seed, &self.options, stop),
            Backend::Vm => vm::run(&self.guests, cell, seed, &self.options, stop),
            Backend::Code => code::run(cell, seed, &self.options, stop),
        })
    }
    fn parallel(&self, cell: &Cell) -> bool {
        match cell.backend {
            Backend::Sim | Backend::Code => true,
            Backend::Host => false,
            Backend::Vm => vm::parallel(cell),
        }
    }
}
