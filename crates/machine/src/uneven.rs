//! A machine whose caches, or whose nodes, are of unlike size: lists where a regular machine has counts
//! ([`crate::shape`]).
//!
//! `cores` holds the cores of each last-level cache, `threads_per_core` those of each cache's cores, `nodes` the caches
//! of each node. The kernel needs no more: domains follow from the masks of CPUs. Not here: capacities of CPUs that
//! differ.

use crate::shape::{Numbering, in_order_of_cpus};
use crate::topology::{Arch, Cpu, RECLAIM_DISTANCE, Topology};
use schedlab_base::{Error, Result, cpuset::MAX_CPUS};

/// Sizes of an uneven machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uneven {
    /// Cores of each last-level cache.
    pub cores: Vec<u32>,
    /// Hardware threads of the cores of each last-level cache.
    pub threads: Vec<u32>,
    /// Last-level caches of each node.
    pub nodes: Vec<u32>,
    /// Sockets: a divisor of the nodes.
    pub packages: u32,
    /// CPU numbers; threads of a core side by side, or last.
    pub numbering: Numbering,
    /// Distance of any two nodes, by SLIT.
    pub remote_distance: u32,
}

impl Uneven {
    /// The topology of these sizes.
    ///
    /// # Errors
    /// When a size is zero, lists do not fit each other, or there are too many CPUs.
    pub fn topology(&self) -> Result<Topology> {
        self.check()?;
        let node_of: Vec<u32> =
            (0..).zip(&self.nodes).flat_map(|(node, caches)| (0..*caches).map(move |_| node)).collect();
        let nodes = self.nodes.len() as u32;
        let mut rows: Vec<Cpu> = Vec::new();
        let mut core = 0;
        for (llc, ((cores, threads), node)) in (0..).zip(self.cores.iter().zip(&self.threads).zip(&node_of)) {
            for _ in 0..*cores {
                let package = node / (nodes / self.packages);
                let row = |thread| Cpu { package, node: *node, llc, cluster: core, core, thread };
                rows.extend((0..*threads).map(row));
                core += 1;
            }
        }
        if self.numbering == Numbering::SiblingsLast {
            // A stable sort: within a thread number the cores stay in order.
            rows.sort_by_key(|row| row.thread);
        }
        let distance = |a, b| if a == b { 10 } else { self.remote_distance };
        let matrix = |a| (0..nodes).map(|b| distance(a, b)).collect();
        let node_distance = (0..nodes).map(matrix).collect();
        let cpus = in_order_of_cpus(rows.into_iter());
        let topology = Topology { cpus, node_distance, reclaim_distance: RECLAIM_DISTANCE, arch: Arch::X86 };
        topology.check().map(|()| topology)
    }

    /// The sizes of a topology, if it has an uneven form with that numbering.
    pub fn of(topology: &Topology, numbering: Numbering) -> Option<Uneven> {
        let cpus = &topology.cpus;
        let count = |unit: fn(&Cpu) -> u32| cpus.iter().map(|cpu| unit(cpu) + 1).max().unwrap_or(1);
        let of_llc = |llc: u32| cpus.iter().filter(move |c| c.llc == llc);
        let llcs = count(|c| c.llc);
        let sizes =
            |unit: fn(&&Cpu) -> bool| (0..llcs).map(|l| of_llc(l).filter(unit).count() as u32).collect();
        let threads = (0..llcs).map(|l| of_llc(l).map(|c| c.thread + 1).max().unwrap_or(1)).collect();
        let of_node =
            |node: u32| (0..llcs).filter(move |l| of_llc(*l).any(|c| c.node == node)).count() as u32;
        let own = Uneven {
            cores: sizes(|c| c.thread == 0),
            threads,
            nodes: (0..count(|c| c.node)).map(of_node).collect(),
            packages: count(|c| c.package),
            numbering,
            remote_distance: 20,
        };
        own.topology().is_ok_and(|made| made.cpus == topology.cpus).then_some(own)
    }

    fn check(&self) -> Result<()> {
        let lists = [("cores", &self.cores), ("threads_per_core", &self.threads), ("nodes", &self.nodes)];
        if let Some((name, _)) = lists.iter().find(|(_, list)| list.is_empty() || list.contains(&0)) {
            return Err(Error::input(format!("{name} holds a 0, or nothing: every unit has at least one")));
        }
        let caches = self.cores.len();
        if self.threads.len() != caches {
            let text = format!("threads_per_core has {} numbers for {caches} caches", self.threads.len());
            return Err(Error::input(text).help("one for the cores of each cache, or one for all"));
        }
        let placed: u64 = self.nodes.iter().map(|n| u64::from(*n)).sum();
        if placed != caches as u64 {
            let text = format!("nodes has places for {placed} caches, and there are {caches}");
            return Err(Error::input(text).help("nodes = [2, 1]: two caches in node 0, one in node 1"));
        }
        let nodes = self.nodes.len() as u32;
        if self.packages == 0 || !nodes.is_multiple_of(self.packages) {
            return Err(Error::input(format!(
                "nodes = {nodes} is not a multiple of packages = {}",
                self.packages
            )));
        }
        if self.numbering == Numbering::Alternating {
            return Err(Error::input("the CPUs of an uneven machine can't alternate over its packages")
                .help("numbering is \"siblings-last\" or \"adjacent\""));
        }
        let cpus: u64 =
            self.cores.iter().zip(&self.threads).map(|(c, t)| u64::from(*c) * u64::from(*t)).sum();
        if cpus > u64::from(MAX_CPUS) {
            return Err(Error::input(format!("{cpus} CPUs are too many")).help(format!("{MAX_CPUS} at most")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;

    fn clusters() -> Uneven {
        Uneven {
            cores: vec![4, 2],
            threads: vec![1, 1],
            nodes: vec![2],
            packages: 1,
            numbering: Numbering::SiblingsLast,
            remote_distance: 21,
        }
    }

    #[test]
    fn clusters_of_four_and_two() {
        let topology = clusters().topology().unwrap();
        let masks = |cpu| topology.llc_mask(CpuId(cpu)).to_string();
        assert_eq!((topology.nr_cpus(), masks(0), masks(5)), (6, "0-3".into(), "4-5".into()));
        assert_eq!(Uneven::of(&topology, Numbering::SiblingsLast).unwrap().cores, [4, 2]);
    }

    #[test]
    fn a_hybrid_desktop_and_nodes_of_unlike_size() {
        let hybrid = Uneven { cores: vec![2, 4], threads: vec![2, 1], ..clusters() };
        let by = |numbering| Uneven { numbering, ..hybrid.clone() }.topology().unwrap();
        let smt = |t: &Topology, cpu| t.smt_mask(CpuId(cpu)).to_string();
        let (last, beside) = (by(Numbering::SiblingsLast), by(Numbering::Adjacent));
        assert_eq!(
            (smt(&last, 0), smt(&beside, 0), smt(&beside, 4)),
            ("0,6".into(), "0-1".into(), "4".into())
        );
        assert_eq!(Uneven::of(&beside, Numbering::Adjacent).unwrap().threads, [2, 1]);
        assert!(Uneven::of(&beside, Numbering::SiblingsLast).is_none());
        let nodes = Uneven { cores: vec![4, 4, 2], threads: vec![1; 3], nodes: vec![2, 1], ..clusters() };
        let topology = nodes.topology().unwrap();
        let of_node = |n| topology.cpus.iter().filter(|c| c.node == n).count();
        assert_eq!((of_node(0), of_node(1), topology.node_distance.len()), (8, 2, 2));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let refused = |own: Uneven| own.topology().unwrap_err().to_string();
        assert!(refused(Uneven { cores: vec![4, 0], ..clusters() }).contains("cores holds a 0"));
        assert!(refused(Uneven { threads: vec![1], ..clusters() }).contains("1 numbers for 2 caches"));
        assert!(refused(Uneven { nodes: vec![1], ..clusters() }).contains("places for 1 caches"));
        assert!(refused(Uneven { packages: 2, ..clusters() }).contains("multiple of packages = 2"));
        assert!(refused(Uneven { numbering: Numbering::Alternating, ..clusters() }).contains("alternate"));
    }
}
