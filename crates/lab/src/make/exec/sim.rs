//! Runs by our rules of the kernel, in this process.

use super::executor::Made;
use super::options::RunOptions;
use super::prepared::Prepared;
use super::simulated;
use crate::ask::cell::Cell;
use schedlab_base::{Error, Result};
use schedlab_sim::{Setup, simulate, simulate_walking};
use std::sync::atomic::AtomicBool;

/// A simulated run; `None` if `stop` ended it early.
///
/// # Errors
/// As [`simulated::made`], and, where invariants are walked, one that does not hold.
pub(super) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    simulated::made(cell, seed, options, |prepared, sink| {
        let usual = setup(prepared, cell, seed, stop)?;
        let setup = Setup { check: options.check, clock: options.clock, ..usual };
        match options.walk_every {
            Some(steps) => simulate_walking(setup, steps, sink),
            None => simulate(setup, sink),
        }
    })
}

/// What the simulator gets of a run.
pub(crate) fn setup<'a>(
    prepared: Prepared<'a>,
    cell: &Cell,
    seed: u64,
    stop: &'a AtomicBool,
) -> Result<Setup<'a>> {
    let kernel = cell.resolved.ok_or_else(|| Error::internal("a simulated cell without a kernel"))?;
    let Prepared { machine, changes, workload } = prepared;
    let background = !machine.background.is_empty();
    Ok(Setup {
        machine,
        kernel,
        changes,
        workload,
        seed,
        background,
        check: false,
        stop: Some(stop),
        clock: None,
    })
}
