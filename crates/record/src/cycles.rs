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
    /// The image's functions without samples, with a space between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unsampled: String,
}

impl Cycles {
    /// Adds samples up, given by chain: function names with ';' between them, outermost first. A part or copy of a
    /// function (`name.part.0`) belongs to it. `image` are the functions of the image. `None` if there are no samples.
    pub fn of(chains: &BTreeMap<String, u64>, image: &[String]) -> Option<Cycles> {
        let mut all = Cycles::default();
        let whole = |call: &str| call.split('.').next().unwrap_or(call).to_owned();
        for (chain, times) in chains {
            let own = whole(chain.rsplit(';').next().unwrap_or(chain));
            all.samples += times;
            for function in chain.split(';').map(whole).collect::<BTreeSet<String>>() {
                let is_own = function == own;
                let [in_it, with_called] = all.functions.entry(function).or_default();
                *in_it += if is_own { *times } else { 0 };
                *with_called += times;
            }
        }
        let unsampled: BTreeSet<String> =
            image.iter().map(|name| whole(name)).filter(|name| !all.functions.contains_key(name)).collect();
        all.unsampled = unsampled.into_iter().collect::<Vec<_>>().join(" ");
        (all.samples > 0).then_some(all)
    }
    /// The share of a function, %. It is 0 if the image has the function without samples.
    ///
    /// # Errors
    /// Says in words that the image has no such function.
    pub fn share(&self, function: &str, of: CyclesOf) -> Result<f64, String> {
        let samples = self.functions.get(function).map(|[own, total]| match of {
            CyclesOf::Own => own,
            CyclesOf::Total => total,
        });
        let is_there = || self.unsampled.split(' ').any(|name| name == function).then_some(0.0);
        let share = samples.map(|n| 100.0 * *n as f64 / self.samples as f64).or_else(is_there);
        share.ok_or_else(|| {
            let inlined =
                if self.unsampled.is_empty() { "" } else { ", which is inlined or not in the image" };
            format!("no sample of {} is in {function}{inlined}", self.samples)
        })
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
        let image = ["walk", "walk.part.0", "idle.cold", "schedule"].map(str::to_owned);
        let all = Cycles::of(&chains, &image).unwrap();
        assert_eq!(all.samples, 10);
        let shares = |name| [CyclesOf::Own, CyclesOf::Total].map(|of| all.share(name, of).unwrap());
        assert_eq!(shares("newidle_balance"), [10.0, 40.0]);
        assert_eq!(shares("load_balance"), [30.0, 30.0]);
        assert_eq!(shares("walk"), [20.0, 20.0], "once a chain");
        assert_eq!(shares("schedule"), [0.0, 40.0]);
        assert_eq!(shares("idle"), [0.0, 0.0], "the image has it");
        let not_there = |all: &Cycles| all.share("walk_on", CyclesOf::Own).unwrap_err();
        assert_eq!(not_there(&all), "no sample of 10 is in walk_on, which is inlined or not in the image");
        let of_old = Cycles { unsampled: String::new(), ..all };
        assert_eq!(not_there(&of_old), "no sample of 10 is in walk_on", "older runs don't know");
        assert_eq!(Cycles::of(&BTreeMap::new(), &image), None);
    }
}
