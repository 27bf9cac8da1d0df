//! Waiting until the store has the runs, and what is done about tasks that end without them.
//!
//! The store is looked at first and Slurm is asked second: a run that is there is done, whatever became of its task. A
//! task that the cluster lost is submitted again, under the journal's lock, so that of two commands that wait one does
//! it. A task that failed is given up, and the error is reported when nothing else runs.

use super::ask::{Slurm, SlurmTask, user};
use super::journal::{Journal, Submission};
use super::now_s;
use super::verdict::{TaskFate, of_row};
use schedlab_base::{Error, Result};
use schedlab_lab::exec::MissingRuns;
use schedlab_lab::exec::Session;
use schedlab_lab::plan::Run;
use schedlab_record::Store;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks: a twentieth of the time so far, within these bounds.
const LOOK_EACH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// How often the stop flag is looked at.
const NAP: Duration = Duration::from_millis(100);
/// Runs of a task that has ended well may become visible so much later: other machines' views of a shared folder lag.
const VISIBLE_WITHIN: Duration = Duration::from_secs(90);
/// A task that Slurm does not know may be known so much later: accounts lag.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);

/// Waits until the store has all wanted runs; false if the stop flag ended it.
///
/// # Errors
/// When a task failed, or was lost too often, or Slurm refuses to be asked.
pub(super) fn until_stored(
    journal: &Journal,
    watched: &BTreeSet<String>,
    wanted: &MissingRuns<'_>,
    session: &Session<'_>,
) -> Result<bool> {
    let mut waiting = Waiting {
        journal,
        wanted,
        session,
        tasks: tasks_of(journal, watched, wanted)?,
        pending: wanted.missing.iter().copied().collect(),
        odd_since: BTreeMap::new(),
        restarts: BTreeMap::new(),
        away: false,
        failures: Vec::new(),
    };
    let began = Instant::now();
    loop {
        waiting.look();
        if waiting.pending.is_empty() {
            waiting.conclude(watched)?;
            return Ok(true);
        }
        if session.stop.load(Ordering::Relaxed) && watched.is_empty() {
            return Ok(false);
        }
        if session.stop.load(Ordering::Relaxed) {
            let left = waiting.pending.len();
            session.progress.note(&format!(
                "{} {} left to the jobs, which continue: the same command collects what they make, 'schedlab jobs' shows \
                 them, scancel ends them",
                schedlab_base::counted(left, "run"),
                schedlab_base::one_or(left, "is", "are")
            ));
            return Ok(false);
        }
        let going = waiting.ask()?;
        if going == 0 {
            waiting.look();
            if !waiting.pending.is_empty() {
                return Err(waiting.error());
            }
            continue;
        }
        let pace = (began.elapsed() / 20).clamp(LOOK_EACH.0, LOOK_EACH.1);
        let until = Instant::now() + pace;
        while Instant::now() < until && !session.stop.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
        }
    }
}

/// A task of a submission, by the submission's name and its index.
type TaskId = (String, usize);

/// The wanted runs of each task that claims some.
fn tasks_of(
    journal: &Journal,
    watched: &BTreeSet<String>,
    wanted: &MissingRuns<'_>,
) -> Result<BTreeMap<TaskId, Vec<usize>>> {
    let key = |r: &usize| {
        let Run { cell, seed } = wanted.plan.runs[*r];
        (wanted.hashes[cell].as_str(), seed)
    };
    let missing: BTreeMap<(&str, u64), usize> = wanted.missing.iter().map(|r| (key(r), *r)).collect();
    let claiming: Vec<Submission> =
        journal.all()?.into_iter().filter(|s| watched.contains(&s.name)).collect();
    let mut tasks: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
    for submission in claiming {
        let parcel = journal.parcel(&submission)?;
        for (nr, task) in parcel.tasks.iter().enumerate().filter(|(n, _)| submission.claims(*n)) {
            for (cell, seed) in task.runs() {
                if let Some(run) = missing.get(&(parcel.cells[cell].hash.as_str(), seed)) {
                    tasks.entry((submission.name.clone(), nr)).or_default().push(*run);
                }
            }
        }
    }
    Ok(tasks)
}

/// The state of the waiting.
struct Waiting<'a> {
    journal: &'a Journal,
    wanted: &'a MissingRuns<'a>,
    session: &'a Session<'a>,
    tasks: BTreeMap<TaskId, Vec<usize>>,
    /// Runs that the store does not have yet.
    pending: BTreeSet<usize>,
    /// Tasks that have ended without their runs, or that Slurm does not know: since when, under which job.
    odd_since: BTreeMap<(TaskId, u64), Instant>,
    /// How often Slurm has queued a task again, as far as was reported.
    restarts: BTreeMap<(TaskId, u64), u32>,
    /// Whether Slurm could not be reached when it was asked last.
    away: bool,
    /// What became of tasks that are given up, by their first run.
    failures: Vec<(usize, Error)>,
}

/// What is to be done about a task.
enum Fate {
    Going,
    RepeatDisturbed(String),
    GiveUp(String, Option<Error>),
    Bar(String),
}

impl Waiting<'_> {
    /// Looks which runs are there.
    fn look(&mut self) {
        let mut seeds: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        let root = self.wanted.store.root();
        let mut there = Vec::new();
        for r in &self.pending {
            let Run { cell, seed } = self.wanted.plan.runs[*r];
            let listed = seeds.entry(cell).or_insert_with(|| listed(root, &self.wanted.hashes[cell]));
            // Reading the folder asks the file system's server; a look at a name alone may be answered from a cache.
            if listed.contains(&seed) && self.wanted.store.get(&self.wanted.hashes[cell], seed).is_some() {
                there.push(*r);
            }
        }
        there.iter().for_each(|r| _ = self.pending.remove(r));
    }

    /// Reports what Slurm made again between two looks, and notes which submissions are done, others' runs in them
    /// included.
    fn conclude(&mut self, watched: &BTreeSet<String>) -> Result<()> {
        let _lock = self.journal.lock()?;
        self.tell_reported()?;
        for mut submission in self.journal.all()?.into_iter().filter(|s| watched.contains(&s.name)) {
            let parcel = self.journal.parcel(&submission)?;
            let is_there =
                |(cell, seed): (usize, u64)| self.wanted.store.get(&parcel.cells[cell].hash, seed).is_some();
            if parcel.tasks.iter().flat_map(|t| t.runs()).all(is_there) {
                submission.done = true;
                self.journal.save(&submission)?;
            }
        }
        Ok(())
    }

    /// Asks Slurm about the tasks that have runs left, and acts; the number of tasks that continue.
    fn ask(&mut self) -> Result<usize> {
        let submissions: BTreeMap<String, Submission> =
            self.journal.all()?.into_iter().map(|s| (s.name.clone(), s)).collect();
        let left: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, runs)| runs.iter().any(|r| self.pending.contains(r)))
            .map(|(id, _)| id.clone())
            .collect();
        let of = |(name, task): &TaskId| Some((submissions.get(name)?.last_of(*task)?.0, *task as u64));
        let asked: BTreeSet<(u64, u64)> = left.iter().filter_map(of).collect();
        let Some(rows) = self.rows(&asked)? else { return Ok(left.len()) };
        let (mut going, mut running, mut why) = (0, 0, String::new());
        let mut again: BTreeMap<String, Vec<(usize, u64, String)>> = BTreeMap::new();
        for id in left {
            let Some(submission) = submissions.get(&id.0) else {
                self.fail(&id, Error::machine(format!("the entry of submission {} has gone", id.0)));
                continue;
            };
            if let Some(why) = submission.given_up.get(&id.1) {
                self.fail(&id, Error::machine(format!("task {} was given up: {why}", id.1)));
                continue;
            }
            let Some((job, tries)) = submission.last_of(id.1) else { continue };
            let row = rows.get(&(job, id.1 as u64));
            match self.fate(&id, job, tries, submission.most_tries, row) {
                Fate::Going => {
                    going += 1;
                    running += usize::from(row.is_some_and(|r| r.state == "RUNNING"));
                    if let Some(row) = row.filter(|r| r.state == "PENDING") {
                        why.clone_from(&row.reason);
                    }
                }
                Fate::RepeatDisturbed(why) => {
                    going += 1;
                    again.entry(id.0).or_default().push((id.1, job, why));
                }
                Fate::GiveUp(why, error) => self.give_up(&id, job, &why, error)?,
                Fate::Bar(why) => return Err(self.bar(submission, &id, job, &why)?),
            }
        }
        for (name, lost) in again {
            self.again(&name, &lost)?;
        }
        self.show(going, running, &why);
        Ok(going)
    }

    /// What Slurm says of these tasks; `None` while it can't be reached.
    fn rows(&mut self, asked: &BTreeSet<(u64, u64)>) -> Result<Option<BTreeMap<(u64, u64), SlurmTask>>> {
        match rows_of(Slurm::new(self.session.stop), asked)? {
            Ok(rows) => {
                self.away = false;
                Ok(Some(rows))
            }
            Err(words) => {
                self.tell_away(&words);
                Ok(None)
            }
        }
    }

    fn tell_away(&mut self, words: &str) {
        if !std::mem::replace(&mut self.away, true) {
            self.session.progress.note(&format!("Slurm does not answer, waiting for it: {words}"));
        }
    }

    fn fate(&mut self, id: &TaskId, job: u64, tries: u32, most: u32, row: Option<&SlurmTask>) -> Fate {
        let journal = self.journal;
        let failed = || journal.report(&id.0, id.1, job).and_then(|r| r.failed).filter(|f| f.code != 1);
        let odd = |waiting: &mut BTreeMap<(TaskId, u64), Instant>, bound: Duration| {
            waiting.entry((id.clone(), job)).or_insert_with(Instant::now).elapsed() > bound
        };
        let verdict = match row {
            Some(row) => of_row(row, user()),
            None if !odd(&mut self.odd_since, KNOWN_WITHIN) => TaskFate::Going,
            None => TaskFate::Lost("Slurm does not know it any more".to_owned()),
        };
        match verdict {
            TaskFate::Going => {
                if let Some(row) = row {
                    self.odd_since.remove(&(id.clone(), job));
                    self.tell_restarts(id, job, row.restarts);
                }
                Fate::Going
            }
            TaskFate::Done if !odd(&mut self.odd_since, VISIBLE_WITHIN) => Fate::Going,
            TaskFate::Done => {
                let folder = self.wanted.store.root().display();
                let why = format!("it ended well, but its runs do not appear in {folder}");
                Fate::GiveUp(why, None)
            }
            TaskFate::Barred(why) => Fate::Bar(why),
            TaskFate::Lost(why) => match failed() {
                Some(failure) => Fate::GiveUp(failure.message.clone(), Some(failure.error())),
                None if tries < most => Fate::RepeatDisturbed(why),
                None => Fate::GiveUp(format!("lost {tries} times, at last: {why}"), None),
            },
            TaskFate::Failed(why) => {
                let error = failed();
                Fate::GiveUp(error.as_ref().map_or(why, |f| f.message.clone()), error.map(|f| f.error()))
            }
        }
    }

    fn tell_restarts(&mut self, id: &TaskId, job: u64, times: u32) {
        let known = self.restarts.entry((id.clone(), job)).or_insert(0);
        if *known < times {
            *known = times;
            self.session.progress.note(&format!(
                "task {} of job {job}: Slurm has queued it again ({times} times so far)",
                id.1
            ));
        }
    }

    /// Shows the restarts that tasks report. A task that was queued again and has made its runs since the last look is
    /// not asked about, and squeue forgets it after some minutes.
    fn tell_reported(&mut self) -> Result<()> {
        for submission in self.journal.all()? {
            for task in submission.submitted() {
                let id = (submission.name.clone(), task);
                let Some((job, _)) = submission.last_of(task).filter(|_| self.tasks.contains_key(&id)) else {
                    continue;
                };
                if let Some(report) = self.journal.report(&id.0, task, job) {
                    self.tell_restarts(&id, job, report.restarts);
                }
            }
        }
        Ok(())
    }

    /// Submits lost tasks again, unless another command has. Where Slurm does not say whether it took them, the next
    /// look asks.
    fn again(&mut self, name: &str, lost: &[(usize, u64, String)]) -> Result<()> {
        let _lock = self.journal.lock()?;
        let Some(mut submission) = self.journal.all()?.into_iter().find(|s| s.name == name) else {
            return Ok(());
        };
        let slurm = Slurm::new(self.session.stop);
        if let Err(e) = self.journal.settle(slurm, &mut submission) {
            self.tell_away(e.message());
            return Ok(());
        }
        let still =
            |(task, job, _): &&(usize, u64, String)| submission.last_of(*task).map(|l| l.0) == Some(*job);
        let lost: Vec<&(usize, u64, String)> = lost.iter().filter(still).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let tasks: Vec<usize> = lost.iter().map(|(task, ..)| *task).collect();
        let number = match self.journal.submit(slurm, &mut submission, tasks, now_s()) {
            Err(e) if submission.jobs.iter().any(|j| j.number.is_none()) => {
                self.tell_away(e.message());
                return Ok(());
            }
            other => other?,
        };
        for (task, job, why) in lost {
            let (_, tries) = submission.last_of(*task).unwrap_or((0, 0));
            self.session.progress.note(&format!(
                "task {task} of job {job} was lost ({why}): made again as job {number}, try {tries} of {}",
                submission.most_tries
            ));
        }
        Ok(())
    }

    fn give_up(&mut self, id: &TaskId, job: u64, why: &str, error: Option<Error>) -> Result<()> {
        self.note(&id.0, [id.1], why)?;
        let log = self.journal.logs_of(&id.0).join(format!("{}.log", id.1));
        let error = error.unwrap_or_else(|| {
            Error::machine(why).help(format!(
                "its output is {}; the same command submits again what is missing",
                log.display()
            ))
        });
        self.session.progress.note(&format!("task {} of job {job} failed: {why}", id.1));
        self.fail(id, error.context(format!("task {} of job {job}", id.1)));
        Ok(())
    }

    /// Writes down that tasks are given up.
    fn note(&self, name: &str, tasks: impl IntoIterator<Item = usize>, why: &str) -> Result<()> {
        let _lock = self.journal.lock()?;
        if let Some(mut submission) = self.journal.all()?.into_iter().find(|s| s.name == name) {
            tasks
                .into_iter()
                .for_each(|t| _ = submission.given_up.entry(t).or_insert_with(|| why.to_owned()));
            self.journal.save(&submission)?;
        }
        Ok(())
    }

    /// No node could begin this task, so the whole job is ended.
    fn bar(&self, submission: &Submission, id: &TaskId, job: u64, why: &str) -> Result<Error> {
        let slurm = Slurm::new(self.session.stop);
        submission.numbers().into_iter().for_each(|job| slurm.cancel(job));
        let name = &submission.name;
        let left = self
            .tasks
            .iter()
            .filter(|((n, _), runs)| n == name && runs.iter().any(|r| self.pending.contains(r)));
        self.note(name, left.map(|((_, task), _)| *task), why)?;
        let folder = self.journal.folder_of(name);
        let text = format!("task {} of job {job}: {why}; the job was cancelled", id.1);
        Ok(Error::machine(text).help(format!(
            "the nodes need {} under that name, and the executable; without a shared folder 'schedlab pack' carries runs",
            folder.display()
        )))
    }

    fn fail(&mut self, id: &TaskId, error: Error) {
        let first = self.tasks.get(id).and_then(|runs| runs.iter().min()).copied().unwrap_or(usize::MAX);
        // A task that has failed is met again at each look.
        if !self.failures.iter().any(|(known, _)| *known == first) {
            self.failures.push((first, error));
        }
    }

    /// The error of the first run in the plan's order that failed.
    fn error(&mut self) -> Error {
        self.failures.sort_by_key(|(run, _)| *run);
        if self.failures.is_empty() {
            let text = format!(
                "{} {} missing, and no task makes {}",
                schedlab_base::counted(self.pending.len(), "run"),
                schedlab_base::one_or(self.pending.len(), "is", "are"),
                schedlab_base::one_or(self.pending.len(), "it", "them")
            );
            return Error::machine(text).help("the same command submits them again");
        }
        self.failures.remove(0).1
    }

    fn show(&self, going: usize, running: usize, why: &str) {
        let waits = going - running.min(going);
        let because = if waits > 0 && !why.is_empty() { format!(" ({why})") } else { String::new() };
        let words = format!(
            "{} {}, {waits} {}{because}",
            schedlab_base::counted(running, "task"),
            schedlab_base::one_or(running, "runs", "run"),
            schedlab_base::one_or(waits, "waits", "wait")
        );
        let done = self.wanted.plan.runs.len() - self.pending.len();
        self.session.progress.waiting(done, &words);
    }
}

/// The seeds of the runs that a cell's folder lists.
fn listed(root: &std::path::Path, hash: &str) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(root.join(hash)).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// Rows by job and task, or Slurm's words if it can't be reached.
type Rows = std::result::Result<BTreeMap<(u64, u64), SlurmTask>, String>;

/// What squeue and the accounts say of tasks, each a job and an index.
fn rows_of(slurm: Slurm<'_>, asked: &BTreeSet<(u64, u64)>) -> Result<Rows> {
    let jobs: Vec<u64> = asked.iter().map(|(job, _)| *job).collect::<BTreeSet<_>>().into_iter().collect();
    if jobs.is_empty() {
        return Ok(Ok(BTreeMap::new()));
    }
    let queued = match slurm.queued(&jobs)? {
        Ok(rows) => rows,
        Err(words) => return Ok(Err(words)),
    };
    let mut rows: BTreeMap<(u64, u64), SlurmTask> =
        queued.into_iter().map(|row| ((row.job, row.task), row)).collect();
    // The accounts know who cancelled a task, and tasks that ended long ago.
    let open = |task: &(u64, u64)| rows.get(task).is_none_or(|row| row.state == "CANCELLED");
    if asked.iter().any(open) {
        for row in slurm.accounted(&jobs).into_iter().flatten() {
            let there = rows.entry((row.job, row.task)).or_insert_with(|| row.clone());
            there.cancelled_by = there.cancelled_by.or(row.cancelled_by);
        }
    }
    Ok(Ok(rows))
}

/// The state of a task, as `schedlab jobs` shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The store has all its runs.
    Done,
    /// It runs.
    Running,
    /// It waits.
    Waiting,
    /// It ended without its runs.
    Ended,
    /// It failed, or was lost too often.
    Failed,
    /// Slurm was not asked, or does not know it.
    Unknown,
}

/// A submission as `schedlab jobs` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct SubmissionState {
    pub experiment: String,
    pub jobs: Vec<u64>,
    /// When the first one was submitted, seconds since 1970.
    pub submitted_s: u64,
    /// Runs that the store has.
    pub runs_done: usize,
    /// Runs that it lacks.
    pub runs_left: usize,
    /// Number of tasks by state.
    pub tasks: BTreeMap<TaskState, usize>,
    /// Tasks that were given up, and why.
    pub failed: BTreeMap<usize, String>,
    /// Tasks that were submitted more than once, and how often.
    pub again: BTreeMap<usize, u32>,
    /// The folder of the tasks' output.
    pub logs: std::path::PathBuf,
}

/// The submissions of a store as `schedlab jobs` shows them.
#[derive(Debug, Default)]
pub struct Shown {
    /// The oldest first.
    pub submissions: Vec<SubmissionState>,
    /// Slurm's words, if it could not be asked.
    pub silent: Option<String>,
    /// What is wrong with entries that can't be shown.
    pub damaged: Vec<Error>,
}

/// All submissions of a store.
///
/// # Errors
/// When the journal's folder can't be read.
pub fn submission_states(journal: &Journal, store: &Store) -> Result<Shown> {
    let (entries, mut damaged) = journal.readable()?;
    let (mut all, mut counted) = (Vec::new(), Vec::new());
    for submission in entries {
        let parcel = match journal.parcel(&submission) {
            Ok(parcel) => parcel,
            Err(e) => {
                damaged.push(e);
                continue;
            }
        };
        let left = |task: &crate::parcel::Task| {
            task.runs().filter(|(cell, seed)| store.get(&parcel.cells[*cell].hash, *seed).is_none()).count()
        };
        let left: Vec<usize> = parcel.tasks.iter().map(left).collect();
        counted.push((parcel.runs(), left));
        all.push(submission);
    }
    let mut asked: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (s, (_, left)) in all.iter().zip(&counted) {
        let open = left.iter().enumerate().filter(|(_, left)| **left > 0);
        asked.extend(open.filter_map(|(task, _)| Some((s.last_of(task)?.0, task as u64))));
    }
    let (rows, silent) = match rows_of(Slurm::new(&AtomicBool::new(false)), &asked) {
        Ok(Ok(rows)) => (rows, None),
        Ok(Err(words)) => (BTreeMap::new(), Some(words)),
        Err(e) => (BTreeMap::new(), Some(e.message().to_owned())),
    };
    let one = |(s, (runs, left)): (&Submission, &(usize, Vec<usize>))| {
        let mut tasks: BTreeMap<TaskState, usize> = BTreeMap::new();
        left.iter().enumerate().for_each(|(n, l)| *tasks.entry(state(s, n, *l, &rows)).or_default() += 1);
        let runs_left: usize = left.iter().sum();
        let tries = |n: usize| s.last_of(n).map(|(_, tries)| (n, tries));
        let open = |n: &usize| left.get(*n).is_some_and(|l| *l > 0);
        SubmissionState {
            experiment: s.experiment.clone(),
            jobs: s.numbers(),
            submitted_s: s.jobs.first().map_or(0, |j| j.submitted_s),
            runs_done: runs - runs_left,
            runs_left,
            tasks,
            failed: s.given_up.iter().filter(|(n, _)| open(n)).map(|(n, w)| (*n, w.clone())).collect(),
            again: (0..s.tasks).filter_map(tries).filter(|(_, tries)| *tries > 1).collect(),
            logs: journal.logs_of(&s.name),
        }
    };
    Ok(Shown { submissions: all.iter().zip(&counted).map(one).collect(), silent, damaged })
}

fn state(s: &Submission, task: usize, left: usize, rows: &BTreeMap<(u64, u64), SlurmTask>) -> TaskState {
    let row = || rows.get(&(s.last_of(task)?.0, task as u64));
    match row() {
        _ if left == 0 => TaskState::Done,
        _ if s.given_up.contains_key(&task) => TaskState::Failed,
        None => TaskState::Unknown,
        Some(row) => match of_row(row, u32::MAX) {
            TaskFate::Going if row.state == "RUNNING" => TaskState::Running,
            TaskFate::Going => TaskState::Waiting,
            _ => TaskState::Ended,
        },
    }
}
