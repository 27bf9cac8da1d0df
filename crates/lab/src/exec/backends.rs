//! The executor of plans with several backends: each cell runs on its own.

use super::{Executor, Made, host, sim, under_way, vm};
use crate::cell::Cell;
use schedlab_base::{Backend, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// How runs are made, beside what their cells say.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Whether the simulator's expensive invariants are checked.
    pub check: bool,
    /// Steps between two walks over a simulation's invariants; `None`: they are not walked. Records stay the same.
    pub walk_every: Option<u64>,
    /// The folder in which files of the runs' events are written ([`Made::events`]): the store's, so that they can be
    /// moved. `None`: events are not kept. Simulations that are walked keep none.
    pub keep_events_in: Option<PathBuf>,
    /// Gets a simulation's progress, simulated ns; useful if one run is made at a time.
    pub clock: Option<&'static AtomicU64>,
}

/// The executor of all backends. Guests at rest are kept as long as it lives.
#[derive(Debug, Default)]
pub struct Backends {
    options: RunOptions,
    guests: vm::Guests,
}

impl Backends {
    /// An executor that makes runs so.
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
        })
    }
    fn parallel(&self, cell: &Cell) -> bool {
        match cell.backend {
            Backend::Sim => true,
            Backend::Host => false,
            Backend::Vm => vm::parallel(cell),
        }
    }
}
