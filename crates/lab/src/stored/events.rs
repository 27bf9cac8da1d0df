//! The events of a stored run: from a file next to its record, or by simulating the run again.
//!
//! A run that is simulated again also passes an analyser. Its findings must equal the stored record's to the last
//! nanosecond; otherwise the events would belong to another run.

use crate::stored::rerun::Rerun;
use schedlab_base::{Error, Ns, Result, Spot};
use schedlab_record::{Record, RunDir, cell_hash};
use schedlab_trace::kept::{EVENTS_FILE, Reader, RunId};
use schedlab_trace::{Cast, Sink, Window, Within};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The events of one stored run.
pub struct Events<'a> {
    cast: Cast,
    measured_from: Ns,
    window: Window,
    /// Whether times count from the window's beginning.
    moved: bool,
    from: From<'a>,
}

enum From<'a> {
    File(Box<Reader>),
    Rerun(Box<Rerun<'a>>),
}

impl<'a> Events<'a> {
    /// The events of a run with that record.
    ///
    /// # Errors
    /// When the file of events is damaged, a live run kept none, or this build can't make a simulated one again.
    pub fn of(run: &RunDir, record: &'a Record) -> Result<Events<'a>> {
        if record.backend.is_simulated() && !has_kept(run) {
            Events::simulated(record)
        } else {
            Events::kept(run, record)
        }
    }
    /// The events that a run has kept.
    ///
    /// # Errors
    /// When the file of events is damaged or another run's, or the run kept none.
    pub fn kept(run: &RunDir, record: &Record) -> Result<Events<'a>> {
        let file = events_file(run);
        if !file.is_file() {
            let text = format!("this {} run has kept no events", record.backend);
            return Err(Error::machine(text)
                .help("--keep-events keeps them (with --events on this machine); runs on simulated machines need none kept")
                .at(Spot::file(file.parent().unwrap_or(&file))));
        }
        let reader = Reader::open(&file)?;
        let own = RunId { cell: cell_hash(record), seed: record.seed };
        if let Some(run) = reader.run().filter(|run| **run != own) {
            let text = format!(
                "these events are of run {}/{}, and the record beside them is of {}/{}",
                run.cell, run.seed, own.cell, own.seed
            );
            let error = Error::input(text).at(Spot::file(&file));
            return Err(match record.backend.is_simulated() {
                true => error.help("remove the file: the run is simulated again without it"),
                false => error.help("put the run's own file back; without one the run has no events"),
            });
        }
        let (cast, measured_from) = (reader.cast().clone(), reader.close().measured_from);
        Ok(Events::whole(cast, measured_from, From::File(Box::new(reader))))
    }
    /// The events of a simulated run, by simulating it again, even if it has kept some.
    pub fn simulated(record: &'a Record) -> Result<Events<'a>> {
        let again = Rerun::of(record)?;
        Ok(Events::whole(again.cast(), again.warmup(), From::Rerun(Box::new(again))))
    }
    fn whole(cast: Cast, measured_from: Ns, from: From<'a>) -> Events<'a> {
        Events { cast, measured_from, window: Window::default(), moved: false, from }
    }
    /// A part of them, with the run's own times.
    ///
    /// # Errors
    /// When the run has ended before the window begins.
    pub fn within(self, window: Window) -> Result<Events<'a>> {
        self.part(window, false)
    }
    /// A part of them, with times from the window's beginning.
    ///
    /// # Errors
    /// As [`Events::within`].
    pub fn moved_to(self, window: Window) -> Result<Events<'a>> {
        self.part(window, true)
    }
    fn part(self, window: Window, moved: bool) -> Result<Events<'a>> {
        if window.is_all() {
            return Ok(self);
        }
        let window = window.within(self.cast.end)?;
        let from = if moved { window.from } else { Ns::ZERO };
        let cast = Cast { end: window.until.since(from), ..self.cast };
        let measured_from = self.measured_from.max(window.from).since(from);
        Ok(Events { cast, measured_from, window, moved, from: self.from })
    }
    /// The same, with a simulation's progress, simulated ns.
    #[must_use]
    pub fn clocked(self, clock: &'static std::sync::atomic::AtomicU64) -> Events<'a> {
        let from = match self.from {
            From::Rerun(again) => From::Rerun(Box::new(again.clocked(clock))),
            file => file,
        };
        Events { from, ..self }
    }
    /// The tasks, and the frame of the run.
    pub fn cast(&self) -> &Cast {
        &self.cast
    }
    /// The end of the warm-up.
    pub fn measured_from(&self) -> Ns {
        self.measured_from
    }
    /// Whether the run is simulated again for them.
    pub fn are_simulated(&self) -> bool {
        matches!(self.from, From::Rerun(_))
    }
    /// Feeds all events to a sink; false: `stop` ended it.
    ///
    /// # Errors
    /// When a file is damaged, the simulator finds a fault, or the run is not the stored one.
    pub fn feed<S: Sink>(&mut self, sink: &mut S, stop: &AtomicBool) -> Result<bool> {
        if !self.window.is_all() {
            let within = Within::new(self.window, sink);
            let mut within = if self.moved { within.moved() } else { within };
            let fed = match &mut self.from {
                From::File(reader) => reader.replay(&mut within).map(|()| true),
                From::Rerun(again) => again.checked(&mut within, stop),
            };
            within.ends();
            return fed;
        }
        match &mut self.from {
            From::File(reader) => reader.replay(sink).map(|()| true),
            From::Rerun(again) => again.checked(sink, stop),
        }
    }
}

/// Whether a run has kept its events.
pub fn has_kept(run: &RunDir) -> bool {
    events_file(run).is_file()
}

/// The file of a run's kept events, whether it is there or not.
fn events_file(run: &RunDir) -> PathBuf {
    let folder = if run.path.is_dir() { &run.path } else { run.path.parent().unwrap_or(Path::new(".")) };
    folder.join(EVENTS_FILE)
}
