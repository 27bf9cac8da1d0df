//! The engine of a cluster: the missing runs of a plan as a job array of Slurm.
//!
//! Slurm queues, starts, requeues and accounts. This module cuts runs into tasks ([`cut`]), submits them as a job with
//! a name of its own, and waits until the store has the runs or Slurm ([`ask`]) no longer lists the job. Only the store
//! decides that a run is done: a run is a folder that is renamed into its place. So tasks that are started twice and
//! commands at the same time need no further protocol. Of a job only its folder in the store is kept, with the parcel,
//! the script and the tasks' output ([`job`]); its name shows whether it is under way. A run of a job that is under way
//! is not submitted again.

mod ask;
mod cut;
mod job;

pub use cut::uncut;

use crate::parcel::{Contents, Parcel, Protocol};
use ask::{Slurm, SlurmTask};
use job::{Folder, Job};
use schedlab_base::{Backend, Error, Result, counted, one_or};
use schedlab_guest::Mode;
use schedlab_lab::ask::cell::Cell;
use schedlab_lab::ask::experiment::SlurmOptions;
use schedlab_lab::make::exec::{Engine, MissingRuns, Session};
use schedlab_lab::make::plan::Run;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval between two looks: a twentieth of the time so far, within these bounds.
const LOOK_EACH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// Interval of the checks of the stop flag.
const NAP: Duration = Duration::from_millis(100);
/// Runs of an ended job may become visible this much later, since other machines' views of a shared folder lag.
const VISIBLE_WITHIN: Duration = Duration::from_secs(90);

/// A cluster and its options.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub options: SlurmOptions,
    pub experiment: String,
    /// How runs are made.
    pub how: Protocol,
}

/// Whether a cell's runs are in real time, so that other work on the node disturbs them.
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
        let (slurm, folder) = (Slurm::new(session.stop), Folder::create(wanted.store.root())?);
        let mut waiting = Waiting {
            wanted,
            session,
            pending: wanted.missing.iter().copied().collect(),
            jobs: Vec::new(),
            failed: BTreeMap::new(),
        };
        {
            let _lock = folder.lock()?;
            let free = waiting.claim(&folder, slurm)?;
            let live = |r: &usize| is_live(&wanted.plan.cells[wanted.plan.runs[*r].cell]);
            let (live, others): (Vec<usize>, Vec<usize>) = free.into_iter().partition(live);
            // Runs in real time need whole nodes, so they are a separate job.
            for (runs, live) in [(others, false), (live, true)] {
                if !runs.is_empty() {
                    waiting.jobs.push(self.submit(
                        &folder,
                        slurm,
                        &schedlab,
                        (&runs, live),
                        (wanted, session),
                    )?);
                }
            }
        }
        waiting.until_stored(slurm)
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
        job::check_path(&path).map_err(|e| e.help(help))?;
        Ok(path)
    }
    fn submit(
        &self,
        folder: &Folder,
        slurm: Slurm<'_>,
        schedlab: &Path,
        (runs, live): (&[usize], bool),
        (wanted, session): (&MissingRuns<'_>, &Session<'_>),
    ) -> Result<Job> {
        let tasks = cut::cut(wanted.plan, runs, live, self.options.tasks);
        let contents = Contents { experiment: &self.experiment, how: self.how, attach: session.attach };
        let parcel = Parcel::of(wanted.plan, tasks, &contents)?;
        let job = folder.begin(&parcel, schedlab)?;
        let throttle = self.options.at_once.map_or_else(String::new, |n| format!("%{n}"));
        let array = format!("--array=0-{}{throttle}", parcel.tasks.len() - 1);
        let args = job.sbatch(array, self.options.sbatch(live));
        if let Err(e) = slurm.submit(&args) {
            // A busy controller may take the job after sbatch has given up.
            match slurm.tasks(&[job.name.as_str()]) {
                Ok(rows) if rows.is_empty() => {
                    job.remove();
                    return Err(e);
                }
                Ok(_) => {}
                Err(_) => {
                    return Err(
                        e.help("Slurm may have taken the job: the same command looks for it by its name")
                    );
                }
            }
        }
        session.progress.note(&format!(
            "job {0}: {1} in {2}; 'squeue --name={0}' shows them",
            job.name,
            counted(runs.len(), "run"),
            counted(parcel.tasks.len(), "task")
        ));
        Ok(job)
    }
}

/// The waiting for runs.
struct Waiting<'a> {
    wanted: &'a MissingRuns<'a>,
    session: &'a Session<'a>,
    /// Runs that the store does not have yet.
    pending: BTreeSet<usize>,
    /// The jobs that make them.
    jobs: Vec<Job>,
    /// Tasks that ended badly, by job and index. Slurm forgets a task some minutes after its end.
    failed: BTreeMap<(String, usize), SlurmTask>,
}

impl Waiting<'_> {
    /// Joins jobs under way that make some of the runs; returns the runs that none of them makes.
    fn claim(&mut self, folder: &Folder, slurm: Slurm<'_>) -> Result<Vec<usize>> {
        let earlier = folder.jobs()?;
        let names: Vec<&str> = earlier.iter().map(|job| job.name.as_str()).collect();
        // Asked even without names, so that nothing is submitted to a Slurm that does not answer.
        let rows = slurm.tasks(if names.is_empty() { &["schedlab-none"] } else { &names })?;
        // A job may have ended since the runs were counted.
        self.look();
        let key = |r: &usize| {
            let Run { cell, seed } = self.wanted.plan.runs[*r];
            (self.wanted.hashes[cell].clone(), seed)
        };
        let mut free: BTreeMap<(String, u64), usize> = self.pending.iter().map(|r| (key(r), *r)).collect();
        for job in earlier {
            let mine = |row: &&SlurmTask| row.job == job.name && !row.ended();
            let going: Vec<usize> = rows.iter().filter(mine).map(|row| row.task).collect();
            if going.is_empty() {
                continue;
            }
            let (parcel, before) = (job.parcel()?, free.len());
            for (cell, seed) in going.iter().filter_map(|n| parcel.tasks.get(*n)).flat_map(|task| task.runs())
            {
                free.remove(&(parcel.cells[cell].hash.clone(), seed));
            }
            if free.len() < before {
                let runs = before - free.len();
                self.session.progress.note(&format!(
                    "{} {} in a job submitted before: {}",
                    counted(runs, "run"),
                    one_or(runs, "is", "are"),
                    job.name
                ));
                self.jobs.push(job);
            }
        }
        let mut free: Vec<usize> = free.into_values().collect();
        free.sort_unstable();
        Ok(free)
    }

    /// Waits until the store has all runs; false if the stop flag ended it.
    fn until_stored(&mut self, slurm: Slurm<'_>) -> Result<bool> {
        let names: Vec<String> = self.jobs.iter().map(|job| job.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (began, mut ended, mut away) = (Instant::now(), None::<Instant>, false);
        loop {
            self.look();
            if self.pending.is_empty() {
                return Ok(true);
            }
            if self.session.stop.load(Ordering::Relaxed) {
                self.leave();
                return Ok(false);
            }
            match slurm.tasks(&names) {
                Ok(rows) => {
                    away = false;
                    let going: Vec<&SlurmTask> = rows.iter().filter(|row| !row.ended()).collect();
                    let failed = rows.iter().filter(|row| row.ended() && row.state != "COMPLETED");
                    self.failed.extend(failed.map(|row| ((row.job.clone(), row.task), row.clone())));
                    self.show(&going);
                    if going.is_empty() {
                        let since = ended.get_or_insert_with(Instant::now).elapsed();
                        self.look();
                        if !self.pending.is_empty() && (!self.failed.is_empty() || since > VISIBLE_WITHIN) {
                            return Err(self.error());
                        }
                    }
                }
                Err(e) => {
                    if !std::mem::replace(&mut away, true) {
                        let text = format!("Slurm does not answer, waiting for it: {}", e.message());
                        self.session.progress.note(&text);
                    }
                }
            }
            let until = Instant::now() + (began.elapsed() / 20).clamp(LOOK_EACH.0, LOOK_EACH.1);
            while Instant::now() < until && !self.session.stop.load(Ordering::Relaxed) {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Looks which runs the store has. Reading a cell's folder asks the file system's server; a look at a name alone
    /// may be answered from a cache.
    fn look(&mut self) {
        let (wanted, mut seeds) = (self.wanted, BTreeMap::<usize, BTreeSet<u64>>::new());
        self.pending.retain(|r| {
            let (Run { cell, seed }, hash) =
                (wanted.plan.runs[*r], &wanted.hashes[wanted.plan.runs[*r].cell]);
            let listed = seeds.entry(cell).or_insert_with(|| {
                let entries =
                    std::fs::read_dir(wanted.store.root().join(hash)).into_iter().flatten().flatten();
                entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
            });
            !listed.contains(&seed) || wanted.store.get(hash, seed).is_none()
        });
    }

    fn leave(&self) {
        let (left, names) = (self.pending.len(), self.jobs.iter().map(|job| job.name.as_str()));
        self.session.progress.note(&format!(
            "{} {} left to the jobs, which continue: the same command collects what they make, 'scancel --name={}' ends \
             them",
            counted(left, "run"),
            one_or(left, "is", "are"),
            names.collect::<Vec<_>>().join(",")
        ));
    }

    fn show(&self, going: &[&SlurmTask]) {
        let running = going.iter().filter(|row| row.state == "RUNNING").count();
        let waits = going.len() - running;
        let why = going.iter().find(|row| row.state == "PENDING").map_or("", |row| row.reason.as_str());
        let because = if why.is_empty() || why == "None" { String::new() } else { format!(" ({why})") };
        let words = format!(
            "{} {}, {waits} {}{because}",
            counted(running, "task"),
            one_or(running, "runs", "run"),
            one_or(waits, "waits", "wait")
        );
        let done = self.wanted.plan.runs.len() - self.pending.len();
        self.session.progress.waiting(done, &words);
    }

    /// The error of jobs that have ended without their runs.
    fn error(&self) -> Error {
        let left = counted(self.pending.len(), "run");
        let Some(((name, task), row)) = self.failed.first_key_value() else {
            let logs = self.jobs.first().map_or_else(String::new, |job| job.logs().display().to_string());
            let text = format!("the jobs have ended, and {left} of theirs did not appear in the store");
            return Error::machine(text)
                .help(format!("{logs} has the tasks' output; the same command submits them again"));
        };
        let job = self.jobs.iter().find(|job| job.name == *name);
        let words = job.and_then(|job| job.last_words(*task)).map_or_else(String::new, |w| format!(": {w}"));
        let text = format!("{left} missing: task {task} of job {name} ended as {}{words}", row.end());
        let log = job.map_or_else(String::new, |job| job.log(*task).display().to_string());
        Error::machine(text).help(format!(
            "{}its output is {log}; the same command submits again what is missing",
            row.remedy()
        ))
    }
}
