//! The search for workloads under which a kernel's own code and our rules differ: drawn, sorted by what both did at the
//! first instant that differs, and of each sort the smallest shrunk.

use super::judge::judged;
use super::sides::{Outcome, Parted, Sides};
use super::specimen::{Dice, Specimen};
use super::{Budget, SEARCH_PCT, search, shrink, survive, write};
use schedlab_base::{Result, Stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Most steps of shrinking one sort of differences.
const SHRINK_EVALS: u64 = 400;

/// Workloads that differ in one way.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What the code did at the first instant that differs, and what our rules did.
    pub kinds: [String; 2],
    /// How many of the workloads drawn.
    pub count: u64,
    /// The smallest of them, shrunk.
    pub specimen: Specimen,
    /// Tasks of the workload that was drawn.
    pub tasks_before: u32,
    pub parted: Parted,
    /// Whether it was shrunk to the end.
    pub whole: bool,
}

/// What a search for differences has found.
#[derive(Clone, Default, Debug)]
pub struct Differences {
    /// Workloads drawn.
    pub drawn: u64,
    /// Workloads under which both sides did the same to the end.
    pub same: u64,
    /// Workloads under which they did the same until the order of CPUs at one instant decided.
    pub ordered: u64,
    /// By what differs first, the most frequent first.
    pub found: Vec<Difference>,
    /// Whether `stop` ended the search.
    pub interrupted: bool,
}

/// Searches for differences. `progress` gets what was found so far.
pub fn differences(
    sides: &Sides,
    seed: u64,
    budget: Budget,
    jobs: usize,
    progress: &dyn Fn(&Differences),
    stop: &AtomicBool,
) -> Result<Differences> {
    let began = Instant::now();
    let draws = Stream::new(seed).purpose("difference");
    let mut all = Differences::default();
    let is_over = |drawn: u64| match budget {
        Budget::Evals(n) => n.saturating_sub(drawn),
        Budget::Time(time) if began.elapsed() < time * SEARCH_PCT / 100 => search::BATCH,
        Budget::Time(_) => 0,
    };
    loop {
        let most = is_over(all.drawn).min(search::BATCH);
        // Round times of several tasks meet at one instant, whose order would decide.
        let draw = |n: u64| {
            let drawn = Specimen::draw(Dice(draws.number(n)), &sides.space);
            survive::neighbour(&drawn, n, &sides.space)
        };
        let some: Vec<Specimen> = (all.drawn..all.drawn + most).map(draw).collect();
        let outcomes = judged(jobs, &some, |specimen| sides.run(specimen, stop))?;
        let Some(outcomes) = outcomes.into_iter().collect::<Option<Vec<_>>>() else { break };
        if some.is_empty() {
            break;
        }
        all.drawn += most;
        some.into_iter().zip(outcomes).for_each(|(specimen, outcome)| all.add(specimen, outcome));
        progress(&all);
    }
    // Stable: of equals, the one that was found first.
    all.found.sort_by_key(|one| std::cmp::Reverse(one.count));
    for one in &mut all.found {
        let late = || match budget {
            Budget::Evals(_) => false,
            Budget::Time(time) => began.elapsed() >= time,
        };
        shrink(one, sides, jobs, &late, stop)?;
    }
    all.interrupted = stop.load(Ordering::Relaxed);
    Ok(all)
}

impl Differences {
    fn add(&mut self, specimen: Specimen, outcome: Outcome) {
        let parted = match outcome {
            Outcome::Same => return self.same += 1,
            Outcome::Ordered => return self.ordered += 1,
            Outcome::Parted(parted) => *parted,
        };
        let (kinds, tasks_before) = (parted.parting.kinds(), specimen.tasks());
        let one = Difference { kinds, count: 1, specimen, tasks_before, parted, whole: false };
        match self.found.iter_mut().find(|known| known.kinds == one.kinds) {
            Some(known) => {
                let count = known.count + 1;
                if one.tasks_before < known.tasks_before {
                    *known = one;
                }
                known.count = count;
            }
            None => self.found.push(one),
        }
    }
}

/// Makes a workload smaller while it differs in the same way.
fn shrink(
    one: &mut Difference,
    sides: &Sides,
    jobs: usize,
    late: &dyn Fn() -> bool,
    stop: &AtomicBool,
) -> Result<()> {
    let mut evals = 0;
    'step: loop {
        for some in shrink::simpler(&one.specimen, &sides.space).chunks(shrink::AT_ONCE) {
            if late() || evals >= SHRINK_EVALS {
                return Ok(());
            }
            evals += some.len() as u64;
            for (specimen, outcome) in some.iter().zip(judged(jobs, some, |s| sides.run(s, stop))?) {
                match outcome {
                    None => return Ok(()),
                    Some(Outcome::Parted(parted)) if parted.parting.kinds() == one.kinds => {
                        (one.specimen, one.parted) = (specimen.clone(), *parted);
                        continue 'step;
                    }
                    Some(_) => {}
                }
            }
        }
        one.whole = true;
        return Ok(());
    }
}

impl Difference {
    /// The text of its experiment, whose rt-app file has that name.
    pub fn experiment_text(&self, name: &str, sides: &Sides) -> String {
        let [code, rules] = &self.kinds;
        let at = self.parted.parting.at;
        let about =
            format!("found by schedlab hunt: at {at} the kernel's code has {code}, our rules have {rules}");
        write::same_on_both(&self.specimen, &sides.space, (name, &about), sides.runtime, &sides.code)
    }
    /// The file of its machine: name and text.
    ///
    /// # Errors
    /// A machine that can't be written.
    pub fn machine(&self, sides: &Sides) -> Result<(String, String)> {
        let (name, machine) = &sides.space.machines[self.specimen.machine];
        let text = machine
            .text(&format!("{} without costs", machine.name), &format!("{name} where no step takes time"))?;
        Ok((write::machine_file(&self.specimen, &sides.space), text))
    }
    /// Its rt-app file.
    pub fn rtapp(&self, sides: &Sides) -> String {
        write::rtapp(&self.specimen, &sides.space)
    }
}
