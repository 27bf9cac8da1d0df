//! `schedlab report`: a page for a browser of stored runs: comparison, curves, reasons, cores over time.

use super::explain::{Wanted, experiment_of};
use super::runs::Choice;
use crate::cli::Entry;
use crate::commands::doctor::stored_floors;
use crate::output;
use crate::reporting::{self, Asked, Subject};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, temp};
use schedlab_lab::runs::{self, Filter, ListedCell};
use schedlab_lab::{Experiment, Question};
use schedlab_record::{RunDir, store};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// Stores, folders of cells or runs, first digits of cells, or one experiment's file or study
    #[arg(value_name = "RUNS", required = true)]
    sources: Vec<String>,
    /// The page
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "report.html")]
    page: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// The variant that all others are compared with [default: the experiment's, or the first of each load]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// A metric to compare; may be given more than once [default: the experiment's, or the workload's own first ones]
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Smallest change that counts, percent
    #[arg(long, value_name = "PERCENT")]
    min_effect: Option<f64>,
    /// Show the CPUs of this variant over time; may be given twice [default: the baseline, and the variant that changed
    /// most]
    #[arg(long, value_name = "VARIANT", conflicts_with = "no_strips")]
    strips: Vec<String>,
    /// Show no CPUs over time: no run is simulated again
    #[arg(long)]
    no_strips: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn command() -> Command {
    Own::augment_args(Command::new("report"))
        .about("Write one HTML page of stored runs: comparison, latency curves, reasons, cores over time, longest waits")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(pct) = own.min_effect.filter(|pct| !(0.0..=100.0).contains(pct)) {
        return Err(Error::input(format!("--min-effect {pct} is not 0 to 100 percent")));
    }
    if own.strips.len() > 2 {
        return Err(Error::input(format!("--strips names {} variants", own.strips.len()))
            .help("name one or two: they stand above each other"));
    }
    temp::check_place(&own.page).map_err(|e| e.context("-o"))?;
    let mut subject = subject(&own)?;
    let question = &mut subject.question;
    question.baseline = own.baseline.or(question.baseline.take());
    question.min_effect_pct = own.min_effect.unwrap_or(question.min_effect_pct);
    if !own.metric.is_empty() {
        (question.metrics, question.of_load) = (own.metric, Default::default());
    }
    let asked = Asked {
        command: reporting::command_line(),
        strips: (!own.no_strips).then_some(own.strips),
        quiet: own.quiet,
    };
    let written = reporting::write(subject, &asked, &own.page)?;
    if !own.quiet {
        output::note(&format!("{}: {}", own.page.display(), written.words));
    }
    Ok(())
}

/// The runs that are named, and what is asked of them.
fn subject(own: &Own) -> Result<Subject> {
    if let [only] = &own.sources[..]
        && let Some(experiment) = experiment_of(only)?
    {
        let runs = stored(&experiment, &own.choice.out, &own.choice.filter())?;
        // Not all of it need be stored: the question is about the loads and variants that are.
        let planned = reporting::planned(&experiment, &runs)?;
        return reporting::of_experiment(&experiment, &planned, runs);
    }
    let mut all = Vec::new();
    for source in &own.sources {
        all.extend(named(own, source)?);
    }
    if all.is_empty() {
        return Err(
            Error::input("no stored run passes the filters").help("'schedlab runs' lists the stored cells")
        );
    }
    let question = Question { floors: stored_floors()?, ..Question::default() };
    Ok(Subject { title: title(&own.sources), about: String::new(), runs: all, question })
}

/// The stored runs of an experiment that pass a filter.
///
/// # Errors
/// When the store has none, or can't be read.
fn stored(experiment: &Experiment, store: &Path, filter: &Filter) -> Result<Vec<RunDir>> {
    let wanted = Wanted { store, filter: Filter::default(), seed: None };
    Ok(dirs(filter.choose(wanted.cells_of(experiment)?)?))
}

/// The runs of one name: of a store or a folder in it, or of a cell by its digits.
fn named(own: &Own, name: &str) -> Result<Vec<RunDir>> {
    let (path, filter) = (Path::new(name), own.choice.filter());
    if !path.exists() {
        let chosen = runs::find(&runs::list(&own.choice.out)?, name)?;
        let run = chosen.seed.and_then(|seed| chosen.cell.run(seed).map(|r| r.run.clone()));
        return Ok(run.map_or_else(|| dirs(vec![chosen.cell]), |run| vec![run]));
    }
    let cells = if path.is_dir() { runs::list(path).unwrap_or_default() } else { Vec::new() };
    if !cells.is_empty() {
        return Ok(dirs(filter.choose(cells)?));
    }
    let found = store::list(path).map_err(|e| match path.is_file() {
        true => {
            e.help("a report is made of stored runs; 'schedlab compare' also reads saved outputs of tools")
        }
        false => e,
    })?;
    if !filter.is_empty() {
        return Err(Error::input(format!(
            "{name} is no store: --load, --variant and the like choose among a store's cells"
        ))
        .help("name the store, or leave the filters out"));
    }
    Ok(found)
}

fn dirs(cells: Vec<ListedCell>) -> Vec<RunDir> {
    cells.into_iter().flat_map(|c| c.held.runs).map(|held| held.run).collect()
}

fn title(sources: &[String]) -> String {
    match sources {
        [one] => format!("Stored runs: {one}"),
        several => format!("Stored runs: {}", several.join(", ")),
    }
}
