//! The events of a stored run: from a file beside its record, or by simulating the run again.
//!
//! A run that is simulated again goes through an analyser, too. Its findings must equal the stored record's to the
//! last nanosecond; if they are not, the events would be another run's.

use crate::rerun::Rerun;
use schedlab_base::{Backend, Error, ErrorKind, Ns, Result, Spot, TaskId};
use schedlab_kernel::Policy;
use schedlab_machine::Machine;
use schedlab_record::{Findings, Record, RunDir, TaskName};
use schedlab_trace::kept::{EVENTS_FILE, Reader};
use schedlab_trace::{Actor, Cast, Counter, Counters, Event, Sink, Window, Within};
use schedlab_workload::Built;
use schedlab_workload::group::ROOT_GROUP;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Number of the first task of a simulated run. The first numbers belong to a kernel's own threads.
const FIRST_TID: u32 = 1000;
/// Priority of nice 0, as the kernel counts.
const NICE_0: i32 = 120;

/// The events of one stored run.
pub struct Events<'a> {
    cast: Cast,
    measured_from: Ns,
    window: Window,
    /// Whether times count from the window's begin.
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
    /// A damaged file of events; a live run that kept none; a simulated one that this build can't make again.
    pub fn of(run: &RunDir, record: &'a Record) -> Result<Events<'a>> {
        if record.backend == Backend::Sim && !has_kept(run) {
            Events::simulated(record)
        } else {
            Events::kept(run, record)
        }
    }
    /// The events that a run has kept.
    ///
    /// # Errors
    /// A damaged file of events; a run that kept none.
    pub fn kept(run: &RunDir, record: &Record) -> Result<Events<'a>> {
        let file = events_file(run);
        if !file.is_file() {
            let text = format!("this {} run has kept no events", record.backend);
            return Err(Error::machine(text)
                .help("--keep-events keeps them (with --events on this machine); a simulated run needs none kept")
                .at(Spot::file(file.parent().unwrap_or(&file))));
        }
        let reader = Reader::open(&file)?;
        let (cast, measured_from) = (reader.cast().clone(), reader.close().measured_from);
        Ok(Events::whole(cast, measured_from, From::File(Box::new(reader))))
    }
    /// The events of a simulated run, by simulating it again, whether it has kept any or not.
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
    /// A part of them, with times from the window's begin.
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
    /// Feeds all events to a sink; false: `stop` ended that.
    ///
    /// # Errors
    /// Damage in a file, what the simulator finds wrong, and another run than the stored one.
    pub fn feed<S: Sink>(&mut self, sink: &mut S, stop: &AtomicBool) -> Result<bool> {
        if !self.window.is_all() {
            let within = Within::new(self.window, sink);
            let mut within = if self.moved { within.moved() } else { within };
            let told = match &mut self.from {
                From::File(reader) => reader.replay(&mut within).map(|()| true),
                From::Rerun(again) => again.checked(&mut within, stop),
            };
            within.ends();
            return told;
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

/// Two sinks of the same events.
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.0.sample(at, task, series, value);
        self.1.sample(at, task, series, value);
    }
    fn wants_details(&self) -> bool {
        self.0.wants_details() || self.1.wants_details()
    }
    fn counter(&mut self, at: Ns, counter: Counter, value: i64) {
        self.0.counter(at, counter, value);
        self.1.counter(at, counter, value);
    }
    fn wants_counters(&self) -> Counters {
        self.0.wants_counters().or(self.1.wants_counters())
    }
}

/// Refuses a run made again whose findings differ from the stored record.
pub(crate) fn check_same(stored: &Findings, again: &Findings) -> Result<()> {
    let of = |same: bool, what: &str| (!same).then(|| what.to_owned());
    let counter = again.counters.iter().find(|(name, n)| stored.counters.get(*name) != Some(n));
    let series = again.series.iter().find(|(name, s)| stored.series.get(*name) != Some(s));
    let other = of(stored.duration == again.duration, "its length")
        .or_else(|| counter.map(|(name, _)| name.clone()))
        .or_else(|| series.map(|(name, _)| name.clone()))
        .or_else(|| of(stored.tasks == again.tasks, "the accounts of its tasks"))
        .or_else(|| of(stored.stays == again.stays, "its stays by CPU"))
        .or_else(|| of(stored.waits == again.waits, "its longest waits"));
    match other {
        None => Ok(()),
        Some(what) => Err(Error::new(
            ErrorKind::CheckFailed,
            format!("simulated again, the run is another one than the stored: {what} differs"),
        )
        .help("this build does not simulate as the one that made the run; make it anew, with --keep-events to keep its events")),
    }
}

/// The cast of a simulated run.
pub(crate) fn cast(machine: &Machine, built: &Built, names: &[TaskName], release: String, end: Ns) -> Cast {
    // The first task of each part of a workload leads the part's process.
    let mut leaders: BTreeMap<u64, u32> = BTreeMap::new();
    let actor = |(at, name): (usize, &TaskName)| {
        let tid = FIRST_TID + at as u32;
        let Some(task) = built.tasks.get(at) else {
            // A task of the machine.
            let name = name.name.clone();
            return Actor { name, tid, process: tid, background: true, prio: NICE_0, group: None };
        };
        let leader = *leaders.entry(task.part).or_insert(tid);
        let prio = match task.attr.policy {
            Policy::Fifo | Policy::Rr => 99 - i32::from(task.attr.rt_priority),
            _ => NICE_0 + i32::from(task.attr.nice),
        };
        Actor {
            name: name.name.clone(),
            tid,
            process: if built.processes { tid } else { leader },
            background: name.background,
            prio,
            group: (task.group != ROOT_GROUP).then(|| built.groups[task.group.index()].path.clone()),
        }
    };
    let tasks = names.iter().enumerate().map(actor).collect();
    Cast { tasks, cpus: machine.topology.nr_cpus(), release, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_run_is_refused_and_named() {
        let stored = Findings {
            duration: Ns(10),
            counters: [("migrations".to_owned(), 3), ("sim.events".to_owned(), 9)].into(),
            ..Findings::default()
        };
        let again = |migrations| Findings {
            duration: Ns(10),
            counters: [("migrations".to_owned(), migrations)].into(),
            ..Findings::default()
        };
        assert!(check_same(&stored, &again(3)).is_ok());
        let e = check_same(&stored, &again(4)).unwrap_err();
        assert!(e.message().contains("migrations differs"), "{e}");
        let longer = Findings { duration: Ns(11), ..again(3) };
        assert!(check_same(&stored, &longer).unwrap_err().message().contains("its length"));
    }
}
