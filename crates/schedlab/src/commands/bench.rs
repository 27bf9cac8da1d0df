//! `schedlab bench`: runs one workload, once or several times, with the options of the original tool, and prints its
//! form of output where asked for.

use super::knee;
use crate::cli::Entry;
use crate::external::{self, External};
use crate::listener::Shown;
use crate::progress::Bar;
use crate::timing::Timed;
use crate::workloads::{self, RunPlace};
use crate::{cells, common, interrupt, outlets, output};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Ns, Result};
use schedlab_compare::comparison::overview;
use schedlab_compare::knees::Limit;
use schedlab_compare::tools::check_installed;
use schedlab_compare::uncertainty::DEFAULT_DRAWS;
use schedlab_compare::{Question, compare};
use schedlab_guest::Mode;
use schedlab_lab::Backends;
use schedlab_lab::ask::cell::Cell;
use schedlab_lab::ask::cell::folders;
use schedlab_lab::ask::guests;
use schedlab_lab::search::knee::Raised;
use schedlab_lab::{Backend, Executor, Lab, Made};
use schedlab_record::{Record, Store, Stored};
use schedlab_report::{no_schbench, run as one_run, schbench, schbench2016, slice};
use schedlab_workload::{Benchmark, Spec};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

const AUTO: &str = "auto";
const FILE: &str = "file";
const FORMS: &[&str] = &["table", "schbench-2016", "schbench", "slice"];

#[derive(Args)]
struct BenchArgs {
    #[command(flatten)]
    place: RunPlace,
    /// Runs of each kernel, in A B B A order; several print means and spreads [default: 1, with --uncertainty 40]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: Option<u64>,
    /// Seed of the first run [default: 1 where runs repeat (sim, deterministic guests), else the next one not in DIR]
    #[arg(long, global = true, value_name = "S")]
    seed: Option<u64>,
    /// Where the run is stored
    #[arg(long, global = true, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Form of the result: table, schbench-2016, schbench or slice
    #[arg(long, global = true, value_name = "FORM", default_value = "table")]
    format: String,
    /// The result as JSON (docs/formats.md)
    #[arg(long, global = true)]
    json: bool,
    /// Print one number and nothing else: this metric of the run, times in ns
    #[arg(long, global = true, value_name = "METRIC", conflicts_with_all = ["json", "format"])]
    print: Option<String>,
    /// Print on standard error how fast the simulator was
    #[arg(long, global = true)]
    timing: bool,
    /// No progress and no notes on standard error
    #[arg(long, short, global = true)]
    quiet: bool,
}

fn command() -> Command {
    let about = "Run one workload, once or several times, on this kernel or simulated";
    let command = External::augment_args(BenchArgs::augment_args(Command::new("bench")))
        .about(about)
        .args(workloads::file_args(FILE))
        .override_usage("schedlab bench [OPTIONS] <WORKLOAD|FILE|--command LINE|--tool NAME>")
        .arg_required_else_help(true);
    workloads::with_benchmarks(command, |b| vec![auto(b)])
}

/// `--auto` for every benchmark, and its short form `-a` of schbench where that letter is free.
fn auto(bench: &Benchmark) -> Arg {
    let stat = if Limit::usual(bench).starts_with("mean") { "the mean" } else { "p99" };
    let help = format!("raise --{} until {stat} reaches 2 ms", bench.load_param.replace('_', "-"));
    let arg =
        Arg::new(AUTO).long(AUTO).help_heading(workloads::HEADING).action(ArgAction::SetTrue).help(help);
    if bench.params.iter().any(|p| p.short == Some('a')) { arg } else { arg.short('a') }
}

fn run(matches: &ArgMatches) -> Result<()> {
    let chosen = workloads::chosen(matches)?;
    // Options that all workloads have may stand before or after the workload's name.
    let args = BenchArgs::from_arg_matches(chosen.map_or(matches, |(_, sub)| sub));
    let args = args.map_err(|e| Error::internal(e.to_string()))?;
    let form = common::form_of(args.json, &args.format)?;
    if !args.json && !FORMS.contains(&form) {
        return Err(Error::unknown("format", form, FORMS.iter().copied()));
    }
    let asked = External::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if asked.tools {
        return external::list(form == "json");
    }
    let wanted = asked.wanted(common::cpus())?;
    let spec = match (chosen, matches.get_one::<String>(FILE)) {
        (None, None) if wanted.is_some() => return once_a_command(&args, wanted, form),
        _ if wanted.is_some() => {
            return Err(Error::input("a command and another workload").help("run one, then the other"));
        }
        (Some((bench, sub)), _) => {
            workloads::no_file_options(bench, matches)?;
            workloads::described(bench, sub, args.place.usual_runtime()?)?
        }
        (None, Some(file)) => workloads::in_file(file, matches)?,
        (None, None) => return Err(Error::input("no workload").help("schedlab bench --help lists them")),
    };
    if let Some((bench, _)) = chosen.filter(|(_, sub)| sub.get_flag(AUTO)) {
        let raised = Raised::of(&spec)?;
        let usual = if args.place.uncertainty { DEFAULT_DRAWS } else { 1 };
        let search = knee::KneeSearch {
            limit: Limit::usual(bench).to_owned(),
            runs: args.runs.unwrap_or(usual),
            max_load: None,
            json: form == "json",
            plot: None,
            quiet: args.quiet,
            raised,
            spec,
        };
        let variants = args.place.variants(args.quiet)?;
        return knee::search_and_print(&args.place, variants, search, args.seed.unwrap_or(1));
    }
    once(&args, spec, form)
}

fn once(args: &BenchArgs, spec: Spec, form: &str) -> Result<()> {
    let all = args.place.variants(args.quiet)?.into_iter().map(|v| args.place.cell(spec.clone(), v));
    let mut all = all.collect::<Result<Vec<_>>>()?;
    if all.len() > 1 && args.place.backend()? == Backend::Vm {
        let twins = twins(args, &all)?;
        all.extend(twins);
    }
    run_cells(args, &all, form)
}

/// The simulations to compare with guests of several kernels; images of one series share a simulation.
fn twins(args: &BenchArgs, guests: &[Cell]) -> Result<Vec<Cell>> {
    let (mut twins, mut known) = (Vec::new(), Vec::new());
    for cell in guests {
        match guests::twin(cell) {
            Ok(twin) if known.contains(&twin.hash()?) => {}
            Ok(twin) => {
                known.push(twin.hash()?);
                twins.push(twin);
            }
            Err(e) if args.quiet || e.kind() != ErrorKind::Input => {}
            Err(e) => {
                output::note(&format!("{} is not simulated as well: {}", cell.variant.name, e.message()))
            }
        }
    }
    Ok(twins)
}

fn once_a_command(args: &BenchArgs, wanted: Option<external::CommandWorkload>, form: &str) -> Result<()> {
    let Some(external::CommandWorkload { spec, load }) = wanted else { return Ok(()) };
    if let (Backend::Host, Spec::Command(command)) = (args.place.backend()?, &spec) {
        check_installed(command)?;
    }
    let one = |variant| {
        let cell = args.place.cell(spec.clone(), variant)?;
        Ok(Cell { load: load.clone().unwrap_or(cell.load), ..cell })
    };
    let all = args.place.variants(args.quiet)?.into_iter().map(one);
    run_cells(args, &all.collect::<Result<Vec<_>>>()?, form)
}

/// Refuses a form that can't show the workload, before the run is made.
fn check_form(form: &str, workload: &str) -> Result<()> {
    let fits = match form {
        "schbench" => schbench::prints(workload),
        "schbench-2016" => schbench2016::prints(workload),
        "slice" if !slice::prints(workload) => return Err(slice::none_in(workload)),
        _ => true,
    };
    if fits { Ok(()) } else { Err(no_schbench(workload)) }
}

/// Makes the runs of the cells; several kernels are compared side by side.
fn run_cells(args: &BenchArgs, cells: &[Cell], form: &str) -> Result<()> {
    let usual = if args.place.uncertainty { DEFAULT_DRAWS } else { 1 };
    let runs = args.runs.unwrap_or(usual);
    if args.print.is_some() && (runs > 1 || cells.len() > 1) {
        return Err(Error::input("--print prints the number of one run of one kernel")
            .help("schedlab run and schedlab compare have --print, too, for means over runs"));
    }
    if args.place.uncertainty || runs > 1 {
        return many(args, cells, runs, form);
    }
    let store = Store::create(&args.out)?;
    let backends = args.place.backends(store.root())?;
    if let [cell] = cells {
        check_form(form, cell.spec.name())?;
        let (record, stored) = run_cell(args, cell, &store, &backends)?;
        match &args.print {
            Some(metric) => outlets::print_of_run(&record, metric)?,
            None => print(&record, form)?,
        }
        return print_place(args, cell, record.seed, &stored);
    }
    if !["table", "json"].contains(&form) {
        let text = format!("--format {form} shows one run, and there are {} kernels", cells.len());
        return Err(Error::input(text).help("--format table or --json sets them side by side"));
    }
    let made =
        cells.iter().map(|cell| run_cell(args, cell, &store, &backends)).collect::<Result<Vec<_>>>()?;
    let (records, stored): (Vec<Record>, Vec<Stored>) = made.into_iter().unzip();
    let folders = folders(cells, store.root())?;
    let question = Question { metrics: overview(&records), ..Question::default() }.kept_in(folders);
    common::show(&compare(&records, &question, &[])?, schedlab_report::form(form)?)?;
    let all = cells.iter().zip(&records).zip(&stored);
    all.into_iter().try_for_each(|((cell, record), stored)| print_place(args, cell, record.seed, stored))
}

fn run_cell(args: &BenchArgs, cell: &Cell, store: &Store, backends: &Backends) -> Result<(Record, Stored)> {
    let seed = seed(args.seed, std::slice::from_ref(cell), 1, store)?;
    let made = make(args, cell, seed, backends)?;
    let stored = made.put(store, &cell.hash()?, seed, &[])?;
    Ok((made.record, stored))
}

/// Says where the run is kept.
fn print_place(args: &BenchArgs, cell: &Cell, seed: u64, stored: &Stored) -> Result<()> {
    match stored {
        Stored::Kept(run) if !repeats(cell) => {
            let text = format!("a run with seed {seed} was in {} before and is kept", run.path.display());
            output::note(&format!("warning: {text}; this one is not stored"));
        }
        stored if !args.quiet => output::note(&format!("the run is kept in {}", stored.run().path.display())),
        _ => {}
    }
    Ok(())
}

/// Whether a run of the cell is the same every time.
fn repeats(cell: &Cell) -> bool {
    match cell.backend {
        Backend::Sim | Backend::Code => true,
        Backend::Host => false,
        Backend::Vm => cell.guest.as_ref().is_some_and(|g| g.mode == Mode::Deterministic),
    }
}

/// Makes several runs of each cell, and prints a comparison.
fn many(args: &BenchArgs, cells: &[Cell], runs: u64, form: &str) -> Result<()> {
    if !["table", "json"].contains(&form) {
        let text = format!("--format {form} shows one run, and {runs} are asked for");
        return Err(Error::input(text).help("--format table or --json"));
    }
    let store = Store::create(&args.out)?;
    let backends = args.place.backends(store.root())?;
    let seed = seed(args.seed, cells, runs, &store)?;
    let form = schedlab_report::form(form)?;
    let timed = Timed::new(&backends);
    let shown = Shown { quiet: args.quiet, timed: args.timing.then_some(&timed) };
    let made = Lab::here(&timed, &shown).compared_cells(cells.to_vec(), &store, (runs, seed), Vec::new())?;
    cells::show(&made, &store, form, args.quiet)
}

/// The first seed. Live runs of a cell all differ, so they get seeds that no stored run has. All cells get the same
/// seeds, which makes their runs pairs. Runs that repeat start at seed 1.
fn seed(given: Option<u64>, cells: &[Cell], runs: u64, store: &Store) -> Result<u64> {
    if let Some(seed) = given {
        return Ok(seed);
    }
    let live = cells.iter().filter(|c| !repeats(c)).map(Cell::hash).collect::<Result<Vec<_>>>()?;
    let free = |seed: u64| live.iter().all(|hash| store.get(hash, seed).is_none());
    let first = (1..u64::MAX - runs).find(|s| (*s..*s + runs).all(free));
    first.ok_or_else(|| Error::machine("the store is full of runs of this cell"))
}

fn make(args: &BenchArgs, cell: &Cell, seed: u64, backends: &Backends) -> Result<Made> {
    let stop = interrupt::stop_flag()?;
    let timed = Timed::new(backends);
    let executor: &dyn Executor = if args.timing { &timed } else { backends };
    let length = || cell.spec.build(seed).map(|b| Ns(b.warmup.0.saturating_add(b.duration.0)));
    let bar = match (cell.backend, &cell.spec) {
        (_, Spec::Command(_)) | (Backend::Vm | Backend::Code, _) => Bar::steps(args.quiet),
        (Backend::Host, _) => Bar::countdown(args.quiet, length()?),
        (Backend::Sim, _) if Bar::shows(args.quiet) => {
            Bar::simulated(args.quiet, length()?, &common::SIMULATED)
        }
        (Backend::Sim, _) => Bar::steps(args.quiet),
    };
    bar.say(cell.title());
    let made = executor.run(cell, seed, stop)?;
    drop(bar);
    if args.timing {
        timed.take_table().lines().for_each(output::note);
    }
    made.ok_or_else(|| Error::new(ErrorKind::CheckFailed, "interrupted: nothing of this run is kept"))
}

fn print(record: &Record, form: &str) -> Result<()> {
    let text = match form {
        "json" => return output::json(&one_run::Run::of(record)),
        "schbench-2016" => schbench2016::text(record)?,
        "slice" => slice::text(record)?,
        "schbench" => {
            output::note(&format!("left out, not measured: {}", schbench::left_out(record).join(", ")));
            schbench::text(record)?
        }
        _ => return output::result(|out| one_run::Run::of(record).export(out)),
    };
    common::warn(&record.found.warnings);
    output::result(|out| out.write_all(text.as_bytes()))
}
