//! The decision by policies and idle groups at a wakeup, before the pick (`check_preempt_wakeup_fair`).

use schedlab_kernel::{Feature, FeatureSet, Policy};

/// The decision on a wakeup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByPolicy {
    /// Preempt, and end the running entity's protection: the running one is idle, the wakee is not.
    Preempt,
    /// Never preempt.
    Refuse,
    /// Preempt if the wakee would be picked now.
    Pick,
}

/// Decides by idleness, the wakee's policy and the feature WAKEUP_PREEMPTION. A SCHED_BATCH or SCHED_IDLE wakee does
/// not preempt, except that a SCHED_BATCH one preempts an idle entity.
pub fn by_policy(curr_is_idle: bool, wakee_is_idle: bool, wakee: Policy, features: FeatureSet) -> ByPolicy {
    if !features.has(Feature::WakeupPreemption) {
        return ByPolicy::Refuse;
    }
    match (curr_is_idle, wakee_is_idle) {
        (true, false) => ByPolicy::Preempt,
        (false, true) => ByPolicy::Refuse,
        _ if wakee == Policy::Other => ByPolicy::Pick,
        _ => ByPolicy::Refuse,
    }
}

/// The facts for 6.12's PREEMPT_SHORT, by which a wakee with a shorter slice may end the running entity's protection.
#[derive(Clone, Copy, Debug)]
pub struct ShortWakee {
    pub wakee_eligible: bool,
    /// Whether its deadline is earlier than the running entity's.
    pub earlier: bool,
    /// Whether the running entity is eligible.
    pub curr_eligible: bool,
}

/// Whether the wakee ends the running entity's protection.
pub fn ends_protection(s: ShortWakee) -> bool {
    s.wakee_eligible && (s.earlier || !s.curr_eligible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    #[test]
    fn only_normal_wakees_compete() {
        let f = FeatureSet::defaults(Version::new(6, 12));
        let of =
            |curr: Policy, wakee: Policy| by_policy(curr == Policy::Idle, wakee == Policy::Idle, wakee, f);
        let (other, batch, idle) = (Policy::Other, Policy::Batch, Policy::Idle);
        assert_eq!(of(other, other), ByPolicy::Pick);
        assert_eq!(of(batch, other), ByPolicy::Pick, "a batch hog is no safer");
        assert_eq!(of(other, batch), ByPolicy::Refuse);
        assert_eq!(of(other, idle), ByPolicy::Refuse);
        assert_eq!(of(idle, idle), ByPolicy::Refuse);
        assert_eq!(of(idle, batch), ByPolicy::Preempt);
        assert_eq!(by_policy(true, true, other, f), ByPolicy::Pick, "both are tasks of idle groups");
        let mut off = f;
        off.switch(Feature::WakeupPreemption, false);
        assert_eq!(by_policy(true, false, other, off), ByPolicy::Refuse, "since 6.6 the switch comes first");
    }

    #[test]
    fn a_short_wakee_needs_more_than_a_short_slice() {
        let s = ShortWakee { wakee_eligible: true, earlier: true, curr_eligible: true };
        assert!(
            ends_protection(s) && ends_protection(ShortWakee { earlier: false, curr_eligible: false, ..s })
        );
        assert!(!ends_protection(ShortWakee { earlier: false, ..s }));
        assert!(!ends_protection(ShortWakee { wakee_eligible: false, ..s }));
    }
}
