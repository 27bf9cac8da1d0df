//! An experiment, from its options to the printed comparison. `study` and `run` share it.

use crate::cluster::{ClusterOptions, HERE};
use crate::commands::doctor::stored_floors;
use crate::common::{self, FormOptions, WatchOptions};
use crate::gate::GateOptions;
use crate::guests::GuestOptions;
use crate::progress::Bar;
use crate::timing::Timed;
use crate::{forging, interrupt, output};
use clap::Args;
use schedlab_base::{Error, ErrorKind, Result, Warning, counted};
use schedlab_cluster::parcel::{Contents, Parcel, Protocol};
use schedlab_cluster::slurm;
use schedlab_compare::comparison::folders_made_by_looks;
use schedlab_compare::comparison::looks_warning::with_looks;
use schedlab_compare::metrics::KnownMetrics;
use schedlab_compare::predicted::predicted;
use schedlab_compare::stats::Looks;
use schedlab_compare::{Comparison, Question, compare};
use schedlab_guest::Mode;
use schedlab_kernel::Variant;
use schedlab_kernel::migration::MigrationCost;
use schedlab_kernels::cache;
use schedlab_kernels::forecast::Speed;
use schedlab_lab::Backends;
use schedlab_lab::budget::{self, Budget};
use schedlab_lab::builds;
use schedlab_lab::cell::folders;
use schedlab_lab::experiment::{MAX_RUNS, Part};
use schedlab_lab::plan::{Run, left_out, order};
use schedlab_lab::{
    Backend, Cell, Engine, Experiment, Finished, Options, Plan, Session, plan, plan_in_guests,
};
use schedlab_record::store_listing::EXPERIMENT_FILE;
use schedlab_record::{Observe, Record, RunDir, Store};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of experiments.
#[derive(Args)]
pub struct ExperimentOptions {
    /// Where runs are made: sim (the simulator), host (the running kernel) or vm (kernels in guests, with a simulation
    /// of the same beside them)
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    backend: String,
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Where runs are stored; runs that are there already are not made again
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Only this load, on all its machines or on one; may be given more than once
    #[arg(long, value_name = "NAME[@MACHINE]")]
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
    /// Kernel image for guests: a series such as 6.1, or a bzImage, which runs the variants of its series; may be given
    /// more than once [default: the images that the variants' kernels name]
    #[arg(long, value_name = "KERNEL", hide_short_help = true)]
    kernel: Vec<String>,
    #[command(flatten)]
    guest: GuestOptions,
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
}

impl ExperimentOptions {
    /// The form of the result, checked before any work is done.
    ///
    /// # Errors
    /// For an unknown form, and options of another backend.
    pub fn check(&self) -> Result<()> {
        let backend = Backend::parse(&self.backend)?;
        self.guest.check(backend)?;
        if let Some(kernel) = self.kernel.first().filter(|_| backend != Backend::Vm) {
            return Err(Error::input(format!(
                "--kernel {kernel} is for guests: an experiment's variants name the kernels to simulate"
            ))
            .help("add --backend vm"));
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
    /// Takes the machines out: an experiment is made for machines and does not contain them.
    pub fn take_machines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.machine)
    }
    /// Whether it runs on this host, which has a machine of its own.
    pub fn on_host(&self) -> bool {
        self.backend == Backend::Host.name()
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
    fn request(&self) -> Result<RunRequest<'_>> {
        Ok(RunRequest {
            backend: Backend::parse(&self.backend)?,
            part: self.part(),
            wanted: Options {
                runs: self.runs,
                seed: self.seed,
                observe: self.observe()?,
                uncertainty: self.uncertainty,
            },
            kernel: &self.kernel,
            guest: &self.guest,
            jobs: self.jobs,
            out: &self.out,
            trial: false,
            budget: self.budget,
            cluster: &self.cluster,
            how: Protocol { events: self.watch.keep_events, validation: false },
            backends: common::backends(self.watch.keep_events.then(|| self.out.clone()))?,
            timing: self.timing,
            quiet: self.quiet,
        })
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
    /// The first option that asks for a part of an experiment, or judges its rows.
    pub fn beyond_claims(&self) -> Option<&'static str> {
        let asked = [
            ("--load", !self.load.is_empty()),
            ("--machine", !self.machine.is_empty()),
            ("--workload", !self.workload.is_empty()),
            ("--variant", !self.variant.is_empty()),
            ("--metric", !self.metric.is_empty()),
            ("--kernel", !self.kernel.is_empty()),
            ("--backend", self.backend != Backend::Sim.name()),
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
        self.watch.observe(Backend::parse(&self.backend)?)
    }
}

/// Runs an experiment and prints its comparison.
///
/// # Errors
/// For errors in options or experiment, when a run fails, or on an interruption.
pub fn conduct(experiment: Experiment, options: &ExperimentOptions) -> Result<()> {
    options.gate.check(&conducted(experiment, options)?.2)
}

/// As [`conduct`], but without a check of the result; also gives the plan, its runs and the comparison.
pub fn conducted(
    experiment: Experiment,
    options: &ExperimentOptions,
) -> Result<(Plan, Vec<RunDir>, Comparison)> {
    options.check()?;
    let request = options.request()?;
    if options.watch.keep_events {
        Store::create(&options.out)?;
    }
    let made = request.make(experiment)?;
    common::print(&made.comparison, &options.form, &options.gate)?;
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
    Ok((made.plan, runs, made.comparison))
}

/// The comparison of an experiment's runs, made or found; nothing is printed.
pub fn compared(experiment: Experiment, options: &ExperimentOptions) -> Result<Comparison> {
    options.check()?;
    Ok(options.request()?.make(experiment)?.comparison)
}

/// The runs of an experiment that the store lacks, as a parcel; nothing when it lacks none.
pub fn parcel(experiment: Experiment, options: &ExperimentOptions) -> Result<Option<Parcel>> {
    options.check()?;
    let request = options.request()?;
    let (plan, experiment) = request.planned(experiment)?;
    let hashes = plan.cells.iter().map(Cell::hash).collect::<Result<Vec<_>>>()?;
    // A store that is not there has no run, and is not made for a parcel.
    let store = Store::open(&options.out).ok();
    let is_there = |r: &Run| store.as_ref().is_some_and(|s| s.get(&hashes[r.cell], r.seed).is_some());
    let missing: Vec<usize> = (0..plan.runs.len()).filter(|at| !is_there(&plan.runs[*at])).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let contents = Contents {
        experiment: &experiment.name,
        how: request.how,
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

/// The runs of an experiment that are to be made.
pub struct RunRequest<'a> {
    pub backend: Backend,
    /// The part of the experiment.
    pub part: Part,
    /// Number of runs, first seed and the like.
    pub wanted: Options,
    /// Images of guests; empty: those that the variants name.
    pub kernel: &'a [String],
    /// How guests are set up.
    pub guest: &'a GuestOptions,
    /// Runs side by side; `None`: one for each CPU.
    pub jobs: Option<u64>,
    pub out: &'a Path,
    /// Whether it is a trial: runs are made in deterministic guests, and simulations beside them are predictions.
    pub trial: bool,
    /// What may be used for more runs than the first ones, which are then a first look; `None`: these are all.
    pub budget: Option<Budget>,
    /// Where missing runs are made, and what is asked of a cluster.
    pub cluster: &'a ClusterOptions,
    /// How they are made there.
    pub how: Protocol,
    /// Makes the runs.
    pub backends: Backends,
    /// Whether the simulator's speed is shown.
    pub timing: bool,
    /// Whether progress and notes are kept quiet.
    pub quiet: bool,
}

/// Runs that were made or found, compared.
pub struct Compared {
    pub comparison: Comparison,
    pub plan: Plan,
    /// The records in the plan's order.
    pub records: Vec<Record>,
    pub new: usize,
    /// Number of runs found in the store.
    pub found: usize,
}

impl<'a> RunRequest<'a> {
    /// All of an experiment on a backend, with what it says itself and nothing further.
    pub fn new(backend: Backend, guest: &'a GuestOptions, out: &'a Path) -> Result<RunRequest<'a>> {
        Ok(RunRequest {
            backend,
            part: Part::default(),
            wanted: Options::default(),
            kernel: &[],
            guest,
            jobs: None,
            out,
            trial: false,
            budget: None,
            cluster: &HERE,
            how: Protocol::default(),
            backends: common::backends(None)?,
            timing: false,
            quiet: false,
        })
    }
}

impl RunRequest<'_> {
    /// The plan of an experiment's part, and that part. Kernels are built first.
    fn planned(&self, mut experiment: Experiment) -> Result<(Plan, Experiment)> {
        let backend = self.backend;
        if backend == Backend::Vm {
            experiment = experiment.in_guests();
        }
        let whole = experiment.variants.clone();
        experiment.narrow(backend, &self.part)?;
        let mut plan = match backend {
            Backend::Vm => {
                let usual = self.trial.then_some(Mode::Deterministic);
                let mut guests = self.guest.guests(self.kernel, usual)?;
                if usual.is_some_and(|mode| mode != guests.mode) {
                    return Err(Error::input("a trial needs deterministic guests")
                        .help("leave out --guest-mode real-time"));
                }
                if self.kernel.is_empty() {
                    let folder = experiment.file.parent().unwrap_or(Path::new("."));
                    let builds = builds::wanted(&whole, &experiment.variants, folder)?;
                    if self.trial && !self.quiet {
                        let cells = experiment.loads.len() * experiment.variants.len();
                        let first = cells as u64 * self.wanted.runs.unwrap_or(experiment.runs);
                        let further = self.budget.map_or(Some(0), |budget| budget.further_runs(first));
                        forging::foretell(&builds, (first, further), self.jobs())?;
                    }
                    guests.built = forging::build_all(&builds, &experiment.variants, self.quiet)?;
                }
                plan_in_guests(&experiment, &guests, self.wanted)?
            }
            Backend::Sim | Backend::Host => {
                // To measure that on simulated caches of many MB takes up to a minute, before the first run.
                let measures = |v: &Variant| v.migration_cost == Some(MigrationCost::Auto);
                let _bar = experiment.variants.iter().any(measures).then(|| {
                    let bar = Bar::steps(self.quiet);
                    bar.say(
                        "measuring how long tasks stay cache hot on the machines (migration_cost = auto)"
                            .to_owned(),
                    );
                    bar
                });
                plan(&experiment, backend, self.wanted)?
            }
        };
        if self.trial {
            plan = without_lone_twins(plan)?;
        }
        let left_out = left_out(&experiment, backend);
        if !left_out.is_empty() && !self.quiet {
            output::note(&format!("left out on backend {}: {}", backend.name(), left_out.join(", ")));
        }
        Ok((plan, experiment))
    }

    /// Makes the runs, those that the store does not have, and compares them.
    pub fn make(&self, experiment: Experiment) -> Result<Compared> {
        let (plan, experiment) = self.planned(experiment)?;
        let store = Store::create(self.out)?;
        let folders = folders(&plan.cells, store.root())?;
        let mut question = question(&experiment, &plan)?.kept_in(folders);
        if self.budget.is_some() {
            let runs = plan.runs.iter().filter(|r| r.cell == 0).count() as u64;
            question = question.at_looks(Looks::doubling(runs, budget::LOOKS));
            let (first, most) =
                (plan.runs.iter().map(|r| r.seed).min(), question.looks.runs().last().copied());
            if first.zip(most).is_some_and(|(seed, runs)| seed.checked_add(runs).is_none()) {
                return Err(Error::input("--seed is so large that the seeds of --budget do not fit"));
            }
        }
        let by_looks = match self.budget {
            Some(_) => None,
            None => found_by_looks(&plan, &store)?,
        };
        let began = Instant::now();
        let mut looking =
            Looking { request: self, experiment: &experiment, store: &store, question, by_looks, began };
        let nothing_more = Budget::Runs(0);
        let done = budget::until_decided(plan, self.budget.unwrap_or(nothing_more), &mut looking)?;
        let (finished, plan) = (done.finished, done.plan);
        let Some(comparison) = done.comparison else {
            return Err(interrupted(&finished, &plan, &store));
        };
        let new = finished.records.len() - finished.found;
        Ok(Compared { comparison, plan, found: finished.found, new, records: finished.records })
    }

    /// Runs side by side.
    fn jobs(&self) -> u64 {
        self.jobs.unwrap_or_else(common::cpus)
    }

    fn work(&self, plan: &Plan, experiment: &Experiment, store: &Store, looks: &Looks) -> Result<Finished> {
        let executor = Timed::new(&self.backends);
        let bar = Bar::runs(self.quiet);
        let cluster = self.cluster.cluster(&experiment.slurm, &experiment.name, self.how)?;
        let copy = with_looks(&experiment.text, looks);
        let session = Session {
            executor: &executor,
            store: Some(store),
            attach: &[(EXPERIMENT_FILE, copy.as_bytes())],
            jobs: self.jobs() as usize,
            progress: &bar,
            stop: interrupt::stop_flag()?,
            engine: cluster.as_ref().map(|c| c as &dyn Engine),
            outlines: true,
        };
        let began = Instant::now();
        let finished = session.work(plan);
        if let (true, Ok(done), Ok(cache)) = (self.trial, &finished, cache::folder(None)) {
            let made = (done.records.len() - done.found) as u64;
            Speed::learn_runs(&cache, made, began.elapsed().as_millis() as u64 * self.jobs());
        }
        drop(bar);
        if self.timing {
            eprint(&executor.table());
        }
        finished
    }
}

/// Makes and compares the runs of an experiment, look by look.
struct Looking<'a> {
    request: &'a RunRequest<'a>,
    experiment: &'a Experiment,
    store: &'a Store,
    question: Question,
    /// The warning about stored runs that a budget made, where these are judged at one look.
    by_looks: Option<Warning>,
    began: Instant,
}

/// The warning about runs of the plan that a budget made; those that are stored already.
fn found_by_looks(plan: &Plan, store: &Store) -> Result<Option<Warning>> {
    let hashes = plan.cells.iter().map(Cell::hash).collect::<Result<Vec<_>>>()?;
    let runs: Vec<RunDir> =
        plan.runs.iter().filter_map(|run| store.get(&hashes[run.cell], run.seed)).collect();
    Ok(folders_made_by_looks(runs.iter().map(|run| run.path.as_path())))
}

impl budget::LookRuns for Looking<'_> {
    fn make(&mut self, part: &Plan) -> Result<Finished> {
        self.request.work(part, self.experiment, self.store, &self.question.looks)
    }
    fn compare(&self, records: &[Record], warnings: &[Warning]) -> Result<Comparison> {
        // Beside a trial's runs the simulations are predictions, and no rows of its family.
        let of_guests = |r: &&Record| r.backend == Backend::Vm;
        let rows = if self.request.trial {
            Cow::Owned(records.iter().filter(of_guests).cloned().collect::<Vec<_>>())
        } else {
            Cow::Borrowed(records)
        };
        let all: Vec<Warning> = self.by_looks.iter().chain(warnings).cloned().collect();
        compare(&rows, &self.question, &all)
    }
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The plan without simulations if only one variant has them: nothing would be compared with it.
fn without_lone_twins(plan: Plan) -> Result<Plan> {
    let simulated = |c: &&Cell| c.backend == Backend::Sim;
    let mut names: Vec<&str> = plan.cells.iter().filter(simulated).map(|c| c.variant.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() != 1 {
        return Ok(plan);
    }
    let runs = plan.runs.iter().filter(|r| r.cell == 0).count() as u64;
    let seed = plan.runs.iter().map(|r| r.seed).min().unwrap_or(1);
    let cells: Vec<Cell> = plan.cells.into_iter().filter(|c| c.backend != Backend::Sim).collect();
    Ok(Plan { runs: order(cells.len(), runs, seed)?, cells, warnings: plan.warnings })
}

fn eprint(table: &str) {
    table.lines().for_each(output::note);
}

fn interrupted(finished: &Finished, plan: &Plan, store: &Store) -> Error {
    let (done, all, dir) = (finished.records.len(), plan.runs.len(), store.root().display());
    let words = format!("interrupted: {done} of {} finished, kept in {dir}", counted(all, "run"));
    Error::new(ErrorKind::CheckFailed, words).help("the same command continues from there")
}

/// The question asked of the records. It leaves out variants, and their published figures, that were not run, as on the
/// live kernel, and metrics that only left-out loads have.
pub fn question(experiment: &Experiment, plan: &Plan) -> Result<Question> {
    // With guests, only simulated cells may have the experiment's own variant names.
    let backends: Vec<Backend> = plan.cells.iter().map(|c| c.backend).collect();
    let is = |c: &Cell, variant: &str, backend: Backend| c.backend == backend && c.variant.name == variant;
    let was_run = |variant: &str| backends.iter().all(|b| plan.cells.iter().any(|c| is(c, variant, *b)));
    let mut question = experiment.question();
    question.keep_baseline(was_run);
    question.published.retain(|p| was_run(&p.variant));
    let known = KnownMetrics::of(plan.cells.iter().map(|c| &c.spec))?;
    question.metrics.retain(|m| known.check(m).is_ok());
    question.of_load.values_mut().for_each(|own| own.retain(|m| known.check(m).is_ok()));
    question.of_load.retain(|_, own| !own.is_empty());
    let live = plan.cells.iter().any(|c| c.backend == Backend::Host);
    if live { Ok(question.with_floors(stored_floors()?)) } else { Ok(question) }
}
