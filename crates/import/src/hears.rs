//! Who hears a recording once: for its record, and for the file of its events.

use crate::to_run::{ChosenTasks, RunBuilder};
use crate::{Audience, Imported};
use schedlab_base::temp::TempFile;
use schedlab_base::{Error, Ns, Result, TaskId};
use schedlab_machine::Machine;
use schedlab_record::{Findings, Record, Store, Stored, cell_hash};
use schedlab_trace::kept::{EVENTS_FILE, Writer};
use schedlab_trace::{Actor, Cast, Event, Sink};
use std::fs::File;
use std::path::{Path, PathBuf};

pub struct Hears {
    watch: RunBuilder,
    events: KeptEvents,
}

/// The file of a recording's events, under a temporary name until its run is stored.
pub struct KeptEvents {
    writer: Writer<File>,
    temp: TempFile,
    place: PathBuf,
}

impl Hears {
    /// `folder` is the store's.
    ///
    /// # Errors
    /// When no file can be written there.
    pub fn new(folder: &Path, chosen: ChosenTasks, machine: Option<&Machine>) -> Result<Hears> {
        let place = folder.join(EVENTS_FILE);
        let temp = TempFile::create(&place)?;
        let writer = temp.file.try_clone().and_then(Writer::new);
        let writer = writer.map_err(|e| Error::io(&place, "write", &e))?;
        Ok(Hears { watch: RunBuilder::new(chosen, machine), events: KeptEvents { writer, temp, place } })
    }
    /// What was found, and the file.
    pub fn finish(self, imported: &mut Imported) -> (Findings, KeptEvents) {
        (self.watch.finish(imported), self.events)
    }
}

impl KeptEvents {
    /// Stores the run with its events.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn stored(self, store: &Store, record: &Record, cast: Cast) -> Result<Stored> {
        let written = self.writer.finish(cast).and_then(|file| file.sync_all());
        written.map_err(|e| Error::io(&self.place, "write", &e))?;
        store.put_with(&cell_hash(record), record.seed, (record, None), &[], Some(self.temp.path()))
    }
}

impl Sink for Hears {
    fn event(&mut self, event: &Event) {
        self.watch.event(event);
        self.events.writer.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.watch.sample(at, task, series, value);
    }
}

impl Audience for Hears {
    fn meet(&mut self, task: TaskId, actor: &Actor) {
        self.watch.meet(task, actor);
    }
    fn changed(&mut self, task: TaskId, actor: &Actor) {
        self.watch.changed(task, actor);
    }
}
