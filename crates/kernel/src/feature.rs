//! Features: named mechanisms that can be switched, as in the kernel's own `sched/features`.
//!
//! One row each: name, what it does, where its default comes from. A row whose name the kernel itself has keeps the
//! kernel's name; rows of ours (placement searches that the kernel chose by version) are marked `ours`. `NO_` before a
//! name switches it off. A search feature excludes the other searches: switching one on switches the others off.

use schedlab_base::{Error, Result, Version};
use serde::{Deserialize, Serialize};

/// A feature as the table has it.
#[derive(Debug)]
pub struct FeatureRow {
    /// The feature.
    pub feature: Feature,
    /// Its name, upper case.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Versions for which it is on by default: from, and up to but not including.
    pub on: Option<(Version, Option<Version>)>,
    /// Features of the same non-empty group exclude each other.
    pub group: &'static str,
    /// Whether the name is schedlab's and not the kernel's.
    pub ours: bool,
}

macro_rules! features {
    ($($variant:ident, $name:literal, $on:expr, $group:literal, $ours:literal, $about:literal;)*) => {
        /// A switchable mechanism of the fair class.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Feature { $(#[doc = $about] $variant,)* }

        /// Every feature; the row number is the bit in a [`FeatureSet`].
        pub const FEATURES: &[FeatureRow] = &[$(FeatureRow {
            feature: Feature::$variant, name: $name, about: $about, on: $on, group: $group, ours: $ours,
        },)*];
    };
}

/// On from `major.minor`, for good.
const fn since(major: u16, minor: u16) -> Option<(Version, Option<Version>)> {
    Some((Version::new(major, minor), None))
}
/// On from the first version up to but not including the second.
const fn between(a: (u16, u16), b: (u16, u16)) -> Option<(Version, Option<Version>)> {
    Some((Version::new(a.0, a.1), Some(Version::new(b.0, b.1))))
}
const ALWAYS: Option<(Version, Option<Version>)> = Some((Version::v2_6(23), None));
const CFS_ONLY: Option<(Version, Option<Version>)> = Some((Version::v2_6(24), Some(Version::new(6, 6))));
/// On from `v2.6.from` up to but not including the second version.
const fn early(from: u16, to: Version) -> Option<(Version, Option<Version>)> {
    Some((Version::v2_6(from), Some(to)))
}
const OFF: Option<(Version, Option<Version>)> = None;

features! {
    GentleFairSleepers, "GENTLE_FAIR_SLEEPERS", Some((Version::v2_6(32), Some(Version::new(6, 6)))), "", false,
        "a sleeper is credited half a latency period at wakeup, not a whole one";
    StartDebit, "START_DEBIT", CFS_ONLY, "", false, "a new task starts one slice to the right";
    WakeupPreemption, "WAKEUP_PREEMPTION", ALWAYS, "", false, "a waking task may preempt the running one";
    NextBuddy, "NEXT_BUDDY", OFF, "", false, "a waking task that did not preempt is picked next";
    LastBuddy, "LAST_BUDDY", Some((Version::v2_6(28), Some(Version::new(6, 6)))), "", false,
        "a preempted task is picked again when the preemptor sleeps";
    CacheHotBuddy, "CACHE_HOT_BUDDY", ALWAYS, "", false, "the balancer treats buddies as cache hot";
    LbBias, "LB_BIAS", Some((Version::v2_6(28), Some(Version::new(5, 0)))), "", false,
        "the balancer reads loads low for sources and high for targets";
    TtwuQueue, "TTWU_QUEUE", Some((Version::v2_6(39), None)), "", false,
        "a wakeup across caches is queued on the target CPU's wake list";
    AltPeriod, "ALT_PERIOD", between((5, 13), (6, 6)), "", false, "the slice's period counts all tasks of the runqueue";
    BaseSlice, "BASE_SLICE", between((5, 13), (6, 6)), "", false, "no slice is shorter than min_granularity";
    WaIdle, "WA_IDLE", since(4, 14), "", false, "wake_affine prefers whichever of waker's and previous CPU is idle";
    WaWeight, "WA_WEIGHT", since(4, 14), "", false, "wake_affine compares the loads of waker's and previous CPU";
    WaBias, "WA_BIAS", since(4, 14), "", false, "wake_affine leans to the waker's CPU by half the imbalance_pct";
    SisGroup, "SIS_GROUP", early(32, Version::new(4, 9)), "search", true,
        "search group by group for one whose CPUs are all idle (before 4.9)";
    SisFirstIdle, "SIS_FIRST_IDLE", OFF, "search", true,
        "search the cache domain in ascending CPU number and take the first idle one (D000)";
    SisCore, "SIS_CORE", since(4, 9), "search", true,
        "search for an idle core, then an idle CPU, then an idle sibling (4.9 and later)";
    SisSkipTarget, "SIS_SKIP_TARGET", between((3, 9), (4, 9)), "", true,
        "the group search passes over the target's own group (the 'i == target' test)";
    SisProp, "SIS_PROP", between((4, 13), (6, 0)), "", false, "limit the idle CPU search by average idle and scan time";
    SisUtil, "SIS_UTIL", since(6, 0), "", false, "limit the idle CPU search by the cache domain's utilisation";
    SdSharedAll, "SD_SHARED_ALL", OFF, "", true,
        "shared state on every domain below NUMA, not only those of one cache (D001, 1/7)";
    SdNrGroups, "SD_NR_GROUPS", OFF, "", true, "domains know how many groups they have (D001, 2/7)";
    IlbSnapshot, "ILB_SNAPSHOT", OFF, "", false,
        "periodic passes leave the domain's load and capacity for newidle passes (D001, 3/7)";
    IlbUtil, "ILB_UTIL", OFF, "", false,
        "newidle passes read fewer groups the busier the domain is (D001, 4/7 and 5/7)";
    IlbFast, "ILB_FAST", OFF, "", false, "newidle passes stop at the first group that has something to give (D001, 6/7)";
    LbSgScan, "LB_SG_SCAN", OFF, "", true, "schedstat counts the groups that passes read (D001, 7/7)";
    IlbUtilQuad, "ILB_UTIL_QUAD", OFF, "", true,
        "ILB_UTIL's depth follows the square law that SIS_UTIL computes, not a straight line";
    IlbShare, "ILB_SHARE", OFF, "", true,
        "a newidle pass takes group statistics that another CPU has just gathered";
    SdSharedNuma, "SD_SHARED_NUMA", OFF, "", true,
        "shared state on NUMA domains too, as in the first version of D001";
    UtilEst, "UTIL_EST", since(4, 17), "", false,
        "utilisation counts what runnable tasks used when they last slept";
    NewFairSleepers, "NEW_FAIR_SLEEPERS", early(24, Version::v2_6(39)), "", false,
        "a sleeper is credited a latency period at wakeup, half of one with GENTLE_FAIR_SLEEPERS (D004)";
    NormalizedSleeper, "NORMALIZED_SLEEPER", OFF, "", false,
        "that credit is virtual time of the sleeper's weight, not real time (before 2.6.32)";
    AdaptiveGran, "ADAPTIVE_GRAN", early(29, Version::v2_6(35)), "", false,
        "the wakeup granularity shrinks for tasks that wake others soon, and as the running one has run";
    AsymGran, "ASYM_GRAN", early(26, Version::v2_6(35)), "", false,
        "the wakeup granularity is scaled by the wakee's weight, not by the running task's";
    WakeupOverlap, "WAKEUP_OVERLAP", OFF, "", false,
        "tasks whose run overlaps little with those they wake preempt at once (before 2.6.35)";
    AffineWakeups, "AFFINE_WAKEUPS", early(24, Version::new(4, 0)), "", false,
        "a waking task may be pulled to the waker's CPU";
    Hrtick, "HRTICK", since(7, 0), "", false, "a timer ends slices between ticks";
    PlaceLag, "PLACE_LAG", since(6, 6), "", false, "a task that is placed gets back the lag it left with";
    PlaceDeadlineInitial, "PLACE_DEADLINE_INITIAL", since(6, 6), "", false,
        "a new task's first deadline is half a slice away";
    PlaceRelDeadline, "PLACE_REL_DEADLINE", since(6, 12), "", false,
        "a task that is moved while runnable keeps its distance to its deadline";
    RunToParity, "RUN_TO_PARITY", since(6, 6), "", false,
        "the running task is left alone until its slice is used up or no longer protected";
    PreemptShort, "PREEMPT_SHORT", since(6, 12), "", false,
        "a waking task with a shorter slice may break that protection";
    PickBuddy, "PICK_BUDDY", since(6, 15), "", false, "an eligible buddy is picked before earlier deadlines";
    DelayDequeue, "DELAY_DEQUEUE", since(6, 12), "", false,
        "a task that sleeps with negative lag stays queued until it has worked that off";
    DelayZero, "DELAY_ZERO", since(6, 12), "", false,
        "a task that was so delayed keeps no positive lag";
    PreemptLazy, "PREEMPT_LAZY", since(7, 0), "", true,
        "the lazy preemption model: fair preemptions wait for the next tick or the return to user mode";
    NiRandom, "NI_RANDOM", since(6, 12), "", false,
        "newidle passes over a domain are made by dice, weighted with how often they pulled something";
    NiRate, "NI_RATE", since(7, 0), "", false,
        "those dice are kinder to CPUs that seldom go idle";
    SisWakeIdle, "SIS_WAKE_IDLE", early(23, Version::v2_6(32)), "search", true,
        "search domains with SD_WAKE_IDLE for an idle CPU, if the previous one is not crowded (before 2.6.32)";
    VcpuPack, "VCPU_PACK", OFF, "", true,
        "a wakeup stays on its busy target while that has room, so that no halted CPU is woken (guest kernels with sched_vcpu_pack=)";
}

impl Feature {
    /// The feature's row.
    pub fn row(self) -> &'static FeatureRow {
        &FEATURES[self as usize]
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// The feature of that name, in any case.
    ///
    /// # Errors
    /// When there is none; the nearest name is offered.
    pub fn parse(name: &str) -> Result<Feature> {
        FEATURES
            .iter()
            .find(|r| r.name.eq_ignore_ascii_case(name))
            .map(|r| r.feature)
            .ok_or_else(|| Error::unknown("feature", name, FEATURES.iter().map(|r| r.name)))
    }
}

/// A set of features, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeatureSet(u64);

const _: () = assert!(FEATURES.len() <= 64);

/// What a stable tree took back from later kernels: on there, though its release never had it. NI_RANDOM came with 6.19;
/// 6.1.192 has it (as have 6.12.107 and the later trees, which the table takes for their releases), 6.5 has not.
const TAKEN_BACK: &[(Feature, Version)] = &[(Feature::NiRandom, Version::new(6, 1))];

impl FeatureSet {
    /// The defaults of a kernel version.
    pub fn defaults(version: Version) -> FeatureSet {
        let on = |r: &&FeatureRow| {
            r.on.is_some_and(|(from, to)| from <= version && to.is_none_or(|to| version < to))
                || TAKEN_BACK.contains(&(r.feature, version))
        };
        FEATURES.iter().filter(on).fold(FeatureSet(0), |set, r| FeatureSet(set.0 | 1 << r.feature as u8))
    }
    /// Whether the feature is on.
    #[inline]
    pub fn has(self, f: Feature) -> bool {
        self.0 >> f as u8 & 1 == 1
    }
    /// Switches a feature; switching on one of an exclusive group switches the others of it off.
    pub fn switch(&mut self, f: Feature, on: bool) {
        if on && !f.row().group.is_empty() {
            for other in FEATURES.iter().filter(|r| r.group == f.row().group) {
                self.0 &= !(1 << other.feature as u8);
            }
        }
        self.0 = self.0 & !(1 << f as u8) | u64::from(on) << f as u8;
    }
    /// Features that are on, in table order.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        FEATURES.iter().map(|r| r.feature).filter(move |f| self.has(*f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_own_bit() {
        for (i, row) in FEATURES.iter().enumerate() {
            assert_eq!(row.feature as usize, i, "{}", row.name);
            assert_eq!(Feature::parse(row.name).unwrap(), row.feature);
        }
    }

    #[test]
    fn defaults_follow_the_eras() {
        let (v34, v45, v65) = (Version::new(3, 4), Version::new(4, 5), Version::new(6, 5));
        let on = |v, f| FeatureSet::defaults(v).has(f);
        assert!(on(v34, Feature::SisGroup) && !on(v34, Feature::SisSkipTarget));
        let v30 = Version::v2_6(30);
        assert!(
            on(v30, Feature::SisWakeIdle) && !on(v30, Feature::SisGroup) && !on(v34, Feature::SisWakeIdle)
        );
        assert!(on(v30, Feature::NewFairSleepers) && !on(v30, Feature::GentleFairSleepers));
        assert!(on(v30, Feature::AdaptiveGran) && !on(Version::v2_6(27), Feature::AdaptiveGran));
        assert!(on(v45, Feature::SisGroup) && on(v45, Feature::SisSkipTarget) && !on(v45, Feature::WaIdle));
        assert!(on(v65, Feature::SisCore) && on(v65, Feature::SisUtil) && !on(v65, Feature::SisProp));
        assert!(on(v65, Feature::UtilEst) && !on(Version::new(4, 16), Feature::UtilEst));
        let ni = |v: &str| on(Version::parse(v).unwrap(), Feature::NiRandom);
        assert_eq!(["v5.15", "v6.1", "v6.5", "v6.12", "v7.3"].map(ni), [false, true, false, true, true]);
        assert!(on(v65, Feature::BaseSlice) && !on(v45, Feature::BaseSlice) && on(v45, Feature::LastBuddy));
    }

    #[test]
    fn one_search_at_a_time() {
        let mut set = FeatureSet::defaults(Version::new(4, 5));
        set.switch(Feature::SisFirstIdle, true);
        assert!(set.has(Feature::SisFirstIdle) && !set.has(Feature::SisGroup));
        set.switch(Feature::SisFirstIdle, false);
        assert!(!set.has(Feature::SisFirstIdle) && !set.has(Feature::SisGroup), "off means no search at all");
    }
}
