//! Measures commits of a sched_ext scheduler's own repository: checks each out, builds it by the user's command, and
//! makes its runs by the kernel's own code.
//!
//! Without a metric a run is measured by whether the scheduler lasts: [`LASTS`] or [`FAILS`]. What a command has built
//! is kept in the cache by commit and command.

use super::commits::{Checkout, values};
use super::folders::{last_built, run_build};
use super::{Commit, MeasuredCommit, Meter, Repository};
use crate::ask::{here, scx};
use crate::listener::Listener;
use crate::make::exec::{Backends, Executor, RunOptions};
use crate::make::plan::{Options, Plan};
use crate::make::request::{Lab, RunRequest};
use crate::search::trial;
use schedlab_base::{Error, ErrorKind, Result, content_hash, parallel};
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::cache;
use std::path::{Path, PathBuf};

/// The value of a run to its end, where no metric is asked for.
pub const LASTS: f64 = 1.0;
/// The value of a run that the scheduler does not last, or does not begin.
pub const FAILS: f64 = 2.0;

/// The question asked of each commit.
#[derive(Clone, Debug)]
pub struct SchedulerQuestion {
    /// The command that builds a commit, for the shell, in the folder of its files.
    pub build: String,
    /// The scheduler that it makes, by its path in that folder, with arguments or values.
    pub scx: Scx,
    /// The kernel: a series or a tree.
    pub kernel: String,
    pub machine: String,
    /// The metric that moved; `None`: whether the scheduler lasts.
    pub metric: Option<String>,
    /// The request of a commit's runs, without their number.
    pub request: RunRequest,
    pub options: RunOptions,
}

/// Builds commits and measures them.
pub struct SchedulerCommits<'a> {
    repository: Repository<'a>,
    question: SchedulerQuestion,
    listener: &'a dyn Listener,
    /// Gets each measured commit, and the number of those left.
    report: &'a dyn Fn(&MeasuredCommit, usize),
    checkout: Checkout,
}

impl<'a> SchedulerCommits<'a> {
    /// The commits of a repository.
    ///
    /// # Errors
    /// When another bisection of the repository is under way, and for a path that leads out of it.
    pub fn of(
        repository: Repository<'a>,
        question: SchedulerQuestion,
        listener: &'a dyn Listener,
        report: &'a dyn Fn(&MeasuredCommit, usize),
    ) -> Result<SchedulerCommits<'a>> {
        let checkout = Checkout::of(repository, &cache::folder(None)?)?;
        let made = SchedulerCommits { repository, question, listener, report, checkout };
        made.made_by_build()?;
        Ok(made)
    }
    /// The path of what the build makes, in the commit's folder, and the words behind it.
    fn made_by_build(&self) -> Result<(&Path, Vec<&str>)> {
        let words = self.question.scx.words().map(|(path, words)| (Path::new(path), words));
        words.filter(|(path, _)| path.is_relative() && !path.starts_with("..")).ok_or_else(|| {
            Error::input(format!("--scx {} is not a path in the repository", self.question.scx.command))
                .help("name what --build makes, relative to the folder of the commit's files")
        })
    }
    /// What a commit's build has made, from the cache or built now.
    fn built(&self, commit: &Commit) -> Result<PathBuf> {
        let ((path, _), build) = (self.made_by_build()?, &self.question.build);
        let key = content_hash(format!("{}\n{build}\n{}", commit.hash, path.display()).as_bytes());
        let folder = self.checkout.beside(&format!("scx-{}", &key[..16]));
        let kept = folder.join(path.file_name().unwrap_or_default());
        if kept.is_file() {
            return Ok(kept);
        }
        let made = self.checkout.join(path);
        // That of another commit would be taken for this one's.
        let _ = std::fs::remove_file(&made);
        let tree = self.checkout.at(commit, self.repository)?;
        run_build(&self.question.build, tree, self.listener.stop_flag()?)?;
        if !made.is_file() {
            return Err(Error::input(format!("the build made no {}{}", path.display(), last_built(tree))));
        }
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "make", &e))?;
        // Renamed into place: an interrupted copy is not a build.
        let part = folder.join(".part");
        std::fs::copy(&made, &part)
            .and_then(|_| std::fs::rename(&part, &kept))
            .map_err(|e| Error::io(&kept, "write", &e))?;
        Ok(kept)
    }
    /// How each run of the only cell of a plan ends.
    fn endings(&self, plan: &Plan, runs: u64) -> Result<Vec<f64>> {
        let stop = self.listener.stop_flag()?;
        let cell = plan.cells.first().ok_or_else(|| Error::internal("a plan without a cell"))?;
        let backends = Backends::new(self.question.options.clone());
        let one = |seed: &u64| match backends.run(cell, *seed, stop) {
            Ok(Some(_)) => Ok(LASTS),
            Ok(None) => Err(Error::new(ErrorKind::CheckFailed, "interrupted")),
            Err(e) if scx::has_failed(&cell.variant, &e) => Ok(FAILS),
            Err(e) => Err(e),
        };
        let seeds: Vec<u64> = (1..=runs).collect();
        parallel::map(self.question.request.jobs() as usize, &seeds, one).into_iter().collect()
    }
}

impl Meter for SchedulerCommits<'_> {
    fn of_commit(&mut self, commit: &Commit, runs: u64) -> Result<Vec<f64>> {
        let built = self.built(commit)?;
        let SchedulerQuestion { kernel, machine, metric, request, options, .. } = &self.question;
        let words = std::iter::once(built.to_string_lossy().into_owned())
            .chain(self.made_by_build()?.1.into_iter().map(str::to_owned));
        let scx = Scx { command: words.collect::<Vec<_>>().join(" "), hash: None };
        let name = commit.hash[..12].to_owned();
        let variant = Variant { name, scx: Some(scx), ..Variant::plain(kernel) };
        let experiment = trial::alone(&variant, machine, here::cpus())?;
        let backends = Backends::new(options.clone());
        let lab = Lab::here(&backends, self.listener);
        let wanted = Options { runs: Some(runs), ..request.wanted };
        let request = RunRequest { wanted, ..request.clone() };
        match metric {
            Some(metric) => values(&lab.compared(&request, experiment)?.records, metric),
            None => self.endings(&lab.planned(&request, experiment)?.0, runs),
        }
    }
    fn report_step(&mut self, step: &MeasuredCommit, left: usize) {
        (self.report)(step, left);
    }
}
