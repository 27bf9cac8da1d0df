//! `schedlab gate`: a history of many days, commits and machines, and one verdict on it.

use crate::cli::Entry;
use crate::commands::compare::named_runs;
use crate::commands::runs::Choice;
use crate::{gate, output};
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use schedlab_base::{Error, Result, counted, temp};
use schedlab_compare::Question;
use schedlab_compare::comparison::compare_named;
use schedlab_compare::history::{self, Asked, COLUMNS, Cause, Judged, Origin, Reading, Row};
use schedlab_compare::runs::Filter;
use schedlab_compare::stats::Verdict;
use schedlab_record::Better;
use schedlab_report::{gate as report, html};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Table,
    Markdown,
}

#[derive(Args)]
struct GateArgs {
    /// A CSV file, or a folder of them that are read as one: a value of one run in each line, or a column for each
    /// metric; '--add' makes it
    #[arg(value_name = "HISTORY")]
    history: PathBuf,
    /// Add the own results of these runs, and judge nothing: names of stored runs and saved outputs as 'compare' takes
    /// them
    #[arg(long, value_name = "RUNS", num_args = 1..)]
    add: Vec<String>,
    /// With --add: the commit that was measured [default: the variant's name]
    #[arg(long, value_name = "NAME", requires = "add")]
    commit: Option<String>,
    /// With --add: the day, 2026-11-30 or 2026-11-30T12:00 [default: today]
    #[arg(long, value_name = "DATE", requires = "add")]
    date: Option<String>,
    /// With --add: the machine's name in the history [default: that of the runs]
    #[arg(long = "as", value_name = "MACHINE", requires = "add")]
    machine_name: Option<String>,
    /// Only this metric; may be given more than once
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// The column of the file that holds this: date, commit, machine, workload, load, run, metric, unit, better or
    /// value [default: the usual names]; may be given more than once
    #[arg(long, value_name = "WHAT=NAME")]
    column: Vec<String>,
    /// The good direction of metrics that do not say it: lower, higher or neither, or METRIC=lower; may be given more
    /// than once
    #[arg(long, value_name = "[METRIC=]DIRECTION")]
    better: Vec<String>,
    /// Only changes that were beyond chance on this day or later: those before it are known
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// Smallest change that counts, percent [default: 2]
    #[arg(long, value_name = "PERCENT")]
    min_effect: Option<f64>,
    /// Form of the result: table (fit for a mail) or markdown
    #[arg(long, value_name = "FORM", default_value = "table", conflicts_with = "json")]
    format: Form,
    /// The result as JSON (docs/formats.md)
    #[arg(long)]
    json: bool,
    /// One HTML page, too, with the course of each metric and its changes
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the series as JUnit XML into this file, too: those with a verdict of --fail-on fail [default: worse]
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Exit with 1 and name the changes if any has this verdict: worse, unclear (too few days), changed, better or
    /// same; several with commas between
    #[arg(long, value_name = "VERDICT[,...]", value_delimiter = ',', value_parser = gate::verdict)]
    fail_on: Vec<Verdict>,
    #[command(flatten)]
    choice: Choice,
}

fn command() -> Command {
    GateArgs::augment_args(Command::new("gate")).about(
        "Judge a history of many days, commits and machines: what changed for good, when, and where, and what \
         only drifted",
    )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = GateArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if !args.add.is_empty() {
        return add(&args);
    }
    let pct = args.min_effect.unwrap_or(Asked::default().min_effect_pct);
    if !(0.0..=100.0).contains(&pct) {
        return Err(Error::input(format!("--min-effect {pct} is not 0 to 100 percent")));
    }
    for (option, file) in [("--output", &args.output), ("--junit", &args.junit)] {
        file.as_deref().map_or(Ok(()), |file| temp::check_place(file).map_err(|e| e.context(option)))?;
    }
    let mut rows = history::history(&args.history, &reading(&args)?)?;
    choose(&mut rows, &args.choice.filter())?;
    let judged = history::judge(&rows, &Asked { min_effect_pct: pct, since: args.since.clone() })?;
    if let Some(file) = &args.output {
        temp::write_whole(
            file,
            html::history(&judged, &title(&args.history), &output::version()).as_bytes(),
        )?;
    }
    let failing = if args.fail_on.is_empty() { &[Verdict::Worse][..] } else { &args.fail_on };
    if let Some(file) = &args.junit {
        let mut text = Vec::new();
        report::junit(&judged, failing, &mut text).map_err(|e| Error::internal(format!("JUnit XML: {e}")))?;
        temp::write_whole(file, &text)?;
    }
    match (args.json, args.format) {
        (true, _) => output::json_as("schedlab/gate/1", &judged)?,
        (false, Form::Table) => output::result(|out| report::table(&judged, out))?,
        (false, Form::Markdown) => output::result(|out| report::markdown(&judged, out))?,
    }
    check(&judged, &args.fail_on)
}

/// Keeps the lines of the machines, workloads and loads that were named.
fn choose(rows: &mut Vec<Row>, filter: &Filter) -> Result<()> {
    if !filter.variant.is_empty() || !filter.backend.is_empty() {
        return Err(Error::input("--variant and --backend choose runs to add; a history has neither"));
    }
    let is_in = |names: &[String], name: &String| names.is_empty() || names.contains(name);
    let chosen = |r: &Row| {
        is_in(&filter.machine, &r.machine)
            && is_in(&filter.workload, &r.workload)
            && is_in(&filter.load, &r.load)
    };
    let all = rows.len();
    rows.retain(chosen);
    if rows.is_empty() {
        return Err(Error::input(format!(
            "none of the history's {} passes the filters",
            counted(all, "value")
        ))
        .help("--machine, --workload and --load take names as the history has them"));
    }
    Ok(())
}

fn title(history: &Path) -> String {
    history.file_stem().map_or_else(|| history.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// Fails if a change, or a series without one, has a verdict that was named. A machine's own change never fails.
fn check(judged: &Judged, fail_on: &[Verdict]) -> Result<()> {
    let changes = judged.changes.iter().filter(|c| c.cause != Cause::Machine && fail_on.contains(&c.verdict));
    let mut failed: Vec<String> = changes.map(report::line).collect();
    for calm in [Verdict::Unclear, Verdict::Same].into_iter().filter(|v| fail_on.contains(v)) {
        let n = judged.series.iter().filter(|s| s.verdict == calm).count();
        failed.extend((n > 0).then(|| format!("{}: {n} series", calm.word())));
    }
    let all = format!("{} series", judged.series.len());
    if failed.is_empty() { Ok(()) } else { Err(gate::failure(fail_on, &failed, &all)) }
}

fn reading(args: &GateArgs) -> Result<Reading> {
    let mut reading = Reading { metrics: args.metric.clone(), ..Reading::default() };
    for text in &args.column {
        let (what, name) = text.split_once('=').unwrap_or((text, ""));
        if !COLUMNS.iter().any(|(known, _)| *known == what) || name.is_empty() {
            let known = COLUMNS.map(|(known, _)| known).join(", ");
            return Err(Error::input(format!("--column {text}: not WHAT=NAME"))
                .help(format!("WHAT is one of: {known}")));
        }
        reading.columns.insert(what.to_owned(), name.to_owned());
    }
    for text in &args.better {
        let (metric, word) = text.rsplit_once('=').unwrap_or(("", text));
        reading.better.insert(metric.to_owned(), Better::parse(word).map_err(|e| e.context("--better"))?);
    }
    Ok(reading)
}

fn add(args: &GateArgs) -> Result<()> {
    let (runs, saved, question) = named_runs(&args.add, &args.choice, None)?;
    let question = if args.metric.is_empty() {
        question
    } else {
        Question { metrics: args.metric.clone(), of_load: Default::default(), ..question }
    };
    let comparison = compare_named(&runs, saved, &question)?;
    let origin = Origin {
        date: args.date.as_deref(),
        commit: args.commit.as_deref(),
        machine: args.machine_name.as_deref(),
        metrics: &args.metric,
    };
    let (added, there) = history::add(&args.history, &comparison, &origin)?;
    if args.json {
        return output::json_as(
            "schedlab/gate-added/1",
            &serde_json::json!({"added": added, "there": there}),
        );
    }
    let known = if there == 0 { String::new() } else { format!("; {there} were there") };
    output::note(&format!("{}: {} added{known}", args.history.display(), counted(added, "value")));
    Ok(())
}
