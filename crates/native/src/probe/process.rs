//! Two processes on one CPU: the cost that a change of address space adds to a switch.

use super::batches::{BATCHES_OF_PAIRS, Batches, KnownCosts, timed};
use crate::sys::{self, Lines};
use schedlab_base::{Error, Result};
use std::sync::atomic::Ordering::SeqCst;

/// Measures on the caller's CPU; `threads`: a yield between two threads.
pub(super) fn measure(known: &mut KnownCosts, threads: &Batches) -> Result<()> {
    let fault = |e: std::io::Error| Error::machine(format!("can't start a process: {e}"));
    let lines = Lines::map(1).map_err(fault)?;
    let over = &lines.get()[0].word;
    let child = sys::fork_bare(|| {
        // Nothing else would end this process.
        sys::die_with_parent();
        while over.load(SeqCst) == 0 {
            sys::yield_now();
        }
    })
    .map_err(fault)?;
    sys::sleep_for(1_000_000);
    let processes = timed(BATCHES_OF_PAIRS, 200, sys::yield_now);
    over.store(1, SeqCst);
    sys::wait_for(child);
    let half = Batches::new(processes.0.iter().map(|t| t / 2).collect());
    known.add(half.cost(
        "mm_switch_ns",
        threads.median(),
        "two processes that yield to each other, against two threads",
    ));
    Ok(())
}
