//! Counted commands as records, so that the comparison of experiments also compares two commands and the
//! repeats of one.
//!
//! A run of `schedlab stat` has none of our workloads. Its record holds the command under the name of a
//! variant. Two commands are then variants of one load, and comparison and tables work as for experiments.

use crate::metrics;
use crate::plan;
use crate::stats::special::{root, t_quantile};
use crate::stats::{ALPHA, Summary};
use schedlab_base::{Backend, Result, Warning};
use schedlab_kernel::{Variant, variant::RUNNING};
use schedlab_machine::Machine;
use schedlab_record::{Better, Findings, Observe, RECORD_SCHEMA, Record, Value, WATCHING, environment};
use std::collections::BTreeMap;

pub use schedlab_native::counters::EVENTS;
pub use schedlab_native::counters::watch::{Output, WatchOptions, Watched, command, system};

/// The metrics of counted commands, in the order of the tables: time, counters, derived metrics.
pub fn metrics() -> Vec<String> {
    let counters = EVENTS.iter().map(|e| e.name);
    let derived =
        ["perf.cpus_used", "perf.frequency", "perf.ipc", "perf.cache_miss_rate", "perf.branch_miss_rate"];
    let times = ["command.elapsed", "command.user_time", "command.system_time"];
    times.into_iter().chain(counters).chain(derived).map(str::to_owned).collect()
}

/// The figure shown beside a counter: its ratio to CPU time, to elapsed time, or to another counter.
pub fn beside(counter: &str) -> Option<(String, &'static str)> {
    let (name, words) = match counter {
        "perf.task_clock" => ("perf.cpus_used", "CPUs"),
        "perf.cycles" => ("perf.frequency", ""),
        "perf.instructions" => ("perf.ipc", "/cycle"),
        "perf.cache_misses" => ("perf.cache_miss_rate", " of all"),
        "perf.branch_misses" => ("perf.branch_miss_rate", " of all"),
        _ => return counter.starts_with("perf.").then(|| (format!("{counter}.rate"), "")),
    };
    Some((name.to_owned(), words))
}

/// The order in which commands are run: A B B A, so that drift affects all alike, or A B A B.
///
/// # Errors
/// No runs, or too many.
pub fn order(commands: usize, runs: u64, repeat: bool) -> Result<Vec<plan::Run>> {
    let mut order = plan::order(commands, runs, 1)?;
    if repeat {
        order.sort_by_key(|run| (run.seed, run.cell));
    }
    Ok(order)
}

/// The commands of one comparison, in words: parameters of its records by the variant's name.
pub type Commands = BTreeMap<String, String>;

/// One counted run.
///
/// # Errors
/// When this machine can't be read.
pub fn record(seen: Watched, commands: &Commands, variant: &str, number: u64) -> Result<Record> {
    let code = seen.code();
    let mut found = Findings {
        duration: seen.elapsed,
        counters: [("command.elapsed".to_owned(), seen.elapsed.0)].into(),
        environment: environment::capture(),
        ..Findings::default()
    };
    if seen.status.is_some() {
        let own = [("user_time", seen.user.0), ("system_time", seen.system.0), ("exit_status", code.into())];
        found.counters.extend(own.map(|(name, n)| (format!("command.{name}"), n)));
    }
    seen.counts.join(&mut found);
    if code != 0 {
        let line = commands.get(variant).map_or("", String::as_str);
        let text = format!("'{line}' ended with exit code {code}");
        found.warnings.push(Warning::new("command.exit_status", text));
    }
    let release = found.environment.get("kernel.release");
    let kernel = release.cloned().unwrap_or_else(|| RUNNING.to_owned());
    Ok(Record {
        schema: RECORD_SCHEMA.to_owned(),
        model: WATCHING,
        backend: Backend::Host.into(),
        machine: Machine::load("host")?,
        drawn: Vec::new(),
        kernel,
        resolved: None,
        guest: None,
        observe: Some(Observe::Counters),
        variant: Variant { name: variant.to_owned(), ..Variant::plain(RUNNING) },
        workload: "stat".to_owned(),
        spec: serde_json::json!({ "kind": "stat", "params": commands }),
        load: commands.keys().cloned().collect::<Vec<_>>().join("/"),
        seed: number,
        found,
    })
}

/// A metric over the runs of one command.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Over {
    /// The metric was counted in all runs.
    Counted {
        /// Unit; "" for counts.
        unit: String,
        /// Which direction is good.
        better: Better,
        /// Mean over the runs.
        mean: f64,
        /// Sample standard deviation in percent of the mean; `None` for one run.
        std_pct: Option<f64>,
        /// The mean's 95 % interval by Student's t; `None` for one run.
        ci95: Option<[f64; 2]>,
        /// The runs' values.
        values: Vec<f64>,
    },
    /// The metric was not counted in all runs.
    Missing {
        /// The reason.
        missing: String,
    },
}

/// A metric over the runs of one command. If it is missing in one run, it is missing.
pub fn over(records: &[Record], metric: &str) -> Over {
    let all: Vec<metrics::Evaluated> = records.iter().map(|r| metrics::evaluate(r, metric)).collect();
    if let Some(Value::Missing(why)) = all.iter().map(|e| &e.value).find(|v| matches!(v, Value::Missing(_))) {
        return Over::Missing { missing: why.clone() };
    }
    let values: Vec<f64> = all.iter().filter_map(|e| e.value.number()).collect();
    let (Some(summary), Some(first)) = (Summary::of(&values), all.first()) else {
        return Over::Missing { missing: "no run was made".to_owned() };
    };
    let ci95 = summary.std.map(|std| {
        let n = values.len() as f64;
        let half = t_quantile(1.0 - ALPHA / 2.0, n - 1.0) * std / root(n);
        [summary.mean - half, summary.mean + half]
    });
    let (unit, better, std_pct) = (first.unit.clone(), first.better, summary.std_pct());
    Over::Counted { unit, better, mean: summary.mean, std_pct, ci95, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;
    use schedlab_native::counters::Counts;

    fn seen(ms: u64, switches: u64) -> Watched {
        let counters = BTreeMap::from([
            ("perf.task_clock".to_owned(), ms * 500_000),
            ("perf.context_switches".to_owned(), switches),
        ]);
        let uncounted = BTreeMap::from([("perf.cycles".to_owned(), "none here".to_owned())]);
        let counts = Counts { counters, uncounted, warnings: Vec::new() };
        Watched { counts, elapsed: Ns::ms(ms), user: Ns(1), system: Ns(2), status: None }
    }

    #[test]
    fn runs_of_one_command_have_a_mean_a_spread_and_an_interval() {
        let commands = BTreeMap::from([("A".to_owned(), "true".to_owned())]);
        let runs: Vec<Record> = [(8, 10), (10, 10), (12, 10)]
            .map(|(ms, n)| record(seen(ms, n), &commands, "A", ms).unwrap())
            .into();
        let Over::Counted { mean, std_pct, ci95: Some([low, high]), .. } = over(&runs, "command.elapsed")
        else {
            panic!("it was counted")
        };
        assert_eq!((mean, std_pct), (10e6, Some(20.0)));
        // t(0.975; 2) = 4.3027: 2 ms / sqrt 3 times that.
        assert!((low - 5.0317e6).abs() < 100.0 && (high - 14.9683e6).abs() < 100.0, "{low} {high}");
        let Over::Counted { values, .. } = over(&runs, "perf.cpus_used") else { panic!("it follows") };
        assert_eq!(values, [0.5, 0.5, 0.5]);
        assert_eq!(over(&runs, "perf.ipc"), Over::Missing { missing: "none here".into() });
        let Over::Counted { ci95, .. } = over(&runs[..1], "perf.context_switches") else { panic!() };
        assert_eq!(ci95, None);
    }

    #[test]
    fn the_order_turns_round_unless_it_is_to_repeat() {
        let cells = |repeat| order(2, 3, repeat).unwrap().iter().map(|r| r.cell).collect::<Vec<_>>();
        assert_eq!(cells(false), [0, 1, 1, 0, 0, 1]);
        assert_eq!(cells(true), [0, 1, 0, 1, 0, 1]);
        assert!(order(2, 0, false).is_err());
    }

    #[test]
    fn every_metric_asked_for_is_one_and_so_is_what_stands_beside_it() {
        for name in metrics() {
            assert!(schedlab_record::Metric::find(&name).is_ok(), "{name}");
        }
        for event in EVENTS {
            let (rate, _) = beside(event.name).unwrap();
            assert!(schedlab_record::Metric::find(&rate).is_ok(), "{rate}");
        }
    }
}
