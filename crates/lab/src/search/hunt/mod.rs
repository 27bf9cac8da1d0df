//! The hunt: a search for the workloads under which a variant loses most against its baseline.
//!
//! Workloads are drawn as *specimens* ([`specimen`]), simulated under both kernels with the same seeds, and scored by
//! their losses beyond the baseline's own spread ([`score`]). The best are changed and judged again ([`search`]). The
//! worst of each class that survives a slight change of its workload ([`survive`]) is shrunk to the smallest workload
//! that still shows the loss ([`shrink`]), and written as an rt-app file with an experiment ([`write`]), which then
//! confirms it by other seeds.
//!
//! A hunt by a number of evaluations is a pure function of its seed, whatever the number of threads. A time budget ends
//! the same sequence of batches at another place.

pub mod around;
mod change;
mod deadline;
pub mod differences;
pub mod faults;
mod judge;
pub mod score;
mod search;
mod shrink;
pub mod sides;
pub mod space;
pub mod specimen;
mod subject;
mod surround;
mod survive;
mod words;
pub mod write;

pub use differences::{Difference, Differences, Search as DifferenceSearch, differences};
pub use faults::Fault;
pub use judge::Judge;
pub use score::{Class, Loss};
pub use sides::Sides;
pub use space::Space;

use crate::ask::experiment::Experiment;
use deadline::within;
use judge::judged;
use schedlab_base::Result;
use search::Search;
use specimen::Specimen;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first seed of the runs that confirm a loss; no specimen was judged with one of these seeds.
const CONFIRM_SEED: u64 = 1_001;
/// The part of a budget of time, per cent, that the search takes; the rest is for shrinking.
const SEARCH_PCT: u32 = 75;

/// How long to search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Budget {
    /// This many specimens.
    Evals(u64),
    /// This much time, shrinking included.
    Time(Duration),
}

/// A workload that shows a loss.
#[derive(Clone, Debug)]
pub struct LosingWorkload {
    /// The class of the loss, which names its files.
    pub class: Class,
    pub specimen: Specimen,
    pub loss: Loss,
    /// The loss of the workload from which it was shrunk.
    pub before: Loss,
    /// Tasks of that workload.
    pub tasks_before: u32,
    /// Whether it was shrunk to the end.
    pub whole: bool,
}

/// The result of a hunt.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// Specimens judged in the search.
    pub evals: u64,
    /// Specimens judged while shrinking.
    pub shrink_evals: u64,
    /// Losses that disappeared with a slight change of their workload.
    pub fragile: u64,
    /// One workload of each class that shows a loss, in the order of [`Class::ALL`].
    pub found: Vec<LosingWorkload>,
    /// Whether `stop` ended it.
    pub interrupted: bool,
}

/// Hunts. `progress` gets the number of specimens judged and the largest losses so far.
pub fn hunt(
    judge: &Judge,
    seed: u64,
    budget: Budget,
    jobs: usize,
    progress: &dyn Fn(u64, &[&Loss]),
    stop: &AtomicBool,
) -> Result<Hunt> {
    let began = Instant::now();
    let mut search = Search::new(judge, seed);
    searched(&mut search, (budget, began), jobs, progress, stop)?;
    let mut hunt =
        Hunt { evals: search.evals, shrink_evals: 0, fragile: 0, found: Vec::new(), interrupted: false };
    let (first, anew) = (judge, &judge.of_finals());
    let classes = judge.classes().iter().copied();
    for (class, classes_left) in classes.zip((1..=judge.classes().len() as u32).rev()) {
        // A failure counts by the seeds that showed it.
        let judge = if class == Class::Failure { first } else { anew };
        // Time that a class does not use is left for the next ones.
        let share = match budget {
            Budget::Evals(_) => None,
            Budget::Time(time) => Some(time.saturating_sub(began.elapsed()) / classes_left),
        };
        let class_began = Instant::now();
        let over = || {
            let late = share.is_some_and(|share| class_began.elapsed() >= share);
            late || stop.load(Ordering::Relaxed)
        };
        // A program takes seconds to begin: where its runs use up half of the share, the search's own best stands.
        let finals = |stop: &AtomicBool| final_of(class, search.of(class), judge, jobs, stop);
        let (worst, fragile) = match share {
            Some(share) => within(share / 2, stop, finals)?,
            None => finals(stop)?,
        };
        hunt.fragile += fragile;
        let Some((worst, before)) = worst else { continue };
        let mut shrunk = shrink::shrunk(&worst, &before, judge, jobs, &over, stop)?;
        hunt.shrink_evals += shrunk.evals;
        if shrunk.specimen != worst
            && class != Class::Failure
            && survive::survives(&shrunk.specimen, &shrunk.loss, judge, jobs, stop)? == Some(false)
        {
            (shrunk.specimen, shrunk.loss, shrunk.whole) = (worst.clone(), before.clone(), false);
        }
        hunt.found.push(LosingWorkload {
            class,
            specimen: shrunk.specimen,
            loss: shrunk.loss,
            before,
            tasks_before: worst.tasks(),
            whole: shrunk.whole,
        });
    }
    hunt.interrupted = stop.load(Ordering::Relaxed);
    Ok(hunt)
}

/// Judges specimens until the search's part of the budget, counted from `began`, is used or `stop` ends it.
fn searched(
    search: &mut Search<'_>,
    (budget, began): (Budget, Instant),
    jobs: usize,
    progress: &dyn Fn(u64, &[&Loss]),
    stop: &AtomicBool,
) -> Result<()> {
    loop {
        let most = match budget {
            Budget::Evals(n) => n.saturating_sub(search.drawn),
            Budget::Time(time) if began.elapsed() < time * SEARCH_PCT / 100 => search::BATCH,
            Budget::Time(_) => 0,
        };
        if most == 0 || !search.batch(most, jobs, stop)? {
            return Ok(());
        }
        let losses: Vec<&Loss> = Class::ALL
            .iter()
            .filter_map(|c| search.best(*c)?.score.of(*c))
            .filter(|l| l.units > 0.0)
            .collect();
        progress(search.evals, &losses);
    }
}

/// The specimen with the largest loss of a class among the best, judged anew, that survives a slight change; also how
/// many larger losses did not. If `stop` cuts that short, the search's own best with the loss that the search saw.
fn final_of(
    class: Class,
    best: &[search::Judged],
    judge: &Judge,
    jobs: usize,
    stop: &AtomicBool,
) -> Result<(Option<(Specimen, Loss)>, u64)> {
    let scores = judged(jobs, best, |b| score::score(&b.specimen, judge, stop))?;
    let whole: Option<Vec<score::Score>> = scores.into_iter().collect();
    let scores = whole.unwrap_or_else(|| best.iter().map(|b| b.score.clone()).collect());
    let losses = best.iter().zip(scores).filter_map(|(b, score)| {
        let loss = score.of(class)?.clone();
        (loss.units > 0.0).then(|| (b.specimen.clone(), loss))
    });
    let mut losses: Vec<(Specimen, Loss)> = losses.collect();
    // Stable, so that the order of the search decides between equals.
    losses.sort_by(|a, b| b.1.units.total_cmp(&a.1.units));
    let mut fragile = 0;
    if class == Class::Failure {
        // A scheduler must last under any timing: it needs no neighbours that fail, too.
        return Ok((losses.into_iter().next(), 0));
    }
    for (specimen, loss) in losses {
        match survive::survives(&specimen, &loss, judge, jobs, stop)? {
            Some(false) => fragile += 1,
            Some(true) | None => return Ok((Some((specimen, loss)), fragile)),
        }
    }
    Ok((None, fragile))
}

impl LosingWorkload {
    /// The name of its files, without their endings.
    pub fn name(&self) -> &'static str {
        self.class.name()
    }
    /// Its rt-app file.
    pub fn rtapp(&self, judge: &Judge) -> String {
        write::rtapp(&self.specimen, &judge.space)
    }
    /// The text of its experiment, for a file next to the rt-app file.
    pub fn experiment_text(&self, judge: &Judge) -> String {
        self.written(judge, |about| write::experiment(&self.specimen, &judge.space, about))
    }
    /// Its experiment, for files in that folder.
    ///
    /// # Errors
    /// When its machine can't be loaded.
    pub fn experiment(&self, judge: &Judge, folder: &Path) -> Result<Experiment> {
        self.written(judge, |about| write::as_value(&self.specimen, &judge.space, about, folder))
    }
    fn written<T>(&self, judge: &Judge, write: impl FnOnce(&write::About<'_>) -> T) -> T {
        let mut variant = judge.variant(&self.specimen);
        if let Some(fault) = judge.fault {
            variant.name = format!("{} with {}", variant.name, fault.name);
        }
        let about = format!("found by schedlab hunt: {} shows {}", variant.name, self.loss.words());
        let is_failure = self.class == Class::Failure;
        write(&write::About {
            name: self.name(),
            about: &about,
            metric: if is_failure { "work" } else { &self.loss.metric },
            runtime: judge.runtime,
            // A failure is shown by the runs that had it.
            seed: if is_failure { 1 } else { CONFIRM_SEED },
            variants: [&judge.baseline, &variant],
        })
    }
}

#[cfg(test)]
mod tests;
