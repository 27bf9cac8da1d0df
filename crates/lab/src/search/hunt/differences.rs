//! The search for workloads under which a kernel's own code and our rules differ. They are drawn, sorted by the events
//! of both sides at the first instant that differs, and the smallest of each kind is shrunk.

use super::deadline::within;
use super::judge::judged;
use super::sides::{Outcome, Parted, Sides};
use super::specimen::{Dice, Specimen};
use super::{Budget, SEARCH_PCT, search, shrink, survive, write};
use schedlab_base::{Result, Stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most steps of shrinking one kind of differences.
const SHRINK_EVALS: u64 = 400;
/// Steps of shrinking for each workload of a search by their number, all kinds together. Otherwise eight workloads that
/// differ in two ways would take a hundred times as long to shrink as to find.
const SHRINK_EACH: u64 = 5;
/// A workload gets one of this many parts of a time budget. A run of the code takes seconds on a slow host, and five
/// are made if both sides differ.
const SHARES: u32 = 8;
/// The time of a search by a number of workloads: a year.
const UNLIMITED: Duration = Duration::from_secs(365 * 86_400);

/// Workloads that differ in one way.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The events at the first instant that differs: the code's, and our rules'.
    pub kinds: [String; 2],
    /// The drawn workloads, by their numbers.
    pub draws: Vec<u64>,
    /// The smallest of them, shrunk.
    pub specimen: Specimen,
    /// Tasks of the workload before shrinking.
    pub tasks_before: u32,
    pub parted: Parted,
    /// Whether it was shrunk to the end.
    pub whole: bool,
}

/// The result of a search for differences.
#[derive(Clone, Default, Debug)]
pub struct Differences {
    /// Workloads judged.
    pub drawn: u64,
    /// Workloads that took longer than their share of the time, and were not judged.
    pub late: u64,
    /// Workloads under which both sides were equal to the end.
    pub same: u64,
    /// Workloads under which both sides were equal until the order of CPUs at one instant decided.
    pub ordered: u64,
    /// Differences by the first differing events, the most frequent first.
    pub found: Vec<Difference>,
    /// Whether `stop` ended the search.
    pub interrupted: bool,
}

/// The outcome of a drawn workload.
enum Tried {
    Judged(Outcome),
    /// Its share of the time was over.
    Late,
    /// The search was over.
    Cut,
}

/// The time of a search.
struct Clock<'a> {
    began: Instant,
    budget: Budget,
    stop: &'a AtomicBool,
}

impl Clock<'_> {
    /// The time until this many per cent of the budget are used.
    fn left(&self, pct: u32) -> Duration {
        match self.budget {
            Budget::Evals(_) => UNLIMITED,
            Budget::Time(time) => (time * pct / 100).saturating_sub(self.began.elapsed()),
        }
    }
    /// The time of one workload.
    fn share(&self) -> Duration {
        match self.budget {
            // The same seed finds the same differences on every machine.
            Budget::Evals(_) => UNLIMITED,
            Budget::Time(time) => time / SHARES,
        }
    }
    /// How many workloads may be drawn now.
    fn most(&self, drawn: u64) -> u64 {
        match self.budget {
            Budget::Evals(n) => n.saturating_sub(drawn).min(search::BATCH),
            Budget::Time(_) if !self.left(SEARCH_PCT).is_zero() => search::BATCH,
            Budget::Time(_) => 0,
        }
    }
    /// The most steps of shrinking one of this many kinds.
    fn steps(&self, sorts: u32) -> u64 {
        match self.budget {
            Budget::Evals(n) => (SHRINK_EACH * n / u64::from(sorts.max(1))).min(SHRINK_EVALS),
            Budget::Time(_) => SHRINK_EVALS,
        }
    }
    fn tried(&self, sides: &Sides, specimen: &Specimen) -> Result<Tried> {
        let (share, left) = (self.share(), self.left(SEARCH_PCT));
        if left.is_zero() || self.stop.load(Ordering::Relaxed) {
            return Ok(Tried::Cut);
        }
        let outcome = within(share.min(left), self.stop, |over| sides.run(specimen, over))?;
        Ok(match outcome {
            Some(outcome) => Tried::Judged(outcome),
            None if self.stop.load(Ordering::Relaxed) || left < share => Tried::Cut,
            None => Tried::Late,
        })
    }
}

/// The workloads to search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub seed: u64,
    /// The number of the first workload.
    pub first: u64,
    pub budget: Budget,
    /// Whether the smallest of each kind is shrunk.
    pub shrinks: bool,
}

/// Searches for differences. `progress` gets those found so far.
pub fn differences(
    sides: &Sides,
    wanted: Search,
    jobs: usize,
    progress: &dyn Fn(&Differences),
    stop: &AtomicBool,
) -> Result<Differences> {
    let clock = Clock { began: Instant::now(), budget: wanted.budget, stop };
    let draws = Stream::new(wanted.seed).purpose("difference");
    let (mut all, mut next) = (Differences::default(), wanted.first);
    loop {
        let most = clock.most(next - wanted.first);
        // Round times of several tasks would meet at one instant, where the order of CPUs would decide.
        let draw = |n: u64| {
            let drawn = Specimen::draw(Dice(draws.number(n)), &sides.space);
            survive::neighbour(&drawn, n, &sides.space)
        };
        let some: Vec<(u64, Specimen)> = (next..next + most).map(|n| (n, draw(n))).collect();
        if some.is_empty() || stop.load(Ordering::Relaxed) {
            break;
        }
        next += most;
        let tried = judged(jobs, &some, |(_, specimen)| clock.tried(sides, specimen))?;
        some.into_iter().zip(tried).for_each(|(drawn, tried)| all.add(drawn, tried));
        progress(&all);
    }
    // The sort is stable: of equals, the first one found comes first.
    all.found.sort_by_key(|one| std::cmp::Reverse(one.draws.len()));
    let sorts = all.found.len() as u32;
    for (one, sorts_left) in all.found.iter_mut().zip((1..=sorts).rev()).filter(|_| wanted.shrinks) {
        // Time that one kind does not use is left for the next ones.
        let ends = Instant::now() + clock.left(100) / sorts_left;
        shrink(one, sides, jobs, (ends, clock.steps(sorts)), &clock)?;
    }
    all.interrupted = stop.load(Ordering::Relaxed);
    Ok(all)
}

impl Differences {
    fn add(&mut self, (number, specimen): (u64, Specimen), tried: Tried) {
        let outcome = match tried {
            Tried::Judged(outcome) => outcome,
            Tried::Late => return self.late += 1,
            Tried::Cut => return,
        };
        self.drawn += 1;
        let parted = match outcome {
            Outcome::Same => return self.same += 1,
            Outcome::Ordered => return self.ordered += 1,
            Outcome::Parted(parted) => *parted,
        };
        let (kinds, tasks_before) = (parted.parting.kinds(), specimen.tasks());
        let mut one = Difference { kinds, draws: vec![number], specimen, tasks_before, parted, whole: false };
        match self.found.iter_mut().find(|known| known.kinds == one.kinds) {
            Some(known) => {
                known.draws.push(number);
                if one.tasks_before < known.tasks_before {
                    one.draws = std::mem::take(&mut known.draws);
                    *known = one;
                }
            }
            None => self.found.push(one),
        }
    }
}

/// Makes a workload smaller while it differs in the same way, until the time is over.
fn shrink(
    one: &mut Difference,
    sides: &Sides,
    jobs: usize,
    (ends, steps): (Instant, u64),
    clock: &Clock<'_>,
) -> Result<()> {
    let mut evals = 0;
    let run = |specimen: &Specimen| {
        let left = ends.saturating_duration_since(Instant::now());
        within(left.min(clock.share()), clock.stop, |over| sides.run(specimen, over))
    };
    'step: loop {
        for some in shrink::simpler(&one.specimen, &sides.space).chunks(shrink::AT_ONCE) {
            let late = Instant::now() >= ends || clock.stop.load(Ordering::Relaxed);
            if late || evals >= steps {
                return Ok(());
            }
            evals += some.len() as u64;
            for (specimen, outcome) in some.iter().zip(judged(jobs, some, run)?) {
                match outcome {
                    // A neighbour that exceeds its share of the time is not simpler.
                    None if Instant::now() < ends && !clock.stop.load(Ordering::Relaxed) => {}
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
        let runtime = sides.runtime_on(sides.space.cpus(self.specimen.machine));
        write::same_on_both(&self.specimen, &sides.space, (name, &about), runtime, &sides.code)
    }
    /// The file of its machine: name and text.
    ///
    /// # Errors
    /// When the machine can't be written.
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
