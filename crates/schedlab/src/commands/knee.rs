//! `schedlab knee`: the largest load of a workload that keeps a metric under a limit, per variant.

use crate::cli::Entry;
use crate::progress::Bar;
use crate::workloads::{self, RunPlace};
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, temp};
use schedlab_compare::knees::Limit;
use schedlab_compare::metrics::Evaluated;
use schedlab_compare::tools::{self, Template, check_installed, one_word_or_line};
use schedlab_compare::uncertainty::DEFAULT_DRAWS;
use schedlab_kernel::Variant;
use schedlab_lab::Backend;
use schedlab_lab::ask::cell::Cell;
use schedlab_lab::make::watch;
use schedlab_lab::search::knee::{Raised, Search, search};
use schedlab_report::{number, plot};
use schedlab_workload::Spec;
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

const DEFAULT_RUNS: u64 = 3;
const FILE: &str = "file";

#[derive(Args)]
struct KneeArgs {
    #[command(flatten)]
    place: RunPlace,
    /// The limit, e.g. "run_delay.p50 < 100us" [default: p99 < 2ms, or mean < 2ms for a metric with one value a run]
    #[arg(long, global = true, value_name = "LIMIT")]
    limit: Option<String>,
    /// A variant to search, [NAME=]KERNEL[:FEATURE,TUNABLE=N,policy=P,GROUP.nice=N,FEATURE@TIME...]; may be given more
    /// than once
    #[arg(long, global = true, value_name = "VARIANT", conflicts_with_all = ["kernel", "feature", "tunable", "policy", "nice", "slice", "scx"])]
    variant: Vec<String>,
    /// Number of seeds; each gives a knee [default: 3]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: Option<u64>,
    /// The first seed
    #[arg(long, global = true, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The largest load tried [default: the largest the workload takes]
    #[arg(long, global = true, value_name = "N")]
    max_load: Option<u64>,
    /// The result as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Plot the metric against the loads tried, as .svg or .png, with the limit across
    #[arg(long, global = true, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// A tool, instead of one of schedlab's workloads.
#[derive(Args)]
struct Outside {
    /// A known tool as the workload, whose load is raised (bench --tools lists them); needs --limit
    #[arg(long, value_name = "NAME", conflicts_with = FILE)]
    tool: Option<String>,
    /// Further arguments of the tool: one line
    #[arg(long, value_name = "LINE", requires = "tool", allow_hyphen_values = true)]
    args: Option<String>,
}

/// The search, and how its result is printed.
pub struct KneeSearch {
    pub raised: Raised,
    /// The workload; its load is replaced.
    pub spec: Spec,
    /// The limit as written.
    pub limit: String,
    pub runs: u64,
    /// The largest load tried.
    pub max_load: Option<u64>,
    pub json: bool,
    /// The file for a plot of the loads tried.
    pub plot: Option<PathBuf>,
    pub quiet: bool,
}

fn command() -> Command {
    let about = "Find the largest load that keeps a percentile under a limit";
    let command = Outside::augment_args(KneeArgs::augment_args(Command::new("knee")))
        .about(about)
        .args(workloads::file_args(FILE))
        .mut_arg(FILE, |arg| {
            arg.help("An rt-app file (.json), instead of a workload; the load is the number of copies of its tasks")
        })
        .override_usage("schedlab knee [OPTIONS] <WORKLOAD|FILE|--tool NAME>")
        .arg_required_else_help(true);
    workloads::with_benchmarks(command, |_| Vec::new())
}

/// The workload with its parameter to raise.
fn raised(matches: &ArgMatches, args: &KneeArgs) -> Result<(Spec, Raised)> {
    let outside = Outside::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(name) = &outside.tool {
        let line = outside.args.as_deref().filter(|a| !a.trim().is_empty()).map(one_word_or_line);
        let template = Template::tool(tools::find(name)?, line.transpose()?.unwrap_or_default());
        let raised = Raised::tool(template, common::cpus())?;
        let spec = raised.with(raised.range.0)?;
        if let (Backend::Host, Spec::Command(command)) = (args.place.backend()?, &spec) {
            check_installed(command)?;
        }
        return Ok((spec, raised));
    }
    let spec = match (workloads::chosen(matches)?, matches.get_one::<String>(FILE)) {
        (Some((bench, sub)), _) => {
            workloads::no_file_options(bench, matches)?;
            workloads::described(bench, sub, args.place.usual_runtime()?)?
        }
        (None, Some(file)) => workloads::in_file(file, matches)?,
        (None, None) => return Err(Error::input("no workload").help("schedlab knee --help lists them")),
    };
    Ok((spec.clone(), Raised::of(&spec)?))
}

fn run(matches: &ArgMatches) -> Result<()> {
    // Options that all workloads have may stand before or after the workload's name.
    let args = KneeArgs::from_arg_matches(workloads::chosen(matches)?.map_or(matches, |(_, sub)| sub));
    let args = args.map_err(|e| Error::internal(e.to_string()))?;
    args.plot.as_deref().map_or(Ok(()), common::check_plot)?;
    let (spec, raised) = raised(matches, &args)?;
    let variants = match args.variant.as_slice() {
        [] => args.place.variants(args.quiet)?,
        named => schedlab_lab::ask::variant_words::parse_all(named)?,
    };
    let wanted = KneeSearch {
        limit: args.limit.map_or_else(|| raised.usual_limit().map(str::to_owned), Ok)?,
        runs: args.runs.unwrap_or(if args.place.uncertainty { DEFAULT_DRAWS } else { DEFAULT_RUNS }),
        max_load: args.max_load,
        json: args.json,
        plot: args.plot,
        quiet: args.quiet,
        raised,
        spec,
    };
    search_and_print(&args.place, variants, wanted, args.seed)
}

/// Searches and prints.
///
/// # Errors
/// For a limit that can't be read, a place that can't run the workload, a run that fails, and an interruption.
pub fn search_and_print(
    place: &RunPlace,
    variants: Vec<Variant>,
    wanted: KneeSearch,
    seed: u64,
) -> Result<()> {
    let limit = wanted.raised.named(&Limit::parse(&wanted.limit)?)?;
    let (lo, hi) = wanted.raised.range;
    let last =
        seed.checked_add(wanted.runs).ok_or_else(|| Error::input(format!("seed {seed} is too large")))?;
    let needed = watch::needed([limit.metric.as_str()]);
    let cell = |v| place.cell(wanted.spec.clone(), v).map(|c| Cell { observe: c.observe.max(needed), ..c });
    let cells = variants.into_iter().map(cell).collect::<Result<Vec<_>>>()?;
    let parameter = wanted.raised.parameter;
    let (seeds, cap) = ((seed..last).collect(), wanted.max_load.unwrap_or(hi));
    let what = Search { cells, raised: wanted.raised, limit, seeds, start: lo, cap };
    let bar = Bar::steps(wanted.quiet);
    let tried = |variant: &str, seed: u64, load: u64, found: &Evaluated| {
        let value =
            found.value.number().map_or_else(|| "missing".to_owned(), |v| number::value(v, &found.unit));
        bar.say(format!("{variant}, seed {seed}: {parameter}={load} gave {value}"));
    };
    let found = search(&what, &common::backends(None)?, &tried, interrupt::stop_flag()?);
    drop(bar);
    let found = found?;
    if wanted.json {
        output::json(&found)?;
    } else {
        output::result(|out| schedlab_report::knee::export(&found, out))?;
    }
    if let Some(file) = &wanted.plot {
        let drawn = plot::plot(&schedlab_report::knee::curve(&found), plot::PlotFile::of(file)?)?;
        temp::write_whole(file, &drawn)?;
    }
    if found.interrupted {
        return Err(Error::new(ErrorKind::CheckFailed, "interrupted: the search is not finished"));
    }
    Ok(())
}
