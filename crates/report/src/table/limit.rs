//! Shortens comparisons with very many metrics for terminals. Files and pipes get all of them.

use schedlab_compare::Comparison;
use schedlab_compare::comparison::Cell;
use schedlab_compare::stats::Verdict;
use std::collections::BTreeSet;

/// The most rows of a load on a terminal: two screens.
pub const ROWS: usize = 50;

/// Removes metrics from cells that have more than [`ROWS`]; returns the number of different ones removed. Metrics that
/// changed in any cell stay, and then the first ones.
pub fn shorten(c: &mut Comparison) -> usize {
    let decided = |v: Verdict| matches!(v, Verdict::Better | Verdict::Worse | Verdict::Changed);
    let changed: BTreeSet<&String> =
        c.comparisons.iter().filter(|r| decided(r.verdict)).map(|r| &r.metric).collect();
    let keep = |cell: &Cell| -> BTreeSet<String> {
        let own = || c.metrics.iter().filter(|m| cell.metrics.contains_key(*m));
        let first = own().filter(|m| changed.contains(m)).chain(own().filter(|m| !changed.contains(m)));
        first.take(ROWS.max(own().filter(|m| changed.contains(m)).count())).cloned().collect()
    };
    let kept: Vec<BTreeSet<String>> = c.cells.iter().map(keep).collect();
    let mut hidden = BTreeSet::new();
    for (cell, kept) in c.cells.iter_mut().zip(kept) {
        cell.metrics.retain(|metric, _| {
            let stays = kept.contains(metric);
            if !stays {
                hidden.insert(metric.clone());
            }
            stays
        });
    }
    hidden.len()
}
