//! `schedlab explain`: why the longest waits of a run were long, how the causes differ between two runs, and when a run
//! was not work-conserving.
//!
//! A run is named by its folder, by a cell's digits, or as an experiment, study or store with options that choose one
//! of its cells.

use super::explain_again;
use super::runs::Choice;
use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_analyse::conserve::idle_while_waiting_text;
use schedlab_analyse::explain::explain_beyond;
use schedlab_analyse::explain::samples::samples_text;
use schedlab_analyse::{explain_text, versus, versus_text};
use schedlab_base::{Error, Result};
use schedlab_import::lacks::{HOW_TO_RECORD, LACKS_WAKEUPS};
use schedlab_lab::stored::named::{RunChoice, beside};
use schedlab_record::{Record, RunDir, Stat};

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
    /// The time in which some task waited while a CPU that it may use was idle, by cause; of runs on
    /// simulated machines, which are made again for it
    #[arg(long, conflicts_with_all = ["vs", "stored"])]
    idle_while_waiting: bool,
    /// Show only what is stored: don't simulate the run again to see which CPUs were idle during the longest waits
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
        let explanation = match record.backend.is_simulated() && !args.stored {
            true => explain_again::explanation(&record, stat, args.worst)?,
            false => explain_beyond(&record, stat, args.worst),
        };
        if args.json {
            return output::json_as("schedlab/explanation/1", &explanation);
        }
        return output::result(|out| out.write_all(explain_text(&explanation).as_bytes()));
    };
    let other = record_with_waits(
        &beside(&wanted, &args.one.source, &one, &record, other).map_err(|e| e.context("--vs"))?,
    )?;
    let both = versus(&explain_again::with_reasons(record)?, &explain_again::with_reasons(other)?);
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

/// Whether a statistic cuts off a tail.
fn is_tail(stat: &str) -> bool {
    Stat::parse(stat).is_some_and(|stat| !matches!(stat, Stat::Count | Stat::Min))
}

/// The record of a run, if it knows why its waits were long.
fn record_with_waits(run: &RunDir) -> Result<Record> {
    let record = run.record()?;
    if record.backend.is_simulated() || !record.found.waits.is_empty() {
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
