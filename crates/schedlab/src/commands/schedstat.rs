//! `schedlab schedstat`: the scheduler's own counters, live over an interval, from saved files, or of a simulated run.

use super::runs::Choice;
use crate::cli::Entry;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Backend, CpuSet, Error, Ns, Result, Spot, Warning};
use schedlab_lab::stored::named::{RunChoice, experiment_of};
use schedlab_record::schedstat::{self, IdleType, Layout, Schedstat};
use schedlab_record::store;
use schedlab_report::schedstat as show;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry { command, run };

/// Interval of the checks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// At most this many violated identities are printed.
const SHOWN: usize = 5;

#[derive(Args)]
struct SchedstatArgs {
    /// Saved /proc/schedstat files, earlier and later, or one stored run: its folder, first digits of its cell, an
    /// experiment or a store [default: the running kernel]
    #[arg(value_name = "FILE|RUN", num_args = 0..=2)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    choice: Choice,
    /// The stored run of this seed [default: the first that is stored]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How long the running kernel is watched [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", conflicts_with = "paths")]
    interval: Option<String>,
    /// CPUs that are counted, e.g. 8,10-12 [default: all]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Each CPU by itself, instead of their sum
    #[arg(long)]
    per_cpu: bool,
    /// A level of domains to show; may be given more than once [default: all]
    #[arg(long, value_name = "N")]
    domain: Vec<usize>,
    /// Only balancing by CPUs of this type: idle, busy or newidle; may be given more than once [default: all]
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Also show counters that are 0
    #[arg(long)]
    all: bool,
    /// Print a line for each counter, such as .domain1.CPU_NEWLY_IDLE.lb_count 822
    #[arg(long)]
    lines: bool,
    /// The result as JSON
    #[arg(long, conflicts_with = "lines")]
    json: bool,
    /// Print the counters as a kernel's file of that version, 15, 16 or 17
    #[arg(long, value_name = "N", conflicts_with_all = ["json", "lines", "domain", "types", "all", "per_cpu"])]
    print_version: Option<u32>,
    /// With --print-version: append lb_sg_scan to each idle type, as D001 does
    #[arg(long, requires = "print_version")]
    sg_scan: bool,
}

fn command() -> Command {
    SchedstatArgs::augment_args(Command::new("schedstat"))
        .about("Show the scheduler's own counters: live, from saved files, or of a simulated run")
}

/// Counters, their source, and how far they may be off because CPUs continued counting while they were read.
struct CounterReading {
    stat: Schedstat,
    source: String,
    slack: u64,
    warnings: Vec<Warning>,
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = SchedstatArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let view = view(&args)?;
    let cpus = args.cpu.as_deref().map(CpuSet::parse).transpose().map_err(|e| e.context("--cpu"))?;
    let mut counted = counted(&args)?;
    if let Some(cpus) = cpus.filter(|c| !c.is_empty()) {
        counted.stat = counted.stat.of_cpus(&cpus).map_err(|e| e.context("--cpu"))?;
    }
    check_levels(&counted.stat, &view.domains)?;
    let CounterReading { stat, source, slack, warnings } = counted;
    if let Some(version) = args.print_version {
        let text = stat.print(Layout { version, sg_scan: args.sg_scan })?;
        return output::result(|out| out.write_all(text.as_bytes()));
    }
    let violations = schedstat::identities_within(&stat, slack);
    if args.json {
        let value = show::to_json(&stat, &view, &source, &violations, &warnings);
        return output::json_as("schedlab/schedstat/1", &value);
    }
    common::warn(&warnings);
    print_violations(&violations);
    let text = if args.lines { show::lines(&stat, &view) } else { show::table(&stat, &view) };
    output::result(|out| out.write_all(text.as_bytes()))
}

fn view(args: &SchedstatArgs) -> Result<show::View> {
    let types = args.types.iter().map(|t| IdleType::parse(t)).collect::<Result<Vec<_>>>()?;
    Ok(show::View { domains: args.domain.clone(), types, all: args.all, per_cpu: args.per_cpu })
}

fn check_levels(stat: &Schedstat, wanted: &[usize]) -> Result<()> {
    let levels = stat.cpus.iter().map(|c| c.domains.len()).max().unwrap_or(0);
    match wanted.iter().find(|level| **level >= levels) {
        Some(level) if levels == 0 => {
            Err(Error::input(format!("there is no domain{level}: these CPUs have no domains")))
        }
        Some(level) => Err(Error::input(format!("there is no domain{level}"))
            .help(format!("the levels are 0 to {}", levels - 1))),
        None => Ok(()),
    }
}

fn print_violations(violations: &[String]) {
    for v in violations.iter().take(SHOWN) {
        output::note(&format!("the counters contradict each other: {v}"));
    }
    if violations.len() > SHOWN {
        output::note(&format!(
            "and {} more such contradictions (--json lists all)",
            violations.len() - SHOWN
        ));
    }
}

fn counted(args: &SchedstatArgs) -> Result<CounterReading> {
    let shown = |path: &Path| path.display().to_string();
    match args.paths.as_slice() {
        [] => live(args.interval.as_deref()),
        [path] if path.is_dir() || !path.exists() || experiment_of(&shown(path))?.is_some() => {
            let wanted = RunChoice { store: &args.choice.out, filter: args.choice.filter(), seed: args.seed };
            of_run(&wanted.find(&shown(path))?.path)
        }
        [path] if is_run(path) => of_run(path),
        [path] => {
            let stat = schedstat::load(path)?;
            Ok(CounterReading { stat, source: shown(path), slack: 1, warnings: Vec::new() })
        }
        [before, after, ..] => {
            if let Some(run) = [before, after].into_iter().find(|p| is_run(p)) {
                return Err(Error::input(format!("{} is a run", run.display()))
                    .help("a run's counters are differences already: name it alone"));
            }
            let (first, second) = (schedstat::load(before)?, schedstat::load(after)?);
            let (stat, warnings) = schedstat::delta(&first, &second).map_err(|e| e.at(Spot::file(after)))?;
            Ok(CounterReading {
                stat,
                source: format!("{} to {}", shown(before), shown(after)),
                slack: 1,
                warnings,
            })
        }
    }
}

/// Whether a path is a run: a folder, or a file that begins like JSON. A pipe (`<(ssh ...)`) can be read only once, so
/// it is not looked into.
fn is_run(path: &Path) -> bool {
    let mut first = [0];
    path.is_dir()
        || path.is_file()
            && File::open(path).and_then(|mut f| f.read_exact(&mut first)).is_ok_and(|()| first == *b"{")
}

fn of_run(path: &Path) -> Result<CounterReading> {
    let record = store::load(path)?;
    let Some(stat) = record.found.schedstat else {
        let help = match record.backend.made_by() {
            Some(Backend::Sim) => "an older version made it; run it again",
            _ => {
                "the kernel it ran on did not count: it needs CONFIG_SCHEDSTATS, and kernel.sched_schedstats=1"
            }
        };
        return Err(Error::input(format!("the run in {} has no schedstat", path.display())).help(help));
    };
    let slack = u64::from(!record.backend.is_simulated());
    Ok(CounterReading { stat, source: path.display().to_string(), slack, warnings: Vec::new() })
}

fn live(interval: Option<&str>) -> Result<CounterReading> {
    let parse = |t: &str| Ns::parse(t, "s").map_err(|e| e.context("--interval"));
    let interval = interval.map(parse).transpose()?;
    let before = schedstat::read_live()?;
    let stop = interrupt::stop_flag()?;
    if interval.is_none() {
        output::note("counting; Ctrl-C ends it and shows the result");
    }
    let (began, wanted) = (Instant::now(), interval.map(|t| Duration::from_nanos(t.0)));
    while !stop.load(Ordering::SeqCst) {
        let left = wanted.map_or(LOOK_EVERY, |w| w.saturating_sub(began.elapsed()));
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
    let (stat, warnings) = schedstat::delta(&before, &schedstat::read_live()?)?;
    Ok(CounterReading { stat, source: schedstat::PROC_FILE.to_owned(), slack: 1, warnings })
}
