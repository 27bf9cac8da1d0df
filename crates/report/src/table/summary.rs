//! One paragraph below many rows: how many changed, and which.

use crate::number::change;
use crate::short;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::stats::Verdict;

/// A table of at most this many rows needs no summary.
const FEW: usize = 8;
/// The most rows that are named.
const NAMED: usize = 8;

/// "3 of 24 rows changed: ...", with the rows' names; `None` if there are few rows, or none could be judged.
pub fn of(c: &Comparison) -> Option<String> {
    let rows = &c.comparisons;
    if rows.len() <= FEW || c.cells.iter().all(|cell| cell.runs == 1) {
        return None;
    }
    let is = |v: Verdict| rows.iter().filter(|r| r.verdict == v).count();
    let decided =
        |r: &&ComparisonRow| matches!(r.verdict, Verdict::Better | Verdict::Worse | Verdict::Changed);
    let changed: Vec<&ComparisonRow> = rows.iter().filter(decided).collect();
    let rest = match (is(Verdict::Same), is(Verdict::Unclear)) {
        (0, 0) => String::new(),
        (same, 0) => format!("; {same} the same"),
        (0, unclear) => format!("; {unclear} cannot tell"),
        (same, unclear) => format!("; {same} the same, {unclear} cannot tell"),
    };
    let named: Vec<String> = changed.iter().take(NAMED).map(|r| name(c, r)).collect();
    let more = match changed.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let names = if named.is_empty() { String::new() } else { format!(": {}{more}", named.join(", ")) };
    Some(format!("{} of {} changed{names}{rest}.", changed.len(), schedlab_base::counted(rows.len(), "row")))
}

/// "2x24 first-idle latency.p99 -99% (better)". Backend, machine, workload and load are named only if rows differ in
/// them.
fn name(c: &Comparison, row: &ComparisonRow) -> String {
    let differs = |of: fn(&ComparisonRow) -> &str| c.comparisons.iter().any(|r| of(r) != of(row));
    let places: [fn(&ComparisonRow) -> &str; 4] =
        [|r| r.backend.name(), |r| &r.machine, |r| &r.workload, |r| &r.load];
    let mut words: Vec<&str> = places.into_iter().filter(|p| differs(*p)).map(|p| p(row)).collect();
    words.push(&row.variant);
    words.push(if differs(|r| &r.workload) { &row.metric } else { short(&row.metric, &row.workload) });
    let by = row.change_pct.map_or_else(|| "new".to_owned(), change);
    format!("{} {by} ({})", words.join(" "), row.verdict.word())
}
