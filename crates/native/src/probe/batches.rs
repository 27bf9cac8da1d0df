//! Measurements: times in batches, and costs known so far. Times are ns.

use crate::sys;
use schedlab_machine::Costs;
use schedlab_machine::probed::Measured;

/// Number of batches, or of individually timed rounds, for primitives of two threads.
pub(super) const BATCHES_OF_PAIRS: usize = 101;

/// Times of one primitive: one value per batch, ns per call.
#[derive(Default)]
pub(super) struct Batches(pub(super) Vec<u64>);

impl Batches {
    /// From values in any order.
    pub(super) fn new(mut values: Vec<u64>) -> Batches {
        values.sort_unstable();
        Batches(values)
    }
    /// The value that `percent` of the batches do not exceed; 0 if there are none.
    pub(super) fn quantile(&self, percent: usize) -> u64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or(0)
    }
    pub(super) fn median(&self) -> u64 {
        self.quantile(50)
    }
    /// The cost: the median minus the `known` parts of a call; at least 1 ns.
    pub(super) fn cost(&self, name: &str, known: u64, how: &str) -> Measured {
        let less = |percent| self.quantile(percent).saturating_sub(known).max(1);
        Measured { name: name.into(), value: less(50), range: (less(5), less(95)), how: how.into() }
    }
}

pub(super) struct KnownCosts {
    /// Measured costs; for others the table's.
    pub(super) costs: Costs,
    pub(super) found: Vec<Measured>,
}

impl KnownCosts {
    pub(super) fn add(&mut self, measured: Measured) {
        self.costs.set(&measured.name, measured.value);
        // A better measurement replaces an earlier one.
        self.found.retain(|m| m.name != measured.name);
        self.found.push(measured);
    }
}

pub(super) fn timed(batches: usize, calls: u64, mut call: impl FnMut()) -> Batches {
    let one = |_| {
        let began = sys::monotonic_ns();
        (0..calls).for_each(|_| call());
        (sys::monotonic_ns() - began) / calls
    };
    Batches::new((0..batches).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parts_are_subtracted_and_at_least_1_ns_remains() {
        let batches = Batches::new(vec![900, 1_000, 1_100, 5_000, 800]);
        let cost = batches.cost("syscall_ns", 300, "");
        assert_eq!((cost.value, cost.range), (700, (500, 800)));
        assert_eq!(batches.cost("syscall_ns", 2_000, "").value, 1);
    }
}
