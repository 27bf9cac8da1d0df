//! `schedlab hunt`: searches simulated machines for the workloads under which a change loses most, and confirms them;
//! of a sched_ext scheduler also those that it does not last, and under which a task waits too long.

use super::{hunt_differences, hunt_findings};
use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::guests::GuestOptions;
use crate::listener::Shown;
use crate::progress::Bar;
use crate::scheduler_options::SchedulerOptions;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Ns, Result};
use schedlab_kernel::Variant;
use schedlab_kernels::{Source, cache};
use schedlab_lab::Backend;
use schedlab_lab::ask::{builds, code, scx, variant_words};
use schedlab_lab::search::hunt::faults::FAULTS;
use schedlab_lab::search::hunt::{Budget, DifferenceSearch, Fault, Hunt, Judge, Loss, Sides, hunt};
use schedlab_lab::search::suite;
use schedlab_lab::search::trial::{self, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry { command, run };

/// Simulated length of each run.
const RUNTIME: Ns = Ns::ms(300);
/// The longest wait that may be asked for: runs are three times as long, and no kernel's watchdog waits for 30 s more.
const LONGEST_LIMIT: Ns = Ns::secs(10);
/// The backend of that name, which must judge workloads.
fn judging(name: &str) -> Result<Backend> {
    Backend::among(&[Backend::Sim, Backend::Code], "backend of a hunt", name)
}

#[derive(Args)]
pub(super) struct HuntArgs {
    /// The kernel with its changes, as for 'suite': v6.5+SIS_FIRST_IDLE, or 6.1+patch=first-idle+SIS_FIRST_IDLE; or a
    /// patch as for 'try' (a file, a folder of them, or - for standard input), which is judged by the kernel's own code
    /// against its base
    #[arg(
        value_name = "VARIANT|PATCH",
        required_unless_present = "scx",
        default_value = "",
        hide_default_value = true
    )]
    wanted: String,
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// A task that waits longer for a CPU under the scheduler, and longer than any under the fair class, is a finding
    #[arg(long, value_name = "TIME", default_value = "100ms", requires = "scx", help_heading = "sched_ext")]
    limit: String,
    /// The kernel of the scheduler: a series (7.3) or a tree [default: the newest series at hand]
    #[arg(long, value_name = "SERIES|TREE", requires = "scx", help_heading = "sched_ext")]
    kernel: Option<String>,
    /// The base of a patch: a series (6.1, 6.12, 7), a tarball, or a tree of your own [default: the
    /// series at hand that the patch fits best; 6.1 where none is at hand]
    #[arg(long, value_name = "SERIES|TREE|TARBALL", conflicts_with_all = ["baseline", "wrong", "first_difference", "scx"])]
    source: Option<String>,
    /// What it is compared with [default: the variant's kernel without its changes]
    #[arg(long, value_name = "VARIANT", conflicts_with = "scx")]
    baseline: Option<String>,
    /// Time of the search, shrinking included
    #[arg(long, value_name = "TIME", default_value = "5m", conflicts_with = "evals")]
    budget: String,
    /// Search so many workloads, whatever time it takes: the same seed finds the same workloads everywhere
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    evals: Option<u64>,
    /// Seed of the search
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Machine of the workloads; may be given more than once [default: nine machines of 2 to 16 CPUs]
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// A scheduler that is wrong on purpose, to see that it is found
    #[arg(long, value_name = "FAULT", conflicts_with = "scx")]
    wrong: Option<String>,
    /// Search for workloads under which the kernel's own code and our rules part, on machines where no step takes time,
    /// and show the events around the first difference
    #[arg(long, conflicts_with_all = ["baseline", "wrong", "vm", "backend", "scx"])]
    first_difference: bool,
    /// The number of the first workload that is drawn for --first-difference: `--first 17 --evals 1` draws one that a
    /// search has named
    #[arg(long, value_name = "N", default_value_t = 0, requires = "first_difference", value_parser = clap::value_parser!(u64).range(..=1 << 62))]
    first: u64,
    /// Shrink nothing that --first-difference finds
    #[arg(long, requires = "first_difference")]
    no_shrink: bool,
    /// Folder for the workloads that are found; a workload of an earlier hunt is replaced
    #[arg(long, value_name = "DIR", default_value = "hunt")]
    pub out: PathBuf,
    /// Where workloads are judged: sim (the simulator) or code (the scheduler's own code of kernels' sources: a
    /// series, a tree, patches) [default: code for a patch or a scheduler, else sim]
    #[arg(long, value_name = "BACKEND", value_parser = output::word(judging))]
    backend: Option<Backend>,
    /// Confirm in guests, too: the variant's kernel is a series, with a patch if the kernel lacks the change
    #[arg(long)]
    vm: bool,
    #[command(flatten)]
    pub guest: GuestOptions,
    #[command(flatten)]
    code: CodeOptions,
    /// Threads [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub jobs: Option<u64>,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

impl HuntArgs {
    /// Where workloads are judged.
    fn backend(&self) -> Backend {
        let by_code = self.is_patch() || self.wanted.is_empty();
        let usual = || if by_code { Backend::Code } else { Backend::Sim };
        self.backend.unwrap_or_else(usual)
    }
    /// Whether a patch is hunted, and not a kernel with changes: a file, or a folder that is not a kernel's tree.
    fn is_patch(&self) -> bool {
        let path = Path::new(&self.wanted);
        let is_series = || path.is_dir() && Source::parse(&self.wanted).is_err();
        self.source.is_some() || self.wanted == "-" || path.is_file() || is_series()
    }
    /// The machines; files have whole paths.
    fn machines(&self) -> Vec<String> {
        let mut machines = self.machine.clone();
        machines.iter_mut().for_each(whole_path);
        machines
    }
    /// The longest wait that is not a finding.
    fn limit(&self) -> Result<Ns> {
        let limit = Ns::parse(&self.limit, "ms").map_err(|e| e.context("--limit"))?;
        match limit <= LONGEST_LIMIT {
            true => Ok(limit),
            false => Err(Error::input(format!("--limit {}: no run of a hunt is as long", self.limit))
                .help(format!("0 to {LONGEST_LIMIT}: each run is three times as long as the limit"))),
        }
    }
    /// How long the search takes.
    fn budget(&self) -> Result<Budget> {
        if let Some(n) = self.evals {
            return Ok(Budget::Evals(n));
        }
        let time = Ns::parse(&self.budget, "s").map_err(|e| e.context("--budget"))?;
        Ok(Budget::Time(Duration::from_nanos(time.0)))
    }
    /// Where losses are confirmed.
    fn backends(&self) -> Vec<Backend> {
        std::iter::once(self.backend()).chain(self.vm.then_some(Backend::Vm)).collect()
    }
}

fn command() -> Command {
    HuntArgs::augment_args(Command::new("hunt"))
        .about("Search for the workloads under which a change or a sched_ext scheduler loses most, and shrink them")
        .mut_arg("wrong", |arg| {
            let rows: Vec<String> = FAULTS.iter().map(|f| format!("{} ({})", f.name, f.about)).collect();
            let first = "A scheduler that is wrong on purpose, to see that it is found";
            arg.help(format!("{first}: {}", rows.join("; ")))
        })
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = HuntArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if args.first_difference && args.code.level()?.is_some_and(|level| !level.is_free()) {
        return Err(Error::input("--first-difference is at level free, where code takes no time")
            .help("leave out --level"));
    }
    args.guest.check(if args.vm { Backend::Vm } else { args.backend() })?;
    args.code.check(args.backend())?;
    if args.first_difference {
        return first_differences(&args);
    }
    args.limit()?;
    let (judge, backends, budget) = (judge(&args)?, args.backends(), args.budget()?);
    if args.vm {
        // Checked before the search, which takes long: QEMU may be missing, or a kernel may not build.
        let both = [judge.baseline.clone(), judge.variant.clone()];
        builds::ready(!builds::wanted(&both, &both, Path::new(""))?.is_empty())?;
    }
    fs::create_dir_all(&args.out).map_err(|e| Error::io(&args.out, "make", &e))?;
    let mut found = search(&judge, budget, &args)?;
    found.found.iter().try_for_each(|one| hunt_findings::keep(one, &judge, &args.out))?;
    let findings = hunt_findings::confirmed(&found, &judge, &args, &backends)?;
    found.interrupted |= interrupt::stop_flag()?.load(Ordering::Relaxed);
    hunt_findings::print(&found, &findings, &judge, &args)?;
    if found.interrupted {
        let kept = match findings.len() {
            0 => "no loss was found until then".to_owned(),
            n => format!(
                "{} with a loss {} kept in {}",
                schedlab_base::counted(n, "workload"),
                schedlab_base::one_or(n, "is", "are"),
                args.out.display()
            ),
        };
        return Err(Error::new(ErrorKind::CheckFailed, format!("interrupted: {kept}")));
    }
    Ok(())
}

/// The hunted change and its judge.
fn judge(args: &HuntArgs) -> Result<Judge> {
    let fault = args.wrong.as_deref().map(Fault::find).transpose()?;
    let (mut baseline, mut variant) = of_words(args, fault)?;
    for one in [&mut baseline, &mut variant] {
        one.level = args.code.level()?.unwrap_or(one.level);
        whole_paths(one);
        if args.vm {
            *one = scx::live(one, Path::new("")).map_err(|e| e.context("--vm"))?;
        }
    }
    let machines = args.machines();
    match args.backend() {
        Backend::Code => {
            let shown = Shown::new(args.quiet);
            let images = |variants: &[&Variant]| code::images_of(variants, Path::new(""), &shown);
            let judge = Judge::by_code([baseline, variant], &images, fault, &machines, RUNTIME)?;
            if !args.scheduler.asked()? {
                return Ok(judge);
            }
            let judge = judge.with_limit(args.limit()?);
            judge.check(interrupt::stop_flag()?).map(|()| judge)
        }
        _ => Judge::new(baseline, variant, fault, &machines, RUNTIME),
    }
}

/// The search for first differences.
fn first_differences(args: &HuntArgs) -> Result<()> {
    is_there(&args.wanted)?;
    if args.is_patch() {
        let help = format!("name the kernel, too: 6.1+patch={}", args.wanted);
        return Err(Error::input("--first-difference takes a kernel, and not a patch alone").help(help));
    }
    let mut variant = variant_words::in_short(&args.wanted)?;
    if !variant.level.is_free() {
        return Err(Error::input("--first-difference is at level free, where code takes no time")
            .help("leave out +level=... of the kernel"));
    }
    whole_paths(&mut variant);
    let shown = Shown::new(args.quiet);
    let image = |variant: &Variant| code::image_of(variant, Path::new(""), &shown);
    let sides = Sides::of(variant, &image, &args.machines(), RUNTIME)?;
    let asked = hunt_differences::Asked {
        search: DifferenceSearch {
            seed: args.seed,
            first: args.first,
            budget: args.budget()?,
            shrinks: !args.no_shrink,
        },
        jobs: args.jobs.unwrap_or_else(common::cpus) as usize,
        out: &args.out,
        json: args.json,
        quiet: args.quiet,
    };
    hunt_differences::run(&sides, &asked, interrupt::stop_flag()?)
}

/// Names a variant's files by whole paths: the experiments stand in another folder than this one.
fn whole_paths(variant: &mut Variant) {
    variant.config.iter_mut().chain([&mut variant.kernel]).for_each(whole_path);
    for word in variant.patch.iter_mut().filter(|word| Path::new(word.as_str()).exists()) {
        if let Ok(whole) = std::path::absolute(&*word) {
            *word = whole.to_string_lossy().into_owned();
        }
    }
}

/// Replaces a word that names a file or folder here by its whole path.
fn whole_path(word: &mut String) {
    let path = Path::new(word.as_str());
    if (path.is_file() || path.is_dir() && word.contains('/'))
        && let Ok(whole) = std::path::absolute(path)
    {
        *word = whole.to_string_lossy().into_owned();
    }
}

/// Refuses the name of a patch's file if the file does not exist.
fn is_there(word: &str) -> Result<()> {
    let named = [".patch", ".diff", ".mbox"].iter().any(|end| word.ends_with(end));
    if named && !word.contains([':', '+']) && !Path::new(word).exists() {
        return Err(
            Error::input(format!("there is no file '{word}'")).help("a patch of yours is named by its path")
        );
    }
    Ok(())
}

/// Baseline and variant. A fault needs no other change.
fn of_words(args: &HuntArgs, fault: Option<&Fault>) -> Result<(Variant, Variant)> {
    if args.scheduler.asked()? {
        let backend = args.scheduler.backend(args.backend)?;
        let kernel = args.scheduler.kernel(args.kernel.as_deref(), backend)?;
        let (baseline, mut others) = args.scheduler.sides(&Variant::plain(&kernel))?;
        return match others.len() {
            1 => Ok((baseline, others.remove(0))),
            _ => Err(Error::input("a hunt is for one scheduler").help("name one --scx")),
        };
    }
    is_there(&args.wanted)?;
    if args.is_patch() {
        if args.backend() == Backend::Sim {
            return Err(
                Error::input("the simulator does not run a patch's code").help("leave out --backend sim")
            );
        }
        let words = [args.wanted.clone()];
        let chosen = trial::choose(&words, args.source.as_deref(), &cache::folder(None)?)?;
        if let Some(why) = chosen.why.as_ref().filter(|_| !args.quiet) {
            output::note(why);
        }
        let trial = Trial::of(&chosen.word, &words, chosen.patches, None, &[])?;
        return Ok((trial.base, trial.patched));
    }
    if fault.is_some() {
        let variant = variant_words::in_short(&args.wanted)?;
        let baseline = args.baseline.as_deref().map(variant_words::in_short).transpose()?;
        return Ok((baseline.unwrap_or_else(|| variant.clone()), variant));
    }
    let (baseline, mut others) =
        suite::compared(args.baseline.as_deref(), std::slice::from_ref(&args.wanted))?;
    Ok((baseline, others.remove(0)))
}

fn search(judge: &Judge, budget: Budget, args: &HuntArgs) -> Result<Hunt> {
    let bar = Bar::share(args.quiet);
    let began = Instant::now();
    let progress = |evals: u64, losses: &[&Loss]| {
        let part = match budget {
            Budget::Evals(n) => evals as f64 / n as f64,
            Budget::Time(time) => began.elapsed().as_secs_f64() / time.as_secs_f64().max(0.001),
        };
        let worst: Vec<String> = losses.iter().map(|l| l.words()).collect();
        bar.at(
            (1000.0 * part.min(1.0)) as u64,
            format!("{}: {}", schedlab_base::counted(evals, "workload"), worst.join("; ")),
        );
    };
    let jobs = args.jobs.unwrap_or_else(common::cpus) as usize;
    hunt(judge, args.seed, budget, jobs, &progress, interrupt::stop_flag()?)
}
