//! The processes with machines at rest that wait for their next run.
//!
//! They belong to this process, not to a plan: a study, a hunt and a trial ask one after the other for the same
//! machines. The ones that were asked last stay.

use super::COMMAND;
use super::debugging::Debugging;
use crate::ask::cell::Cell;
use crate::ask::code::CodeImage;
use crate::make::exec::image_process::ImageProcess;
use crate::make::packed_cell::PackedCell;
use schedlab_base::Result;
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// At most so many wait. More variants than that would come in turns, and each start anew.
const MOST: usize = 8;
/// Their CPUs all together: a machine of 1,024 takes 80 MB.
const MOST_CPUS: usize = 2048;

/// The one that was asked last is the last.
static WAITING: Mutex<Vec<AtRest>> = Mutex::new(Vec::new());

/// What a machine at rest depends on.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Ground {
    machine: Arc<Machine>,
    code: Option<CodeImage>,
    variant: Variant,
    watched: Vec<u64>,
    debug: Debugging,
}

impl Ground {
    pub(super) fn of(cell: &Cell, watched: &[u64], debug: Debugging) -> Ground {
        // Its changes in the middle of a run, its tasks' attributes and its name come later.
        let Variant { features, tunables, .. } = cell.variant.clone();
        let variant = Variant { features, tunables, ..Variant::plain("") };
        Ground {
            machine: cell.machine.clone(),
            code: cell.code.clone(),
            variant,
            watched: watched.to_owned(),
            debug,
        }
    }
}

/// A process with a machine at rest, or one that will have it once it is asked.
#[derive(Debug)]
pub(super) struct AtRest {
    ground: Ground,
    /// The cell of its last run.
    cell: Option<Cell>,
    pub(super) process: ImageProcess,
}

fn waiting() -> MutexGuard<'static, Vec<AtRest>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the processes that wait. They are waited for, so that a shell's `time` has the runs that they made.
pub fn end_waiting() {
    waiting().clear();
}

impl AtRest {
    /// One that waits, or a new one. One that was killed meanwhile, such as for its memory, waits no more.
    ///
    /// # Errors
    /// When the process can't be had.
    pub(super) fn on(ground: Ground) -> Result<AtRest> {
        let mut waiting = waiting();
        waiting.retain_mut(|one| !one.process.is_gone());
        if let Some(at) = waiting.iter().rposition(|one| one.ground == ground) {
            return Ok(waiting.remove(at));
        }
        drop(waiting);
        Ok(AtRest { ground, cell: None, process: ImageProcess::start(COMMAND)? })
    }
    /// The cell in the form for the process; `None` if that knows it.
    ///
    /// # Errors
    /// When the cell can't be packed.
    pub(super) fn packed(&mut self, cell: &Cell) -> Result<Option<PackedCell>> {
        if self.cell.as_ref() == Some(cell) {
            return Ok(None);
        }
        self.cell = Some(cell.clone());
        PackedCell::of(cell).map(Some)
    }
    /// Has it wait for another run.
    pub(super) fn waits(self) {
        let mut waiting = waiting();
        waiting.push(self);
        let cpus =
            |all: &[AtRest]| all.iter().map(|one| one.ground.machine.topology.nr_cpus()).sum::<usize>();
        while waiting.len() > MOST || waiting.len() > 1 && cpus(&waiting) > MOST_CPUS {
            waiting.remove(0);
        }
    }
}
