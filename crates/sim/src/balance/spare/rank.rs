//! The rank of a group: the rules of `update_sd_pick_busiest` (6.5) as one number. A group replaces the busiest so far
//! if its rank is higher.
//!
//! The type counts first, in the upper four bits. Within a type the rules compare load, idle CPUs and tasks, or keep
//! the first or the last group. Ranks are numbers because no predictor foresees the type and the number of tasks of the
//! next of 64 groups: a rank is computed without branches on them, and one comparison is left.

use super::DomainFacts;
use super::classify::SpareType;
use super::stats::GroupStats;
use std::hint::select_unpredictable;

/// The highest rank within a type.
const MOST: u64 = (1 << 60) - 1;

/// The facts about a group that decide whether it is the busiest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub group_type: SpareType,
    /// Load per whole CPU of capacity; read of an overloaded group only.
    pub avg_load: u64,
    /// Runnable tasks of all classes.
    pub sum_nr_running: u32,
    /// Runnable fair tasks.
    pub sum_h_nr_running: u32,
    /// Idle CPUs: far fewer than 2^28.
    pub idle_cpus: u32,
    /// The largest load of a misfit.
    pub misfit_load: u64,
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
        }
    }
}

impl Claim {
    /// The group's rank: 0 without a fair task. `nth` grows from group to group of the ring.
    #[inline]
    pub fn rank(&self, domain: &DomainFacts, nth: u32) -> u64 {
        let less_room = u64::from((u32::MAX >> 4) - self.idle_cpus) << 32 | u64::from(self.sum_nr_running);
        // Full groups have no averages to compare. Before 6.5 the first one stays. Since 6.5 the last one does.
        // Threads of a core slow each other down: of such groups the first one still stays.
        let last_stays = domain.later.cores_last_when_full & !domain.groups_are_cores;
        let is = |kind| self.group_type == kind;
        let of_full = if last_stays { u64::from(nth) } else { 0 };
        let within = select_unpredictable(is(SpareType::FullyBusy), of_full, less_room);
        let within = select_unpredictable(is(SpareType::Overloaded), self.avg_load.min(MOST), within);
        let within = match self.group_type {
            SpareType::Imbalanced => 0,
            // Of equal misfits the last group stays.
            SpareType::Misfit => self.misfit_load.min(MOST >> 32) << 32 | u64::from(nth),
            // Cores without an idle thread are like full groups, of which the first core stays.
            SpareType::SharedCore if self.idle_cpus == 0 => MOST,
            _ => within,
        };
        let rank = (self.group_type as u64 + 1) << 60 | within;
        if self.sum_h_nr_running == 0 { 0 } else { rank }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::spare::SpareLater;
    use SpareType::{FullyBusy, HasSpare, Imbalanced, Misfit, Overloaded, SharedCore};
    use proptest::prelude::*;

    /// The rules between a group and the busiest so far, as the kernel states them.
    fn is_busier(domain: &DomainFacts, group: &Claim, best: Option<&Claim>) -> bool {
        if group.sum_h_nr_running == 0 {
            return false;
        }
        let Some(best) = best else { return true };
        if group.group_type != best.group_type {
            return group.group_type > best.group_type;
        }
        let has_less_room = group.idle_cpus < best.idle_cpus
            || (group.idle_cpus == best.idle_cpus && group.sum_nr_running > best.sum_nr_running);
        match group.group_type {
            Overloaded => group.avg_load > best.avg_load,
            Imbalanced => false,
            Misfit => group.misfit_load >= best.misfit_load,
            SharedCore => (group.idle_cpus > 0 || best.idle_cpus > 0) && has_less_room,
            FullyBusy => domain.later.cores_last_when_full && !domain.groups_are_cores,
            HasSpare => has_less_room,
        }
    }

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
            }
        })
    }

    proptest! {
        #[test]
        fn the_highest_rank_is_the_group_that_the_rules_choose(
            ring in prop::collection::vec(claim(), 1..20),
            cores_last_when_full: bool,
            groups_are_cores: bool,
        ) {
            let domain = DomainFacts {
                imbalance_pct: 117,
                prefer_sibling: true,
                groups_are_cores,
                share_llc: true,
                numa: false,
                later: SpareLater { cores_last_when_full, smt_balance: true, ..SpareLater::default() },
                imb_numa_nr: 0,
                asym: Default::default(),
                cores: None,
            };
            let (mut by_rules, mut by_rank, mut rank) = (None, None, 0);
            for (nth, group) in ring.iter().enumerate() {
                if is_busier(&domain, group, by_rules.map(|at: usize| &ring[at])) {
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
            imb_numa_nr: 0,
            asym: Default::default(),
            cores: None,
        };
        let of = |group_type| {
            let most = Claim {
                group_type,
                avg_load: u64::MAX,
                sum_nr_running: u32::MAX,
                sum_h_nr_running: 1,
                idle_cpus: 0,
                misfit_load: u64::MAX,
            };
            most.rank(&domain, u32::MAX) >> 60
        };
        assert_eq!(
            [HasSpare, FullyBusy, Misfit, SharedCore, Imbalanced, Overloaded].map(of),
            [1, 2, 3, 4, 5, 6]
        );
    }
}
