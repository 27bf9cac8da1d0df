//! A small machine, written and read again.

use super::*;

#[test]
fn sets_of_cpus_are_written_as_the_kernel_does() {
    assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    assert_eq!(ranges(&[]), "");
    assert_eq!(mask(&[0, 33], 40), "02,00000001");
    assert_eq!(mask(&[3], 8), "08");
    assert_eq!(mask(&[0], 64), "00000000,00000001");
}

#[test]
fn a_cpu_has_its_siblings_caches_and_node() {
    let cpu =
        |core, node| Cpu { core, node, package: node, capacity: 1024, most_khz: 2_000_000, ..Cpu::default() };
    let cache = Cache {
        level: 3,
        kind: CacheKind::Unified,
        id: 1,
        bytes: 32 << 20,
        line_bytes: 64,
        ways: 16,
        cpus: vec![2, 3],
    };
    let node = |distances| Node { memory_bytes: 1 << 30, distances };
    let machine = Machine {
        cpus: vec![cpu(0, 0), cpu(0, 0), cpu(0, 1), cpu(1, 1)],
        caches: vec![cache],
        nodes: vec![node(vec![10, 21]), node(vec![21, 10])],
        config: String::new(),
    };
    let tree = files(&machine);
    let read =
        |path: &str| String::from_utf8_lossy(tree.file(&format!("sys/devices/system/{path}")).unwrap());
    assert_eq!(read("cpu/possible"), "0-3\n");
    assert_eq!(read("cpu/cpu1/topology/thread_siblings_list"), "0-1\n");
    assert_eq!(read("cpu/cpu2/topology/thread_siblings_list"), "2\n");
    assert_eq!(read("cpu/cpu3/cache/index0/shared_cpu_list"), "2-3\n");
    assert_eq!(read("cpu/cpu3/cache/index0/number_of_sets"), "32768\n");
    assert!(tree.find("/sys/devices/system/cpu/cpu0/cache".as_ref(), true).is_none());
    assert_eq!(read("node/node1/distance"), "21 10\n");
    // A link leads from a CPU to its node, and from there to its CPUs.
    assert_eq!(read("cpu/cpu3/node1/cpu2/topology/physical_package_id"), "1\n");
    assert_eq!(read("cpu/smt/active"), "1\n");
}
