//! Machines that QEMU can build: topologies and CPU numbers.
//!
//! QEMU's PC is regular: sockets of equally many dies, dies of equally many cores, cores of equally many threads. An L3
//! belongs to a die (CPUID leaf 4 of an Intel CPU), so schedlab's LLC is QEMU's die. CPU numbers count threads of a
//! core first, then cores, dies and sockets (the order of the MADT). A machine with another numbering is renumbered,
//! but otherwise unchanged.

use schedlab_base::{Error, Result};
use schedlab_machine::{Cpu, Machine, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The most CPUs of a guest: with more, an emulator boots too slowly.
pub const MAX_CPUS: usize = 64;

/// Counts for QEMU's -smp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub sockets: u32,
    /// Dies per socket, each with an L3.
    pub dies: u32,
    /// Cores per die.
    pub cores: u32,
    pub threads: u32,
}

/// The same machine with CPUs numbered in QEMU's order.
///
/// # Errors
/// When QEMU can't build it: too many CPUs, clusters that share an L2, units of unequal size.
pub fn as_built(machine: &Machine) -> Result<Machine> {
    let order = order(&machine.topology);
    let topology = renumbered(&machine.topology, &order);
    counts(&topology).map_err(|e| e.context(format!("machine '{}' can't be a guest", machine.name)))?;
    Ok(Machine { topology, os_cpu: Vec::new(), ..machine.clone() })
}

/// CPUs in QEMU's order.
fn order(topology: &Topology) -> Vec<Cpu> {
    let mut cpus = topology.cpus.clone();
    cpus.sort_by_key(|c| (c.package, c.llc, c.core, c.thread));
    cpus
}

/// Renumbers units by their first CPU. Nodes keep their numbers, because the distances are indexed by them.
fn renumbered(topology: &Topology, order: &[Cpu]) -> Topology {
    fn dense(order: &[Cpu], unit: fn(&Cpu) -> u32) -> Vec<u32> {
        let mut known = BTreeMap::new();
        let id = |cpu: &Cpu| {
            let next = known.len() as u32;
            *known.entry(unit(cpu)).or_insert(next)
        };
        order.iter().map(id).collect()
    }
    let (package, llc) = (dense(order, |c| c.package), dense(order, |c| c.llc));
    let (cluster, core) = (dense(order, |c| c.cluster), dense(order, |c| c.core));
    let row = |(i, cpu): (usize, &Cpu)| Cpu {
        package: package[i],
        llc: llc[i],
        cluster: cluster[i],
        core: core[i],
        ..*cpu
    };
    Topology { cpus: order.iter().enumerate().map(row).collect(), ..topology.clone() }
}

/// The counts of a machine whose CPUs are numbered in QEMU's order.
pub fn counts(topology: &Topology) -> Result<Counts> {
    let cpus = &topology.cpus;
    if cpus.is_empty() || cpus.len() > MAX_CPUS {
        return Err(Error::input(format!("it has {}", schedlab_base::counted(cpus.len(), "CPU")))
            .help(format!("guests have 1 to {MAX_CPUS}: use a smaller machine, such as smt-16")));
    }
    if cpus.iter().any(|c| c.cluster != c.core) {
        return Err(Error::input("its cores share an L2 in clusters, which QEMU does not build")
            .help("describe it without clusters"));
    }
    let units = |unit: fn(&Cpu) -> u32| cpus.iter().map(unit).collect::<BTreeSet<u32>>().len();
    let (sockets, llcs, cores) = (units(|c| c.package), units(|c| c.llc), units(|c| c.core));
    let each = |what: &str, many: usize, few: usize| {
        if many.is_multiple_of(few) {
            return Ok((many / few) as u32);
        }
        Err(uneven(what))
    };
    let counts = Counts {
        sockets: sockets as u32,
        dies: each("last-level caches of its sockets", llcs, sockets)?,
        cores: each("cores of its last-level caches", cores, llcs)?,
        threads: each("threads of its cores", cpus.len(), cores)?,
    };
    for (number, cpu) in (0u32..).zip(cpus) {
        let core = number / counts.threads;
        let llc = core / counts.cores;
        if (cpu.core, cpu.llc, cpu.package) != (core, llc, llc / counts.dies) {
            return Err(uneven("CPUs of its cores, caches and sockets"));
        }
    }
    Ok(counts)
}

fn uneven(what: &str) -> Error {
    Error::input(format!("the {what} are not equally many"))
        .help("QEMU builds regular machines only: sockets, caches, cores and threads, each of the same size")
}

/// The first difference between the requested machine and the guest's, as a sentence; `None` if they are the same.
pub fn difference(asked: &Topology, seen: &Topology) -> Option<String> {
    if asked.nr_cpus() != seen.nr_cpus() {
        return Some(format!(
            "{} {} online instead of {}",
            schedlab_base::counted(seen.nr_cpus(), "CPU"),
            schedlab_base::one_or(seen.nr_cpus(), "is", "are"),
            asked.nr_cpus()
        ));
    }
    type Unit = (&'static str, fn(&Cpu) -> u32);
    const UNITS: [Unit; 5] = [
        ("core", |c| c.core),
        ("last-level cache", |c| c.llc),
        ("cluster", |c| c.cluster),
        ("socket", |c| c.package),
        ("node", |c| c.node),
    ];
    let with = |topology: &Topology, cpu: usize, unit: fn(&Cpu) -> u32| -> Vec<usize> {
        let own = unit(&topology.cpus[cpu]);
        (0..topology.nr_cpus()).filter(|c| unit(&topology.cpus[*c]) == own).collect()
    };
    for cpu in 0..asked.nr_cpus() {
        for (name, unit) in UNITS {
            let (want, have) = (with(asked, cpu, unit), with(seen, cpu, unit));
            if want != have {
                return Some(format!("cpu{cpu} shares its {name} with CPUs {have:?} instead of {want:?}"));
            }
        }
    }
    (asked.node_distance != seen.node_distance)
        .then(|| format!("node distances are {:?} instead of {:?}", seen.node_distance, asked.node_distance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;
    use schedlab_machine::shape::{Numbering, Shape};

    fn machine(shape: &Shape) -> Machine {
        Machine { topology: shape.topology().unwrap(), ..Machine::load("smp-2").unwrap() }
    }
    fn two_sockets() -> Shape {
        Shape { packages: 2, nodes: 2, llcs: 2, ..Shape::flat(4, 2) }
    }

    #[test]
    fn siblings_become_neighbours() {
        let built = as_built(&machine(&two_sockets())).unwrap().topology;
        let adjacent = Shape { numbering: Numbering::Adjacent, ..two_sockets() };
        assert_eq!(built, adjacent.topology().unwrap());
        assert_eq!(built.smt_mask(CpuId(1)).to_string(), "0-1");
        assert_eq!(counts(&built).unwrap(), Counts { sockets: 2, dies: 1, cores: 2, threads: 2 });
        let again = as_built(&machine(&adjacent)).unwrap().topology;
        assert_eq!(again, built, "what is numbered so already stays");
    }

    #[test]
    fn a_cache_is_a_die() {
        let built = as_built(&machine(&Shape { llcs: 4, ..Shape::flat(8, 1) })).unwrap().topology;
        assert_eq!(counts(&built).unwrap(), Counts { sockets: 1, dies: 4, cores: 2, threads: 1 });
    }

    #[test]
    fn machines_that_qemu_can_not_build_are_named() {
        let error = |m: &Machine| as_built(m).unwrap_err().to_string();
        let big = error(&Machine::load("smt-128").unwrap());
        assert!(big.contains("'smt-128'") && big.contains("128 CPUs") && big.contains("1 to 64"), "{big}");
        let clusters = error(&machine(&Shape { clusters: 2, ..Shape::flat(8, 1) }));
        assert!(clusters.contains("L2"), "{clusters}");
        let mut odd = machine(&two_sockets());
        odd.topology.cpus.pop();
        assert!(error(&odd).contains("not equally many"));
        // The totals divide evenly, but units are unequal.
        let mut skewed = machine(&Shape { numbering: Numbering::Adjacent, ..Shape::flat(2, 2) });
        skewed.topology.cpus[1].core = 1;
        skewed.topology.cpus[1].cluster = 1;
        skewed.topology.cpus.push(Cpu { thread: 3, ..skewed.topology.cpus[3] });
        skewed.topology.cpus.push(Cpu { thread: 4, ..skewed.topology.cpus[3] });
        assert!(error(&skewed).contains("not equally many"));
    }

    #[test]
    fn a_difference_names_the_cpu_and_the_unit() {
        let asked = as_built(&machine(&two_sockets())).unwrap().topology;
        assert_eq!(difference(&asked, &asked), None);
        let mut seen = asked.clone();
        seen.cpus[1].core = 7;
        let told = difference(&asked, &seen).unwrap();
        assert_eq!(told, "cpu0 shares its core with CPUs [0] instead of [0, 1]");
        seen.cpus.pop();
        assert_eq!(difference(&asked, &seen).unwrap(), "7 CPUs are online instead of 8");
        let mut far = asked.clone();
        far.node_distance = vec![vec![10, 30], vec![30, 10]];
        assert!(difference(&asked, &far).unwrap().contains("distances"));
    }
}
