//! Features: named mechanisms that can be switched, as in the kernel's own `sched/features`.
//!
//! Each row has the name, the versions with the feature on by default, the releases with it, the owner of the name, the
//! trees in which this was read, and the feature's effect. Releases in the chronology ([`crate::history`]) are taken
//! from there. A feature of the kernel keeps the kernel's name; other rows name the code that they switch. `NO_` before
//! a name switches the feature off. Search features exclude each other: switching one on switches the others off.
//! `schedlab kernel features` and docs/features.md are made from this table.

use crate::history::{came, span, went};
use crate::origin::{Source, Span};
use schedlab_base::{Error, Result, Version};

#[derive(Debug)]
pub struct FeatureRow {
    pub feature: Feature,
    /// Upper case.
    pub name: &'static str,
    /// Its effect, one sentence.
    pub about: &'static str,
    /// Versions with the feature on by default. [`BACKPORTED`] has stable trees that differ.
    pub on: Option<Span>,
    /// Releases that have it; `None`: no release.
    pub kernels: Option<Span>,
    /// Features of the same group exclude each other; "": no group.
    pub group: &'static str,
    /// The owner of the name.
    pub source: Source,
    /// Trees in which this was read: "6.1 to 6.6" means that the change lies between these two.
    pub read: &'static str,
}

macro_rules! features {
    ($($variant:ident, $name:literal, $on:expr, $kernels:expr, $group:literal, $source:expr, $read:literal,
        $about:literal;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Feature { $(#[doc = $about] $variant,)* }

        /// Every feature, in the order of help and docs.
        pub const FEATURES: &[FeatureRow] = &[$(FeatureRow {
            feature: Feature::$variant, name: $name, about: $about, on: $on, kernels: $kernels, group: $group,
            source: $source, read: $read,
        },)*];
    };
}

/// A release from three numbers.
const fn release(v: (u16, u16, u16)) -> Version {
    Version { major: v.0, minor: v.1, patch: v.2 }
}
/// From a release on, without end.
const fn newer(first: (u16, u16, u16)) -> Option<Span> {
    Some(Span::since(release(first)))
}
/// From the first release up to, but not including, the second.
const fn releases(first: (u16, u16, u16), until: (u16, u16, u16)) -> Option<Span> {
    Some(Span::between(release(first), release(until)))
}
/// From a release up to, but not including, the first with a mechanism of the chronology.
const fn before(first: (u16, u16, u16), mechanism: &str) -> Option<Span> {
    Some(Span::between(release(first), came(mechanism)))
}
/// From a release up to, but not including, the first after the end of a mechanism of the chronology.
const fn while_in(first: (u16, u16, u16), mechanism: &str) -> Option<Span> {
    Some(Span::between(release(first), went(mechanism)))
}
/// From the end of a mechanism up to, but not including, the first release with another.
const fn from_end(gone: &str, comes: &str) -> Option<Span> {
    Some(Span::between(went(gone), came(comes)))
}
/// The releases with a mechanism of the chronology.
const fn with(mechanism: &str) -> Option<Span> {
    Some(span(mechanism))
}
/// Never on by default, or in no release.
const NEVER: Option<Span> = None;
/// Owner: the kernel's `sched/features`.
const SCHED: Source = Source::Kernel("");

#[rustfmt::skip]
features! {
    GentleFairSleepers, "GENTLE_FAIR_SLEEPERS", before((2, 6, 32), "eevdf"), before((2, 6, 32), "eevdf"), "", SCHED,
        "2.6.29 to 2.6.32, 6.1 to 6.6",
        "a sleeper is credited half a latency period at wakeup, not a whole one";
    StartDebit, "START_DEBIT", before((2, 6, 24), "eevdf"), before((2, 6, 24), "eevdf"), "", SCHED,
        "6.1 to 6.6; since from memory",
        "a new task starts one slice to the right";
    WakeupPreemption, "WAKEUP_PREEMPTION", newer((2, 6, 24)), newer((2, 6, 24)), "", SCHED,
        "since from memory; WAKEUP_PREEMPT in 2.6.29 to 3.0, renamed before 4.4",
        "a waking task may preempt the running one";
    NextBuddy, "NEXT_BUDDY", NEVER, newer((2, 6, 32)), "", SCHED,
        "2.6.29 to 2.6.32",
        "a waking task that did not preempt is picked next";
    LastBuddy, "LAST_BUDDY", from_end("next-buddy-only", "eevdf"), from_end("next-buddy-only", "eevdf"), "", SCHED,
        "6.1 to 6.6; since from memory, 2.6.29 has it",
        "a preempted task is picked again when the preemptor sleeps";
    CacheHotBuddy, "CACHE_HOT_BUDDY", newer((2, 6, 26)), newer((2, 6, 26)), "", SCHED,
        "since from memory, 2.6.29 has it",
        "the balancer treats buddies as cache hot";
    LbBias, "LB_BIAS", releases((2, 6, 28), (4, 20, 0)), releases((2, 6, 27), (5, 3, 0)), "", SCHED,
        "4.4 to 5.4; since and the releases with it off from memory",
        "the balancer reads loads low for sources and high for targets";
    TtwuQueue, "TTWU_QUEUE", newer((2, 6, 39)), newer((2, 6, 39)), "", SCHED,
        "2.6.35 to 3.0",
        "a wakeup across caches is queued on the target CPU's wake list";
    AltPeriod, "ALT_PERIOD", before((5, 13, 0), "eevdf"), before((5, 13, 0), "eevdf"), "", SCHED,
        "5.11 to 5.14, 6.5 to 6.8; since from memory",
        "the slice's period counts all tasks of the runqueue";
    BaseSlice, "BASE_SLICE", before((5, 13, 0), "eevdf"), before((5, 13, 0), "eevdf"), "", SCHED,
        "5.11 to 5.14, 6.5 to 6.8; since from memory",
        "no slice is shorter than min_granularity";
    WaIdle, "WA_IDLE", with("affine-by-idleness"), with("affine-by-idleness"), "", SCHED,
        "4.4 has it not, 4.15 has it; since from memory",
        "wake_affine prefers whichever of waker's and previous CPU is idle";
    WaWeight, "WA_WEIGHT", with("affine-by-idleness"), with("affine-by-idleness"), "", SCHED,
        "4.4 has it not, 4.15 has it; since from memory",
        "wake_affine compares the loads of waker's and previous CPU";
    WaBias, "WA_BIAS", with("affine-by-idleness"), with("affine-by-idleness"), "", SCHED,
        "4.4 has it not, 4.15 has it; since from memory",
        "wake_affine leans to the waker's CPU by half the imbalance_pct";
    SisGroup, "SIS_GROUP", before((2, 6, 32), "core-search"), before((2, 6, 32), "core-search"), "search", Source::Ours("select_idle_sibling() of those releases"),
        "3.4, 3.19, 4.9; since from memory",
        "search group by group for one whose CPUs are all idle (before 4.9)";
    SisFirstIdle, "SIS_FIRST_IDLE", NEVER, NEVER, "search", Source::Ours("Chris Mason's select_idle_sibling experiments of 2016"),
        "the patch",
        "search the cache domain in ascending CPU number and take the first idle one";
    SisCore, "SIS_CORE", with("core-search"), with("core-search"), "search", Source::Ours("select_idle_core(), select_idle_cpu(), select_idle_smt()"),
        "4.9, 6.1",
        "search for an idle core, then an idle CPU, then an idle sibling (4.9 and later)";
    SisIdleCfsRq, "SIS_IDLE_CFS_RQ", NEVER, NEVER, "", Source::Ours("Srivatsa Vaddagiri's patch of 2012, select_idle_cfs_rq()"),
        "the patch",
        "where no idle CPU was found, a task goes to the lowest-numbered CPU of the cache where its group has nothing queued";
    SisIdleCfsRqLeast, "SIS_IDLE_CFS_RQ_LEAST", NEVER, NEVER, "", Source::Ours("a variant of SIS_IDLE_CFS_RQ"),
        "no kernel has it",
        "SIS_IDLE_CFS_RQ takes the least loaded of these CPUs instead of the lowest-numbered";
    SisIdleCfsRqPrev, "SIS_IDLE_CFS_RQ_PREV", NEVER, NEVER, "", Source::Ours("a variant of SIS_IDLE_CFS_RQ"),
        "no kernel has it",
        "SIS_IDLE_CFS_RQ starts at the task's previous CPU instead of at the lowest-numbered";
    SisSkipTarget, "SIS_SKIP_TARGET", before((3, 9, 0), "core-search"), before((3, 9, 0), "core-search"), "", Source::Ours("a test of select_idle_sibling()"),
        "3.4 to 3.19, 4.9; since from memory",
        "the group search passes over the target's own group (the 'i == target' test)";
    SisProp, "SIS_PROP", releases((4, 13, 0), (6, 0, 0)), releases((4, 13, 0), (6, 7, 0)), "", SCHED,
        "4.4 has it not, 4.15 to 5.19 have it on, 6.0 off; since from memory",
        "limit the idle CPU search by average idle and scan time";
    SisUtil, "SIS_UTIL", newer((6, 0, 0)), newer((6, 0, 0)), "", SCHED,
        "5.19 to 6.0",
        "limit the idle CPU search by the cache domain's utilisation";
    SdSharedAll, "SD_SHARED_ALL", NEVER, NEVER, "", Source::Ours("Chen Yu's newidle RFC of 2023, 1/7"),
        "the patch",
        "shared state on every domain below NUMA, not only those of one cache";
    SdNrGroups, "SD_NR_GROUPS", NEVER, NEVER, "", Source::Ours("Chen Yu's newidle RFC of 2023, 2/7"),
        "the patch",
        "domains know how many groups they have";
    IlbSnapshot, "ILB_SNAPSHOT", NEVER, NEVER, "", Source::Patch("Chen Yu's newidle RFC of 2023, 3/7"),
        "the patch",
        "periodic passes leave the domain's load and capacity for newidle passes";
    IlbUtil, "ILB_UTIL", NEVER, NEVER, "", Source::Patch("Chen Yu's newidle RFC of 2023, 4/7 and 5/7"),
        "the patch",
        "newidle passes read fewer groups the busier the domain is";
    IlbFast, "ILB_FAST", NEVER, NEVER, "", Source::Patch("Chen Yu's newidle RFC of 2023, 6/7"),
        "the patch",
        "newidle passes stop at the first group that has something to give";
    LbSgScan, "LB_SG_SCAN", NEVER, NEVER, "", Source::Ours("Chen Yu's newidle RFC of 2023, 7/7"),
        "the patch",
        "schedstat counts the groups that passes read";
    IlbUtilQuad, "ILB_UTIL_QUAD", NEVER, NEVER, "", Source::Ours(""),
        "no kernel has it",
        "ILB_UTIL's depth follows the square law that SIS_UTIL computes, not a straight line";
    IlbShare, "ILB_SHARE", NEVER, NEVER, "", Source::Ours(""),
        "no kernel has it",
        "a newidle pass takes group statistics that another CPU has just gathered";
    SdSharedNuma, "SD_SHARED_NUMA", NEVER, NEVER, "", Source::Ours("the first version of Chen Yu's newidle RFC of 2023"),
        "no kernel has it",
        "shared state on NUMA domains too";
    UtilEst, "UTIL_EST", newer((4, 17, 0)), newer((4, 17, 0)), "", SCHED,
        "4.15 to 5.4; since from memory",
        "utilisation counts what runnable tasks used when they last slept";
    NewFairSleepers, "NEW_FAIR_SLEEPERS", before((2, 6, 24), "credits-sleepers"), before((2, 6, 24), "credits-sleepers"), "", SCHED,
        "2.6.35 to 3.0; since from memory; FAIR_SLEEPERS in 2.6.35",
        "a sleeper is credited a latency period at wakeup, half of one with GENTLE_FAIR_SLEEPERS";
    NormalizedSleeper, "NORMALIZED_SLEEPER", releases((2, 6, 26), (2, 6, 30)), releases((2, 6, 26), (2, 6, 35)), "", SCHED,
        "2.6.29, 2.6.32 to 2.6.35; off since 2.6.30 and since when it exists from memory",
        "the credit of NEW_FAIR_SLEEPERS is virtual time of the sleeper's weight, not real time (before 2.6.32)";
    AdaptiveGran, "ADAPTIVE_GRAN", releases((2, 6, 29), (2, 6, 35)), releases((2, 6, 29), (2, 6, 35)), "", SCHED,
        "2.6.32 to 2.6.35; since from memory",
        "the wakeup granularity shrinks for tasks that wake others soon, and as the running one has run";
    AsymGran, "ASYM_GRAN", releases((2, 6, 26), (2, 6, 35)), releases((2, 6, 26), (2, 6, 35)), "", SCHED,
        "2.6.32 to 2.6.35; since from memory",
        "the wakeup granularity is scaled by the wakee's weight, not by the running task's";
    WakeupOverlap, "WAKEUP_OVERLAP", NEVER, releases((2, 6, 28), (2, 6, 35)), "", SCHED,
        "2.6.32 to 2.6.35; since from memory",
        "tasks whose run overlaps little with those they wake preempt at once (before 2.6.35)";
    AffineWakeups, "AFFINE_WAKEUPS", before((2, 6, 24), "always-affine"), before((2, 6, 24), "always-affine"), "", SCHED,
        "3.0 to 4.4; since and the release from memory",
        "a waking task may be pulled to the waker's CPU";
    Hrtick, "HRTICK", newer((7, 0, 0)), newer((2, 6, 25)), "", SCHED,
        "since from memory, 2.6.29 has it; off in 6.12, on in 7.3",
        "a timer ends slices between ticks";
    PlaceLag, "PLACE_LAG", with("eevdf"), with("eevdf"), "", SCHED,
        "6.1 to 6.6",
        "a task that is placed gets back the lag it left with";
    PlaceDeadlineInitial, "PLACE_DEADLINE_INITIAL", with("eevdf"), with("eevdf"), "", SCHED,
        "6.1 to 6.6",
        "a new task's first deadline is half a slice away";
    PlaceRelDeadline, "PLACE_REL_DEADLINE", newer((6, 12, 0)), newer((6, 12, 0)), "", SCHED,
        "6.11 to 6.12.117; a later stable 6.6 backported it",
        "a task that is moved while runnable keeps its distance to its deadline";
    RunToParity, "RUN_TO_PARITY", with("eevdf"), with("eevdf"), "", SCHED,
        "6.1 to 6.6",
        "the running task is left alone until its slice is used up or no longer protected";
    PreemptShort, "PREEMPT_SHORT", newer((6, 12, 0)), newer((6, 12, 0)), "", SCHED,
        "6.6 to 6.12",
        "a waking task with a shorter slice may break the protection of RUN_TO_PARITY";
    PickBuddy, "PICK_BUDDY", newer((6, 14, 0)), newer((6, 14, 0)), "", SCHED,
        "6.11 has it not, 6.14 has it, and 6.12.117 by backport",
        "an eligible buddy is picked before earlier deadlines";
    DelayDequeue, "DELAY_DEQUEUE", newer((6, 12, 0)), newer((6, 12, 0)), "", SCHED,
        "6.6 to 6.12",
        "a task that sleeps with negative lag stays queued until it has worked that off";
    DelayZero, "DELAY_ZERO", newer((6, 12, 0)), newer((6, 12, 0)), "", SCHED,
        "6.6 to 6.12",
        "a task whose dequeue was delayed keeps no positive lag";
    NiRandom, "NI_RANDOM", newer((6, 12, 0)), newer((6, 19, 0)), "", SCHED,
        "from memory; 6.1.192 and 6.12.117 backported it, so that profiles v6.1 and v6.12 have it",
        "newidle passes over a domain are made at random; the more often they pulled something, the more are made";
    NiRate, "NI_RATE", newer((7, 2, 0)), newer((7, 2, 0)), "", SCHED,
        "7.0 has it not, 7.2.12 and 7.3.4 have it",
        "with NI_RANDOM, a CPU that seldom goes idle makes more of these passes";
    SdCacheHot, "SD_CACHE_HOT", NEVER, NEVER, "", Source::Ours("cache_hot_time of the domains before 2.6.23"),
        "2.6.12, 2.6.18",
        "the balancer takes a task as cache hot for the time of the domain (migration_cost), not for migration_cost_ns";
    SisWakeIdle, "SIS_WAKE_IDLE", while_in((2, 6, 12), "passive-wakeups"), while_in((2, 6, 12), "passive-wakeups"), "search", Source::Ours("wake_idle() and SD_WAKE_IDLE"),
        "2.6.12, 2.6.18, 2.6.30; the last release from memory",
        "search domains with SD_WAKE_IDLE for an idle CPU, if the previous one is not crowded (before 2.6.32)";
    VcpuPack, "VCPU_PACK", NEVER, NEVER, "", Source::Ours("a host's guest kernels, started with sched_vcpu_pack="),
        "a command line, not the code",
        "a wakeup stays on its busy target while that has room, so that no halted CPU is woken (guest kernels with sched_vcpu_pack=)";
    RtPushIpi, "RT_PUSH_IPI", releases((4, 1, 0), (7, 2, 0)), newer((4, 1, 0)), "", SCHED,
        "since from memory; off in 7.3 and, backported, in 6.1.192 and 6.12.117, so that profiles v6.1 and v6.12 have it off; PREEMPT_RT has it on",
        "a CPU that runs out of important real-time tasks asks those with too many, one after another by IPI, to push; off: it takes them itself";
    RtRuntimeShare, "RT_RUNTIME_SHARE", releases((3, 2, 0), (5, 10, 0)), newer((3, 2, 0)), "", SCHED,
        "since from memory, 3.1 does not have it; on in 5.4, off in 5.10",
        "real-time tasks beyond their CPU's share run on what other CPUs have not used (before 6.12)";
}

impl Feature {
    pub fn row(self) -> &'static FeatureRow {
        &FEATURES[self as usize]
    }
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// The feature with that name, in any case.
    ///
    /// # Errors
    /// When there is none; the error offers the nearest name.
    pub fn parse(name: &str) -> Result<Feature> {
        FEATURES
            .iter()
            .find(|r| r.name.eq_ignore_ascii_case(name))
            .map(|r| r.feature)
            .ok_or_else(|| Error::unknown("feature", name, FEATURES.iter().map(|r| r.name)))
    }
}

/// Records store it by name (`stored.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FeatureSet(u64);

const _: () = assert!(FEATURES.len() <= 64);

/// Defaults that a stable tree backported from later kernels, by the profile used for the tree.
///
/// NI_RANDOM came with 6.19. 6.1.192 has it, 6.5 does not. 6.12.107 and later trees have it, too; the table takes them
/// for their releases. 7.2 switched RT_PUSH_IPI off; 6.1.192 and 6.12.117 have it off.
pub const BACKPORTED: &[(Feature, Version, bool)] = &[
    (Feature::NiRandom, Version::new(6, 1), true),
    (Feature::RtPushIpi, Version::new(6, 1), false),
    (Feature::RtPushIpi, Version::new(6, 12), false),
    (Feature::PickBuddy, Version::new(6, 12), true),
];

impl FeatureSet {
    pub fn defaults(version: Version) -> FeatureSet {
        let on = |r: &&FeatureRow| {
            let tree = BACKPORTED.iter().find(|(feature, of, _)| (*feature, *of) == (r.feature, version));
            tree.map_or_else(|| r.on.is_some_and(|span| span.has(version)), |(_, _, on)| *on)
        };
        FEATURES.iter().filter(on).map(|r| r.feature).collect()
    }
    #[inline]
    pub fn has(self, f: Feature) -> bool {
        self.0 >> f as u8 & 1 == 1
    }
    /// Switches a feature; switching one on switches the others of its group off.
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

impl FromIterator<Feature> for FeatureSet {
    /// Exactly these features; exclusive groups are not checked.
    fn from_iter<T: IntoIterator<Item = Feature>>(features: T) -> FeatureSet {
        FeatureSet(features.into_iter().fold(0, |set, f| set | 1 << f as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_features_number() {
        for (i, row) in FEATURES.iter().enumerate() {
            assert_eq!(row.feature as usize, i, "{}", row.name);
            assert_eq!(Feature::parse(row.name).unwrap(), row.feature);
        }
    }

    #[test]
    fn nothing_is_on_in_a_release_that_does_not_have_it() {
        for row in FEATURES.iter().filter(|r| !BACKPORTED.iter().any(|(f, _, on)| *on && *f == r.feature)) {
            let Some(on) = row.on else { continue };
            let kernels = row.kernels.unwrap_or_else(|| panic!("{} is on in no release", row.name));
            assert!(kernels.since <= on.since, "{} is on before it is there", row.name);
            let gone = kernels.until.is_none_or(|gone| on.until.is_some_and(|off| off <= gone));
            assert!(gone, "{} is on when it is gone", row.name);
        }
    }

    #[test]
    fn every_row_says_where_it_was_read_and_a_patch_is_in_no_release() {
        for row in FEATURES {
            assert!(!row.read.is_empty() && !row.about.contains("D0"), "{}", row.name);
            let patch = matches!(row.source, Source::Patch(_));
            assert!(!(patch && row.kernels.is_some()), "{}", row.name);
            assert!(!(row.source == SCHED && row.kernels.is_none()), "{}", row.name);
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
        let rt = |f: Feature| {
            ["v3.4", "v4.5", "v5.10", "v6.1", "v6.5", "v6.12", "v7.3"]
                .map(|v| on(Version::parse(v).unwrap(), f))
        };
        assert_eq!(rt(Feature::RtPushIpi), [false, true, true, false, true, false, false]);
        assert_eq!(rt(Feature::RtRuntimeShare), [true, true, false, false, false, false, false]);
        assert!(!on(v30, Feature::RtRuntimeShare), "it borrows without being asked");
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
