//! How the cost of each operation of a sched_ext scheduler grows with the CPUs of a machine.
//!
//! A cost is instructions of BPF a call, which the interpreter counts: a loop over CPUs is seen, whatever it costs in
//! time. Calls are sums over all runs on a machine.

use crate::stats::Verdict;
use schedlab_record::Record;
use serde::Serialize;
use std::collections::BTreeMap;

/// The least growth of an operation that is named: half the growth of the CPUs, in their logarithms.
const NAMED_FROM: f64 = 0.5;

/// Calls and instructions of an operation on one machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Point {
    pub cpus: u64,
    pub calls: u64,
    pub instructions: u64,
}

impl Point {
    /// Instructions a call; `None` without calls.
    pub fn each(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.instructions as f64 / self.calls as f64)
    }
}

/// An operation on machines of several sizes, the smallest first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Operation {
    pub name: String,
    pub points: Vec<Point>,
    /// Instructions a call on the largest machine with calls, as a multiple of those on the smallest.
    pub growth: Option<f64>,
    /// Whether they grow with the CPUs: by at least the square root of what the CPUs grow by.
    pub grows: bool,
}

impl Operation {
    /// Its growth as a verdict: what grows with CPUs is worse; one size shows nothing.
    pub fn verdict(&self) -> Verdict {
        match self.growth {
            None => Verdict::Unclear,
            Some(_) if self.grows => Verdict::Worse,
            Some(_) => Verdict::Same,
        }
    }
}

/// A scheduler's operations.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Growth {
    pub scheduler: String,
    pub operations: Vec<Operation>,
}

/// The operations of each scheduler in the records, by its variant's name.
pub fn growth(records: &[Record]) -> Vec<Growth> {
    let mut names: Vec<&str> = Vec::new();
    for record in records.iter().filter(|r| r.variant.scx.is_some()) {
        if !names.contains(&record.variant.name.as_str()) {
            names.push(&record.variant.name);
        }
    }
    let of = |name: &str| {
        let own = records.iter().filter(|r| r.variant.name == name);
        Growth { scheduler: name.to_owned(), operations: operations(own) }
    };
    names.into_iter().map(of).collect()
}

fn operations<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Operation> {
    let mut all: BTreeMap<&str, BTreeMap<u64, Point>> = BTreeMap::new();
    for record in records {
        let counters = &record.found.counters;
        let cpus = record.machine.topology.nr_cpus() as u64;
        for (counter, calls) in counters {
            let Some(name) = counter.strip_prefix("scx.calls.") else { continue };
            let point = all.entry(name).or_default().entry(cpus).or_default();
            point.cpus = cpus;
            point.calls += calls;
            point.instructions += counters.get(&format!("scx.instructions.{name}")).copied().unwrap_or(0);
        }
    }
    let called = all.into_iter().filter(|(_, points)| points.values().any(|point| point.calls > 0));
    called.map(|(name, points)| operation(name, points.into_values().collect())).collect()
}

fn operation(name: &str, points: Vec<Point>) -> Operation {
    let called = || points.iter().filter_map(|point| Some((point.cpus as f64, point.each()?)));
    let ends = called().next().zip(called().next_back());
    let ends = ends.filter(|((few, least), (many, _))| many > few && *least > 0.0);
    let growth = ends.map(|((_, least), (_, most))| most / least);
    let grows = ends.is_some_and(|((few, least), (many, most))| {
        libm::log(most / least) >= NAMED_FROM * libm::log(many / few)
    });
    Operation { name: name.to_owned(), points, growth, grows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn point(cpus: u64, calls: u64, instructions: u64) -> Point {
        Point { cpus, calls, instructions }
    }

    #[test]
    fn a_loop_over_cpus_grows_and_a_fixed_cost_does_not() {
        let walks = operation("dispatch", vec![point(8, 10, 2_780), point(64, 0, 0), point(224, 2, 12_420)]);
        assert!(walks.grows && walks.growth.is_some_and(|by| (by - 22.34).abs() < 0.01), "{walks:?}");
        let fixed = operation("enqueue", vec![point(8, 10, 1_000), point(1_024, 10, 1_700)]);
        assert!(!fixed.grows && fixed.growth == Some(1.7), "{fixed:?}");
        let once = operation("init", vec![point(8, 1, 200), point(64, 0, 0)]);
        assert!(!once.grows && once.growth.is_none(), "one size shows no growth: {once:?}");
        let verdicts = [walks, fixed, once].map(|operation| operation.verdict());
        assert_eq!(verdicts, [Verdict::Worse, Verdict::Same, Verdict::Unclear]);
    }

    #[test]
    fn records_of_fair_have_no_operations() {
        assert!(growth(&[record(&[("migrations", 1)])]).is_empty());
    }
}
