//! `schedlab study`: lists or runs the experiments that ship with schedlab.

use crate::cli::Entry;
use crate::experiments::{self, RunOptions};
use crate::{output, studies};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::Experiment;
use schedlab_report::text::wrap;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct Own {
    /// The study to run; without a name the studies are listed
    name: Option<String>,
    /// Run every study
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    options: RunOptions,
}

fn command() -> Command {
    Own::augment_args(Command::new("study")).about("List the studies that ship with schedlab, or run one")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    own.options.check()?;
    match &own.name {
        Some(name) => experiments::conduct(studies::find(name)?, &own.options),
        None if own.all => studies::STUDIES
            .iter()
            .try_for_each(|(name, _)| experiments::conduct(studies::find(name)?, &own.options)),
        None => list(matches.get_flag("json")),
    }
}

fn list(json: bool) -> Result<()> {
    let all = studies::STUDIES.iter().map(|(name, _)| studies::find(name)).collect::<Result<Vec<_>>>()?;
    if json {
        let rows: Vec<_> =
            all.iter().map(|s| serde_json::json!({ "name": s.name, "about": s.about })).collect();
        return output::json_as("schedlab/studies/1", &serde_json::json!({ "studies": rows }));
    }
    output::result(|out| {
        let line = |s: &Experiment| wrap(&format!("{:<16} ", s.name), &first_sentence(&s.about));
        all.iter().try_for_each(|s| write!(out, "{}", line(s)))
    })
}

/// The first sentence about a study; the list has no room for more.
fn first_sentence(about: &str) -> String {
    let flat = about.split_whitespace().collect::<Vec<_>>().join(" ");
    flat.split_once(". ").map_or(flat.clone(), |(first, _)| format!("{first}."))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_list_shows_the_first_sentence() {
        assert_eq!(super::first_sentence("One\n  thing. Another."), "One thing.");
        assert_eq!(super::first_sentence("v4.5 against v6.5"), "v4.5 against v6.5");
    }
}
