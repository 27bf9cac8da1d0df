//! The kernels in which a feature or tunable has an effect.
//!
//! Every kernel accepts every feature's name. A feature does nothing if the kernel's code never asks for it, or if it
//! depends on another feature that is off. A tunable does nothing if the kernel's code never reads it. A variant that
//! switches on such a feature, or sets such a tunable, gets a warning.
//!
//! Releases are in the row of the feature or tunable, or in the chronology ([`crate::history`]). This module decides
//! which of the two applies.

use crate::feature::FEATURES;
use crate::origin::Span;
use crate::tunable::{CGROUP_MODE, MODELLED_CGROUP_MODE, TUNABLES};
use crate::{Feature, Kernel, history};
use schedlab_base::Warning;

struct Need {
    feature: Feature,
    /// Versions whose code asks for the feature.
    asked: Span,
    /// Another feature that must be on.
    other: Option<Feature>,
}

/// A feature that only versions with a mechanism ask for.
const fn with(feature: Feature, mechanism: &str) -> Need {
    Need { feature, asked: history::span(mechanism), other: None }
}

/// A feature that versions ask for from the first to the last with a mechanism. Releases in gaps between its spans,
/// which have no profile, count as such versions.
const fn with_some(feature: Feature, mechanism: &str) -> Need {
    Need { feature, asked: history::hull(mechanism), other: None }
}

/// A feature that only versions before a mechanism ask for.
const fn before(feature: Feature, mechanism: &str) -> Need {
    Need { feature, asked: Span::until(history::came(mechanism)), other: None }
}

/// A feature that only the releases having it ask for.
const fn released(feature: Feature) -> Need {
    Need { feature, asked: kernels(feature), other: None }
}

/// A feature that all versions ask for until its end, including those before it came.
const fn until_gone(feature: Feature) -> Need {
    Need { feature, asked: Span { since: None, until: kernels(feature).until }, other: None }
}

const fn always(feature: Feature) -> Need {
    Need { feature, asked: Span::ALL, other: None }
}

const fn kernels(feature: Feature) -> Span {
    match FEATURES[feature as usize].kernels {
        Some(span) => span,
        None => panic!("no release has this feature"),
    }
}

impl Need {
    /// The same need, if `other` is on as well.
    const fn and(self, other: Feature) -> Need {
        Need { other: Some(other), ..self }
    }
    /// The same need, only in versions before the end of a mechanism.
    const fn until(self, mechanism: &str) -> Need {
        Need { asked: Span { since: self.asked.since, until: Some(history::went(mechanism)) }, ..self }
    }
}

/// The balancer on which the newidle RFC builds.
const SPARE: &str = "spare-capacity";

const NEEDS: &[Need] = &[
    until_gone(Feature::NewFairSleepers),
    until_gone(Feature::NormalizedSleeper),
    released(Feature::AdaptiveGran),
    until_gone(Feature::AsymGran),
    until_gone(Feature::WakeupOverlap),
    until_gone(Feature::AffineWakeups),
    until_gone(Feature::SisWakeIdle),
    released(Feature::NextBuddy),
    released(Feature::LastBuddy),
    until_gone(Feature::GentleFairSleepers),
    until_gone(Feature::StartDebit),
    until_gone(Feature::AltPeriod),
    until_gone(Feature::BaseSlice),
    released(Feature::PlaceLag),
    released(Feature::PlaceDeadlineInitial),
    released(Feature::PlaceRelDeadline),
    released(Feature::RunToParity),
    released(Feature::PreemptShort),
    released(Feature::DelayDequeue),
    released(Feature::DelayZero).and(Feature::DelayDequeue),
    with_some(Feature::PickBuddy, "pick-buddy"),
    // CFS kernels know it too, but only EEVDF's is simulated.
    with(Feature::Hrtick, "eevdf"),
    before(Feature::LbBias, SPARE),
    released(Feature::WaIdle),
    released(Feature::WaWeight),
    released(Feature::WaBias).and(Feature::WaWeight),
    always(Feature::SisSkipTarget).and(Feature::SisGroup),
    always(Feature::SisIdleCfsRqLeast).and(Feature::SisIdleCfsRq),
    always(Feature::SisIdleCfsRqPrev).and(Feature::SisIdleCfsRq),
    always(Feature::SisProp).and(Feature::SisCore),
    always(Feature::SisUtil).and(Feature::SisCore),
    with(Feature::SdSharedAll, SPARE),
    with(Feature::SdNrGroups, SPARE),
    with(Feature::IlbSnapshot, SPARE),
    // Both act only on the stored totals.
    with(Feature::IlbUtil, SPARE).and(Feature::IlbSnapshot),
    with(Feature::IlbFast, SPARE).and(Feature::IlbSnapshot),
    with(Feature::IlbUtilQuad, SPARE).and(Feature::IlbUtil),
    with(Feature::IlbShare, SPARE),
    with(Feature::SdSharedNuma, SPARE),
    released(Feature::UtilEst),
    // Only newidle-by-cost draws random numbers.
    with(Feature::NiRandom, "newidle-by-cost"),
    with(Feature::NiRate, "newidle-by-cost").and(Feature::NiRandom),
    released(Feature::RtPushIpi),
    // From 6.12 on, only groups of real-time tasks are throttled. The simulator has no such groups.
    released(Feature::RtRuntimeShare).until("rt-throttles"),
];

/// The condition for an effect in a simulated kernel: the versions whose code asks for the feature, and another feature
/// that must be on.
pub fn acts(feature: Feature) -> (Span, Option<Feature>) {
    let need = NEEDS.iter().find(|n| n.feature == feature);
    let (asked, other) = need.map_or((Span::ALL, None), |n| (n.asked, n.other));
    (if asked_by_o1(feature) { asked } else { since_cfs(asked) }, other)
}

/// Whether the O(1) scheduler asks for a feature: it can search as later kernels do, and can queue remotely.
fn asked_by_o1(feature: Feature) -> bool {
    let others = [Feature::SisSkipTarget, Feature::SisProp, Feature::TtwuQueue, Feature::LbSgScan];
    feature.row().group == "search" || others.contains(&feature)
}

/// Those of the releases that have CFS or EEVDF.
fn since_cfs(asked: Span) -> Span {
    let cfs = history::went("o1");
    Span { since: Some(asked.since.map_or(cfs, |since| since.max(cfs))), ..asked }
}

/// Why a feature that is on does nothing in this kernel; `None` if it may act.
pub fn idle_because(feature: Feature, kernel: &Kernel) -> Option<String> {
    let (asked, other) = acts(feature);
    // Of the features that patches bring back, this is the only one that the simulator asks for in every version.
    let brought = feature == Feature::NewFairSleepers && kernel.brought.is_some_and(|all| all.has(feature));
    let asked = if brought { Span::ALL } else { asked };
    match asked {
        Span { since: Some(from), .. } if kernel.version < from => {
            return Some(format!("only kernels from {from} on ask for it"));
        }
        Span { until: Some(to), .. } if kernel.version >= to => {
            return Some(format!("kernels from {to} on no longer ask for it"));
        }
        _ => {}
    }
    let other = other.filter(|o| !kernel.features.has(*o))?;
    Some(format!("it leans on {}, which is off", other.name()))
}

/// Warnings about requested features that are on but do nothing.
pub fn warnings(variant: &str, asked: impl Iterator<Item = Feature>, kernel: &Kernel) -> Vec<Warning> {
    let on = asked.filter(|f| kernel.features.has(*f));
    let told = on.filter_map(|f| Some((f, idle_because(f, kernel)?)));
    let text =
        |(f, why): (Feature, String)| format!("variant '{variant}': {} does nothing here: {why}", f.name());
    told.map(|t| Warning::new("feature.idle", text(t))).collect()
}

/// Tunables that every simulated kernel reads, even before their releases. So timer slack can be tried on a kernel
/// whose timers had none.
const READ_BY_ALL: &[&str] = &["timer_slack_ns"];

/// Why a tunable does nothing in this kernel; `None` if it acts. A tunable that no release has acts in all kernels.
pub fn unread_because(tunable: &str, kernel: &Kernel) -> Option<String> {
    if tunable == CGROUP_MODE && kernel.tunables.cgroup_mode != MODELLED_CGROUP_MODE {
        let known = "our rules have the mode concur alone; backends code and vm have the others";
        return Some(known.to_owned());
    }
    let row = TUNABLES.iter().find(|row| row.name == tunable && !READ_BY_ALL.contains(&row.name))?;
    match row.kernels? {
        Span { since: Some(from), .. } if kernel.version < from => {
            Some(format!("only kernels from {from} on have it"))
        }
        Span { until: Some(to), .. } if kernel.version >= to => {
            Some(format!("kernels from {to} on no longer have it"))
        }
        _ => None,
    }
}

pub fn of_tunables<'a>(
    variant: &str,
    set: impl Iterator<Item = &'a String>,
    kernel: &Kernel,
) -> Vec<Warning> {
    let told = set.filter_map(|name| Some((name, unread_because(name, kernel)?)));
    told.map(|(name, why)| {
        Warning::new("tunable.idle", format!("variant '{variant}': {name} does nothing here: {why}"))
    })
    .collect()
}

/// A warning if only one of the two is given: cutoffs by distance, or the feature that reads them. The O(1) scheduler
/// always reads them.
pub fn of_cutoffs(variant: &str, cost: bool, kernel: &Kernel) -> Option<Warning> {
    if kernel.version < history::went("o1") {
        return None;
    }
    let why = match (cost, kernel.features.has(Feature::SdCacheHot)) {
        (true, false) => "migration_cost does nothing here: only SD_CACHE_HOT reads it since 2.6.23",
        (false, true) => "SD_CACHE_HOT does nothing here: migration_cost gives no cutoffs",
        _ => return None,
    };
    Some(Warning::new("variant.migration_cost", format!("variant '{variant}': {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, PROFILES, Variant};
    use schedlab_base::Ns;

    #[test]
    fn a_tunable_that_the_kernel_lacks_is_reported_even_during_a_run() {
        let set = |kernel: &str, name: &str, later: bool| -> Vec<(String, String)> {
            let mut v = Variant::plain(kernel);
            let tunables = [(name.to_owned(), 1_000_000)].into();
            if later {
                v.at.push(Change { time: Ns::secs(1), tunables, ..Change::default() })
            } else {
                v.tunables = tunables
            }
            v.without_effect().unwrap().into_iter().map(|w| (w.code, w.message)).collect()
        };
        for later in [false, true] {
            let early = set("v6.5", "base_slice_ns", later);
            let text = "variant 'v6.5': base_slice_ns does nothing here: only kernels from v6.6 on have it";
            assert_eq!(early, [("tunable.idle".to_owned(), text.to_owned())]);
            let late = set("v6.12", "sched_latency_ns", later);
            assert!(
                late.len() == 1 && late[0].1.ends_with("kernels from v6.6 on no longer have it"),
                "{late:?}"
            );
            assert_eq!(set("v6.12", "base_slice_ns", later), []);
            assert_eq!(set("v6.5", "sched_latency_ns", later), []);
        }
        assert_eq!(set("v2.6.27", "timer_slack_ns", false), [], "it acts: sleeps take it as their slack");
        let mut v = Variant::plain("v6.12");
        v.tunables = [("probe_batch".to_owned(), 1), ("compat_yield".to_owned(), 1)].into();
        let told = v.without_effect().unwrap();
        assert!(
            told.len() == 1 && told[0].message.contains("compat_yield"),
            "no release has probe_batch: {told:?}"
        );
    }

    fn told(kernel: &str, features: &[&str]) -> Vec<String> {
        let mut v = Variant::plain(kernel);
        v.features = features.iter().map(|f| (*f).to_owned()).collect();
        v.without_effect().unwrap().into_iter().map(|w| w.message).collect()
    }

    #[test]
    fn kernels_ask_for_the_features_they_switch_on() {
        for kernel in PROFILES.iter().map(|p| Kernel::of(p.version)) {
            for f in kernel.features.iter() {
                assert_eq!(idle_because(f, &kernel), None, "{} on {}", f.name(), kernel.version);
            }
        }
    }

    #[test]
    fn a_shortcut_of_the_later_balancer_is_idle_in_an_older_kernel() {
        let text = told("v4.5", &["ILB_UTIL", "ILB_SNAPSHOT", "LB_SG_SCAN"]);
        assert_eq!(text.len(), 2, "both balancers count groups: {text:?}");
        assert_eq!(
            text[1],
            "variant 'v4.5': ILB_UTIL does nothing here: only kernels from v5.5 on ask for it"
        );
        assert_eq!(told("v6.5", &["LB_BIAS"]).len(), 1);
    }

    #[test]
    fn early_features_are_idle_later_and_later_ones_early() {
        assert_eq!(
            told("v4.5", &["NEW_FAIR_SLEEPERS"]),
            [
                "variant 'v4.5': NEW_FAIR_SLEEPERS does nothing here: kernels from v2.6.39 on no longer ask for it"
            ]
        );
        let early = ["ADAPTIVE_GRAN", "ASYM_GRAN", "WAKEUP_OVERLAP", "NORMALIZED_SLEEPER", "SIS_WAKE_IDLE"];
        assert_eq!(told("v3.4", &early).len(), early.len());
        assert_eq!(told("v2.6.30", &early), [""; 0]);
        assert_eq!(told("v3.4", &["AFFINE_WAKEUPS"]), [""; 0]);
        assert_eq!(told("v4.5", &["AFFINE_WAKEUPS"]).len(), 1);
        assert_eq!(told("v2.6.30", &["NEXT_BUDDY"]).len(), 1, "it is always set there");
        assert_eq!(told("v2.6.27", &["LAST_BUDDY"]).len(), 1, "it has none");
        assert_eq!(told("v2.6.30", &["GENTLE_FAIR_SLEEPERS"]), [""; 0], "what 2.6.32 did can be tried");
    }

    #[test]
    fn cfs_and_eevdf_do_not_take_each_others_features() {
        assert_eq!(told("v6.12", &["GENTLE_FAIR_SLEEPERS", "LAST_BUDDY", "START_DEBIT"]).len(), 3);
        assert_eq!(told("v6.5", &["PLACE_LAG", "RUN_TO_PARITY", "HRTICK"]).len(), 3);
        assert_eq!(told("v6.12", &["HRTICK", "NEXT_BUDDY"]), [""; 0]);
        assert_eq!(told("v6.12", &["NO_PICK_BUDDY"]), [""; 0], "its stable series has it");
        assert_eq!(told("v6.6", &["PICK_BUDDY"]).len(), 1, "it came later");
        assert_eq!(told("v6.18", &["NO_DELAY_DEQUEUE", "DELAY_ZERO"]).len(), 1);
    }

    #[test]
    fn the_o1_scheduler_asks_for_searches_and_for_no_rule_of_cfs() {
        let idle = told("v2.6.18", &["NEW_FAIR_SLEEPERS", "LB_BIAS", "START_DEBIT", "ILB_SHARE", "UTIL_EST"]);
        assert_eq!(idle.len(), 5, "{idle:?}");
        assert!(idle[0].ends_with("only kernels from v2.6.23 on ask for it"), "{idle:?}");
        assert_eq!(told("v2.6.12", &["SIS_FIRST_IDLE"]), [""; 0]);
        assert_eq!(told("v2.6.12", &["SIS_WAKE_IDLE"]), [""; 0]);
        let mut v = Variant::plain("v2.6.18");
        v.tunables = [("sched_latency_ns".to_owned(), 1_000_000), ("cache_hot_smp_ns".to_owned(), 0)].into();
        let told = v.without_effect().unwrap();
        assert!(
            told.len() == 1 && told[0].message.contains("sched_latency_ns does nothing here"),
            "{told:?}"
        );
    }

    #[test]
    fn real_time_features_act_where_the_kernel_asks_for_them() {
        assert_eq!(told("v6.1", &["RT_PUSH_IPI", "RT_RUNTIME_SHARE"]), [""; 0]);
        assert_eq!(told("v3.4", &["RT_PUSH_IPI"]).len(), 1, "it came with 4.1");
        assert_eq!(told("v2.6.30", &["RT_RUNTIME_SHARE"]).len(), 1, "it borrows anyway");
        assert_eq!(told("v6.12", &["RT_RUNTIME_SHARE"]).len(), 1, "nothing is throttled");
    }

    #[test]
    fn a_shortcut_leans_on_the_stored_totals() {
        let alone = told("v6.5", &["ILB_FAST"]);
        assert!(alone.len() == 1 && alone[0].contains("leans on ILB_SNAPSHOT"), "{alone:?}");
        assert_eq!(told("v6.5", &["ILB_FAST", "ILB_SNAPSHOT"]), [""; 0]);
        assert_eq!(told("v6.5", &["ILB_UTIL_QUAD", "ILB_SNAPSHOT"]).len(), 1);
    }

    #[test]
    fn features_without_effect_are_reported_once_and_only_if_on() {
        assert_eq!(told("v4.5", &["NO_ILB_UTIL"]), [""; 0]);
        assert_eq!(told("v4.5", &["ILB_UTIL", "NO_ILB_UTIL"]), [""; 0]);
        assert_eq!(told("v4.5", &["ILB_UTIL", "ilb_util"]).len(), 1);
    }
}
