//! `schedlab report`: a page for a browser of stored runs: comparison, curves, reasons, cores over time.

use super::runs::Choice;
use crate::cli::Entry;
use crate::commands::doctor::stored_floors;
use crate::output;
use crate::reporting::{self, PageRequest, Subject};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, temp};
use schedlab_compare::Question;
use schedlab_compare::comparison::Named;
use schedlab_lab::make::request::planned_of;
use schedlab_lab::stored::named::{self, experiment_of, unless_recording};
use schedlab_record::{RunDir, store};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct ReportArgs {
    /// Stores, folders of cells or runs, first digits of cells, or one experiment's file or study
    #[arg(value_name = "RUNS", required = true)]
    sources: Vec<String>,
    /// The page
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "report.html")]
    page: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// The variant that all others are compared with [default: the experiment's, or the first one given]
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
    /// Show no CPUs over time: no run is made again
    #[arg(long)]
    no_strips: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn command() -> Command {
    ReportArgs::augment_args(Command::new("report"))
        .about("Write one HTML page of stored runs: comparison, latency curves, reasons, cores over time, longest waits")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ReportArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(pct) = args.min_effect.filter(|pct| !(0.0..=100.0).contains(pct)) {
        return Err(Error::input(format!("--min-effect {pct} is not 0 to 100 percent")));
    }
    if args.strips.len() > 2 {
        return Err(Error::input(format!("--strips names {} variants", args.strips.len()))
            .help("name one or two: they stand above each other"));
    }
    temp::check_place(&args.page).map_err(|e| e.context("-o"))?;
    let mut subject = subject(&args)?;
    let question = &mut subject.question;
    question.min_effect_pct = args.min_effect.unwrap_or(question.min_effect_pct);
    if !args.metric.is_empty() {
        (question.metrics, question.of_load) = (args.metric, Default::default());
    }
    subject.question = subject.question.against(args.baseline);
    let asked = PageRequest {
        command: reporting::command_line(),
        strips: (!args.no_strips).then_some(args.strips),
        quiet: args.quiet,
    };
    let written = reporting::write(subject, &asked, &args.page)?;
    if !args.quiet {
        output::note(&format!("{}: {}", args.page.display(), written.words));
    }
    Ok(())
}

/// The named runs and the question about them.
fn subject(args: &ReportArgs) -> Result<Subject> {
    if let [only] = &args.sources[..]
        && let Some(experiment) = experiment_of(only)?
    {
        let runs = named::of_experiment(&experiment, &args.choice.out, &args.choice.filter())?;
        // The store may lack loads and variants of the experiment: ask only about those it has.
        let planned = planned_of(&experiment, &runs)?;
        return reporting::of_experiment(&experiment, &planned, runs);
    }
    let mut all = Vec::new();
    let names: Vec<&str> = args.sources.iter().map(String::as_str).collect();
    for (source, stored) in
        named::stored(&names, &args.choice.out, &args.choice.filter())?.into_iter().enumerate()
    {
        let runs = stored.map_or_else(|| no_runs(names[source]), Ok)?;
        all.extend(runs.into_iter().map(|run| Named { source, run }));
    }
    if all.is_empty() {
        return Err(
            Error::input("no stored run passes the filters").help("'schedlab runs' lists the stored cells")
        );
    }
    let question = Question { floors: stored_floors()?, ..Question::default() };
    Ok(Subject { title: title(&args.sources), about: String::new(), runs: all, question })
}

/// The error of the store's reader for a name without runs.
fn no_runs(name: &str) -> Result<Vec<RunDir>> {
    let path = Path::new(name);
    store::list(path).map_err(|e| match path.is_file() {
        true => unless_recording(
            path,
            e.help("a report is made of stored runs; 'schedlab compare' also reads saved outputs of tools"),
        ),
        false => unless_recording(path, e),
    })
}

fn title(sources: &[String]) -> String {
    match sources {
        [one] => format!("Stored runs: {one}"),
        several => format!("Stored runs: {}", several.join(", ")),
    }
}
