//! `schedlab try`: a patch from mail to verdict. Builds the base and the patched kernel, runs a fixed set of loads
//! under both, in deterministic guests or on their scheduler's own code, and prints one page.

use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::gate::{self, GateOptions};
use crate::guests::GuestOptions;
use crate::listener::Shown;
use crate::outlets::{self, OutletOptions};
use crate::{common, output, published};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, counted};
use schedlab_compare::Comparison;
use schedlab_lab::ask::experiment::{MAX_RUNS, Part};
use schedlab_lab::make::budget::Budget;
use schedlab_lab::search::trial::{self, Asked};
use schedlab_lab::{Backend, Lab, Options, RunRequest};
use schedlab_report::trial::page;
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
    fn asked(&self) -> Result<Asked<'_>> {
        Ok(Asked {
            patches: &self.patch,
            source: self.source.as_deref(),
            config: self.config.as_deref(),
            features: &self.feature,
            machines: &self.machine,
            request: RunRequest {
                part: Part {
                    loads: self.load.clone(),
                    metrics: self.outlets.with_metrics(&self.metric),
                    ..Part::default()
                },
                wanted: Options { runs: self.runs, seed: self.seed, ..Options::default() },
                jobs: self.jobs,
                guest: self.keep.guest.setup()?,
                level: self.code.level()?,
                out: self.keep.out.clone(),
                budget: self.budget,
                ..RunRequest::trial(self.backend)
            },
        })
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
    args.keep.guest.check(args.backend)?;
    args.code.check(args.backend)?;
    let (backends, shown) = (common::backends(None)?, Shown::new(args.keep.quiet));
    let lab = Lab::here(&backends, &shown);
    let ran = args.asked()?.run(&lab)?;
    if let Some(file) = &args.outlets.junit {
        outlets::junit(&ran.compared.comparison, args.gate.failing(), file)?;
    }
    if let Some(metric) = &args.outlets.print {
        outlets::print(&ran.compared.comparison, metric)?;
        return judged(&args, &ran.compared.comparison, ran.compared.unfinished);
    }
    let (new, found) = (ran.compared.new, ran.compared.found);
    let named = ran.named();
    let mut tried = ran.tried(&lab)?;
    if args.backend == Backend::Code {
        tried.comparison.warnings.extend(published::doubted(named.iter().map(String::as_str))?);
    }
    if args.keep.json {
        if let Err(why) = &tried.reached {
            output::note(&format!("visits of the patch's lines were not counted: {why}"));
        }
        output::json_as("schedlab/trial/1", &tried)?;
        return judged(&args, &tried.comparison, tried.unfinished);
    }
    output::result(|out| page(&tried, args.all, out))?;
    if !args.keep.quiet {
        let out = args.keep.out.display();
        output::note(&format!("{} made, {found} found; kept in {out}", counted(new, "run")));
    }
    judged(&args, &tried.comparison, tried.unfinished)
}

/// What was asked to be judged, after the result is shown. A load that stood still under the patch fails unasked.
fn judged(args: &TryArgs, comparison: &Comparison, unfinished: Option<Error>) -> Result<()> {
    if let Some(unfinished) = unfinished {
        return Err(unfinished);
    }
    if args.outlets.junit.is_some() {
        gate::some_row("--junit", &[comparison])?;
    }
    args.gate.check(comparison)?;
    gate::none_stopped(comparison)
}
