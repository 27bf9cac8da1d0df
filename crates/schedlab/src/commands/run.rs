//! `schedlab run`: an experiment from a file.

use crate::cli::Entry;
use crate::experiments::{self, RunOptions};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    file: PathBuf,
    #[command(flatten)]
    options: RunOptions,
}

fn command() -> Command {
    Own::augment_args(Command::new("run")).about("Run an experiment and compare its variants")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    own.options.check()?;
    experiments::conduct(schedlab_lab::experiment::load(&own.file)?, &own.options)
}
