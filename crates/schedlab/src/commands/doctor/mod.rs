//! `schedlab doctor`: what this machine lets us measure and change, what is still to be put back, and how noisy it is.

mod noise;
mod rows;

pub use noise::stored as stored_floors;

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use rows::{Found, Here, State};
use schedlab_base::{Error, Result};
use schedlab_native::settings::{self, Access, Seen, System, journal};
use schedlab_report::text::wrap;
use std::io::Write;

pub const ENTRY: Entry = Entry { command, run };

/// Runs of each of two groups that show a floor of a few percent on a quiet machine.
const NOISE_RUNS: u64 = 8;

#[derive(Args)]
struct Own {
    /// Make A/A runs of these workloads and keep how much they differ as this machine's noise floor [default: schbench,
    /// pipe, hackbench and slice, short]
    #[arg(long, value_name = "WORKLOAD", num_args = 0..)]
    noise: Option<Vec<String>>,
    /// Runs of each of the two groups of --noise
    #[arg(long, value_name = "N", default_value_t = NOISE_RUNS, requires = "noise")]
    runs: u64,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    let about =
        "Show what this machine lets us measure and change, what is still to be put back, and its noise";
    Own::augment_args(Command::new("doctor")).about(about)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(workloads) = &own.noise {
        return noise::measure(workloads, own.runs, own.json, own.quiet);
    }
    let system = System::live();
    let (left, seen) = (journal::pending(&system)?, settings::survey(&system));
    let floors = noise::stored()?;
    let found = Here::look(floors.clone()).rows();
    if own.json {
        let value = serde_json::json!({
            "to_restore": left, "machine": found, "settings": seen, "noise": floors.floors,
        });
        return output::json_as("schedlab/doctor/1", &value);
    }
    output::result(|out| {
        if left.is_empty() {
            writeln!(out, "To be put back: nothing")?;
        } else {
            writeln!(out, "To be put back ('schedlab restore' does it):")?;
            left.iter().try_for_each(|r| write!(out, "{}", wrap("  ", &r.said)))?;
        }
        writeln!(out, "\nWhat this machine lets us measure:")?;
        found.iter().try_for_each(|f| row(f, out))?;
        if !floors.floors.is_empty() {
            writeln!(out, "\nNoise floors:")?;
            noise::print(&floors.floors, out)?;
        }
        changeable(&seen, out)
    })
}

fn row(found: &Found, out: &mut dyn Write) -> std::io::Result<()> {
    let state = match found.state {
        State::Yes => "yes",
        State::Partly => "partly",
        State::No => "no",
    };
    write!(out, "{}", wrap(&format!("  {:<16} {state:<6} ", found.name), &found.said))?;
    // What is there needs no reason; what is missing is judged by what it would be good for.
    if found.state != State::Yes {
        write!(out, "{}", wrap(&format!("{:<26}for: ", ""), found.needed_for))?;
    }
    found.mend.iter().try_for_each(|mend| write!(out, "{}", wrap(&format!("{:<26}mend: ", ""), mend)))
}

fn changeable(seen: &[Seen], out: &mut dyn Write) -> std::io::Result<()> {
    for (title, access) in [
        ("Settings that can be changed", Access::Yes),
        ("Settings that this user can't change", Access::Refused),
        ("Settings that this machine has not", Access::Missing),
    ] {
        let of: Vec<&Seen> = seen.iter().filter(|s| s.access == access).collect();
        if !of.is_empty() {
            writeln!(out, "\n{title}:")?;
            of.iter().try_for_each(|s| write!(out, "{}", wrap(&format!("  {:<22} ", s.name), &line(s))))?;
        }
    }
    Ok(())
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
