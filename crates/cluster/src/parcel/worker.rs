//! The worker: makes a parcel's runs, of one task or of all, into a store.
//!
//! A run that the store has is not made again. So a task that is started twice continues where it stopped.

use super::{Parcel, Protocol, Task};
use schedlab_base::{Error, Result};
use schedlab_lab::cell::Cell;
use schedlab_lab::exec::{Backends, Executor, Made, Progress, RunOptions, Session};
use schedlab_lab::plan::Plan;
use schedlab_lab::validate::{Probing, RepeatDisturbed};
use schedlab_record::Store;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs that are planned at once; their records are in memory until all of them are made.
const AT_ONCE: usize = 500;

/// What is needed to make runs.
pub struct Worker<'a> {
    /// Makes them.
    pub options: RunOptions,
    /// Takes them.
    pub store: &'a Store,
    /// Number of simulations side by side.
    pub jobs: usize,
    pub progress: &'a dyn Progress,
    /// Ends the work when it becomes true.
    pub stop: &'a AtomicBool,
}

/// What a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worked {
    pub made: usize,
    /// Runs that the store had.
    pub found: usize,
    /// Whether `stop` ended it early.
    pub interrupted: bool,
}

impl Worker<'_> {
    /// Makes the runs of one of the parcel's tasks, or of all.
    ///
    /// # Errors
    /// When the task does not exist, this machine can't make a run, or the store can't take it.
    pub fn work(&self, parcel: &Parcel, task: Option<usize>) -> Result<Worked> {
        let tasks: Vec<&Task> = match task {
            None => parcel.tasks.iter().collect(),
            Some(n) => {
                let nr = parcel.tasks.len();
                let none =
                    || Error::input(format!("the parcel has tasks 0 to {}, and no {n}", nr.max(1) - 1));
                vec![parcel.tasks.get(n).ok_or_else(none)?]
            }
        };
        let keep_events_in = parcel.how.events.then(|| self.store.root().to_owned());
        let backends = Backends::new(RunOptions { keep_events_in, ..self.options.clone() });
        let mut worked = Worked::default();
        'blocks: for (together, runs) in tasks.iter().flat_map(|t| t.blocks.iter().map(|b| (t.together, b))) {
            let once = once(parcel, runs);
            worked.found += runs.len() - once.len();
            let most = if together { once.len().max(1) } else { AT_ONCE };
            for part in once.chunks(most) {
                let plan = parcel.plan(part)?;
                match (together, parcel.how) {
                    (true, Protocol { validation: true, .. }) => {
                        self.block(&RepeatDisturbed(&Probing(&backends)), parcel, &plan, &mut worked)?;
                    }
                    (true, _) => self.block(&backends, parcel, &plan, &mut worked)?,
                    (false, _) => self.part(&backends, parcel, &plan, &mut worked)?,
                }
                if worked.interrupted {
                    break 'blocks;
                }
            }
        }
        Ok(worked)
    }

    /// Runs that may be made beside each other, stored one by one.
    fn part(&self, executor: &dyn Executor, parcel: &Parcel, plan: &Plan, worked: &mut Worked) -> Result<()> {
        let attach = attached(parcel);
        let session = Session {
            executor,
            store: Some(self.store),
            attach: &attach,
            jobs: self.jobs,
            progress: self.progress,
            stop: self.stop,
            engine: None,
            outlines: false,
        };
        let finished = session.work(plan)?;
        worked.made += finished.records.len() - finished.found;
        worked.found += finished.found;
        worked.interrupted |= finished.interrupted;
        Ok(())
    }

    /// Runs of a block, one after the other, stored at its end. A kill while they are being stored leaves a part.
    fn block(
        &self,
        executor: &dyn Executor,
        parcel: &Parcel,
        plan: &Plan,
        worked: &mut Worked,
    ) -> Result<()> {
        let hashes: Vec<String> = plan.cells.iter().map(Cell::hash).collect::<Result<_>>()?;
        let mut made: Vec<(&str, u64, Made)> = Vec::new();
        for run in &plan.runs {
            let (cell, hash) = (&plan.cells[run.cell], &hashes[run.cell]);
            if self.store.get(hash, run.seed).is_some() {
                worked.found += 1;
                continue;
            }
            let outcome = match self.stop.load(Ordering::Relaxed) {
                true => None,
                false => executor
                    .run(cell, run.seed, self.stop)
                    .map_err(|e| e.context(format!("{}, seed {}", cell.title(), run.seed)))?,
            };
            let Some(one) = outcome else {
                worked.interrupted = true;
                return Ok(());
            };
            made.push((hash, run.seed, one));
        }
        let attach = attached(parcel);
        for (hash, seed, one) in &made {
            one.put(self.store, hash, *seed, &attach)?;
        }
        worked.made += made.len();
        Ok(())
    }
}

/// A block's runs without repetition.
fn once(parcel: &Parcel, runs: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let mut seen = BTreeSet::new();
    runs.iter().copied().filter(|(cell, seed)| seen.insert((&parcel.cells[*cell].hash, *seed))).collect()
}

fn attached(parcel: &Parcel) -> Vec<(&str, &[u8])> {
    parcel.attach.iter().map(|a| (a.name.as_str(), a.text.as_bytes())).collect()
}
