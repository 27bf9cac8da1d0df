//! A run of the kernel's own code, made again. An image has global state, so a separate process makes the run, and its
//! events come back in a file.

use crate::ask::cell::Cell;
use crate::make::exec::{RunOptions, code};
use crate::stored::same::check_same;
use schedlab_base::temp::TempFolder;
use schedlab_base::{Ns, Result};
use schedlab_record::Record;
use schedlab_trace::Sink;
use schedlab_trace::kept::Reader;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The prefix of folders with such files.
const PREFIX: &str = ".schedlab-code-";

/// The events of a run that was made again, and its record. The events are removed with this.
pub struct CodeEvents {
    file: PathBuf,
    /// The record, with the reasons that our rules have for the code's decisions.
    pub(crate) record: Record,
    _folder: TempFolder,
}

impl CodeEvents {
    /// Makes the run of a record, and checks that it is the same run. `None`: `stop` ended it.
    ///
    /// # Errors
    /// When the run fails, and when its findings differ from the record's.
    pub fn of(cell: &Cell, record: &Record, stop: &AtomicBool) -> Result<Option<CodeEvents>> {
        let explained = RunOptions { explains: true, ..RunOptions::default() };
        let Some(made) = CodeEvents::made(cell, record.seed, explained, stop)? else { return Ok(None) };
        check_same(&record.found, &made.record.found)?;
        Ok(Some(made))
    }

    /// Makes a run with these options. `None`: `stop` ended it.
    ///
    /// # Errors
    /// When the run fails.
    pub fn made(cell: &Cell, seed: u64, how: RunOptions, stop: &AtomicBool) -> Result<Option<CodeEvents>> {
        let folder = TempFolder::create(&std::env::temp_dir(), PREFIX, 0o700)?;
        let options = RunOptions { keep_events_in: Some(folder.path.clone()), keep_details: true, ..how };
        let Some(made) = code::run(cell, seed, &options, stop)? else { return Ok(None) };
        Ok(made.events.map(|file| CodeEvents { file, record: made.record, _folder: folder }))
    }

    /// Gives the events to a sink; returns the run's end, or `None` if `stop` ended it.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn feed<S: Sink>(&self, sink: &mut S, stop: &AtomicBool) -> Result<Option<Ns>> {
        let mut reader = Reader::open(&self.file)?;
        let end = reader.cast().end;
        Ok(reader.replay_unless(stop, sink)?.then_some(end))
    }
}
