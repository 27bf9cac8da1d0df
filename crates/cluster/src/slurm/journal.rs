//! The journal of submissions, in the store's folder: `OUT/slurm/<name>/`.
//!
//! A submission is a parcel (`plan.json`; its hash is the name), the job's script, and `submission.json`, which says
//! as which jobs its tasks were submitted. `tasks/N.json` is what task N reports at its begin and its end, and
//! `logs/N.log` its output. All files but logs are renamed into place.
//!
//! Commands that submit hold a lock on `OUT/slurm/lock`. An entry is written before sbatch is called, without a job's
//! number, and again with it: a command that was killed in between, or a sbatch that did not say what Slurm did, leaves
//! an entry by which the next command asks Slurm for the job's name. A name is one of this folder and this submission.

use super::ask::{NotTaken, Slurm, user};
use crate::parcel::Parcel;
use crate::parcel::worker::Worked;
use schedlab_base::content_hash;
use schedlab_base::temp::write_whole;
use schedlab_base::{Error, ErrorKind, Result, Spot, input};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The schema of an entry.
pub const SCHEMA: &str = "schedlab/submission/1";
/// The schema of a task's report.
pub const REPORT_SCHEMA: &str = "schedlab/task/1";
/// The folder in a store.
pub const FOLDER: &str = "slurm";
/// The parcel's file.
pub const PLAN_FILE: &str = "plan.json";
const ENTRY_FILE: &str = "submission.json";
const SCRIPT_FILE: &str = "job.sh";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its folder's name.
    pub name: String,
    /// The place of its journal ([`Journal::place`]). Jobs of a journal that was copied here bring no runs here.
    pub place: String,
    pub experiment: String,
    pub tasks: usize,
    /// Options of sbatch.
    pub options: Vec<String>,
    /// Tasks at once at most.
    pub at_once: Option<u32>,
    /// How often a task is begun at most.
    pub most_tries: u32,
    /// The jobs as which tasks were submitted, the last one last.
    pub jobs: Vec<Job>,
    /// Tasks that are not made again, and why.
    pub given_up: BTreeMap<usize, String>,
    /// Whether the store has had all its runs. A run that is removed from the store after that is made anew.
    pub done: bool,
}

/// A job array.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its number; `None` while it is being submitted.
    pub number: Option<u64>,
    /// A part of its name that no other submission has.
    pub mark: String,
    pub tasks: Vec<usize>,
    /// When, in seconds since 1970.
    pub submitted_s: u64,
}

impl Submission {
    /// The last job of a task, and how often it was submitted.
    pub fn last_of(&self, task: usize) -> Option<(u64, u32)> {
        let of = || self.jobs.iter().filter(|j| j.number.is_some() && j.tasks.contains(&task));
        of().next_back().and_then(|j| j.number).map(|number| (number, of().count() as u32))
    }
    /// The tasks that were submitted.
    pub fn submitted(&self) -> BTreeSet<usize> {
        self.jobs.iter().flat_map(|j| j.tasks.iter().copied()).collect()
    }
    /// Whether a task is under way, or may be.
    pub fn claims(&self, task: usize) -> bool {
        !self.done && !self.given_up.contains_key(&task) && self.last_of(task).is_some()
    }
    /// Numbers of its jobs.
    pub fn numbers(&self) -> Vec<u64> {
        self.jobs.iter().filter_map(|j| j.number).collect()
    }
    fn job_name(&self, job: &Job) -> String {
        format!("schedlab-{}-{}-{}", self.name, self.place, job.mark)
    }
}

impl Job {
    /// A job that is about to be submitted.
    fn new(tasks: Vec<usize>, now_s: u64) -> Job {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mark = content_hash(format!("{boot} {} {since}", std::process::id()).as_bytes());
        Job { number: None, mark: mark[..12].to_owned(), tasks, submitted_s: now_s }
    }
}

/// A task's report: written when it begins, before its first run, and again when it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: String,
    /// The array's job.
    pub job: u64,
    pub node: String,
    /// How often Slurm had queued the task again before this begin of it.
    #[serde(default)]
    pub restarts: u32,
    /// What it did.
    pub worked: Worked,
    /// Why it failed: exit code, message and remedy.
    pub failed: Option<Failure>,
}

/// An error as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The exit code of its kind.
    pub code: u8,
    pub message: String,
    pub help: Option<String>,
}

impl Failure {
    /// An error as data.
    pub fn of(e: &Error) -> Failure {
        let place = e.spot().map_or_else(String::new, |s| format!("{s}: "));
        Failure {
            code: e.kind().exit_code(),
            message: place + e.message(),
            help: e.remedy().map(str::to_owned),
        }
    }
    pub fn error(&self) -> Error {
        let kind = match self.code {
            1 => ErrorKind::CheckFailed,
            2 => ErrorKind::Input,
            3 => ErrorKind::Machine,
            _ => ErrorKind::Internal,
        };
        let error = Error::new(kind, self.message.as_str());
        match &self.help {
            Some(help) => error.help(help.as_str()),
            None => error,
        }
    }
}

/// The journal of a store.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// The right to submit; dropping it gives it back.
pub struct Lock(#[allow(dead_code, reason = "the lock lives as long as the file is open")] File);

impl Journal {
    /// The journal of the store in `out`, which is made if it does not exist.
    ///
    /// # Errors
    /// When it can't be made, or Slurm can't take its path.
    pub fn create(out: &Path) -> Result<Journal> {
        let folder = out.join(FOLDER);
        // Nodes know it by this path, whatever folder they are in.
        let folder = std::path::absolute(&folder).map_err(|e| Error::io(&folder, "find", &e))?;
        check_path(&folder).map_err(|e| e.help("--out names a store with another path"))?;
        fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "create the folder", &e))?;
        Ok(Journal { folder })
    }
    /// The journal of the store in `out`, if it has one.
    pub fn find(out: &Path) -> Option<Journal> {
        let folder = std::path::absolute(out.join(FOLDER)).ok()?;
        folder.is_dir().then_some(Journal { folder })
    }
    /// A name of its folder, by the real path.
    pub fn place(&self) -> String {
        let real = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        content_hash(real.as_os_str().as_bytes())[..12].to_owned()
    }
    /// Waits for the right to submit.
    ///
    /// # Errors
    /// When the file system has no locks, or the folder is another user's.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.folder.join("lock");
        let failed = |e: io::Error| self.unlocked(&path, &e);
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(Lock(file))
    }
    fn unlocked(&self, path: &Path, e: &io::Error) -> Error {
        /// ENOLCK: the server keeps no locks. ENOSYS and EOPNOTSUPP have a kind.
        const NO_LOCKS: i32 = 37;
        let error = Error::io(path, "lock", e);
        if e.kind() == io::ErrorKind::Unsupported || e.raw_os_error() == Some(NO_LOCKS) {
            return error.help("submitting needs a folder on a file system with locks");
        }
        if e.kind() != io::ErrorKind::PermissionDenied {
            return error;
        }
        let owner = fs::metadata(&self.folder)
            .map_or_else(|_| "its owner".to_owned(), |m| format!("user {}", m.uid()));
        error.help(format!(
            "{owner} owns {}, and this is user {}: submitting needs the right to write there; --out names another store",
            self.folder.display(),
            user()
        ))
    }
    /// The folder of a submission.
    pub fn folder_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
    /// Place of a submission's parcel.
    fn plan_of(&self, name: &str) -> PathBuf {
        self.folder_of(name).join(PLAN_FILE)
    }
    /// Folder of the logs of a submission's tasks.
    pub fn logs_of(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("logs")
    }
    /// Place of a task's report.
    pub fn report_of(&self, name: &str, task: usize) -> PathBuf {
        self.folder_of(name).join("tasks").join(format!("{task}.json"))
    }
    /// A task's last report in that job.
    pub fn report(&self, name: &str, task: usize, job: u64) -> Option<Report> {
        let text = fs::read_to_string(self.report_of(name, task)).ok()?;
        serde_json::from_str::<Report>(&text).ok().filter(|r| r.job == job)
    }
    /// All entries, by time.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn all(&self) -> Result<Vec<Submission>> {
        let (all, damaged) = self.readable()?;
        damaged.into_iter().next().map_or(Ok(all), Err)
    }
    /// The entries that can be read, by time, and the errors of the others.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn readable(&self) -> Result<(Vec<Submission>, Vec<Error>)> {
        let (mut all, mut damaged) = (Vec::new(), Vec::new());
        let entries = fs::read_dir(&self.folder).map_err(|e| Error::io(&self.folder, "read", &e))?;
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            match self.entry(&entry.path()) {
                Ok(submission) => all.extend(submission),
                Err(e) => damaged.push(e),
            }
        }
        let when = |s: &Submission| s.jobs.first().map_or(0, |j| j.submitted_s);
        all.sort_by(|a: &Submission, b: &Submission| (when(a), &a.name).cmp(&(when(b), &b.name)));
        damaged.sort_by_key(Error::to_string);
        Ok((all, damaged))
    }
    /// The entry in a folder, if there is one. The folder gives its name.
    fn entry(&self, folder: &Path) -> Result<Option<Submission>> {
        #[derive(Deserialize)]
        struct EntryHead {
            schema: String,
        }
        let file = folder.join(ENTRY_FILE);
        let Some(text) = input::text_if_there(&file)? else { return Ok(None) };
        let wrong = |why: String| {
            Error::input(format!("not an entry of this version: {why}"))
                .help("if its jobs have ended, take its folder away")
                .at(Spot::file(&file))
        };
        let head: EntryHead = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if head.schema != SCHEMA {
            return Err(wrong(format!("schema is '{}', and '{SCHEMA}' was expected", head.schema)));
        }
        let mut submission: Submission = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let name = folder.file_name().and_then(OsStr::to_str);
        name.ok_or_else(|| wrong("its folder's name is not UTF-8".to_owned()))?
            .clone_into(&mut submission.name);
        // Jobs of a journal that was copied bring their runs to the folder from which they were submitted.
        submission.done |= submission.place != self.place();
        Ok(Some(submission))
    }
    /// The parcel of a submission.
    ///
    /// # Errors
    /// When it can't be read, or is of other tasks.
    pub fn parcel(&self, submission: &Submission) -> Result<Parcel> {
        let file = self.plan_of(&submission.name);
        let parcel = Parcel::read_any(&file)?;
        let (nr, said) = (parcel.tasks.len(), submission.tasks);
        let beyond = submission.submitted().into_iter().find(|task| *task >= nr);
        if nr == said && beyond.is_none() {
            return Ok(parcel);
        }
        let text = match beyond {
            Some(task) if nr == said => {
                format!(
                    "the parcel has {}, and {ENTRY_FILE} has a task {task}",
                    schedlab_base::counted(nr, "task")
                )
            }
            _ => format!(
                "the parcel has {}, and {ENTRY_FILE} beside it says {said}",
                schedlab_base::counted(nr, "task")
            ),
        };
        Err(Error::input(text).help("if its jobs have ended, take its folder away").at(Spot::file(&file)))
    }
    /// Writes an entry.
    pub fn save(&self, submission: &Submission) -> Result<()> {
        let text = serde_json::to_string_pretty(submission)
            .map_err(|e| Error::internal(format!("an entry can't be written as JSON: {e}")))?;
        write_whole(&self.folder_of(&submission.name).join(ENTRY_FILE), text.as_bytes())
    }
    /// Makes the folder of a new submission with its parcel and script; its name.
    pub fn begin(&self, parcel: &Parcel, schedlab: &Path) -> Result<String> {
        let text = parcel.text()?;
        let hash = &Parcel::name(&text)[..16];
        let free = |n: &u32| !self.folder_of(&format!("{hash}-{n}")).join(ENTRY_FILE).exists();
        let name = format!("{hash}-{}", (1..).find(free).unwrap_or(1));
        let folder = self.folder_of(&name);
        for folder in [&folder, &folder.join("tasks"), &self.logs_of(&name)] {
            fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create the folder", &e))?;
        }
        write_whole(&folder.join(PLAN_FILE), text.as_bytes())?;
        write_whole(&folder.join(SCRIPT_FILE), self.script(&name, schedlab).as_bytes())?;
        Ok(name)
    }
    /// Submits tasks of a submission as a new job. The lock is held.
    ///
    /// # Errors
    /// When Slurm refuses, or the entry can't be written; no job is left then. And when Slurm does not say whether it
    /// took the job: its entry is left without a number then, for [`Journal::settle`].
    pub fn submit(
        &self,
        slurm: Slurm<'_>,
        submission: &mut Submission,
        tasks: Vec<usize>,
        now_s: u64,
    ) -> Result<u64> {
        let index = submission.jobs.len();
        submission.jobs.push(Job::new(tasks, now_s));
        let job = &submission.jobs[index];
        let (name, args) = (submission.job_name(job), self.sbatch(submission, job));
        self.save(submission)?;
        let number = match slurm.submit(&args) {
            Ok(number) => number,
            Err(NotTaken { error, sure: true }) => {
                submission.jobs.pop();
                self.save(submission)?;
                return Err(error);
            }
            // A busy controller takes a job after sbatch has given up.
            Err(NotTaken { error, sure: false }) => slurm.job_named(&name).ok().flatten().ok_or(error)?,
        };
        submission.jobs[index].number = Some(number);
        if let Err(e) = self.save(submission) {
            slurm.cancel(number);
            return Err(e);
        }
        Ok(number)
    }
    /// A job's script. Slurm copies it to the node, so it can report a missing folder. The store is named by
    /// its own path: the journal's folder may be a link to elsewhere.
    fn script(&self, name: &str, schedlab: &Path) -> String {
        let (folder, schedlab) = (quoted(&self.folder_of(name)), quoted(schedlab));
        let store = quoted(self.folder.parent().unwrap_or(&self.folder));
        format!(
            "#!/bin/sh\n\
             # A task of schedlab: docs/cluster.md\n\
             cd {folder} && [ -r {PLAN_FILE} ] || {{ echo \"$(uname -n) does not have\" {folder} >&2; \
             exit {no_folder}; }}\n\
             exec {schedlab} work {PLAN_FILE} --task \"$SLURM_ARRAY_TASK_ID\" --out {store} \\\n  \
               --report \"tasks/$SLURM_ARRAY_TASK_ID.json\" --quiet\n",
            no_folder = super::verdict::NO_FOLDER
        )
    }
    fn sbatch(&self, submission: &Submission, job: &Job) -> Vec<String> {
        let folder = self.folder_of(&submission.name);
        let throttle = submission.at_once.map_or_else(String::new, |n| format!("%{n}"));
        // A per cent sign begins a field of sbatch's patterns.
        let logs = self.logs_of(&submission.name).display().to_string().replace('%', "%%");
        let own = [
            "--parsable".to_owned(),
            format!("--job-name={}", submission.job_name(job)),
            format!("--array={}{throttle}", ranges(&job.tasks)),
            format!("--output={logs}/%a.log"),
            "--open-mode=append".to_owned(),
            "--requeue".to_owned(),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
        ];
        let script = folder.join(SCRIPT_FILE).display().to_string();
        own.into_iter().chain(submission.options.iter().cloned()).chain([script]).collect()
    }
    /// Asks Slurm for the numbers of jobs that were submitted without noting them. Entries of jobs that Slurm does not
    /// know go, and so does a submission that has none left. The lock is held.
    ///
    /// # Errors
    /// When Slurm can't be asked, or an entry can't be written.
    pub fn settle(&self, slurm: Slurm<'_>, submission: &mut Submission) -> Result<()> {
        if submission.jobs.iter().all(|j| j.number.is_some()) || submission.place != self.place() {
            return Ok(());
        }
        for at in 0..submission.jobs.len() {
            if submission.jobs[at].number.is_none() {
                let name = submission.job_name(&submission.jobs[at]);
                submission.jobs[at].number = slurm.job_named(&name)?;
            }
        }
        submission.jobs.retain(|j| j.number.is_some());
        if submission.jobs.is_empty() {
            let folder = self.folder_of(&submission.name);
            return fs::remove_dir_all(&folder).map_err(|e| Error::io(&folder, "remove", &e));
        }
        self.save(submission)
    }
}

/// Checks that Slurm takes a path as it is, in its options and in a job's script. A backslash turns off the fields of
/// `--output`.
///
/// # Errors
/// When it has something else.
pub fn check_path(path: &Path) -> Result<()> {
    let shown = path.display();
    let Some(text) = path.to_str() else {
        let bytes = path.as_os_str().as_bytes();
        let at = std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), |_| 0);
        let text =
            format!("{shown} has byte 0x{:02x}, which is not UTF-8: Slurm's jobs can't have it", bytes[at]);
        return Err(Error::input(text));
    };
    match text.chars().find(|c| *c == '\\' || c.is_control()) {
        None => Ok(()),
        Some('\\') => Err(Error::input(format!("{shown} has a backslash: Slurm's jobs can't have it"))),
        Some(c) => {
            let text =
                format!("{shown} has the control character U+{:04X}: Slurm's jobs can't have it", c as u32);
            Err(Error::input(text))
        }
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// Indices as sbatch takes them: 0-3,7.
pub fn ranges(tasks: &[usize]) -> String {
    let mut sorted = tasks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for task in sorted {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == task => *last = task,
            _ => parts.push((task, task)),
        }
    }
    let part = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
