//! The warnings of a calibration: why its figures may differ from the machine's.

use super::surroundings;
use schedlab_base::Warning;
use schedlab_machine::migration::{Calibration, Cost, PairCost};

/// Allowed difference of a distance's pairs, per cent.
const ALIKE_PCT: u64 = 20;
/// Allowed difference of a pair's two directions, per cent of their mean.
const BOTH_WAYS_PCT: i64 = 30;
/// Allowed distance of the dearest size's quartiles from the median, per cent.
const SPREAD_PCT: i64 = 25;
/// Allowed share of disturbed repetitions, per cent.
const DISTURBED_PCT: usize = 20;
/// Allowed change of the clock frequency, per cent.
const CLOCK_PCT: u64 = 5;

/// Observations around the measurement.
pub(super) struct Around {
    /// Time of a spin before and after, ns.
    pub spins: (u64, u64),
    /// Time taken by the hypervisor in between, ns.
    pub stolen_ns: u64,
    /// The largest set that memory allows, bytes.
    pub limit: u64,
    /// The requested largest set, bytes.
    pub asked: Option<u64>,
}

pub(super) fn warnings(found: &Calibration, around: &Around) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |code: &str, text: String| all.push(Warning::new(&format!("migration.{code}"), text));
    if surroundings::is_virtual() {
        let text = "this is a virtual machine: a pinned thread stays on its virtual CPU, which the hypervisor may move";
        warn("virtual", text.into());
    }
    machine(found, around, &mut warn);
    for of in &found.distances {
        let spoilt = of.curve.points.iter().filter(|point| point.spoilt).count();
        if spoilt > 0 {
            let text = format!(
                "distance {}: at {spoilt} of {} sizes other tasks disturbed nearly all repetitions, and these sizes do not \
                 count; measure on a quiet machine",
                of.distance,
                of.curve.points.len(),
            );
            warn("noisy", text);
        }
        let Some(cost) = &of.curve.dearest else { continue };
        if let Some(states) = cost.states {
            let text = format!(
                "distance {}: a move costs {} us in {} % of the passes and {} us in the others; the dearer state counts",
                of.distance,
                us(cost.cost_ns),
                states.dearer_pct,
                us(states.cheaper_ns.max(0) as u64)
            );
            warn("states", text);
        }
        directions(of.distance, cost, &mut warn);
        noise(of.distance, cost, &mut warn);
        let own = PairCost { pair: of.curve.pair, distance: of.distance, cost: *cost };
        alike(&own, &found.pairs, &mut warn);
    }
    if let Some(control) = found.control.filter(|c| c.seen) {
        let text = format!(
            "a move from a CPU to itself seems to cost {} us: do not trust costs of this order",
            us(control.cost_ns)
        );
        warn("control", text);
    }
    all
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// Warnings about memory, caches and the clock.
fn machine(found: &Calibration, around: &Around, warn: &mut dyn FnMut(&str, String)) {
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / f64::from(1 << 20));
    let (levels, effective) = (&found.levels, found.effective_cache);
    if let Some(told) = levels.told.filter(|_| levels.differs()) {
        let seen = match levels.found {
            Some(_) => format!("but sets of more than {} are in memory", mb(effective)),
            None => {
                format!("of which sets of up to {} were tried, and memory was not reached", mb(levels.tried))
            }
        };
        warn("cache", format!("the largest cache is told to have {}, {seen}", mb(told)));
    }
    if around.asked.is_none() && 2 * effective > around.limit {
        let text =
            format!("sets of {} would be tried, but memory allows {}", mb(2 * effective), mb(around.limit));
        warn("memory", text);
    }
    if let Some(pct) = found.huge_pct.filter(|pct| *pct < 90) {
        let text = format!(
            "{pct} % of the memory is on huge pages: costs include misses of the TLB; \
            /sys/kernel/mm/transparent_hugepage/enabled should be madvise or always"
        );
        warn("pages", text);
    }
    let (before, after) = around.spins;
    if before.abs_diff(after) * 100 > before.min(after) * CLOCK_PCT {
        let text = format!(
            "a spin took {} us before and {} us after it: the clock frequency moved",
            us(before),
            us(after)
        );
        warn("frequency", text);
    }
    if around.stolen_ns * 100 > found.took_ns * found.cpus as u64 {
        let pct = 100 * around.stolen_ns / found.took_ns.max(1) / found.cpus as u64;
        warn("noisy", format!("the hypervisor took {pct} % of the CPUs' time meanwhile"));
    }
}

/// Warns if the two directions of a pair differ.
fn directions(distance: usize, cost: &Cost, warn: &mut dyn FnMut(&str, String)) {
    let (a, b) = cost.into_ns;
    if (a - b).abs() * 100 > i64::midpoint(a, b).abs() * BOTH_WAYS_PCT {
        let of = |ns: i64| us(ns.max(0) as u64);
        let text = format!(
            "distance {distance}: a move costs {} us in one direction and {} us in the other",
            of(b),
            of(a)
        );
        warn("directions", text);
    }
}

/// Warns if the figures of a distance scatter.
fn noise(distance: usize, cost: &Cost, warn: &mut dyn FnMut(&str, String)) {
    let (low, high) = cost.spread_ns;
    let wide = (high - low) * 100 > 2 * SPREAD_PCT * cost.cost_ns as i64;
    let disturbed = cost.disturbed * 100 > DISTURBED_PCT * (cost.disturbed + cost.repetitions);
    if wide || disturbed {
        let of = |ns: i64| us(ns.max(0) as u64);
        let text = format!(
            "distance {distance} is noisy: half the repetitions cost {} to {} us, {} of {} were disturbed by other tasks",
            of(low),
            of(high),
            cost.disturbed,
            cost.disturbed + cost.repetitions
        );
        warn("noisy", text);
    }
}

/// Warns if pairs of one distance differ: several kinds of cores, or a topology that the kernel does not know.
fn alike(first: &PairCost, pairs: &[PairCost], warn: &mut dyn FnMut(&str, String)) {
    let same = || pairs.iter().filter(|p| p.distance == first.distance).chain([first]);
    let (Some(least), Some(most)) =
        (same().min_by_key(|p| p.cost.cost_ns), same().max_by_key(|p| p.cost.cost_ns))
    else {
        return;
    };
    if (most.cost.cost_ns - least.cost.cost_ns) * 100 > most.cost.cost_ns * ALIKE_PCT {
        let of = |p: &PairCost| format!("CPUs {} and {} {} us", p.pair.0, p.pair.1, us(p.cost.cost_ns));
        let text = format!(
            "pairs of distance {} differ by more than {ALIKE_PCT} %: {}, {}; cores of several kinds, or caches that \
            the kernel does not know",
            first.distance,
            of(least),
            of(most)
        );
        warn("pairs", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(b: u32, distance: usize, cost_ns: u64) -> PairCost {
        PairCost { pair: (0, b), distance, cost: Cost { cost_ns, ..Cost::default() } }
    }

    #[test]
    fn pairs_of_one_distance_are_compared_with_each_other_only() {
        let told = |pairs: &[PairCost]| {
            let mut said = Vec::new();
            alike(&pair(1, 1, 100_000), pairs, &mut |code, text| said.push(format!("{code}: {text}")));
            said
        };
        assert!(told(&[pair(2, 1, 115_000), pair(9, 2, 900_000)]).is_empty());
        let hybrid = told(&[pair(2, 1, 110_000), pair(3, 1, 130_000)]);
        assert!(hybrid[0].contains("CPUs 0 and 1 100.0 us, CPUs 0 and 3 130.0 us"), "{hybrid:?}");
    }

    #[test]
    fn directions_and_spread_are_judged_at_their_limits() {
        let said = |cost: Cost| {
            let mut codes = Vec::new();
            directions(1, &cost, &mut |code, _| codes.push(code.to_owned()));
            noise(1, &cost, &mut |code, _| codes.push(code.to_owned()));
            codes
        };
        let fine = Cost {
            cost_ns: 1000,
            spread_ns: (800, 1200),
            into_ns: (900, 1100),
            repetitions: 9,
            ..Cost::default()
        };
        assert!(said(fine).is_empty());
        assert_eq!(said(Cost { into_ns: (800, 1200), ..fine }), ["directions"]);
        assert_eq!(said(Cost { spread_ns: (700, 1300), ..fine }), ["noisy"]);
        assert_eq!(said(Cost { disturbed: 9, ..fine }), ["noisy"]);
    }
}
