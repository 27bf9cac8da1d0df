//! Wakeup preemption: is the waking entity far enough behind the current one (kernels 3.4 to 6.5)?
//!
//! The granularity is scaled by the *wakee's* weight, so a heavy wakee (or group) preempts sooner. Only the wakee's
//! policy matters: making the running task SCHED_BATCH does not protect it.

use crate::fair::slope::Slope;
use schedlab_kernel::{Feature, FeatureSet, Policy};

/// How far the wakee is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// The wakee is not behind at all.
    No,
    /// Behind, but within the granularity; buddies may be picked at this distance.
    Close,
    /// Far enough to preempt.
    Yes,
}

/// Compares `curr` with `wakee`: yes iff `curr - wakee` exceeds the granularity in the wakee's virtual time.
#[inline]
pub fn behind(curr_vruntime: i64, wakee_vruntime: i64, wakee: Slope, wakeup_granularity_ns: u64) -> Behind {
    by_distance(curr_vruntime, wakee_vruntime, wakee.virtual_ns(wakeup_granularity_ns))
}

/// The same with a granularity in virtual ns.
#[inline]
pub fn by_distance(curr_vruntime: i64, wakee_vruntime: i64, granularity: u64) -> Behind {
    let vdiff = curr_vruntime - wakee_vruntime;
    if vdiff <= 0 {
        Behind::No
    } else if vdiff > granularity as i64 {
        Behind::Yes
    } else {
        Behind::Close
    }
}

/// The decision by policies and features, before vruntimes are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByPolicy {
    /// Preempt at once (an idle-policy task is running).
    Preempt,
    /// Never preempt.
    Refuse,
    Compare,
}

/// The tests before the comparison.
pub fn by_policy(curr: Policy, wakee: Policy, features: FeatureSet) -> ByPolicy {
    if curr == Policy::Idle && wakee != Policy::Idle {
        ByPolicy::Preempt
    } else if wakee != Policy::Other || !features.has(Feature::WakeupPreemption) {
        ByPolicy::Refuse
    } else {
        ByPolicy::Compare
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::group::shares::FINE;
    use schedlab_base::Version;

    const GRAN: u64 = 4_000_000;

    fn of(weight: u64) -> Slope {
        Slope::exact(weight * FINE)
    }

    #[test]
    fn the_granularity_must_be_exceeded() {
        assert_eq!(behind(4_000_000, 0, of(1024), GRAN), Behind::Close);
        assert_eq!(behind(4_000_001, 0, of(1024), GRAN), Behind::Yes);
        assert_eq!(behind(0, 0, of(1024), GRAN), Behind::No);
    }

    #[test]
    fn the_wakees_weight_scales_it() {
        assert_eq!(behind(2_000_001, 0, of(2048), GRAN), Behind::Yes, "a heavy wakee preempts sooner");
        assert_eq!(behind(4_000_001, 0, of(512), GRAN), Behind::Close);
    }

    #[test]
    fn only_the_wakees_policy_protects_the_running_task() {
        let f = FeatureSet::defaults(Version::new(4, 5));
        assert_eq!(by_policy(Policy::Batch, Policy::Other, f), ByPolicy::Compare);
        assert_eq!(by_policy(Policy::Other, Policy::Batch, f), ByPolicy::Refuse);
        assert_eq!(by_policy(Policy::Idle, Policy::Batch, f), ByPolicy::Preempt);
        let mut off = f;
        off.switch(Feature::WakeupPreemption, false);
        assert_eq!(by_policy(Policy::Other, Policy::Other, off), ByPolicy::Refuse);
    }
}
