//! Finds the rows that are a workload's own results, by which its users judge it. They are corrected before other rows,
//! so that the answer to the experiment's question is not lost among counters.

use super::group::CellRuns;
use super::question::Question;
use schedlab_base::Backend;

/// Whether a metric is an own result of the cell's workload: by the experiment's `own = [...]` for the load, else by
/// the table of benchmarks.
pub(super) fn is_own(question: &Question, cell: &CellRuns<'_>, metric: &str) -> bool {
    let r = cell.runs[0];
    let machine = if r.backend == Backend::Host { Backend::Host.name() } else { &r.machine.name };
    let key = [machine.to_owned(), r.workload.clone(), cell.load.clone()];
    match question.own_of_load.get(&key) {
        Some(named) => named.iter().any(|m| m == metric),
        None => schedlab_workload::spec::find(&r.workload).is_ok_and(|b| b.own.contains(&metric)),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_base::testing::page_has;
    use schedlab_workload::BENCHMARKS;

    #[test]
    fn the_table_of_the_page_agrees_with_the_benchmarks() {
        let begin = "<!-- begin: own results, made from crates/workload/src/bench -->\n";
        let row = |b: &&schedlab_workload::Benchmark| format!("| {} | `{}` |\n", b.name, b.own.join("`, `"));
        let rows: String = BENCHMARKS.iter().map(row).collect();
        let table = format!("| workload | own result |\n|---|---|\n{rows}");
        page_has("docs/statistics.md", [begin, "<!-- end: own results -->"], &table);
    }
}
