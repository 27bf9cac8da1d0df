//! `schedlab suite`: what does a change break? Runs the fixed set of loads under a variant and its baseline.

use crate::cli::Entry;
use crate::common;
use crate::experiments::{self, ExperimentOptions};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::Backend;
use schedlab_lab::make::plan;
use schedlab_lab::search::suite;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct SuiteArgs {
    /// The kernel with its changes: v6.5+SIS_FIRST_IDLE+NO_WA_IDLE, v6.5:hz=1000,policy=batch, or with a name of its
    /// own NAME=KERNEL:CHANGE,...; several are each compared with the baseline. A series (6.1) or a bzImage is for
    /// --backend vm, and 'running' for --backend host
    #[arg(value_name = "VARIANT", required = true)]
    wanted: Vec<String>,
    /// What it is compared with, written in the same way [default: the first variant's kernel without its changes]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// Fewer and shorter runs
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    options: ExperimentOptions,
}

fn command() -> Command {
    SuiteArgs::augment_args(Command::new("suite"))
        .about("Run the fixed set of loads under a change, and list what it loses and gains")
        .mut_arg("format", |arg| {
            arg.default_value("ranked")
                .help("Form of the result: ranked, table, detail, lkml, markdown or csv")
        })
        .mut_arg("machine", |arg| {
            arg.help(format!(
                "Machine of the loads [default: {}]: as in experiments; may be given more than once",
                suite::DEFAULT_MACHINE
            ))
        })
        .mut_arg("variant", |arg| arg.hide(true))
}

fn run(matches: &ArgMatches) -> Result<()> {
    let mut args = SuiteArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.options.check()?;
    let (baseline, others) = suite::compared(args.baseline.as_deref(), &args.wanted)?;
    let backend = args.options.backend();
    // This host is a machine of its own.
    let machines = if backend == Backend::Host { Vec::new() } else { args.options.take_machines() };
    for name in &machines {
        common::machine(name, None).map_err(|e| e.context("--machine"))?;
    }
    let experiment = suite::experiment(&suite::SuiteRequest {
        baseline: &baseline,
        variants: &others,
        machines: &machines,
        quick: args.quick,
        host_cpus: common::cpus(),
    })?;
    plan::check_compares(&experiment, backend)?;
    experiments::conduct_suite(experiment, &args.options)
}
