//! A variant's feature words and tunables as settings of an image's kernel.

use schedlab_base::{Error, Result};
use schedlab_kernel::tunable;
use schedlab_transplant::Setting;
use std::collections::BTreeMap;

/// A tunable of ours under the tree's name, and the number of our units in one of the tree's.
const TUNABLES: &[(&str, &str, u64)] = &[
    ("sched_latency_ns", "latency_ns", 1),
    ("min_granularity_ns", "min_granularity_ns", 1),
    ("wakeup_granularity_ns", "wakeup_granularity_ns", 1),
    ("base_slice_ns", "base_slice_ns", 1),
    ("migration_cost_ns", "migration_cost_ns", 1),
    ("nr_migrate", "nr_migrate", 1),
    ("scale_by_cpus", "tunable_scaling", 1),
    ("autogroup", "sched_autogroup_enabled", 1),
    ("cfs_bandwidth_slice_ns", "sched_cfs_bandwidth_slice_us", 1_000),
    ("rt_period_ns", "sched_rt_period_us", 1_000),
    ("rt_runtime_ns", "sched_rt_runtime_us", 1_000),
    ("rr_timeslice_ns", "sched_rr_timeslice_ms", 1_000_000),
    ("fair_server_period_ns", "fair_server/period", 1),
    ("fair_server_runtime_ns", "fair_server/runtime", 1),
];

/// The tree's name of a tunable of ours; others have the tree's own.
pub(crate) fn name_in_tree(ours: &str) -> &str {
    TUNABLES.iter().find(|(name, ..)| *name == ours).map_or(ours, |(_, theirs, _)| *theirs)
}

/// Feature words and tunables as settings of the image's kernel, which multiplies granularities by `factor` for its
/// CPUs ([`Tunables::factor`](schedlab_kernel::Tunables::factor)). A tunable that our table does not have has the
/// tree's own name and unit.
///
/// # Errors
/// A tunable that the kernel's code has no file for.
pub fn settings(features: &[String], tunables: &BTreeMap<String, u64>, factor: u64) -> Result<Vec<Setting>> {
    let feature = |word: &String| match word.strip_prefix("NO_") {
        Some(name) => Setting::Feature(name.to_owned(), false),
        None => Setting::Feature(word.clone(), true),
    };
    let mut all: Vec<Setting> = features.iter().map(feature).collect();
    // The image has its ticks built in.
    for (name, value) in tunables.iter().filter(|(name, _)| *name != "hz") {
        if tunable::takes_words(name) {
            all.push(Setting::Tunable(name.clone(), tunable::text(name, *value)));
            continue;
        }
        let known = TUNABLES.iter().find(|(ours, ..)| ours == name);
        if known.is_none() && !tunable::names().contains(&name.as_str()) {
            all.push(Setting::Tunable(name.clone(), value.to_string()));
            continue;
        }
        let Some((_, theirs, units)) = known else {
            let text = format!("tunable {name} has no file in the kernel, so backend 'code' can't set it");
            return Err(Error::input(text).help("it is built in, or a property of tasks: leave it out"));
        };
        if value % units != 0 {
            let text = format!("{name} = {value} is not a whole number of the kernel's units, {units} each");
            return Err(Error::input(text).help(format!("take a multiple of {units}")));
        }
        let scaled =
            if tunable::SCALED.contains(&name.as_str()) { value.saturating_mul(factor) } else { *value };
        all.push(Setting::Tunable((*theirs).to_owned(), (scaled / units).to_string()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_have_the_files_words_units_and_products() {
        let tunables = BTreeMap::from([("preempt".to_owned(), 2), ("rt_period_ns".to_owned(), 5_000_000)]);
        let set = |name: &str, value: &str| Setting::Tunable(name.to_owned(), value.to_owned());
        let all = settings(&[], &tunables, 4).unwrap();
        let groups = settings(&[], &[("cgroup_mode".to_owned(), 3)].into(), 4).unwrap();
        assert_eq!(groups, [set("cgroup_mode", "max")]);
        let slice = settings(&[], &[("base_slice_ns".to_owned(), 700_000)].into(), 4).unwrap();
        assert_eq!(slice, [set("base_slice_ns", "2800000")], "as debugfs has it on eight CPUs");
        assert_eq!(all, [set("preempt", "full"), set("sched_rt_period_us", "5000")]);
    }
}
