//! The amount of work that a CPU or a group can do; 1024 is one undisturbed CPU.
//!
//! Kernels before 5.0 give the threads of a core together 15% more than a single thread, shared evenly (`smt_gain`
//! 1178: two threads get 589 each), the O(1) scheduler 10%; later ones count every thread as a whole CPU. A capacity is
//! *undisturbed* if real-time tasks take nothing of it; `System::capacity_of` (in `rt`) subtracts their part.

use super::era::Balancer;
use super::fits::{Asymmetry, Kinds};
use crate::o1::busiest::core_power;
use schedlab_kernel::History;

pub use schedlab_board::speed::SCALE;

/// Capacity of a core's threads together, before 5.0 (`smt_gain`).
const SMT_GAIN: u64 = 1178;

/// Undisturbed capacity of a CPU whose core has `threads` threads online (`arch_scale_cpu_capacity`).
pub fn cpu_capacity(history: &History, threads: usize) -> u64 {
    if history.o1 {
        return core_power(threads as u64) / threads as u64;
    }
    if threads > 1 && !history.whole_threads { SMT_GAIN / threads as u64 } else { SCALE }
}

/// Utilisation as the balancer counts it: no more than the CPU's own capacity (`cpu_util`, 4.2 to 5.x).
///
/// On an SMT thread of those kernels a fully busy CPU has utilisation 1024 but capacity 589.
#[inline]
pub fn capped_util(util: u64, capacity_orig: u64) -> u64 {
    util.min(capacity_orig)
}

/// Whether other activity takes a noticeable part of a CPU's capacity (`check_cpu_capacity`, 4.2+).
#[inline]
pub fn is_reduced(capacity: u64, capacity_orig: u64, imbalance_pct: u32) -> bool {
    capacity * u64::from(imbalance_pct) < capacity_orig * 100
}

/// The number of tasks that fill a group, by 3.4: its capacity in whole CPUs, rounded to the nearest.
///
/// A thread of a core with four or more threads rounds to none. It then still takes one task, as long as real-time
/// tasks leave it more than 29/32 of its capacity (`fix_small_capacity`, only with `share_capacity`: the SMT domain).
pub fn slots(capacity: u64, capacity_orig: u64, share_capacity: bool) -> u64 {
    let whole = (capacity + SCALE / 2) / SCALE;
    if whole == 0 && share_capacity && capacity * 32 > capacity_orig * 29 { 1 } else { whole }
}

/// The facts about a group that do not change during a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFacts {
    /// Sum of its CPUs' capacities, as last updated; never 0.
    pub capacity: u64,
    /// The same sum, undisturbed.
    pub capacity_orig: u64,
    pub weight: u32,
    /// Whether a pass one level below could not balance it because of affinity (`sgc->imbalance`; 4.5).
    pub imbalanced: bool,
    /// Capacities of its CPUs, where they differ (4.20 to 5.4).
    pub kinds: Kinds,
}

impl GroupFacts {
    /// An undisturbed group of `weight` CPUs with this total capacity.
    pub fn of(weight: u32, capacity: u64) -> GroupFacts {
        GroupFacts { capacity, capacity_orig: capacity, weight, imbalanced: false, kinds: Kinds::default() }
    }
}

/// The facts about a domain that the statistics and tests depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainFacts {
    /// The generation of rules.
    pub balancer: Balancer,
    /// Percent by which one side must exceed the other.
    pub imbalance_pct: u32,
    /// SD_SHARE_CPUCAPACITY: its CPUs are threads of one core.
    pub share_capacity: bool,
    /// SD_PREFER_SIBLING of the *child* domain: groups should hold one task each before any holds two.
    pub prefer_sibling: bool,
    /// Changes between 4.5 and 5.4.
    pub later: AverageLater,
}

/// Rules that were added to 4.5's balancer before 5.5 replaced it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AverageLater {
    /// The load above a group's capacity is scaled by that capacity (4.8).
    pub scales_excess: bool,
    /// With SD_PREFER_SIBLING a group counts as full if it has two tasks more than the local one (4.12).
    pub siblings_by_difference: bool,
    /// An idle CPU's periodic pass also takes from a group without capacity (4.15).
    pub idle_forces: bool,
    /// Capacities to compare, on machines whose CPUs differ in it (4.20).
    pub asym: Asymmetry,
}

impl AverageLater {
    /// The rules of a version.
    pub fn of(history: &History) -> AverageLater {
        AverageLater {
            scales_excess: history.scales_excess,
            siblings_by_difference: history.siblings_by_difference,
            idle_forces: history.idle_forces,
            asym: Asymmetry::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    #[test]
    fn threads_share_the_gain_of_smt_before_5_0() {
        let (old, new) = (&History::of(Version::new(4, 5)), &History::of(Version::new(6, 5)));
        assert_eq!([1, 2, 4].map(|n| cpu_capacity(old, n)), [1024, 589, 294]);
        assert_eq!([1, 2, 4].map(|n| cpu_capacity(new, n)), [1024, 1024, 1024]);
    }

    #[test]
    fn a_busy_thread_is_full_but_not_overloaded() {
        assert_eq!(capped_util(1024, 589), 589);
        assert_eq!(capped_util(300, 589), 300);
    }

    #[test]
    fn a_core_of_3_4_has_one_slot_a_node_rounds() {
        assert_eq!(slots(1178, 1178, false), 1, "two threads, one slot");
        assert_eq!(slots(12 * 1178, 12 * 1178, false), 14, "twelve cores of two threads");
        assert_eq!(slots(589, 589, true), 1, "one thread of two");
    }

    #[test]
    fn a_quarter_of_a_core_still_takes_a_task_unless_disturbed() {
        assert_eq!(slots(294, 294, true), 1);
        assert_eq!(slots(294, 294, false), 0, "only where threads share a core");
        assert_eq!(slots(260, 294, true), 0, "real-time tasks took more than 3/32 of it");
    }

    #[test]
    fn capacity_counts_as_reduced_beyond_the_percentage() {
        assert!(!is_reduced(1024, 1024, 125));
        assert!(!is_reduced(820, 1024, 125), "102500 is not below 102400");
        assert!(is_reduced(819, 1024, 125));
    }
}
