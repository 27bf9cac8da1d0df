//! Chooses between the waker's CPU and the previous CPU as the target (`wake_affine`).
//!
//! Up to 4.13 load decides: may the wakee join the waker's CPU without making it much busier than the previous one?
//! Since 4.14 the kernel compares idleness first (WA_IDLE), then load (WA_WEIGHT, with the bias of WA_BIAS). Loads are
//! weights or load averages, as in the kernel's runqueues; the caller adjusts them for groups, since it knows the
//! hierarchy. The choice is made only if a domain with SD_WAKE_AFFINE holds both CPUs and [`super::wide`] does not
//! object.

use schedlab_kernel::{Feature, FeatureSet, History};
use schedlab_trace::AffineReason;

/// The CPU that becomes the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AffineChoice {
    /// The CPU that runs the wakeup.
    Waker,
    /// The CPU the task ran on last.
    Prev,
}

/// The facts of the choice. "This" CPU is the waker's.
#[derive(Clone, Copy, Debug)]
pub struct AffineFacts<'a> {
    /// The kernel's mechanisms.
    pub history: &'a History,
    /// Features; WA_IDLE, WA_WEIGHT and WA_BIAS are not used before 4.14.
    pub features: FeatureSet,
    /// Whether the waker is about to sleep (WF_SYNC).
    pub sync: bool,
    /// Whether this CPU is idle, because the wakeup comes from an interrupt.
    pub this_idle: bool,
    /// Whether the previous CPU is idle.
    pub prev_idle: bool,
    /// Whether the two share their last-level cache.
    pub shares_cache: bool,
    /// Runnable tasks on this CPU.
    pub this_nr_running: u32,
    /// Load of this CPU: up to 4.13 the higher estimate (`target_load` at the domain's `wake_idx`), then its average.
    pub this_load: u64,
    /// Load of the previous CPU: up to 4.13 the lower estimate (`source_load` at `wake_idx`), then its average.
    pub prev_load: u64,
    /// Higher estimate of the previous CPU's load, for the second test of kernels before 3.18.
    pub prev_target_load: u64,
    /// Average load per runnable task on this CPU, for the same test.
    pub this_load_per_task: u64,
    /// Load that leaves this CPU when the waker sleeps (`task_h_load`).
    pub current_load: u64,
    /// Load that the wakee adds to this CPU (`task_h_load`).
    pub wakee_load: u64,
    /// How both change the two CPUs' loads, with groups taken into account, up to 4.13.
    pub effects: Effects,
    pub this_capacity: u64,
    /// Capacity of the previous CPU.
    pub prev_capacity: u64,
    pub imbalance_pct: u64,
}

/// Changes of load by a wakeup (`effective_load`). A group divides its weight, so a task that joins one CPU also
/// reduces the group's part on the other. Without groups, this CPU's load changes by the task's, and the previous one's
/// does not change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// Change of this CPU's load when a waker that is about to sleep leaves.
    pub waker_on_this: i64,
    /// Change of the previous CPU's load for the same reason.
    pub waker_on_prev: i64,
    /// Change of this CPU's load when the wakee joins it.
    pub wakee_on_this: i64,
    /// Change of the previous CPU's load when the wakee joins this one.
    pub wakee_on_prev: i64,
}

/// The target of a wakeup, and why.
pub fn wake_affine(f: &AffineFacts<'_>) -> (AffineChoice, AffineReason) {
    if !f.history.affine_by_idleness {
        by_loads(f)
    } else {
        by_idleness(f).or_else(|| by_weight(f)).unwrap_or((AffineChoice::Prev, AffineReason::Neither))
    }
}

/// Half of what the domain calls an imbalance.
fn lean(imbalance_pct: u64) -> i128 {
    100 + (i128::from(imbalance_pct) - 100) / 2
}

/// Up to 4.13: each CPU's load times, with `affine_by_capacity`, the *other* CPU's capacity; then a waker's CPU without
/// load is taken without a comparison.
fn by_loads(f: &AffineFacts<'_>) -> (AffineChoice, AffineReason) {
    let (this_leaves, prev_leaves) =
        if f.sync { (f.effects.waker_on_this, f.effects.waker_on_prev) } else { (0, 0) };
    let this_load = i128::from(f.this_load) + i128::from(this_leaves);
    let prev_load = i128::from(f.prev_load) + i128::from(prev_leaves);
    let scaled = f.history.affine_by_capacity;
    let (this_capacity, prev_capacity) = if scaled { (f.this_capacity, f.prev_capacity) } else { (1, 1) };
    let mut this_eff = 100 * i128::from(prev_capacity);
    let mut prev_eff = lean(f.imbalance_pct) * i128::from(this_capacity);
    if this_load > 0 || !scaled {
        this_eff *= this_load + i128::from(f.effects.wakee_on_this);
        prev_eff *= prev_load + i128::from(f.effects.wakee_on_prev);
    }
    let half_empty = this_load <= prev_load
        && this_load + i128::from(f.prev_target_load) <= i128::from(f.this_load_per_task);
    if this_eff <= prev_eff {
        (AffineChoice::Waker, AffineReason::WakerLight)
    } else if f.history.half_empty_affine && half_empty {
        (AffineChoice::Waker, AffineReason::HalfEmpty)
    } else {
        (AffineChoice::Prev, AffineReason::WakerLoaded)
    }
}

/// Passive balancing (SD_WAKE_BALANCE, before 2.6.32): a less loaded waker's CPU is taken even if `wake_affine`
/// refused; loads as in [`AffineFacts`].
pub fn passive(this_load: u64, prev_load: u64, imbalance_pct: u64) -> bool {
    lean(imbalance_pct) * i128::from(this_load) <= 100 * i128::from(prev_load)
}

/// WA_IDLE, with the kernel's order of tests.
fn by_idleness(f: &AffineFacts<'_>) -> Option<(AffineChoice, AffineReason)> {
    if !f.features.has(Feature::WaIdle) {
        None
    } else if f.this_idle && !f.history.affine_idle_near {
        Some((AffineChoice::Waker, AffineReason::WakerIdle))
    } else if f.this_idle && f.shares_cache {
        Some(if f.prev_idle {
            (AffineChoice::Prev, AffineReason::BothIdle)
        } else {
            (AffineChoice::Waker, AffineReason::WakerIdle)
        })
    } else if f.sync && f.this_nr_running == 1 {
        Some((AffineChoice::Waker, AffineReason::WakerAlone))
    } else {
        (f.prev_idle && f.history.affine_idle_prev).then_some((AffineChoice::Prev, AffineReason::PrevIdle))
    }
}

/// WA_WEIGHT: the waker's CPU with the wakee must be less loaded than the previous one without it.
fn by_weight(f: &AffineFacts<'_>) -> Option<(AffineChoice, AffineReason)> {
    if !f.features.has(Feature::WaWeight) {
        return None;
    }
    let mut this = i128::from(f.this_load);
    if f.sync {
        if f.current_load > f.this_load {
            return Some((AffineChoice::Waker, AffineReason::WakerIsLoad));
        }
        this -= i128::from(f.current_load);
    }
    this += i128::from(f.wakee_load);
    let mut prev = i128::from(f.prev_load) - i128::from(f.wakee_load);
    if f.features.has(Feature::WaBias) {
        this *= 100;
        prev *= lean(f.imbalance_pct);
    }
    this *= i128::from(f.prev_capacity);
    prev *= i128::from(f.this_capacity);
    // A waker that is about to sleep wins ties; up to 4.16 any waker does.
    prev += i128::from(f.sync || !f.history.affine_ties_stay);
    (this < prev).then_some((AffineChoice::Waker, AffineReason::WakerLighter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    /// Effects of waker and wakee of weight 1024 in no group.
    const ALONE: Effects =
        Effects { waker_on_this: -1024, waker_on_prev: 0, wakee_on_this: 1024, wakee_on_prev: 0 };

    const V2_6_30: &History = &History::of(Version::v2_6(30));
    const V3_4: &History = &History::of(Version::new(3, 4));

    fn facts(version: Version, this_load: u64, prev_load: u64) -> AffineFacts<'static> {
        AffineFacts {
            history: Box::leak(Box::new(History::of(version))),
            features: FeatureSet::defaults(version),
            sync: false,
            this_idle: false,
            prev_idle: false,
            shares_cache: true,
            this_nr_running: 2,
            this_load,
            prev_load,
            prev_target_load: prev_load,
            this_load_per_task: 1024,
            current_load: 1024,
            wakee_load: 1024,
            effects: ALONE,
            this_capacity: 1024,
            prev_capacity: 1024,
            imbalance_pct: 117,
        }
    }

    fn loads(this_load: u64, prev_load: u64) -> AffineFacts<'static> {
        facts(Version::new(4, 5), this_load, prev_load)
    }

    fn modern() -> AffineFacts<'static> {
        AffineFacts { wakee_load: 512, ..facts(Version::new(6, 5), 2048, 2048) }
    }

    fn choice(f: AffineFacts<'_>) -> AffineChoice {
        wake_affine(&f).0
    }

    #[test]
    fn up_to_4_13_the_waker_may_exceed_the_previous_cpu_by_half_the_imbalance() {
        assert_eq!(choice(loads(1024, 2048)), AffineChoice::Waker);
        // 100 * (load + 1024) against 108 * prev.
        assert_eq!(choice(loads(1024 + 163, 2048)), AffineChoice::Waker);
        assert_eq!(choice(loads(1024 + 164, 2048)), AffineChoice::Prev);
        assert_eq!(choice(loads(1024, 0)), AffineChoice::Prev, "a busy waker and an idle previous CPU");
    }

    #[test]
    fn a_waker_cpu_without_load_is_chosen() {
        assert_eq!(choice(loads(0, 0)), AffineChoice::Waker);
        let alone = AffineFacts { sync: true, ..loads(1024, 0) };
        assert_eq!(choice(alone), AffineChoice::Waker, "sync takes the waker's weight away");
        let weak = AffineFacts { this_capacity: 500, ..loads(0, 4096) };
        assert_eq!(choice(weak), AffineChoice::Prev, "the products still hold the capacities");
    }

    #[test]
    fn before_3_18_two_cpus_with_one_tasks_load_together_suffice() {
        let old = AffineFacts { history: V3_4, ..loads(512, 512) };
        assert_eq!(choice(old), AffineChoice::Waker);
        assert_eq!(choice(loads(512, 512)), AffineChoice::Prev);
        assert_eq!(choice(AffineFacts { prev_target_load: 513, ..old }), AffineChoice::Prev);
    }

    #[test]
    fn before_2_6_32_an_idle_waker_cpu_is_compared_like_any_other() {
        let old = |this, prev| AffineFacts { history: V2_6_30, this_load_per_task: 0, ..loads(this, prev) };
        assert_eq!(choice(old(0, 948)), AffineChoice::Prev, "102400 against 108 * 948");
        assert_eq!(choice(old(0, 949)), AffineChoice::Waker);
        assert_eq!(choice(AffineFacts { history: V3_4, ..old(0, 948) }), AffineChoice::Waker);
        assert_eq!(choice(old(0, 0)), AffineChoice::Waker, "two idle CPUs hold no task's load");
        assert_eq!(
            choice(AffineFacts { this_capacity: 10, ..old(1024, 2048) }),
            AffineChoice::Waker,
            "capacities are not asked"
        );
        assert!(passive(925, 1000, 117) && !passive(926, 1000, 117), "108 * this against 100 * prev");
    }

    #[test]
    fn wa_idle_tests_in_the_kernels_order() {
        let f = modern();
        assert_eq!(choice(AffineFacts { this_idle: true, ..f }), AffineChoice::Waker);
        assert_eq!(choice(AffineFacts { this_idle: true, prev_idle: true, ..f }), AffineChoice::Prev);
        let far = AffineFacts { this_idle: true, shares_cache: false, prev_idle: true, ..f };
        assert_eq!(choice(far), AffineChoice::Prev);
        let alone = AffineFacts { sync: true, this_nr_running: 1, prev_idle: true, ..f };
        assert_eq!(choice(alone), AffineChoice::Waker, "before the previous CPU is looked at");
        let light = AffineFacts { this_load: 0, prev_idle: true, ..f };
        assert_eq!(choice(light), AffineChoice::Prev, "idleness before load");
        let mut no_idle = light;
        no_idle.features.switch(Feature::WaIdle, false);
        assert_eq!(choice(no_idle), AffineChoice::Waker);
    }

    #[test]
    fn wa_weight_needs_strictly_less_load_and_bias_leans_to_the_waker() {
        let f = modern();
        assert_eq!(choice(f), AffineChoice::Prev);
        let equal = AffineFacts { this_load: 1024, ..f };
        assert_eq!(choice(equal), AffineChoice::Waker, "1536 each: the bias decides");
        let mut unbiased = equal;
        unbiased.features.switch(Feature::WaBias, false);
        assert_eq!(choice(unbiased), AffineChoice::Prev, "equal is not less");
        assert_eq!(
            choice(AffineFacts { sync: true, this_load: 2048, ..unbiased }),
            AffineChoice::Waker,
            "sync breaks the tie"
        );
        let mut off = equal;
        off.features.switch(Feature::WaWeight, false);
        assert_eq!(choice(off), AffineChoice::Prev);
        let heavy = AffineFacts { sync: true, current_load: 2049, prev_load: 0, ..f };
        assert_eq!(choice(heavy), AffineChoice::Waker, "the waker's share exceeds a decayed load");
    }

    fn at(version: &str, f: AffineFacts<'static>) -> AffineChoice {
        let version = Version::parse(version).unwrap();
        let (history, features) = (History::of(version), FeatureSet::defaults(version));
        choice(AffineFacts { history: Box::leak(Box::new(history)), features, ..f })
    }

    #[test]
    fn before_4_16_an_idle_waker_cpu_is_taken_wherever_it_is() {
        let both = AffineFacts { this_idle: true, prev_idle: true, ..modern() };
        let far = AffineFacts { this_idle: true, shares_cache: false, prev_load: 0, ..modern() };
        for (version, answer) in
            [("4.14", AffineChoice::Waker), ("4.16", AffineChoice::Prev), ("5.4", AffineChoice::Prev)]
        {
            assert_eq!(at(version, both), answer, "{version}");
            assert_eq!(at(version, far), answer, "{version}");
        }
    }

    #[test]
    fn before_4_17_equal_load_suffices_for_the_waker() {
        let mut tie = AffineFacts { this_load: 1024, prev_load: 2048, wakee_load: 512, ..modern() };
        tie.imbalance_pct = 100;
        for (version, answer) in
            [("4.14", AffineChoice::Waker), ("4.16", AffineChoice::Waker), ("4.17", AffineChoice::Prev)]
        {
            assert_eq!(at(version, tie), answer, "{version}");
        }
    }

    #[test]
    fn since_5_11_an_idle_previous_cpu_decides() {
        let light = AffineFacts { this_load: 0, prev_idle: true, ..modern() };
        for (version, answer) in
            [("5.4", AffineChoice::Waker), ("5.10", AffineChoice::Waker), ("5.11", AffineChoice::Prev)]
        {
            assert_eq!(at(version, light), answer, "{version}");
        }
    }

    #[test]
    fn each_answer_has_its_reason() {
        use AffineReason::*;
        let (old, new) = (AffineFacts { history: V3_4, ..loads(512, 512) }, modern());
        let light = AffineFacts { this_load: 1024, ..new };
        let answers = [
            (loads(1024, 2048), AffineChoice::Waker, WakerLight),
            (old, AffineChoice::Waker, HalfEmpty),
            (loads(1024, 0), AffineChoice::Prev, WakerLoaded),
            (AffineFacts { this_idle: true, prev_idle: true, ..new }, AffineChoice::Prev, BothIdle),
            (AffineFacts { this_idle: true, ..new }, AffineChoice::Waker, WakerIdle),
            (AffineFacts { sync: true, this_nr_running: 1, ..new }, AffineChoice::Waker, WakerAlone),
            (AffineFacts { prev_idle: true, ..new }, AffineChoice::Prev, PrevIdle),
            (
                AffineFacts { sync: true, current_load: 2049, prev_load: 0, ..new },
                AffineChoice::Waker,
                WakerIsLoad,
            ),
            (light, AffineChoice::Waker, WakerLighter),
            (new, AffineChoice::Prev, Neither),
        ];
        for (facts, choice, why) in answers {
            assert_eq!(wake_affine(&facts), (choice, why));
        }
        // The other reasons are those of `o1::wake`.
        let of_o1 = [AffineReason::CacheCold, AffineReason::CacheHot];
        assert_eq!(answers.len() + of_o1.len(), AffineReason::ALL.len());
    }
}
