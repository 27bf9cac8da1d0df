//! The run that a thread is making, so that the message about a fault can name it.

use crate::ask::cell::Cell;
use schedlab_base::{ErrorKind, Result};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// A run, as messages and options name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnderWay {
    /// The cell in a few words.
    pub title: String,
    pub load: String,
    pub machine: String,
    pub variant: String,
    pub backend: &'static str,
    pub seed: u64,
}

thread_local! {
    static NOW: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
}
/// The first run that ended in an error by a fault of schedlab.
static FAILED: Mutex<Option<UnderWay>> = Mutex::new(None);

/// Makes a run of the cell by `make`; [`now`] names it meanwhile.
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
    // After a panic the run stays noted: the thread makes no other.
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

/// The first run that ended in an error by a fault of schedlab.
pub fn failed() -> Option<UnderWay> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::experiment::parse;
    use crate::{Backend, Options, plan};
    use schedlab_base::Error;
    use std::path::Path;

    #[test]
    fn a_fault_finds_the_run_that_its_thread_was_making() {
        let text = "name = \"x\"\nabout = \"x\"\nmachines = [\"smp-2\"]\n[workload]\nname = \"pipe\"\n[[variant]]\n\
                    kernel = \"v6.1\"\n";
        let experiment = parse(Path::new("x.toml"), text, 2).unwrap();
        let wanted = Options { runs: Some(1), seed: None, observe: Default::default(), uncertainty: false };
        let cell = plan(&experiment, Backend::Sim, wanted).unwrap().cells.remove(0);
        assert_eq!(now(), None);
        let seen = making(&cell, 7, || Ok(now())).unwrap();
        let run = seen.unwrap();
        assert_eq!((run.seed, run.variant.as_str(), run.machine.as_str()), (7, "v6.1", "smp-2"));
        assert_eq!(now(), None);
        let error = making(&cell, 8, || Err::<(), _>(Error::internal("x"))).unwrap_err();
        assert!(error.to_string().contains('x') && failed().is_some_and(|run| run.seed == 8));
    }
}
