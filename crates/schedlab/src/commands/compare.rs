//! `schedlab compare`: compares stored runs, or saved outputs of known tools.

use super::runs::Choice;
use crate::cli::Entry;
use crate::commands::doctor::stored_floors;
use crate::common::{self, FormOptions};
use crate::gate::GateOptions;
use crate::reporting;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_compare::Question;
use schedlab_compare::comparison::{Named, compare_named};
use schedlab_compare::runs::is_title;
use schedlab_compare::tools::{self, OutputReader, TEXT, metric_option};
use schedlab_lab::make::request::planned_of;
use schedlab_lab::stored::named::{self, experiment_of};
use schedlab_record::Record;
use schedlab_workload::command::{Extract, Place};
use std::path::Path;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct CompareArgs {
    /// Stores, folders of cells or runs, first digits of cells, an experiment's file or a study; or saved outputs of
    /// known tools and of schedlab itself: FILE or FOLDER for each variant, or NAME=FILE[,FILE...] for several runs of
    /// one
    #[arg(value_name = "RUNS", required = true)]
    sources: Vec<String>,
    /// Format of all saved outputs: a tool's name (bench --tools lists them), or comparison or run for
    /// schedlab's own [default: recognised from each text]
    #[arg(long, value_name = "TOOL")]
    from: Option<String>,
    /// Read this figure out of any text, one run in each file: NAME[UNIT,lower|higher,first|last|all]=REGEX with one
    /// group; may be given more than once. The metric is output.NAME
    #[arg(long, value_name = "METRIC", conflicts_with = "from")]
    metric_regex: Vec<String>,
    /// The same with a JSON pointer: NAME[UNIT,...]=/a/b
    #[arg(long, value_name = "METRIC", conflicts_with = "from")]
    metric_json: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    /// The variant that all others are compared with [default: the experiment's, or the first one given]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// A metric to compare; may be given more than once [default: the workload's own first metrics]
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Smallest change that counts, percent [default: the experiment's, or 2]
    #[arg(long, value_name = "PERCENT")]
    min_effect: Option<f64>,
    /// Every row of a table on a terminal, too, and every metric that a file has of a run; files and pipes get all rows
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: FormOptions,
    #[command(flatten)]
    gate: GateOptions,
}

impl CompareArgs {
    /// The figures that the user describes.
    fn wanted(&self) -> Result<Vec<Extract>> {
        let regex = self.metric_regex.iter().map(|text| metric_option(TEXT, text, Place::Regex));
        let json = self.metric_json.iter().map(|text| metric_option(TEXT, text, Place::JsonPointer));
        regex.chain(json).collect()
    }
}

fn command() -> Command {
    CompareArgs::augment_args(Command::new("compare"))
        .about("Compare stored runs, or saved outputs of tools, variant against variant")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let mut args = CompareArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.form.form()?;
    if let Some(pct) = args.min_effect.filter(|pct| !(0.0..=100.0).contains(pct)) {
        return Err(Error::input(format!("--min-effect {pct} is not 0 to 100 percent")));
    }
    let from = match (&args.from, args.wanted()?) {
        (Some(name), _) => Some(tools::reader(name)?),
        (None, wanted) if wanted.is_empty() => None,
        (None, wanted) => Some(OutputReader::Text(wanted)),
    };
    let (runs, saved, question) = named_runs(&args.sources, &args.choice, from.as_ref())?;
    let question = Question {
        min_effect_pct: args.min_effect.unwrap_or(question.min_effect_pct),
        floors: stored_floors()?,
        all: args.all,
        ..question
    };
    let wanted = args.form.outlets.with_metrics(&args.metric);
    let question = if wanted.is_empty() {
        question
    } else {
        Question { metrics: wanted, of_load: Default::default(), ..question }
    };
    let comparison = compare_named(&runs, saved, &question.against(args.baseline))?;
    args.form.all_rows |= args.all;
    if args.form.all_rows {
        common::print(&comparison, &args.form, &args.gate)?
    } else {
        common::print_shortened(&comparison, &args.form, &args.gate)?
    }
    args.gate.check(&comparison)
}

/// The stored runs and the saved outputs (all in one format if `from` is given) of these names, and the question of an
/// experiment that is named alone.
///
/// # Errors
/// When a name means nothing, or an output can't be read.
pub fn named_runs(
    names: &[String],
    choice: &Choice,
    from: Option<&OutputReader>,
) -> Result<(Vec<Named>, Vec<Record>, Question)> {
    let (runs, rest, question) = sources(names, choice)?;
    let (_, saved) = if rest.is_empty() { Default::default() } else { tools::saved::sources(&rest, from)? };
    Ok((runs, saved, question))
}

/// The named stored runs, the sources that are saved outputs, and the question of an experiment that is named alone.
fn sources(names: &[String], choice: &Choice) -> Result<(Vec<Named>, Vec<String>, Question)> {
    if let [only] = names
        && let Some(experiment) = experiment_of(only)?
    {
        let runs = named::of_experiment(&experiment, &choice.out, &choice.filter())?;
        // The store may lack loads and variants of the experiment: ask only about those it has.
        let planned = planned_of(&experiment, &runs)?;
        let subject = reporting::of_experiment(&experiment, &planned, runs)?;
        return Ok((subject.runs, Vec::new(), subject.question));
    }
    let (mut runs, mut rest) = (Vec::new(), Vec::new());
    // NAME=FILE, unless the words name a run: its load may hold '='.
    let is_output = |name: &str| !Path::new(name).exists() && name.contains('=') && !is_title(name);
    let of_runs: Vec<&str> = names.iter().map(String::as_str).filter(|name| !is_output(name)).collect();
    let mut stored = named::stored(&of_runs, &choice.out, &choice.filter())?.into_iter();
    for (source, name) in names.iter().enumerate() {
        match if is_output(name) { None } else { stored.next().flatten() } {
            Some(some) => runs.extend(some.into_iter().map(|run| Named { source, run })),
            None => rest.push(name.clone()),
        }
    }
    if let Some(saved) = rest.first().filter(|_| !choice.filter().is_empty()) {
        let text =
            format!("--load, --variant and the like choose among stored runs, and {saved} is a saved output");
        return Err(Error::input(text).help("leave out the filters, or the saved outputs"));
    }
    Ok((runs, rest, Question::default()))
}
