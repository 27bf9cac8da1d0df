//! `schedlab bisect`: which commit moved a metric? Builds and measures commits of a kernel's repository, of a sched_ext
//! scheduler's, or of anything that a command builds.

use super::trial::TrialOptions;
use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::external::Figures;
use crate::listener::Shown;
use crate::{common, output};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Backend, Error, ErrorKind, Result, counted};
use schedlab_compare::comparison::DEFAULT_MIN_EFFECT_PCT;
use schedlab_compare::tools::{Template, canonical};
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::cache;
use schedlab_lab::RunRequest;
use schedlab_lab::ask::experiment::Part;
use schedlab_lab::ask::levels::level_of;
use schedlab_lab::ask::{builds, scx};
use schedlab_lab::search::bisect::{
    Bisected, CommandCommits, CommandQuestion, CommitQuestion, CommitRuns, FAILS, LASTS, Measure,
    MeasuredCommit, Meter, Repository, SchedulerCommits, SchedulerQuestion, Side, bisect,
};
use schedlab_lab::search::trial;
use schedlab_record::Metric;
use schedlab_report::number;
use schedlab_workload::CommandSpec;
use schedlab_workload::command::{ELAPSED, Take, one_line};
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct BisectArgs {
    /// The git repository, of the kernel or with --build of anything; it is only read
    #[arg(long, visible_alias = "repository", value_name = "DIR", default_value = ".")]
    linux: PathBuf,
    /// The repository is not a kernel's: the command that builds a commit, for the shell, in a folder with the commit's
    /// files. Commits that do not build are skipped
    #[arg(long, value_name = "LINE", conflicts_with = "config", help_heading = "Not a kernel")]
    build: Option<String>,
    /// What runs, in the folder of each commit and on the running kernel; both ends run again beside each commit
    #[arg(
        last = true,
        value_name = "COMMAND",
        requires = "build",
        conflicts_with_all = ["scx", "load", "machine", "backend", "jobs", "level", "out"]
    )]
    command: Vec<String>,
    /// A sched_ext scheduler: what --build makes, by its path in that folder, as a program with its arguments, or an
    /// object with the values that its program would set
    #[arg(long, value_name = "PROGRAM|OBJECT", requires = "build", help_heading = "Not a kernel")]
    scx: Option<String>,
    /// The kernel of the scheduler: a series (7.3) or a tree [default: the newest series at hand]
    #[arg(long, value_name = "SERIES|TREE", requires = "scx", help_heading = "Not a kernel")]
    kernel: Option<String>,
    /// A commit before the change
    #[arg(long, value_name = "COMMIT")]
    good: String,
    /// A commit after it
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    bad: String,
    /// The metric that moved (docs/metrics.md). Of a command: command.elapsed, or the only figure of its output, unless
    /// one is named; a figure's name is PROGRAM.NAME, or NAME. Without a metric the first commit is searched whose
    /// scheduler does not last where the good one does, or the other way round
    #[arg(long, value_name = "NAME", required_unless_present = "build")]
    metric: Option<String>,
    /// The load, one of those of 'try': full, thread-pipe, storm and so on
    #[arg(long, value_name = "NAME", required_unless_present = "command")]
    load: Option<String>,
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
    // Last: its heading would be that of all options behind it.
    #[command(flatten, next_help_heading = "Not a kernel")]
    figures: Figures,
}

impl BisectArgs {
    fn note(&self, step: &MeasuredCommit, left: usize, means: &Means) {
        if !self.keep.quiet {
            output::note(&format!("{} ({} left)", means.step(step), counted(left, "commit")));
        }
    }
    fn show(&self, found: &Bisected, means: &Means, what: &str) -> Result<()> {
        if self.keep.json {
            return output::json_as("schedlab/bisection/1", found);
        }
        output::result(|out| {
            let [good, bad] = [found.good, found.bad].map(|mean| means.words(mean));
            writeln!(out, "{what}: {good} before, {bad} after\n")?;
            found.steps.iter().try_for_each(|step| writeln!(out, "  {}", means.step(step)))?;
            let [one] = &found.first[..] else {
                let text = "The first new commit is one of these; those before the last can't be measured:";
                writeln!(out, "\n{text}")?;
                return found.first.iter().try_for_each(|c| writeln!(out, "  {}", c.words()));
            };
            writeln!(out, "\nThe first new commit is {}", one.words())
        })
    }
    fn part(&self) -> Part {
        Part {
            loads: self.load.iter().cloned().collect(),
            metrics: self.metric.clone().into_iter().collect(),
            ..Part::default()
        }
    }
}

fn command() -> Command {
    BisectArgs::augment_args(Command::new("bisect"))
        .about("Find the commit of a kernel, of a sched_ext scheduler or of any program that moved a metric, by verdicts over runs: \
             in deterministic guests, of the scheduler's code, or on the running kernel. Building runs code of the commits, as you")
        .override_usage(
            "schedlab bisect [OPTIONS] --good <COMMIT> --metric <NAME> --load <NAME>\n       \
             schedlab bisect [OPTIONS] --good <COMMIT> --build <LINE> --scx <PROGRAM|OBJECT> --load <NAME>\n       \
             schedlab bisect [OPTIONS] --good <COMMIT> --build <LINE> -- COMMAND...",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = BisectArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if !(0.0..=100.0).contains(&args.min_effect) {
        return Err(Error::input(format!("--min-effect {} is not 0 to 100 percent", args.min_effect)));
    }
    let repository = Repository(&args.linux);
    let (good, bad) = (
        repository.commit(&args.good).map_err(|e| e.context("--good"))?,
        repository.commit(&args.bad).map_err(|e| e.context("--bad"))?,
    );
    let measure = Measure { runs: args.runs, min_effect_pct: args.min_effect };
    let search = |meter: &mut dyn Meter| bisect(repository, &good, &bad, measure, meter);
    if !args.command.is_empty() {
        return of_command(&args, repository, search);
    }
    if let Some(option) = args.figures.given() {
        return Err(Error::input(format!("{option} is for a command")).help("-- COMMAND"));
    }
    if args.build.is_some() && args.scx.is_none() {
        return Err(Error::input("--build builds something that is not measured")
            .help("-- COMMAND runs it; --scx names the sched_ext scheduler that it makes"));
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
    let means = if args.metric.is_some() { Means::In(String::new()) } else { Means::Ends };
    let shown = Shown::new(args.keep.quiet);
    let report = |step: &MeasuredCommit, left: usize| args.note(step, left, &means);
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
            let found = search(&mut commits);
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
            search(&mut commits)?
        }
    };
    let level = match backend {
        Backend::Code => format!(
            ", by the scheduler's code at level {}",
            args.code.level()?.unwrap_or(level_of("bisect")).word()
        ),
        _ => String::new(),
    };
    let what = args.metric.as_deref().unwrap_or("the scheduler's end");
    let load = args.load.as_deref().unwrap_or_default();
    args.show(&found, &means, &format!("{what} of {load} on {}{level}", args.machine))
}

/// Commits of anything, measured by a command.
fn of_command(
    args: &BisectArgs,
    repository: Repository<'_>,
    search: impl Fn(&mut dyn Meter) -> Result<Bisected>,
) -> Result<()> {
    args.keep.guest.check(Backend::Host)?;
    let mut command = Template::run(args.command.clone()).spec;
    args.figures.describe(&mut command)?;
    let line = one_line(&command.argv);
    let (metric, unit) = metric_of(args.metric.as_deref(), &command)?;
    let question =
        CommandQuestion { build: args.build.clone().unwrap_or_default(), command, metric: metric.clone() };
    let (shown, means) = (Shown::new(args.keep.quiet), Means::In(unit));
    let report = |step: &MeasuredCommit, left: usize| args.note(step, left, &means);
    let mut commits = CommandCommits::of(repository, question, &shown, &report)?;
    let found = search(&mut commits);
    // An interrupted bisection finds its builds again.
    let is_interrupted = found.as_ref().is_err_and(|e| e.kind() == ErrorKind::CheckFailed);
    let shown = found
        .and_then(|found| args.show(&found, &means, &format!("{metric} of {line} on the running kernel")));
    if !is_interrupted && let Err(e) = commits.clear() {
        output::note(&e.to_string());
    }
    shown
}

/// The metric of a command and its unit: the one that is named, the only figure, or the time.
fn metric_of(named: Option<&str>, command: &CommandSpec) -> Result<(String, String)> {
    let figures = &command.metrics;
    let is_part = |metric: &str, of: &str| metric.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'));
    let figure = |metric: &str| figures.iter().find(|f| f.name == metric || is_part(metric, &f.name));
    let metric = match (named, figures.as_slice()) {
        (Some(name), _) => {
            let whole = format!("{}.{name}", command.name);
            if figure(&whole).is_some() { whole } else { name.to_owned() }
        }
        (None, []) => ELAPSED.to_owned(),
        (None, [one]) if one.take != Take::All => one.name.clone(),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|f| f.name.as_str()).collect();
            return Err(Error::input("--metric is needed: the output has several values").help(format!(
                "name one of {}, {ELAPSED}; of a figure with 'all' a part, such as NAME.p99",
                names.join(", ")
            )));
        }
    };
    let unit = match figure(&metric) {
        Some(figure) => canonical(&figure.unit).0.to_owned(),
        None => Metric::find(&metric).map_err(|e| e.context("--metric"))?.unit,
    };
    Ok((metric, unit))
}

/// What means of runs are.
enum Means {
    /// The metric, in that unit.
    In(String),
    /// Whether the scheduler lasts.
    Ends,
}

impl Means {
    fn words(&self, mean: f64) -> String {
        match self {
            Means::In(unit) if unit.is_empty() => number::three(mean),
            Means::In(unit) => number::value(mean, unit),
            Means::Ends if mean == LASTS => "lasts".to_owned(),
            Means::Ends if mean == FAILS => "fails".to_owned(),
            Means::Ends => format!("fails in {:.0} % of runs", 100.0 * (mean - LASTS) / (FAILS - LASTS)),
        }
    }
    /// A measured commit.
    fn step(&self, step: &MeasuredCommit) -> String {
        let state = match step.side {
            Some(Side::Old) => "old",
            Some(Side::New) => "new",
            None => "passed over",
        };
        let of = if let Means::In(_) = self { "mean " } else { "" };
        let figures = step.mean.map_or(String::new(), |mean| {
            format!(", {of}{} over {}", self.words(mean), counted(step.runs, "run"))
        });
        let doubt = if step.side.is_some() && !step.settled { ", the nearer end" } else { "" };
        let why = step.why.as_deref().map_or(String::new(), |w| format!(": {}", in_one_line(w)));
        format!("{state}: {}{figures}{doubt}{why}", step.commit.words())
    }
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
