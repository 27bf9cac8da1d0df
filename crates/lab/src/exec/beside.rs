//! What ran beside a workload and was done long before its end: the rest of the run is the workload alone.

use crate::cell::Cell;
use schedlab_base::{Ns, Warning};
use schedlab_record::Findings;
use schedlab_workload::Spec;

/// The part of the run, in per cent, that may be left without a word.
const LEFT_PCT: u64 = 5;

/// The warnings about benchmarks beside the workload that ended early. One that ended within the warm-up leaves no
/// trace in the findings.
pub fn ended_early(cell: &Cell, found: &Findings) -> Vec<Warning> {
    let Spec::Together { base, beside, .. } = &cell.spec else { return Vec::new() };
    let mut names: Vec<&str> = beside.iter().map(|b| b.name.as_str()).filter(|n| *n != base.name()).collect();
    names.sort_unstable();
    names.dedup();
    let early = |name: &&str| {
        let took = Ns(found.series.get(&format!("{name}.elapsed"))?.max()?);
        (took.0 < found.duration.0 - found.duration.0 * LEFT_PCT / 100).then(|| {
            let text = format!(
                "{name} beside the workload was done after {took} of {}: give it more to do, or the run a shorter \
                 runtime",
                found.duration
            );
            Warning::new("beside.ended", text)
        })
    };
    names.iter().filter_map(early).collect()
}
