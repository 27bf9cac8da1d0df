//! Whether a loss survives a slight change of its workload.
//!
//! A run of 300 ms may depend on one migration: with all times 1 % longer it may be a different run without the loss.
//! Such a loss says nothing about the change. So each loss is checked in *neighbours*: the same workload with each time
//! longer or shorter by some per cent. It is kept if most of them show it beyond the spread of their own baseline.

use super::judge::{Judge, SEEDS, judged};
use super::score::{Loss, score};
use super::shrink::is_same;
use super::space::Space;
use super::specimen::{Dice, Rest, Specimen};
use schedlab_base::{Result, Stream};
use std::sync::atomic::{AtomicBool, Ordering};

/// Neighbours of a workload.
const NEIGHBOURS: u64 = 4;
/// This many of them must show the loss.
const MOST: usize = 3;
/// Times differ by at most this, per cent.
const BY_PCT: u32 = 5;

/// A neighbour of a specimen: the same tasks, with other times.
pub fn neighbour(of: &Specimen, n: u64, space: &Space) -> Specimen {
    let dice = Dice(Stream::new(n).purpose("neighbour"));
    let mut neighbour = of.clone();
    for (at, kind) in neighbour.kinds.iter_mut().enumerate() {
        let dice = dice.number(at as u64);
        let varied = |what: &str, us: u32| {
            // Never the same time: an unchanged workload would show nothing.
            let pct = 1 + dice.below(what, BY_PCT as usize) as u32;
            let by = (u64::from(us) * u64::from(pct)).div_ceil(100) as u32;
            if dice.chance(&format!("{what} less"), 50) {
                us.saturating_sub(by).max(1)
            } else {
                us.saturating_add(by)
            }
        };
        kind.run_us = varied("run", kind.run_us);
        if kind.locked_us > 0 {
            kind.locked_us = varied("locked", kind.locked_us);
        }
        kind.rest = match kind.rest {
            Rest::None => Rest::None,
            Rest::Sleep(us) => Rest::Sleep(varied("sleep", us)),
            Rest::Timer(us) => Rest::Timer(varied("timer", us)),
        };
    }
    neighbour.mended(space)
}

/// Whether most neighbours of a specimen show its loss; `None`: `stop` ended this.
pub fn survives(
    specimen: &Specimen,
    loss: &Loss,
    judge: &Judge,
    jobs: usize,
    stop: &AtomicBool,
) -> Result<Option<bool>> {
    let seeds = judge.seeds.iter().copied().take(SEEDS as usize).collect();
    let few = Judge { seeds, ..judge.clone() };
    let all: Vec<Specimen> = (0..NEIGHBOURS).map(|n| neighbour(specimen, n, &judge.space)).collect();
    let scores = judged(jobs, &all, |neighbour| score(neighbour, &few, stop))?;
    let Some(scores) = scores.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    // Short runs may end before they notice the stop; a stopped hunt keeps the loss that the search saw.
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let shows =
        |score: &super::score::Score| score.of(loss.class).is_some_and(|l| l.units > 0.0 && is_same(l, loss));
    Ok(Some(scores.iter().filter(|s| shows(s)).count() >= MOST))
}
