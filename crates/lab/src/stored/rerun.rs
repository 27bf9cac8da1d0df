//! A stored run on a simulated machine, made again from its record alone, with a sink that asks for details.
//!
//! The same build makes the same run: the waits of the record occur again at the same instants, to the nanosecond. A
//! record of another version of the model is refused, since this version would make another run. A separate process
//! makes a run of the kernel's own code again, and its events come from a file ([`CodeEvents`]).

use crate::ask::cell::Cell;
use crate::ask::code::CodeImage;
use crate::make::exec::cast::{Both, cast};
use crate::make::exec::prepared::{Prepared, allowed, names, series};
use crate::make::exec::sim;
use crate::make::exec::simulated::observed;
use crate::stored::code_events::CodeEvents;
use crate::stored::same::check_same;
use schedlab_analyse::conserve::{
    Chance, Chances, IdleWhileWaiting, IdleWhileWaitingTimes, Stretches, Window, World,
};
use schedlab_analyse::explain;
use schedlab_analyse::explain::samples::{self, SampleTail, Samples, TailSource};
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{Backend, CpuSet, Error, Ns, Origin, Result, TaskId};
use schedlab_machine::Domains;
use schedlab_record::{ENGINE, MODEL, Observe, Record, Series, Wait};
use schedlab_sim::{Setup, SimReport, simulate};
use schedlab_trace::{Cast, Sink};
use schedlab_workload::Spec;
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The series of waits for a CPU, which the analyser records and not a program.
const RUN_DELAY: &str = "run_delay";

/// A stored run that can be made again.
pub struct Rerun<'a> {
    record: &'a Record,
    cell: Cell,
    names: Vec<TaskName>,
    allowed: Vec<Option<CpuSet>>,
    masks: Vec<CpuSet>,
    warmup: Ns,
    domains: Domains,
    cast: Cast,
    series: Vec<(String, Series)>,
    clock: Option<&'static AtomicU64>,
    /// The events of a run of the kernel's own code, once it is made.
    made: OnceCell<CodeEvents>,
}

/// The error for a run that was not simulated. A recorded schedule can be simulated, as another run.
fn not_simulated(from: &Origin) -> Error {
    if from.name() == Origin::RECORDING {
        return Error::machine("a recording can't be made again as it was").help(
            "'schedlab replay RUN --under KERNEL' simulates its schedule, and stores runs that can be",
        );
    }
    Error::machine(format!("a run of the {from} backend can't be made again as it was"))
        .help("only runs on simulated machines can: --backend sim or --backend code")
}

/// The workload in a record. A record of another version may have one that this build can't read.
///
/// # Errors
/// When it can't be read.
pub fn spec_of(record: &Record) -> Result<Spec> {
    Spec::from_json(&record.spec)
        .map_err(|e| Error::input(format!("the record's workload can't be read: {e}")))
}

impl<'a> Rerun<'a> {
    /// The run of a record.
    ///
    /// # Errors
    /// For a run of another backend or of another version of the simulator's model, when a record's workload can't be
    /// built, and when the code's image no longer exists.
    pub fn of(record: &'a Record) -> Result<Rerun<'a>> {
        let cell = cell_of(record)?;
        let release = cell.release().ok_or_else(|| Error::internal("a simulated run without a release"))?;
        let machine = cell.machine.with(&record.drawn)?;
        let Prepared { workload, .. } = Prepared::of(&cell, record.seed, &machine)?;
        let names = names(&cell, &machine, &workload);
        let end = workload.warmup.plus(record.found.duration);
        Ok(Rerun {
            record,
            cast: cast(&machine, &workload, &names, record.kernel.clone(), end),
            series: series(&workload)?,
            names,
            allowed: allowed(&cell, &machine, &workload),
            masks: workload.masks,
            warmup: workload.warmup,
            domains: Domains::build(&machine.topology, release),
            cell,
            clock: None,
            made: OnceCell::new(),
        })
    }
    /// Reports the run's progress to `clock`, simulated ns.
    #[must_use]
    pub fn clocked(mut self, clock: &'static AtomicU64) -> Rerun<'a> {
        self.clock = Some(clock);
        self
    }
    /// The length of its warm-up.
    pub fn warmup(&self) -> Ns {
        self.warmup
    }
    /// The length of the run, its warm-up included.
    pub fn length(&self) -> Ns {
        self.warmup.plus(self.record.found.duration)
    }

    /// The record with the reasons for decisions. For these a run of the kernel's own code is made again unless that
    /// has been done; `None`: `stop` ended it.
    ///
    /// # Errors
    /// When the run fails, and when its findings differ from the record's.
    pub fn explained(&self, stop: &AtomicBool) -> Result<Option<&Record>> {
        if self.cell.backend != Backend::Code {
            return Ok(Some(self.record));
        }
        if !self.is_ready(stop)? {
            return Ok(None);
        }
        Ok(self.made.get().map(|made| &made.record))
    }

    /// The tasks, and the frame of the run.
    pub fn cast(&self) -> Cast {
        self.cast.clone()
    }

    /// The idle CPUs and chances for the first `worst` of the record's waits, in their order; an element is `None` if
    /// the run made again lacks the wait. `None`: `stop` ended it.
    ///
    /// # Errors
    /// When the simulator finds a fault.
    pub fn chances(&self, worst: usize, stop: &AtomicBool) -> Result<Option<Vec<Option<Chance>>>> {
        let waits = self.record.found.waits.iter().take(worst);
        let window = |w: &Wait| {
            let at = self.names.iter().position(|n| n.name == w.task)?;
            Some(Window { task: TaskId::from(at), from: w.woken_at.0, until: w.woken_at.0 + w.length_ns })
        };
        let windows: Vec<Option<Window>> = waits.map(window).collect();
        let known: Vec<Window> = windows.iter().copied().flatten().collect();
        let Some(mut seen) = self.watch(&known, true, stop)?.map(Vec::into_iter) else { return Ok(None) };
        Ok(Some(windows.iter().map(|w| w.and_then(|_| seen.next().flatten())).collect()))
    }

    /// The tail of a series that the programs record, beyond `cut_ns`, with the `worst` longest samples; `metric` is
    /// its name for people. `None`: `stop` ended it.
    ///
    /// # Errors
    /// When the workload does not record the series, and when the simulator finds a fault.
    pub fn samples(
        &self,
        (series, metric): (&str, &str),
        cut_ns: u64,
        worst: usize,
        stop: &AtomicBool,
    ) -> Result<Option<SampleTail>> {
        let at = self.series.iter().position(|(name, _)| name == series);
        let watched = match at.and_then(|at| u16::try_from(at).ok()) {
            Some(number) => TailSource::Series(number),
            None if series == RUN_DELAY => {
                TailSource::RunDelay(self.names.iter().map(|name| !name.background).collect())
            }
            None => {
                let names = self.series.iter().map(|(name, _)| name.as_str());
                return Err(Error::unknown(
                    "series of times",
                    series,
                    names.chain([RUN_DELAY, "wakeup_delay"]),
                ));
            }
        };
        let longest_ns = self.record.found.series.get(series).and_then(Series::max).unwrap_or(0);
        let topology = &self.cell.machine.topology;
        let mut analyser =
            Analyser::new(topology.nr_cpus(), self.names.clone(), self.series.clone(), Ns::ZERO)
                .keeping(samples::KEPT_WAITS);
        let mut sink = Samples::of(watched, cut_ns, longest_ns, self.warmup);
        let Some(end) = self.simulate(&mut Both(&mut analyser, &mut sink), stop)? else { return Ok(None) };
        Ok(Some(sink.finish(explain::run_of(self.record), metric, analyser, end, worst)))
    }

    /// The stretches of the run in which CPUs were idle while tasks waited; the `longest` are listed with the attempts
    /// to end them. `None`: `stop` ended it.
    pub fn idle_while_waiting(&self, longest: usize, stop: &AtomicBool) -> Result<Option<IdleWhileWaiting>> {
        let Some(found) = self.stretches(longest, stop)? else { return Ok(None) };
        let windows: Vec<Window> = found.longest.iter().map(|s| s.window()).collect();
        let (Some(chances), Some(record)) = (self.watch(&windows, false, stop)?, self.explained(stop)?)
        else {
            return Ok(None);
        };
        Ok(Some(IdleWhileWaiting::of(record, &found, &self.names, chances)))
    }

    /// The stretches without the attempts.
    pub fn stretches(&self, longest: usize, stop: &AtomicBool) -> Result<Option<IdleWhileWaitingTimes>> {
        let mut sink = self.watching(longest);
        let end = self.simulate(&mut sink, stop)?;
        Ok(end.map(|end| sink.finish(end)))
    }

    /// The sink that finds the stretches.
    pub(crate) fn watching(&self, longest: usize) -> Stretches {
        let sink = Stretches::new(self.world(), self.domains.clone(), self.warmup, longest);
        if self.has_reasons() { sink } else { sink.without_reasons() }
    }

    /// Whether the run has reasons for the kernel's balancing.
    fn has_reasons(&self) -> bool {
        self.cell.backend == Backend::Sim
    }

    /// The chances for these waits; `None`: `stop` ended the run.
    fn watch(
        &self,
        windows: &[Window],
        run_at_end: bool,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Option<Chance>>>> {
        if windows.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let done = Arc::new(AtomicBool::new(false));
        if !self.is_ready(stop)? {
            return Ok(None);
        }
        let sink = Chances::new(self.world(), self.domains.clone(), windows, done.clone());
        let mut sink = if self.has_reasons() { sink } else { sink.without_reasons() };
        self.simulate(&mut Until { sink: &mut sink, done: &done, stop }, &done)?;
        Ok((!stop.load(Relaxed)).then(|| sink.finish(run_at_end)))
    }

    /// The tasks, by id.
    pub fn names(&self) -> &[TaskName] {
        &self.names
    }
    /// The record's longest waits.
    pub fn waits(&self) -> &[Wait] {
        &self.record.found.waits
    }
    /// CPUs of its machine.
    pub fn nr_cpus(&self) -> usize {
        self.cell.machine.topology.nr_cpus()
    }
    /// Its CPUs and tasks before the first event.
    fn world(&self) -> World {
        World::new(self.cell.machine.topology.nr_cpus(), self.allowed.clone(), self.masks.clone())
    }

    /// Makes the run and feeds it to a sink; returns its end, or `None` if `stop` ended it.
    ///
    /// # Errors
    /// When the simulator finds a fault; for the kernel's own code also when the findings of both runs differ.
    pub fn simulate<S: Sink>(&self, sink: &mut S, stop: &AtomicBool) -> Result<Option<Ns>> {
        if self.cell.backend == Backend::Code {
            return self.feed(sink, stop);
        }
        let report = self.report(sink, stop)?;
        Ok((!report.stopped).then_some(report.end))
    }

    /// As [`Rerun::simulate`], and checks that it is the record's run; false: `stop` ended it.
    ///
    /// # Errors
    /// When the simulator finds a fault, and when the findings of both runs differ. The sink has got all events by
    /// then.
    pub fn checked<S: Sink>(&self, sink: &mut S, stop: &AtomicBool) -> Result<bool> {
        if self.cell.backend == Backend::Code {
            return Ok(self.feed(sink, stop)?.is_some());
        }
        let topology = &self.cell.machine.topology;
        let (names, series) = (self.names.clone(), self.series.clone());
        let mut analyser = Analyser::new(topology.nr_cpus(), names, series, self.warmup)
            .on(topology)
            .in_groups(self.cast.tasks.iter().map(|task| task.group.as_deref()));
        let mut report = self.report(&mut Both(&mut analyser, sink), stop)?;
        if report.stopped {
            return Ok(false);
        }
        check_same(&self.record.found, &observed(analyser, &mut report)).map(|()| true)
    }

    /// Makes a run of the kernel's own code, if it is not made yet; false: `stop` ended it.
    fn is_ready(&self, stop: &AtomicBool) -> Result<bool> {
        if self.cell.backend != Backend::Code || self.made.get().is_some() {
            return Ok(true);
        }
        let Some(made) = CodeEvents::of(&self.cell, self.record, stop)? else { return Ok(false) };
        Ok(self.made.set(made).is_ok())
    }

    /// Gives the events of a run of the kernel's own code; returns its end, or `None` if `stop` ended it.
    fn feed<S: Sink>(&self, sink: &mut S, stop: &AtomicBool) -> Result<Option<Ns>> {
        if !self.is_ready(stop)? {
            return Ok(None);
        }
        self.made.get().map_or(Ok(None), |made| made.feed(sink, stop))
    }

    fn report<S: Sink>(&self, sink: &mut S, stop: &AtomicBool) -> Result<SimReport> {
        let machine = self.cell.machine.with(&self.record.drawn)?;
        let seed = self.record.seed;
        let prepared = Prepared::of(&self.cell, seed, &machine)?;
        let setup = Setup { clock: self.clock, ..sim::setup(prepared, &self.cell, seed, stop)? };
        simulate(setup, sink)
    }
}

/// The cell of a record's run.
fn cell_of(record: &Record) -> Result<Cell> {
    let (model, what) = match (record.backend.made_by(), record.resolved, &record.code) {
        (Some(Backend::Sim), Some(_), _) => (MODEL, "the simulator's model"),
        (Some(Backend::Code), _, Some(_)) => (ENGINE, "the engine that drives the kernel's code"),
        _ => return Err(not_simulated(&record.backend)),
    };
    if record.model != model {
        let text =
            format!("the run is of version {} of {what}, and this build has version {model}", record.model);
        return Err(Error::input(text).help("make the run anew: what it was can no longer be looked at"));
    }
    let is_code = record.backend == Backend::Code;
    let code = record.code.as_ref().filter(|_| is_code).map(CodeImage::kept).transpose()?;
    Ok(Cell {
        backend: if is_code { Backend::Code } else { Backend::Sim },
        uncertain: record.drawn.iter().filter(|_| is_code).map(|drawn| drawn.span.clone()).collect(),
        machine: Arc::new(record.machine.clone()),
        kernel: record.kernel.clone(),
        resolved: record.resolved,
        guest: None,
        code,
        variant: record.variant.clone(),
        spec: spec_of(record)?,
        load: record.load.clone(),
        observe: Observe::Accounts,
    })
}

/// Passes events on, and also ends the run when the user wants it.
struct Until<'a, S> {
    sink: &'a mut S,
    done: &'a AtomicBool,
    stop: &'a AtomicBool,
}

impl<S: Sink> Sink for Until<'_, S> {
    fn event(&mut self, event: &schedlab_trace::Event) {
        if self.stop.load(Relaxed) {
            self.done.store(true, Relaxed);
        }
        self.sink.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.sink.sample(at, task, series, value);
    }
    fn wants_details(&self) -> bool {
        self.sink.wants_details()
    }
}
