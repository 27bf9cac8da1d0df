//! Measures commits of anything that a command can build: each is built in a folder of its own, and a command runs
//! there on the running kernel.
//!
//! Such a run depends on when it is made. So a commit never meets runs of an hour ago: both ends run again beside it,
//! one run of each in turn, forwards and backwards.

use super::commits::{Checkout, values, write_files};
use super::folders::{CEILING, ceiling, last_built, remove, run_build};
use super::{Commit, MeasuredCommit, Meter, Repository, Unmeasured};
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
use std::path::PathBuf;
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
        let last = Vec::new();
        let made =
            CommandCommits { repository, question, listener, report, checkout, backends, machine, last };
        // Another line's builds of a bisection that was interrupted: this one does not use them.
        let own = made.build_name();
        let other = |folder: &&PathBuf| !folder.to_string_lossy().ends_with(&own);
        made.folders().iter().filter(other).for_each(|folder| drop(remove(folder)));
        Ok(made)
    }
    fn build_name(&self) -> String {
        content_hash(self.question.build.as_bytes())[..8].to_owned()
    }
    /// The folder of a commit; it has the build's name, too.
    fn folder(&self, commit: &Commit) -> PathBuf {
        self.checkout.beside(&format!("built-{}-{}", &commit.hash[..12], self.build_name()))
    }
    /// All folders of commits.
    fn folders(&self) -> Vec<PathBuf> {
        let mut all = cache::entries(&self.checkout.beside(""));
        all.retain(|folder| folder.file_name().is_some_and(|n| n.to_string_lossy().starts_with("built-")));
        all
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
        run_build(&self.question.build, &folder, self.listener.stop_flag()?)?;
        std::fs::write(&done, "").map_err(|e| Error::io(&done, "write", &e))?;
        Ok(folder)
    }
    fn cell(&self, commit: &Commit) -> Result<Cell> {
        let CommandQuestion { command, metric, .. } = &self.question;
        let folder = self.built(commit)?;
        let mut spec = CommandSpec { cwd: Some(folder.to_string_lossy().into_owned()), ..command.clone() };
        spec.env.insert(CEILING.to_owned(), ceiling(&folder));
        // The same program was there at the ends, so the commit lacks it.
        check_installed(&spec).map_err(|e| match &spec.argv[0] {
            made if made.contains('/') => {
                Error::input(format!("the build made no program '{made}'{}", last_built(&folder)))
            }
            _ => e,
        })?;
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
    /// The first folder that can't be removed; the others are removed.
    pub fn clear(&self) -> Result<()> {
        let gone: Vec<Result<()>> = self.folders().iter().map(|folder| remove(folder)).collect();
        gone.into_iter().collect()
    }
}

impl Meter for CommandCommits<'_> {
    fn of_commit(&mut self, commit: &Commit, runs: u64) -> Result<Vec<f64>> {
        let all = self.values(&[commit], runs).map_err(|e| e.error)?;
        Ok(all.into_iter().flatten().collect())
    }
    fn values(&mut self, commits: &[&Commit], runs: u64) -> std::result::Result<Vec<Vec<f64>>, Unmeasured> {
        let failed = |at: usize| move |error: Error| Unmeasured { at, error };
        let cells = commits.iter().enumerate().map(|(at, commit)| self.cell(commit).map_err(failed(at)));
        let cells = cells.collect::<std::result::Result<Vec<Cell>, Unmeasured>>()?;
        let is_same = self.last.iter().map(|(commit, _)| commit).eq(commits.iter().copied());
        let mut all = match is_same {
            true => self.last.clone(),
            false => commits.iter().map(|commit| ((*commit).clone(), Vec::new())).collect(),
        };
        let made = all[0].1.len() as u64;
        if made < runs {
            for run in order(cells.len(), runs - made, made + 1).map_err(failed(0))? {
                let value = self.value(&cells[run.cell], run.seed).map_err(failed(run.cell))?;
                all[run.cell].1.push(value);
            }
        }
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
