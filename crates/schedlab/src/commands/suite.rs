//! `schedlab suite`: what does a change break? Runs the fixed set of loads under a variant and its baseline, or under
//! sched_ext schedulers and the fair class.

use crate::cli::Entry;
use crate::common;
use crate::experiments::{self, ExperimentOptions};
use crate::gate;
use crate::output;
use crate::scheduler_options::SchedulerOptions;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_compare::growth::growth;
use schedlab_kernel::Variant;
use schedlab_lab::Backend;
use schedlab_lab::make::exec::LEFT_OUT;
use schedlab_lab::make::plan;
use schedlab_lab::search::suite;
use schedlab_report::growth as table;

pub const ENTRY: Entry = Entry { command, run };

/// Options of loads and their rows, which --growth does not have.
const OF_LOADS: [&str; 9] =
    ["quick", "format", "junit", "plot", "print", "all_rows", "predict", "budget", "metric"];

#[derive(Args)]
struct SuiteArgs {
    /// The kernel with its changes: v6.5+SIS_FIRST_IDLE+NO_WA_IDLE, v6.5:hz=1000,policy=batch, or with a name of its
    /// own NAME=KERNEL:CHANGE,...; several are each compared with the baseline. A series (6.1) or a bzImage is for
    /// --backend vm, and 'running' for --backend host
    #[arg(value_name = "VARIANT", required_unless_present = "scx", conflicts_with = "scx")]
    wanted: Vec<String>,
    /// What it is compared with, written in the same way [default: the first variant's kernel without its changes]
    #[arg(long, value_name = "VARIANT", conflicts_with = "scx")]
    baseline: Option<String>,
    /// Fewer and shorter runs
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// Instead of the loads: how calls and instructions of each operation grow with CPUs, by one load on flat machines
    /// of 8 to 1,024 CPUs, or on those of --machine. For --fail-on an operation that grows is worse
    #[arg(long, requires = "scx", conflicts_with_all = OF_LOADS, help_heading = "sched_ext")]
    growth: bool,
    #[command(flatten)]
    options: ExperimentOptions,
}

fn command() -> Command {
    SuiteArgs::augment_args(Command::new("suite"))
        .about("Run the fixed set of loads under a change or a sched_ext scheduler, and list what it loses and gains")
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
    let by_schedulers = args.scheduler.asked()?;
    let kernel = if by_schedulers {
        let is_named = matches.value_source("backend") != Some(ValueSource::DefaultValue);
        args.options.set_backend(args.scheduler.backend(is_named.then(|| args.options.backend()))?);
        args.options.take_kernel()?
    } else {
        None
    };
    args.options.check()?;
    let backend = args.options.backend();
    let (baseline, others) = match by_schedulers {
        true => {
            let kernel = args.scheduler.kernel(kernel.as_deref(), backend)?;
            args.scheduler.sides(&Variant::plain(&kernel))?
        }
        false => suite::compared(args.baseline.as_deref(), &args.wanted)?,
    };
    // This host is a machine of its own.
    let machines = if backend == Backend::Host { Vec::new() } else { args.options.take_machines() };
    for name in &machines {
        common::machine(name, None).map_err(|e| e.context("--machine"))?;
    }
    if args.growth {
        if backend != Backend::Code {
            let text = format!("--growth counts instructions of BPF, and backend {backend} does not");
            return Err(Error::input(text).help("leave out --backend"));
        }
        let schedulers = std::iter::once(&baseline).chain(&others).filter(|v| v.scx.is_some());
        return grown(&schedulers.collect::<Vec<_>>(), &machines, &args);
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

/// Prints how operations grow with CPUs.
fn grown(schedulers: &[&Variant], machines: &[String], args: &SuiteArgs) -> Result<()> {
    let experiment = suite::of_growth(schedulers, machines, common::cpus())?;
    let made = experiments::made(experiment, &args.options)?;
    let all = growth(&made.records);
    let left_out = made.comparison.warnings.iter().filter(|w| w.warning.code == LEFT_OUT);
    left_out.for_each(|w| output::note(&format!("warning: {}", w.warning.message)));
    if args.options.form()?.name == "json" {
        output::json_as("schedlab/growth/1", &serde_json::json!({ "schedulers": all }))?;
    } else {
        let kernel = made.records.first().map_or("", |record| record.kernel.as_str());
        output::result(|out| all.iter().try_for_each(|one| table::text(one, kernel, out)))?;
    }
    args.options.gate().check_growth(&all)?;
    gate::none_left_out(&made.comparison)
}
