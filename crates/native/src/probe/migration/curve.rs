//! The cost of a move between two CPUs, by size of the working set: today's form of D003's procedure.
//!
//! A repetition is four rounds: there, back, and one on each CPU alone. The target's time in the first two minus that
//! in the last two is the cost of two moves. The source's time is ignored: it is the same in both cases, and only adds
//! noise. Disturbed repetitions are repeated. Each size has a median with quartiles.
//!
//! A curve is measured in passes over all sizes, for most of a minute, because the costs of a pair may change within
//! seconds, as on a virtual machine whose CPUs sometimes share a core. If the passes of a size fall into two states
//! ([`states`]), its cost is that of the dearer one.
//!
//! The cost of a pair is that of its dearest size, as in 2005. The dearest is found among medians over three
//! neighbouring sizes (5 % apart), so that a single disturbed size is not chosen. Times are ns.

use super::ground::{Live, Sample};
use super::states;
use crate::sys;
use schedlab_base::{CpuId, Result};
use schedlab_machine::migration::{Cost, Curve, Search};

/// Number of repetitions per size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    pub least: usize,
    pub most: usize,
    /// Between these limits, as many as fit this time, ns.
    pub size_ns: u64,
}

impl Effort {
    /// For one important size.
    pub const SURE: Effort = Effort { least: 15, most: 31, size_ns: 2_000_000_000 };
    pub const PAIR: Effort = Effort { least: 7, most: 7, size_ns: 0 };
}

/// Number of passes of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    pub least: usize,
    pub most: usize,
    /// Between these limits, as many as begin within this time, ns.
    pub time_ns: u64,
}

impl Passes {
    /// For each of this many curves, about a minute in total.
    pub fn of(curves: usize) -> Passes {
        Passes { least: 9, most: 60, time_ns: 60_000_000_000 / curves.max(1) as u64 }
    }
}

/// A repetition: the target's times of a move to the second CPU, to the first, and on the first and second alone.
type Four = [u64; 4];

/// # Errors
/// When a CPU can't be used.
pub fn size(live: &mut Live, size: u64, (a, b): (CpuId, CpuId), effort: Effort) -> Result<Cost> {
    let four = [(a, b), (b, a), (a, a), (b, b)];
    // The first one allocates the set, warms the order, and shows the time of one repetition.
    let began = sys::monotonic_ns();
    live.rounds(size, &four)?;
    let once_ns = (sys::monotonic_ns() - began).max(1);
    let wanted = (effort.size_ns / once_ns).clamp(effort.least as u64, effort.most as u64) as usize;
    let at_once = (5_000_000 / once_ns).clamp(1, wanted as u64) as usize;
    let (mut quiet, mut others): (Vec<Four>, Vec<Four>) = (Vec::new(), Vec::new());
    while quiet.len() < wanted && quiet.len() + others.len() < 3 * wanted {
        let rounds: Vec<_> = four.iter().copied().cycle().take(4 * at_once).collect();
        for samples in live.rounds(size, &rounds)?.chunks_exact(4) {
            let times = std::array::from_fn(|i| samples[i].target_ns);
            if samples.iter().any(|s: &Sample| s.disturbed) { others.push(times) } else { quiet.push(times) }
        }
    }
    let disturbed = others.len();
    let spoilt = quiet.len() < 3;
    if spoilt {
        quiet.append(&mut others);
    }
    let found = cost(size, &quiet);
    let (seen, cost_ns) = if spoilt { (false, 0) } else { (found.seen, found.cost_ns) };
    Ok(Cost { disturbed, spoilt, seen, cost_ns, ..found })
}

/// The cost from these repetitions.
fn cost(size: u64, all: &[Four]) -> Cost {
    let sorted = |value: &dyn Fn(&Four) -> i64| {
        let mut values: Vec<i64> = all.iter().map(value).collect();
        values.sort_unstable();
        values
    };
    let at = |values: &[i64], percent: usize| {
        let last = values.len().saturating_sub(1);
        values.get((last * percent + 50) / 100).copied().unwrap_or(0)
    };
    let one = |i: usize| at(&sorted(&|r| r[i] as i64), 50);
    let into_ns = (one(1) - one(2), one(0) - one(3));
    let moved = sorted(&|r| (r[0] + r[1]) as i64);
    let stayed = sorted(&|r| (r[2] + r[3]) as i64);
    let costs = sorted(&|r| ((r[0] + r[1]) as i64 - (r[2] + r[3]) as i64) / 2);
    let seen = !all.is_empty() && at(&moved, 25) > at(&stayed, 75);
    Cost {
        size,
        cost_ns: if seen { at(&costs, 50).max(0) as u64 } else { 0 },
        spread_ns: (at(&costs, 25), at(&costs, 75)),
        into_ns,
        stayed_ns: i64::midpoint(one(2), one(3)).max(0) as u64,
        repetitions: all.len(),
        disturbed: 0,
        seen,
        states: None,
        spoilt: false,
    }
}

struct Gathered {
    size: u64,
    /// Number of repetitions that take about 5 ms; 0: not known yet.
    at_once: usize,
    quiet: Vec<Vec<Four>>,
    disturbed: usize,
}

impl Gathered {
    fn new(size: u64) -> Gathered {
        Gathered { size, at_once: 0, quiet: Vec::new(), disturbed: 0 }
    }
    fn pass(&mut self, live: &mut Live, (a, b): (CpuId, CpuId)) -> Result<()> {
        let four = [(a, b), (b, a), (a, a), (b, b)];
        // The first one allocates the set and warms the order.
        let began = sys::monotonic_ns();
        live.rounds(self.size, &four)?;
        if self.at_once == 0 {
            let once_ns = (sys::monotonic_ns() - began).max(1);
            self.at_once = (5_000_000 / once_ns).clamp(1, 9) as usize;
        }
        let rounds: Vec<_> = four.iter().copied().cycle().take(4 * self.at_once).collect();
        let mut quiet = Vec::new();
        for samples in live.rounds(self.size, &rounds)?.chunks_exact(4) {
            match samples.iter().any(|s: &Sample| s.disturbed) {
                true => self.disturbed += 1,
                false => quiet.push(std::array::from_fn(|i| samples[i].target_ns)),
            }
        }
        if !quiet.is_empty() {
            self.quiet.push(quiet);
        }
        Ok(())
    }
    /// The cost from all passes, or from those in the dearer state.
    fn cost(&self) -> Cost {
        if self.quiet.len() < 3 {
            return Cost { size: self.size, disturbed: self.disturbed, spoilt: true, ..Cost::default() };
        }
        let of_pass = |reps: &Vec<Four>| {
            let (low, high) = cost(self.size, reps).spread_ns;
            i64::midpoint(low, high)
        };
        let by_pass: Vec<i64> = self.quiet.iter().map(of_pass).collect();
        let states = states::split(&by_pass);
        let counts = |pass: usize| states.is_none_or(|s| by_pass[pass] >= s.from_ns);
        let passes = (0..by_pass.len()).filter(|pass| counts(*pass));
        let all: Vec<Four> = passes.flat_map(|pass| self.quiet[pass].iter().copied()).collect();
        Cost { disturbed: self.disturbed, states, ..cost(self.size, &all) }
    }
}

/// Measures all sizes of `search`, and `further` smaller ones. Calls `tried` with each size of each pass, and the
/// progress of the curve, per mille.
///
/// # Errors
/// As [`size`], and those of `tried`.
pub fn measure_curve(
    live: &mut Live,
    search: Search,
    further: &[u64],
    pair: (CpuId, CpuId),
    passes: Passes,
    tried: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<Curve> {
    let mut all: Vec<Gathered> = search.sizes().chain(further.iter().copied()).map(Gathered::new).collect();
    let began = sys::monotonic_ns();
    for pass in 0..passes.most {
        let passed_ns = sys::monotonic_ns() - began;
        if pass >= passes.least && passed_ns > passes.time_ns {
            break;
        }
        let by_time = 1000 * passed_ns / passes.time_ns.max(1);
        let by_pass = (1000 * pass / passes.least.max(1)) as u64;
        for gathered in &mut all {
            gathered.pass(live, pair)?;
            tried(gathered.size, by_time.min(by_pass).min(1000))?;
        }
    }
    let points: Vec<Cost> = all.iter().map(Gathered::cost).collect();
    let dearest = dearest(&points).map(|at| points[at]);
    Ok(Curve { pair: (pair.0.0, pair.1.0), points, dearest })
}

/// Index of the dearest size: of the three neighbours with the greatest median, the one that has that median. `None` if
/// no size has a cost.
fn dearest(points: &[Cost]) -> Option<usize> {
    let middle = |i: usize| {
        let mut near = [i.saturating_sub(1), i, (i + 1).min(points.len() - 1)];
        near.sort_by_key(|at| points[*at].cost_ns);
        near[1]
    };
    let best = (0..points.len()).map(middle).max_by_key(|at| points[*at].cost_ns)?;
    (points[best].cost_ns > 0).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_staying_is_subtracted_in_both_directions() {
        let all: Vec<Four> = (0..9).map(|i| [500 + i, 700 + i, 100 + i, 200 + i]).collect();
        let found = cost(64, &all);
        assert_eq!(found.into_ns, (600, 300), "to the first CPU, to the second");
        assert_eq!((found.cost_ns, found.spread_ns, found.stayed_ns), (450, (450, 450), 154));
        assert!(found.seen);
    }

    #[test]
    fn a_move_to_the_same_cpu_costs_nothing() {
        let all: Vec<Four> = (0..9).map(|i| [100 + i * 7 % 9, 100 + i * 5 % 9, 100 + i, 108 - i]).collect();
        let found = cost(64, &all);
        assert!(!found.seen);
        assert_eq!(found.cost_ns, 0);
        assert_eq!(cost(64, &[]), Cost { size: 64, ..Cost::default() });
    }

    #[test]
    fn one_disturbed_size_is_not_the_dearest() {
        let of = |costs: &[u64]| {
            let point =
                |(i, cost_ns): (usize, &u64)| Cost { size: i as u64, cost_ns: *cost_ns, ..Cost::default() };
            dearest(&costs.iter().enumerate().map(point).collect::<Vec<_>>())
        };
        assert_eq!(of(&[10, 20, 90, 30, 42, 44, 40, 10]), Some(4), "90 stands among 20 and 30");
        assert_eq!(of(&[0, 0, 50, 0]), None, "a single one among none");
        assert_eq!(of(&[]), None);
    }
}
