//! `schedlab try`: a patch from mail to verdict. Builds the base and the patched kernel, runs a fixed set of loads
//! under both, in deterministic guests or on their scheduler's own code, and prints one page.

use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::gate::{self, GateOptions};
use crate::guests::GuestOptions;
use crate::outlets::{self, OutletOptions};
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_compare::predicted::predicted;
use schedlab_compare::trial::Reached;
use schedlab_kernels::diff::ChangedLines;
use schedlab_kernels::{Setting, cache};
use schedlab_lab::ask::builds;
use schedlab_lab::ask::experiment::{MAX_RUNS, Part};
use schedlab_lab::ask::levels::level_on;
use schedlab_lab::make::budget::Budget;
use schedlab_lab::search::trial::{self, Chosen, Trial, Tried};
use schedlab_lab::{Backend, Compared, Options, RunRequest};
use schedlab_machine::Machine;
use schedlab_record::{Observe, Store};
use schedlab_report::trial::{Page, page};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

/// Options of commands that run in deterministic guests.
#[derive(Args)]
pub struct TrialOptions {
    /// Where runs are stored; runs that are there already are not made again
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub out: PathBuf,
    #[command(flatten)]
    pub guest: GuestOptions,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
struct TryArgs {
    /// The patch, applied with -p1: a diff, a mail, a mailbox, a folder of them, - for standard input, or the name of a
    /// patch that ships; several are applied in order
    #[arg(value_name = "PATCH", required = true)]
    patch: Vec<String>,
    /// The base: a series (6.1, 6.12, 7), a tarball, or a tree of your own, which is copied and not written to
    /// [default: the series at hand that the patch fits best; 6.1 for patches that ship, and where none is at hand]
    #[arg(long, value_name = "SERIES|TREE|TARBALL")]
    source: Option<String>,
    /// A fragment of configuration for both kernels, on top of the built-in one
    #[arg(long, value_name = "FRAGMENT")]
    config: Option<String>,
    /// Switch only this feature of those that the patch adds; may be given more than once
    #[arg(long, value_name = "NAME")]
    feature: Vec<String>,
    /// Where both kernels run: vm (whole kernels in guests) or code (their scheduler's code on simulated machines, of
    /// any size and in seconds a run)
    #[arg(long, value_name = "BACKEND", default_value = "vm", value_parser = output::word(trial::backend))]
    backend: Backend,
    /// Machine; may be given more than once [default: smp-8 and icount-8-smt; on backend code smp-8 and x5570-2x4-smt]
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Only this load, or the loads of this workload; may be given more than once
    #[arg(long, value_name = "NAME[@MACHINE]")]
    load: Vec<String>,
    /// Only this metric; may be given more than once
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// What may be used for more runs until each row is decided, loads nearest to a verdict first: a time for all runs
    /// (10m), or a number of further runs [default: half as many as at the first look; none with --runs, and none on
    /// machines of more than 64 CPUs]
    #[arg(long, value_name = "TIME|RUNS", value_parser = Budget::parse)]
    budget: Option<Budget>,
    /// Runs of each load, with --budget at the first look
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RUNS))]
    runs: Option<u64>,
    /// Seed of the first run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Guests side by side; all CPUs by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Show every row below the page, also those that did not change
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    gate: GateOptions,
    #[command(flatten)]
    keep: TrialOptions,
    #[command(flatten)]
    outlets: OutletOptions,
}

impl TryArgs {
    fn budget(&self, machines: &[String]) -> Result<Option<Budget>> {
        let usual = || if self.runs.is_none() { trial::budget(machines) } else { Ok(None) };
        self.budget.map_or_else(usual, |budget| Ok(Some(budget)))
    }
}

fn command() -> Command {
    TryArgs::augment_args(Command::new("try")).about(
        "Try a patch: build it, run it against its base, and report what changed and what it costs. '--backend code' needs \
         neither QEMU nor root and takes any machine: it runs both kernels' scheduler on simulated machines. Building \
         runs code of the patch, as you, on this machine",
    )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = TryArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.outlets.check()?;
    let chosen = trial::choose(&args.patch, args.source.as_deref(), &cache::folder(None)?)?;
    if let Some(why) = chosen.why.as_ref().filter(|_| !args.keep.quiet) {
        output::note(why);
    }
    let Chosen { word: source, patches, changed, .. } = chosen;
    let trial = Trial::of(&source, &args.patch, patches, args.config.as_deref(), &args.feature)?;
    for name in &args.machine {
        common::machine(name, None).map_err(|e| e.context("--machine"))?;
    }
    let backend = args.backend;
    let usual = || trial::machines(backend).iter().map(|name| (*name).to_owned()).collect();
    let machines = if args.machine.is_empty() { usual() } else { args.machine.clone() };
    let experiment = trial.experiment(&machines, common::cpus())?;
    let on: Vec<&Machine> = experiment.machines.iter().collect();
    let level = args.code.level()?.unwrap_or_else(|| level_on("try", &on));
    args.keep.guest.check(backend)?;
    args.code.check(backend)?;
    // An image that is in the cache needs no tools; one that is to be built says what it lacks before any work.
    if backend != Backend::Code {
        builds::ready(true)?;
    }
    let request = RunRequest {
        part: Part {
            loads: args.load.clone(),
            metrics: args.outlets.with_metrics(&args.metric),
            ..Part::default()
        },
        wanted: Options { runs: args.runs, seed: args.seed, observe: Observe::Accounts, uncertainty: false },
        jobs: args.jobs,
        guest: args.keep.guest.setup()?,
        level: (backend == Backend::Code).then_some(level),
        out: args.keep.out.clone(),
        budget: args.budget(&machines)?,
        ..RunRequest::trial(backend)
    };
    let mut made = common::compared_so_far(&request, experiment, args.keep.quiet)?;
    if let Some(file) = &args.outlets.junit {
        outlets::junit(&made.comparison, args.gate.failing(), file)?;
    }
    if let Some(metric) = &args.outlets.print {
        outlets::print(&made.comparison, metric)?;
        return judged(&args, &mut made);
    }
    let options = trial.options(&made.plan);
    let costs = trial::costs(&made.records, &trial);
    let [base, patched] = trial.functions(&made.plan, &Store::create(&args.keep.out)?)?;
    let moved = trial::moved(&base, &patched);
    let predicted = predicted(&made.records, &trial.base.name, &trial.patched.name);
    let reached = reached(&args, &trial, &made, &changed)?;
    let visits = reached.as_deref().unwrap_or_default();
    let kernel = made.comparison.cells.iter().find(|c| c.backend == backend).map(|c| c.kernel.clone());
    let mut source = kernel.unwrap_or(source);
    if backend == Backend::Code {
        source += &format!(" at level {}", level.word());
    }
    if args.keep.json {
        let tried = Tried {
            source: &source,
            features: &trial.features,
            counters: &trial.counters,
            options: &options,
            comparison: &made.comparison,
            costs: &costs,
            functions: &moved,
            predicted: &predicted,
            reached: visits,
        };
        if let Err(why) = &reached {
            output::note(&format!("visits of the patch's lines were not counted: {why}"));
        }
        output::json_as("schedlab/trial/1", &tried)?;
        return judged(&args, &mut made);
    }
    let brought: Vec<String> = options.iter().map(Setting::words).collect();
    let of = Page {
        subject: &trial.subject(),
        source: &source,
        comparison: &made.comparison,
        options: &brought,
        costs: &costs,
        moved: &moved,
        predicted: &predicted,
        reached: reached.as_deref().map_err(String::as_str),
        all: args.all,
    };
    output::result(|out| page(&of, out))?;
    if !args.keep.quiet {
        let out = args.keep.out.display();
        output::note(&format!(
            "{} made, {} found; kept in {out}",
            schedlab_base::counted(made.new, "run"),
            made.found
        ));
    }
    judged(&args, &mut made)
}

/// How often the patch's lines were reached, or what stood in the way: the page is as true without.
fn reached(
    args: &TryArgs,
    trial: &Trial,
    made: &Compared,
    changed: &[ChangedLines],
) -> Result<std::result::Result<Vec<Reached>, String>> {
    let by_code = made.plan.cells.iter().any(|cell| cell.backend == Backend::Code);
    if by_code && made.unfinished.is_some() {
        return Ok(Err("that takes further runs, which come when all others are made".to_owned()));
    }
    let jobs = args.jobs.unwrap_or_else(common::cpus) as usize;
    let found = trial::reached(trial, &made.plan, changed, (jobs, interrupt::stop_flag()?));
    Ok(found.map_err(|e| e.to_string().replace("\n  help: ", "; ")))
}

/// What was asked to be judged, after the result is shown. A load that stood still under the patch fails unasked.
fn judged(args: &TryArgs, made: &mut Compared) -> Result<()> {
    if let Some(unfinished) = made.unfinished.take() {
        return Err(unfinished);
    }
    if args.outlets.junit.is_some() {
        gate::some_row("--junit", &[&made.comparison])?;
    }
    args.gate.check(&made.comparison)?;
    gate::none_stopped(&made.comparison)
}
