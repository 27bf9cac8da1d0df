//! The run that a thread is making, so that the message about a fault can name it.

use crate::cell::Cell;
use schedlab_base::{ErrorKind, Result};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// A run, as messages and options name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnderWay {
    /// The cell in a few words.
    pub title: String,
    /// The load's name.
    pub load: String,
    /// The machine's.
    pub machine: String,
    /// The variant's.
    pub variant: String,
    /// The backend's.
    pub backend: &'static str,
    /// The seed.
    pub seed: u64,
}

thread_local! {
    static NOW: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
}
/// The first run that ended in a fault which came back as an error.
static FAILED: Mutex<Option<UnderWay>> = Mutex::new(None);

/// Makes a run of the cell by `make`, and says so meanwhile.
///
/// # Errors
/// Those of `make`.
pub fn making<T>(cell: &Cell, seed: u64, make: impl FnOnce() -> Result<T>) -> Result<T> {
    let run = UnderWay {
        title: cell.title(),
        load: cell.load.clone(),
        machine: cell.machine.name.clone(),
        variant: cell.variant.name.clone(),
        backend: cell.backend.name(),
        seed,
    };
    let before = NOW.replace(Some(run.clone()));
    // After a panic the run stays: the thread makes no other.
    let made = make();
    NOW.replace(before);
    if made.as_ref().is_err_and(|e| e.kind() == ErrorKind::Internal) {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(run);
    }
    made
}

/// The run that this thread is making.
pub fn now() -> Option<UnderWay> {
    // A panic may come from within the cell.
    NOW.try_with(|now| now.try_borrow().ok().and_then(|now| now.clone())).ok().flatten()
}

/// The first run that ended in an error that is a fault of schedlab.
pub fn failed() -> Option<UnderWay> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
