//! The search for a CPU of the cache domain where the task's group has nothing queued: D002's patch (Srivatsa
//! Vaddagiri, 24 Apr 2012).
//!
//! It follows a search that found no idle CPU. On a CPU where the group was absent, the group's own entity is placed at
//! the wakeup and gets a sleeper's credit, however short the task's sleep was (`cfs::placement`). The patch takes the
//! lowest-numbered such CPU, regardless of its load. Two variants of ours improve that: the least loaded of them
//! (SIS_IDLE_CFS_RQ_LEAST), and a scan that starts at the previous CPU (SIS_IDLE_CFS_RQ_PREV).

use super::search::{Answer, SearchStep, View};
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::PlaceReason;

/// The state of the scan: CPUs of the cache domain passed, and the best one so far.
#[derive(Clone, Copy, Debug)]
pub struct AbsentGroup {
    passed: usize,
    /// The least load, and its CPU (SIS_IDLE_CFS_RQ_LEAST).
    least: Option<(u64, CpuId)>,
    /// The reason given by the search before, if this one finds nothing either.
    before: PlaceReason,
}

impl AbsentGroup {
    /// A scan before its first probe, after a search that ended with `before`.
    pub fn start(before: PlaceReason) -> AbsentGroup {
        AbsentGroup { passed: 0, least: None, before }
    }

    /// The next step; see [`super::search::Search::step`]. Its probes ask about the group instead of idleness.
    pub fn step(&mut self, view: &View<'_>, last: Option<Answer>) -> SearchStep {
        let cpus = view.llc(view.target).map_or(&[][..], |llc| &llc.cpus[..]);
        let from_prev = view.features.has(Feature::SisIdleCfsRqPrev);
        let first = if from_prev { cpus.iter().position(|c| *c == view.prev).unwrap_or(0) } else { 0 };
        let at = |passed: usize| cpus[(first + passed) % cpus.len()];
        if let Some(answer) = last {
            if let Answer::Absent { load } = answer {
                let cpu = at(self.passed);
                if !view.features.has(Feature::SisIdleCfsRqLeast) {
                    return SearchStep::Found(cpu, PlaceReason::GroupAbsent);
                }
                if self.least.is_none_or(|(least, _)| load < least) {
                    self.least = Some((load, cpu));
                }
            }
            self.passed += 1;
        }
        while self.passed < cpus.len() {
            if view.allows(at(self.passed)) {
                return SearchStep::Probe(at(self.passed));
            }
            self.passed += 1;
        }
        match self.least {
            Some((_, cpu)) => SearchStep::Found(cpu, PlaceReason::GroupAbsent),
            None => SearchStep::NotFound(self.before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::testing::{domains, run, view};
    use schedlab_base::CpuSet;

    /// The document's illustration: eight CPUs in two nodes of four. Runqueues have 2 1 1 1 and 2 2 1 1 tasks, and /a
    /// has its only task on CPU 7.
    const QUEUED: [u64; 8] = [2, 1, 1, 1, 2, 2, 1, 1];

    fn answer(cpu: u32) -> Answer {
        if cpu == 7 { Answer::Busy } else { Answer::Absent { load: QUEUED[cpu as usize] } }
    }

    fn found(features: &[Feature], prev: u32) -> (SearchStep, Vec<u32>) {
        let d = domains("nodes-2x4", "v3.4");
        let mut v = view(&d, "v3.4", prev, prev);
        features.iter().for_each(|f| v.features.switch(*f, true));
        let mut scan = AbsentGroup::start(PlaceReason::TargetBusy);
        run(|a| scan.step(&v, a), answer)
    }

    #[test]
    fn the_lowest_numbered_cpu_of_the_cache_without_the_group_is_taken_whatever_runs_there() {
        let (step, probes) = found(&[], 7);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(4), PlaceReason::GroupAbsent), vec![4]));
    }

    #[test]
    fn the_least_loaded_variant_reads_all_and_takes_the_shortest_queue() {
        let (step, probes) = found(&[Feature::SisIdleCfsRqLeast], 7);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(6), PlaceReason::GroupAbsent), vec![4, 5, 6, 7]));
    }

    #[test]
    fn the_other_variant_starts_at_the_previous_cpu_and_wraps() {
        let (step, probes) = found(&[Feature::SisIdleCfsRqPrev], 6);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(6), PlaceReason::GroupAbsent), vec![6]));
        let (step, probes) = found(&[Feature::SisIdleCfsRqPrev], 7);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(4), PlaceReason::GroupAbsent), vec![7, 4]));
    }

    #[test]
    fn without_such_a_cpu_the_former_answer_stands() {
        let d = domains("nodes-2x4", "v3.4");
        let allowed = CpuSet::parse("0,7").unwrap();
        let v = View { allowed: Some(&allowed), ..view(&d, "v3.4", 7, 7) };
        let mut scan = AbsentGroup::start(PlaceReason::TargetBusy);
        let (step, probes) = run(|a| scan.step(&v, a), answer);
        assert_eq!((step, probes), (SearchStep::NotFound(PlaceReason::TargetBusy), vec![7]));
    }
}
