//! Tools for the tests of the searches: machines, a plain view, and a driver that answers probes.

use super::search::{Answer, SearchStep, View};
use schedlab_base::{CpuId, Version};
use schedlab_kernel::{FeatureSet, History};
use schedlab_machine::{Domains, Machine};

/// The domains of a preset under a kernel.
pub fn domains(machine: &str, version: &str) -> Domains {
    let machine = Machine::load(machine).unwrap();
    Domains::build(&machine.topology, Version::parse(version).unwrap())
}

/// A wakeup by the target's CPU with the version's own features and no hints.
pub fn view<'a>(domains: &'a Domains, version: &str, target: u32, prev: u32) -> View<'a> {
    let version = Version::parse(version).unwrap();
    View {
        domains,
        allowed: None,
        target: CpuId(target),
        prev: CpuId(prev),
        waker: CpuId(target),
        recent: CpuId(prev),
        // A test may leak its history.
        history: Box::leak(Box::new(History::of(version))),
        features: FeatureSet::defaults(version),
        target_nr_running: 1,
        has_idle_cores: false,
        nr_idle_scan: u32::MAX,
        avg_idle_ns: 1_000_000,
        wake_avg_idle_ns: 500_000,
        avg_scan_cost_ns: 0,
        packs: false,
        needs: None,
        clusters: false,
    }
}

impl From<bool> for Answer {
    fn from(idle: bool) -> Answer {
        if idle { Answer::Idle } else { Answer::Busy }
    }
}

impl From<Answer> for bool {
    fn from(answer: Answer) -> bool {
        answer.is_idle()
    }
}

/// Runs a search to its end; `idle` answers each probe and may answer differently the next time.
pub fn run<A: From<Answer>, I: Into<Answer>>(
    mut step: impl FnMut(Option<A>) -> SearchStep,
    mut idle: impl FnMut(u32) -> I,
) -> (SearchStep, Vec<u32>) {
    let (mut answer, mut probes) = (None, Vec::new());
    loop {
        match step(answer.take()) {
            SearchStep::Probe(cpu) => {
                probes.push(cpu.0);
                let read: Answer = idle(cpu.0).into();
                answer = Some(read.into());
            }
            end => return (end, probes),
        }
        assert!(probes.len() < 10_000, "the search does not end");
    }
}
