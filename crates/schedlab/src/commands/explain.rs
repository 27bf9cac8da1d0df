//! `schedlab explain`: why the longest waits of a run were long, how the causes differ between two runs, and when a run
//! was not work-conserving.
//!
//! A run is named by its folder, by a cell's digits, or as an experiment, study or store with options that choose one
//! of its cells.

use super::explain_again;
use super::named::like_a_run;
use super::runs::Choice;
use crate::cli::Entry;
use crate::{output, studies};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_compare::runs::{self, CellSubject, Filter, ListedCell};
use schedlab_import::lacks::{HOW_TO_RECORD, LACKS_WAKEUPS};
use schedlab_lab::{Backend, Experiment, Options, experiment, plan};
use schedlab_record::conserve::idle_while_waiting_text;
use schedlab_record::explain::explain_beyond;
use schedlab_record::explain::samples::samples_text;
use schedlab_record::store::RECORD_FILE;
use schedlab_record::store_listing::is_cell;
use schedlab_record::{Record, RunDir, Stat, explain_text, store, versus, versus_text};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

/// The options that choose one stored run.
#[derive(Args)]
pub(super) struct OneRun {
    /// A run's folder, the record.json in it, or a cell's first digits; or an experiment's file, a study or a store,
    /// with --load and --variant to choose one of its cells
    #[arg(value_name = "RUN|EXPERIMENT")]
    pub(super) source: String,
    #[command(flatten)]
    pub(super) choice: Choice,
    /// The run of this seed [default: the first that is stored]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl OneRun {
    /// The choice, for the name of a run.
    pub(super) fn wanted(&self) -> RunChoice<'_> {
        RunChoice { store: &self.choice.out, filter: self.choice.filter(), seed: self.seed }
    }
    /// The run.
    ///
    /// # Errors
    /// When no run matches, or several do.
    pub(super) fn find(&self) -> Result<RunDir> {
        self.wanted().find(&self.source)
    }
}

#[derive(Args)]
struct ExplainArgs {
    #[command(flatten)]
    one: OneRun,
    /// Compare with this run, named in the same ways, or with this variant of the same load: causes side by side
    #[arg(long, value_name = "RUN|VARIANT")]
    vs: Option<String>,
    /// Explain the tail of this metric instead: of wakeup_delay or run_delay, or of a time that the workload's programs
    /// record; beyond p99 unless the name has another statistic (wakeup_delay.p99.9, schbench.latency.max)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["vs", "idle_while_waiting"])]
    metric: Option<String>,
    /// How many of the longest waits, or stretches, are shown
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "vs")]
    worst: usize,
    /// The time in which some task waited while a CPU that it may use was idle, by cause; of simulated runs, which are
    /// simulated again for it
    #[arg(long, conflicts_with_all = ["vs", "stored"])]
    idle_while_waiting: bool,
    /// Tell only what is stored: don't simulate the run again to see which CPUs were idle during the longest waits
    #[arg(long, conflicts_with = "vs")]
    stored: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    ExplainArgs::augment_args(Command::new("explain"))
        .about("Explain why the longest waits of a run were long, or when CPUs were idle while tasks waited")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ExplainArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let wanted = args.one.wanted();
    let one = wanted.find(&args.one.source)?;
    if args.idle_while_waiting {
        let found = explain_again::idle_while_waiting(&one.record()?, args.worst)?;
        if args.json {
            return output::json_as("schedlab/idle-while-waiting/1", &found);
        }
        return output::result(|out| out.write_all(idle_while_waiting_text(&found).as_bytes()));
    }
    let (series, stat) = args.metric.as_deref().map_or((WAITS, TAIL), split);
    if series != WAITS {
        if !is_tail(stat) {
            return Err(Error::input(format!("--metric: nothing lies beyond {series}.{stat}"))
                .help("name a percentile or max"));
        }
        let tail = explain_again::samples(&one.record()?, (series, stat), args.worst)?;
        if args.json {
            return output::json_as("schedlab/explanation-of-samples/1", &tail);
        }
        return output::result(|out| out.write_all(samples_text(&tail).as_bytes()));
    }
    if !is_tail(stat) {
        return Err(Error::input(format!("--metric: nothing lies beyond {WAITS}.{stat}"))
            .help("name a percentile, the mean or max: wakeup_delay.p99.9"));
    }
    let record = record_with_waits(&one)?;
    let Some(other) = &args.vs else {
        let mut explanation = explain_beyond(&record, stat, args.worst);
        if record.backend == Backend::Sim && !args.stored {
            explain_again::add_idle_cpus(&record, &mut explanation)?;
        }
        if args.json {
            return output::json_as("schedlab/explanation/1", &explanation);
        }
        return output::result(|out| out.write_all(explain_text(&explanation).as_bytes()));
    };
    let other = record_with_waits(
        &beside(&wanted, &args.one.source, &one, &record, other).map_err(|e| e.context("--vs"))?,
    )?;
    let both = versus(&record, &other);
    if args.json {
        return output::json_as("schedlab/explanations/1", &both);
    }
    output::result(|out| out.write_all(versus_text(&both).as_bytes()))
}

/// The series of the waits that records keep, and the statistic that cuts off its tail.
const WAITS: &str = "wakeup_delay";
const TAIL: &str = "p99";

/// A metric's series and its statistic, p99 if it names none.
fn split(metric: &str) -> (&str, &str) {
    let dots = metric.match_indices('.').map(|(at, _)| at);
    let found =
        dots.map(|at| (&metric[..at], &metric[at + 1..])).find(|(_, stat)| Stat::parse(stat).is_some());
    found.unwrap_or((metric, TAIL))
}

/// Whether something lies beyond a statistic.
fn is_tail(stat: &str) -> bool {
    Stat::parse(stat).is_some_and(|stat| !matches!(stat, Stat::Count | Stat::Min))
}

/// The record of a run, if it knows why its waits were long.
fn record_with_waits(run: &RunDir) -> Result<Record> {
    let record = run.record()?;
    if record.backend == Backend::Sim || !record.found.waits.is_empty() {
        return Ok(record);
    }
    if record.backend.made_by().is_some() {
        let text = format!("this {} run does not know why its waits were long", record.backend);
        return Err(Error::machine(text)
            .help("record its events (--events), or run it with --backend sim, which knows all reasons"));
    }
    let lacks_wakeups = record.found.warnings.iter().any(|w| w.code == LACKS_WAKEUPS);
    Err(match lacks_wakeups {
        true => Error::input("the recording has no wakeups: it does not say how long tasks waited for a CPU")
            .help(format!("{HOW_TO_RECORD}; then import that")),
        false => Error::input("no task of the recording waited for a CPU: there is nothing to explain"),
    })
}

/// The error for a path that is not a run: that it is a recording, if it is one.
pub(super) fn unless_recording(path: &Path, e: Error) -> Error {
    schedlab_import::form_at(path).map_or(e, |form| schedlab_import::not_a_run(path, form))
}

/// The choice of a run among many.
#[derive(Clone)]
pub(super) struct RunChoice<'a> {
    /// Where the runs of experiments are stored.
    pub(super) store: &'a Path,
    /// Which of their cells.
    pub(super) filter: Filter,
    /// Which run; `None`: the first.
    pub(super) seed: Option<u64>,
}

impl RunChoice<'_> {
    /// The run that a name means.
    pub(super) fn find(&self, name: &str) -> Result<RunDir> {
        let path = Path::new(name);
        if path.is_dir() {
            return self.in_folder(path);
        }
        if let Some(experiment) = experiment_of(name)? {
            return self.of_experiment(&experiment);
        }
        if path.exists() {
            // A record's file stands for its folder. For another file the record's reader makes the error.
            let folder = path.parent().filter(|_| path.file_name().is_some_and(|n| n == RECORD_FILE));
            return match folder {
                Some(folder) => self.only(RunDir { path: folder.to_owned() }),
                None => {
                    let read = store::load(path).map_err(|e| unless_recording(path, e));
                    read.map(|_| RunDir { path: path.to_owned() })
                }
            };
        }
        let cells = runs::list(self.store).unwrap_or_default();
        match runs::find(&cells, name) {
            Ok(chosen) => {
                if let (Some(named), Some(asked)) = (chosen.seed, self.seed)
                    && named != asked
                {
                    return Err(Error::input(format!("{name} is the run of seed {named}, and --seed is {asked}"))
                        .help("leave one of them out"));
                }
                let wanted = RunChoice { seed: self.seed.or(chosen.seed), ..self.clone() };
                wanted.among(vec![chosen.cell], name)
            }
            // For a name that looks like a cell or a run, the store's error is the better one.
            Err(e) if !cells.is_empty() && like_a_run(name) => Err(e),
            Err(_) => Err(Error::input(format!("can't read {name}: there is no such run, cell or study"))
                .help("name a run's folder, ROOT/<cell>/<seed>, a cell that 'schedlab runs' lists, or an experiment's file")),
        }
    }

    /// The run, unless options choose among several: a single run leaves nothing to choose.
    fn only(&self, run: RunDir) -> Result<RunDir> {
        if self.filter.is_empty() && self.seed.is_none() {
            return Ok(run);
        }
        Err(Error::input(format!("{} is one run already", run.path.display()))
            .help("--load, --variant, --seed and the like choose among the runs of an experiment or a store"))
    }

    fn in_folder(&self, path: &Path) -> Result<RunDir> {
        if path.join(RECORD_FILE).is_file() {
            return self.only(RunDir { path: path.to_owned() });
        }
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = whole.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let cells = match whole.parent().filter(|_| is_cell(&name)) {
            Some(store) => {
                // Messages name the folder as the user did, except for `.`, which has no name.
                let named = path.parent().filter(|p| !p.as_os_str().is_empty() && path.ends_with(&name));
                runs::list(named.unwrap_or(store))?.into_iter().filter(|c| c.held.name == name).collect()
            }
            None => runs::list(path)?,
        };
        if cells.is_empty() {
            // The reader's error says that this is not a run.
            let read = store::load(path).map_err(|e| unless_recording(path, e));
            return read.map(|_| RunDir { path: path.to_owned() });
        }
        self.among(cells, &path.display().to_string())
    }

    /// The run of an experiment.
    fn of_experiment(&self, e: &Experiment) -> Result<RunDir> {
        self.among(self.cells_of(e)?, &e.name)
    }

    /// The stored cells of an experiment: the simulated ones that it would find, and the real ones that it made.
    pub(super) fn cells_of(&self, e: &Experiment) -> Result<Vec<ListedCell>> {
        let planned = plan(e, Backend::Sim, Options::default()).map(|p| p.cells).unwrap_or_default();
        let names = planned.iter().map(|c| c.hash()).collect::<Result<Vec<_>>>()?;
        let args = |c: &ListedCell| {
            let made =
                c.experiments.contains(&e.name) && c.of.as_ref().is_some_and(|of| of.backend != Backend::Sim);
            names.contains(&c.held.name) || made
        };
        let none = || {
            let again = if studies::STUDIES.iter().any(|(name, text)| *name == e.name && *text == e.text) {
                format!("schedlab study {}", e.name)
            } else {
                format!("schedlab run {}", e.file.display())
            };
            Error::input(format!("no run of {} is stored in {}", e.name, self.store.display()))
                .help(format!("'{again}' makes them; --out names another store"))
        };
        let cells = runs::list(self.store).map_err(|_| none())?;
        let cells: Vec<ListedCell> = cells.into_iter().filter(args).collect();
        if cells.is_empty() { Err(none()) } else { Ok(cells) }
    }

    /// The run of the one cell that is left.
    fn among(&self, cells: Vec<ListedCell>, of: &str) -> Result<RunDir> {
        let mut left = self.filter.choose(cells)?;
        // Cells that this version would find again go before those it would not.
        if left.iter().any(|c| c.outdated.is_none()) {
            left.retain(|c| c.outdated.is_none());
        }
        match &left[..] {
            [] => Err(Error::input(format!("{of} has no run with all of that"))
                .help("'schedlab runs' lists the stored cells")),
            [cell] => self.run_of(cell),
            several => Err(ambiguous(of, several)),
        }
    }

    fn run_of(&self, cell: &ListedCell) -> Result<RunDir> {
        let run = match self.seed {
            Some(seed) => cell.run(seed),
            None => cell.held.runs.first(),
        };
        let run = run.ok_or_else(|| {
            let what = self.seed.map_or_else(|| "finished run".to_owned(), |s| format!("run of seed {s}"));
            Error::input(format!("{} has no {what}", cell.folder))
                .help(format!("its seeds: {}", runs::seeds(&cell.seeds)))
        })?;
        Ok(run.run.clone())
    }
}

/// The experiment that a name means: a file's or a study's; `None` for the name of anything else.
pub(super) fn experiment_of(name: &str) -> Result<Option<Experiment>> {
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(None);
    }
    if path.extension().is_some_and(|e| e == "toml") {
        return experiment::load(path).map(Some);
    }
    let is_study = !path.exists() && studies::STUDIES.iter().any(|(study, _)| *study == name);
    if is_study { studies::find(name).map(Some) } else { Ok(None) }
}

/// Takes one word of a cell's identity.
type Word = fn(&CellSubject) -> &str;

/// The error for several cells: it lists the options that distinguish them.
fn ambiguous(of: &str, cells: &[ListedCell]) -> Error {
    let all: Vec<&CellSubject> = cells.iter().filter_map(|c| c.of.as_ref()).collect();
    let words: [(&str, Word); 5] = [
        ("workload", |o| &o.workload),
        ("backend", |o| o.backend.name()),
        ("machine", |o| &o.machine),
        ("load", |o| &o.load),
        ("variant", |o| &o.variant),
    ];
    let mut options = Vec::new();
    for (name, get) in words {
        let mut values: Vec<&str> = Vec::new();
        all.iter().map(|o| get(o)).for_each(|v| {
            if !values.contains(&v) {
                values.push(v);
            }
        });
        if values.len() > 1 {
            options.push(format!("--{name} {}", values.join("|")));
        }
    }
    let help = if options.is_empty() {
        "name one by its first digits: 'schedlab runs' lists them".to_owned()
    } else {
        options.join("  ")
    };
    Error::input(format!("{of} has {} cells, and this takes one", cells.len())).help(help)
}

/// The run to compare with: another one by its name, or the same load and seed under another variant. Where
/// the first run is of an experiment, the variant is the experiment's as it is now; an edited experiment may
/// have older cells beside it.
pub(super) fn beside(
    wanted: &RunChoice<'_>,
    source: &str,
    one: &RunDir,
    record: &Record,
    name: &str,
) -> Result<RunDir> {
    let plain = RunChoice { store: wanted.store, filter: Filter::default(), seed: None };
    if Path::new(name).exists() {
        // In a store or an experiment the options choose a run; a single run needs no choice.
        let whole = Path::new(name).join(RECORD_FILE).is_file() || Path::new(name).is_file();
        return if whole { plain.find(name) } else { wanted.find(name) };
    }
    // Inside a cell's folder a run may be named `1`; then only its absolute path leads to the store.
    let whole = one.path.canonicalize().unwrap_or_else(|_| one.path.clone());
    let root = whole.parent().and_then(Path::parent).map(PathBuf::from);
    let root = root.filter(|r| !r.as_os_str().is_empty()).unwrap_or_else(|| ".".into());
    let cells = runs::list(&root)?;
    let alike = |c: &&ListedCell| {
        c.of.as_ref().is_some_and(|o| {
            (&o.workload, &o.load, &o.machine, &o.backend)
                == (&record.workload, &record.load, &record.machine.name, &record.backend)
        })
    };
    let of_experiment = match experiment_of(source)? {
        Some(e) => wanted.cells_of(&e)?,
        None => Vec::new(),
    };
    for cells in [&of_experiment, &cells] {
        let is_named = |c: &&ListedCell| c.of.as_ref().is_some_and(|o| o.variant == name);
        let named: Vec<ListedCell> = cells.iter().filter(alike).filter(is_named).cloned().collect();
        if !named.is_empty() {
            return RunChoice { seed: Some(record.seed), ..plain }.among(named, name);
        }
    }
    let alike: Vec<ListedCell> = cells.iter().filter(alike).cloned().collect();
    plain.find(name).map_err(|e| {
        let variants: Vec<&str> =
            alike.iter().filter_map(|c| Some(c.of.as_ref()?.variant.as_str())).collect();
        match schedlab_base::nearest::nearest(name, variants.iter().copied()) {
            Some(_) => Error::unknown("variant", name, variants),
            None => e,
        }
    })
}
