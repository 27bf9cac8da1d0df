//! Wakeup preemption of 2.6.27 and 2.6.30: policies, and the adaptive granularity (`check_preempt_wakeup`,
//! `wakeup_gran`).
//!
//! Only the wakee's policy protects the running task. With ADAPTIVE_GRAN the granularity is computed from the time that
//! the wakee is expected to run until it wakes another task: that time is doubled, multiplied by the queue's length,
//! and reduced by the time the running task has run since it was picked; the limit is wakeup_granularity. So a task
//! that wakes others soon also preempts soon.

use crate::fair::cfs::preempt::ByPolicy;
use crate::fair::group::shares::FINE;
use crate::fair::slope::Slope;
use schedlab_kernel::policy::NICE_0_WEIGHT;
use schedlab_kernel::{Feature, FeatureSet, Policy};

/// The decision by policies and WAKEUP_PREEMPTION. Unlike in later kernels, a wakee that is not SCHED_OTHER does not
/// preempt even a SCHED_IDLE task. `next_only`: 2.6.27, where only a SCHED_BATCH wakee is refused and no running task
/// is preempted unconditionally.
pub fn by_policy(curr: Policy, wakee: Policy, features: FeatureSet, next_only: bool) -> ByPolicy {
    let holds_back = if next_only { wakee == Policy::Batch } else { wakee != Policy::Other };
    if holds_back {
        ByPolicy::Refuse
    } else if curr == Policy::Idle && !next_only {
        ByPolicy::Preempt
    } else if !features.has(Feature::WakeupPreemption) {
        ByPolicy::Refuse
    } else {
        ByPolicy::Compare
    }
}

/// WAKEUP_OVERLAP: the wakee preempts at once if the waker is about to sleep, or if both tasks run for less than a
/// migration's cost after waking others.
pub fn by_overlap(sync: bool, avg_overlaps_ns: [u64; 2], migration_cost_ns: u64) -> bool {
    sync || avg_overlaps_ns.iter().all(|o| *o < migration_cost_ns)
}

/// The facts for ADAPTIVE_GRAN.
#[derive(Clone, Copy, Debug)]
pub struct Adaptive {
    /// How long the wakee runs until it wakes another task, ns; 0 for a group's entity.
    pub avg_wakeup_ns: u64,
    /// Entities on the queue, including the wakee.
    pub nr_running: u64,
    /// How long the running entity has run since it was picked, ns.
    pub this_run_ns: u64,
}

/// The facts on which a granularity depends.
#[derive(Clone, Copy, Debug)]
pub struct PreemptFacts {
    /// wakeup_granularity, scaled, ns.
    pub wakeup_granularity_ns: u64,
    /// With ADAPTIVE_GRAN, if the queue has a current entity.
    pub adaptive: Option<Adaptive>,
    /// Whether the granularity is scaled by the wakee's weight instead of the running entity's (ASYM_GRAN).
    pub asym: bool,
    /// Weight of the running entity.
    pub curr_weight: u64,
    pub wakee_weight: u64,
    /// Whether the running entity's weight always scales; with ASYM_GRAN a light one counts as nice 0 (before 2.6.28).
    pub by_runner: bool,
    /// The weight whose virtual time equals real time: nice 0's, before 2.6.28 the queue's.
    pub unit: u64,
}

/// How far the running entity may be ahead, virtual ns.
pub fn granularity(f: &PreemptFacts) -> u64 {
    let adapt = |a: Adaptive| {
        let expected = (2 * a.avg_wakeup_ns).saturating_mul(a.nr_running);
        expected.saturating_sub(a.this_run_ns).min(f.wakeup_granularity_ns)
    };
    let real = f.adaptive.map_or(f.wakeup_granularity_ns, adapt);
    let weight = match (f.asym, f.by_runner) {
        (true, true) => f.curr_weight.max(NICE_0_WEIGHT),
        (true, false) => f.wakee_weight,
        (false, _) => f.curr_weight,
    };
    Slope::exact(weight * FINE).virtual_ns_in(real, f.unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    const MS: u64 = 1_000_000;
    const F: PreemptFacts = PreemptFacts {
        wakeup_granularity_ns: 10 * MS,
        adaptive: None,
        asym: true,
        curr_weight: 1024,
        wakee_weight: 1024,
        by_runner: false,
        unit: 1024,
    };

    fn adaptive(avg_wakeup_ns: u64, nr_running: u64, this_run_ns: u64) -> u64 {
        granularity(&PreemptFacts {
            adaptive: Some(Adaptive { avg_wakeup_ns, nr_running, this_run_ns }),
            ..F
        })
    }

    #[test]
    fn a_task_that_never_wakes_others_has_the_whole_granularity_also_against_a_long_slice() {
        assert_eq!(adaptive(10 * MS, 9, 0), 10 * MS);
        assert_eq!(adaptive(10 * MS, 9, 12 * MS), 10 * MS, "2 * 10 * 9 - 12 is still more");
    }

    #[test]
    fn a_frequent_waker_waits_less_the_longer_the_running_task_has_run() {
        assert_eq!(adaptive(MS, 2, 0), 4 * MS);
        assert_eq!(adaptive(MS, 2, 3 * MS), MS);
        assert_eq!(adaptive(MS, 2, 5 * MS), 0);
        assert_eq!(adaptive(MS, 4, 0), 8 * MS, "a longer queue expects more");
    }

    #[test]
    fn before_2_6_28_the_running_tasks_weight_and_the_whole_queue_scale() {
        let old = PreemptFacts { by_runner: true, unit: 2048, ..F };
        assert_eq!(granularity(&old), 20 * MS, "two tasks: virtual time runs twice as fast");
        let heavy = PreemptFacts { curr_weight: 2048, unit: 3072, ..old };
        assert_eq!(granularity(&heavy), 15 * MS, "a heavy runner is preempted sooner");
        let light = PreemptFacts { curr_weight: 512, unit: 1536, ..old };
        assert_eq!(granularity(&light), 15 * MS, "a light one is not protected for longer");
        assert_eq!(granularity(&PreemptFacts { asym: false, ..light }), 30 * MS);
    }

    #[test]
    fn asym_gran_chooses_the_weight_that_scales() {
        let heavy_wakee = PreemptFacts { wakee_weight: 2048, ..F };
        assert_eq!(granularity(&heavy_wakee), 5 * MS);
        assert_eq!(granularity(&PreemptFacts { asym: false, ..heavy_wakee }), 10 * MS);
        assert_eq!(granularity(&PreemptFacts { asym: false, curr_weight: 2048, ..F }), 5 * MS);
    }

    #[test]
    fn only_a_normal_wakee_preempts_even_an_idle_task() {
        let f = FeatureSet::defaults(Version::v2_6(30));
        let of = |curr, wakee| by_policy(curr, wakee, f, false);
        assert_eq!(of(Policy::Batch, Policy::Other), ByPolicy::Compare, "BATCH protects no running task");
        assert_eq!(of(Policy::Other, Policy::Batch), ByPolicy::Refuse);
        assert_eq!(of(Policy::Idle, Policy::Other), ByPolicy::Preempt);
        assert_eq!(
            of(Policy::Idle, Policy::Batch),
            ByPolicy::Refuse,
            "later kernels ask for the idle one first"
        );
        let mut off = f;
        off.switch(Feature::WakeupPreemption, false);
        assert_eq!(by_policy(Policy::Idle, Policy::Other, off, false), ByPolicy::Preempt);
        assert_eq!(by_policy(Policy::Other, Policy::Other, off, false), ByPolicy::Refuse);
    }

    #[test]
    fn in_2_6_27_idle_tasks_are_compared_like_others() {
        let f = FeatureSet::defaults(Version::v2_6(27));
        let of = |curr, wakee| by_policy(curr, wakee, f, true);
        assert_eq!(of(Policy::Idle, Policy::Other), ByPolicy::Compare);
        assert_eq!(of(Policy::Other, Policy::Idle), ByPolicy::Compare);
        assert_eq!(of(Policy::Other, Policy::Batch), ByPolicy::Refuse);
    }

    #[test]
    fn overlap_counts_for_both_unless_the_waker_is_about_to_sleep() {
        assert!(by_overlap(false, [1, 2], 3) && by_overlap(true, [9, 9], 3));
        assert!(!by_overlap(false, [1, 3], 3));
    }
}
