//! `schedlab replay`: predicts how another scheduler would have run a recorded schedule.

use super::explain::OneRun;
use crate::cli::Entry;
use crate::common::WindowOptions;
use crate::listener::Shown;
use crate::progress::Bar;
use crate::{cells, common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::temp::write_whole;
use schedlab_base::{Backend, CpuId, Error, ErrorKind, GuestMode, Ns, Result, TaskId, Version, Warning};
use schedlab_guest::Mode;
use schedlab_kernel::{Variant, profile};
use schedlab_lab::Lab;
use schedlab_lab::ask::cell::Cell;
use schedlab_lab::ask::code::{self, CodeImage};
use schedlab_lab::ask::guests;
use schedlab_lab::ask::variant_words;
use schedlab_lab::stored::events::Events;
use schedlab_lab::stored::replay::fit::{self, Fitted, Off, Recording, Worse};
use schedlab_machine::Machine;
use schedlab_record::{Record, Store};
use schedlab_trace::{Cast, Event, Sink};
use schedlab_workload::Spec;
use schedlab_workload::replay::{Prices, rtapp};
use schedlab_workload::spec::MAX_FILE_MB;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const ENTRY: Entry = Entry { command, run };

/// The default number of runs of each variant.
const RUNS: u64 = 5;
/// The backend of that name, which must replay.
fn replaying(name: &str) -> Result<Backend> {
    Backend::among(&[Backend::Sim, Backend::Code], "backend of a replay", name)
}

#[derive(Args)]
struct ReplayArgs {
    #[command(flatten)]
    recorded: OneRun,
    #[command(flatten)]
    window: WindowOptions,
    /// What replays it: sim (the simulator) or code (the scheduler's own code of kernels' sources, on a simulated
    /// machine)
    #[arg(long, value_name = "BACKEND", default_value = "sim", value_parser = output::word(replaying))]
    by: Backend,
    /// Machine of the replay: a preset, Ncpu, host or a file [default: the recorded one]
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    /// Kernel of the replay that is compared with the recording [default: the recorded one's profile, with --by
    /// code the source of its series]
    #[arg(long, value_name = "KERNEL")]
    as_kernel: Option<String>,
    /// Predict for this variant, in short form: v6.12, v6.5+SIS_FIRST_IDLE, NAME=KERNEL:CHANGE,...; may be given more
    /// than once
    #[arg(long = "under", value_name = "VARIANT")]
    under: Vec<String>,
    /// Runs of each variant
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Write the replay as an rt-app file
    #[arg(long, value_name = "FILE")]
    rtapp: Option<PathBuf>,
    /// Write the replay's schedule, for the key 'schedule' of an experiment's [workload]
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Form of the comparison: table, detail, lkml, markdown or csv
    #[arg(long, value_name = "FORM", default_value = "table", conflicts_with = "json")]
    format: String,
    /// The result as JSON (docs/formats.md)
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn command() -> Command {
    ReplayArgs::augment_args(Command::new("replay")).about(
        "Replay a recorded schedule on a simulated machine, under the recorded kernel and under others",
    )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ReplayArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let backend = args.by;
    let form = schedlab_report::form(common::form_of(args.json, &args.format)?)?;
    let under: Vec<Variant> = args
        .under
        .iter()
        .map(|text| variant_words::in_short(text))
        .collect::<Result<_>>()
        .map_err(|e| e.context("--under"))?;
    let one = args.recorded.find()?;
    let record = one.record()?;
    let events = Events::of(&one, &record)?.clocked(&common::SIMULATED);
    let mut events = events.moved_to(args.window.window()?)?;
    let there = recorded_machine(&record, &mut events)?;
    let by_code = backend == Backend::Code;
    let recorded = recorded_kernel(args.as_kernel.as_deref(), by_code, &record, events.cast())?;
    let recording = read(args.quiet, &mut events, &there)?;
    let machine = Arc::new(machine(&args, there)?);
    write_files(&args, &recording)?;
    let kernels: Vec<Variant> = std::iter::once(recorded).chain(under).collect();
    let kernels = Replaying::of(backend, kernels, &machine, args.quiet)?;
    let name = format!("{} replayed", record.workload);
    let cell = |spec| kernels.cell(0, spec);
    let fitted = fit::fit(&name, &recording, &cell, 1, interrupt::stop_flag()?)?
        .ok_or_else(|| interrupted("nothing was replayed"))?;
    let fidelity = Fidelity::of(&record, &recording, &fitted);
    print_fidelity(&args, !args.under.is_empty(), &fidelity)?;
    if args.under.is_empty() {
        return Ok(());
    }
    let count = kernels.variants.len();
    let cells = (0..count).map(|at| kernels.cell(at, fitted.spec.clone())).collect::<Result<Vec<_>>>()?;
    let store = Store::create(&args.recorded.choice.out)?;
    let backends = common::backends(None)?;
    let shown = Shown::new(args.quiet);
    let lab = Lab::here(&backends, &shown);
    let made = lab.compared_cells(cells, &store, (args.runs, 1), fidelity.warnings())?;
    cells::show(&made, &store, form, args.quiet)?;
    if args.format == "csv" {
        return output::result(|out| out.write_all(fidelity.csv().as_bytes()));
    }
    Ok(())
}

/// The kernels of a replay on its machine.
pub(super) struct Replaying {
    machine: Arc<Machine>,
    pub(super) variants: Vec<Variant>,
    /// Their images, where the kernel's own code replays.
    images: Option<Vec<CodeImage>>,
}

impl Replaying {
    pub(super) fn of(
        backend: Backend,
        variants: Vec<Variant>,
        machine: &Arc<Machine>,
        quiet: bool,
    ) -> Result<Replaying> {
        let all: Vec<&Variant> = variants.iter().collect();
        let images =
            (backend == Backend::Code).then(|| code::images_of(&all, Path::new(""), &Shown::new(quiet)));
        Ok(Replaying { machine: machine.clone(), images: images.transpose()?, variants })
    }
    pub(super) fn cell(&self, at: usize, spec: Spec) -> Result<Cell> {
        let (variant, load) = (self.variants[at].clone(), "replay".to_owned());
        match &self.images {
            Some(images) => Cell::of_code(&self.machine, images[at].clone(), variant, spec, load),
            None => Cell::simulated(&self.machine, variant, spec, load),
        }
    }
}

pub(super) fn interrupted(what: &str) -> Error {
    Error::new(ErrorKind::CheckFailed, format!("interrupted: {what}"))
}

/// Writes the files that were asked for. A schedule that is too long to be simulated is written, too.
fn write_files(args: &ReplayArgs, recording: &Recording) -> Result<()> {
    let text = recording.schedule.text();
    if let Some(path) = &args.schedule {
        write_whole(path, text.as_bytes())?;
    }
    if let Some(path) = &args.rtapp {
        write_whole(path, rtapp(&recording.schedule).as_bytes())?;
    }
    if text.len() as u64 > MAX_FILE_MB << 20 {
        let what = format!("the schedule is {} MB long, and {MAX_FILE_MB} are simulated", text.len() >> 20);
        return Err(Error::input(what).help("replay a part of it: --from TIME --for TIME"));
    }
    Ok(())
}

/// Prints how far the replay is from the recording. Forms for programs hold only the comparison; if there is one, the
/// error goes to standard error.
fn print_fidelity(args: &ReplayArgs, compares: bool, fidelity: &Fidelity<'_>) -> Result<()> {
    let for_people = !args.json && ["table", "detail", "lkml", "markdown"].contains(&args.format.as_str());
    if args.json && !compares {
        return output::json_as("schedlab/replay/1", fidelity);
    }
    if for_people || !compares {
        return output::result(|out| out.write_all(fidelity.text().as_bytes()));
    }
    output::note(&fidelity.text());
    Ok(())
}

/// The machine of the replay.
fn machine(args: &ReplayArgs, recorded: Machine) -> Result<Machine> {
    let mut machine = match &args.on {
        Some(name) => common::machine(name, None).map_err(|e| e.context("--on"))?,
        None => recorded,
    };
    // The recording already holds the recorded machine's own tasks.
    machine.background.clear();
    Ok(machine)
}

/// The machine that was recorded.
pub(super) fn recorded_machine(record: &Record, events: &mut Events<'_>) -> Result<Machine> {
    match &record.guest {
        // A recording shows which CPUs exist, but not how they are connected.
        _ if record.machine.topology.nr_cpus() == 0 => {
            common::machine(&format!("{}cpu", used(events)?.max(1)), None)
        }
        // This machine's costs come from its probe.
        _ if record.backend == Backend::Host => {
            let here = common::machine("host", None)?;
            Ok(if here.topology == record.machine.topology { here } else { record.machine.clone() })
        }
        // A deterministic guest's CPUs take turns.
        Some(guest) if guest.mode == GuestMode::Deterministic => {
            guests::twin_machine(&record.machine, Mode::Deterministic)
        }
        Some(_) | None => Ok(record.machine.clone()),
    }
}

/// The number of CPUs on which something happened. Numbers may have gaps: CPUs that are offline or were not recorded.
fn used(events: &mut Events<'_>) -> Result<usize> {
    let mut used = Used::default();
    events.feed(&mut used, interrupt::stop_flag()?)?;
    Ok(used.0.len())
}

#[derive(Default)]
struct Used(BTreeSet<CpuId>);

impl Sink for Used {
    fn event(&mut self, event: &Event) {
        self.0.insert(event.cpu);
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
}

/// The variant that stands for the recorded kernel.
pub(super) fn recorded_kernel(
    as_kernel: Option<&str>,
    by_code: bool,
    record: &Record,
    cast: &Cast,
) -> Result<Variant> {
    let name = "as recorded".to_owned();
    if let Some(kernel) = as_kernel {
        return Ok(Variant {
            name,
            ..variant_words::in_short(kernel).map_err(|e| e.context("--as-kernel"))?
        });
    }
    if record.backend == if by_code { Backend::Code } else { Backend::Sim } {
        return Ok(Variant { name, ..record.variant.clone() });
    }
    let release = if cast.release.is_empty() { &record.kernel } else { &cast.release };
    // A run of the kernel's own code has a version, v6.1.192.
    let release = release.trim_start_matches('v');
    let digits = release.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    let mut parts = digits.split('.');
    let series = [parts.next(), parts.next()].into_iter().flatten().collect::<Vec<_>>().join(".");
    let version = Version::parse(&format!("v{series}")).map_err(|_| {
        Error::input("the recording does not say which kernel ran").help("--as-kernel v6.1 names its profile")
    })?;
    let plain = match by_code {
        true => Variant::plain(&series),
        false => Variant::plain(&profile::nearest(version).to_string()),
    };
    let Variant { features, tunables, patch, .. } = record.variant.clone();
    Ok(Variant { name, features, tunables, patch, ..plain })
}

/// Reads the recorded events.
pub(super) fn read(quiet: bool, events: &mut Events<'_>, machine: &Machine) -> Result<Recording> {
    let bar = Bar::steps(quiet);
    bar.say("reading the recording".to_owned());
    let recording = fit::read(events, machine, interrupt::stop_flag()?);
    drop(bar);
    recording?.ok_or_else(|| interrupted("the recording was not read to its end"))
}

/// The replay under the recorded kernel, compared with the recording.
#[derive(Serialize)]
struct Fidelity<'a> {
    workload: &'a str,
    machine: &'a str,
    kernel: &'a str,
    tasks: usize,
    work: Ns,
    length: Ns,
    prices: Prices,
    metrics: Vec<Off>,
    worse: Vec<Worse>,
    /// The warnings of the recording and its schedule.
    #[serde(skip)]
    recorded: Vec<&'a Warning>,
}

impl<'a> Fidelity<'a> {
    fn of(record: &'a Record, recording: &'a Recording, fitted: &'a Fitted) -> Fidelity<'a> {
        let metrics = fit::errors(recording, &fitted.run);
        Fidelity {
            workload: &record.workload,
            recorded: record.found.warnings.iter().chain(&recording.warnings).collect(),
            machine: &fitted.run.machine.name,
            kernel: &fitted.run.kernel,
            tasks: recording.schedule.parts.len(),
            work: recording.schedule.work(),
            length: recording.schedule.length,
            prices: fitted.prices,
            worse: fit::worse(recording, fitted.prices, &metrics),
            metrics,
        }
    }

    /// Warnings about every prediction, for forms that have a place for warnings.
    fn warnings(&self) -> Vec<Warning> {
        let off = self.metrics.iter().filter_map(|o| Some(format!("{} {:+.1}%", o.metric, o.pct()?)));
        let off: Vec<String> = off.collect();
        let text =
            format!("the replay under the recorded kernel is off the recording by: {}", off.join(", "));
        let worse = self.worse.iter().map(|w| Warning::new("replay.worse", Fidelity::worse_line(w)));
        std::iter::once(Warning::new("replay.off", text)).chain(worse).chain(self.losses().cloned()).collect()
    }
    /// Losses and repairs of the recording, and deviations of its schedule from it.
    fn losses(&self) -> impl Iterator<Item = &Warning> {
        let is = |w: &Warning| ["recording.", "replay.", "trace.gaps"].iter().any(|c| w.code.starts_with(c));
        self.recorded.iter().copied().filter(move |w| is(w))
    }
    fn worse_line(w: &Worse) -> String {
        format!("{} is off by {:+.1}%, more than {}%: {}", w.what, w.off_pct, w.limit_pct, w.why)
    }
    /// The recording's own figures as further lines of the comparison's CSV.
    fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (machine, kernel, workload) = (quoted(self.machine), quoted(self.kernel), quoted(self.workload));
        let line = |o: &Off| {
            let head = format!("replay,recording,{machine},{kernel},{workload},replay,recorded,1");
            let tail = ",".repeat(9);
            format!("{head},{},{},,{},{tail}\r\n", o.metric, o.unit, o.recorded)
        };
        self.metrics.iter().map(line).collect()
    }

    fn text(&self) -> String {
        let Fidelity { workload, machine, kernel, tasks, work, length, prices, metrics, worse, .. } = self;
        let tasks = schedlab_base::counted(*tasks, "task");
        let mut text = format!(
            "{workload} replayed: {tasks}, {work} of computing in {length}, on {machine} under {kernel}\n\n{:<24}{:>12}{:>12}{:>9}\n",
            "", "recorded", "replayed", "off",
        );
        for off in metrics {
            let shown = |v: f64| schedlab_report::number::value(v, &off.unit);
            let pct = off.pct().map_or_else(String::new, |p| format!("{p:+.1}%"));
            let (recorded, replayed) = (shown(off.recorded), shown(off.replayed));
            let _ = writeln!(text, "{:<24}{recorded:>12}{replayed:>12}{pct:>9}", off.metric);
        }
        let _ = writeln!(
            text,
            "\nEach wakeup takes {} ns off a burst, each sleep {} ns: the machine adds its own.\nA prediction can be no better than this.",
            prices.wake_ns, prices.sleep_ns
        );
        for w in worse {
            let _ = writeln!(text, "note: {}", Fidelity::worse_line(w));
        }
        for w in self.losses() {
            let _ = writeln!(text, "warning: the recording: {}", w.message);
        }
        text
    }
}
