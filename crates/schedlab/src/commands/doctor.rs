//! `schedlab doctor`: what is still to be put back, and which settings this machine has and lets us change.

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_native::settings::{self, Access, Seen, System, journal};
use schedlab_report::text::wrap;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    Own::augment_args(Command::new("doctor"))
        .about("Show what this machine lets schedlab change, and what is still to be put back")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let system = System::live();
    let (left, seen) = (journal::pending(&system)?, settings::survey(&system));
    if own.json {
        let value = serde_json::json!({ "to_restore": left, "settings": seen });
        return output::json_as("schedlab/doctor/1", &value);
    }
    output::result(|out| {
        if left.is_empty() {
            writeln!(out, "To be put back: nothing")?;
        } else {
            writeln!(out, "To be put back ('schedlab restore' does it):")?;
            left.iter().try_for_each(|r| write!(out, "{}", wrap("  ", &r.said)))?;
        }
        for (title, access) in [
            ("Settings that can be changed", Access::Yes),
            ("Settings that this user can't change", Access::Refused),
            ("Settings that this machine has not", Access::Missing),
        ] {
            let of: Vec<&Seen> = seen.iter().filter(|s| s.access == access).collect();
            if !of.is_empty() {
                writeln!(out, "\n{title}:")?;
                of.iter()
                    .try_for_each(|s| write!(out, "{}", wrap(&format!("  {:<22} ", s.name), &line(s))))?;
            }
        }
        Ok(())
    })
}

fn line(seen: &Seen) -> String {
    match (&seen.remedy, &seen.now) {
        (Some(remedy), _) => {
            let said =
                remedy.trim_start_matches(&format!("setting '{}': ", seen.name)).replace("\n  help: ", "; ");
            said.to_owned()
        }
        (None, now) => format!("{} ({}): {}", now.as_deref().unwrap_or("?"), seen.values, seen.about),
    }
}
