//! Which features act where: every kernel here takes every feature's name, but a mechanism that a kernel's code never
//! asks for, or that leans on another one that is off, does nothing. Who switches such a one on is told so.

use crate::origin::Span;
use crate::{Feature, Kernel};
use schedlab_base::{Version, Warning};

/// What a feature needs to do anything.
struct Need {
    feature: Feature,
    /// Versions whose code asks for it.
    asked: Span,
    /// A feature without which it does nothing.
    other: Option<Feature>,
}

const fn need(feature: Feature, since: Option<Version>, other: Option<Feature>) -> Need {
    Need { feature, asked: Span { since, until: None }, other }
}

/// The balancer that knows groups with spare capacity, on which the newidle RFC builds.
const SPARE_CAPACITY: Version = Version::new(5, 5);
const SPARE: Option<Version> = Some(SPARE_CAPACITY);
/// wake_affine() in three parts (4.14).
const AFFINE: Option<Version> = Some(Version::new(4, 14));

/// EEVDF in the place of CFS (6.6).
const EEVDF: Version = Version::new(6, 6);
/// Delayed dequeue and slices that tasks ask for (6.12).
const DELAYS: Option<Version> = Some(Version::new(6, 12));

/// A feature of versions up to, and not including, one.
const fn until(feature: Feature, to: Version) -> Need {
    Need { feature, asked: Span::until(to), other: None }
}

const NEEDS: &[Need] = &[
    until(Feature::NewFairSleepers, Version::v2_6(39)),
    until(Feature::NormalizedSleeper, Version::v2_6(35)),
    Need {
        feature: Feature::AdaptiveGran,
        asked: Span::between(Version::v2_6(29), Version::v2_6(35)),
        other: None,
    },
    until(Feature::AsymGran, Version::v2_6(35)),
    until(Feature::WakeupOverlap, Version::v2_6(35)),
    until(Feature::AffineWakeups, Version::new(4, 0)),
    until(Feature::SisWakeIdle, Version::v2_6(32)),
    need(Feature::NextBuddy, Some(Version::v2_6(32)), None),
    Need { feature: Feature::LastBuddy, asked: Span::between(Version::v2_6(28), EEVDF), other: None },
    until(Feature::GentleFairSleepers, EEVDF),
    until(Feature::StartDebit, EEVDF),
    until(Feature::AltPeriod, EEVDF),
    until(Feature::BaseSlice, EEVDF),
    need(Feature::PlaceLag, Some(EEVDF), None),
    need(Feature::PlaceDeadlineInitial, Some(EEVDF), None),
    need(Feature::PlaceRelDeadline, DELAYS, None),
    need(Feature::RunToParity, Some(EEVDF), None),
    need(Feature::PreemptShort, DELAYS, None),
    need(Feature::DelayDequeue, DELAYS, None),
    need(Feature::DelayZero, DELAYS, Some(Feature::DelayDequeue)),
    need(Feature::PickBuddy, Some(Version::new(6, 15)), None),
    need(Feature::PreemptLazy, Some(Version::new(6, 13)), None),
    // CFS kernels know it too; only EEVDF's is simulated.
    need(Feature::Hrtick, Some(EEVDF), None),
    until(Feature::LbBias, SPARE_CAPACITY),
    need(Feature::WaIdle, AFFINE, None),
    need(Feature::WaWeight, AFFINE, None),
    need(Feature::WaBias, AFFINE, Some(Feature::WaWeight)),
    need(Feature::SisSkipTarget, None, Some(Feature::SisGroup)),
    need(Feature::SisProp, None, Some(Feature::SisCore)),
    need(Feature::SisUtil, None, Some(Feature::SisCore)),
    need(Feature::SdSharedAll, SPARE, None),
    need(Feature::SdNrGroups, SPARE, None),
    need(Feature::IlbSnapshot, SPARE, None),
    // Both act on the stored totals only.
    need(Feature::IlbUtil, SPARE, Some(Feature::IlbSnapshot)),
    need(Feature::IlbFast, SPARE, Some(Feature::IlbSnapshot)),
    need(Feature::IlbUtilQuad, SPARE, Some(Feature::IlbUtil)),
    need(Feature::IlbShare, SPARE, None),
    need(Feature::SdSharedNuma, SPARE, None),
    need(Feature::UtilEst, Some(Version::new(4, 17)), None),
    // Only the gates that count costs alone throw the dice.
    need(Feature::NiRandom, Some(Version::new(5, 16)), None),
    need(Feature::NiRate, Some(Version::new(5, 16)), Some(Feature::NiRandom)),
];

/// What a feature needs to act in a simulated kernel: versions whose code asks for it, and a feature that must be on too.
pub fn acts(feature: Feature) -> (Span, Option<Feature>) {
    let need = NEEDS.iter().find(|n| n.feature == feature);
    need.map_or((Span::ALL, None), |n| (n.asked, n.other))
}

/// Why a feature, though on, does nothing in this kernel; `None` when it may act.
pub fn idle_because(feature: Feature, kernel: &Kernel) -> Option<String> {
    let (asked, other) = acts(feature);
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

/// Warnings about features that were asked for, are on, and do nothing.
pub fn warnings(variant: &str, asked: impl Iterator<Item = Feature>, kernel: &Kernel) -> Vec<Warning> {
    let on = asked.filter(|f| kernel.features.has(*f));
    let told = on.filter_map(|f| Some((f, idle_because(f, kernel)?)));
    let text =
        |(f, why): (Feature, String)| format!("variant '{variant}': {} does nothing here: {why}", f.name());
    told.map(|t| Warning::new("feature.idle", text(t))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PROFILES, Variant};

    fn told(kernel: &str, features: &[&str]) -> Vec<String> {
        let mut v = Variant::plain(kernel);
        v.features = features.iter().map(|f| (*f).to_owned()).collect();
        v.without_effect().unwrap().into_iter().map(|w| w.message).collect()
    }

    #[test]
    fn what_a_kernel_switches_on_itself_is_what_it_asks_for() {
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
        assert_eq!(told("v6.12", &["PREEMPT_LAZY", "PICK_BUDDY"]).len(), 2, "they came later");
        assert_eq!(told("v6.18", &["NO_DELAY_DEQUEUE", "DELAY_ZERO"]).len(), 1);
    }

    #[test]
    fn a_shortcut_leans_on_the_stored_totals() {
        let alone = told("v6.5", &["ILB_FAST"]);
        assert!(alone.len() == 1 && alone[0].contains("leans on ILB_SNAPSHOT"), "{alone:?}");
        assert_eq!(told("v6.5", &["ILB_FAST", "ILB_SNAPSHOT"]), [""; 0]);
        assert_eq!(told("v6.5", &["ILB_UTIL_QUAD", "ILB_SNAPSHOT"]).len(), 1);
    }

    #[test]
    fn what_is_switched_off_or_asked_for_twice_is_not_told_or_once() {
        assert_eq!(told("v4.5", &["NO_ILB_UTIL"]), [""; 0]);
        assert_eq!(told("v4.5", &["ILB_UTIL", "NO_ILB_UTIL"]), [""; 0]);
        assert_eq!(told("v4.5", &["ILB_UTIL", "ilb_util"]).len(), 1);
    }
}
