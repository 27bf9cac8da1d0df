//! The engine of a cluster: the missing runs of a plan as job arrays of Slurm.
//!
//! Slurm queues, starts, requeues and accounts. This room cuts runs into tasks ([`cut`]), submits them with a journal
//! in the store ([`journal`]), and waits until the store has the runs ([`wait`]). Only the store decides that a run
//! is done: a run is a folder that is renamed into its place, so commands that wait, tasks that are started twice and
//! commands at the same time need no protocol beside it. A run that a task under way has is never submitted again.

mod ask;
mod cut;
pub mod journal;
mod verdict;
mod wait;

pub use wait::{Shown, SubmissionState, TaskState, submission_states};

use self::ask::Slurm;
use crate::parcel::{Contents, Parcel, Protocol, Task};
use cut::{GUESS_S, WallTimes, cut, expected_s};
use journal::{Journal, SCHEMA, Submission};
use schedlab_base::{Backend, Error, Result, utc};
use schedlab_guest::Mode;
use schedlab_lab::cell::Cell;
use schedlab_lab::exec::{Engine, Executor, MissingRuns, Session};
use schedlab_lab::experiment::SlurmOptions;
use schedlab_lab::plan::{Plan, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A run that is made here to learn how long runs take is given up after this time.
const MEASURED_FOR: Duration = Duration::from_secs(10);

/// A cluster, and what is asked of it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What is asked of Slurm.
    pub options: SlurmOptions,
    pub experiment: String,
    /// How runs are made.
    pub how: Protocol,
}

/// Whether a cell's runs are of real time, so that others on the node disturb them.
fn is_live(cell: &Cell) -> bool {
    match cell.backend {
        Backend::Sim | Backend::Code => false,
        Backend::Host => true,
        Backend::Vm => cell.guest.as_ref().is_none_or(|g| g.mode == Mode::RealTime),
    }
}

impl Engine for Cluster {
    fn make(&self, wanted: &MissingRuns<'_>, session: &Session<'_>) -> Result<bool> {
        if wanted.missing.is_empty() {
            return Ok(true);
        }
        if wanted.missing.iter().any(|r| is_live(&wanted.plan.cells[wanted.plan.runs[*r].cell])) {
            self.options.check_live()?;
        }
        let schedlab = self.executable()?;
        ask::check_environment()?;
        let slurm = Slurm::new(session.stop);
        let most = slurm.max_array()?;
        let journal = Journal::create(wanted.store.root())?;
        let watched = {
            let _lock = journal.lock()?;
            let mut all = journal.all()?;
            all.iter_mut().try_for_each(|s| journal.settle(slurm, s))?;
            all.retain(|s| !s.jobs.is_empty());
            let claims = claimed(&journal, &all, wanted)?;
            let free = wanted.missing.iter().copied().filter(|r| !claims.runs.contains(r));
            // Another command may have ended since the runs were counted.
            let free: Vec<usize> = free.filter(|r| !is_stored(wanted, *r)).collect();
            let mut watched = claims.submissions;
            if !watched.is_empty() {
                let jobs: Vec<String> = all
                    .iter()
                    .filter(|s| watched.contains(&s.name))
                    .flat_map(Submission::numbers)
                    .map(|n| n.to_string())
                    .collect();
                let runs = claims.runs.len();
                session.progress.note(&format!(
                    "{} {} in jobs submitted before: {}",
                    schedlab_base::counted(runs, "run"),
                    schedlab_base::one_or(runs, "is", "are"),
                    jobs.join(", ")
                ));
            }
            let made = Submitting {
                cluster: self,
                journal: &journal,
                slurm,
                wanted,
                session,
                schedlab: &schedlab,
                most,
            };
            watched.extend(made.submit(free)?);
            watched
        };
        wait::until_stored(&journal, &watched, wanted, session)
    }
}

impl Cluster {
    /// The executable that the nodes start.
    fn executable(&self) -> Result<PathBuf> {
        let help = "--slurm schedlab=PATH names it";
        let own = || std::env::current_exe().ok().filter(|path| path.is_file());
        let named = self.options.schedlab.clone().or_else(own);
        let path =
            named.ok_or_else(|| Error::machine("the place of this executable is not known").help(help))?;
        journal::check_path(&path).map_err(|e| e.help(help))?;
        Ok(path)
    }
}

/// Tasks that hold all of these runs of a plan, by their indices: one of those that may be made side by side, and one
/// of live blocks.
pub fn uncut(plan: &Plan, runs: &[usize]) -> Vec<Task> {
    let (live, others): (Vec<usize>, Vec<usize>) =
        runs.iter().partition(|r| is_live(&plan.cells[plan.runs[**r].cell]));
    let none = vec![0.0; plan.cells.len()];
    let of = |runs: &[usize], live| cut(plan, runs, live, &none, (1.0, 1, 1));
    of(&others, false).into_iter().chain(of(&live, true)).collect()
}

fn is_stored(wanted: &MissingRuns<'_>, run: usize) -> bool {
    let Run { cell, seed } = wanted.plan.runs[run];
    wanted.store.get(&wanted.hashes[cell], seed).is_some()
}

/// The wanted runs that tasks under way have.
struct Claims {
    runs: BTreeSet<usize>,
    submissions: BTreeSet<String>,
}

fn claimed(journal: &Journal, all: &[Submission], wanted: &MissingRuns<'_>) -> Result<Claims> {
    let missing: BTreeMap<(&str, u64), usize> = wanted
        .missing
        .iter()
        .map(|r| {
            let Run { cell, seed } = wanted.plan.runs[*r];
            ((wanted.hashes[cell].as_str(), seed), *r)
        })
        .collect();
    let mut claims = Claims { runs: BTreeSet::new(), submissions: BTreeSet::new() };
    for submission in all.iter().filter(|s| s.submitted().into_iter().any(|t| s.claims(t))) {
        let parcel = journal.parcel(submission)?;
        for (_, task) in parcel.tasks.iter().enumerate().filter(|(n, _)| submission.claims(*n)) {
            for (cell, seed) in task.runs() {
                if let Some(run) = missing.get(&(parcel.cells[cell].hash.as_str(), seed)) {
                    claims.runs.insert(*run);
                    claims.submissions.insert(submission.name.clone());
                }
            }
        }
    }
    Ok(claims)
}

/// What is needed to submit runs.
struct Submitting<'a> {
    cluster: &'a Cluster,
    journal: &'a Journal,
    slurm: Slurm<'a>,
    wanted: &'a MissingRuns<'a>,
    session: &'a Session<'a>,
    schedlab: &'a Path,
    most: usize,
}

impl Submitting<'_> {
    /// Submits runs; the names of the submissions. Runs in real time have nodes for themselves, so they are jobs of
    /// their own.
    fn submit(&self, mut runs: Vec<usize>) -> Result<Vec<String>> {
        let plan = self.wanted.plan;
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.known(&mut runs)?;
        if self.session.stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let expected = expected_s(&plan.cells, self.wanted.hashes, &known)?;
        let guessed = runs.iter().any(|r| expected[plan.runs[*r].cell].is_none());
        let expected: Vec<f64> = expected.into_iter().map(|s| s.unwrap_or(GUESS_S)).collect();
        if guessed {
            let text =
                format!("how long runs take is not known: {GUESS_S:.0}s is assumed where nothing else is");
            self.session.progress.note(&text);
        }
        let live = |r: &usize| is_live(&plan.cells[plan.runs[*r].cell]);
        let (live, others): (Vec<usize>, Vec<usize>) = runs.into_iter().partition(live);
        let mut names = Vec::new();
        for (runs, live) in [(others, false), (live, true)] {
            if !runs.is_empty() {
                names.push(self.submit_job(&runs, live, &expected)?);
            }
        }
        Ok(names)
    }

    fn submit_job(&self, runs: &[usize], live: bool, expected: &[f64]) -> Result<String> {
        let (plan, options) = (self.wanted.plan, &self.cluster.options);
        let target = options.task_time.as_secs_f64();
        let tasks = cut(plan, runs, live, expected, (target, options.cpus, self.most));
        let contents = Contents {
            experiment: &self.cluster.experiment,
            how: self.cluster.how,
            attach: self.session.attach,
        };
        let parcel = Parcel::of(plan, tasks, &contents)?;
        let nr = parcel.tasks.len();
        let name = self.journal.begin(&parcel, self.schedlab)?;
        let mut submission = Submission {
            schema: SCHEMA.to_owned(),
            name: name.clone(),
            place: self.journal.place(),
            experiment: self.cluster.experiment.clone(),
            tasks: nr,
            options: options.sbatch(live),
            at_once: options.at_once,
            most_tries: options.tries,
            jobs: Vec::new(),
            given_up: BTreeMap::new(),
            done: false,
        };
        let submitted = self.journal.submit(self.slurm, &mut submission, (0..nr).collect(), now_s());
        if submitted.is_err() && submission.jobs.is_empty() {
            // Nothing was submitted: the entry would be one of nothing.
            let _ = std::fs::remove_dir_all(self.journal.folder_of(&name));
        }
        let job = submitted?;
        let all: f64 = runs.iter().map(|r| expected[plan.runs[*r].cell]).sum();
        let each = all / nr as f64 / if live { 1.0 } else { f64::from(options.cpus) };
        self.session.progress.note(&format!(
            "job {job}: {} in {} of about {}; 'schedlab jobs' shows them",
            schedlab_base::counted(runs.len(), "run"),
            schedlab_base::counted(nr, "task"),
            in_words(each)
        ));
        Ok(name)
    }

    /// The wall time of runs, from the reports of earlier tasks, or else from one simulation that is
    /// made here, and kept.
    fn known(&self, runs: &mut Vec<usize>) -> Result<WallTimes> {
        let mut known = WallTimes::new();
        for submission in self.journal.all()? {
            for task in submission.submitted() {
                let report = submission
                    .last_of(task)
                    .and_then(|(job, _)| self.journal.report(&submission.name, task, job));
                for (cell, (runs, seconds)) in report.into_iter().flat_map(|r| r.worked.wall_s) {
                    let sum = known.entry(cell).or_insert((0, 0.0));
                    *sum = (sum.0 + runs, sum.1 + seconds);
                }
            }
        }
        let plan = self.wanted.plan;
        let simulated = |r: &usize| plan.cells[plan.runs[*r].cell].backend == Backend::Sim;
        let Some(first) = runs.iter().copied().find(simulated) else { return Ok(known) };
        let cells: BTreeSet<&str> = self.wanted.hashes.iter().map(String::as_str).collect();
        if known.keys().any(|hash| cells.contains(hash.as_str())) {
            return Ok(known);
        }
        let Run { cell, seed } = plan.runs[first];
        let (over, began) = (AtomicBool::new(false), Instant::now());
        let made = with_limit(self.session.executor, &plan.cells[cell], seed, &over, self.session.stop)?;
        let took = began.elapsed().as_secs_f64();
        if let Some(made) = made {
            made.put(self.wanted.store, &self.wanted.hashes[cell], seed, self.session.attach)?;
            runs.retain(|r| *r != first);
            self.session
                .progress
                .note(&format!("one run took {took:.2}s here; the others are estimated by it"));
        } else {
            self.session
                .progress
                .note(&format!("one run is not done after {}s here", MEASURED_FOR.as_secs()));
        }
        let hash = self.wanted.hashes[cell].clone();
        // A run that was given up is assumed to be half done.
        known.insert(hash, (1, if runs.contains(&first) { took * 2.0 } else { took }));
        Ok(known)
    }
}

/// Makes a run unless it takes longer than [`MEASURED_FOR`], or `stop` ends it.
fn with_limit(
    executor: &dyn Executor,
    cell: &Cell,
    seed: u64,
    over: &AtomicBool,
    stop: &AtomicBool,
) -> Result<Option<schedlab_lab::Made>> {
    let began = Instant::now();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                let late = began.elapsed() > MEASURED_FOR || stop.load(Ordering::Relaxed);
                over.store(late, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let made = executor.run(cell, seed, over);
        done.store(true, Ordering::Relaxed);
        made.map_err(|e| e.context(format!("{}, seed {seed}", cell.title())))
    })
}

/// Seconds since 1970.
fn now_s() -> u64 {
    utc::since_1970_s(SystemTime::now())
}

/// A length of time in words.
fn in_words(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0}s"),
        s if s < 6000.0 => format!("{:.0}min", s / 60.0),
        s => format!("{:.1}h", s / 3600.0),
    }
}
