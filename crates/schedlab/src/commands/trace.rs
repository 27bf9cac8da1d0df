//! `schedlab trace`: the events of a stored run as a file that other tools show: a Perfetto trace, a CTF trace, or
//! ftrace text.
//!
//! The events are those kept with the record. A simulated run without kept events is made again; the file is put in its
//! place only if that run equals the stored one.

use super::explain::OneRun;
use crate::cli::Entry;
use crate::common::WindowOptions;
use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use schedlab_analyse::explain;
use schedlab_base::temp::{TempFile, TempFolder};
use schedlab_base::{Backend, Error, ErrorKind, Result};
use schedlab_lab::stored::events::Events;
use schedlab_lab::stored::named::beside;
use schedlab_record::{Record, RunDir};
use schedlab_trace::ctf::Ctf;
use schedlab_trace::perfetto::{Perfetto, Run, Side};
use schedlab_trace::text::Text;
use schedlab_trace::{CounterKind, Counters, Sink};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct TraceArgs {
    #[command(flatten)]
    one: OneRun,
    #[command(flatten)]
    window: WindowOptions,
    /// Put this run below, named in the same ways, or this variant of the same load; of Perfetto traces
    #[arg(long, value_name = "RUN|VARIANT")]
    vs: Option<String>,
    /// The file that is written, for CTF a new folder; - for standard output [default: a name made of workload, load,
    /// variant and seed]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// perfetto: a trace for ui.perfetto.dev; ctf: a folder for babeltrace2 and viewers of LTTng's traces; text: ftrace
    /// text, as tracefs and trace-cmd report have it
    #[arg(long, value_name = "FORM", value_enum, default_value = "perfetto")]
    format: Form,
    /// Also why CPUs began no pass of the balancer, and what ticks decided about tickless CPUs; of runs that our
    /// rules simulate, which are made again for it. The kernel's own code says neither: its runs are made again with
    /// our rules' reasons
    #[arg(long)]
    details: bool,
    /// Tracks of these counters, with commas between them: load, of each CPU; vruntime (CFS), lag (EEVDF) and what is
    /// left of the slice, of each task; of Perfetto traces of runs that our rules simulate, which are made again
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    counters: Vec<CounterTrack>,
    /// Only what a kernel's own tracepoints say: no reasons; of texts and CTF
    #[arg(long)]
    plain: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Perfetto,
    Ctf,
    Text,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CounterTrack {
    Load,
    Vruntime,
    Lag,
    Slice,
}

impl CounterTrack {
    fn kind(self) -> CounterKind {
        match self {
            CounterTrack::Load => CounterKind::Load,
            CounterTrack::Vruntime => CounterKind::Vruntime,
            CounterTrack::Lag => CounterKind::Lag,
            CounterTrack::Slice => CounterKind::Slice,
        }
    }
}

impl Form {
    fn ending(self) -> &'static str {
        match self {
            Form::Perfetto => "pftrace",
            Form::Ctf => "ctf",
            Form::Text => "trace.txt",
        }
    }
}

fn command() -> Command {
    TraceArgs::augment_args(Command::new("trace")).about(
        "Write a run's events as a Perfetto trace, a CTF trace or ftrace text, for other tools to show",
    )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = TraceArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.check()?;
    let wanted = args.one.wanted();
    let one = wanted.find(&args.one.source)?;
    let record = one.record()?;
    let other = args.vs.as_ref().map(|name| {
        let run = beside(&wanted, &args.one.source, &one, &record, name).map_err(|e| e.context("--vs"))?;
        let record = run.record().map_err(|e| e.context("--vs"))?;
        Ok::<(RunDir, Record), Error>((run, record))
    });
    let other = other.transpose()?;
    let mut first = events(&args, &one, &record)?;
    let mut second = other.as_ref().map(|(run, record)| events(&args, run, record)).transpose()?;
    let mut of = Of { args: &args, record: &record, other: other.as_ref().map(|(_, r)| r) };
    let path = match &args.output {
        Some(path) if path == Path::new("-") => {
            if args.format == Form::Text {
                return of.write(output::shown(), &mut first, None);
            }
            let out = std::io::stdout().lock();
            return of.write(out, &mut first, second.as_mut());
        }
        Some(path) => path.clone(),
        None => default_name(&record, of.other, args.format),
    };
    let again = first.are_simulated();
    if args.format == Form::Ctf {
        of.write_folder(&path, &mut first)?;
    } else {
        let file = TempFile::create(&path)?;
        let clone = file.file.try_clone().map_err(|e| Error::io(&path, "write", &e))?;
        of.write(clone, &mut first, second.as_mut())?;
        file.put()?;
    }
    if !args.quiet {
        print_place(&args, &path);
        let mut records = std::iter::once(&record).chain(of.other);
        let missing = records.find_map(explain::reasons_missing).filter(|_| !args.plain && !again);
        missing.iter().for_each(|text| output::note(text));
        let mut records = std::iter::once(&record).chain(of.other);
        if args.details && records.any(|r| r.backend == Backend::Code) {
            output::note(
                "--details: the kernel's own code does not say why it began no pass of the balancer",
            );
        }
    }
    Ok(())
}

impl TraceArgs {
    /// Refuses options that do not go together.
    fn check(&self) -> Result<()> {
        let perfetto = self.format == Form::Perfetto;
        if !perfetto && self.vs.is_some() {
            return Err(Error::input("--vs: only a Perfetto trace has two runs")
                .help("leave --format out to set two above each other"));
        }
        if !perfetto && !self.counters.is_empty() {
            return Err(Error::input("--counters is for Perfetto traces").help("leave --format out"));
        }
        if perfetto && self.plain {
            return Err(
                Error::input("--plain is for texts and CTF").help("add --format text or --format ctf")
            );
        }
        if self.format == Form::Ctf && self.output.as_deref() == Some(Path::new("-")) {
            return Err(Error::input("-o -: a CTF trace is a folder").help("name one that is not there yet"));
        }
        Ok(())
    }
    fn counters(&self) -> Counters {
        self.counters.iter().fold(Counters::NONE, |set, counted| set.and(counted.kind()))
    }
}

/// Says where the file is, and which tools show it.
fn print_place(args: &TraceArgs, path: &Path) {
    let size_of = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let bytes = match args.format {
        Form::Ctf => {
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| size_of(&e.path())).sum()
        }
        _ => size_of(path),
    };
    let size = match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    };
    let shown = match args.format {
        Form::Perfetto => "open it in ui.perfetto.dev",
        Form::Ctf => "babeltrace2 and viewers of LTTng's traces read it",
        Form::Text => "it is ftrace text",
    };
    output::note(&format!("{} ({size}): {shown}", path.display()));
}

fn events<'a>(args: &TraceArgs, run: &RunDir, record: &'a Record) -> Result<Events<'a>> {
    if record.backend == Backend::Code && args.counters().any() {
        return Err(Error::input("--counters: the kernel's own code does not count them, only our rules do")
            .help("leave it out, or run it with --backend sim"));
    }
    let made_again = args.details || args.counters().any();
    let events = if made_again { Events::simulated(record) } else { Events::of(run, record) };
    events?.clocked(&common::SIMULATED).within(args.window.window()?)
}

fn default_name(record: &Record, other: Option<&Record>, form: Form) -> PathBuf {
    let mut name = format!("{}-{}-{}", record.workload, record.load, record.variant.name);
    if let Some(other) = other {
        name += &format!("-vs-{}", other.variant.name);
    }
    let name: String =
        name.chars().map(|c| if c.is_alphanumeric() || "-_.+".contains(c) { c } else { '-' }).collect();
    PathBuf::from(format!("{name}-{}.{}", record.seed, form.ending()))
}

/// The runs to write.
struct Of<'a> {
    args: &'a TraceArgs,
    record: &'a Record,
    other: Option<&'a Record>,
}

impl Of<'_> {
    fn write<W: Write>(
        &mut self,
        out: W,
        first: &mut Events<'_>,
        second: Option<&mut Events<'_>>,
    ) -> Result<()> {
        let cast = first.cast().clone();
        if self.args.format == Form::Text {
            let mut text = Text::new(out, &cast);
            if self.args.plain {
                text = text.without_marks();
            }
            if self.args.details {
                text = text.detailed();
            }
            self.feed(first, &mut text)?;
            return written(text.finish());
        }
        let below = second.as_ref().map(|second| second.cast().clone());
        let casts: Vec<_> = [Some(&cast), below.as_ref()].into_iter().flatten().collect();
        if casts.iter().map(|c| c.cpus).sum::<usize>() > schedlab_trace::perfetto::MOST_CPUS {
            return Err(Error::input(format!(
                "a Perfetto trace has no room for more than {} CPUs",
                schedlab_trace::perfetto::MOST_CPUS
            )));
        }
        let mut file = Perfetto::new(BufWriter::with_capacity(1 << 18, out), &casts);
        let label = |letter: &str| if self.other.is_some() { format!("{letter}: ") } else { String::new() };
        let side = Side { label: label("A"), processes: processes(self.record, &cast), ..Side::default() };
        self.perfetto(&mut file, side, first)?;
        if let (Some(second), Some(below), Some(record)) = (second, &below, self.other) {
            let side = Side { label: label("B"), processes: processes(record, below), ..Side::behind(&cast) };
            self.perfetto(&mut file, side, second)?;
        }
        written(file.finish())
    }

    /// Writes a folder, which gets its name once it is complete.
    fn write_folder(&self, path: &Path, events: &mut Events<'_>) -> Result<()> {
        if path.exists() {
            return Err(Error::input(format!("{} is there already", path.display()))
                .help("a CTF trace is a new folder: remove it, or name another with -o"));
        }
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let folder = TempFolder::create(parent, ".schedlab-ctf-", 0o777)?;
        let cast = events.cast().clone();
        let mut ctf = Ctf::new(&folder.path, &cast);
        if self.args.plain {
            ctf = ctf.without_marks();
        }
        if self.args.details {
            ctf = ctf.detailed();
        }
        self.feed(events, &mut ctf)?;
        written(ctf.finish())?;
        folder.rename_to(path).map_err(|e| Error::io(path, "make the folder", &e))
    }

    fn perfetto<W: Write>(&self, file: &mut Perfetto<W>, side: Side, events: &mut Events<'_>) -> Result<()> {
        let cast = events.cast().clone();
        let mut run = Run::new(file, &cast, side, events.measured_from()).counting(self.args.counters());
        if self.args.details {
            run = run.detailed();
        }
        self.feed(events, &mut run)?;
        run.finish();
        Ok(())
    }

    fn feed<S: Sink>(&self, events: &mut Events<'_>, sink: &mut S) -> Result<()> {
        let bar = events.are_simulated().then(|| {
            let bar = Bar::simulated(self.args.quiet, events.cast().end, &common::SIMULATED);
            bar.say("the run is made again".to_owned());
            bar
        });
        let whole = events.feed(sink, interrupt::stop_flag()?)?;
        drop(bar);
        if whole {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::CheckFailed, "interrupted: nothing is written"))
        }
    }
}

/// The result of writing a file; a reader that has gone (`| head`) is not an error.
fn written<W>(ended: std::io::Result<W>) -> Result<()> {
    match ended {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::machine(format!("can't write the trace: {e}")))
        }
        _ => Ok(()),
    }
}

/// The names of processes that several tasks share, which are the workload's. All other processes, also those of a
/// recording, have the names of their threads.
fn processes(record: &Record, cast: &schedlab_trace::Cast) -> BTreeMap<u32, String> {
    if record.backend.made_by().is_none() {
        return BTreeMap::new();
    }
    let args: Vec<u32> = cast.tasks.iter().filter(|a| !a.background).map(|a| a.process).collect();
    let first = args.iter().copied().find(|p| *p != 0);
    let shared = first.filter(|first| args.iter().filter(|p| *p == first).count() > 1);
    let name = format!("{} ({})", record.workload, record.variant.name);
    shared.map(|process| (process, name)).into_iter().collect()
}
