//! `schedlab study`: lists or runs the experiments that ship with schedlab.

use crate::experiments::{self, Conducted, ExperimentOptions};
use crate::reporting::{self, PageRequest};
use crate::{cli, output, reports};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, temp};
use schedlab_compare::Comparison;
use schedlab_lab::ask::studies;
use schedlab_report::html::{Entry, index};
use schedlab_report::text::wrap;
use std::path::{Path, PathBuf};

pub const ENTRY: cli::Entry = cli::Entry { command, run };

#[derive(Args)]
struct StudyArgs {
    /// The study to run; without a name the studies are listed. 'reports' runs the public reports
    name: Option<String>,
    /// Of 'reports': these only
    #[arg(value_name = "REPORT")]
    reports: Vec<String>,
    /// Run every study
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Then write a report of the stored runs of each study into this folder, and an index of them
    #[arg(short = 'o', long = "report", value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    options: ExperimentOptions,
}

fn command() -> Command {
    StudyArgs::augment_args(Command::new("study"))
        .about("List the studies that ship with schedlab, or run one")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = StudyArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.options.check()?;
    if args.name.as_deref() == Some(reports::NAME) {
        return judge_reports(&args);
    }
    if let Some(odd) = args.reports.first() {
        return Err(
            Error::input(format!("'{odd}' after the study's name")).help("only 'reports' takes names")
        );
    }
    let names: Vec<&str> = match &args.name {
        Some(name) => vec![name],
        None if args.all => studies::STUDIES.iter().map(|(name, _)| *name).collect(),
        None => return list(matches.get_flag("json")),
    };
    if names.len() > 1 && args.options.has_outlet() {
        return Err(Error::input("--junit and --print are for one comparison, and --all makes several")
            .help("give the study's name"));
    }
    let Some(folder) = &args.report else {
        let one = |name: &&str| Ok(experiments::conducted(studies::find(name)?, &args.options)?.comparison);
        let results = names.iter().map(one).collect::<Result<Vec<_>>>()?;
        return args.options.gate().check_all(results.iter());
    };
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create", &e))?;
    let pages: Vec<(Entry, Comparison)> =
        names.iter().map(|name| page(name, &args.options, folder)).collect::<Result<_>>()?;
    let (entries, results): (Vec<Entry>, Vec<Comparison>) = pages.into_iter().unzip();
    let command = reporting::command_line();
    let page = index("Studies of schedlab", &command, env!("CARGO_PKG_VERSION"), &entries);
    temp::write_whole(&folder.join("index.html"), page.as_bytes())?;
    if !args.options.quiet() {
        output::note(&format!("pages and an index in {}", folder.display()));
    }
    args.options.gate().check_all(results.iter())
}

/// Runs the experiments of all public reports, and says which of them the simulator reproduces.
fn judge_reports(args: &StudyArgs) -> Result<()> {
    let options = &args.options;
    let form = options.form()?.name;
    if !["table", "markdown", "json"].contains(&form) {
        return Err(Error::input(format!("reports have no form '{form}'")).help("table, markdown or json"));
    }
    if args.report.is_some() {
        return Err(Error::input("--report is for studies whose runs are compared").help("leave it out"));
    }
    if let Some(option) = options.beyond_claims() {
        let text = format!("{option} does not go with reports: their claims are about all cells, simulated");
        return Err(Error::input(text).help("'schedlab study reports NAME' runs one report"));
    }
    let all = reports::judged(&args.reports, options)?;
    match form {
        "json" => output::json_as("schedlab/reports/1", &serde_json::json!({ "reports": all })),
        "markdown" => output::result(|out| schedlab_report::reports::markdown(&all, out)),
        _ => output::result(|out| schedlab_report::reports::text(&all, out)),
    }
}

/// Runs a study and writes its page; gives its line of the index and its result.
fn page(name: &str, options: &ExperimentOptions, folder: &Path) -> Result<(Entry, Comparison)> {
    let Conducted { plan, runs, comparison } = experiments::conducted(studies::find(name)?, options)?;
    let subject = reporting::of_experiment(&studies::find(name)?, &plan, runs)?;
    let (title, about, file) = (subject.title.clone(), subject.about.clone(), format!("{name}.html"));
    let asked =
        PageRequest { command: reporting::command_line(), strips: Some(Vec::new()), quiet: options.quiet() };
    let outcome = reporting::write(subject, &asked, &folder.join(&file))?.outcome;
    Ok((Entry { title, about, file, outcome }, comparison))
}

fn list(json: bool) -> Result<()> {
    let all = studies::STUDIES.iter().map(|(name, _)| studies::find(name)).collect::<Result<Vec<_>>>()?;
    if json {
        let row = |name: &str, about: &str| serde_json::json!({ "name": name, "about": about });
        let mut rows: Vec<_> = all.iter().map(|s| row(&s.name, &s.about)).collect();
        rows.push(row(reports::NAME, reports::ABOUT));
        return output::json_as("schedlab/studies/1", &serde_json::json!({ "studies": rows }));
    }
    output::result(|out| {
        let line = |name: &str, about: &str| wrap(&format!("{name:<20} "), about);
        all.iter().try_for_each(|s| write!(out, "{}", line(&s.name, &first_sentence(&s.about))))?;
        write!(out, "{}", line(reports::NAME, reports::ABOUT))
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
