//! Shares of the CPUs' cycles by function: of the kernel's own code, from samples of chains of calls.
//!
//! As in `perf report`, *self* is the samples in a function and *total* also those in functions that it called. All
//! samples are 100 %: those of CPUs that were not halted, in user mode or in the kernel.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The samples of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// Of CPUs that were not halted.
    pub samples: u64,
    /// By function: its own, and with functions that it called. A function without samples is left out.
    pub functions: BTreeMap<String, [u64; 2]>,
}

impl Cycles {
    /// Adds samples up, given by chain: function names with ';' between them, outermost first. A part or copy of a
    /// function (`name.part.0`) belongs to it. `None` if there are no samples.
    pub fn of(chains: &BTreeMap<String, u64>) -> Option<Cycles> {
        let mut all = Cycles::default();
        for (chain, times) in chains {
            let whole = |call: &str| call.split('.').next().unwrap_or(call).to_owned();
            let own = whole(chain.rsplit(';').next().unwrap_or(chain));
            all.samples += times;
            for function in chain.split(';').map(whole).collect::<BTreeSet<String>>() {
                let is_own = function == own;
                let [in_it, with_called] = all.functions.entry(function).or_default();
                *in_it += if is_own { *times } else { 0 };
                *with_called += times;
            }
        }
        (all.samples > 0).then_some(all)
    }
    /// The share of a function, %.
    ///
    /// # Errors
    /// Says in words that it has no samples: then it may be in no image at all.
    pub fn share(&self, function: &str, of: CyclesOf) -> Result<f64, String> {
        let samples = self.functions.get(function).map(|[own, total]| match of {
            CyclesOf::Own => own,
            CyclesOf::Total => total,
        });
        let share = samples.map(|n| 100.0 * *n as f64 / self.samples as f64);
        share.ok_or_else(|| format!("no sample of {} is in {function}", self.samples))
    }
}

/// Which samples of a function are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CyclesOf {
    /// `cycles.self.FUNCTION`
    Own,
    /// `cycles.total.FUNCTION`
    Total,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_counts_once_for_each_of_its_functions() {
        let chains = [
            ("schedule;newidle_balance;load_balance.constprop.0", 3),
            ("schedule;newidle_balance", 1),
            ("walk;walk.part.0", 2),
            ("[beside the image]", 4),
        ];
        let chains: BTreeMap<String, u64> =
            chains.iter().map(|(chain, times)| ((*chain).to_owned(), *times)).collect();
        let all = Cycles::of(&chains).unwrap();
        assert_eq!(all.samples, 10);
        let shares = |name| [CyclesOf::Own, CyclesOf::Total].map(|of| all.share(name, of).unwrap());
        assert_eq!(shares("newidle_balance"), [10.0, 40.0]);
        assert_eq!(shares("load_balance"), [30.0, 30.0]);
        assert_eq!(shares("walk"), [20.0, 20.0], "once a chain");
        assert_eq!(shares("schedule"), [0.0, 40.0]);
        assert_eq!(all.share("walk_on", CyclesOf::Own).unwrap_err(), "no sample of 10 is in walk_on");
        assert_eq!(Cycles::of(&BTreeMap::new()), None);
    }
}
