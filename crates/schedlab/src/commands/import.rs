//! `schedlab import`: a recording of another tool becomes a stored run.

use crate::cli::Entry;
use crate::common::WindowOptions;
use crate::recordings::{StoreOptions, TaskOptions, shown};
use crate::{common, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, counted, one_or};
use schedlab_import::hears::Hears;
use schedlab_import::to_run::{ChosenTasks, Labels, record};
use schedlab_import::{Form, Imported, Recording, read_part};
use schedlab_machine::Machine;
use schedlab_record::{Store, Stored};
use schedlab_report::run as one_run;
use schedlab_trace::Window;
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

/// The recording, and which of its tasks are of interest; other commands have them, too.
#[derive(Args)]
pub struct Source {
    /// The recording, packed or not; a folder for a trace of CTF; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Its form: ftrace, perf-script, babeltrace, trace-dat, perf-data, perfetto or ctf [default: as the file shows]
    #[arg(long, value_name = "FORM")]
    format: Option<String>,
    #[command(flatten)]
    tasks: TaskOptions,
    #[command(flatten)]
    window: WindowOptions,
}

impl Source {
    /// The recording.
    ///
    /// # Errors
    /// When the form is unknown.
    pub fn recording(&self) -> Result<Recording> {
        let named = self.format.as_deref().filter(|word| *word != "auto");
        let form = named.map(Form::parse).transpose().map_err(|e| e.context("--format"))?;
        Ok(Recording { path: self.file.clone(), form, kernel: None, hashed: false })
    }
    /// The part of the recording to import.
    ///
    /// # Errors
    /// When a time can't be read, or the part is empty.
    pub fn window(&self) -> Result<Window> {
        self.window.window()
    }
    pub fn chosen(&self) -> ChosenTasks {
        self.tasks.chosen()
    }
    /// The file's name without its ending.
    fn stem(&self) -> String {
        let stem = self.file.file_stem().filter(|_| self.file != Path::new("-"));
        let stem = stem.map(shown);
        stem.filter(|s| !s.trim().is_empty()).unwrap_or_else(|| "recording".to_owned())
    }
}

#[derive(Args)]
struct ImportArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    kept: StoreOptions,
    /// The release of the kernel, if the recording does not have it
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,
    /// The machine that was recorded, for metrics that need its topology
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
}

fn command() -> Command {
    let command = ImportArgs::augment_args(Command::new("import"));
    StoreOptions::with_defaults(command, "the file's name", "recording")
        .about("Make a run of a recording: ftrace text, perf script, perf.data, trace.dat, Perfetto or CTF")
        .after_help(
            "With --task or --pid the other tasks count as the machine's own. \
             'schedlab explain', 'compare' and 'runs' take the run as any other.",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ImportArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.kept.check()?;
    common::check_names(&[("--kernel", args.kernel.as_ref())])?;
    let store = Store::create(&args.kept.out)?;
    let machine =
        args.machine.as_deref().map(Machine::load).transpose().map_err(|e| e.context("--machine"))?;
    // A recording is stored once: its bytes make its seed.
    let recording = Recording { hashed: true, kernel: args.kernel.clone(), ..args.source.recording()? };
    let chosen = args.source.chosen();
    let mut hears = Hears::new(&args.kept.out, chosen.clone(), machine.as_ref())?;
    let mut imported = read_part(&recording, args.source.window()?, true, &mut hears)?;
    if let Some(machine) = &machine
        && imported.cast.cpus > machine.topology.nr_cpus()
    {
        let text = format!(
            "--machine: {} has {}, and the recording {}",
            machine.name,
            counted(machine.topology.nr_cpus(), "CPU"),
            imported.cast.cpus
        );
        return Err(Error::input(text).help("name the machine that was recorded, or none"));
    }
    let (found, events) = hears.finish(&mut imported);
    if !chosen.is_all() && imported.cast.tasks.iter().all(|t| t.background) {
        return Err(Error::input("the recording has none of the chosen tasks")
            .help("'schedlab latency FILE' lists its tasks; NAME* takes all names that begin so"));
    }
    let about = Labels {
        kernel: args.kernel.clone(),
        file: Some(shown(args.source.file.as_os_str())),
        ..args.kept.labels(args.source.stem(), None, machine)
    };
    let record = record(about, &chosen, &imported, found)?;
    let stored = events.stored(&store, &record, imported.cast.clone())?;
    show(&imported, &stored, &one_run::Run::of(&record), args.kept.json)
}

/// Prints the run, and what the recording lacks.
fn show(imported: &Imported, stored: &Stored, run: &one_run::Run, json: bool) -> Result<()> {
    let folder = stored.run().path.display().to_string();
    let was_there = matches!(stored, Stored::Kept(_));
    let lacks = imported.kinds.lacks();
    if json {
        let value = serde_json::json!({
            "folder": folder, "was_there": was_there, "events": imported.records, "other_events": imported.others,
            "cpus": imported.cast.cpus, "tasks": imported.cast.tasks.len(), "run": run,
            "lacks": lacks.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        });
        return output::json_as("schedlab/import/1", &value);
    }
    let place = match was_there {
        true => one_or(imported.records, "which was there already, in", "which were there already, in"),
        false => "stored in",
    };
    output::result(|out| {
        run.export(out)?;
        if !lacks.is_empty() {
            writeln!(out, "\nNot in the recording, and what cannot be said without it:")?;
        }
        for (name, what) in &lacks {
            writeln!(out, "  {name:<20}{what}")?;
        }
        writeln!(
            out,
            "\n{} of {} on {}, {place} {folder}",
            counted(imported.records, "event"),
            counted(imported.cast.tasks.len(), "task"),
            counted(imported.cast.cpus, "CPU"),
        )
    })
}
