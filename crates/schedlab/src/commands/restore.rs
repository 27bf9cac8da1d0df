//! `schedlab restore`: puts back the settings that killed runs left changed.

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_native::settings;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    Own::augment_args(Command::new("restore")).about("Put back the settings that a killed run left changed")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let done = settings::put_back_left()?;
    if own.json {
        output::json_as("schedlab/restore/1", &serde_json::json!({ "settings": done }))?;
    } else {
        output::result(|out| {
            if done.is_empty() {
                writeln!(out, "nothing is left to be put back")?;
            }
            done.iter().try_for_each(|r| writeln!(out, "{}: {}", r.setting, r.said))
        })?;
    }
    match done.iter().filter(|r| r.pending).count() {
        0 => Ok(()),
        n => Err(Error::new(ErrorKind::CheckFailed, format!("{n} settings could not be put back"))
            .help("run it as the user of the killed run, or as root")),
    }
}
