//! `schedlab bisect`: which commit moved a metric? Builds and measures commits of a kernel's repository, or of a
//! sched_ext scheduler's.

use super::trial::TrialOptions;
use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::listener::Shown;
use crate::{common, output};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Backend, Error, Result, counted};
use schedlab_compare::comparison::DEFAULT_MIN_EFFECT_PCT;
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::cache;
use schedlab_lab::RunRequest;
use schedlab_lab::ask::experiment::Part;
use schedlab_lab::ask::levels::level_of;
use schedlab_lab::ask::{builds, scx};
use schedlab_lab::search::bisect::{
    Bisected, CommitQuestion, CommitRuns, FAILS, LASTS, Measure, MeasuredCommit, Repository,
    SchedulerCommits, SchedulerQuestion, Side, bisect,
};
use schedlab_lab::search::trial;
use schedlab_report::number;
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct BisectArgs {
    /// The git repository, of the kernel or with --build of a scheduler; it is only read
    #[arg(long, visible_alias = "repository", value_name = "DIR", default_value = ".")]
    linux: PathBuf,
    /// The repository is a sched_ext scheduler's: the command that builds a commit, for the shell, in a folder with the
    /// commit's files. Commits that do not build are skipped
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "scx",
        conflicts_with = "config",
        help_heading = "sched_ext"
    )]
    build: Option<String>,
    /// What --build makes, by its path in that folder: a program with its arguments, or an object with the values that
    /// its program would set
    #[arg(long, value_name = "PROGRAM|OBJECT", requires = "build", help_heading = "sched_ext")]
    scx: Option<String>,
    /// The kernel of the scheduler: a series (7.3) or a tree [default: the newest series at hand]
    #[arg(long, value_name = "SERIES|TREE", requires = "scx", help_heading = "sched_ext")]
    kernel: Option<String>,
    /// A commit before the change
    #[arg(long, value_name = "COMMIT")]
    good: String,
    /// A commit after it
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    bad: String,
    /// The metric that moved (docs/metrics.md); with --build it may be left out: then the first commit is searched
    /// whose scheduler does not last where the good one does, or the other way round
    #[arg(long, value_name = "NAME", required_unless_present = "build")]
    metric: Option<String>,
    /// The load, one of those of 'try': full, thread-pipe, storm and so on
    #[arg(long, value_name = "NAME")]
    load: String,
    /// The machine, of the guests or simulated
    #[arg(long, value_name = "NAME", default_value = "smp-8")]
    machine: String,
    /// Runs of a commit at first; where these do not settle it, there are more
    #[arg(long, value_name = "N", default_value_t = trial::RUNS, value_parser = clap::value_parser!(u64).range(2..=48))]
    runs: u64,
    /// Runs side by side; all CPUs by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Smallest change that counts, percent: ends that differ by less count as the same
    #[arg(long, value_name = "PERCENT", default_value_t = DEFAULT_MIN_EFFECT_PCT)]
    min_effect: f64,
    /// Where commits run: vm (whole kernels in guests) or code (their scheduler's code on simulated machines)
    #[arg(long, value_name = "BACKEND", default_value = "vm", value_parser = output::word(trial::backend))]
    backend: Backend,
    /// A fragment of configuration on top of the built-in one
    #[arg(long, value_name = "FRAGMENT")]
    config: Option<String>,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    keep: TrialOptions,
}

impl BisectArgs {
    fn part(&self) -> Part {
        Part {
            loads: vec![self.load.clone()],
            metrics: self.metric.clone().into_iter().collect(),
            ..Part::default()
        }
    }
}

fn command() -> Command {
    BisectArgs::augment_args(Command::new("bisect"))
        .about("Find the commit of a kernel or of a sched_ext scheduler that moved a metric, by verdicts over runs in deterministic \
             guests or of the scheduler's code. Building runs code of the commits, as you")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = BisectArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if !(0.0..=100.0).contains(&args.min_effect) {
        return Err(Error::input(format!("--min-effect {} is not 0 to 100 percent", args.min_effect)));
    }
    let backend = match args.build {
        Some(_) if matches.value_source("backend") == Some(ValueSource::DefaultValue) => Backend::Code,
        Some(_) if args.backend == Backend::Vm => {
            return Err(Error::input("--build measures a scheduler by the kernel's own code")
                .help("leave out --backend vm"));
        }
        _ => args.backend,
    };
    args.keep.guest.check(backend)?;
    args.code.check(backend)?;
    common::machine(&args.machine, None).map_err(|e| e.context("--machine"))?;
    let repository = Repository(&args.linux);
    let (good, bad) = (
        repository.commit(&args.good).map_err(|e| e.context("--good"))?,
        repository.commit(&args.bad).map_err(|e| e.context("--bad"))?,
    );
    // An unknown load or metric is reported before anything is built.
    trial::alone(&Variant::plain("/vmlinuz"), &args.machine, common::cpus())?
        .narrow(backend, &args.part())?;
    match backend {
        Backend::Code => schedlab_kernels::check_tools()?,
        _ => builds::ready(true)?,
    }
    let request = RunRequest {
        part: args.part(),
        jobs: args.jobs,
        guest: args.keep.guest.setup()?,
        level: Some(args.code.level()?.unwrap_or(level_of("bisect"))).filter(|_| backend == Backend::Code),
        out: args.keep.out.clone(),
        ..RunRequest::trial(backend)
    };
    let (shown, report) = (Shown::new(args.keep.quiet), |step: &MeasuredCommit, left: usize| {
        if !args.keep.quiet {
            output::note(&format!(
                "{} ({} left)",
                words(step, args.metric.is_none()),
                counted(left, "commit")
            ));
        }
    });
    let measure = Measure { runs: args.runs, min_effect_pct: args.min_effect };
    let found = match (&args.build, &args.metric) {
        (Some(build), metric) => {
            let question = SchedulerQuestion {
                build: build.clone(),
                scx: Scx { command: args.scx.clone().unwrap_or_default(), hash: None },
                kernel: match &args.kernel {
                    Some(kernel) => kernel.clone(),
                    None => scx::usual_kernel(&cache::folder(None)?),
                },
                machine: args.machine.clone(),
                metric: metric.clone(),
                request,
                options: common::run_options()?,
            };
            let mut commits = SchedulerCommits::of(repository, question, &shown, &report)?;
            let found = bisect(repository, &good, &bad, measure, &mut commits);
            let ends = "whether the scheduler lasts (means 1: in all runs, 2: in none)";
            if metric.is_some() { found? } else { found.map_err(|e| e.context(ends))? }
        }
        (None, metric) => {
            let question = CommitQuestion {
                machine: args.machine.clone(),
                metric: metric.clone().unwrap_or_default(),
                fragment: builds::fragment(args.config.as_deref(), Path::new(""))?,
                request,
                options: common::run_options()?,
            };
            let mut commits = CommitRuns::of(repository, question, &shown, &report)?;
            bisect(repository, &good, &bad, measure, &mut commits)?
        }
    };
    if args.keep.json {
        return output::json_as("schedlab/bisection/1", &found);
    }
    output::result(|out| print(out, &found, &args))
}

/// The words for the mean of runs: without a metric, of those that the scheduler lasts or not.
fn of_mean(mean: f64, by_end: bool) -> String {
    match mean {
        mean if !by_end => format!("mean {}", number::three(mean)),
        LASTS => "lasts".to_owned(),
        FAILS => "fails".to_owned(),
        mean => format!("fails in {:.0} % of runs", 100.0 * (mean - LASTS) / (FAILS - LASTS)),
    }
}

/// A measured commit; `by_end`: by how its runs end.
fn words(step: &MeasuredCommit, by_end: bool) -> String {
    let state = match step.side {
        Some(Side::Old) => "old",
        Some(Side::New) => "new",
        None => "passed over",
    };
    let figures = step.mean.map_or(String::new(), |mean| {
        format!(", {} over {}", of_mean(mean, by_end), counted(step.runs, "run"))
    });
    let doubt = if step.side.is_some() && !step.settled { ", the nearer end" } else { "" };
    let why = step.why.as_deref().map_or(String::new(), |w| format!(": {}", in_one_line(w)));
    format!("{state}: {}{figures}{doubt}{why}", step.commit.words())
}

/// The failed step and the compiler's first error; of other output the first line.
fn in_one_line(why: &str) -> String {
    let mut lines = why.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    match rest.iter().find(|l| l.contains("error:")).or(rest.first()) {
        Some(detail) => format!("{first} {detail}"),
        None => first.to_owned(),
    }
}

fn print(out: &mut dyn std::io::Write, found: &Bisected, args: &BisectArgs) -> std::io::Result<()> {
    let by_end = args.metric.is_none();
    let [good, bad] =
        [found.good, found.bad].map(|mean| if by_end { of_mean(mean, true) } else { number::three(mean) });
    let what = args.metric.as_deref().unwrap_or("the scheduler's end");
    let on = Path::new(&args.machine).display();
    let level = match args.code.level() {
        _ if args.backend != Backend::Code && args.build.is_none() => String::new(),
        level => format!(
            ", by the scheduler's code at level {}",
            level.ok().flatten().unwrap_or(level_of("bisect")).word()
        ),
    };
    writeln!(out, "{what} of {} on {on}{level}: {good} before, {bad} after\n", args.load)?;
    found.steps.iter().try_for_each(|step| writeln!(out, "  {}", words(step, by_end)))?;
    match found.first.as_slice() {
        [one] => writeln!(out, "\nThe first new commit is {}", one.words()),
        many => {
            writeln!(
                out,
                "\nThe first new commit is one of these; those before the last can't be measured:"
            )?;
            many.iter().try_for_each(|c| writeln!(out, "  {}", c.words()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_one_line;

    #[test]
    fn a_failed_build_is_reported_by_its_first_error() {
        let why = "the build failed:\n    In file included from a.c:45:\n    b.c:7:1: error: unknown type\n    later";
        assert_eq!(in_one_line(why), "the build failed: b.c:7:1: error: unknown type");
        assert_eq!(in_one_line("it died:\n    Kernel panic"), "it died: Kernel panic");
        assert_eq!(in_one_line("no boot"), "no boot");
    }
}
