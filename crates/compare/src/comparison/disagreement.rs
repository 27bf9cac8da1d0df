//! Where the kernel's own code and our rules disagree: a comparison may hold runs of both for the same load.
//!
//! They disagree in a figure of a variant if their runs do not overlap and their means are [`APART_PCT`] or more apart.
//! That needs no statistics, and holds for any number of runs.

use super::group::CellRuns;
use super::{Cell, Comparison, CountedWarning};
use schedlab_base::{Backend, Version, Warning, one_or};
use schedlab_record::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Smaller differences of the means do not count, percent of the code's.
const APART_PCT: f64 = 10.0;
/// Since this version kernels balance by last-level caches where a machine has several; our rules do not.
const BALANCES_BY_CACHE: Version = Version::new(7, 2);

/// A figure of one variant in which the kernel's code and our rules disagree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub variant: String,
    pub metric: String,
    /// Mean over the runs of the kernel's own code.
    pub code: f64,
    /// Mean over the simulated runs.
    pub rules: f64,
}

impl Disagreement {
    /// Whether it concerns a metric of this cell.
    pub fn is_of(&self, cell: &Cell, metric: &str) -> bool {
        let place = (&self.machine, &self.workload, &self.load, &self.variant);
        place == (&cell.machine, &cell.workload, &cell.load, &cell.variant)
            && self.metric == metric
            && (cell.backend == Backend::Code || cell.backend == Backend::Sim)
    }
}

/// The mark of a figure in which code and rules disagree.
pub const DISAGREES: &str = "?";

impl Comparison {
    /// Whether the kernel's code and our rules disagree in a metric of a cell.
    pub fn disagrees(&self, cell: &Cell, metric: &str) -> bool {
        self.disagreements.iter().any(|d| d.is_of(cell, metric))
    }
}

/// All disagreements of a comparison, and the line about them. `groups` are the runs of its cells.
pub(super) fn of(
    cells: &[Cell],
    groups: &[Vec<CellRuns<'_>>],
) -> (Vec<Disagreement>, Option<CountedWarning>) {
    let of_code = cells.iter().filter(|cell| cell.backend == Backend::Code);
    let twin = |code: &Cell| {
        let is_twin = |cell: &&Cell| cell.backend == Backend::Sim && is_alike(code, cell);
        cells.iter().find(is_twin)
    };
    let mut number = 0;
    let mut all = Vec::new();
    for (code, rules) in of_code.filter_map(|code| Some((code, twin(code)?))) {
        for (metric, stat) in &code.metrics {
            let both = stat.measured().zip(rules.metrics.get(metric).and_then(|stat| stat.measured()));
            let Some((ours, theirs)) = both else { continue };
            number += 1;
            if are_apart((&ours.values[..], ours.mean), (&theirs.values[..], theirs.mean)) {
                all.push(Disagreement {
                    machine: code.machine.clone(),
                    workload: code.workload.clone(),
                    load: code.load.clone(),
                    variant: code.variant.clone(),
                    metric: metric.clone(),
                    code: ours.mean,
                    rules: theirs.mean,
                });
            }
        }
    }
    let warning = (number > 0).then(|| line(&all, number, groups));
    (all, warning)
}

/// Whether a cell has the same load and variant as a cell of the kernel's code.
fn is_alike(code: &Cell, cell: &Cell) -> bool {
    (&code.machine, &code.workload, &code.load, &code.variant, &code.params)
        == (&cell.machine, &cell.workload, &cell.load, &cell.variant, &cell.params)
}

fn are_apart((a, mean_a): (&[f64], f64), (b, mean_b): (&[f64], f64)) -> bool {
    let ends =
        |v: &[f64]| v.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    (a_high < b_low || b_high < a_low) && (mean_a - mean_b).abs() >= APART_PCT / 100.0 * mean_a.abs()
}

fn line(all: &[Disagreement], number: usize, groups: &[Vec<CellRuns<'_>>]) -> CountedWarning {
    let figures = format!("{} of {number} {}", all.len(), one_or(number, "row", "rows"));
    let text = if all.is_empty() {
        format!("the kernel's code and our rules of it agree in all rows ({figures} disagree)")
    } else {
        format!(
            "code and rules disagree in {figures}, marked ?: their runs do not overlap, and their means are {APART_PCT:.0} % or \
             more apart. The code is the kernel's own{}",
            reasons(all, groups)
        )
    };
    CountedWarning::of_all(Warning::new("code.rules", text))
}

/// The known reasons, each after "; ".
fn reasons(all: &[Disagreement], groups: &[Vec<CellRuns<'_>>]) -> String {
    let disagrees = |cell: &CellRuns<'_>| {
        let run = cell.runs[0];
        let place = (&run.machine.name, &run.workload, &cell.load, &cell.label);
        run.backend == Backend::Sim
            && all.iter().any(|d| (&d.machine, &d.workload, &d.load, &d.variant) == place)
    };
    let cells = groups.iter().flatten().filter(|cell| disagrees(cell));
    let lacking: BTreeSet<&str> =
        cells.filter(|c| lacks_cache_balancing(c.runs[0])).map(|c| c.label.as_str()).collect();
    if lacking.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = lacking.into_iter().collect();
    format!(
        "; of {}: our rules lack balancing by last-level caches, which kernels have on since {BALANCES_BY_CACHE} where a \
         machine has several",
        names.join(", ")
    )
}

/// Whether a simulated run lacks balancing by caches although its kernel does it.
fn lacks_cache_balancing(run: &Record) -> bool {
    let cpus = &run.machine.topology.cpus;
    let several = cpus.iter().any(|cpu| cpu.llc != cpus[0].llc);
    several && run.resolved.is_some_and(|kernel| kernel.version >= BALANCES_BY_CACHE)
}

#[cfg(test)]
mod tests {
    use crate::comparison::{Question, compare};
    use crate::testing;
    use schedlab_base::Backend;
    use schedlab_record::Record;

    fn runs(backend: Backend, values: [u64; 4]) -> impl Iterator<Item = Record> {
        testing::switched(backend, "6.1", "migrations", values)
    }

    fn compared(code: [u64; 4], rules: [u64; 4]) -> (usize, String) {
        let records: Vec<Record> = runs(Backend::Code, code).chain(runs(Backend::Sim, rules)).collect();
        let question = Question { metrics: vec!["migrations".to_owned()], ..Question::default() };
        let c = compare(&records, &question, &[]).unwrap();
        let line = c.warnings.iter().find(|w| w.warning.code == "code.rules").unwrap();
        (c.disagreements.len(), line.warning.message.clone())
    }

    #[test]
    fn runs_that_do_not_overlap_and_are_far_apart_disagree() {
        // Seen with schbench on 2 x 32 cores: migrations by the code and by the rules.
        let (found, line) = compared([1948, 1900, 1990, 1950], [4015, 4100, 3990, 4000]);
        assert!(found == 1 && line.starts_with("code and rules disagree in 1 of 1 row, marked ?"), "{line}");
        assert_eq!(compared([100, 101, 102, 103], [108, 107, 108, 109]).0, 0, "less than a tenth");
        let (found, line) = compared([100, 120, 140, 300], [250, 320, 400, 400]);
        assert!(found == 0 && line.contains("agree in all rows"), "they overlap: {line}");
    }

    #[test]
    fn one_side_alone_does_not_disagree() {
        let records: Vec<Record> = runs(Backend::Sim, [1, 2, 3, 4]).collect();
        let question = Question { metrics: vec!["migrations".to_owned()], ..Question::default() };
        let c = compare(&records, &question, &[]).unwrap();
        assert!(c.disagreements.is_empty() && !c.warnings.iter().any(|w| w.warning.code == "code.rules"));
    }
}
