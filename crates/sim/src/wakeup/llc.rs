//! State shared by the CPUs of a cache domain (`sd_llc_shared`): hints for the search for an idle CPU.

use schedlab_machine::Topology;

/// Shared state of one last-level cache.
#[derive(Clone, Debug)]
pub struct LlcShared {
    /// Number of CPUs of the cache.
    pub weight: u32,
    /// Whether a wholly idle core was seen. The hint may be wrong either way. It is never set on a machine without SMT
    /// (`sched_smt_present`), where every search is for single CPUs.
    pub has_idle_cores: bool,
    /// Number of probes that SIS_UTIL allows.
    pub nr_idle_scan: u32,
    /// Number of CPUs that are not tickless idle.
    pub nr_busy: u32,
}

impl LlcShared {
    /// The state of the machine's cache number `llc` while all its CPUs are idle.
    pub fn new(topology: &Topology, llc: usize) -> LlcShared {
        let weight = topology.cpus.iter().filter(|c| c.llc as usize == llc).count() as u32;
        let has_idle_cores = smt_present(topology);
        LlcShared { weight, has_idle_cores, nr_idle_scan: weight, nr_busy: 0 }
    }
}

/// Whether any core has more than one thread (`sched_smt_present`).
pub fn smt_present(topology: &Topology) -> bool {
    topology.cpus.iter().any(|c| c.thread > 0)
}

/// Probes that SIS_UTIL allows at a utilisation (6.0+): `weight * (1 - (x * pct)^2)`, x being the mean utilisation of
/// the cache's CPUs; none from 85 % on at `pct` 117. `sum_util` is in 1/1024 of a CPU.
pub fn nr_idle_scan(weight: u64, sum_util: u64, imbalance_pct: u64) -> u32 {
    let x = sum_util / weight.max(1);
    let square = x * x * imbalance_pct * imbalance_pct / (10_000 * 1024);
    (weight * (1024 - square.min(1024)) / 1024) as u32
}

#[cfg(test)]
mod tests {
    use super::{LlcShared, nr_idle_scan};
    use schedlab_machine::Machine;

    #[test]
    fn idle_cores_are_noted_only_on_smt_machines() {
        let knows = |m: &str| LlcShared::new(&Machine::load(m).unwrap().topology, 0).has_idle_cores;
        assert!(knows("smt-8") && !knows("smp-4"));
    }

    #[test]
    fn the_scan_depth_falls_with_the_square_of_utilisation() {
        let at = |pct: u64| nr_idle_scan(112, 112 * 1024 * pct / 100, 117);
        assert_eq!([at(0), at(50), at(70), at(80), at(86)], [112, 73, 37, 14, 0]);
    }
}
