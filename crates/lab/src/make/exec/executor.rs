//! What makes a run, and the run as it comes from there.

use crate::ask::cell::Cell;
use schedlab_base::Result;
use schedlab_record::{Record, Store, Stored};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub record: Record,
    /// The record's JSON, if it comes in that form.
    pub json: Option<Vec<u8>>,
    /// Files kept beside it: name and content.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The file of its events, in the folder of [`RunOptions::keep_events_in`]; whoever stores the run moves it.
    pub events: Option<PathBuf>,
}

impl Made {
    /// Stores the run, with further files (name, content) beside its record.
    pub fn put(&self, store: &Store, hash: &str, seed: u64, attach: &[(&str, &[u8])]) -> Result<Stored> {
        let own = self.files.iter().map(|(name, content)| (*name, content.as_slice()));
        let files: Vec<(&str, &[u8])> = attach.iter().copied().chain(own).collect();
        let events = self.events.as_deref();
        let record = (&self.record, self.json.as_deref());
        let stored = store.put_with(hash, seed, record, &files, events);
        // A store that already has the run does not move it.
        let _ = events.map(std::fs::remove_file);
        stored
    }
}

impl From<Record> for Made {
    fn from(record: Record) -> Made {
        Made { record, json: None, files: Vec::new(), events: None }
    }
}

/// Makes runs.
pub trait Executor: Sync {
    /// Makes one run; `None` if `stop` ended it early.
    ///
    /// # Errors
    /// When the backend can't run the workload, or not on this machine.
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>>;
    /// Whether runs of the cell may be made beside others. On a live machine they would disturb each other.
    fn parallel(&self, cell: &Cell) -> bool;
}
