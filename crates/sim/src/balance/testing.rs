//! Facts with which several tests of the rules begin.

use super::can_migrate::{MigrateRules, TaskFacts};
use super::era::{Balancer, PassKind};
use super::fits::Asymmetry;
use super::spare::classify::SpareType;
use super::spare::stats::GroupStats;
use super::spare::{DomainFacts, NodeTolerance, SpareLater};

/// A busy pass of 4.5, on a kernel that is not preemptible.
pub const RULES: MigrateRules = MigrateRules {
    balancer: Balancer::V4_5,
    pass: PassKind::Busy,
    preemptible: false,
    migration_cost_ns: 500_000,
    cache_hot_buddy: true,
    dst_has_tasks: true,
    nr_balance_failed: 0,
    cache_nice_tries: 1,
    delayed_stay: false,
    ineligible_stay: false,
    kthreads_set_apart: true,
};

/// A task of nice 0 that is just no longer hot.
pub const COLD: TaskFacts = TaskFacts {
    throttled: false,
    allowed: true,
    allowed_nearby: None,
    delayed: false,
    ineligible: false,
    per_cpu_kthread: false,
    running: false,
    sched_idle: false,
    buddy: false,
    ran_ago_ns: 500_000,
    load: 1024,
};

/// A domain of one cache whose groups are cores.
pub const MC: DomainFacts = DomainFacts {
    imbalance_pct: 117,
    prefer_sibling: true,
    groups_are_cores: true,
    some_are_cores: false,
    share_llc: true,
    numa: false,
    later: SpareLater {
        cores_last_when_full: true,
        smt_balance: true,
        siblings_by_cores: false,
        misfit_first_stays: false,
    },
    tolerance: NodeTolerance::Difference(0),
    asym: Asymmetry::NONE,
    cores: None,
    alike: true,
    are_cpus: false,
};

/// A group of `weight` CPUs with `nr` tasks of `each` load and utilisation, at most one on each CPU as long as CPUs are
/// free.
pub fn spare_group(kind: SpareType, weight: u32, nr: u32, each: u64) -> GroupStats {
    let (load, capacity) = (each * u64::from(nr), 1024 * u64::from(weight));
    GroupStats {
        group_load: load,
        group_util: load,
        group_runnable: load,
        capacity,
        avg_load: if kind == SpareType::Overloaded { load * 1024 / capacity } else { 0 },
        sum_nr_running: nr,
        sum_h_nr_running: nr,
        idle_cpus: weight.saturating_sub(nr),
        weight,
        group_type: kind,
        overload: nr > weight,
        kinds: Default::default(),
    }
}
