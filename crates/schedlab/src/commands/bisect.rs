//! `schedlab bisect`: which commit moved a metric? Builds and measures commits of a kernel's repository.

use super::trial::TrialOptions;
use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::listener::Shown;
use crate::{common, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Backend, Error, Result, counted};
use schedlab_compare::comparison::DEFAULT_MIN_EFFECT_PCT;
use schedlab_lab::RunRequest;
use schedlab_lab::ask::builds;
use schedlab_lab::ask::experiment::Part;
use schedlab_lab::ask::levels::level_of;
use schedlab_lab::search::bisect::{
    Bisected, CommitQuestion, CommitRuns, Measure, MeasuredCommit, Repository, Side, bisect,
};
use schedlab_lab::search::trial;
use schedlab_report::number;
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct BisectArgs {
    /// The kernel's git repository; it is only read
    #[arg(long, value_name = "DIR", default_value = ".")]
    linux: PathBuf,
    /// A commit before the change
    #[arg(long, value_name = "COMMIT")]
    good: String,
    /// A commit after it
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    bad: String,
    /// The metric that moved (docs/metrics.md)
    #[arg(long, value_name = "NAME")]
    metric: String,
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
        Part { loads: vec![self.load.clone()], metrics: vec![self.metric.clone()], ..Part::default() }
    }
}

fn command() -> Command {
    BisectArgs::augment_args(Command::new("bisect"))
        .about("Find the commit that moved a metric, by verdicts over runs in deterministic guests or of its scheduler's code. \
             Building runs code of the commits, as you")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = BisectArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if !(0.0..=100.0).contains(&args.min_effect) {
        return Err(Error::input(format!("--min-effect {} is not 0 to 100 percent", args.min_effect)));
    }
    let backend = args.backend;
    args.keep.guest.check(backend)?;
    args.code.check(backend)?;
    common::machine(&args.machine, None).map_err(|e| e.context("--machine"))?;
    let repository = Repository(&args.linux);
    let (good, bad) = (
        repository.commit(&args.good).map_err(|e| e.context("--good"))?,
        repository.commit(&args.bad).map_err(|e| e.context("--bad"))?,
    );
    // An unknown load or metric is reported before anything is built.
    trial::alone("good", Path::new("/vmlinuz"), &args.machine, common::cpus())?
        .narrow(backend, &args.part())?;
    match backend {
        Backend::Code => schedlab_kernels::check_tools()?,
        _ => builds::ready(true)?,
    }
    let question = CommitQuestion {
        machine: args.machine.clone(),
        metric: args.metric.clone(),
        fragment: builds::fragment(args.config.as_deref(), Path::new(""))?,
        request: RunRequest {
            part: args.part(),
            jobs: args.jobs,
            guest: args.keep.guest.setup()?,
            level: Some(args.code.level()?.unwrap_or(level_of("bisect")))
                .filter(|_| backend == Backend::Code),
            out: args.keep.out.clone(),
            ..RunRequest::trial(backend)
        },
        options: common::run_options()?,
    };
    let (shown, report) = (Shown::new(args.keep.quiet), |step: &MeasuredCommit, left: usize| {
        if !args.keep.quiet {
            output::note(&format!("{} ({} left)", words(step), counted(left, "commit")));
        }
    });
    let mut commits = CommitRuns::of(repository, question, &shown, &report)?;
    let measure = Measure { runs: args.runs, min_effect_pct: args.min_effect };
    let found = bisect(repository, &good, &bad, measure, &mut commits)?;
    if args.keep.json {
        return output::json_as("schedlab/bisection/1", &found);
    }
    output::result(|out| print(out, &found, &args))
}

fn words(step: &MeasuredCommit) -> String {
    let state = match step.side {
        Some(Side::Old) => "old",
        Some(Side::New) => "new",
        None => "passed over",
    };
    let figures = step.mean.map_or(String::new(), |mean| {
        format!(", mean {} over {}", number::three(mean), counted(step.runs, "run"))
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
    let (good, bad) = (number::three(found.good), number::three(found.bad));
    let on = Path::new(&args.machine).display();
    let level = match args.code.level() {
        _ if args.backend != Backend::Code => String::new(),
        level => format!(
            ", by the scheduler's code at level {}",
            level.ok().flatten().unwrap_or(level_of("bisect")).word()
        ),
    };
    writeln!(out, "{} of {} on {on}{level}: {good} before, {bad} after\n", args.metric, args.load)?;
    found.steps.iter().try_for_each(|step| writeln!(out, "  {}", words(step)))?;
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
