//! Runs by our rules of the kernel, in this process.

use super::executor::Made;
use super::options::RunOptions;
use super::prepared::Prepared;
use super::simulated;
use crate::ask::cell::Cell;
use schedlab_base::{Error, Result};
use schedlab_record::MODEL;
use schedlab_sim::{Setup, simulate, simulate_walking};
use std::sync::atomic::AtomicBool;

/// A simulated run; `None` if `stop` ended it early.
///
/// # Errors
/// As [`simulated::made`], and, where invariants are walked, one that does not hold.
pub(super) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    let kernel = cell.resolved.ok_or_else(|| Error::internal("a simulated cell without a kernel"))?;
    simulated::made(cell, seed, options, MODEL, |Prepared { machine, changes, workload }, sink| {
        let setup = Setup {
            machine,
            kernel,
            changes,
            workload,
            seed,
            background: !machine.background.is_empty(),
            check: options.check,
            stop: Some(stop),
            clock: options.clock,
        };
        match options.walk_every {
            Some(steps) => simulate_walking(setup, steps, sink),
            None => simulate(setup, sink),
        }
    })
}
