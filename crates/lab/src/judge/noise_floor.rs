//! A/A runs: their plan, and the noise floors they give.

use crate::ask::cell::Cell;
use crate::make::plan::{self, Plan};
use schedlab_base::{Error, Result};
use schedlab_compare::comparison::{Question, compare};
use schedlab_compare::metrics;
use schedlab_compare::noise::{Floor, host_of};
use schedlab_kernel::{Variant, variant::RUNNING};
use schedlab_machine::Machine;
use schedlab_record::{Record, WATCHING};
use schedlab_workload::{Params, Spec, spec};
use std::sync::Arc;

/// The two names of the same variant.
const NAMES: [&str; 2] = ["A", "B"];
/// A second, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// The default workloads, with parameters (in ns or numbers) that make them last a second or two.
pub const SHORT: &[(&str, &[(&str, u64)])] = &[
    ("schbench", &[("runtime", 2 * SECOND_NS)]),
    ("pipe", &[("loops", 100_000)]),
    ("hackbench", &[("groups", 2)]),
    ("slice", &[("runtime", 2 * SECOND_NS)]),
    ("http", &[("runtime", 2 * SECOND_NS)]),
    ("oltp", &[("runtime", 2 * SECOND_NS)]),
];

/// Metrics of every workload in addition to its own first ones. A metric that a run does not give has no floor.
const COMMON: &[&str] = &[
    "cpu_time",
    "migrations",
    "switches.voluntary",
    "switches.involuntary",
    "slice.mean",
    "run_delay.total",
];

/// The plan of A/A runs of workloads by name, each `runs` times under both names.
///
/// # Errors
/// For an unknown workload or too many runs, and when a machine can't be read.
pub fn plan(workloads: &[String], runs: u64) -> Result<Plan> {
    let machine = Arc::new(Machine::load("host")?);
    let mut cells = Vec::new();
    for name in workloads {
        let bench = spec::find(name)?;
        let short = SHORT.iter().find(|(n, _)| *n == bench.name).map_or(&[][..], |(_, given)| given);
        let given = Params(short.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect());
        let spec = Spec::bench(bench.name, &given)?;
        for name in NAMES {
            let variant = Variant { name: name.to_owned(), ..Variant::plain(RUNNING) };
            cells.push(Cell::live(&machine, variant, spec.clone(), "A/A".to_owned()));
        }
    }
    Ok(Plan { runs: plan::order(cells.len(), runs, 1)?, cells, warnings: Vec::new() })
}

/// The floors of A/A runs; `at` is the time at which they were made.
///
/// # Errors
/// Without any runs.
pub fn floors(records: &[Record], at: &str) -> Result<Vec<Floor>> {
    let mut workloads: Vec<&str> = Vec::new();
    for r in records {
        if !workloads.contains(&r.workload.as_str()) {
            workloads.push(&r.workload);
        }
    }
    if workloads.is_empty() {
        return Err(Error::input("there are no runs to take a noise floor from"));
    }
    let mut all = Vec::new();
    for workload in workloads {
        let own: Vec<Record> = records.iter().filter(|r| r.workload == workload).cloned().collect();
        let question =
            Question { metrics: wanted(&own), baseline: Some(NAMES[0].to_owned()), ..Question::default() };
        let rows = compare(&own, &question, &[])?.comparisons;
        let runs = own.len() / NAMES.len();
        all.extend(rows.into_iter().filter_map(|row| {
            let ([low, high], change) = (row.ci95_pct?, row.change_pct?);
            Some(Floor {
                host: host_of(&own[0]),
                workload: row.workload,
                load: row.load,
                metric: row.metric,
                floor_pct: low.abs().max(high.abs()),
                half_width_pct: (high - low) / 2.0,
                change_pct: change.abs(),
                runs,
                at: at.to_owned(),
                watching: WATCHING,
            })
        }));
    }
    Ok(all)
}

/// The wanted metrics that these records have.
fn wanted(records: &[Record]) -> Vec<String> {
    let own = metrics::benchmark(&records[0]).map_or(&[][..], |b| b.headline);
    let mut all: Vec<String> = Vec::new();
    for name in own.iter().chain(metrics::HEADLINE).chain(COMMON) {
        let given = records.iter().any(|r| metrics::evaluate(r, name).value.number().is_some());
        if given && !all.iter().any(|known| known == name) {
            all.push((*name).to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_run_in_turns() {
        let names = ["schbench".to_owned(), "pipe".to_owned()];
        let plan = plan(&names, 2).unwrap();
        let cells: Vec<String> =
            plan.cells.iter().map(|c| format!("{} {}", c.spec.name(), c.variant.name)).collect();
        assert_eq!(cells, ["schbench A", "schbench B", "pipe A", "pipe B"]);
        assert_eq!(plan.cells[0].spec, plan.cells[1].spec);
        let order: Vec<usize> = plan.runs.iter().map(|r| r.cell).collect();
        assert_eq!(order, [0, 1, 2, 3, 3, 2, 1, 0]);
        assert!(super::plan(&["pipes".to_owned()], 2).unwrap_err().to_string().contains("'pipe'"));
    }

    #[test]
    fn every_usual_workload_exists_with_its_parameters() {
        let names: Vec<String> = SHORT.iter().map(|(n, _)| (*n).to_owned()).collect();
        assert_eq!(plan(&names, 1).unwrap().cells.len(), 2 * SHORT.len());
    }
}
