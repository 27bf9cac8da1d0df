//! Machines of the documents, level by level, and properties of random small topologies.

use super::*;
use crate::Machine;
use crate::shape::{Numbering, Shape};
use proptest::prelude::*;

fn domains(machine: &str, version: &str) -> Domains {
    let machine = Machine::load(machine).unwrap();
    Domains::build(&machine.topology, Version::parse(version).unwrap())
}

/// One CPU's domains, bottom up: name, span weight, groups, CPUs of the first group.
fn shape(domains: &Domains, cpu: u32) -> Vec<(&'static str, usize, usize, usize)> {
    let own = &domains.of_cpu[CpuId(cpu)];
    own.iter()
        .map(|d| (d.name, d.cpus.len(), d.groups.len(), domains.groups[d.groups[0] as usize].cpus.len()))
        .collect()
}

fn ring(domains: &Domains, cpu: usize, level: usize) -> Vec<String> {
    let ring = &domains.of_cpu[CpuId::from(cpu)][level].groups;
    ring.iter().map(|g| domains.groups[*g as usize].span.to_string()).collect()
}

#[test]
fn the_first_cpu_has_the_same_domains_alone() {
    for (machine, version) in
        [("spr-2x56", "6.5"), ("smp-8", "6.12"), ("nodes-8x8-smt", "4.5"), ("1cpu", "6.5")]
    {
        let (all, version) = (domains(machine, version), Version::parse(version).unwrap());
        let first = Domains::of_first(&Machine::load(machine).unwrap().topology, version);
        assert_eq!(first, all.of_cpu[CpuId(0)], "{machine} {version}");
    }
}

#[test]
fn the_documents_machines_have_the_documents_domains() {
    let d001 = domains("spr-2x56", "6.5");
    assert_eq!(shape(&d001, 8), [("SMT", 2, 2, 1), ("MC", 112, 56, 2), ("NUMA", 224, 2, 112)]);
    assert_eq!(ring(&d001, 8, 0), ["8", "120"]);
    let mc = ring(&d001, 8, 1);
    let at = [0, 1, 47, 48, 55].map(|i| mc[i].as_str());
    assert_eq!(at, ["8,120", "9,121", "55,167", "0,112", "7,119"]);
    assert_eq!(ring(&d001, 60, 2), ["56-111,168-223", "0-55,112-167"]);
    let d000 = [("fb-2x24-smt", 96, 48, 24), ("fb-2x12-smt", 48, 24, 12)];
    for (name, all, node, cores) in d000 {
        let want = [("SMT", 2, 2, 1), ("MC", node, cores, 2), ("NUMA", all, 2, node)];
        assert_eq!(shape(&domains(name, "4.5"), 1), want, "{name}");
    }
    assert_eq!(shape(&domains("fb-2x24", "4.5"), 0), [("MC", 24, 24, 1), ("NUMA", 48, 2, 24)]);
    let d002 = domains("x5570-2x4-smt", "3.4");
    assert_eq!(shape(&d002, 0), [("SMT", 2, 2, 1), ("MC", 8, 4, 2), ("NODE", 16, 2, 8)]);
    assert_eq!(shape(&domains("nodes-2x4", "3.4"), 0), [("MC", 4, 4, 1), ("NODE", 8, 2, 4)]);
    assert_eq!(shape(&domains("celeron-2", "2.6.12"), 0), [("CPU", 2, 2, 1)]);
    assert_eq!(shape(&domains("p3-8", "2.6.12"), 3), [("CPU", 8, 8, 1)]);
    let p4 = domains("p4-ht-2", "2.6.12");
    assert_eq!(shape(&p4, 0), [("SMT", 2, 2, 1), ("CPU", 4, 2, 2)]);
    assert_eq!((ring(&p4, 0, 1), ring(&p4, 3, 1)), {
        (vec!["0,2".to_string(), "1,3".into()], vec!["1,3".to_string(), "0,2".into()])
    });
    assert_eq!(shape(&domains("smp-2", "2.6.27"), 0).len(), 1);
}

#[test]
fn numa_imbalance_is_that_of_d001_and_counts_llcs_on_epyc() {
    let imb = |machine, version| -> Vec<u32> {
        domains(machine, version).of_cpu[CpuId(0)].iter().map(|d| d.imb_numa_nr).collect()
    };
    assert_eq!(imb("spr-2x56", "6.5"), [0, 0, 14]);
    assert_eq!(imb("spr-2x56", "5.17"), [0, 0, 0]);
    assert_eq!(imb("spr-2x56", "5.19"), [0, 0, 28], "a quarter, before 6.0");
    assert_eq!([imb("nodes-2x4", "5.19"), imb("nodes-2x4", "6.0")], [[0, 1], [0, 1]]);
    assert_eq!(imb("epyc-2x64-smt", "6.5"), [0, 0, 8, 8]);
}

#[test]
fn many_llcs_keep_the_die_level_under_its_name_of_the_day() {
    let names = |v| shape(&domains("epyc-2x64-smt", v), 0);
    let want = |die| [("SMT", 2, 2, 1), ("MC", 16, 8, 2), (die, 128, 8, 16), ("NUMA", 256, 2, 128)];
    assert_eq!(names("6.5"), want("DIE"));
    assert_eq!(names("6.7"), want("PKG"));
    let epyc = domains("epyc-2x64-smt", "6.5");
    assert_eq!(epyc.llc[CpuId(0)], Some(1));
    // AMD sets the reclaim distance to its remote distance (5.4+), so affine wakeups cross sockets. On older kernels
    // they do not.
    assert!(epyc.of_cpu[CpuId(0)][3].params.wake_affine);
    assert!(!domains("epyc-2x64-smt", "5.3").of_cpu[CpuId(0)][3].params.wake_affine);
}

#[test]
fn llc_is_none_for_a_cpu_alone_in_its_cache() {
    assert_eq!(*domains("celeron-2", "6.5").llc, [None, None]);
    assert_eq!(*domains("p4-ht-2", "6.5").llc, [Some(0); 4]);
    assert_eq!(*domains("smp-1", "6.5").of_cpu, [vec![]]);
}

#[test]
fn a_dropped_parent_leaves_its_wish_to_spread_since_3_12() {
    let mc = |v| domains("fb-2x24", v).of_cpu[CpuId(0)][0].params.prefer_sibling;
    assert_eq!([mc("3.5"), mc("3.12")], [false, true]);
}

#[test]
fn clusters_make_a_level_since_5_16() {
    let shape_of = Shape { clusters: 2, ..Shape::flat(8, 1) };
    let topology = shape_of.topology().unwrap();
    let names = |v: &str| {
        let d = Domains::build(&topology, Version::parse(v).unwrap());
        d.of_cpu[CpuId(5)].iter().map(|d| (d.name, d.cpus.len(), d.groups.len())).collect::<Vec<_>>()
    };
    assert_eq!(names("5.15"), [("MC", 8, 8)]);
    assert_eq!(names("5.16"), [("CLS", 4, 4), ("MC", 8, 2)]);
}

/// Four nodes in a line with two CPUs each: spans overlap.
fn line() -> Topology {
    let row = |a: i32| (0..4).map(|b| 10 + 10 * (a - b).unsigned_abs()).collect::<Vec<u32>>();
    let shape = Shape { packages: 4, nodes: 4, llcs: 4, ..Shape::flat(8, 1) };
    Topology { node_distance: (0..4).map(row).collect(), ..shape.topology().unwrap() }
}

#[test]
fn a_mesh_has_a_level_per_distance_and_overlapping_groups() {
    let domains = Domains::build(&line(), Version::new(6, 5));
    let spans =
        |cpu: usize| domains.of_cpu[CpuId::from(cpu)].iter().map(|d| d.span.to_string()).collect::<Vec<_>>();
    assert_eq!(spans(0), ["0-1", "0-3", "0-5", "0-7"]);
    assert_eq!(spans(2), ["2-3", "0-5", "0-7"]);
    assert_eq!(ring(&domains, 2, 1), ["2-3", "4-5", "0-1"]);
    // cpu2's child spans 0-5. CPUs 6-7 are still uncovered; they come with the span of their own node, 4-7.
    assert_eq!(ring(&domains, 2, 2), ["0-5", "4-7"]);
    // CPUs 0 and 1 see 0-3 at that distance, CPUs 4 and 5 see 2-7.
    let led = |cpu: u32, at: usize| {
        let first = domains.of_cpu[CpuId(cpu)][at].groups[0];
        domains.groups[first as usize].balancers().iter().map(|c| c.0).collect::<Vec<_>>()
    };
    assert_eq!((led(2, 2), led(0, 1)), (vec![2, 3], vec![0, 1]));
    let params = |cpu: usize, at: usize| domains.of_cpu[CpuId::from(cpu)][at].params;
    assert!(params(0, 2).wake_affine && !params(0, 3).wake_affine && !params(0, 3).balance_fork);
    let old = Domains::build(&line(), Version::new(3, 4));
    assert_eq!(old.of_cpu[CpuId(0)].iter().map(|d| (d.name, d.cpus.len())).collect::<Vec<_>>(), {
        [("MC", 2), ("NODE", 8)]
    });
}

#[test]
fn before_4_13_overlapping_groups_begin_at_the_lowest_cpu() {
    let [old, new] = ["4.12", "4.13"].map(|v| Domains::build(&line(), Version::parse(v).unwrap()));
    // The highest domain of node 1 spans all CPUs; node 1 itself sees CPUs 0 to 5. But CPU 0 comes first and sees 0 to
    // 3 at that distance, then CPU 4, which sees 2 to 7. CPU 2 leads that group; CPU 3 leads none.
    assert_eq!(ring(&new, 2, 2), ["0-5", "4-7"]);
    assert_eq!(ring(&old, 2, 2), ["2-7", "0-3"]);
    assert_eq!(ring(&old, 3, 2), ["0-3", "2-7"]);
}

#[test]
fn a_thousand_cpus_share_their_groups() {
    let machine = Machine::load("smt-1024").unwrap();
    let domains = Domains::build(&machine.topology, Version::new(6, 5));
    assert_eq!(domains.groups.len(), 1024 + 512);
}

prop_compose! {
    fn any_topology()(
        packages in 1..=3u32, nodes in 1..=2u32, llcs in 1..=2u32, clusters in 1..=2u32, cores in 1..=3u32,
        threads in 1..=2u32, adjacent: bool, far in proptest::collection::vec(11..40u32, 15),
    ) -> Topology {
        let count = packages * nodes;
        let shape = Shape {
            packages, nodes: count, llcs: count * llcs, clusters: count * llcs * clusters,
            cores: count * llcs * clusters * cores, threads_per_core: threads,
            numbering: if adjacent { Numbering::Adjacent } else { Numbering::SiblingsLast },
            ..Shape::flat(1, 1)
        };
        let mut topology = shape.topology().unwrap();
        let mut draws = far.into_iter().cycle();
        for a in 0..count as usize {
            for b in 0..a {
                let d = draws.next().unwrap_or(20);
                topology.node_distance[a][b] = d;
                topology.node_distance[b][a] = d;
            }
        }
        topology
    }
}

proptest! {
    #[test]
    fn rings_cover_their_span_from_the_local_group_and_domains_nest(
        topology in any_topology(), version in prop::sample::select(vec!["2.6.12", "3.4", "4.5", "6.5", "6.12"]),
    ) {
        topology.check().unwrap();
        let domains = Domains::build(&topology, Version::parse(version).unwrap());
        for (cpu, own) in domains.of_cpu.iter().enumerate() {
            let cpu = CpuId::from(cpu);
            for (at, d) in own.iter().enumerate() {
                let groups: Vec<&Group> = d.groups.iter().map(|g| &domains.groups[*g as usize]).collect();
                prop_assert!(groups.len() > 1 && groups[0].span.contains(cpu));
                let union = groups.iter().fold(CpuSet::new(), |u, g| u.or(&g.span));
                prop_assert_eq!(&union, &d.span);
                prop_assert_eq!(d.span.iter().collect::<Vec<_>>(), &d.cpus[..]);
                let by_lowest = version == "4.5" && matches!(d.level, Level::Numa(_));
                if let Some(child) = at.checked_sub(1).map(|c| &own[c]) {
                    prop_assert!(child.span.is_subset(&d.span) && child.cpus.len() < d.cpus.len());
                    prop_assert!(by_lowest || groups[0].span == child.span);
                }
                if !matches!(d.level, Level::Numa(_)) {
                    let sum: usize = groups.iter().map(|g| g.cpus.len()).sum();
                    prop_assert_eq!(sum, d.cpus.len(), "groups below NUMA are disjoint");
                    let (before, from): (Vec<_>, Vec<_>) = d.span.iter().partition(|c| *c < cpu);
                    let order = [from, before].concat();
                    let after = |g: &&Group| order.iter().position(|c| g.span.contains(*c));
                    prop_assert!(groups.iter().map(after).is_sorted(), "rising CPU number, wrapping");
                }
            }
            if let Some(top) = own.last() {
                // Before 4.13 a domain may have only one group, and is dropped.
                prop_assert!(version == "4.5" || top.cpus.len() == topology.nr_cpus());
            }
            let llc = domains.llc[cpu].map(|at| own[at].span.clone());
            if version != "2.6.12" {
                let mask = topology.llc_mask(cpu);
                prop_assert_eq!(llc, (mask.len() > 1).then_some(mask));
            }
        }
    }
}

/// Clusters of four CPUs (capacity 446) and of two (1024), in one cache or in a cache each.
fn clusters_of_two_kinds(one_cache: bool) -> Topology {
    use crate::uneven::Uneven;
    let llcs = if one_cache { vec![2] } else { vec![1, 1] };
    let nodes = vec![llcs.len() as u32];
    let own = Uneven::caches(vec![4, 2], vec![1, 1], nodes);
    Uneven { llcs, capacity: vec![446, 1024], ..own }.topology().unwrap()
}

#[test]
fn domains_say_since_4_20_that_their_cpus_differ_in_capacity() {
    let flags = |one_cache, version: &str, cpu| {
        let domains = Domains::build(&clusters_of_two_kinds(one_cache), Version::parse(version).unwrap());
        let own = &domains.of_cpu[CpuId(cpu)];
        let each = |d: &Domain| (d.name, d.params.asym_capacity, d.params.asym_full, d.params.prefer_sibling);
        (own.iter().map(each).collect::<Vec<_>>(), domains.asym[CpuId(cpu)])
    };
    let plain = vec![("MC", false, false, true), ("DIE", false, false, true)];
    assert_eq!(flags(false, "4.19", 0), (plain, None));
    let clusters = |full| vec![("MC", false, false, false), ("DIE", true, full, true)];
    assert_eq!(flags(false, "5.4", 0), (clusters(false), Some(1)));
    assert_eq!(flags(false, "6.1", 5), (clusters(true), Some(1)));
    assert_eq!(flags(true, "5.10", 5).1, Some(0));
    assert_eq!(flags(true, "6.1", 0).0, [("MC", true, true, true)]);
}

#[test]
fn a_domain_with_some_of_the_capacities_is_not_full() {
    use crate::uneven::Uneven;
    let own = Uneven::caches(vec![2, 2, 2], vec![1; 3], vec![2]);
    let own = Uneven { llcs: vec![2, 1], capacity: vec![300, 600, 1024], ..own };
    let domains = Domains::build(&own.topology().unwrap(), Version::new(6, 1));
    let of = |cpu| domains.of_cpu[CpuId(cpu)].iter().map(|d| (d.params.asym_capacity, d.params.asym_full));
    assert_eq!(of(0).collect::<Vec<_>>(), [(true, false), (true, true)]);
    assert_eq!(of(5).collect::<Vec<_>>(), [(false, false), (true, true)]);
    assert_eq!(domains.asym[CpuId(0)], Some(1));
}

#[test]
fn a_core_without_a_second_thread_has_the_flag_on_the_same_cpus() {
    use crate::uneven::Uneven;
    // Fast cores with two threads and slow ones with one, in one cache: the slow ones have no SMT domain.
    let own = Uneven::caches(vec![2, 2], vec![2, 1], vec![1]);
    let own = Uneven { llcs: vec![2], capacity: vec![1024, 600], ..own };
    let topology = own.topology().unwrap();
    for version in [Version::new(5, 4), Version::new(6, 1)] {
        let domains = Domains::build(&topology, version);
        for (cpu, own) in domains.of_cpu.iter().enumerate() {
            let marked: Vec<&str> = own.iter().filter(|d| d.params.asym_capacity).map(|d| d.name).collect();
            assert_eq!(marked, ["MC"], "{version}, CPU {cpu}");
        }
    }
}

#[test]
fn groups_have_the_flags_of_the_domain_that_is_left_below() {
    use crate::uneven::Uneven;
    // Two fast cores with two threads, eight slow ones in two clusters, one cache.
    let own = Uneven::caches(vec![2, 8], vec![2, 1], vec![1]);
    let own = Uneven { llcs: vec![2], clusters: vec![0, 2], capacity: vec![1024, 620], ..own };
    let topology = own.topology().unwrap();
    let flags = |version: &str, cpu: u32, other: u32| {
        let domains = Domains::build(&topology, Version::parse(version).unwrap());
        let mc = domains.of_cpu[CpuId(cpu)].last().unwrap().clone();
        let group = mc.groups[1..].iter().map(|g| &domains.groups[*g as usize]);
        let of = group.clone().find(|g| g.span.contains(CpuId(other))).unwrap().flags;
        (mc.cores, of.prefer_sibling, of.share_capacity)
    };
    let (fast, slow) = (0, 6);
    // The clusters of fast cores are their threads; their flag is handed down too late. Before 6.6 groups keep the
    // clusters' flags.
    assert_eq!(flags("6.12", slow, fast), (Cores::Some, true, true));
    assert_eq!(flags("6.5", slow, fast), (Cores::None, false, false));
    assert_eq!(flags("6.12", fast, slow), (Cores::Some, false, false), "clusters below unlike CPUs");
    assert_eq!(flags("7.3", fast, slow), (Cores::Some, true, false), "and in 7.3");
    let spr = domains("spr-2x4", "6.12");
    assert_eq!(spr.of_cpu[CpuId(0)].iter().map(|d| d.cores).collect::<Vec<_>>(), {
        [Cores::None, Cores::All, Cores::None]
    });
}
