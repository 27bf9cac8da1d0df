//! `schedlab knee`: the largest load of a workload that keeps a metric under a limit, per variant.

use crate::cli::Entry;
use crate::progress::Bar;
use crate::workloads::{self, Place};
use crate::{common, interrupt, output, variants};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_kernel::Variant;
use schedlab_lab::knee::{Limit, Search, search};
use schedlab_lab::plan::Cell;
use schedlab_lab::uncertainty::DEFAULT_DRAWS;
use schedlab_lab::watch;
use schedlab_report::number;
use schedlab_workload::{Benchmark, Params, Spec};

pub const ENTRY: Entry = Entry { command, run };

const DEFAULT_RUNS: u64 = 3;

#[derive(Args)]
struct Own {
    #[command(flatten)]
    place: Place,
    /// What must hold, e.g. "run_delay.p50 < 100us" [default: p99 < 2ms, or mean < 2ms of what has one value a run]
    #[arg(long, global = true, value_name = "LIMIT")]
    limit: Option<String>,
    /// A variant to search, [NAME=]KERNEL[:FEATURE,TUNABLE=N,policy=P,GROUP.nice=N,FEATURE@TIME...]; may be given more
    /// than once
    #[arg(long, global = true, value_name = "VARIANT", conflicts_with_all = ["kernel", "feature", "tunable", "policy", "nice", "slice"])]
    variant: Vec<String>,
    /// Seeds; each gives a knee [default: 3]
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
    /// No progress on standard error
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// What is searched for, and how it is told.
pub struct Wanted {
    /// The workload.
    pub bench: &'static Benchmark,
    /// Its parameters; the one that is raised is replaced.
    pub spec: Spec,
    /// The limit as written.
    pub limit: String,
    /// Seeds.
    pub runs: u64,
    /// The largest load tried.
    pub max_load: Option<u64>,
    /// Whether the result is JSON.
    pub json: bool,
    /// Whether progress is kept quiet.
    pub quiet: bool,
}

impl Wanted {
    /// What `-a` asks of a benchmark: one seed, the usual limit.
    pub fn auto(bench: &'static Benchmark) -> Wanted {
        let spec = Spec::Bench { name: bench.name.to_owned(), params: Params::default() };
        Wanted {
            bench,
            spec,
            limit: Limit::usual(bench).to_owned(),
            runs: 1,
            max_load: None,
            json: false,
            quiet: false,
        }
    }
}

fn command() -> Command {
    let about = "Find the largest load that keeps a percentile under a limit";
    let command = Own::augment_args(Command::new("knee")).about(about).subcommand_required(true);
    workloads::with_benchmarks(command, |_| Vec::new())
}

fn run(matches: &ArgMatches) -> Result<()> {
    let Some((bench, sub)) = workloads::chosen(matches)? else {
        return Err(Error::input("no workload").help("schedlab knee --help lists them"));
    };
    let own = Own::from_arg_matches(sub).map_err(|e| Error::internal(e.to_string()))?;
    let variants = match own.variant.as_slice() {
        [] => own.place.variants(own.quiet)?,
        named => variants::all(named)?,
    };
    let wanted = Wanted {
        spec: workloads::described(bench, sub, own.place.usual_runtime()?)?,
        limit: own.limit.unwrap_or_else(|| Limit::usual(bench).to_owned()),
        runs: own.runs.unwrap_or(if own.place.uncertainty { DEFAULT_DRAWS } else { DEFAULT_RUNS }),
        max_load: own.max_load,
        json: own.json,
        quiet: own.quiet,
        bench,
    };
    search_and_print(&own.place, variants, wanted, own.seed)
}

/// Searches and prints.
///
/// # Errors
/// A limit that is none, what a place can't do, what the runs find, and an interruption.
pub fn search_and_print(place: &Place, variants: Vec<Variant>, wanted: Wanted, seed: u64) -> Result<()> {
    let limit = Limit::parse(&wanted.limit)?.for_workload(wanted.bench)?;
    let (lo, hi) = wanted.bench.param(wanted.bench.load_param)?.range;
    let last =
        seed.checked_add(wanted.runs).ok_or_else(|| Error::input(format!("seed {seed} leaves no room")))?;
    let needed = watch::needed([limit.metric.as_str()]);
    let cell = |v| place.cell(wanted.spec.clone(), v).map(|c| Cell { observe: c.observe.max(needed), ..c });
    let cells = variants.into_iter().map(cell).collect::<Result<Vec<_>>>()?;
    let unit = schedlab_record::Metric::find(&limit.metric)?.unit;
    let what =
        Search { cells, limit, seeds: (seed..last).collect(), start: lo, cap: wanted.max_load.unwrap_or(hi) };
    let bar = Bar::steps(wanted.quiet);
    let tried = |variant: &str, seed: u64, load: u64, value: &schedlab_record::Value| {
        let value = value.number().map_or_else(|| "missing".to_owned(), |v| number::value(v, &unit));
        bar.say(format!("{variant}, seed {seed}: {}={load} gave {value}", wanted.bench.load_param));
    };
    let found = search(&what, &common::EXECUTOR, &tried, interrupt::stop_flag()?);
    drop(bar);
    let found = found?;
    if wanted.json {
        output::json(&found)?;
    } else {
        output::result(|out| schedlab_report::knee::export(&found, out))?;
    }
    if found.interrupted {
        return Err(Error::new(ErrorKind::CheckFailed, "interrupted: the search is not finished"));
    }
    Ok(())
}
