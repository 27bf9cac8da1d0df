//! Fixture trees: a complete server, a bare container, numbers with gaps, and nonsense.

use super::*;
use crate::Domains;
use schedlab_base::Version;
use std::fs;

/// Writes `files` (path below devices/system, contents) into a fresh tree.
fn tree(files: &[(String, String)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join("devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    dir
}

fn file(path: impl Into<String>, text: impl ToString) -> (String, String) {
    (path.into(), text.to_string())
}

/// The files of one CPU: package, its core's list, its LLC's list.
fn cpu(n: u32, package: u32, core: &str, llc: &str) -> Vec<(String, String)> {
    vec![
        file(format!("cpu/cpu{n}/topology/physical_package_id"), package),
        file(format!("cpu/cpu{n}/topology/core_cpus_list"), core),
        file(format!("cpu/cpu{n}/topology/cluster_cpus_list"), n),
        file(format!("cpu/cpu{n}/cache/index0/level"), 1),
        file(format!("cpu/cpu{n}/cache/index0/type"), "Data"),
        file(format!("cpu/cpu{n}/cache/index0/shared_cpu_list"), core),
        file(format!("cpu/cpu{n}/cache/index1/level"), 3),
        file(format!("cpu/cpu{n}/cache/index1/type"), "Unified"),
        file(format!("cpu/cpu{n}/cache/index1/shared_cpu_list"), llc),
    ]
}

fn server() -> Vec<(String, String)> {
    let mut files = vec![file("cpu/online", "0-7"), file("node/online", "0-2")];
    for n in 0..8 {
        let (core, package) = (n % 4, n % 4 / 2);
        let llc = if package == 0 { "0-1,4-5" } else { "2-3,6-7" };
        files.extend(cpu(n, package, &format!("{core},{}", core + 4), llc));
    }
    for (n, cpus, distance) in [(0, "0-1,4-5", "10 21 17"), (1, "", "21 10 28"), (2, "2-3,6-7", "17 28 10")] {
        files.push(file(format!("node/node{n}/cpulist"), cpus));
        files.push(file(format!("node/node{n}/distance"), distance));
    }
    let states = [("POLL", 0, 0, 0), ("C1", 2, 2, 0), ("C6", 133, 400, 0), ("C7", 200, 900, 1)];
    for (i, (name, latency, residency, disable)) in states.into_iter().enumerate() {
        let dir = format!("cpu/cpu0/cpuidle/state{i}");
        files.push(file(format!("{dir}/name"), name));
        files.push(file(format!("{dir}/latency"), latency));
        files.push(file(format!("{dir}/residency"), residency));
        files.push(file(format!("{dir}/disable"), disable));
    }
    files
}

#[test]
fn a_server_with_a_memory_only_node() {
    let machine = read(tree(&server()).path()).unwrap();
    assert_eq!(machine.topology.node_distance, [[10, 17], [17, 10]]);
    assert!(machine.os_cpu.is_empty());
    let idle: Vec<_> = machine.idle_states.iter().map(|s| (s.name.as_str(), s.exit, s.residency)).collect();
    assert_eq!(idle, [("C1", Ns::us(2), Ns::us(2)), ("C6", Ns::us(133), Ns::us(400))]);
    let domains = Domains::build(&machine.topology, Version::new(6, 5));
    let own: Vec<_> = domains.of_cpu[CpuId(6)].iter().map(|d| (d.name, d.span.to_string())).collect();
    assert_eq!(own, [("SMT", "2,6".into()), ("MC", "2-3,6-7".into()), ("NUMA", "0-7".to_string())]);
}

#[test]
fn a_container_that_shows_next_to_nothing() {
    let machine = read(tree(&[file("cpu/online", "0-2")]).path()).unwrap();
    assert_eq!(machine.topology.node_distance, [[10]]);
    let cores: Vec<_> = machine.topology.cpus.iter().map(|c| (c.core, c.llc, c.node)).collect();
    assert_eq!(cores, [(0, 0, 0), (1, 1, 0), (2, 2, 0)]);
    // Without a cpuidle driver a kernel halts, and does not poll.
    let states: Vec<&str> = machine.idle_states.iter().map(|s| s.name.as_str()).collect();
    assert_eq!((machine.idle_governor, states), (IdleGovernor::Halt, vec!["POLL", "HLT"]));
    assert!(
        machine.idle_states[1].typical > Ns::ZERO && machine.note("idle.HLT").source.contains("no cpuidle")
    );
}

#[test]
fn gaps_in_the_numbers_are_closed_and_mapped_back() {
    let mut files = server();
    files[0] = file("cpu/online", "1,3,5,7");
    let machine = read(tree(&files).path()).unwrap();
    assert_eq!(machine.os_cpu, [1, 3, 5, 7]);
    assert_eq!(
        (machine.os_cpu(CpuId(2)), machine.topology.smt_mask(CpuId(0)).to_string()),
        (5, "0,2".into())
    );
    assert_eq!(machine.topology.cpus[2].thread, 1);
}

#[test]
fn a_cache_across_nodes_is_cut_at_the_node() {
    let mut files = server();
    for n in 0..8 {
        files.push(file(format!("cpu/cpu{n}/cache/index1/shared_cpu_list"), "0-7"));
    }
    let machine = read(tree(&files).path()).unwrap();
    assert_eq!(machine.topology.llc_mask(CpuId(0)).to_string(), "0-1,4-5");
}

#[test]
fn nonsense_is_named() {
    let error = |path: &str, text: &str| {
        let mut files = server();
        files.push(file(path, text));
        read(tree(&files).path()).unwrap_err().to_string()
    };
    assert!(error("node/node0/distance", "10 x").contains("node0/distance: 'x' is not a number"));
    assert!(error("node/node0/distance", "10 21 19").contains("not symmetric"));
    assert!(error("cpu/cpu1/topology/core_cpus_list", "5-1").contains("cpu1/topology/core_cpus_list"));
    assert!(error("node/node0/cpulist", "0").contains("cpu1 is in no node"));
    let none = tempfile::tempdir().unwrap();
    assert_eq!(read(none.path()).unwrap_err().kind().exit_code(), 3);
}

#[test]
fn this_host_can_be_read() {
    let machine = Machine::load("host").unwrap();
    assert!(machine.topology.nr_cpus() >= 1);
    assert_eq!(
        Domains::build(&machine.topology, Version::new(6, 5)).of_cpu.len(),
        machine.topology.nr_cpus()
    );
}

#[test]
fn a_guest_that_may_poll_before_it_halts_or_not() {
    let read_with = |longest: &str| {
        let mut files = server();
        files.push(file("cpu/cpuidle/current_governor", "haltpoll"));
        files.push(file("../../module/haltpoll/parameters/guest_halt_poll_ns", longest));
        read(tree(&files).path()).unwrap()
    };
    let (polls, halts) = (read_with("200000"), read_with("0"));
    assert_eq!((polls.idle_governor, halts.idle_governor), (IdleGovernor::Haltpoll, IdleGovernor::Halt));
    assert_eq!(polls.idle_states[0].name, "POLL", "its first state is a choice there");
    assert_eq!(read(tree(&server()).path()).unwrap().idle_governor, IdleGovernor::Menu);
}

#[test]
fn capacities_and_nodes_without_memory_are_read() {
    let mut files = server();
    for n in 0..8 {
        files.push(file(format!("cpu/cpu{n}/cpu_capacity"), if n % 4 < 2 { 446 } else { 1024 }));
    }
    files.push(file("node/has_memory", "0-1"));
    let dir = tree(&files);
    let topology = read(dir.path()).unwrap().topology;
    assert_eq!(topology.capacity, [446, 446, 1024, 1024, 446, 446, 1024, 1024]);
    // Node 2, the second with CPUs, has no memory.
    assert_eq!((topology.memoryless.as_slice(), topology.memory_of(1)), (&[1][..], 0));
    let plain = tree(&server());
    let topology = read(plain.path()).unwrap().topology;
    assert!(topology.capacity.is_empty() && topology.memoryless.is_empty());
    files.push(file("cpu/cpu0/cpu_capacity", 2000));
    let odd = tree(&files);
    assert!(read(odd.path()).unwrap_err().to_string().contains("a capacity of 2000"));
}
