//! `schedlab doctor`: shows the measurements and changes that this machine allows, the settings still to be put back,
//! and the machine's noise.

mod noise;
mod rows;

pub use noise::stored as stored_floors;

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use rows::{CheckedRow, Here, Presence};
use schedlab_base::{Error, Result};
use schedlab_native::settings::{self, Access, SettingState, System, journal};
use schedlab_report::text::wrap;
use std::io::Write;

pub const ENTRY: Entry = Entry { command, run };

/// Runs of each of two groups: enough to show a floor of a few percent on a quiet machine.
const NOISE_RUNS: u64 = 8;

#[derive(Args)]
struct DoctorArgs {
    /// Make A/A runs of these workloads, and keep their difference as this machine's noise floor [default: schbench,
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
        "Show what can be measured and changed on this machine, what is still to be put back, and its noise";
    DoctorArgs::augment_args(Command::new("doctor")).about(about)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = DoctorArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(workloads) = &args.noise {
        return noise::measure(workloads, args.runs, args.json, args.quiet);
    }
    let system = System::live();
    let (left, seen) = (journal::pending(&system)?, settings::survey(&system));
    let floors = noise::stored()?;
    let found = Here::look(floors.clone()).rows();
    if args.json {
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
        writeln!(out, "\nWhat can be measured on this machine:")?;
        found.iter().try_for_each(|f| row(f, out))?;
        if !floors.floors.is_empty() {
            writeln!(out, "\nNoise floors:")?;
            noise::print(&floors.floors, out)?;
        }
        changeable(&seen, out)
    })
}

fn row(found: &CheckedRow, out: &mut dyn Write) -> std::io::Result<()> {
    let state = match found.state {
        Presence::Yes => "yes",
        Presence::Partly => "partly",
        Presence::No => "no",
    };
    write!(out, "{}", wrap(&format!("  {:<16} {state:<6} ", found.name), &found.said))?;
    // A missing thing is shown with its use, so that the reader can judge whether it matters.
    if found.state != Presence::Yes {
        write!(out, "{}", wrap(&format!("{:<26}for: ", ""), found.needed_for))?;
    }
    found.mend.iter().try_for_each(|mend| write!(out, "{}", wrap(&format!("{:<26}mend: ", ""), mend)))
}

fn changeable(seen: &[SettingState], out: &mut dyn Write) -> std::io::Result<()> {
    let mut some_missing = false;
    for (title, access) in [
        ("Settings that can be changed", Access::Yes),
        ("Settings that this user can't change", Access::Refused),
        ("Settings that this machine does not have", Access::Missing),
    ] {
        let of: Vec<&SettingState> = seen.iter().filter(|s| s.access == access).collect();
        if of.is_empty() {
            continue;
        }
        writeln!(out, "\n{title}:")?;
        some_missing |= access != Access::Yes;
        for (mend, those) in by_remedy(&of) {
            match (mend, those.as_slice()) {
                // One remedy for several settings: print their names only, since their places matter only after it.
                (Some(mend), [_, _, ..]) => {
                    let names: Vec<&str> = those.iter().map(|s| s.name).collect();
                    write!(out, "{}", wrap("  ", &format!("{}: {mend}", names.join(", "))))?;
                }
                (mend, those) => those.iter().try_for_each(|s| {
                    let line = mend.map_or_else(|| line(s), |mend| format!("{}; {mend}", line(s)));
                    write!(out, "{}", wrap(&format!("  {:<22} ", s.name), &line))
                })?,
            }
        }
    }
    if some_missing {
        let instead = settings::INSTEAD.trim_start_matches("without it: ");
        write!(out, "{}", wrap("  ", &format!("Where a setting can't be changed there are {instead}.")))?;
    }
    Ok(())
}

/// The settings by remedy (`None`: no remedy), in the order of each remedy's first setting. The alternatives are the
/// same for all settings, and are left out.
fn by_remedy<'a>(all: &[&'a SettingState]) -> Vec<(Option<&'a str>, Vec<&'a SettingState>)> {
    let mut groups: Vec<(Option<&str>, Vec<&SettingState>)> = Vec::new();
    for seen in all {
        let help = seen.remedy.as_deref().and_then(|r| r.split_once(HELP)).map(|(_, help)| help);
        let args = help.map(|h| h.strip_suffix(settings::INSTEAD).unwrap_or(h).trim_end_matches("; "));
        let mend = args.filter(|h| !h.is_empty());
        match groups.iter_mut().find(|(known, _)| *known == mend) {
            Some((_, group)) => group.push(seen),
            None => groups.push((mend, vec![seen])),
        }
    }
    groups
}

/// The text before the remedy in an error.
const HELP: &str = "\n  help: ";

/// A setting's value and meaning, or why it can't be changed.
fn line(seen: &SettingState) -> String {
    let Some(remedy) = &seen.remedy else {
        let now = seen.now.as_deref().unwrap_or("?");
        return format!("{now} ({}): {}", seen.values, seen.about);
    };
    let why = remedy.split_once(HELP).map_or(remedy.as_str(), |(why, _)| why);
    why.trim_start_matches(&format!("setting '{}': ", seen.name)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(name: &'static str, remedy: &str) -> SettingState {
        let remedy = Some(format!("setting '{name}': this machine has no /{name}{remedy}"));
        SettingState { name, about: "", values: String::new(), access: Access::Missing, now: None, remedy }
    }
    fn told(seen: &[SettingState]) -> String {
        let mut out = Vec::new();
        changeable(seen, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn settings_with_one_remedy_share_a_paragraph() {
        let mount = format!("{HELP}mount debugfs; {}", settings::INSTEAD);
        let absent = format!("{HELP}{}", settings::INSTEAD);
        let seen = [
            missing("a", &mount),
            missing("b", &absent),
            missing("c", &mount),
            missing("d", ""),
            missing("e", &mount),
        ];
        let text = told(&seen);
        assert!(text.contains("  a, c, e: mount debugfs\n"), "{text}");
        assert_eq!(text.matches("mount debugfs").count(), 1, "{text}");
        for name in ["b", "d"] {
            assert!(text.contains(&format!("this machine has no /{name}\n")), "{text}");
        }
        assert_eq!(text.matches("leave it alone").count(), 1, "{text}");
    }

    #[test]
    fn a_setting_with_its_own_remedy_names_its_place() {
        let text = told(&[missing("a", &format!("{HELP}mount debugfs; {}", settings::INSTEAD))]);
        assert!(text.contains("this machine has no /a; mount debugfs\n"), "{text}");
        let here =
            SettingState { access: Access::Yes, now: Some("1".into()), remedy: None, ..missing("a", "") };
        let text = told(&[here]);
        assert!(text.contains("  a ") && !text.contains("Without"), "{text}");
    }
}
