//! `schedlab hunt`: searches simulated machines for the workloads under which a change loses most, and confirms them.

use super::hunt_differences;
use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::guests::GuestOptions;
use crate::listener::Shown;
use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Ns, Result};
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::stats::Verdict;
use schedlab_lab::hunt::faults::FAULTS;
use schedlab_lab::hunt::{Budget, Fault, Hunt, Judge, LosingWorkload, Loss, Sides, hunt};
use schedlab_lab::trial::Trial;
use schedlab_lab::{Backend, RunRequest, builds, code, suite};
use schedlab_report::number::{change, signed};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub const ENTRY: Entry = Entry { command, run };

/// Simulated length of each run.
const RUNTIME: Ns = Ns::ms(300);
/// The base of a patch.
const SOURCE: &str = "6.1";
/// The backends by which workloads are judged.
const JUDGES: [Backend; 2] = [Backend::Sim, Backend::Code];

#[derive(Args)]
struct HuntArgs {
    /// The kernel with its changes, as for 'suite': v6.5+SIS_FIRST_IDLE, or 6.1+patch=first-idle+SIS_FIRST_IDLE; or the
    /// file of a patch, as for 'try', which is judged by the kernel's own code against its base
    #[arg(value_name = "VARIANT|PATCH")]
    wanted: String,
    /// The base of a patch that is a file: a series (6.1, 6.12, 7), a tarball, or a tree of your own [default: 6.1]
    #[arg(long, value_name = "SERIES|TREE|TARBALL", conflicts_with_all = ["baseline", "wrong", "first_difference"])]
    source: Option<String>,
    /// What it is compared with [default: the variant's kernel without its changes]
    #[arg(long, value_name = "VARIANT")]
    baseline: Option<String>,
    /// Time of the search, shrinking included
    #[arg(long, value_name = "TIME", default_value = "5m", conflicts_with = "evals")]
    budget: String,
    /// Search so many workloads, whatever time it takes: the same seed finds the same workloads everywhere
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    evals: Option<u64>,
    /// Seed of the search
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Machine of the workloads; may be given more than once [default: nine machines of 2 to 16 CPUs]
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// A scheduler that is wrong on purpose, to see that it is found
    #[arg(long, value_name = "FAULT")]
    wrong: Option<String>,
    /// Search for workloads under which the kernel's own code and our rules part, on machines where no step takes time,
    /// and show the events around the first difference
    #[arg(long, conflicts_with_all = ["baseline", "wrong", "vm", "backend"])]
    first_difference: bool,
    /// Folder for the workloads that are found; a workload of an earlier hunt is replaced
    #[arg(long, value_name = "DIR", default_value = "hunt")]
    out: PathBuf,
    /// Where workloads are judged: sim (the simulator) or code (the scheduler's own code of kernels' sources: a
    /// series, a tree, patches) [default: code for a patch that is a file, else sim]
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// Confirm in guests, too: the variant's kernel is a series, with a patch if the kernel lacks the change
    #[arg(long)]
    vm: bool,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    code: CodeOptions,
    /// Threads [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl HuntArgs {
    /// Where workloads are judged.
    fn backend(&self) -> Result<Backend> {
        let Some(word) = &self.backend else {
            return Ok(if self.is_patch() { Backend::Code } else { Backend::Sim });
        };
        let found = JUDGES.into_iter().find(|b| b.name() == word);
        found.ok_or_else(|| Error::unknown("backend of a hunt", word, JUDGES.map(Backend::name)))
    }
    /// Whether a patch is hunted, and not a kernel with changes.
    fn is_patch(&self) -> bool {
        self.source.is_some() || Path::new(&self.wanted).is_file()
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
    fn backends(&self) -> Result<Vec<Backend>> {
        Ok(std::iter::once(self.backend()?).chain(self.vm.then_some(Backend::Vm)).collect())
    }
}

fn command() -> Command {
    HuntArgs::augment_args(Command::new("hunt"))
        .about("Search for the workloads under which a change loses most, and shrink them")
        .mut_arg("wrong", |arg| {
            let rows: Vec<String> = FAULTS.iter().map(|f| format!("{} ({})", f.name, f.about)).collect();
            let first = "A scheduler that is wrong on purpose, to see that it is found";
            arg.help(format!("{first}: {}", rows.join("; ")))
        })
}

/// A workload that was found, with its confirmations.
#[derive(Serialize)]
struct HuntFinding {
    class: &'static str,
    metric: String,
    machine: String,
    tasks: u32,
    tasks_before: u32,
    loss: f64,
    spread: f64,
    shrunk_to_the_end: bool,
    experiment: PathBuf,
    workload: Vec<String>,
    confirmed: Vec<ComparisonRow>,
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = HuntArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if args.first_difference && args.code.level()?.is_some_and(|level| !level.is_free()) {
        return Err(Error::input("--first-difference is at level free, where code takes no time")
            .help("leave out --level"));
    }
    args.guest.check(if args.vm { Backend::Vm } else { args.backend()? })?;
    args.code.check(args.backend()?)?;
    if args.first_difference {
        return first_differences(&args);
    }
    let fault = args.wrong.as_deref().map(Fault::find).transpose()?;
    let (mut baseline, mut variant) = of_words(&args, fault)?;
    // The experiments stand in another folder than this one.
    for one in [&mut baseline, &mut variant] {
        one.level = args.code.level()?.unwrap_or(one.level);
        one.patch.iter_mut().chain(&mut one.config).chain([&mut one.kernel]).for_each(whole_path);
    }
    let mut machines = args.machine.clone();
    machines.iter_mut().for_each(whole_path);
    let backends = args.backends()?;
    let judge = match args.backend()? {
        Backend::Code => {
            let shown = Shown::new(args.quiet);
            let image = |variant| code::image_of(variant, Path::new(""), &shown);
            let images = [image(&baseline)?, image(&variant)?];
            Judge::by_code([baseline, variant], images, fault, &machines, RUNTIME)?
        }
        _ => Judge::new(baseline, variant, fault, &machines, RUNTIME)?,
    };
    let budget = args.budget()?;
    if args.vm {
        // Else a machine without QEMU, or a kernel that can't be built, would be reported after the search.
        let both = [judge.baseline.clone(), judge.variant.clone()];
        builds::ready(!builds::wanted(&both, &both, Path::new(""))?.is_empty())?;
    }
    fs::create_dir_all(&args.out).map_err(|e| Error::io(&args.out, "make", &e))?;
    let mut found = search(&judge, budget, &args)?;
    let stop = interrupt::stop_flag()?;
    found.found.iter().try_for_each(|one| keep(one, &judge, &args.out))?;
    let mut findings = Vec::new();
    for one in &found.found {
        let mut one_finding = finding(one, &judge, &args.out);
        for backend in &backends {
            if found.interrupted || stop.load(Ordering::Relaxed) {
                break;
            }
            match confirm(one, &judge, &args, *backend) {
                Ok(row) => one_finding.confirmed.extend(row),
                Err(e) => {
                    output::note(&format!(
                        "{} is not confirmed on {}: {e}",
                        one_finding.class,
                        backend.name()
                    ));
                }
            }
        }
        findings.push(one_finding);
    }
    found.interrupted |= stop.load(Ordering::Relaxed);
    print(&found, &findings, &judge, &args)?;
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

/// The search for first differences.
fn first_differences(args: &HuntArgs) -> Result<()> {
    is_there(&args.wanted)?;
    if args.is_patch() {
        let help = format!("name the kernel, too: 6.1+patch={}", args.wanted);
        return Err(Error::input("--first-difference takes a kernel, and not a patch alone").help(help));
    }
    let mut variant = schedlab_lab::variant_words::in_short(&args.wanted)?;
    if !variant.level.is_free() {
        return Err(Error::input("--first-difference is at level free, where code takes no time")
            .help("leave out +level=... of the kernel"));
    }
    variant.patch.iter_mut().chain(&mut variant.config).chain([&mut variant.kernel]).for_each(whole_path);
    let mut machines = args.machine.clone();
    machines.iter_mut().for_each(whole_path);
    let image = code::image_of(&variant, Path::new(""), &Shown::new(args.quiet))?;
    let sides = Sides::of(variant, image, &machines, RUNTIME)?;
    let asked = hunt_differences::Asked {
        seed: args.seed,
        budget: args.budget()?,
        jobs: args.jobs.unwrap_or_else(common::cpus) as usize,
        out: &args.out,
        json: args.json,
        quiet: args.quiet,
    };
    hunt_differences::run(&sides, &asked, interrupt::stop_flag()?)
}

/// Makes a word that names a file or a folder here the whole path of it.
fn whole_path(word: &mut String) {
    let path = Path::new(word.as_str());
    if (path.is_file() || path.is_dir() && word.contains('/'))
        && let Ok(whole) = std::path::absolute(path)
    {
        *word = whole.to_string_lossy().into_owned();
    }
}

/// Refuses the name of a patch's file where there is no file.
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
fn of_words(
    args: &HuntArgs,
    fault: Option<&Fault>,
) -> Result<(schedlab_kernel::Variant, schedlab_kernel::Variant)> {
    is_there(&args.wanted)?;
    if args.is_patch() {
        if args.backend()? == Backend::Sim {
            return Err(
                Error::input("the simulator does not run a patch's code").help("leave out --backend sim")
            );
        }
        let (source, words) = (args.source.as_deref().unwrap_or(SOURCE), [args.wanted.clone()]);
        let patches = builds::patches(&words, source, Path::new(""))?;
        let trial = Trial::of(source, &words, patches, None, &[])?;
        return Ok((trial.base, trial.patched));
    }
    if fault.is_some() {
        let variant = schedlab_lab::variant_words::in_short(&args.wanted)?;
        let baseline = args.baseline.as_deref().map(schedlab_lab::variant_words::in_short).transpose()?;
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

/// Writes the rt-app file and the experiment.
fn keep(found: &LosingWorkload, judge: &Judge, folder: &Path) -> Result<()> {
    let write = |ending: &str, text: String| {
        schedlab_base::temp::write_whole(&folder.join(format!("{}.{ending}", found.name())), text.as_bytes())
    };
    write("json", found.rtapp(judge))?;
    write("toml", found.experiment_text(judge))
}

fn finding(found: &LosingWorkload, judge: &Judge, folder: &Path) -> HuntFinding {
    HuntFinding {
        class: found.class.name(),
        metric: found.loss.metric.clone(),
        machine: judge.space.machines[found.specimen.machine].0.clone(),
        tasks: found.specimen.tasks(),
        tasks_before: found.tasks_before,
        loss: found.loss.ratio,
        spread: found.loss.spread,
        shrunk_to_the_end: found.whole,
        experiment: folder.join(format!("{}.toml", found.name())),
        workload: found.specimen.words(),
        confirmed: Vec::new(),
    }
}

/// Runs a found workload with other seeds; returns the row of its metric on the backend.
fn confirm(
    found: &LosingWorkload,
    judge: &Judge,
    args: &HuntArgs,
    backend: Backend,
) -> Result<Option<ComparisonRow>> {
    let request = RunRequest {
        backend,
        jobs: args.jobs,
        guest: args.guest.setup()?,
        out: args.out.join("runs"),
        ..RunRequest::default()
    };
    let made = common::compared(&request, found.experiment(judge, &args.out)?, args.quiet)?;
    // Beside guests there are simulations, which are confirmed by themselves.
    let is_it = |r: &ComparisonRow| r.metric == found.loss.metric && r.backend == backend;
    Ok(made.comparison.comparisons.into_iter().find(is_it))
}

fn print(hunt: &Hunt, findings: &[HuntFinding], judge: &Judge, args: &HuntArgs) -> Result<()> {
    if args.json {
        return output::json_as(
            "schedlab/hunt/1",
            &serde_json::json!({
                "variant": judge.variant.name, "baseline": judge.baseline.name, "seed": args.seed,
                "evals": hunt.evals, "shrink_evals": hunt.shrink_evals, "fragile": hunt.fragile, "interrupted": hunt.interrupted,
                "found": findings,
            }),
        );
    }
    let wrong = judge.fault.map_or(String::new(), |f| format!(" with the fault {}", f.name));
    output::result(|out| {
        let (variant, baseline) = (&judge.variant.name, &judge.baseline.name);
        let (evals, shrinks) = (hunt.evals, hunt.shrink_evals);
        let by = match &judge.images {
            Some([image, _]) => format!(", by the kernel's own code at level {}", image.setup.level.word()),
            None => String::new(),
        };
        writeln!(
            out,
            "{variant}{wrong} against {baseline}{by}: {}, {shrinks} more to shrink them",
            schedlab_base::counted(evals, "workload")
        )?;
        if hunt.fragile > 0 {
            let losses = schedlab_base::counted(hunt.fragile, "loss");
            writeln!(out, "{losses} left out: gone when the workload's times change by a few per cent")?;
        }
        if findings.is_empty() && !hunt.interrupted {
            writeln!(out, "\nNo loss was found.")?;
        }
        for (one, found) in findings.iter().zip(&hunt.found) {
            of_one(one, found, judge.images.is_some(), out)?;
        }
        if hunt.interrupted && findings.iter().any(|one| one.confirmed.is_empty()) {
            writeln!(out, "\nInterrupted: what was found is kept; some of it is not confirmed.")?;
        }
        Ok(())
    })
}

fn of_one(
    one: &HuntFinding,
    found: &LosingWorkload,
    by_code: bool,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    let whole = if one.shrunk_to_the_end { "" } else { ", not shrunk to the end" };
    writeln!(out, "\n{}: {} on {}", one.class, found.loss.words(), one.machine)?;
    writeln!(
        out,
        "  {}, of {} at first{whole}:",
        schedlab_base::counted(one.tasks, "task"),
        one.tasks_before
    )?;
    one.workload.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
    for row in &one.confirmed {
        let figures = match (row.change_pct, row.ci95_pct) {
            (Some(pct), Some([a, b])) => format!("{}, {} to {}%", change(pct), signed(a), signed(b)),
            (Some(pct), None) => change(pct),
            _ => "new".to_owned(),
        };
        let words = match row.verdict {
            Verdict::Worse => "confirmed",
            // More or less CPU time is neither good nor bad; the hunt looked for less.
            Verdict::Changed if one.class == "share" && row.change_pct.is_some_and(|pct| pct < 0.0) => {
                "confirmed"
            }
            Verdict::Unclear => "not confirmed, the data can't tell",
            _ => "not confirmed",
        };
        writeln!(out, "  {words} by other seeds on {}: {} {figures}", row.backend, row.metric)?;
    }
    let backend = if by_code { " --backend code" } else { "" };
    writeln!(out, "  schedlab run {}{backend}", one.experiment.display())
}
