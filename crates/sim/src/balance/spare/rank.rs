//! The rank of a group: the rules of `update_sd_pick_busiest` (6.5) as one number. A group replaces the busiest so far
//! if its rank is higher.
//!
//! The type is in the upper four bits. Within a type the rules compare load, idle CPUs and tasks, or keep the first or
//! the last group. A rank is computed without branches and takes one comparison, because no predictor foresees the type
//! and the number of tasks of the next of 64 groups.

use super::DomainFacts;
use super::classify::SpareType;
use super::stats::GroupStats;
use std::hint::select_unpredictable;

/// The highest rank within a type.
const MOST: u64 = (1 << 60) - 1;

/// The rank of an overloaded group without load: no other type has a higher one, and with load it is higher by that.
pub const OVERLOADED: u64 = (SpareType::Overloaded as u64 + 1) << 60;

/// The facts about a group that decide whether it is the busiest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub group_type: SpareType,
    /// Load per whole CPU of capacity; read only for an overloaded group.
    pub avg_load: u64,
    /// Runnable tasks of all classes.
    pub sum_nr_running: u32,
    /// Runnable fair tasks.
    pub sum_h_nr_running: u32,
    /// Far fewer than 2^28.
    pub idle_cpus: u32,
    pub misfit_load: u64,
    /// Whether it is the threads of one core; known in domains where some groups are.
    pub is_core: bool,
}

impl From<&GroupStats> for Claim {
    #[inline]
    fn from(group: &GroupStats) -> Claim {
        Claim {
            group_type: group.group_type,
            avg_load: group.avg_load,
            sum_nr_running: group.sum_nr_running,
            sum_h_nr_running: group.sum_h_nr_running,
            idle_cpus: group.idle_cpus,
            misfit_load: group.kinds.misfit_load,
            is_core: group.kinds.is_core,
        }
    }
}

impl Claim {
    /// The group's rank: 0 without a fair task. `nth` grows from group to group of the ring.
    #[inline]
    pub fn rank(&self, domain: &DomainFacts, nth: u32) -> u64 {
        let less_room = u64::from((u32::MAX >> 4) - self.idle_cpus) << 32 | u64::from(self.sum_nr_running);
        // Full groups have no averages to compare. Before 6.5 the first one stays, since 6.5 the last one. Threads of a
        // core slow each other down: if groups are cores, the first one still stays.
        let last_stays = domain.later.cores_last_when_full & !domain.groups_are_cores;
        let is = |kind| self.group_type == kind;
        let of_full = if last_stays { u64::from(nth) } else { 0 };
        let within = select_unpredictable(is(SpareType::FullyBusy), of_full, less_room);
        let within = select_unpredictable(is(SpareType::Overloaded), self.avg_load.min(MOST), within);
        let within = match self.group_type {
            SpareType::Imbalanced => 0,
            // Of equal misfits the last group stays; since 6.9 the first.
            SpareType::Misfit => {
                let nth = if domain.later.misfit_first_stays { 0 } else { nth };
                self.misfit_load.min(MOST >> 32) << 32 | u64::from(nth)
            }
            // Cores without an idle thread are like full groups, of which the first core stays.
            SpareType::SharedCore if self.idle_cpus == 0 => MOST,
            _ => within,
        };
        let rank = (self.group_type as u64 + 1) << 60 | within;
        if self.sum_h_nr_running == 0 { 0 } else { rank }
    }

    /// The comparison of a group with the busiest so far, as the kernel states it. If some groups are cores and others
    /// are not, it is not an order: a core is replaced by a group that is not a core, even one with more room.
    pub fn is_busier(&self, domain: &DomainFacts, best: Option<&Claim>) -> bool {
        if self.sum_h_nr_running == 0 {
            return false;
        }
        let Some(best) = best else { return true };
        if self.group_type != best.group_type {
            return self.group_type > best.group_type;
        }
        let has_less_room = self.idle_cpus < best.idle_cpus
            || (self.idle_cpus == best.idle_cpus && self.sum_nr_running > best.sum_nr_running);
        let kept = if domain.some_are_cores { best.is_core } else { domain.groups_are_cores };
        match self.group_type {
            SpareType::Overloaded => self.avg_load > best.avg_load,
            SpareType::Imbalanced => false,
            SpareType::Misfit if domain.later.misfit_first_stays => self.misfit_load > best.misfit_load,
            SpareType::Misfit => self.misfit_load >= best.misfit_load,
            SpareType::SharedCore => (self.idle_cpus > 0 || best.idle_cpus > 0) && has_less_room,
            SpareType::FullyBusy => domain.later.cores_last_when_full && !kept,
            SpareType::HasSpare if domain.later.smt_balance && self.is_core != best.is_core => {
                !self.is_core || self.sum_h_nr_running > 1
            }
            SpareType::HasSpare => has_less_room,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::spare::{NodeTolerance, SpareLater};
    use SpareType::{FullyBusy, HasSpare, Imbalanced, Misfit, Overloaded, SharedCore};
    use proptest::prelude::*;

    fn claim() -> impl Strategy<Value = Claim> {
        let kinds =
            prop::sample::select(vec![HasSpare, FullyBusy, Misfit, SharedCore, Imbalanced, Overloaded]);
        (kinds, 0u64..6, 0u32..5, 0u32..3, 0u32..4).prop_map(|(group_type, avg_load, nr, h_nr, idle_cpus)| {
            Claim {
                group_type,
                avg_load: avg_load << (10 * (avg_load % 3)),
                sum_nr_running: nr,
                sum_h_nr_running: h_nr,
                idle_cpus,
                misfit_load: avg_load % 4,
                is_core: false,
            }
        })
    }

    proptest! {
        #[test]
        fn the_highest_rank_is_the_group_that_the_rules_choose(
            ring in prop::collection::vec(claim(), 1..20),
            cores_last_when_full: bool,
            groups_are_cores: bool,
            misfit_first_stays: bool,
        ) {
            let domain = DomainFacts {
                imbalance_pct: 117,
                prefer_sibling: true,
                groups_are_cores,
                share_llc: true,
                numa: false,
                some_are_cores: false,
                later: SpareLater {
                    cores_last_when_full,
                    smt_balance: true,
                    misfit_first_stays,
                    ..SpareLater::default()
                },
                tolerance: NodeTolerance::Difference(0),
                asym: Default::default(),
                cores: None,
                ..crate::balance::testing::MC
            };
            let (mut by_rules, mut by_rank, mut rank) = (None, None, 0);
            for (nth, group) in ring.iter().enumerate() {
                if group.is_busier(&domain, by_rules.map(|at: usize| &ring[at])) {
                    by_rules = Some(nth);
                }
                let own = group.rank(&domain, nth as u32);
                if own > rank {
                    (by_rank, rank) = (Some(nth), own);
                }
            }
            prop_assert_eq!(by_rank, by_rules);
        }
    }

    #[test]
    fn the_largest_values_stay_within_their_type() {
        let domain = DomainFacts {
            imbalance_pct: 117,
            prefer_sibling: false,
            groups_are_cores: false,
            share_llc: true,
            numa: false,
            later: SpareLater::default(),
            some_are_cores: false,
            tolerance: NodeTolerance::Difference(0),
            asym: Default::default(),
            cores: None,
            ..crate::balance::testing::MC
        };
        let of = |group_type| {
            let most = Claim {
                group_type,
                avg_load: u64::MAX,
                sum_nr_running: u32::MAX,
                sum_h_nr_running: 1,
                idle_cpus: 0,
                misfit_load: u64::MAX,
                is_core: false,
            };
            most.rank(&domain, u32::MAX) >> 60
        };
        assert_eq!(
            [HasSpare, FullyBusy, Misfit, SharedCore, Imbalanced, Overloaded].map(of),
            [1, 2, 3, 4, 5, 6]
        );
    }

    #[test]
    fn of_groups_with_room_a_core_with_one_task_gives_way_to_one_that_is_no_core() {
        let of = |is_core, nr, idle_cpus| Claim {
            group_type: HasSpare,
            avg_load: 0,
            sum_nr_running: nr,
            sum_h_nr_running: nr,
            idle_cpus,
            misfit_load: 0,
            is_core,
        };
        let later = SpareLater { smt_balance: true, ..crate::balance::testing::MC.later };
        let some = DomainFacts { some_are_cores: true, later, ..crate::balance::testing::MC };
        let (core, other) = (of(true, 1, 1), of(false, 1, 3));
        assert!(other.is_busier(&some, Some(&core)), "although it has more room");
        assert!(!core.is_busier(&some, Some(&other)));
        assert!(of(true, 2, 0).is_busier(&some, Some(&other)), "a core with two tasks");
        let old = DomainFacts { later: SpareLater { smt_balance: false, ..later }, ..some };
        assert!(
            core.is_busier(&old, Some(&other)) && !other.is_busier(&old, Some(&core)),
            "by room before 6.6"
        );
        // Full groups: the last one stays, unless the best so far is a core.
        let full = |is_core| Claim { group_type: FullyBusy, ..of(is_core, 2, 0) };
        assert!(
            full(true).is_busier(&some, Some(&full(false)))
                && !full(false).is_busier(&some, Some(&full(true)))
        );
    }
}
