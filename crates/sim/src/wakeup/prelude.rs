//! The tests before the search: the target itself, the previous CPU, the CPU before that.
//!
//! Each CPU is read at its own instant; a CPU found idle is not reserved.
//!
//! - Before 2.6.32 `wake_idle` begins with the same test of the previous CPU.
//! - Before 3.9 only the target is read, and only if it is the waker's or the previous CPU (which it always is).
//! - Since 3.9 the previous CPU follows, if it shares the target's cache.
//! - Since 4.16 the task's `recent_used_cpu` follows, if it also shares that cache and is allowed.
//!
//! Since 5.4 a CPU that runs only SCHED_IDLE tasks suffices in all three tests.
//!
//! If CPUs differ in capacity the task must fit the CPU (5.10), whose core must also be idle (7.3); the kernels before
//! 5.10 go to the search at once (5.7). If CPUs have clusters, a CPU of a cluster other than the target's is only the
//! fallback if the search finds nothing (6.7).
//!
//! Not modelled: the rule that lets a CPU-bound kernel thread pull its wakee onto its own CPU (5.6+).

use super::search::{Answer, SearchStep, View};
use schedlab_base::CpuId;
use schedlab_trace::PlaceReason;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Test {
    Target,
    Prev,
    Recent,
    Over,
}

/// The tests in progress. `NotFound` at the end means: start the search.
///
/// If neither target nor previous CPU suffices, the driver then sets the task's `recent_used_cpu` to the previous CPU,
/// wherever the task goes, as 6.1 does. (4.16 and its successors do so only when the recent CPU is taken; otherwise
/// they note the *waker's* CPU in the waker.)
#[derive(Clone, Copy, Debug)]
pub struct Prelude {
    test: Test,
    /// If the CPU suffices provided that its core is idle: its answer, and the number of threads of its core passed.
    beside: Option<(Answer, usize)>,
    /// An idle CPU of another cluster.
    fallback: Option<(CpuId, PlaceReason)>,
}

impl Prelude {
    /// The state before the first test.
    pub fn start() -> Prelude {
        Prelude { test: Test::Target, beside: None, fallback: None }
    }

    /// The CPU to take if the search finds none.
    pub fn fallback(&self) -> Option<(CpuId, PlaceReason)> {
        self.fallback
    }

    pub fn step(&mut self, view: &View<'_>, last: Option<Answer>) -> SearchStep {
        if let Some(step) = last.and_then(|answer| self.answered(view, answer)) {
            return step;
        }
        while self.test != Test::Over {
            if self.applies(view) {
                return SearchStep::Probe(self.choice(view).0);
            }
            self.test = self.following(view);
        }
        SearchStep::NotFound(PlaceReason::TargetBusy)
    }

    /// Processes an answer about the tested CPU, or about a thread of its core. `None`: the next test follows.
    fn answered(&mut self, view: &View<'_>, answer: Answer) -> Option<SearchStep> {
        let (cpu, reason) = self.choice(view);
        let would_do = match self.beside {
            Some((first, _)) => answer.is_idle().then_some(first),
            None => Some(answer).filter(|a| *a != Answer::Busy && view.fits(cpu)),
        };
        let passed = self.beside.map_or(0, |(_, passed)| passed);
        self.beside = None;
        if let Some(first) = would_do {
            if let Some((passed, thread)) = view.thread_beside(cpu, passed) {
                self.beside = Some((first, passed));
                return Some(SearchStep::Probe(thread));
            }
            if self.test == Test::Target || view.shares_cluster(cpu, view.target) {
                return Some(SearchStep::Found(cpu, first.reason(reason)));
            }
            self.fallback = self.fallback.or(Some((cpu, first.reason(reason))));
        }
        self.test = self.following(view);
        None
    }

    /// Whether the current test is about the task's `recent_used_cpu`, or all tests are over: all tests before have
    /// failed.
    pub fn passed_prev(self) -> bool {
        matches!(self.test, Test::Recent | Test::Over)
    }

    fn following(self, view: &View<'_>) -> Test {
        match self.test {
            Test::Prev if view.packs => Test::Over,
            Test::Target => Test::Prev,
            Test::Prev => Test::Recent,
            Test::Recent | Test::Over => Test::Over,
        }
    }

    fn choice(self, view: &View<'_>) -> (CpuId, PlaceReason) {
        match self.test {
            Test::Prev => (view.prev, PlaceReason::PrevIdle),
            Test::Recent => (view.recent, PlaceReason::RecentIdle),
            Test::Target | Test::Over => (view.target, PlaceReason::TargetIdle),
        }
    }

    /// Whether this kernel makes the current test for these CPUs.
    fn applies(self, view: &View<'_>) -> bool {
        let (target, prev, recent) = (view.target, view.prev, view.recent);
        if view.by_capacity() && !view.history.near_before_capacity {
            return false;
        }
        match self.test {
            Test::Target => view.history.reads_previous_cpu || target == view.waker || target == prev,
            Test::Prev => {
                view.history.reads_previous_cpu && prev != target && view.shares_cache(prev, target)
            }
            Test::Recent => {
                view.history.recent_used_cpu
                    && recent != prev
                    && recent != target
                    && view.shares_cache(recent, target)
                    && view.allows(recent)
            }
            Test::Over => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::search::Search;
    use crate::wakeup::testing::{domains, run, view};
    use schedlab_base::CpuSet;

    fn probes(v: &View<'_>) -> Vec<u32> {
        let mut prelude = Prelude::start();
        let (step, probes) = run(|a| prelude.step(v, a), |_| false);
        assert_eq!(step, SearchStep::NotFound(PlaceReason::TargetBusy));
        probes
    }

    fn found(v: &View<'_>, idle: u32) -> SearchStep {
        let mut prelude = Prelude::start();
        run(|a| prelude.step(v, a), |c| c == idle).0
    }

    #[test]
    fn each_era_reads_one_cpu_more() {
        for (version, want) in
            [("v3.4", &[2][..]), ("v4.5", &[2, 5]), ("v4.9", &[2, 5]), ("v6.5", &[2, 5, 7])]
        {
            let d = domains("fb-2x12-smt", version);
            let v = View { recent: CpuId(7), ..view(&d, version, 2, 5) };
            assert_eq!(probes(&v), want, "{version}");
        }
    }

    #[test]
    fn packed_wakeups_read_only_target_and_previous_cpu() {
        let d = domains("fb-2x12-smt", "v6.5");
        let v = View { recent: CpuId(7), packs: true, ..view(&d, "v6.5", 2, 5) };
        assert_eq!(probes(&v), [2, 5]);
        assert!(matches!(Search::start(&v), Search::None));
        let full = View { packs: false, ..v };
        assert_eq!(probes(&full), [2, 5, 7]);
        assert!(!matches!(Search::start(&full), Search::None));
    }

    #[test]
    fn the_reason_says_which_cpu_was_idle() {
        let d = domains("fb-2x12-smt", "v6.5");
        let v = View { recent: CpuId(7), ..view(&d, "v6.5", 2, 5) };
        assert_eq!(found(&v, 2), SearchStep::Found(CpuId(2), PlaceReason::TargetIdle));
        assert_eq!(found(&v, 5), SearchStep::Found(CpuId(5), PlaceReason::PrevIdle));
        assert_eq!(found(&v, 7), SearchStep::Found(CpuId(7), PlaceReason::RecentIdle));
    }

    #[test]
    fn only_cpus_of_the_targets_cache_count_and_none_is_read_twice() {
        let d = domains("fb-2x12-smt", "v6.5");
        let far = View { recent: CpuId(13), ..view(&d, "v6.5", 2, 12) };
        assert_eq!(probes(&far), [2], "the other socket's CPUs are not read");
        let same = View { recent: CpuId(2), ..view(&d, "v6.5", 2, 2) };
        assert_eq!(probes(&same), [2]);
        let recent_is_prev = View { recent: CpuId(5), ..view(&d, "v6.5", 2, 5) };
        assert_eq!(probes(&recent_is_prev), [2, 5]);
        let allowed = CpuSet::parse("2,5").unwrap();
        let v = View { recent: CpuId(7), allowed: Some(&allowed), ..view(&d, "v6.5", 2, 5) };
        assert_eq!(probes(&v), [2, 5], "the recent CPU is no longer allowed");
    }

    #[test]
    fn since_6_7_an_idle_cpu_of_another_cluster_is_the_fallback() {
        use schedlab_machine::{Domains, shape::Shape};
        let topology = Shape { clusters: 2, ..Shape::flat(8, 1) }.topology().unwrap();
        let found = |version: &str, clusters: bool, idle: &[u32]| {
            let d = Domains::build(&topology, schedlab_base::Version::parse(version).unwrap());
            let v = View { recent: CpuId(6), clusters, ..view(&d, version, 1, 5) };
            let mut prelude = Prelude::start();
            (run(|a| prelude.step(&v, a), |c| idle.contains(&c)).0, prelude.fallback())
        };
        let (prev, recent) = ((CpuId(5), PlaceReason::PrevIdle), (CpuId(6), PlaceReason::RecentIdle));
        let searches = SearchStep::NotFound(PlaceReason::TargetBusy);
        assert_eq!(found("6.5", false, &[5, 6]).0, SearchStep::Found(prev.0, prev.1));
        assert_eq!(found("6.12", true, &[5, 6]), (searches, Some(prev)));
        assert_eq!(found("6.12", true, &[6]), (searches, Some(recent)));
        assert_eq!(found("6.12", true, &[]), (searches, None));
    }
}
