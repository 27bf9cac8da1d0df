//! Chooses the waker's or the previous CPU (`try_to_wake_up`), before `wake_idle` looks for an idle one near it.
//!
//! 2.6.12 tests whether the task's cache is cold; 2.6.13 and later compare loads, as CFS's `wake_affine` does. Loads
//! are in 1024ths of a task of nice 0; the source's is the lower estimate, the target's the higher one.

use super::prio::ONE_TASK;
use schedlab_trace::AffineReason;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeFacts {
    /// Load of the previous CPU, low estimate.
    pub load: u64,
    /// Load of the waker's CPU, high estimate.
    pub this_load: u64,
    /// The waker's load, if it says that it is about to sleep.
    pub sync_load: Option<u64>,
    /// The wakee's load (since 2.6.13).
    pub wakee_load: u64,
    /// High estimate of the previous CPU's load (since 2.6.13).
    pub prev_target_load: u64,
    /// Mean load per task on the waker's CPU (since 2.6.13).
    pub this_load_per_task: u64,
}

/// A domain of the waker's CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeLevel {
    pub wake_affine: bool,
    pub wake_balance: bool,
    pub imbalance_pct: u64,
    /// Whether the task is cache hot by the domain's `cache_hot_time` (2.6.12).
    pub hot: bool,
    /// Whether the previous CPU is in it.
    pub spans_prev: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeChoice {
    /// The waker's CPU, by SD_WAKE_AFFINE of the domain with this number.
    Affine(usize, AffineReason),
    /// The waker's CPU, by SD_WAKE_BALANCE: it has the lower load.
    Balance,
    /// The previous CPU.
    Prev(AffineReason),
}

/// The choice of 2.6.12, by the domains of the waker's CPU from the lowest up.
pub fn by_cache(f: &WakeFacts, levels: impl Iterator<Item = WakeLevel>) -> WakeChoice {
    let this_load = f.this_load.saturating_sub(f.sync_load.map_or(0, |_| ONE_TASK));
    if f.load < ONE_TASK / 2 && this_load > ONE_TASK / 2 {
        return WakeChoice::Prev(AffineReason::WakerLoaded);
    }
    let mut hot = false;
    for (at, level) in levels.enumerate() {
        let pct = level.imbalance_pct + (level.imbalance_pct - 100) / 2;
        hot |= level.wake_affine && level.hot && level.spans_prev;
        match () {
            () if level.wake_affine && !level.hot => {
                if level.spans_prev {
                    return WakeChoice::Affine(at, AffineReason::CacheCold);
                }
            }
            () if level.wake_balance && pct * this_load <= 100 * f.load && level.spans_prev => {
                return WakeChoice::Balance;
            }
            () => {}
        }
    }
    WakeChoice::Prev(if hot { AffineReason::CacheHot } else { AffineReason::WakerLoaded })
}

/// The choice of 2.6.13 and later. `levels`: as above; the lowest domain with both CPUs decides.
pub fn by_load(f: &WakeFacts, levels: impl Iterator<Item = WakeLevel>) -> WakeChoice {
    let Some((at, level)) = levels.enumerate().find(|(_, l)| l.spans_prev) else {
        return WakeChoice::Prev(AffineReason::WakerLoaded);
    };
    let pct = 100 + (level.imbalance_pct - 100) / 2;
    if level.wake_affine {
        let left = f.this_load.saturating_sub(f.sync_load.unwrap_or(0));
        if left <= f.load && left + f.prev_target_load <= f.this_load_per_task {
            return WakeChoice::Affine(at, AffineReason::HalfEmpty);
        }
        if 100 * (left + f.wakee_load) <= pct * f.load {
            return WakeChoice::Affine(at, AffineReason::WakerLight);
        }
    }
    if level.wake_balance && pct * f.this_load <= 100 * f.load {
        WakeChoice::Balance
    } else {
        WakeChoice::Prev(AffineReason::WakerLoaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AffineReason::*;

    /// SMT, CPU and NODE of 2.6.12, none of them hot.
    fn levels(spans_from: usize) -> Vec<WakeLevel> {
        let level = |at: usize, wake_affine, imbalance_pct| WakeLevel {
            wake_affine,
            wake_balance: !wake_affine,
            imbalance_pct,
            hot: false,
            spans_prev: at >= spans_from,
        };
        vec![level(0, true, 110), level(1, true, 125), level(2, false, 125)]
    }

    fn facts(load: u64, this_load: u64) -> WakeFacts {
        WakeFacts {
            load,
            this_load,
            sync_load: None,
            wakee_load: ONE_TASK,
            prev_target_load: load,
            this_load_per_task: ONE_TASK,
        }
    }

    fn hot(mut levels: Vec<WakeLevel>, at: usize) -> Vec<WakeLevel> {
        levels[at].hot = true;
        levels
    }

    #[test]
    fn a_cold_task_follows_its_waker_and_a_hot_one_stays() {
        let f = facts(1024, 2048);
        let by = |l: Vec<WakeLevel>| by_cache(&f, l.into_iter());
        assert_eq!(by(levels(1)), WakeChoice::Affine(1, CacheCold));
        assert_eq!(by(levels(0)), WakeChoice::Affine(0, CacheCold));
        assert_eq!(by(hot(levels(1), 1)), WakeChoice::Prev(CacheHot));
        assert_eq!(
            by(hot(levels(0), 0)),
            WakeChoice::Affine(1, CacheCold),
            "the domain above has its own time"
        );
    }

    #[test]
    fn no_task_is_pulled_from_an_idle_cpu_to_a_busy_one() {
        let by = |f: WakeFacts| by_cache(&f, levels(1).into_iter());
        assert_eq!(by(facts(511, 513)), WakeChoice::Prev(WakerLoaded));
        assert_eq!(by(facts(512, 513)), WakeChoice::Affine(1, CacheCold));
        let sync = WakeFacts { sync_load: Some(1024), ..facts(0, 1024) };
        assert_eq!(by(sync), WakeChoice::Affine(1, CacheCold), "the waker's own load is taken off");
    }

    #[test]
    fn across_nodes_the_waker_must_be_the_idler_by_37_per_cent() {
        let by = |f: WakeFacts| by_cache(&f, levels(2).into_iter());
        assert_eq!(by(facts(1370, 1000)), WakeChoice::Balance);
        assert_eq!(by(facts(1369, 1000)), WakeChoice::Prev(WakerLoaded));
    }

    #[test]
    fn since_2_6_13_loads_decide_in_the_lowest_domain_with_both() {
        let by = |f: WakeFacts| by_load(&f, levels(1).into_iter());
        assert_eq!(by(facts(2048, 1024)), WakeChoice::Affine(1, WakerLight), "2048 against 112% of 2048");
        assert_eq!(by(facts(1024, 1024)), WakeChoice::Prev(WakerLoaded));
        let half = WakeFacts { prev_target_load: 512, ..facts(512, 512) };
        assert_eq!(by(half), WakeChoice::Affine(1, HalfEmpty));
        let sync = WakeFacts { sync_load: Some(1024), ..facts(1024, 1024) };
        assert_eq!(by(sync), WakeChoice::Affine(1, HalfEmpty));
        let far = |f: WakeFacts| by_load(&f, levels(2).into_iter());
        assert_eq!(far(facts(1120, 1000)), WakeChoice::Balance);
        assert_eq!(far(facts(1119, 1000)), WakeChoice::Prev(WakerLoaded));
        assert_eq!(by_load(&facts(9, 0), levels(3).into_iter()), WakeChoice::Prev(WakerLoaded));
    }
}
