//! An experiment, from its options to the printed comparison. `study` and `run` share it.

use crate::cluster::ClusterOptions;
use crate::code_options::CodeOptions;
use crate::common::{self, FormOptions, WatchOptions};
use crate::gate::{self, GateOptions};
use crate::guests::GuestOptions;
use crate::listener::Shown;
use crate::timing::Timed;
use crate::{output, published};
use clap::Args;
use schedlab_base::{Error, Result, counted, each_once};
use schedlab_cluster::parcel::{Contents, Parcel, Protocol};
use schedlab_cluster::slurm;
use schedlab_compare::Comparison;
use schedlab_compare::predicted::predicted;
use schedlab_lab::ask::experiment::{MAX_RUNS, Part};
use schedlab_lab::make::budget::Budget;
use schedlab_lab::make::plan::Run;
use schedlab_lab::{Backend, Cell, Compared, Engine, Experiment, Lab, Options, Plan, RunRequest};
use schedlab_record::store_listing::EXPERIMENT_FILE;
use schedlab_record::{Observe, RunDir, Store};
use schedlab_report::answer;
use std::path::{Path, PathBuf};

/// The value of an experiment's `--load`. An option `--load` with another value is another option.
pub const LOAD_VALUE: &str = "NAME[@MACHINE]";

#[derive(Args)]
pub struct ExperimentOptions {
    /// Where runs are made: sim (the simulator), code (the scheduler's own code of a kernel's tree, on simulated
    /// machines), host (the running kernel) or vm (kernels in guests, with a simulation of the same beside them)
    #[arg(long, value_name = "BACKEND", default_value = "sim", value_parser = output::word(Backend::parse))]
    backend: Backend,
    #[command(flatten)]
    watch: WatchOptions,
    /// Runs of each cell; overrides the experiment's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RUNS))]
    runs: Option<u64>,
    /// Make more runs until each row is decided or this is used: a time (10m), or a number of runs. Rows are looked at
    /// after --runs runs of a cell and after twice as many each time, three times more at most, and the chance of a
    /// false alarm stays 5 % (docs/statistics.md)
    #[arg(long, value_name = "TIME|RUNS", value_parser = Budget::parse, conflicts_with = "uncertainty")]
    budget: Option<Budget>,
    /// Seed of the first run; overrides the experiment's. Run i has seed S + i
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Draw costs from their stated ranges, run by run (simulator; 40 runs unless --runs is given), and show which
    /// costs move the results
    #[arg(long, hide_short_help = true)]
    uncertainty: bool,
    /// Simulations and deterministic guests side by side; all CPUs by default. Live runs are made one at a time
    // Workloads have parameters of that name, and some commands have both.
    #[arg(id = "at_once", long = "jobs", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Where runs are stored; runs that are there already are not made again
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Only this load, on all its machines or on one; may be given more than once
    #[arg(long, value_name = LOAD_VALUE)]
    load: Vec<String>,
    /// Only the loads on this machine; may be given more than once
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Only the loads of this workload; may be given more than once
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Only this variant; may be given more than once. Without the experiment's baseline, the first of them is the
    /// baseline
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// Only this metric, of the experiment or any other (docs/metrics.md); may be given more than once. Loads that have
    /// none of them are left out
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Kernel for guests (a series such as 6.1, or a bzImage) or for backend code (a series, or the folder of a tree),
    /// which runs the variants of its series; may be given more than once [default: the kernels that the variants name]
    #[arg(long, value_name = "KERNEL", hide_short_help = true)]
    kernel: Vec<String>,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    form: FormOptions,
    #[command(flatten)]
    gate: GateOptions,
    /// After the result, set the changes that the simulator predicted beside those of the real kernels (--backend vm)
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    predict: bool,
    /// Print on standard error how fast the simulator was
    #[arg(long, hide_short_help = true)]
    timing: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
    /// Whether sched_ext schedulers are compared.
    #[arg(skip)]
    of_schedulers: bool,
}

impl ExperimentOptions {
    /// The form of the result, checked before any work is done.
    ///
    /// # Errors
    /// For an unknown form, and options of another backend.
    pub fn check(&self) -> Result<()> {
        let backend = self.backend;
        self.guest.check(backend)?;
        self.code.check(backend)?;
        let is_real = matches!(backend, Backend::Vm | Backend::Code);
        if let Some(kernel) = self.kernel.first().filter(|_| !is_real) {
            let text = format!(
                "--kernel {kernel} names a real kernel, and backend {backend} runs the experiment's variants"
            );
            let help = "add --backend vm or --backend code, or a [[variant]] with its kernel";
            return Err(Error::input(text).help(help));
        }
        if self.predict && backend != Backend::Vm {
            return Err(
                Error::input("--predict compares simulations with real kernels").help("add --backend vm")
            );
        }
        self.cluster.check()?;
        if self.budget.is_some() && self.cluster.is_slurm() {
            let text =
                "--budget is for runs that are made here: how long a cluster's queue takes is not known";
            return Err(Error::input(text).help("--runs makes more runs of each cell"));
        }
        for (option, given) in [("--jobs", self.jobs.is_some()), ("--timing", self.timing)] {
            if given && self.cluster.is_slurm() {
                let text =
                    format!("{option} is for runs that are made here, and --engine slurm makes none here");
                return Err(Error::input(text).help("--slurm cpus=N says how many a task makes side by side"));
            }
        }
        self.observe()?;
        self.form.form().map(|_| ())
    }
}

impl ExperimentOptions {
    /// What makes the command fail after its result.
    pub fn gate(&self) -> &GateOptions {
        &self.gate
    }
    /// Records events of live runs, as far as nothing else was asked for.
    pub fn set_events(&mut self) {
        self.watch.set_events();
    }
    /// Takes the machines out: an experiment is made for machines and does not contain them.
    pub fn take_machines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.machine)
    }
    /// Takes the only kernel out: that of schedulers, whose variants name it. Loads that one can't run are left out.
    ///
    /// # Errors
    /// For several.
    pub fn take_kernel(&mut self) -> Result<Option<String>> {
        self.of_schedulers = true;
        match std::mem::take(&mut self.kernel).as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => Err(Error::input("schedulers are compared on one kernel").help("name one --kernel")),
        }
    }
    /// Takes the kernels out: a command makes its variants of them.
    pub fn take_kernels(&mut self) -> Vec<String> {
        each_once(&std::mem::take(&mut self.kernel))
    }
    /// Where runs are made.
    pub fn backend(&self) -> Backend {
        self.backend
    }
    /// Where runs are made if the command line does not say.
    pub fn set_backend(&mut self, backend: Backend) {
        self.backend = backend;
    }
    fn part(&self) -> Part {
        Part {
            loads: self.load.clone(),
            machines: self.machine.clone(),
            workloads: self.workload.clone(),
            variants: self.variant.clone(),
            metrics: self.form.outlets.with_metrics(&self.metric),
        }
    }
    fn request(&self) -> Result<RunRequest> {
        Ok(RunRequest {
            backend: self.backend,
            part: self.part(),
            wanted: Options {
                runs: self.runs,
                seed: self.seed,
                observe: self.observe()?,
                uncertainty: self.uncertainty,
            },
            kernel: each_once(&self.kernel),
            guest: self.guest.setup()?,
            level: self.code.level()?,
            jobs: self.jobs,
            out: self.out.clone(),
            budget: self.budget,
            of_schedulers: self.of_schedulers,
            ..RunRequest::default()
        })
    }
    /// The protocol of runs that are made elsewhere.
    fn protocol(&self) -> Protocol {
        Protocol { events: self.watch.keep_events, validation: false }
    }
    /// Makes the runs, here or on a cluster, and compares them.
    fn compared(&self, experiment: Experiment) -> Result<Compared> {
        let request = self.request()?;
        let backends = common::backends(self.watch.keep_events.then(|| self.out.clone()))?;
        let cluster = self.cluster.cluster(&experiment.slurm, &experiment.name, self.protocol())?;
        let timed = Timed::new(&backends);
        let lab = Lab {
            executor: &timed,
            engine: cluster.as_ref().map(|c| c as &dyn Engine),
            listener: &Shown { quiet: self.quiet, timed: self.timing.then_some(&timed) },
        };
        lab.compared_so_far(&request, experiment)
    }
    /// Whether a cluster makes the runs.
    pub fn on_cluster(&self) -> bool {
        self.cluster.is_slurm()
    }
    /// Where runs are stored.
    pub fn out(&self) -> &Path {
        &self.out
    }
    /// Whether progress and notes are kept quiet.
    pub fn quiet(&self) -> bool {
        self.quiet
    }
    /// The first option that asks for a part of an experiment, or judges its rows. Loads and machines may be asked for
    /// where `in_part` is set: each row is judged by itself.
    pub fn beyond_claims(&self, backend: Backend, in_part: bool) -> Option<&'static str> {
        let asked = [
            ("--load", !in_part && !self.load.is_empty()),
            ("--machine", !in_part && !self.machine.is_empty()),
            ("--workload", !in_part && !self.workload.is_empty()),
            ("--variant", !self.variant.is_empty()),
            ("--metric", !self.metric.is_empty()),
            ("--kernel", !self.kernel.is_empty()),
            ("--backend", self.backend != backend),
            ("--predict", self.predict),
            ("--uncertainty", self.uncertainty),
            ("--budget", self.budget.is_some()),
            ("--plot", self.form.plots()),
            ("--junit, --print", self.has_outlet()),
            ("--fail-on", self.gate.is_asked()),
        ];
        asked.into_iter().find(|(_, asked)| *asked).map(|(option, _)| option)
    }
    /// The form of the result.
    pub fn form(&self) -> Result<&'static schedlab_report::ReportForm> {
        self.form.form()
    }
    /// Whether the comparison goes to a file, or one number of it is printed.
    pub fn has_outlet(&self) -> bool {
        self.form.outlets.asked()
    }
    fn observe(&self) -> Result<Observe> {
        self.watch.observe(self.backend)
    }
}

/// Runs an experiment and prints its comparison.
///
/// # Errors
/// For errors in options or experiment, when a run fails, or on an interruption.
pub fn conduct(experiment: Experiment, options: &ExperimentOptions) -> Result<()> {
    options.gate.check(&conducted(experiment, options)?.comparison)
}

/// As [`conduct`]; `complete` adds warnings and answers, which stand behind a table for people.
///
/// # Errors
/// As [`conduct`].
pub fn conduct_noted(
    experiment: Experiment,
    options: &ExperimentOptions,
    complete: impl FnOnce(&mut Comparison),
) -> Result<()> {
    let comparison = conducted_with(experiment, options, complete)?.comparison;
    if options.form.is_table() && !options.has_outlet() {
        output::result(|out| answer::print(&comparison.answers, out))?;
    }
    options.gate.check(&comparison)
}

/// As [`conduct`], for a suite: it also fails if a load stood still under a change.
///
/// # Errors
/// As [`conduct`].
pub fn conduct_suite(experiment: Experiment, options: &ExperimentOptions) -> Result<()> {
    let doubts = match options.backend {
        Backend::Code => published::doubted(switched(&experiment))?,
        _ => Vec::new(),
    };
    let comparison = conducted_with(experiment, options, |c| c.warnings.extend(doubts))?.comparison;
    options.gate.check(&comparison)?;
    gate::none_stopped(&comparison)?;
    gate::none_left_out(&comparison)
}

/// The features and tunables in which variants differ from the baseline.
fn switched(experiment: &Experiment) -> Vec<&str> {
    let Some(base) = experiment.variants.iter().find(|v| v.name == experiment.baseline) else {
        return Vec::new();
    };
    let features = experiment.variants.iter().flat_map(|v| &v.features);
    let tunables = experiment.variants.iter().flat_map(|v| &v.tunables);
    let other =
        tunables.filter(|(name, value)| base.tunables.get(*name) != Some(value)).map(|(name, _)| name);
    features.filter(|name| !base.features.contains(name)).chain(other).map(String::as_str).collect()
}

/// An experiment whose runs were made or found.
pub struct Conducted {
    pub plan: Plan,
    /// The runs of the plan that are there.
    pub runs: Vec<RunDir>,
    pub comparison: Comparison,
}

/// As [`conduct`], but without a check of the result.
pub fn conducted(experiment: Experiment, options: &ExperimentOptions) -> Result<Conducted> {
    conducted_with(experiment, options, |_| ())
}

/// As [`conducted`]; `complete` adds to the comparison before it is shown.
fn conducted_with(
    experiment: Experiment,
    options: &ExperimentOptions,
    complete: impl FnOnce(&mut Comparison),
) -> Result<Conducted> {
    options.check()?;
    if options.watch.keep_events {
        Store::create(&options.out)?;
    }
    let mut made = options.compared(experiment)?;
    complete(&mut made.comparison);
    common::print(&made.comparison, &options.form, &options.gate)?;
    if let Some(unfinished) = made.unfinished.take() {
        return Err(unfinished);
    }
    if options.predict {
        predictions(&made)?;
    }
    if !options.quiet {
        let out = options.out.display();
        output::note(&format!("{} made, {} found; kept in {out}", counted(made.new, "run"), made.found));
    }
    let folders =
        made.plan.cells.iter().map(|c| Ok(options.out.join(c.hash()?))).collect::<Result<Vec<_>>>()?;
    let runs = made.plan.runs.iter().map(|r| RunDir { path: folders[r.cell].join(r.seed.to_string()) });
    let runs = runs.filter(|r| r.path.is_dir()).collect();
    Ok(Conducted { plan: made.plan, runs, comparison: made.comparison })
}

/// The runs of an experiment, made or found; nothing is printed.
pub fn made(experiment: Experiment, options: &ExperimentOptions) -> Result<Compared> {
    options.check()?;
    let mut made = options.compared(experiment)?;
    made.unfinished.take().map_or(Ok(made), Err)
}

/// As [`made`]; the comparison of the runs.
pub fn compared(experiment: Experiment, options: &ExperimentOptions) -> Result<Comparison> {
    made(experiment, options).map(|made| made.comparison)
}

/// The runs of an experiment that the store lacks, as a parcel; nothing when it lacks none.
pub fn parcel(experiment: Experiment, options: &ExperimentOptions) -> Result<Option<Parcel>> {
    options.check()?;
    let backends = common::backends(None)?;
    let shown = Shown::new(options.quiet);
    let lab = Lab::here(&backends, &shown);
    let (plan, experiment) = lab.planned(&options.request()?, experiment)?;
    let hashes = plan.cells.iter().map(Cell::hash).collect::<Result<Vec<_>>>()?;
    // A missing store has no runs, and a parcel does not create it.
    let store = Store::open(&options.out).ok();
    let is_there = |r: &Run| store.as_ref().is_some_and(|s| s.get(&hashes[r.cell], r.seed).is_some());
    let missing: Vec<usize> = (0..plan.runs.len()).filter(|at| !is_there(&plan.runs[*at])).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let contents = Contents {
        experiment: &experiment.name,
        how: options.protocol(),
        attach: &[(EXPERIMENT_FILE, experiment.text.as_bytes())],
    };
    Parcel::of(&plan, slurm::uncut(&plan, &missing), &contents).map(Some)
}

/// Prints the predicted changes of every variant.
fn predictions(made: &Compared) -> Result<()> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for row in &made.comparison.comparisons {
        let pair = (row.baseline.clone(), row.variant.clone());
        if row.backend == Backend::Vm && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    for (baseline, variant) in pairs {
        let of = predicted(&made.records, &baseline, &variant);
        output::result(|out| {
            writeln!(out, "\n{variant} against {baseline}")?;
            schedlab_report::predictions::text(&of, out)
        })?;
    }
    Ok(())
}
