//! `schedlab runs`: lists, shows and removes stored runs. It only removes with `--yes`; without it, it prints the runs
//! that it would remove.

use crate::cli::Entry;
use crate::output;
use crate::rerun_command;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, counted, one_or};
use schedlab_compare::comparison::stored::{self, Checked};
use schedlab_compare::comparison::{Comparison, overview, params_of_run};
use schedlab_compare::runs::{self, Chosen, Filter, ListedCell};
use schedlab_compare::{Question, compare};
use schedlab_lab::ask::verdict;
use schedlab_record::store_listing::{HeldRun, RunHead, holdings, remove_run, remove_unfinished};
use schedlab_record::{Record, RunDir};
use schedlab_report::number::parameters;
use schedlab_report::runs::{list, size, title};
use schedlab_report::text::wrap;
use schedlab_report::{Exporter, run as one_run, table};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

/// Which cells of which store.
#[derive(Args)]
pub struct Choice {
    /// Where the runs are stored
    #[arg(long, global = true, value_name = "DIR", default_value = "runs")]
    pub out: PathBuf,
    /// Only this load; this filter and the others may be given more than once
    #[arg(long, global = true, value_name = "NAME")]
    load: Vec<String>,
    /// Only this variant
    #[arg(long, global = true, value_name = "NAME")]
    variant: Vec<String>,
    /// Only this machine
    #[arg(long, global = true, value_name = "NAME")]
    machine: Vec<String>,
    /// Only this workload
    #[arg(long, global = true, value_name = "NAME")]
    workload: Vec<String>,
    /// Only this backend: sim, host, vm or code
    #[arg(long, global = true, value_name = "BACKEND")]
    backend: Vec<String>,
}

impl Choice {
    /// The filter that these options describe.
    pub fn filter(&self) -> Filter {
        Filter {
            load: self.load.clone(),
            variant: self.variant.clone(),
            machine: self.machine.clone(),
            workload: self.workload.clone(),
            backend: self.backend.clone(),
        }
    }
    fn cells(&self) -> Result<Vec<ListedCell>> {
        self.filter().choose(runs::list(&self.out)?)
    }
}

#[derive(Args)]
struct RunsArgs {
    #[command(flatten)]
    choice: Choice,
    /// The result as JSON
    #[arg(long, global = true)]
    json: bool,
}

const NAMES: &str = "cell";
const YES: &str = "yes";
const LIVE: &str = "live";
const CHECK: &str = "check";

fn command() -> Command {
    let yes = || {
        Arg::new(YES)
            .long(YES)
            .action(ArgAction::SetTrue)
            .help("Remove them; without it they are only listed")
    };
    let cells =
        |about: &'static str| Arg::new(NAMES).value_name("CELL").action(ArgAction::Append).help(about);
    let ls = Command::new("ls")
        .about("List the cells of a store, one line each; the same as 'schedlab runs' alone");
    let show = Command::new("show")
        .about("Show one cell or run: its metrics, its environment, and how to make it again")
        .arg(cells("First digits of a cell, DIGITS/SEED, or the folder of either [default: the one cell that passes the filters]").num_args(0..=1));
    let rm = Command::new("rm")
        .about("Remove cells or runs")
        .arg(
            cells(
                "First digits of cells, DIGITS/SEED, or their folders [default: all that pass the filters]",
            )
            .num_args(0..),
        )
        .arg(yes());
    let live = Arg::new(LIVE)
        .long(LIVE)
        .action(ArgAction::SetTrue)
        .help("Also remove older versions' measurements in real time, which can't be made again");
    let gc = Command::new("gc")
        .about("Remove the runs that this version would not find again: those of older versions, and remains of unfinished ones")
        .arg(live)
        .arg(yes());
    let index = Command::new("index")
        .about("Make a store's index anew, which spares comparisons of thousands of runs reading all records")
        .arg(
            Arg::new(CHECK)
                .long(CHECK)
                .action(ArgAction::SetTrue)
                .help("Compare it with the records instead; exit code 1 if it says something else"),
        );
    RunsArgs::augment_args(Command::new("runs"))
        .about("List, show, remove and index stored runs")
        .subcommand_value_name("WORD")
        .disable_help_subcommand(true)
        .subcommands([ls, show, rm, gc, index])
}

fn run(matches: &ArgMatches) -> Result<()> {
    let (word, inner) = matches.subcommand().unwrap_or(("ls", matches));
    let args = RunsArgs::from_arg_matches(inner).map_err(|e| Error::internal(e.to_string()))?;
    let names = || inner.get_many::<String>(NAMES).into_iter().flatten().cloned().collect::<Vec<_>>();
    match word {
        "show" => show(&args, names().first().map(String::as_str)),
        "rm" => rm(&args, &names(), inner.get_flag(YES)),
        "gc" => gc(&args, inner.get_flag(LIVE), inner.get_flag(YES)),
        "index" => index(&args, inner.get_flag(CHECK)),
        _ => ls(&args),
    }
}

/// Makes or checks the index of a store. Filters are ignored: the index covers all runs.
fn index(args: &RunsArgs, check: bool) -> Result<()> {
    let root = &args.choice.out;
    if !args.choice.filter().is_empty() {
        return Err(Error::input("an index is of a whole store").help("leave the filters out"));
    }
    let cells = holdings(root)?;
    let runs: Vec<RunDir> = cells.into_iter().flat_map(|c| c.runs).map(|held| held.run).collect();
    if !check {
        let rows = stored::rebuild(root, &runs)?;
        if args.json {
            return output::json_as("schedlab/indexed/1", &serde_json::json!({ "rows": rows }));
        }
        return output::result(|out| writeln!(out, "{}: {} indexed", root.display(), counted(rows, "run")));
    }
    let Checked { right, missing, wrong } = stored::check(root, &runs)?;
    if args.json {
        let result = serde_json::json!({ "right": right, "missing": missing, "wrong": wrong });
        output::json_as("schedlab/index-check/1", &result)?;
    } else {
        output::result(|out| {
            writeln!(
                out,
                "{} {} with {}; {} {} no row",
                counted(right, "row"),
                one_or(right, "agrees", "agree"),
                one_or(right, "its record", "their records"),
                counted(missing, "run"),
                one_or(missing, "has", "have")
            )?;
            wrong.iter().try_for_each(|run| writeln!(out, "{}: its row is wrong", run.display()))
        })?;
    }
    match wrong.len() {
        0 => Ok(()),
        n => Err(Error::new(
            ErrorKind::CheckFailed,
            format!("{} of the index {} wrong", counted(n, "row"), one_or(n, "is", "are")),
        )
        .help("'schedlab runs index' makes it anew")),
    }
}

fn ls(args: &RunsArgs) -> Result<()> {
    let cells = args.choice.cells()?;
    if args.json {
        let store = args.choice.out.display().to_string();
        return output::json_as("schedlab/runs/1", &serde_json::json!({ "store": store, "cells": cells }));
    }
    output::result(|out| list(&cells, out))
}

/// The cell that a name means, or the only one that passes the filters.
fn chosen(args: &RunsArgs, name: Option<&str>) -> Result<Chosen> {
    let cells = args.choice.cells()?;
    match (name, &cells[..]) {
        (Some(name), _) => runs::find(&cells, name),
        (None, [cell]) => Ok(Chosen { cell: cell.clone(), seed: None }),
        (None, _) => {
            let text = format!("{} cells are left, but only one can be shown", cells.len());
            let help = "'schedlab runs' lists them; name one by its first digits, or choose with --load, --variant, \
                        --machine";
            Err(Error::input(text).help(help))
        }
    }
}

/// The JSON of `show`.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    cell: ListedCell,
    seed: Option<u64>,
    model: u32,
    params: serde_json::Value,
    changes: Vec<String>,
    again: Option<String>,
    environment: std::collections::BTreeMap<String, String>,
    warnings: Vec<schedlab_compare::comparison::CountedWarning>,
    metrics: std::collections::BTreeMap<String, schedlab_compare::comparison::CellStat>,
}

fn show(args: &RunsArgs, name: Option<&str>) -> Result<()> {
    let Chosen { cell, seed } = chosen(args, name)?;
    let held: Vec<&HeldRun> = cell.held.runs.iter().filter(|r| seed.is_none_or(|s| s == r.seed)).collect();
    let records = held.iter().map(|r| r.run.record()).collect::<Result<Vec<Record>>>()?;
    let (Some(first), Some(run)) = (records.first(), held.first()) else {
        let text = format!("{} has no finished run", cell.folder);
        return Err(Error::input(text).help("'schedlab runs gc' removes the remains of unfinished runs"));
    };
    let comparison =
        compare(&records, &Question { metrics: overview(&records), ..Question::default() }, &[])?;
    let seeds: Vec<u64> = held.iter().map(|r| r.seed).collect();
    let again = rerun_command::line(first, &run.run, &seeds);
    let mut environment = first.found.environment.clone();
    environment.extend(verdict::of(first).map(|said| (verdict::FACT.to_owned(), said)));
    if args.json {
        let shown = Shown {
            seed,
            model: first.model,
            params: params_of_run(first),
            changes: rerun_command::changes(&first.variant),
            again,
            environment,
            warnings: comparison.warnings,
            metrics: comparison.cells.into_iter().next().map(|c| c.metrics).unwrap_or_default(),
            cell,
        };
        return output::json_as("schedlab/stored/1", &shown);
    }
    let folder = if seed.is_some() { run.run.path.display().to_string() } else { cell.folder.clone() };
    output::result(|out| {
        head(&cell, &seeds, first, &folder, out)?;
        writeln!(out)?;
        metrics(&records, &comparison, out)?;
        writeln!(out, "\nenvironment")?;
        environment.iter().try_for_each(|(k, v)| write!(out, "{}", wrap(&format!("  {k:<24} "), v)))?;
        writeln!(out, "\nto make it again")?;
        let none = "no single command line does it: it needs the experiment that made it";
        again.as_deref().unwrap_or(none).lines().try_for_each(|line| writeln!(out, "  {line}"))
    })
}

fn head(
    cell: &ListedCell,
    seeds: &[u64],
    first: &Record,
    folder: &str,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "{folder}")?;
    write!(out, "{}", wrap("  ", &title(cell, seeds)))?;
    let params = parameters(&first.workload, &params_of_run(first));
    if !params.is_empty() {
        write!(out, "{}", wrap("  ", &params.join(" ")))?;
    }
    // A spec of another version may have another form; the record's own figures do not depend on it.
    let spec = schedlab_lab::stored::rerun::spec_of(first);
    for line in spec.map(|s| s.surroundings()).unwrap_or_default() {
        write!(out, "{}", wrap("  ", &line))?;
    }
    let changes = rerun_command::changes(&first.variant);
    if !changes.is_empty() {
        write!(out, "{}", wrap("  changed: ", &changes.join(", ")))?;
    }
    if let Some(code) = &first.code {
        let text = format!("code of {} by {}, image {}", code.source, code.compiler, code.image_in_short());
        write!(out, "{}", wrap("  ", &text))?;
    }
    let made = if cell.experiments.is_empty() {
        String::new()
    } else {
        format!("made by experiment {}, ", cell.experiments.join(" and "))
    };
    let watched = first.watched().map_or_else(String::new, |how| format!(", watched by {}", how.name()));
    let text = format!("{made}stored {} UTC, {}{watched}", cell.made, size(cell.size_bytes));
    write!(out, "{}", wrap("  ", &text))?;
    if let Some(why) = &cell.outdated {
        write!(out, "{}", wrap("  ", &format!("this version would not find it again: {why}")))?;
    }
    Ok(())
}

/// Prints the metrics: a single run as `bench` prints it, several as means over them.
fn metrics(records: &[Record], comparison: &Comparison, out: &mut dyn Write) -> std::io::Result<()> {
    match records {
        [one] => one_run::Run::of(one).export(out),
        _ => table::Table.export(comparison, out),
    }
}

/// A run, or remains of one, to remove, and the reason.
#[derive(Serialize)]
struct Going {
    folder: String,
    bytes: u64,
    why: String,
    #[serde(skip)]
    what: Leftover,
}

enum Leftover {
    Run(HeldRun),
    Unfinished(PathBuf),
}

impl Going {
    fn run(run: &HeldRun, why: &str) -> Going {
        let (folder, why) = (run.run.path.display().to_string(), why.to_owned());
        Going { folder, bytes: run.bytes, why, what: Leftover::Run(run.clone()) }
    }
    fn unfinished(folder: &Path) -> Going {
        let why = "it was never finished".to_owned();
        Going {
            folder: folder.display().to_string(),
            bytes: 0,
            why,
            what: Leftover::Unfinished(folder.to_owned()),
        }
    }
    fn remove(&self) -> Result<()> {
        match &self.what {
            Leftover::Run(run) => remove_run(run),
            Leftover::Unfinished(folder) => remove_unfinished(folder),
        }
    }
}

fn rm(args: &RunsArgs, names: &[String], yes: bool) -> Result<()> {
    if names.is_empty() && args.choice.filter().is_empty() {
        return Err(Error::input("nothing is named to be removed")
            .help("name cells by their first digits ('schedlab runs' lists them), or choose with --load, --variant, --machine, --workload or --backend"));
    }
    let cells = args.choice.cells()?;
    let mut chosen: Vec<Chosen> = names.iter().map(|n| runs::find(&cells, n)).collect::<Result<_>>()?;
    if names.is_empty() {
        chosen = cells.into_iter().map(|cell| Chosen { cell, seed: None }).collect();
    }
    let mut going: Vec<Going> = Vec::new();
    for Chosen { cell, seed } in &chosen {
        let seeds = seed.as_ref().map_or(&cell.seeds[..], std::slice::from_ref);
        let runs = cell.held.runs.iter().filter(|r| seed.is_none_or(|s| s == r.seed));
        for run in runs {
            let new = Going::run(run, &title(cell, seeds));
            if !going.iter().any(|g| g.folder == new.folder) {
                going.push(new);
            }
        }
    }
    remove(args, going, &Left::default(), yes)
}

/// Numbers of runs that this version would not find again, but that `gc` keeps.
#[derive(Default)]
struct Left {
    /// Runs of a newer version, which would find them.
    newer: usize,
    /// Measurements in real time, which can't be made again.
    live: usize,
}

impl Left {
    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let runs = |n: usize| counted(n, "run");
        if self.newer > 0 {
            writeln!(out, "kept: {} of a newer version", runs(self.newer))?;
        }
        if self.live > 0 {
            writeln!(out, "kept: {} measured in real time; --live removes them, too", runs(self.live))?;
        }
        Ok(())
    }
}

fn gc(args: &RunsArgs, live: bool, yes: bool) -> Result<()> {
    let (mut going, mut left) = (Vec::new(), Left::default());
    for cell in args.choice.cells()? {
        for run in &cell.held.runs {
            // A run with an unreadable record stays: it may be of any version.
            let Ok(head) = RunHead::of(&run.run) else { continue };
            let cells = cell.outdated.as_ref().filter(|_| head.is_live());
            let Some(why) = head.outdated().or_else(|| cells.cloned()) else { continue };
            if head.is_newer() {
                left.newer += 1;
            } else if head.is_live() && !live {
                left.live += 1;
            } else {
                going.push(Going::run(run, &why));
            }
        }
        going.extend(cell.held.abandoned.iter().map(|f| Going::unfinished(f)));
    }
    remove(args, going, &left, yes)
}

/// Prints the runs to remove; with `yes` it removes them first. A run that can't be removed stays and is reported; the
/// others are removed.
fn remove(args: &RunsArgs, mut going: Vec<Going>, left: &Left, yes: bool) -> Result<()> {
    let all = going.len();
    let mut stayed: Vec<Error> = Vec::new();
    if yes {
        going.retain(|g| g.remove().map_err(|e| stayed.push(e)).is_ok());
    }
    let bytes: u64 = going.iter().map(|g| g.bytes).sum();
    if args.json {
        let kept: Vec<String> = stayed.iter().map(Error::to_string).collect();
        let removed = yes && !going.is_empty();
        let result = serde_json::json!({
            "removed": removed, "runs": going, "bytes": bytes, "kept": kept,
            "newer": left.newer, "live": left.live,
        });
        output::json_as("schedlab/removal/1", &result)?;
    } else {
        output::result(|out| {
            match all {
                0 => writeln!(out, "nothing to remove")?,
                _ => print_going(&going, bytes, yes, out)?,
            }
            left.print(out)
        })?;
    }
    stayed.iter().for_each(|e| output::note(&format!("not removed: {e}")));
    match stayed.len() {
        0 => Ok(()),
        n => Err(Error::machine(format!("{n} of {all} could not be removed"))),
    }
}

fn print_going(going: &[Going], bytes: u64, yes: bool, out: &mut dyn Write) -> std::io::Result<()> {
    // Runs of one cell with the same reason share a line.
    for some in going
        .chunk_by(|a, b| a.why == b.why && Path::new(&a.folder).parent() == Path::new(&b.folder).parent())
    {
        let cell = Path::new(&some[0].folder).parent().unwrap_or(Path::new("")).display().to_string();
        let bytes = some.iter().map(|g| g.bytes).sum();
        match some {
            [one] => writeln!(out, "{} ({})", one.folder, size(bytes))?,
            _ => writeln!(out, "{cell}: {} runs ({})", some.len(), size(bytes))?,
        }
        write!(out, "{}", wrap("    ", &some[0].why))?;
    }
    let runs = schedlab_base::things(going.len(), "run");
    match yes {
        true => writeln!(out, "{} {runs} removed, {}", going.len(), size(bytes)),
        false => {
            writeln!(out, "{} {runs}, {}; nothing is removed yet: --yes does it", going.len(), size(bytes))
        }
    }
}
