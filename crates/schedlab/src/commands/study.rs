//! `schedlab study`: lists or runs the experiments that ship with schedlab.

use crate::experiments::{self, Conducted, ExperimentOptions};
use crate::reporting::{self, PageRequest};
use crate::{cli, output, published, reports};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Backend, Error, Result, temp};
use schedlab_compare::Comparison;
use schedlab_lab::ask::studies;
use schedlab_report::html::{Entry, index};
use schedlab_report::text::wrap;
use std::path::{Path, PathBuf};

pub const ENTRY: cli::Entry = cli::Entry { command, run };

#[derive(Args)]
struct StudyArgs {
    /// The study to run; without a name the studies are listed. 'reports' runs the public reports, 'published' the
    /// posted series whose changes were published
    name: Option<String>,
    /// Of 'reports' and 'published': these only; of 'published' also files of series
    #[arg(value_name = "NAME|FILE")]
    only: Vec<String>,
    /// Of 'published': only the loads that take little time
    #[arg(long)]
    quick: bool,
    /// Of 'published': run nothing, and judge the values in this file of --keep [default: those that ship with
    /// schedlab]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["quick", "keep"])]
    kept: Option<Option<PathBuf>>,
    /// Of 'published': keep the values of the loads that are run in this file, beside those of other loads
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Run every study
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Then write a report of the stored runs of each study into this folder, and an index of them
    #[arg(short = 'o', long = "report", value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    options: ExperimentOptions,
}

impl StudyArgs {
    /// Refuses options that only 'published' has.
    fn of_published(&self) -> Result<()> {
        let given =
            [("--quick", self.quick), ("--kept", self.kept.is_some()), ("--keep", self.keep.is_some())];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                let text = format!("{option} is for 'published'");
                Err(Error::input(text).help("--load NAME runs one load of a study"))
            }
            None => Ok(()),
        }
    }
}

fn command() -> Command {
    StudyArgs::augment_args(Command::new("study"))
        .about("List the studies that ship with schedlab, or run one")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let mut args = StudyArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let name = args.name.as_deref();
    if name == Some(published::NAME) && matches.value_source("backend") == Some(ValueSource::DefaultValue) {
        args.options.set_backend(Backend::Code);
    }
    args.options.check()?;
    match name {
        Some(reports::NAME) => return judge_claims(&args, Claims::Reports),
        Some(published::NAME) => return judge_claims(&args, Claims::Published),
        _ => {}
    }
    if let Some(odd) = args.only.first() {
        let text = format!("'{odd}' after the study's name");
        return Err(Error::input(text).help("only 'reports' and 'published' take names"));
    }
    args.of_published()?;
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

/// What is held against what others reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// Public reports, by our rules.
    Reports,
    /// Published changes of posted series, by the kernel's own code.
    Published,
}

/// Runs the experiments of public reports or posted series, and prints how far the runs show what was reported.
fn judge_claims(args: &StudyArgs, claims: Claims) -> Result<()> {
    let options = &args.options;
    let (name, backend) = match claims {
        Claims::Reports => (reports::NAME, Backend::Sim),
        Claims::Published => (published::NAME, Backend::Code),
    };
    let form = options.form()?.name;
    if !["table", "markdown", "json"].contains(&form) {
        return Err(Error::input(format!("{name} has no form '{form}'")).help("table, markdown or json"));
    }
    if args.report.is_some() {
        return Err(Error::input("--report is for studies whose runs are compared").help("leave it out"));
    }
    if let Some(option) = options.beyond_claims(backend, claims == Claims::Published) {
        let text = format!("{option} does not go with {name}: what was reported decides what is shown");
        return Err(Error::input(text).help(format!("'schedlab study {name} NAME' runs one of them")));
    }
    if claims == Claims::Published {
        let ask = published::Ask { names: &args.only, quick: args.quick, keep: args.keep.as_deref() };
        let all = args.kept.as_ref().map_or_else(|| ask.run(options), |file| ask.kept(file.as_deref()))?;
        return match form {
            "json" => output::json_as("schedlab/published/1", &serde_json::json!({ "series": all })),
            "markdown" => output::result(|out| schedlab_report::published::markdown(&all, out)),
            _ => output::result(|out| schedlab_report::published::text(&all, out)),
        };
    }
    args.of_published()?;
    let all = reports::judged(&args.only, options)?;
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
        rows.extend([row(reports::NAME, reports::ABOUT), row(published::NAME, published::ABOUT)]);
        return output::json_as("schedlab/studies/1", &serde_json::json!({ "studies": rows }));
    }
    output::result(|out| {
        let line = |name: &str, about: &str| wrap(&format!("{name:<20} "), about);
        all.iter().try_for_each(|s| write!(out, "{}", line(&s.name, &first_sentence(&s.about))))?;
        write!(out, "{}", line(reports::NAME, reports::ABOUT))?;
        write!(out, "{}", line(published::NAME, published::ABOUT))
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
