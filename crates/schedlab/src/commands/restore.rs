//! `schedlab restore`: puts back the settings that killed runs left changed.

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, counted};
use schedlab_native::settings::{self, journal::Recovered};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct RestoreArgs {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    RestoreArgs::augment_args(Command::new("restore"))
        .about("Put back the settings that a killed run left changed")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = RestoreArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let done = settings::put_back_left()?;
    if args.json {
        output::json_as("schedlab/restore/1", &serde_json::json!({ "settings": done }))?;
    } else {
        output::result(|out| {
            if done.is_empty() {
                writeln!(out, "nothing is left to be put back")?;
            }
            done.iter().try_for_each(|r| writeln!(out, "{}: {}", r.setting, r.said))
        })?;
    }
    let left: Vec<&Recovered> = done.iter().filter(|r| r.pending).collect();
    if left.is_empty() {
        return Ok(());
    }
    let mut remedies: Vec<&str> = left.iter().filter_map(|r| r.remedy.as_deref()).collect();
    remedies.dedup();
    let text = format!("{} could not be put back", counted(left.len(), "setting"));
    let error = Error::new(ErrorKind::CheckFailed, text);
    Err(if remedies.is_empty() { error } else { error.help(remedies.join("; ")) })
}
