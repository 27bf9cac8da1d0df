//! The search: random specimens first, then changes of the best ones.
//!
//! Specimens are made and judged in batches of [`BATCH`]. Candidate `i` of a seed is drawn by `i` and from the best of
//! earlier batches, never from others of its batch, so that the number of threads has no influence. The best of each
//! class of losses are parents, so that a large loss of one class does not crowd out the others. A candidate that was
//! drawn before is drawn anew.

use super::change;
use super::judge::{Judge, judged};
use super::score::{Class, Score, score};
use super::specimen::{Dice, Specimen};
use schedlab_base::{Result, Stream};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// Candidates that are judged together.
pub const BATCH: u64 = 16;
/// The first candidates, which are drawn without parents.
const RANDOM: u64 = 4 * BATCH;
/// Parents that are kept of each class.
const PARENTS: usize = 8;
/// Draws of a candidate before it is left out because all were drawn before.
const TRIES: u64 = 8;

/// A specimen with its score.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    pub specimen: Specimen,
    /// Its losses.
    pub score: Score,
}

/// The state of a search.
pub struct Search<'a> {
    judge: &'a Judge,
    seed: Stream,
    /// The best of each class in the order of [`Class::ALL`], largest loss first.
    best: [Vec<Judged>; Class::ALL.len()],
    seen: BTreeSet<Specimen>,
    /// Candidates drawn so far, including those left out: a budget counts these, so that it is used up even if little
    /// is new.
    pub drawn: u64,
    /// Specimens judged so far.
    pub evals: u64,
}

impl<'a> Search<'a> {
    /// A search that has not begun.
    pub fn new(judge: &'a Judge, seed: u64) -> Search<'a> {
        let seed = Stream::new(seed).purpose("hunt");
        Search { judge, seed, best: Default::default(), seen: BTreeSet::new(), drawn: 0, evals: 0 }
    }

    /// Judges the next batch, of `most` specimens at most. Returns whether it was finished before `stop`; an unfinished
    /// batch leaves no trace.
    pub fn batch(&mut self, most: u64, jobs: usize, stop: &AtomicBool) -> Result<bool> {
        let mut candidates: Vec<Specimen> = Vec::new();
        for i in self.drawn..self.drawn + BATCH.min(most) {
            if let Some(fresh) = self.candidate(i) {
                self.seen.insert(fresh.clone());
                candidates.push(fresh);
            }
        }
        let judge = self.judge;
        let scores = judged(jobs, &candidates, |specimen| score(specimen, judge, stop))?;
        let Some(scores) = scores.into_iter().collect::<Option<Vec<Score>>>() else { return Ok(false) };
        self.drawn += BATCH.min(most);
        self.evals += candidates.len() as u64;
        for (specimen, score) in candidates.into_iter().zip(scores) {
            self.keep(Judged { specimen, score });
        }
        Ok(true)
    }

    /// Candidate number `i`; `None` if all its draws existed before.
    fn candidate(&self, i: u64) -> Option<Specimen> {
        let dice = Dice(self.seed.purpose("candidate").number(i));
        (0..TRIES).map(|turn| self.draw(i, dice.number(turn))).find(|s| !self.seen.contains(s))
    }

    fn draw(&self, i: u64, dice: Dice) -> Specimen {
        let space = &self.judge.space;
        let how = dice.below("how", 100);
        match (self.parent(dice.of("one")), self.parent(dice.of("other"))) {
            (Some(one), _) if i >= RANDOM && how < 60 => change::mutated(one, dice.of("mutate"), space),
            (Some(one), Some(other)) if i >= RANDOM && how < 75 => {
                let child = change::crossed(one, other, dice.of("cross"), space);
                change::mutated(&child, dice.of("mutate"), space)
            }
            _ => Specimen::draw(dice.of("draw"), space),
        }
    }

    /// One of the best of a class; the better ones are more likely.
    fn parent(&self, dice: Dice) -> Option<&Specimen> {
        let classes = self.judge.classes();
        let best = self.of(classes[dice.below("class", classes.len())]);
        let at = dice.below("rank", best.len()).min(dice.below("rank again", best.len()));
        best.get(at).map(|j| &j.specimen)
    }

    fn keep(&mut self, judged: Judged) {
        for (class, best) in Class::ALL.into_iter().zip(&mut self.best) {
            let Some(units) = judged.score.of(class).map(|l| l.units) else { continue };
            let at = best.partition_point(|b| b.score.of(class).is_some_and(|l| l.units >= units));
            best.insert(at, judged.clone());
            best.truncate(PARENTS);
        }
    }

    /// The best ones of a class, largest loss first.
    pub fn of(&self, class: Class) -> &[Judged] {
        &self.best[class as usize]
    }
    /// The best of a class.
    pub fn best(&self, class: Class) -> Option<&Judged> {
        self.best[class as usize].first()
    }
}
