//! The facts that all states of a kernel and a machine share.

use schedlab_base::{Arena, CpuId};
use schedlab_kernel::{History, Kernel};
use schedlab_machine::{Domain, Domains, Machine};

#[derive(Clone, Debug)]
pub struct Facts {
    pub nr_cpus: usize,
    pub domains: Arena<CpuId, Vec<Domain>>,
    /// CPUs of each CPU's cache, as bits.
    caches: Vec<u64>,
    pub threads: bool,
    /// Of each CPU.
    pub capacity: Vec<u64>,
    /// CPUs differ in capacity.
    pub unlike: bool,
    /// Exit latencies of idle states; `None` for no idle state.
    pub exits_us: Vec<Option<u32>>,
    pub history: History,
}

impl Facts {
    pub fn of(kernel: &Kernel, machine: &Machine) -> Facts {
        let cpus = &machine.topology.cpus;
        let exits = machine.idle_states.iter().map(|s| Some((s.exit.0 / 1000) as u32));
        let cache = |llc: u32| (0..cpus.len()).filter(|c| cpus[*c].llc == llc).map(|c| 1 << c).sum();
        Facts {
            nr_cpus: cpus.len(),
            domains: Domains::build(&machine.topology, kernel.version).of_cpu,
            caches: cpus.iter().map(|c| cache(c.llc)).collect(),
            threads: cpus.iter().any(|c| c.thread > 0),
            capacity: (0..cpus.len()).map(|c| machine.topology.capacity_of(CpuId::from(c)).into()).collect(),
            unlike: machine.topology.is_asymmetric(),
            exits_us: exits.chain([None]).collect(),
            history: History::of(kernel.version),
        }
    }
    /// The mask of all CPUs.
    pub fn all(&self) -> u64 {
        u64::MAX >> (64 - self.nr_cpus)
    }
    /// CPUs that share a cache.
    pub fn cache(&self, cpu: CpuId) -> u64 {
        self.caches[cpu.index()]
    }
}
