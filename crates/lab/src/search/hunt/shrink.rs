//! Shrinking: the smallest specimen that still shows the loss.
//!
//! Each step tries simpler neighbours in a fixed order and takes the first that keeps [`KEPT`] of the first loss,
//! beyond the spread of the baseline's runs. Big steps (one kind less, half the tasks, a smaller machine) come before
//! small ones (a plain attribute, a round time). It ends when no neighbour keeps the loss. An order on specimens
//! ([`size`]) defines what is simpler, so that no later step undoes an earlier one.

use super::around::Around;
use super::judge::{Judge, judged};
use super::score::{Class, Loss, score};
use super::space::Space;
use super::specimen::{Cpus, Policy, Rest, Specimen};
use schedlab_base::Result;
use std::sync::atomic::AtomicBool;

/// The part of the first loss that each step keeps.
const KEPT: f64 = 0.8;
/// Neighbours that are evaluated together; a constant, so that the steps don't depend on the number of threads.
pub const AT_ONCE: usize = 4;

/// A specimen that was shrunk.
pub struct Shrunk {
    /// The smallest one.
    pub specimen: Specimen,
    /// The loss that it shows.
    pub loss: Loss,
    /// Specimens that were evaluated.
    pub evals: u64,
    /// Whether no simpler neighbour shows the loss; else the time was over.
    pub whole: bool,
}

/// Shrinks a specimen while it shows its loss, until `over` returns that the time is used.
pub fn shrunk(
    first: &Specimen,
    loss: &Loss,
    judge: &Judge,
    jobs: usize,
    over: &(dyn Fn() -> bool + Sync),
    stop: &AtomicBool,
) -> Result<Shrunk> {
    let least = KEPT * loss.units;
    let mut best = Shrunk { specimen: first.clone(), loss: loss.clone(), evals: 0, whole: false };
    'step: loop {
        let all = simpler(&best.specimen, &judge.space);
        // A few neighbours are tried at a time, so that all CPUs have work; the first one in the order that succeeds is
        // taken.
        for some in all.chunks(AT_ONCE) {
            if over() {
                break 'step;
            }
            let scores = judged(jobs, some, |specimen| score(specimen, judge, stop))?;
            best.evals += some.len() as u64;
            for (specimen, score) in some.iter().zip(scores) {
                let Some(score) = score else { break 'step };
                if let Some(loss) =
                    score.of(loss.class).filter(|l| l.units >= least && is_same(l, &best.loss))
                {
                    (best.specimen, best.loss) = (specimen.clone(), loss.clone());
                    continue 'step;
                }
            }
        }
        best.whole = true;
        break;
    }
    Ok(best)
}

/// Whether a loss is still the one that was found: the same class, and for latencies the same metric, for failures the
/// same kernel's reason, whatever task it names in brackets.
pub fn is_same(a: &Loss, b: &Loss) -> bool {
    let reason = |loss: &Loss| loss.metric.split(" (").next().unwrap_or_default().to_owned();
    a.class == b.class
        && match a.class {
            Class::Latency => a.metric == b.metric,
            Class::Failure => reason(a) == reason(b),
            Class::Wait | Class::Throughput | Class::Share => true,
        }
}

/// A sort key, the simplest first: machine, kinds, tasks, attributes, and the digits of times.
fn size(s: &Specimen) -> (usize, u32, usize, u32, u32) {
    let attributes = |k: &super::specimen::TaskKind| {
        [
            k.locked_us > 0,
            k.woken_by.is_some(),
            k.meets,
            k.nice != 0,
            k.policy != Policy::Other,
            k.cpus != Cpus::All,
            k.group.is_some(),
            k.then.is_some(),
            k.forked_by.is_some(),
        ]
        .into_iter()
        .filter(|set| *set)
        .count() as u32
            + match k.rest {
                Rest::None => 0,
                Rest::Sleep(_) => 1,
                Rest::Timer(_) => 2,
            }
    };
    let times = |k: &super::specimen::TaskKind| {
        let rest = match k.rest {
            Rest::None => 0,
            Rest::Sleep(us) | Rest::Timer(us) => us,
        };
        [k.run_us, k.locked_us, rest].into_iter().map(|us| u32::from(us != round(us))).sum::<u32>()
    };
    (
        s.kinds.len(),
        s.tasks(),
        s.machine,
        s.kinds.iter().map(attributes).sum::<u32>() + s.around.size(),
        s.kinds.iter().map(times).sum(),
    )
}

/// The nearest of 1, 2, 5, 10, 20, ... that is not larger.
fn round(us: u32) -> u32 {
    let mut unit = 1;
    while us >= 10 * unit {
        unit *= 10;
    }
    match us / unit {
        0 => 0,
        1 => unit,
        2..=4 => 2 * unit,
        _ => 5 * unit,
    }
}

/// Simpler neighbours, in the order in which they are tried.
pub fn simpler(of: &Specimen, space: &Space) -> Vec<Specimen> {
    let mut all: Vec<Specimen> = Vec::new();
    if of.kinds.len() > 1 {
        all.extend((0..of.kinds.len()).map(|gone| of.without(gone)));
    }
    all.extend((0..of.machine).map(|machine| Specimen { machine, ..of.clone() }));
    let around = |around: Around| Specimen { around, ..of.clone() };
    all.extend(of.around.simpler().into_iter().map(around));
    let edits: &[fn(&mut super::specimen::TaskKind)] = &[
        |k| k.then = None,
        |k| k.forked_by = None,
        |k| k.count = k.count.div_ceil(2),
        |k| k.count = (k.count - 1).max(1),
        |k| k.locked_us = 0,
        |k| k.group = None,
        |k| k.cpus = Cpus::All,
        |k| k.policy = Policy::Other,
        |k| k.nice = 0,
        |k| k.meets = false,
        |k| k.rest = Rest::None,
        |k| {
            if k.woken_by.take().is_some() {
                k.rest = Rest::Sleep(1_000);
            }
        },
        |k| {
            if let Rest::Timer(us) = k.rest {
                k.rest = Rest::Sleep(us.saturating_sub(k.run_us).max(10));
            }
        },
        |k| k.run_us = round(k.run_us),
        |k| k.locked_us = round(k.locked_us),
        |k| {
            k.rest = match k.rest {
                Rest::None => Rest::None,
                Rest::Sleep(us) => Rest::Sleep(round(us)),
                Rest::Timer(us) => Rest::Timer(round(us)),
            }
        },
    ];
    for edit in edits {
        for at in 0..of.kinds.len() {
            let mut changed = of.clone();
            edit(&mut changed.kinds[at]);
            all.push(changed);
        }
    }
    let all = all.into_iter().map(|s| s.mended(space)).filter(|s| size(s) < size(of));
    let mut once: Vec<Specimen> = Vec::new();
    for specimen in all {
        if !once.contains(&specimen) {
            once.push(specimen);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_down_to_one_digit() {
        assert_eq!([0, 1, 3, 9, 14, 140, 4_999, 50_000].map(round), [0, 1, 2, 5, 10, 100, 2_000, 50_000]);
    }
}
