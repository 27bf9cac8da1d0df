//! How closely live runs are watched: as closely as the wanted metrics need, and no closer.
//!
//! Each row of the metric table names the watching it needs. Events are never chosen here: they need
//! privileges and cost the most, so only the user asks for them.

use schedlab_record::{Metric, Observe};

/// The least watching that gives these metrics, as far as possible without events. A name without a row is a program's
/// or a command's own figure and needs no watching.
pub fn needed<'a>(metrics: impl IntoIterator<Item = &'a str>) -> Observe {
    let of = |name: &str| Metric::find(name).ok().map(|found| found.row.watched);
    let watched = metrics.into_iter().filter_map(of).filter(|watched| *watched < Observe::Events);
    watched.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watching_is_the_least_that_the_metrics_need() {
        for (metrics, watched) in [
            (&["pipe.elapsed.mean", "cpu_time", "run_delay.total", "migrations"][..], Observe::Accounts),
            (&["hackbench.time", "no such metric"], Observe::Accounts),
            (&["pipe.elapsed.mean", "slice.p99"], Observe::Stays),
            (&["slice.end.preempted", "perf.ipc"], Observe::Counters),
            (&["perf.context_switches.rate"], Observe::Counters),
            (&["wakeup_delay.p99", "slice.blocked.p50"], Observe::Accounts),
        ] {
            assert_eq!(needed(metrics.iter().copied()), watched, "{metrics:?}");
        }
    }

    #[test]
    fn no_benchmark_is_watched_closely_for_its_own_figures() {
        for bench in schedlab_workload::BENCHMARKS {
            assert_eq!(needed(bench.headline.iter().copied()), Observe::Accounts, "{}", bench.name);
        }
    }
}
