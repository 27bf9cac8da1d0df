//! D001's shortcuts for newidle passes (Chen Yu, 27 Jul 2023): hints stored by other passes, and an early end of the
//! loop over groups.
//!
//! Periodic passes store two hints in the shared state of the domain: its totals (ILB_SNAPSHOT), and how many groups a
//! newidle pass should read (ILB_UTIL). A newidle pass that ends early uses the stored totals. Only domains with shared
//! state take part: on D001's machine SMT and MC, not NUMA. The first stored total enables all three: with ILB_SNAPSHOT
//! off since boot neither ILB_UTIL nor ILB_FAST acts; if it is switched off later, the last totals stay in use.

use super::busiest::DomainStats;
use super::classify::SpareType;
use super::stats::GroupStats;
use crate::balance::capacity::SCALE;
use crate::balance::era::PassKind;
use crate::wakeup::llc::nr_idle_scan;
use schedlab_kernel::{Feature, FeatureSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shortcuts {
    /// ILB_SNAPSHOT: totals are stored.
    pub snapshot: bool,
    /// ILB_UTIL: the number of groups to read is stored and respected.
    pub util: bool,
    /// ILB_FAST: the loop ends at the first group that has a task to give.
    pub fast: bool,
    /// ILB_UTIL_QUAD: ILB_UTIL's number follows the square law.
    pub quad: bool,
}

impl Shortcuts {
    pub fn of(features: FeatureSet) -> Shortcuts {
        Shortcuts {
            snapshot: features.has(Feature::IlbSnapshot),
            util: features.has(Feature::IlbUtil),
            fast: features.has(Feature::IlbFast),
            quad: features.has(Feature::IlbUtilQuad),
        }
    }
}

/// The facts about a domain on which the number of groups to read depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainSpan {
    /// Number of groups in the domain, including the local one (`sd->nr_groups`).
    pub nr_groups: u32,
    /// Number of CPUs in the domain.
    pub weight: u32,
    /// The domain's `imbalance_pct`; read by the square law.
    pub imbalance_pct: u32,
}

/// Groups to read by ILB_UTIL: falls linearly from all at no utilisation to none at full utilisation; rounded up.
/// `sum_util` is the domain's, including the local group.
pub fn nr_sg_scan(nr_groups: u32, sum_util: u64, span_weight: u32) -> u32 {
    let used = u64::from(nr_groups) * sum_util / (u64::from(span_weight) * SCALE);
    nr_groups.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
}

/// Groups to read by the law that SIS_UTIL uses for CPUs: the fraction of groups equals SIS_UTIL's fraction of CPUs,
/// rounded down. It is above the straight line at low utilisation, and 0 from 85 % on (with `imbalance_pct` 117). Not
/// part of D001.
pub fn nr_sg_scan_square(span: &DomainSpan, sum_util: u64) -> u32 {
    let weight = u64::from(span.weight);
    let cpus = u64::from(nr_idle_scan(weight, sum_util, u64::from(span.imbalance_pct)));
    (u64::from(span.nr_groups) * cpus / weight.max(1)) as u32
}

/// Hints for newidle passes that the CPUs of a domain share (`struct sched_domain_shared`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SharedHints {
    /// The domain's load when last stored.
    pub total_load: u64,
    /// The domain's capacity when last stored; 0 before.
    pub total_capacity: u64,
    /// Number of groups a newidle pass should read, without the local one.
    pub nr_sg_scan: u32,
}

impl SharedHints {
    /// Stores the results of a complete pass of this kind, as far as the shortcuts need them; a newidle pass stores
    /// nothing. Returns whether anything changed: only then the shared cache line is written.
    pub fn store(&mut self, on: Shortcuts, pass: PassKind, span: &DomainSpan, seen: &DomainStats) -> bool {
        let before = *self;
        if pass != PassKind::Newidle && on.util {
            self.nr_sg_scan = if on.quad {
                nr_sg_scan_square(span, seen.sum_util)
            } else {
                nr_sg_scan(span.nr_groups, seen.sum_util, span.weight)
            };
        }
        if pass != PassKind::Newidle && on.snapshot {
            (self.total_load, self.total_capacity) = (seen.total_load, seen.total_capacity);
        }
        *self != before
    }
}

/// Whether the newly busiest group has a task that the local one could take, by ILB_FAST's guess: the local group has
/// room, and the busiest has fewer idle CPUs, or as many and more tasks. [`DomainStats::decide`] may still find nothing
/// to move.
pub fn can_pull_busiest(local: &GroupStats, busiest: &GroupStats) -> bool {
    local.group_type == SpareType::HasSpare
        && (busiest.idle_cpus < local.idle_cpus
            || (busiest.idle_cpus == local.idle_cpus && busiest.sum_nr_running > local.sum_nr_running))
}

/// Why a loop over groups ends before its last group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LoopEnd {
    /// ILB_FAST: there is something to pull.
    CanPull,
    /// ILB_UTIL: enough groups were read.
    ScanDepth,
}

/// The loop over the groups of one pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLoop {
    util: bool,
    fast: bool,
    /// Totals to use after an early end; without them the loop reads all groups. Only a newidle pass has them, over a
    /// domain with shared state in which totals were stored.
    snapshot: Option<(u64, u64)>,
    /// Number of groups that ILB_UTIL still allows.
    left: u32,
    ended: Option<LoopEnd>,
}

impl GroupLoop {
    /// The loop before its first group. `hints`: the shared hints of the domain, if any.
    pub fn new(on: Shortcuts, pass: PassKind, hints: Option<&SharedHints>) -> GroupLoop {
        let usable = hints.filter(|h| pass == PassKind::Newidle && h.total_capacity != 0);
        GroupLoop {
            util: on.util,
            fast: on.fast,
            snapshot: usable.map(|h| (h.total_load, h.total_capacity)),
            left: usable.map_or(0, |h| h.nr_sg_scan),
            ended: None,
        }
    }

    /// Takes a group other than the local one, with its complete statistics: considers it as the busiest, then either
    /// ends the loop or adds the group to the totals. Returns `true` if the loop continues.
    ///
    /// The caller counts the group in `lb_sg_scan` in either case. The group at which the loop ends is not added to the
    /// totals.
    #[inline]
    pub fn take(
        &mut self,
        seen: &mut DomainStats,
        domain: &crate::balance::spare::DomainFacts,
        index: u32,
        group: &GroupStats,
    ) -> bool {
        let became_busiest = seen.push(domain, index, group);
        self.ended = self.leaves(became_busiest, &seen.local, group);
        if self.ended.is_none() {
            seen.accumulate(group);
        }
        self.ended.is_none()
    }

    #[inline]
    fn leaves(&mut self, became_busiest: bool, local: &GroupStats, group: &GroupStats) -> Option<LoopEnd> {
        self.snapshot?;
        if self.fast && became_busiest && can_pull_busiest(local, group) {
            return Some(LoopEnd::CanPull);
        }
        if self.util {
            self.left = self.left.saturating_sub(1);
            return (self.left == 0).then_some(LoopEnd::ScanDepth);
        }
        None
    }

    /// Whether it reads all groups, whatever it finds.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.snapshot.is_none()
    }

    /// Why the loop ended early, if it did.
    pub fn ended(&self) -> Option<LoopEnd> {
        self.ended
    }

    /// Ends the loop. After an early end, load and capacity are the stored ones; utilisation and the overload flag are
    /// those of the groups read.
    pub fn finish(&self, seen: &mut DomainStats) {
        if let (Some(_), Some((load, capacity))) = (self.ended, self.snapshot) {
            (seen.total_load, seen.total_capacity) = (load, capacity);
        }
    }
}

#[cfg(test)]
#[path = "newidle_scan_tests.rs"]
mod tests;
