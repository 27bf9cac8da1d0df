//! The search before 2.6.32 (`wake_idle`): an idle CPU of the domains with SD_WAKE_IDLE, if the previous CPU is not
//! crowded.
//!
//! A CPU that runs more than one fair task is taken as it is: its siblings would have pulled from it if they could.
//! Otherwise the search goes up the domains as long as they have SD_WAKE_IDLE, in ascending CPU number, and takes the
//! first idle CPU. No x86 domain of 2.6.29 and 2.6.30 has the flag, so nothing is found there; 2.6.12's SMT level has
//! it. [`super::prelude`] tests whether the CPU itself is idle. An affine wakeup never comes here: it goes to the
//! waker's CPU, idle or not.

use super::search::{SearchStep, View};
use schedlab_machine::Domain;
use schedlab_trace::PlaceReason;

/// The state of the scan: a CPU of a domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct WakeIdle {
    level: usize,
    passed: usize,
}

impl WakeIdle {
    /// A scan before its first probe.
    pub fn start() -> WakeIdle {
        WakeIdle::default()
    }
    pub fn step(&mut self, view: &View<'_>, last_probe_idle: Option<bool>) -> SearchStep {
        if view.target_nr_running > 1 {
            return SearchStep::NotFound(PlaceReason::TargetBusy);
        }
        let domains = &view.domains.of_cpu[view.target];
        let searched = |level: usize| domains.get(level).filter(|d: &&Domain| d.params.wake_idle);
        let mut last = last_probe_idle;
        while let Some(domain) = searched(self.level) {
            match last.take() {
                Some(true) => return SearchStep::Found(domain.cpus[self.passed], PlaceReason::IdleSibling),
                Some(false) => self.passed += 1,
                None => {}
            }
            while let Some(cpu) = domain.cpus.get(self.passed) {
                if view.allows(*cpu) {
                    return SearchStep::Probe(*cpu);
                }
                self.passed += 1;
            }
            (self.level, self.passed) = (self.level + 1, 0);
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
    fn reads_the_threads_of_the_core_if_the_kernel_does() {
        let d = domains("p4-ht-2", "v2.6.12");
        let v = view(&d, "v2.6.30", 1, 1);
        let mut scan = WakeIdle::start();
        let (step, probes) = run(|a| scan.step(&v, a), |cpu| cpu == 3);
        assert_eq!((step, probes), (SearchStep::Found(CpuId(3), PlaceReason::IdleSibling), vec![1, 3]));
        let mut scan = WakeIdle::start();
        let (step, probes) = run(|a| scan.step(&v, a), |cpu| cpu == 0 || cpu == 2);
        assert_eq!((step, probes.len()), (SearchStep::NotFound(PlaceReason::TargetBusy), 2), "the core only");
        let allowed = CpuSet::parse("0-1").unwrap();
        let bound = View { allowed: Some(&allowed), ..v };
        let mut scan = WakeIdle::start();
        assert_eq!(run(|a| scan.step(&bound, a), |cpu| cpu == 3).1, [1]);
    }

    #[test]
    fn a_crowded_cpu_is_taken_and_2_6_30_searches_nowhere() {
        let d = domains("p4-ht-2", "v2.6.12");
        let v = View { target_nr_running: 2, ..view(&d, "v2.6.30", 1, 1) };
        let mut scan = WakeIdle::start();
        assert_eq!(
            run(|a| scan.step(&v, a), |_| true),
            (SearchStep::NotFound(PlaceReason::TargetBusy), vec![])
        );
        let d = domains("p4-ht-2", "v2.6.30");
        let v = view(&d, "v2.6.30", 1, 1);
        let mut scan = WakeIdle::start();
        assert_eq!(
            run(|a| scan.step(&v, a), |_| true),
            (SearchStep::NotFound(PlaceReason::TargetBusy), vec![])
        );
    }
}
