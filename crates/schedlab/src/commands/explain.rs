//! `schedlab explain`: why the longest waits of a run were long.

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_record::{explain, explain_text, store};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// A run's folder, or the record.json in it
    #[arg(value_name = "RUN")]
    path: PathBuf,
    /// How many of the longest waits are told
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    Own::augment_args(Command::new("explain")).about("Tell why the longest waits of a run were long")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let record = store::load(&own.path)?;
    if record.backend != "sim" && record.waits.is_empty() {
        return Err(Error::machine(format!(
            "a {} run does not tell why its waits were long",
            record.backend
        ))
        .help("record its events (--events), or run it with --backend sim, which knows all reasons"));
    }
    let explanation = explain(&record, own.worst);
    if own.json {
        return output::json_as("schedlab/explanation/1", &explanation);
    }
    output::result(|out| out.write_all(explain_text(&explanation).as_bytes()))
}
