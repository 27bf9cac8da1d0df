//! Seeds that several runs of a cell share. Runs with equal seeds are pairs across variants. Within a cell, equal seeds
//! mean the same run, named by its store and by its folder. Live runs of several stores break that rule: equal seeds,
//! different runs. They get new seeds here, so that none is dropped or paired.

use super::group::same_place;
use schedlab_base::Warning;
use schedlab_record::Record;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The records, with new seeds for runs whose seed another run of the cell has already; and the warning about that.
pub fn of_their_own(records: &[Record]) -> (Cow<'_, [Record]>, Option<Warning>) {
    // Runs of one cell share these names, so only such runs need a full comparison.
    let mut by_names: BTreeMap<(u64, [&str; 4]), Vec<usize>> = BTreeMap::new();
    let mut others: Vec<usize> = Vec::new();
    for (i, r) in records.iter().enumerate() {
        let names = [&r.machine.name, &r.workload, &r.load, &r.variant.name].map(String::as_str);
        let alike = by_names.entry((r.seed, names)).or_default();
        let mut twins = alike.iter().map(|o| &records[*o]).filter(|o| same_place(o, r)).peekable();
        if twins.peek().is_some() && !twins.any(|o| same_results(o, r)) {
            others.push(i);
        }
        alike.push(i);
    }
    if others.is_empty() {
        return (Cow::Borrowed(records), None);
    }
    let mut used: BTreeSet<u64> = by_names.into_keys().map(|(seed, _)| seed).collect();
    let mut seed = used.last().copied().unwrap_or_default();
    let mut all = records.to_vec();
    for i in &others {
        // Above all seeds, so that no run of another variant has it.
        seed = seed.wrapping_add(1);
        while !used.insert(seed) {
            seed = seed.wrapping_add(1);
        }
        all[*i].seed = seed;
    }
    let r = &records[others[0]];
    let text = format!(
        "{} {} the seed of another run of the cell and other results, the first {} {} {} seed {}: {} \
         not paired",
        schedlab_base::counted(others.len(), "run"),
        schedlab_base::one_or(others.len(), "has", "have"),
        r.workload,
        r.load,
        r.variant.name,
        r.seed,
        schedlab_base::one_or(
            others.len(),
            "it counts as a run of its own under a new seed,",
            "they count as runs of their own under new seeds,"
        )
    );
    (Cow::Owned(all), Some(Warning::new("compare.same_seed", text)))
}

/// Whether two records of one seed have the same results.
pub(super) fn same_results(a: &Record, b: &Record) -> bool {
    a.found.figures == b.found.figures
        && a.found.series == b.found.series
        && a.found.counters == b.found.counters
}
