//! `schedlab tune`: which scheduler settings are best for a command or a workload.

use super::tune_replay;
use crate::cli::Entry;
use crate::code_options::CodeOptions;
use crate::fault::shell;
use crate::guests::GuestOptions;
use crate::listener::Shown;
use crate::{common, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Ns, Result, Version, each_once, temp};
use schedlab_compare::tuned::Tuned;
use schedlab_guest::shape;
use schedlab_kernel::variant::RUNNING;
use schedlab_lab::ask::experiment::{self, Experiment, Part, write::quoted};
use schedlab_lab::ask::here;
use schedlab_lab::search::tune::{AXES, Cpus, Form, Ground, Tune, profile, with, words};
use schedlab_lab::{Backend, Lab, Options, RunRequest};
use schedlab_machine::Machine;
use schedlab_machine::sysfs::HOST;
use schedlab_workload::command::ELAPSED;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const ENTRY: Entry = Entry { command, run };

/// The baseline of a command.
pub const DEFAULT: &str = "default";
/// Programs of sched_ext schedulers have names that begin with this.
const SCHEDULER: &str = "scx_";

#[derive(Args)]
struct TuneArgs {
    /// An experiment: its workloads run, and the settings are changes of its baseline
    #[arg(value_name = "EXPERIMENT.toml", required_unless_present = "command", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// A command, which runs on the running kernel under each setting
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Where runs are made: sim, code, host or vm [default: sim; host for a command]
    #[arg(long, value_name = "BACKEND", value_parser = output::word(Backend::parse))]
    backend: Option<Backend>,
    /// What is to be better; two may be given, then a setting wins that is better in one and worse in none [default:
    /// the experiment's first metric; command.elapsed for a command]
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// An axis of settings to try; may be given more than once (below) [default: all but nice]
    #[arg(long, value_name = "AXIS")]
    axis: Vec<String>,
    /// A setting to try, too: a change as in variants (slice=2ms, NO_PLACE_LAG, scx=PROGRAM), or several with commas
    /// between; may be given more than once. Without --axis only these are tried
    #[arg(long = "try", value_name = "CHANGE[,...]")]
    tried: Vec<String>,
    /// A recorded run of the workload: its replay on this machine decides first which settings run under the workload.
    /// Written code:RUN, by the kernel's own code (--kernel)
    #[arg(long, value_name = "[code:]RUN")]
    prune: Option<String>,
    /// Runs of each setting in the first round; later rounds have twice as many each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    runs: u64,
    /// Seed of the first run [default: the experiment's; of a command one that is new each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// End the race after this time, within a round, too, and confirm those that lead
    #[arg(long, value_name = "TIME", value_parser = common::length_of_time)]
    budget: Option<Ns>,
    /// Write the winner as a tuned profile, a script or a drop-in of systemd; may be given more than once
    #[arg(long, value_name = "tuned|script|systemd:FILE", value_parser = written)]
    write: Vec<(Form, PathBuf)>,
    /// Simulations and deterministic guests side by side; all CPUs by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Where runs are stored
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Kernel for guests or for backend code [default: the one that the experiment's baseline names]
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    code: CodeOptions,
    /// The whole race
    #[arg(long)]
    all: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn written(text: &str) -> Result<(Form, PathBuf)> {
    let known = Form::ALL.iter().map(|(word, _)| *word);
    let (word, file) = text
        .split_once(':')
        .filter(|(_, file)| !file.is_empty())
        .ok_or_else(|| Error::input("a form and a file are wanted").help("--write script:best.sh"))?;
    let form = Form::ALL.iter().find(|(name, _)| *name == word);
    form.map(|(_, form)| (*form, PathBuf::from(file))).ok_or_else(|| Error::unknown("form", word, known))
}

fn command() -> Command {
    let axes: Vec<String> = AXES.iter().map(|axis| format!("  {:<10}{}", axis.name, axis.about)).collect();
    TuneArgs::augment_args(Command::new("tune"))
        .about(
            "Find the scheduler settings that are best for a command or a workload, if any beat the default",
        )
        .override_usage(
            "schedlab tune [OPTIONS] <EXPERIMENT.toml>\n       schedlab tune [OPTIONS] -- COMMAND...",
        )
        .after_help(format!("Axes:\n{}\n\ndocs/changes.md has the method.", axes.join("\n")))
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = TuneArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let experiment = match &args.file {
        Some(file) => experiment::load(file)?,
        None => of_command(&args.command)?,
    };
    let backend = args.backend.unwrap_or(if args.file.is_some() { Backend::Sim } else { Backend::Host });
    args.guest.check(backend)?;
    args.code.check(backend)?;
    let metrics = match args.metric.as_slice() {
        [] => experiment.metrics.iter().take(1).cloned().collect(),
        named if named.len() <= 2 => each_once(named),
        _ => return Err(Error::input("two metrics at most").help("give --metric once or twice")),
    };
    let by_code = args.prune.as_ref().is_some_and(|text| tune_replay::parts(text).0 == Backend::Code);
    let takes_kernels = by_code || matches!(backend, Backend::Vm | Backend::Code);
    if let Some(kernel) = args.kernel.first().filter(|_| !takes_kernels) {
        let text = format!(
            "--kernel {kernel} names a real kernel, and backend {backend} runs the experiment's variants"
        );
        return Err(Error::input(text).help("add --backend vm or --backend code"));
    }
    args.write.iter().try_for_each(|(_, file)| temp::check_place(file))?;
    let cpus = cpus(&experiment, backend)?;
    let words = tried(&args, &experiment, (backend, cpus.as_ref()))?;
    let backends = common::backends(None)?;
    let shown = Shown::new(args.quiet);
    let limit = args.budget.map(|time| Duration::from_nanos(time.0));
    let (lab, first) = (Lab::here(&backends, &shown), args.runs);
    let mut tune = Tune {
        lab,
        request: request(&args, backend)?,
        experiment,
        words,
        cpus,
        metrics,
        first,
        limit,
        replay: None,
    };
    if let Some(text) = &args.prune {
        let (backend, run) = tune_replay::parts(text);
        let experiment = tune_replay::of(run, backend, args.kernel.first(), &args.out)?;
        let cpus = self::cpus(&experiment, backend)?;
        let request = RunRequest { backend, kernel: Vec::new(), trial: false, ..tune.request.clone() };
        let metrics = experiment.metrics.clone();
        let words = Vec::new();
        let replay = Tune { lab, request, experiment, words, cpus, metrics, first, limit, replay: None };
        tune.replay = Some(Box::new(replay));
    }
    let tune = tune;
    let again = |e: Error| match (&args.file, tune.request.wanted.seed) {
        (None, Some(seed)) if args.seed.is_none() => e.context(format!("with --seed {seed}")),
        _ => e,
    };
    let tuned = tune.search().map_err(again)?;
    if args.json {
        output::json_as("schedlab/tune/1", &tuned)?;
    } else {
        common::warn(&tuned.warnings);
        output::result(|out| schedlab_report::tuned::text(&tuned, args.all, out))?;
    }
    keep(&args, &tune, &tuned)
}

fn request(args: &TuneArgs, backend: Backend) -> Result<RunRequest> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    // A command's runs differ each time, so stored ones are not those of today.
    let seed = args.seed.or_else(|| args.file.is_none().then_some(now));
    Ok(RunRequest {
        backend,
        part: Part::default(),
        wanted: Options { seed, ..Options::default() },
        kernel: if backend == Backend::Host { Vec::new() } else { each_once(&args.kernel) },
        guest: args.guest.setup()?,
        level: args.code.level()?,
        jobs: args.jobs,
        out: args.out.clone(),
        trial: backend == Backend::Vm,
        ..RunRequest::default()
    })
}

/// A command on the running kernel as an experiment.
fn of_command(argv: &[String]) -> Result<Experiment> {
    let name =
        Path::new(&argv[0]).file_name().map_or_else(|| argv[0].clone(), |n| n.to_string_lossy().into_owned());
    let run: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    let text = format!(
        "name = \"tune\"\nbaseline = {default}\nmetrics = [{}]\n[workload]\nname = {}\n[workload.command]\nrun = [{}]\n\
         [[variant]]\nname = {default}\nkernel = {}\n",
        quoted(ELAPSED),
        quoted(&name),
        run.join(", "),
        quoted(RUNNING),
        default = quoted(DEFAULT),
    );
    experiment::parse(Path::new("tune.toml"), &text, here::cpus())
}

/// The CPUs of the machine that runs the experiment; `None`: it has several that differ.
fn cpus(experiment: &Experiment, backend: Backend) -> Result<Option<Cpus>> {
    if backend == Backend::Host {
        let allowed =
            schedlab_native::affinity().map_err(|e| Error::machine(format!("this process's CPUs: {e}")))?;
        return Ok(Some(Cpus::within(Machine::load(HOST)?.topology, &allowed)));
    }
    let part = match backend {
        Backend::Vm => experiment.vm.as_deref().unwrap_or(experiment),
        Backend::Code => experiment.code.as_deref().unwrap_or(experiment),
        Backend::Sim | Backend::Host => experiment,
    };
    let mut all = Vec::new();
    for machine in &part.machines {
        let built = if backend == Backend::Vm { shape::as_built(machine)? } else { machine.clone() };
        all.push(built.topology);
    }
    let first = all.first().filter(|first| all.iter().all(|other| other == *first));
    Ok(first.cloned().map(Cpus::all))
}

/// The words of all settings that are tried.
fn tried(
    args: &TuneArgs,
    experiment: &Experiment,
    (backend, cpus): (Backend, Option<&Cpus>),
) -> Result<Vec<String>> {
    if !args.tried.is_empty() && args.axis.is_empty() {
        return Ok(args.tried.clone());
    }
    let base = experiment.variants.iter().find(|v| v.name == experiment.baseline);
    let named =
        args.kernel.first().map(String::as_str).or(base.map(|v| v.kernel.as_str())).unwrap_or(RUNNING);
    let version = if named == RUNNING { here::running_kernel() } else { Version::parse(named).ok() };
    let Some(version) = version else {
        return Err(Error::input(format!("the settings of kernel '{named}' are not known"))
            .help("name them: --try slice=1ms --try NO_PLACE_LAG"));
    };
    let schedulers = if backend == Backend::Sim { Vec::new() } else { installed() };
    let mut all = words(&args.axis, &Ground { version, schedulers: &schedulers, cpus })?;
    all.extend(args.tried.iter().cloned());
    Ok(all)
}

/// Programs of sched_ext schedulers in PATH.
fn installed() -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let entries =
        std::env::split_paths(&path).filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> =
        names.filter(|name| name.starts_with(SCHEDULER) && !name.contains('.')).collect();
    found.sort();
    found.dedup();
    found
}

/// Writes the winner in the forms that were asked for.
fn keep(args: &TuneArgs, tune: &Tune<'_>, tuned: &Tuned) -> Result<()> {
    let Some(winner) = &tuned.winner else {
        if !args.write.is_empty() {
            output::note("nothing is written: nothing beats the default");
        }
        return Ok(());
    };
    let experiment = &tune.experiment;
    let base = experiment.variants.iter().find(|v| v.name == experiment.baseline);
    let variant = with(base.ok_or_else(|| Error::internal("no baseline"))?, winner, tune.cpus.as_ref())?;
    let about = format!(
        "schedlab tune: {winner} is better than {} by {}",
        tuned.default,
        tuned.metrics.join(" and ")
    );
    let command = match args.command.as_slice() {
        [] => "\"$@\"".to_owned(),
        words => words.iter().map(|word| shell(word)).collect::<Vec<_>>().join(" "),
    };
    for (form, file) in &args.write {
        match profile(&variant, *form, &about, &command) {
            Ok(text) => temp::write_whole(file, text.as_bytes())?,
            Err(e) => {
                output::note(&format!("{} is not written: {e}", file.display()));
                continue;
            }
        }
        if *form == Form::Script {
            let may_run = std::fs::set_permissions(file, Permissions::from_mode(0o755));
            may_run.map_err(|e| Error::io(file, "make executable", &e))?;
        }
    }
    Ok(())
}
