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
    use schedlab_workload::BENCHMARKS;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");

    #[test]
    fn the_table_of_the_page_agrees_with_the_benchmarks() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (begin, end) = (
            "<!-- begin: own results, made from crates/workload/src/bench -->\n",
            "<!-- end: own results -->",
        );
        let (before, rest) = page.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let row = |b: &&schedlab_workload::Benchmark| format!("| {} | `{}` |\n", b.name, b.own.join("`, `"));
        let rows: String = BENCHMARKS.iter().map(row).collect();
        let wanted = format!("{before}{begin}| workload | own result |\n|---|---|\n{rows}{end}{after}");
        if std::env::var_os("SCHEDLAB_BLESS").is_some() {
            std::fs::write(PAGE, &wanted).unwrap();
        } else {
            assert!(
                page == wanted,
                "docs/statistics.md is stale: SCHEDLAB_BLESS=1 cargo test -p schedlab-lab own"
            );
        }
    }
}
