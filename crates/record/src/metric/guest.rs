//! Metrics that a deterministic guest can't give: throughput, and the duration of a piece of work.
//!
//! Its time counts the instructions of all its CPUs, which take turns (GuestSetup::mode): eight busy CPUs take eight
//! times as long as one. Counts, orders, decisions, and delays measured in turns are valid. A rate, or the duration of
//! a piece of work, would wrongly look like a result about the scheduler.

use super::{MetricSource, Resolved};
use crate::Record;
use crate::Stat;
use schedlab_base::GuestMode;

const WHY: &str = "deterministic guests share one CPU's time: no throughput";

/// Single metrics that compare work with time.
const NAMED: &[&str] = &["command.elapsed", "perf.cpus_used", "perf.frequency"];

/// The reason why a metric is withheld from this record; `None` if it is given.
pub(super) fn withheld(record: &Record, metric: &Resolved) -> Option<String> {
    let asks = match &metric.from {
        MetricSource::Rate(_) => true,
        MetricSource::Series { stat: Stat::Count, .. } => false,
        MetricSource::Series { name, .. } => {
            name.ends_with(".elapsed") || record.found.series.get(name).is_some_and(|s| is_rate(s.unit()))
        }
        _ => metric.name.ends_with(".rate") || NAMED.contains(&metric.name.as_str()),
    };
    because(record, asks)
}

/// As [`withheld`], for a figure that a command printed.
pub(super) fn withheld_figure(record: &Record, name: &str, unit: &str) -> Option<String> {
    because(record, is_rate(unit) || name.ends_with(".time") || name.ends_with(".elapsed"))
}

fn is_rate(unit: &str) -> bool {
    unit.ends_with("/s")
}

fn because(record: &Record, asks: bool) -> Option<String> {
    let deterministic = record.guest.as_ref().is_some_and(|g| g.mode == GuestMode::Deterministic);
    (deterministic && asks).then(|| WHY.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::evaluate;
    use crate::tests::record;
    use crate::{Better, Figure, GuestSetup, Series, Value};
    use schedlab_base::Backend;

    fn in_guest(mode: GuestMode) -> Record {
        let mut r = record(1);
        r.backend = Backend::Vm.into();
        r.guest = Some(GuestSetup {
            image: "0".into(),
            mode,
            qemu: "10.0".into(),
            accelerator: "tcg".into(),
            memory_mb: 1024,
            boot_options: Vec::new(),
            sitting: None,
            host_cpu: None,
            at_rest: false,
            llc_balancing_off: false,
        });
        for (name, unit) in
            [("rr.latency", "ns"), ("hackbench.elapsed", "ns"), ("schbench-modern.rps", "1/s")]
        {
            let mut series = Series::new(unit, Better::Lower);
            (0..100).for_each(|i| series.record(1000 + i));
            r.found.series.insert(name.to_owned(), series);
        }
        for name in ["perf.page_faults", "perf.task_clock", "command.elapsed", "migrations"] {
            r.found.counters.insert(name.to_owned(), 1_000_000);
        }
        for (name, unit) in [("hackbench.time", "ns"), ("x.ops", "1/s"), ("x.switches", "")] {
            let figure = Figure { value: 5.0, unit: unit.into(), better: Better::Neither };
            r.found.figures.insert(name.to_owned(), figure);
        }
        r
    }

    #[test]
    fn throughput_is_not_measured_where_time_is_instructions() {
        let (counted, real) = (in_guest(GuestMode::Deterministic), in_guest(GuestMode::RealTime));
        let withheld = [
            "rr.rate",
            "schbench-modern.rps.mean",
            "hackbench.elapsed.mean",
            "perf.page_faults.rate",
            "perf.cpus_used",
            "command.elapsed",
            "hackbench.time",
            "x.ops",
        ];
        for name in withheld {
            assert_eq!(evaluate(&counted, name), Value::Missing(WHY.to_owned()), "{name}");
            assert!(evaluate(&real, name).number().is_some(), "{name}");
        }
        for name in
            ["migrations", "schbench.latency.p50", "rr.latency.p50", "hackbench.elapsed.count", "x.switches"]
        {
            assert_eq!(evaluate(&counted, name), evaluate(&real, name), "{name}");
            assert!(evaluate(&counted, name).number().is_some(), "{name}");
        }
    }
}
