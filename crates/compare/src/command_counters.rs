//! Counters of commands: which are shown, the figures next to them, and their mean over repeats.

use crate::metrics;
use crate::stats::special::{root, t_quantile};
use crate::stats::{ALPHA, Summary};
pub use schedlab_record::metric::{COUNTERS, COUNTING};
use schedlab_record::{Better, Record, Value};
use serde::Serialize;

/// The metrics of counted commands, in the order of the tables: time, counters, derived metrics.
pub fn metrics() -> Vec<String> {
    let counters = COUNTERS.iter().map(|(name, _)| *name).chain([COUNTING]);
    let derived =
        ["perf.cpus_used", "perf.frequency", "perf.ipc", "perf.cache_miss_rate", "perf.branch_miss_rate"];
    let times = ["command.elapsed", "command.user_time", "command.system_time"];
    times.into_iter().chain(counters).chain(derived).map(str::to_owned).collect()
}

/// The figure shown next to a counter: its ratio to CPU time, to elapsed time, or to another counter.
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

/// A metric over the runs of one command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Over {
    /// The metric was counted in all runs.
    Counted {
        /// "" for counts.
        unit: String,
        better: Better,
        mean: f64,
        /// Sample standard deviation in percent of the mean; `None` for one run.
        std_pct: Option<f64>,
        /// The mean's 95 % interval by Student's t; `None` for one run.
        ci95: Option<[f64; 2]>,
        values: Vec<f64>,
    },
    /// The metric was not counted in all runs.
    Missing { missing: String },
}

/// A metric over the runs of one command; missing if one run lacks it.
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

    #[test]
    fn metrics_and_the_figures_next_to_them_are_known() {
        for name in metrics() {
            assert!(schedlab_record::Metric::find(&name).is_ok(), "{name}");
        }
        for (name, _) in COUNTERS {
            let (rate, _) = beside(name).unwrap();
            assert!(schedlab_record::Metric::find(&rate).is_ok(), "{rate}");
        }
    }
}
