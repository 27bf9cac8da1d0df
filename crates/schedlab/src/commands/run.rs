//! `schedlab run`: runs an experiment from a file.

use crate::cli::Entry;
use crate::experiments::{self, ExperimentOptions};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::ask::experiment::load;
use schedlab_lab::ask::studies::STUDIES;
use schedlab_workload::BENCHMARKS;
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct RunArgs {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    file: PathBuf,
    #[command(flatten)]
    options: ExperimentOptions,
}

fn command() -> Command {
    RunArgs::augment_args(Command::new("run")).about("Run an experiment and compare its variants")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = RunArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.options.check()?;
    let experiment = load(&args.file).map_err(|e| match instead(&args.file) {
        Some(help) if !args.file.is_file() => e.help(help),
        _ => e,
    })?;
    experiments::conduct(experiment, &args.options)
}

/// A suggestion in place of a file that does not exist.
fn instead(file: &Path) -> Option<String> {
    let name = file.to_str()?;
    let longer = format!("{name}.toml");
    if STUDIES.iter().any(|(study, _)| *study == name) {
        return Some(format!("{name} is a study: schedlab study {name}"));
    }
    if BENCHMARKS.iter().any(|b| b.name == name) {
        return Some(format!(
            "{name} is a workload: schedlab bench {name}, or schedlab new mine.toml --workload {name}"
        ));
    }
    if Path::new(&longer).is_file() {
        return Some(format!("did you mean '{longer}'?"));
    }
    (!file.exists()).then(|| format!("schedlab new {name} writes one"))
}
