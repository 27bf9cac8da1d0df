//! The search of kernels before 4.9: domain by domain and group by group, for a group whose CPUs are all idle.
//!
//! It walks down from the target's cache domain, each ring from the target's own group on. With SMT, the level of cores
//! needs a wholly idle core, and the level of threads sees only the target's own siblings. So an idle thread of another
//! core whose other thread is busy is never found; this makes D000's tail.
//!
//! From 3.9 to 4.8 (`SIS_SKIP_TARGET`) a CPU equal to the target disqualifies its group without being read. Without
//! that test (before 3.9, and in D000's one-line experiment) the target's own group is taken if all of it, including
//! the target, has gone idle since the target was first read: an effect only of scans that take time.

use super::search::{SearchStep, View};
use schedlab_kernel::Feature;
use schedlab_machine::{Group, Level};
use schedlab_trace::PlaceReason;

/// The state of the scan: level of the target's domains, group in its ring, CPU in the group.
#[derive(Clone, Copy, Debug)]
pub struct GroupScan {
    /// Levels still to visit, including the current one: `of_cpu[target][levels - 1]`. 0 when done.
    levels: usize,
    group: usize,
    cpu: usize,
    skip_target: bool,
}

impl GroupScan {
    /// A scan at the first group of the target's cache domain.
    pub fn start(view: &View<'_>) -> GroupScan {
        GroupScan {
            levels: view.domains.llc[view.target].map_or(0, |top| top + 1),
            group: 0,
            cpu: 0,
            skip_target: view.features.has(Feature::SisSkipTarget),
        }
    }

    pub fn step(&mut self, view: &View<'_>, last_probe_idle: Option<bool>) -> SearchStep {
        match last_probe_idle {
            Some(true) => self.cpu += 1,
            Some(false) => self.next_group(),
            None => {}
        }
        while let Some(group) = self.present(view) {
            // A group without an allowed CPU is skipped. A group with some allowed CPUs must be idle as a whole.
            let Some(first) = group.cpus.iter().copied().find(|c| view.allows(*c)) else {
                self.next_group();
                continue;
            };
            match group.cpus.get(self.cpu) {
                None => return SearchStep::Found(first, self.reason(view, group)),
                Some(cpu) if self.skip_target && *cpu == view.target => self.next_group(),
                Some(cpu) => return SearchStep::Probe(*cpu),
            }
        }
        SearchStep::NotFound(PlaceReason::TargetBusy)
    }

    /// The group being read; moves down a level at the end of a ring. `None` at the end of all.
    fn present<'a>(&mut self, view: &View<'a>) -> Option<&'a Group> {
        let own = &view.domains.of_cpu[view.target];
        loop {
            let domain = &own[self.levels.checked_sub(1)?];
            match domain.groups.get(self.group) {
                Some(at) => return Some(&view.domains.groups[*at as usize]),
                None => (self.levels, self.group) = (self.levels - 1, 0),
            }
        }
    }

    fn next_group(&mut self) {
        (self.group, self.cpu) = (self.group + 1, 0);
    }

    fn reason(&self, view: &View<'_>, group: &Group) -> PlaceReason {
        let level = view.domains.of_cpu[view.target][self.levels - 1].level;
        if group.span.contains(view.target) {
            PlaceReason::OwnGroupWentIdle
        } else if level == Level::Smt {
            PlaceReason::IdleSibling
        } else {
            PlaceReason::IdleGroup
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::testing::{domains, run, view};
    use schedlab_base::{CpuId, CpuSet};
    use schedlab_machine::Domains;

    /// fb-2x12-smt: cores {n, n + 24}; socket 0 has CPUs 0-11 and 24-35.
    fn scan(
        d: &Domains,
        version: &str,
        target: u32,
        idle: impl FnMut(u32) -> bool,
    ) -> (SearchStep, Vec<u32>) {
        let v = view(d, version, target, target);
        let mut scan = GroupScan::start(&v);
        run(|a| scan.step(&v, a), idle)
    }

    #[test]
    fn at_core_level_only_a_wholly_idle_core_is_taken() {
        for version in ["v3.4", "v4.5"] {
            let d = domains("fb-2x12-smt", version);
            let idle = CpuSet::parse("4,5,30,7,31").unwrap();
            let (step, _) = scan(&d, version, 2, |c| idle.contains(CpuId(c)));
            assert_eq!(step, SearchStep::Found(CpuId(7), PlaceReason::IdleGroup), "{version}");
        }
    }

    #[test]
    fn an_idle_thread_of_another_half_busy_core_is_never_found() {
        for version in ["v3.4", "v4.5"] {
            let d = domains("fb-2x12-smt", version);
            // Half of every other core of the socket is idle: the search finds only the target.
            let (step, probes) = scan(&d, version, 2, |c| c >= 24 && c != 26);
            assert_eq!(step, SearchStep::NotFound(PlaceReason::TargetBusy), "{version}");
            assert!(
                probes.iter().all(|c| *c < 12 || *c == 26),
                "first threads and the target's sibling only"
            );
        }
    }

    #[test]
    fn the_ring_starts_at_the_targets_own_group_and_a_busy_cpu_ends_a_group() {
        let d = domains("fb-2x12-smt", "v3.4");
        let (_, probes) = scan(&d, "v3.4", 10, |_| false);
        assert_eq!(
            probes,
            [10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 34],
            "cores by first thread, then threads"
        );
        let d = domains("fb-2x12-smt", "v4.5");
        let (_, probes) = scan(&d, "v4.5", 10, |_| false);
        assert_eq!(probes, [11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 34], "the target itself is not read again");
    }

    #[test]
    fn the_targets_sibling_is_found_at_the_level_of_threads() {
        for version in ["v3.4", "v4.5"] {
            let d = domains("fb-2x12-smt", version);
            let (step, _) = scan(&d, version, 2, |c| c == 26);
            assert_eq!(step, SearchStep::Found(CpuId(26), PlaceReason::IdleSibling), "{version}");
        }
    }

    #[test]
    fn with_skip_target_the_own_core_is_never_taken_at_core_level() {
        let d = domains("fb-2x12-smt", "v4.5");
        // All threads of the target's core, and no others, are idle by now.
        let (step, probes) = scan(&d, "v4.5", 2, |c| c == 2 || c == 26);
        assert_eq!(step, SearchStep::Found(CpuId(26), PlaceReason::IdleSibling));
        assert!(!probes.contains(&2));
        // The target is a second thread: the first one is read before the scan reaches the target and refuses the
        // group.
        let (_, probes) = scan(&d, "v4.5", 26, |c| c == 2 || c == 26);
        assert_eq!((probes[0], probes[1]), (2, 3));
    }

    #[test]
    fn without_skip_target_the_own_core_is_taken_when_idle_at_its_reading() {
        let d = domains("fb-2x12-smt", "v4.5");
        let mut v = view(&d, "v4.5", 26, 26);
        v.features.switch(Feature::SisSkipTarget, false);
        let mut scan = GroupScan::start(&v);
        let (step, probes) = run(|a| scan.step(&v, a), |c| c == 2 || c == 26);
        assert_eq!(
            step,
            SearchStep::Found(CpuId(2), PlaceReason::OwnGroupWentIdle),
            "its first CPU, not the target"
        );
        assert_eq!(probes, [2, 26]);
        // The target goes idle only while other cores are being read; the level of threads sees that.
        let mut reads = 0;
        let mut scan = GroupScan::start(&v);
        let late = |c| {
            reads += 1;
            c == 26 && reads > 5
        };
        let (step, _) = run(|a| scan.step(&v, a), late);
        assert_eq!(step, SearchStep::Found(CpuId(26), PlaceReason::OwnGroupWentIdle));
    }

    #[test]
    fn forbidden_groups_are_skipped_but_a_forbidden_thread_must_be_idle() {
        let d = domains("fb-2x12-smt", "v4.5");
        let allowed = CpuSet::parse("2,28,29").unwrap();
        let v = View { allowed: Some(&allowed), ..view(&d, "v4.5", 2, 2) };
        let mut scan = GroupScan::start(&v);
        let (step, probes) = run(|a| scan.step(&v, a), |c| c != 4);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(29), PlaceReason::IdleGroup), vec![4, 5, 29]));
    }

    #[test]
    fn without_smt_the_groups_are_cpus_and_without_a_cache_domain_there_are_none() {
        let d = domains("fb-2x24", "v4.5");
        let (step, probes) = scan(&d, "v4.5", 22, |c| c == 1);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(1), PlaceReason::IdleGroup), vec![23, 0, 1]));
        let d = domains("celeron-2", "v4.5");
        assert_eq!(scan(&d, "v4.5", 0, |_| true), (SearchStep::NotFound(PlaceReason::TargetBusy), vec![]));
    }
}
