//! A machine whose caches, nodes or cores differ: lists replace the counts of a regular machine ([`crate::shape`]).
//!
//! The lists are about *groups of cores*: cores of one kind in one last-level cache. `cores` has the number of cores of
//! each group; `threads_per_core`, `clusters` and `capacity` describe them; `llcs` has the groups of each cache,
//! `nodes` the caches of each node. The kernel needs no more: domains follow from the masks and capacities of CPUs.

use crate::shape::{Numbering, in_order_of_cpus};
use crate::topology::{Cpu, FULL_CAPACITY, Topology};
use schedlab_base::{CpuId, Error, Result, cpuset::MAX_CPUS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uneven {
    /// Cores of each group.
    pub cores: Vec<u32>,
    /// Hardware threads of the cores of each group.
    pub threads: Vec<u32>,
    /// Clusters (shared L2) of each group; 0 where each core has its own.
    pub clusters: Vec<u32>,
    /// Capacity of the CPUs of each group.
    pub capacity: Vec<u32>,
    /// Groups of each last-level cache.
    pub llcs: Vec<u32>,
    /// Last-level caches of each node.
    pub nodes: Vec<u32>,
    /// Sockets: a divisor of the nodes.
    pub packages: u32,
    /// Threads of a core are neighbours, or siblings come last.
    pub numbering: Numbering,
    /// SLIT distance of any two nodes.
    pub remote_distance: u32,
}

/// The unit of each part: `[2, 1]` gives `[0, 0, 1]`.
fn homes(parts: &[u32]) -> Vec<u32> {
    (0..).zip(parts).flat_map(|(unit, parts)| (0..*parts).map(move |_| unit)).collect()
}

impl Uneven {
    /// For tests: groups of full-speed cores without clusters, each with its own cache.
    #[cfg(test)]
    pub fn caches(cores: Vec<u32>, threads: Vec<u32>, nodes: Vec<u32>) -> Uneven {
        let groups = cores.len();
        Uneven {
            threads,
            clusters: vec![0; groups],
            capacity: vec![FULL_CAPACITY; groups],
            llcs: vec![1; groups],
            nodes,
            packages: 1,
            numbering: Numbering::SiblingsLast,
            remote_distance: 21,
            cores,
        }
    }

    /// Builds the topology.
    ///
    /// # Errors
    /// When a size is zero, lists do not match, or there are too many CPUs.
    pub fn topology(&self) -> Result<Topology> {
        self.check()?;
        let (llc_of, node_of) = (homes(&self.llcs), homes(&self.nodes));
        let nodes = self.nodes.len() as u32;
        let mut rows: Vec<(Cpu, u32)> = Vec::new();
        let (mut core, mut cluster) = (0, 0);
        for (group, cores) in self.cores.iter().enumerate() {
            let llc = llc_of[group];
            let node = node_of[llc as usize];
            let package = node / (nodes / self.packages);
            let clusters = if self.clusters[group] == 0 { *cores } else { self.clusters[group] };
            for at in 0..*cores {
                let cluster = cluster + at / (cores / clusters);
                let row = |thread| (Cpu { package, node, llc, cluster, core, thread }, self.capacity[group]);
                rows.extend((0..self.threads[group]).map(row));
                core += 1;
            }
            cluster += clusters;
        }
        if self.numbering == Numbering::SiblingsLast {
            // A stable sort keeps the cores in order within a thread number.
            rows.sort_by_key(|(row, _)| row.thread);
        }
        let distance = |a, b| if a == b { 10 } else { self.remote_distance };
        let matrix = |a| (0..nodes).map(|b| distance(a, b)).collect();
        let node_distance = (0..nodes).map(matrix).collect();
        let cpus = in_order_of_cpus(rows.iter().map(|(row, _)| *row));
        let mut topology = Topology::plain(cpus, node_distance);
        if self.capacity.iter().any(|c| *c != FULL_CAPACITY) {
            topology.capacity = rows.iter().map(|(_, capacity)| *capacity).collect();
        }
        topology.check().map(|()| topology)
    }

    /// The sizes of a topology, if it has this uneven form with that numbering.
    pub fn of(topology: &Topology, numbering: Numbering) -> Option<Uneven> {
        let groups = groups(topology);
        let column = |field: fn(&Group) -> u32| groups.iter().map(field).collect::<Vec<u32>>();
        let llcs = count(topology, |c| c.llc);
        let of_node = |node| count_of(topology, |c| c.llc, |c| c.node == node);
        let own = Uneven {
            cores: column(|g| g.cores),
            threads: column(|g| g.threads),
            clusters: column(|g| if g.clusters == g.cores { 0 } else { g.clusters }),
            capacity: column(|g| g.capacity),
            llcs: (0..llcs).map(|llc| groups.iter().filter(|g| g.llc == llc).count() as u32).collect(),
            nodes: (0..count(topology, |c| c.node)).map(of_node).collect(),
            packages: count(topology, |c| c.package),
            numbering,
            remote_distance: 20,
        };
        let same = |made: Topology| made.cpus == topology.cpus && made.capacity == topology.capacity;
        own.topology().is_ok_and(same).then_some(own)
    }

    /// Whether sizes of caches alone describe the machine.
    pub fn has_one_kind_a_cache(&self) -> bool {
        self.llcs.iter().all(|groups| *groups == 1)
    }

    fn check(&self) -> Result<()> {
        let lists = [
            ("cores", &self.cores),
            ("threads_per_core", &self.threads),
            ("capacity", &self.capacity),
            ("llcs", &self.llcs),
            ("nodes", &self.nodes),
        ];
        if let Some((name, _)) = lists.iter().find(|(_, list)| list.is_empty()) {
            return Err(Error::input(format!("{name} is empty")).help("a list has an entry for each unit"));
        }
        if let Some((name, _)) = lists.iter().find(|(_, list)| list.contains(&0)) {
            return Err(Error::input(format!("{name} holds a 0")).help("every unit has at least one"));
        }
        let groups = self.cores.len();
        let of_groups =
            [("threads_per_core", &self.threads), ("clusters", &self.clusters), ("capacity", &self.capacity)];
        if let Some((name, list)) = of_groups.iter().find(|(_, list)| list.len() != groups) {
            let text = format!("{name} has {} numbers, and cores has {groups}", list.len());
            return Err(Error::input(text).help("one for each entry of cores, or one for all"));
        }
        let uneven = |(cores, clusters): (&u32, &u32)| *clusters > 0 && !cores.is_multiple_of(*clusters);
        if let Some(at) = self.cores.iter().zip(&self.clusters).position(uneven) {
            let what =
                format!("{} cores can't be divided over {} clusters", self.cores[at], self.clusters[at]);
            return Err(Error::input(what).help("clusters = [2, 0]: none where each core has its own L2"));
        }
        let sum = |list: &[u32]| list.iter().map(|n| u64::from(*n)).sum::<u64>();
        let (in_caches, caches) = (sum(&self.llcs), self.llcs.len());
        if in_caches != groups as u64 {
            let text = format!("llcs has places for {in_caches} entries of cores, and there are {groups}");
            return Err(Error::input(text).help("llcs = [2]: both entries of cores share one cache"));
        }
        let placed = sum(&self.nodes);
        if placed != caches as u64 {
            let text = format!("nodes has places for {placed} caches, and there are {caches}");
            return Err(Error::input(text).help("nodes = [2, 1]: two caches in node 0, one in node 1"));
        }
        let nodes = self.nodes.len() as u32;
        if self.packages == 0 || !nodes.is_multiple_of(self.packages) {
            let text = format!("{nodes} nodes can't be divided over {} packages", self.packages);
            return Err(Error::input(text).help("packages = 1, or a divisor of the number of nodes"));
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

/// Cores of one kind in one cache.
struct Group {
    llc: u32,
    cores: u32,
    threads: u32,
    clusters: u32,
    capacity: u32,
}

fn count(topology: &Topology, unit: fn(&Cpu) -> u32) -> u32 {
    topology.cpus.iter().map(|cpu| unit(cpu) + 1).max().unwrap_or(1)
}

/// The number of different units among the `wanted` CPUs.
fn count_of(topology: &Topology, unit: fn(&Cpu) -> u32, wanted: impl Fn(&Cpu) -> bool) -> u32 {
    let mut all: Vec<u32> = topology.cpus.iter().filter(|c| wanted(c)).map(unit).collect();
    all.sort_unstable();
    all.dedup();
    all.len() as u32
}

/// Runs of similar cores, in core order.
fn groups(topology: &Topology) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // The last core's cluster size and cluster.
    let mut last = (0, u32::MAX);
    for core in 0..count(topology, |c| c.core) {
        let Some(first) = topology.cpus.iter().position(|c| c.core == core && c.thread == 0) else {
            continue;
        };
        let row = &topology.cpus[first];
        let threads = topology.cpus.iter().filter(|c| c.core == core).count() as u32;
        let size = count_of(topology, |c| c.core, |c| c.cluster == row.cluster);
        let capacity = topology.capacity_of(CpuId::from(first));
        let new_cluster = u32::from(row.cluster != last.1);
        match groups.last_mut() {
            Some(g)
                if g.llc == row.llc && g.threads == threads && g.capacity == capacity && last.0 == size =>
            {
                g.cores += 1;
                g.clusters += new_cluster;
            }
            _ => groups.push(Group { llc: row.llc, cores: 1, threads, clusters: 1, capacity }),
        }
        last = (size, row.cluster);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;

    fn clusters() -> Uneven {
        Uneven::caches(vec![4, 2], vec![1, 1], vec![2])
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
        let nodes = Uneven::caches(vec![4, 4, 2], vec![1; 3], vec![2, 1]);
        let topology = nodes.topology().unwrap();
        let of_node = |n| topology.cpus.iter().filter(|c| c.node == n).count();
        assert_eq!((of_node(0), of_node(1), topology.node_distance.len()), (8, 2, 2));
    }

    #[test]
    fn cores_of_two_kinds_share_a_cache() {
        let phone = Uneven { llcs: vec![2], nodes: vec![1], capacity: vec![446, 1024], ..clusters() };
        let topology = phone.topology().unwrap();
        assert_eq!(topology.llc_mask(CpuId(0)).to_string(), "0-5");
        assert_eq!([0, 3, 4].map(|c| topology.capacity_of(CpuId(c))), [446, 446, 1024]);
        assert!(topology.is_asymmetric() && !clusters().topology().unwrap().is_asymmetric());
        let back = Uneven::of(&topology, Numbering::SiblingsLast).unwrap();
        assert_eq!((back.capacity, back.llcs, back.cores), (vec![446, 1024], vec![2], vec![4, 2]));
        // Performance cores with two threads, and clusters of four efficiency cores.
        let hybrid = Uneven {
            cores: vec![2, 8],
            threads: vec![2, 1],
            clusters: vec![0, 2],
            capacity: vec![1024, 600],
            ..phone
        };
        for numbering in [Numbering::Adjacent, Numbering::SiblingsLast] {
            let own = Uneven { numbering, remote_distance: 20, ..hybrid.clone() };
            let topology = own.topology().unwrap();
            assert_eq!(Uneven::of(&topology, numbering), Some(own));
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let refused = |own: Uneven| own.topology().unwrap_err().to_string();
        assert!(refused(Uneven { cores: vec![4, 0], ..clusters() }).contains("cores holds a 0"));
        assert!(
            refused(Uneven { threads: vec![1], ..clusters() }).contains("has 1 numbers, and cores has 2")
        );
        assert!(refused(Uneven { capacity: vec![1024], ..clusters() }).contains("capacity has 1 numbers"));
        assert!(refused(Uneven { capacity: vec![1024, 1025], ..clusters() }).contains("a capacity of 1025"));
        assert!(refused(Uneven { llcs: vec![1], ..clusters() }).contains("places for 1 entries"));
        assert!(refused(Uneven { clusters: vec![3, 0], ..clusters() }).contains("4 cores can't be divided"));
        assert!(refused(Uneven { nodes: vec![1], ..clusters() }).contains("places for 1 caches"));
        assert!(refused(Uneven { packages: 2, ..clusters() }).contains("over 2 packages"));
        assert!(refused(Uneven { numbering: Numbering::Alternating, ..clusters() }).contains("alternate"));
    }
}
