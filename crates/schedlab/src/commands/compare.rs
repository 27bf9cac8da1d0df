//! `schedlab compare`: compares stored runs, or saved outputs of known tools.

use crate::cli::Entry;
use crate::commands::doctor::stored_floors;
use crate::common::{self, FormOptions};
use crate::gate::GateOptions;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::{Question, command, compare_sources};

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
    /// The variant that all others are compared with [default: the first of each load]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// A metric to compare; may be given more than once [default: the workload's own first metrics]
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Smallest change that counts, percent
    #[arg(long, value_name = "PERCENT", default_value_t = Question::default().min_effect_pct)]
    min_effect: f64,
    #[command(flatten)]
    form: FormOptions,
    #[command(flatten)]
    gate: GateOptions,
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
    let from = own.from.as_deref().map(command::reader).transpose()?;
    let question = Question {
        baseline: own.baseline,
        metrics: own.metric,
        min_effect_pct: own.min_effect,
        floors: stored_floors()?,
        ..Question::default()
    };
    let comparison = compare_sources(&own.sources, from, &question)?;
    common::print(&comparison, &own.form)?;
    own.gate.check(&comparison)
}
