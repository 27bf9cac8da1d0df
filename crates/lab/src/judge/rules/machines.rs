//! The machines on which states are drawn.

use schedlab_base::Result;
use schedlab_machine::Machine;

/// For questions about whole machines, in turn: two nodes of four cores with two threads; eight cores of one cache; and
/// the machines of [`MADE`].
pub const OF_FLEETS: &[&str] =
    &["spr-2x4", "smp-8", "hybrid-2-8", "clusters-4-4-2", "ring-4x4", "caches-4x16"];

/// Machines chosen for their domains: fast cores of two threads next to clusters of slow ones, with levels that only
/// some CPUs have; three capacities without threads; four nodes of which each reaches two others in a hop, so that
/// their groups overlap; 64 CPUs in two nodes of two caches.
const MADE: &[(&str, &str)] = &[
    (
        "hybrid-2-8",
        "cores = [2, 8]
threads_per_core = [2, 1]
clusters = [0, 2]
llcs = [2]
capacity = [1024, 620]
numbering = 'adjacent'",
    ),
    ("clusters-4-4-2", "cores = [4, 4, 2]\nllcs = [3]\ncapacity = [300, 600, 1024]"),
    (
        "ring-4x4",
        "packages = 4
nodes = 4
llcs = 4
cores = 16
distances = [[10, 20, 30, 20], [20, 10, 20, 30], [30, 20, 10, 20], [20, 30, 20, 10]]",
    ),
    ("caches-4x16", "packages = 2\nnodes = 2\nllcs = 4\ncores = 32\nthreads_per_core = 2"),
];

/// The machine of that name.
///
/// # Errors
/// As [`Machine::load`].
pub fn machine(name: &str) -> Result<Machine> {
    let Some((_, topology)) = MADE.iter().find(|(made, _)| *made == name) else { return Machine::load(name) };
    let head = format!("name = '{name}'\nabout = 'made for decisions'\nsource = 'made'\nlike = 'smp-8'");
    Machine::parse(name, &format!("{head}\n[topology]\n{topology}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::{CpuId, Version};
    use schedlab_machine::Domains;

    #[test]
    fn the_machines_have_their_special_domains() {
        let domains = |name| Domains::build(&machine(name).unwrap().topology, Version::new(6, 12));
        let levels =
            |name, cpu: u32| domains(name).of_cpu[CpuId(cpu)].iter().map(|d| d.name).collect::<Vec<_>>();
        assert_eq!(levels("hybrid-2-8", 0), ["SMT", "MC"]);
        assert_eq!(levels("hybrid-2-8", 4), ["CLS", "MC"]);
        assert!(domains("clusters-4-4-2").of_cpu[CpuId(0)].iter().any(|d| d.params.asym_full));
        let ring = domains("ring-4x4");
        let top = ring.of_cpu[CpuId(0)].last().unwrap();
        let cpus: usize = top.groups.iter().map(|g| ring.groups[*g as usize].cpus.len()).sum();
        assert!(cpus > top.cpus.len(), "its groups overlap");
        assert_eq!(machine("caches-4x16").unwrap().topology.nr_cpus(), 64);
        OF_FLEETS.iter().for_each(|name| assert!(machine(name).unwrap().topology.nr_cpus() <= 64, "{name}"));
    }
}
