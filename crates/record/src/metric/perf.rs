//! Metrics from the kernel's performance counters (perf_event_open(2)), and the reasons for missing ones.
//!
//! A machine may lack a counter, or a user may lack the right to use it. It is then absent from the record's counters,
//! and the environment has the reason under [`UNCOUNTED`] and the counter's name.

use crate::Record;

/// The kernel's performance counters, in the order of tables: metric, and name to be shown.
pub const COUNTERS: &[(&str, &str)] = &[
    ("perf.task_clock", "task clock"),
    ("perf.context_switches", "context switches"),
    ("perf.migrations", "migrations"),
    ("perf.page_faults", "page faults"),
    ("perf.cycles", "cycles"),
    ("perf.instructions", "instructions"),
    ("perf.branches", "branches"),
    ("perf.branch_misses", "branch misses"),
    ("perf.cache_references", "cache references"),
    ("perf.cache_misses", "cache misses"),
];

/// Time spent on counting, ns; only for counted commands.
pub const COUNTING: &str = "perf.counting";

/// Prefix of a counter's name in the environment. The value is the reason why it was not counted.
pub const UNCOUNTED: &str = "uncounted.";

/// The counters that each derived figure needs, to find the reason why it is missing.
const NEEDS: &[(&str, &[&str])] = &[
    ("perf.frequency", &["perf.cycles"]),
    ("perf.ipc", &["perf.instructions", "perf.cycles"]),
    ("perf.cache_miss_rate", &["perf.cache_misses", "perf.cache_references"]),
    ("perf.branch_miss_rate", &["perf.branch_misses", "perf.branches"]),
];

fn counter(record: &Record, name: &str) -> Option<f64> {
    record.found.counters.get(name).map(|n| *n as f64)
}

/// One counter divided by another, times `scale`; `None` if one was not counted or the divisor is 0.
pub(super) fn ratio(record: &Record, above: &str, below: &str, scale: f64) -> Option<f64> {
    let (above, below) = (counter(record, above)?, counter(record, below)?);
    (below > 0.0).then(|| scale * above / below)
}

/// A counter per second of CPU time.
pub(super) fn per_cpu_second(record: &Record, name: &str) -> Option<f64> {
    ratio(record, name, "perf.task_clock", 1e9)
}

/// CPU time over elapsed time.
pub(super) fn cpus_used(record: &Record) -> Option<f64> {
    let clock = counter(record, "perf.task_clock")?;
    (record.found.duration.0 > 0).then(|| clock / record.found.duration.0 as f64)
}

/// Why a counter, or one that a derived figure needs, was not counted in this run, if the run reports it.
pub(super) fn why_uncounted(record: &Record, name: &str) -> Option<String> {
    let why = |counter: &str| record.found.environment.get(&format!("{UNCOUNTED}{counter}")).cloned();
    let needs = NEEDS.iter().find(|(derived, _)| *derived == name).map_or(&[][..], |(_, needs)| needs);
    let base = name.strip_suffix(".rate").unwrap_or(name);
    if name.starts_with("slice.") {
        return why("slice");
    }
    std::iter::once(base).chain(needs.iter().copied()).chain(["perf.task_clock"]).find_map(|counter| {
        let wanted = counter != "perf.task_clock" || name == "perf.cpus_used" || base != name;
        wanted.then(|| why(counter)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::*;
    use crate::Value;
    use crate::tests::record;
    use schedlab_base::{Backend, Ns};

    fn run(counters: &[(&str, u64)]) -> Record {
        let mut r = record(1);
        r.backend = Backend::Host.into();
        r.found.duration = Ns(10_008_471_596);
        r.found.counters = counters.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        r
    }

    /// D004: the figures of its perf stat for the whole system over 10 s, and the rates printed next to them.
    #[test]
    fn rates_are_those_the_document_prints() {
        let r = run(&[
            ("perf.task_clock", 159_827_019_426),
            ("perf.cycles", 2_236_492_601),
            ("perf.instructions", 1_908_732_654),
            ("perf.cache_references", 5_059_857),
            ("perf.cache_misses", 503_188),
        ]);
        let near = |name: &str, want: f64, within: f64| {
            let got = evaluate(&r, name).number().unwrap_or(f64::NAN);
            assert!((got - want).abs() <= within, "{name}: {got}, not {want}");
        };
        near("perf.cycles.rate", 13.993e6, 500.0);
        near("perf.instructions.rate", 11.942e6, 500.0);
        near("perf.cache_references.rate", 0.032e6, 500.0);
        near("perf.cache_misses.rate", 0.003e6, 500.0);
        near("perf.cpus_used", 15.97, 0.005);
        near("perf.ipc", 0.853_45, 0.000_01);
        near("perf.cache_miss_rate", 9.944_7, 0.000_1);
        near("perf.frequency", 0.013_993, 0.000_001);
    }

    #[test]
    fn missing_counters_and_their_rates_give_the_reason() {
        let mut r = run(&[("perf.task_clock", 5), ("perf.cache_references", 0)]);
        r.found.environment.insert("uncounted.perf.cycles".into(), "no such counter".into());
        let reason = |name: &str| match evaluate(&r, name) {
            Value::Missing(why) => why,
            Value::Number(n) => panic!("{name} is {n}"),
        };
        for name in ["perf.cycles", "perf.cycles.rate", "perf.frequency", "perf.ipc"] {
            assert_eq!(reason(name), "no such counter", "{name}");
        }
        assert_eq!(reason("perf.cache_miss_rate"), "not measured in this run");
        r.found.environment.insert("uncounted.perf.task_clock".into(), "not allowed".into());
        let reason = |name: &str| evaluate(&r, name).number().is_none();
        assert!(reason("perf.branches.rate"));
        assert_eq!(why_uncounted(&r, "perf.branches.rate").as_deref(), Some("not allowed"));
        assert_eq!(why_uncounted(&r, "perf.ipc").as_deref(), Some("no such counter"));
        assert_eq!(why_uncounted(&r, "perf.cache_miss_rate"), None);
        r.found.environment.insert("uncounted.slice".into(), "too many".into());
        for name in ["slice.mean", "slice.p99", "slice.end.blocked"] {
            assert_eq!(why_uncounted(&r, name).as_deref(), Some("too many"), "{name}");
        }
    }
}
