//! `schedlab compare`: compares stored runs, or saved outputs of known tools.

use crate::cli::Entry;
use crate::commands::doctor::stored_floors;
use crate::common::{self, FormOptions};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::command::{self, Reader, TEXT, metric_option};
use schedlab_lab::{Question, compare_sources};
use schedlab_workload::command::{Extract, Place};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// Run folders, stores, or folders above them; or saved outputs of known tools and of schedlab itself: FILE or
    /// FOLDER for each variant, or NAME=FILE[,FILE...] for several runs of a variant
    #[arg(value_name = "RUNS", required = true)]
    sources: Vec<String>,
    /// Format of all saved outputs: a tool's name (bench --tools lists them), or comparison, run, csv or gobench for
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
    /// The variant that all others are compared with [default: the first of each load]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// A metric to compare; may be given more than once [default: the workload's own first metrics]
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Smallest change that counts, percent
    #[arg(long, value_name = "PERCENT", default_value_t = Question::default().min_effect_pct)]
    min_effect: f64,
    /// Every row of a table on a terminal, too, and every metric that a file has of a run; files and pipes get all rows
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: FormOptions,
}

impl Own {
    /// The figures that the user describes.
    fn wanted(&self) -> Result<Vec<Extract>> {
        let regex = self.metric_regex.iter().map(|text| metric_option(TEXT, text, Place::Regex));
        let json = self.metric_json.iter().map(|text| metric_option(TEXT, text, Place::JsonPointer));
        regex.chain(json).collect()
    }
}

fn command() -> Command {
    Own::augment_args(Command::new("compare"))
        .about("Compare stored runs, or saved outputs of tools, variant against variant")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    own.form.form()?;
    if !(0.0..=100.0).contains(&own.min_effect) {
        return Err(Error::input(format!("--min-effect {} is not 0 to 100 percent", own.min_effect)));
    }
    let from = match (&own.from, own.wanted()?) {
        (Some(name), _) => Some(command::reader(name)?),
        (None, wanted) if wanted.is_empty() => None,
        (None, wanted) => Some(Reader::Text(wanted)),
    };
    let question = Question {
        baseline: own.baseline,
        metrics: if own.metric.is_empty() {
            own.form.outlets.metric().into_iter().collect()
        } else {
            own.metric
        },
        min_effect_pct: own.min_effect,
        floors: stored_floors()?,
        all: own.all,
        ..Question::default()
    };
    let comparison = compare_sources(&own.sources, from.as_ref(), &question)?;
    match own.all {
        true => common::print(&comparison, &own.form),
        false => common::print_shortened(&comparison, &own.form),
    }
}
