//! Bisection of a metric: the commit that moved it.
//!
//! Both ends are measured first and must differ. A commit in between is *old* if it differs from the bad end and not
//! from the good one, *new* in the opposite case. Both take verdicts over several runs, never a single one. If the
//! verdicts do not settle it, a commit counts as the end that its interval allows if it excludes the other. If this
//! does not settle it either, the commit and the ends get twice the runs, up to [`MOST_RUNS`]; after that the nearer
//! end decides, and the result says so. Two equal commits are taken for different in 5 % of cases over all these looks
//! together ([`schedlab_compare::stats::looks`]). Git chooses the commits (`rev-list --bisect-all`), so that merges are
//! treated as `git bisect` does.
//!
//! A bisection keeps no state: builds and runs are in the cache and the store. So the same command continues where an
//! earlier one was interrupted; runs of a command on the running kernel ([`commands`]) are made anew.

mod commands;
mod commits;
mod folders;
mod schedulers;

pub use commands::{CommandCommits, CommandQuestion};
pub use commits::{CommitQuestion, CommitRuns};
pub use schedulers::{FAILS, LASTS, SchedulerCommits, SchedulerQuestion};

use schedlab_base::{Error, ErrorKind, Result, counted};
use schedlab_compare::stats::describe::mean;
use schedlab_compare::stats::{Decided, Direction, Limits, Looks, RunValue, Table, Verdict, decide_one};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most runs of a commit.
pub const MOST_RUNS: u64 = 48;

/// How a bisection measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Runs of a commit at first.
    pub runs: u64,
    /// The smallest change that counts, per cent.
    pub min_effect_pct: f64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Commit {
    pub hash: String,
    /// The first line of its message.
    pub subject: String,
}

/// git's format of a commit's line: hash and subject.
const FORMAT: &str = "%H %s";

impl Commit {
    /// The commit of a line in [`FORMAT`].
    fn of_line(line: &str) -> Commit {
        let line = line.trim_end();
        let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
        Commit { hash: hash.to_owned(), subject: subject.to_owned() }
    }
    /// Hash and subject for people.
    pub fn words(&self) -> String {
        format!("{} {}", &self.hash[..self.hash.len().min(12)], self.subject)
    }
}

/// The end that a commit is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Like the good end.
    Old,
    /// Like the bad end.
    New,
}

/// A commit that was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasuredCommit {
    pub commit: Commit,
    /// Its side; `None`: it can't be built and was skipped.
    pub side: Option<Side>,
    /// Mean of the metric.
    pub mean: Option<f64>,
    pub runs: usize,
    /// Whether verdicts settled its side.
    pub settled: bool,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A commit that can't be measured.
#[derive(Debug)]
pub struct Unmeasured {
    /// Its place among the commits that were asked for.
    pub at: usize,
    pub error: Error,
}

/// Measures commits.
pub trait Meter {
    /// The values of the metric in that many runs of a commit. A call with more runs begins with the same values.
    ///
    /// # Errors
    /// When the commit can't be built, or a run fails.
    fn of_commit(&mut self, commit: &Commit, runs: u64) -> Result<Vec<f64>>;
    /// The same of each of these commits.
    ///
    /// # Errors
    /// The first commit that can't be measured.
    fn values(&mut self, commits: &[&Commit], runs: u64) -> std::result::Result<Vec<Vec<f64>>, Unmeasured> {
        let one = |(at, commit): (usize, &&Commit)| {
            self.of_commit(commit, runs).map_err(|error| Unmeasured { at, error })
        };
        commits.iter().enumerate().map(one).collect()
    }
    /// Whether a run depends on when it is made: a commit is measured beside both ends then, not after them.
    fn depends_on_time(&self) -> bool {
        false
    }
    /// Takes each step.
    fn report_step(&mut self, step: &MeasuredCommit, left: usize);
}

/// The result of a bisection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bisected {
    /// The first commits that are new: one, or several if those in between can't be built.
    pub first: Vec<Commit>,
    /// Everything measured, in order.
    pub steps: Vec<MeasuredCommit>,
    /// Mean at the good end.
    pub good: f64,
    /// Mean at the bad end.
    pub bad: f64,
}

/// A repository that is only read.
#[derive(Clone, Copy, Debug)]
pub struct Repository<'a>(pub &'a Path);

impl Repository<'_> {
    /// Runs git and returns its output.
    ///
    /// # Errors
    /// When git is missing, or fails.
    pub fn git(&self, words: &[&str]) -> Result<String> {
        self.run(Command::new("git").arg("-C").arg(self.0).args(words), words)
    }
    fn run(&self, command: &mut Command, words: &[&str]) -> Result<String> {
        let said = command.output();
        let said = said.map_err(|e| Error::machine(format!("can't start git: {e}")).help("install git"))?;
        if said.status.success() {
            return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
        }
        let complaint = String::from_utf8_lossy(&said.stderr);
        let complaint = complaint.lines().next().unwrap_or("it said nothing").to_owned();
        Err(Error::input(format!("git {}: {complaint}", words.first().unwrap_or(&"")))
            .context(self.0.display().to_string()))
    }
    /// The folder of the repository's own files.
    ///
    /// # Errors
    /// When there is no repository.
    pub fn folder(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(self.git(&["rev-parse", "--absolute-git-dir"])?.trim_end_matches('\n')))
    }
    /// Checks out a commit's files to `tree`, a whole path. Only files that changed since the last call with this
    /// `index` are written. The repository and its own index are not written.
    ///
    /// # Errors
    /// When git can't write the files.
    pub fn check_out(&self, commit: &Commit, tree: &Path, index: &Path) -> Result<()> {
        let words = ["read-tree", "-u", "--reset", &commit.hash];
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(self.folder()?).arg("--work-tree").arg(tree).args(words);
        command.env("GIT_INDEX_FILE", index).current_dir(tree);
        self.run(&mut command, &words).map(drop)
    }
    /// The commit of a name.
    pub fn commit(&self, name: &str) -> Result<Commit> {
        let format = format!("--format={FORMAT}");
        Ok(Commit::of_line(&self.git(&["log", "-1", &format, "--end-of-options", name, "--"])?))
    }
    /// The commits that may be the first new one, in the order in which they best halve the rest.
    fn between(&self, bad: &Commit, old: &[Commit]) -> Result<Vec<Commit>> {
        let mut words = vec!["rev-list".to_owned(), "--bisect-all".to_owned(), format!("--format={FORMAT}")];
        words.push(bad.hash.clone());
        words.extend(old.iter().map(|c| format!("^{}", c.hash)));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = self.git(&words)?;
        // git prints a line of its own before each commit in the wanted format.
        Ok(text.lines().filter(|l| !l.starts_with("commit ")).map(Commit::of_line).collect())
    }
}

/// Finds the commit between `good` and `bad` that moved the metric.
///
/// # Errors
/// When the ends do not differ, the good one is not an ancestor of the bad one, or a run fails.
pub fn bisect(
    repository: Repository<'_>,
    good: &Commit,
    bad: &Commit,
    measure: Measure,
    meter: &mut dyn Meter,
) -> Result<Bisected> {
    let is_ancestor = ["merge-base", "--is-ancestor", &good.hash, &bad.hash];
    if good == bad {
        return Err(Error::input(format!("--good and --bad are one commit, {}", good.words()))
            .help("name an older commit by --good"));
    }
    if repository.git(&is_ancestor).is_err() {
        return Err(Error::input(format!(
            "--good {} is not an ancestor of --bad {}",
            good.words(),
            bad.words()
        ))
        .help("name an older commit by --good; a metric that got better is bisected in the same way"));
    }
    let mut ends = Ends::measured(good, bad, measure, meter)?;
    let (mut newest, mut old) = (bad.clone(), vec![good.clone()]);
    let (mut steps, mut passed): (Vec<MeasuredCommit>, Vec<Commit>) = (Vec::new(), Vec::new());
    loop {
        let left = repository.between(&newest, &old)?;
        let next = left.iter().find(|c| **c != newest && !passed.contains(c));
        let Some(commit) = next.cloned() else {
            let mut first: Vec<Commit> = left.into_iter().filter(|c| passed.contains(c)).collect();
            first.push(newest);
            let [good, bad] = ends.means;
            return Ok(Bisected { first, steps, good, bad });
        };
        let step = match ends.side(&commit, meter) {
            Ok(step) => step,
            Err(e) if is_of_the_commit(&e) => MeasuredCommit {
                commit: commit.clone(),
                side: None,
                mean: None,
                runs: 0,
                settled: false,
                why: Some(e.message().to_owned()),
            },
            Err(e) => return Err(e.context(commit.words())),
        };
        match step.side {
            Some(Side::New) => newest = commit,
            Some(Side::Old) => old.push(commit),
            None => passed.push(commit),
        }
        meter.report_step(&step, left.len());
        steps.push(step);
    }
}

/// Whether an error belongs to the commit: it can't be built (an error of the input), or its kernel does not run in a
/// guest. A full disk or a missing QEMU belongs to the host.
fn is_of_the_commit(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Input | ErrorKind::Guest)
}

/// Both ends with their values, by seed, so that they pair with a commit's.
struct Ends<'a> {
    good: &'a Commit,
    bad: &'a Commit,
    old: Vec<f64>,
    new: Vec<f64>,
    /// Their means when they were measured alone.
    means: [f64; 2],
    looks: Looks,
    min_effect_pct: f64,
    /// Runs after which the ends differed; a commit starts with as many.
    first: u64,
}

impl<'a> Ends<'a> {
    /// Measures both ends, with more runs until they differ.
    fn measured(
        good: &'a Commit,
        bad: &'a Commit,
        measure: Measure,
        meter: &mut dyn Meter,
    ) -> Result<Ends<'a>> {
        let Measure { runs, min_effect_pct } = measure;
        let looks = Looks::up_to(runs, MOST_RUNS);
        let (old, new) = (Vec::new(), Vec::new());
        let means = [0.0; 2];
        let mut ends = Ends { good, bad, old, new, means, looks, min_effect_pct, first: runs };
        for n in ends.looks.runs().to_vec() {
            ends.extend(n, meter)?;
            match ends.judged(&ends.old, &ends.new).verdict {
                Verdict::Changed => return Ok(Ends { first: n, ..ends }),
                // The interval excludes a change that would count: more runs would not show it.
                Verdict::Same => break,
                _ => {}
            }
        }
        let text = format!("the metric does not differ between {} and {}", good.words(), bad.words());
        let (old, new) = (mean(&ends.old), mean(&ends.new));
        let means = format!("means {old:.4} and {new:.4} over {}", counted(ends.old.len(), "run"));
        Err(Error::input(text).help(format!("{means}; try another load or metric")))
    }
    /// Makes runs until the ends have that many.
    fn extend(&mut self, runs: u64, meter: &mut dyn Meter) -> Result<()> {
        if (self.old.len() as u64) < runs {
            let both = meter.values(&[self.good, self.bad], runs);
            let mut both = both.map_err(|e| self.of_end(e))?;
            (self.new, self.old) = (both.pop().unwrap_or_default(), both.pop().unwrap_or_default());
            self.means = [mean(&self.old), mean(&self.new)];
        }
        Ok(())
    }
    /// Measures a commit, and the ends as often.
    fn beside(&mut self, commit: &Commit, runs: u64, meter: &mut dyn Meter) -> Result<Vec<f64>> {
        let ends: &[&Commit] = if meter.depends_on_time() { &[self.good, self.bad] } else { &[] };
        let all = meter.values(&[ends, &[commit]].concat(), runs);
        let mut all = all.map_err(|e| if e.at < ends.len() { self.of_end(e) } else { e.error })?;
        let values = all.pop().unwrap_or_default();
        if let (Some(new), Some(old)) = (all.pop(), all.pop()) {
            (self.old, self.new) = (old, new);
            return Ok(values);
        }
        self.extend(runs, meter)?;
        Ok(values)
    }
    /// An end can't be measured. If it was before, neither it nor the commit beside it is the cause.
    fn of_end(&self, Unmeasured { at, error }: Unmeasured) -> Error {
        let (option, end) = if at == 0 { ("--good", self.good) } else { ("--bad", self.bad) };
        match error.kind() {
            ErrorKind::CheckFailed => error,
            _ if is_of_the_commit(&error) && !self.old.is_empty() => {
                Error::machine(format!("{option} {} can't be measured again: {error}", end.words()))
            }
            _ => error.context(format!("{option} {}", end.words())),
        }
    }
    /// Measures a commit and judges its side.
    fn side(&mut self, commit: &Commit, meter: &mut dyn Meter) -> Result<MeasuredCommit> {
        let mut n = self.first;
        loop {
            let values = self.beside(commit, n, meter)?;
            let (from_old, from_new) = (self.judged(&self.old, &values), self.judged(&self.new, &values));
            let (not_old, not_new) =
                (from_old.verdict == Verdict::Changed, from_new.verdict == Verdict::Changed);
            let decided = match (not_old, not_new) {
                (false, true) => Some(Side::Old),
                (true, false) => Some(Side::New),
                (false, false) => self.nearer_by_intervals(&from_old, &from_new),
                (true, true) => None,
            };
            let step = |side, settled| MeasuredCommit {
                commit: commit.clone(),
                side: Some(side),
                mean: Some(mean(&values)),
                runs: values.len(),
                settled,
                why: None,
            };
            if let Some(side) = decided {
                return Ok(step(side, true));
            }
            // A value that differs from both ends stays there, however many runs are made.
            n *= 2;
            if n > MOST_RUNS || (not_old && not_new) {
                let value = mean(&values);
                let nearer_old = (value - mean(&self.old)).abs() <= (value - mean(&self.new)).abs();
                return Ok(step(if nearer_old { Side::Old } else { Side::New }, false));
            }
        }
    }

    /// The side of a commit that differs from neither end: its interval excludes that it is as far from this end as the
    /// other end is, and does not exclude that of the other end.
    fn nearer_by_intervals(&self, from_old: &Decided, from_new: &Decided) -> Option<Side> {
        let away = |from: &Decided, end: &[f64], other: &[f64]| {
            let apart = self.judged(end, other).change.change_pct;
            // Runs without any spread differ from the ends' distance by a rounding error.
            let nearer = |pct: f64| pct * (1.0 - 1e-6);
            apart.zip(from.change.ci95_pct).is_some_and(|(pct, [low, high])| {
                if pct > 0.0 { high < nearer(pct) } else { low > nearer(pct) }
            })
        };
        let as_old = away(from_old, &self.old, &self.new);
        let as_new = away(from_new, &self.new, &self.old);
        match (as_old, as_new) {
            (true, false) => Some(Side::Old),
            (false, true) => Some(Side::New),
            _ => None,
        }
    }

    /// The difference of the second of two kernels from the first, as in comparisons at these looks.
    fn judged(&self, a: &[f64], b: &[f64]) -> Decided {
        let runs = |values: &[f64]| -> Vec<RunValue> {
            values.iter().enumerate().map(|(seed, v)| RunValue { seed: seed as u64, value: *v }).collect()
        };
        let row = Table {
            base: runs(a),
            variant: runs(b),
            first_seed: 0,
            runs: a.len().min(b.len()) as u64,
            own: true,
            direction: Direction::Neither,
            limits: Limits::both(self.min_effect_pct),
        };
        decide_one(&row, &self.looks)
    }
}

#[cfg(test)]
mod tests;
