//! The first idle CPU of the cache domain, in ascending CPU number: D000's patch (Chris Mason, 5 Apr 2016).
//!
//! Replaces the group search of 4.5. It has no preference for idle cores and always starts at the LLC's lowest number,
//! so wakers that search at the same time meet on the same CPU, and low numbers fill up first.

use super::search::{SearchStep, View};
use schedlab_trace::PlaceReason;

/// The state of the scan: number of CPUs of the cache domain passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstIdle {
    passed: usize,
}

impl FirstIdle {
    /// A scan before its first probe.
    pub fn start() -> FirstIdle {
        FirstIdle::default()
    }
    pub fn step(&mut self, view: &View<'_>, last_probe_idle: Option<bool>) -> SearchStep {
        let cpus = view.llc(view.target).map_or(&[][..], |llc| &llc.cpus[..]);
        match last_probe_idle {
            Some(true) => return SearchStep::Found(cpus[self.passed], PlaceReason::FirstIdle),
            Some(false) => self.passed += 1,
            None => {}
        }
        while let Some(cpu) = cpus.get(self.passed) {
            if view.allows(*cpu) {
                return SearchStep::Probe(*cpu);
            }
            self.passed += 1;
        }
        SearchStep::NotFound(PlaceReason::TargetBusy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::testing::{domains, run, view};
    use schedlab_base::{CpuId, CpuSet};

    #[test]
    fn always_starts_from_the_lowest_cpu_of_the_llc() {
        let d = domains("fb-2x12-smt", "v4.5");
        for target in [0, 5, 30] {
            let v = view(&d, "v4.5", target, target);
            let mut scan = FirstIdle::start();
            let (step, probes) = run(|a| scan.step(&v, a), |cpu| cpu == 3 || cpu == 5);
            assert_eq!(
                (step, probes),
                (SearchStep::Found(CpuId(3), PlaceReason::FirstIdle), vec![0, 1, 2, 3])
            );
        }
        let v = view(&d, "v4.5", 40, 40);
        let mut scan = FirstIdle::start();
        let (step, probes) = run(|a| scan.step(&v, a), |_| false);
        assert_eq!(step, SearchStep::NotFound(PlaceReason::TargetBusy));
        assert_eq!(
            probes,
            (12..24).chain(36..48).collect::<Vec<u32>>(),
            "the target's socket, target included"
        );
    }

    #[test]
    fn finds_the_idle_sibling_of_a_busy_thread() {
        let d = domains("fb-2x12-smt", "v4.5");
        let v = view(&d, "v4.5", 0, 0);
        let mut scan = FirstIdle::start();
        let (step, _) = run(|a| scan.step(&v, a), |cpu| cpu == 31);
        assert_eq!(step, SearchStep::Found(CpuId(31), PlaceReason::FirstIdle));
    }

    #[test]
    fn skips_forbidden_cpus_unread_and_needs_a_cache_domain() {
        let d = domains("fb-2x12-smt", "v4.5");
        let allowed = CpuSet::parse("2,4,13").unwrap();
        let v = View { allowed: Some(&allowed), ..view(&d, "v4.5", 0, 0) };
        let mut scan = FirstIdle::start();
        assert_eq!(run(|a| scan.step(&v, a), |_| false).1, [2, 4]);
        let alone = domains("celeron-2", "v4.5");
        let v = view(&alone, "v4.5", 0, 0);
        let mut scan = FirstIdle::start();
        assert_eq!(
            run(|a| scan.step(&v, a), |_| true),
            (SearchStep::NotFound(PlaceReason::TargetBusy), vec![])
        );
    }
}
