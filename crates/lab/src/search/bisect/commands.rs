//! Measures commits of anything that a command can build: each is built in a folder of its own, and a command runs
//! there on the running kernel.
//!
//! Such a run depends on when it is made. So a commit never meets runs of an hour ago: both ends run again beside it,
//! one run of each in turn, forwards and backwards.

use super::commits::{Checkout, run_build, values, write_files};
use super::{Commit, MeasuredCommit, Meter, Repository};
use crate::ask::cell::Cell;
use crate::listener::Listener;
use crate::make::exec::{Backends, Executor};
use crate::make::plan::order;
use crate::make::watch;
use schedlab_base::{Error, ErrorKind, Result, content_hash};
use schedlab_compare::tools::check_installed;
use schedlab_kernel::{Variant, variant::RUNNING};
use schedlab_kernels::cache;
use schedlab_machine::Machine;
use schedlab_record::Record;
use schedlab_workload::{CommandSpec, Spec};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The question asked of each commit.
#[derive(Clone, Debug)]
pub struct CommandQuestion {
    /// The command that builds a commit, for the shell, in the folder of its files.
    pub build: String,
    /// The command that is measured, in the same folder.
    pub command: CommandSpec,
    pub metric: String,
}

/// Builds commits and measures them.
pub struct CommandCommits<'a> {
    repository: Repository<'a>,
    question: CommandQuestion,
    listener: &'a dyn Listener,
    /// Gets each measured commit, and the number of those left.
    report: &'a dyn Fn(&MeasuredCommit, usize),
    checkout: Checkout,
    backends: Backends,
    machine: Arc<Machine>,
    /// The ends: the commits of the first call; and whether that has measured them.
    ends: Vec<Commit>,
    measured: bool,
    /// The commits of the last call, and their values so far.
    last: Vec<(Commit, Vec<f64>)>,
}

impl<'a> CommandCommits<'a> {
    /// The commits of a repository.
    ///
    /// # Errors
    /// When another bisection of the repository is under way.
    pub fn of(
        repository: Repository<'a>,
        question: CommandQuestion,
        listener: &'a dyn Listener,
        report: &'a dyn Fn(&MeasuredCommit, usize),
    ) -> Result<CommandCommits<'a>> {
        let checkout = Checkout::of(repository, &cache::folder(None)?)?;
        let (machine, backends) = (Arc::new(Machine::load("host")?), Backends::default());
        Ok(CommandCommits {
            repository,
            question,
            listener,
            report,
            checkout,
            backends,
            machine,
            ends: Vec::new(),
            measured: false,
            last: Vec::new(),
        })
    }
    /// The folder of a commit; it has the build's name, too.
    fn folder(&self, commit: &Commit) -> PathBuf {
        let build = content_hash(self.question.build.as_bytes());
        self.checkout.beside(&format!("built-{}-{}", &commit.hash[..12], &build[..8]))
    }
    /// A commit's folder, built now if it is not yet. One whose build was cut short is built anew.
    fn built(&self, commit: &Commit) -> Result<PathBuf> {
        let folder = self.folder(commit);
        let done = folder.with_extension("done");
        if done.is_file() {
            return Ok(folder);
        }
        remove(&folder)?;
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "make", &e))?;
        write_files(commit, self.repository, &folder, &folder.with_extension("index"))?;
        run_build(&self.question.build, &folder)?;
        std::fs::write(&done, "").map_err(|e| Error::io(&done, "write", &e))?;
        Ok(folder)
    }
    fn cell(&self, commit: &Commit) -> Result<Cell> {
        let CommandQuestion { command, metric, .. } = &self.question;
        let cwd = Some(self.built(commit)?.to_string_lossy().into_owned());
        let spec = CommandSpec { cwd, ..command.clone() };
        // The same program was there at the ends, so the commit lacks it.
        check_installed(&spec).map_err(|e| Error::input(format!("after the build {}", e.message())))?;
        let cell =
            Cell::live(&self.machine, Variant::plain(RUNNING), Spec::Command(Box::new(spec)), String::new());
        Ok(Cell { observe: watch::needed([metric.as_str()]), ..cell })
    }
    fn value(&self, cell: &Cell, seed: u64) -> Result<f64> {
        let made = self.backends.run(cell, seed, self.listener.stop_flag()?)?;
        let record: Record = made.ok_or_else(|| Error::new(ErrorKind::CheckFailed, "interrupted"))?.record;
        Ok(values(&[record], &self.question.metric)?[0])
    }
    /// Removes what was built, when the commit is found. After an interruption the ends' builds are found again.
    ///
    /// # Errors
    /// When a folder can't be removed.
    pub fn clear(&self) -> Result<()> {
        self.ends.iter().try_for_each(|commit| remove(&self.folder(commit)))
    }
}

/// Removes a commit's folder, and first of all the note that it is built.
fn remove(folder: &Path) -> Result<()> {
    for file in ["done", "index"].map(|kind| folder.with_extension(kind)) {
        let _ = std::fs::remove_file(file);
    }
    match std::fs::remove_dir_all(folder) {
        Err(e) if folder.exists() => Err(Error::io(folder, "remove", &e)),
        _ => Ok(()),
    }
}

impl Meter for CommandCommits<'_> {
    fn values(&mut self, commits: &[&Commit], runs: u64) -> Result<Vec<Vec<f64>>> {
        if self.ends.is_empty() {
            self.ends = commits.iter().copied().cloned().collect();
        }
        // If an end that was measured fails now, the commit beside it is not the cause.
        let is_odd = |commit: &Commit, e: &Error| {
            self.measured && e.kind() == ErrorKind::Input && self.ends.contains(commit)
        };
        let failed = |commit: &Commit, e: Error| match is_odd(commit, &e) {
            true => Error::machine(format!("{} can't be measured again: {e}", commit.words())),
            false => e,
        };
        let cells = commits.iter().map(|c| self.cell(c).map_err(|e| failed(c, e)));
        let cells = cells.collect::<Result<Vec<Cell>>>()?;
        let is_same = self.last.iter().map(|(commit, _)| commit).eq(commits.iter().copied());
        let mut all = match is_same {
            true => self.last.clone(),
            false => commits.iter().map(|commit| ((*commit).clone(), Vec::new())).collect(),
        };
        let made = all[0].1.len() as u64;
        if made < runs {
            for run in order(cells.len(), runs - made, made + 1)? {
                let value =
                    self.value(&cells[run.cell], run.seed).map_err(|e| failed(commits[run.cell], e))?;
                all[run.cell].1.push(value);
            }
        }
        self.measured = true;
        self.last = all.clone();
        Ok(all.into_iter().map(|(_, values)| values).collect())
    }
    fn depends_on_time(&self) -> bool {
        true
    }
    fn report_step(&mut self, step: &MeasuredCommit, left: usize) {
        (self.report)(step, left);
        // The next commit is another one.
        let _ = remove(&self.folder(&step.commit));
    }
}
