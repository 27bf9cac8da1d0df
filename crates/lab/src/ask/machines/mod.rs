//! Machines from descriptions of a computer: the output of `lscpu`, plain or as JSON, maybe followed by distances from
//! `numactl -H`; hwloc's XML (`lstopo box.xml`); a copy of /sys/devices/system; and machines of a given size.
//!
//! Such a text gives the topology. Costs, idle states and background are those of a generic machine; a copy of sysfs
//! also has the idle states.

mod hwloc;
mod lscpu;
mod plain;

use schedlab_base::temp::TempFolder;
use schedlab_base::{Error, Result, Spot, counted, input};
use schedlab_machine::shape::{Numbering, Shape};
use schedlab_machine::topology::FULL_CAPACITY;
use schedlab_machine::{CostNote, Cpu, Machine, Topology, sysfs};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Distance of nodes if none is known, as the kernel assumes.
const REMOTE: u32 = 20;
/// The generic machine, for its costs.
const NO_MAKE: &str = "smp-1";

/// A CPU and the units it belongs to, each named by a number that its CPUs have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuUnits {
    /// The kernel's number of the CPU.
    cpu: u64,
    package: u64,
    node: u64,
    llc: u64,
    cluster: u64,
    core: u64,
}

/// A machine as a text describes it.
#[derive(Default)]
struct Read {
    places: Vec<CpuUnits>,
    /// Distances of the nodes, in the order of their numbers; empty: not known.
    distances: Vec<Vec<u32>>,
    /// Capacities of CPUs by number; empty: all are equally fast, or unknown.
    capacities: BTreeMap<u64, u64>,
    /// Known facts without a place in a machine's file; "" if there are none.
    lacks: String,
    /// The model of its CPUs; "" if it is not known.
    model: String,
    /// The kind of the text.
    source: &'static str,
}

/// The machine that a file or folder describes, under the file's name.
///
/// # Errors
/// When it can't be read, has an unknown form, or contradicts itself.
pub fn import(path: &Path) -> Result<Machine> {
    let name = path.file_stem().map_or_else(|| "imported".to_owned(), |s| s.to_string_lossy().into_owned());
    if path.is_dir() {
        return of_sysfs(path).map(|machine| Machine { name, ..machine });
    }
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).map_err(|e| Error::io(path, "read", &e))?
    } else {
        input::text(path)?
    };
    let at = |e: Error| e.at(Spot::file(path));
    // hwloc's export to memory ends with a zero, and programs write that to files.
    let text = text.trim_end_matches('\0');
    let read = match text.trim_start().chars().next() {
        Some('<') => hwloc::read(text),
        Some('{') => lscpu::read(text),
        _ => plain::read(text),
    };
    let read = read.map_err(at)?;
    of_read(&name, &read).map_err(at)
}

/// The machine with the given packages and cores in each: "2x16", or "16" for one package.
///
/// # Errors
/// When the text is not such a size, or the size is impossible.
pub fn sized(text: &str, smt: bool) -> Result<Machine> {
    let wrong = || {
        Error::input(format!("'{text}' is not the size of a machine"))
            .help("write PACKAGESxCORES: 2x16, or 16")
    };
    let numbers: Option<Vec<u32>> =
        text.split(['x', 'X']).map(|n| n.parse().ok().filter(|n| *n > 0)).collect();
    let (packages, each) = match numbers.as_deref() {
        Some([cores]) => (1, *cores),
        Some([packages, cores]) => (*packages, *cores),
        _ => return Err(wrong()),
    };
    let threads_per_core = if smt { 2 } else { 1 };
    let shape = Shape {
        packages,
        nodes: packages,
        llcs: packages,
        clusters: 0,
        cores: packages.checked_mul(each).ok_or_else(wrong)?,
        threads_per_core,
        numbering: Numbering::SiblingsLast,
        remote_distance: 21,
    };
    let threads = if smt { ", two threads each" } else { "" };
    let about = format!("{packages} x {each} cores{threads}");
    let name = format!("{packages}x{each}{}", if smt { "-smt" } else { "" });
    with_topology(&name, about, "a size that was asked for".to_owned(), shape.topology()?)
}

/// The machine of a copy of sysfs: of /sys, of /sys/devices/system, or of a folder above either.
fn of_sysfs(path: &Path) -> Result<Machine> {
    let roots = [path.to_owned(), path.join("sys")];
    if let Some(root) = roots.iter().find(|root| root.join("devices/system/cpu/online").is_file()) {
        return named(sysfs::read(root)?, path);
    }
    let system = [path.join("system"), path.to_owned()];
    let Some(system) = system.iter().find(|dir| dir.join("cpu/online").is_file()) else {
        return Err(Error::input(format!("{} is not a copy of /sys/devices/system", path.display()))
            .help("it has no file cpu/online: cp -r /sys/devices/system FOLDER, where the machine is"));
    };
    // The reader needs the whole path below a root.
    let root = TempFolder::create(&std::env::temp_dir(), ".schedlab-sysfs.", 0o700)?;
    let devices = root.path.join("devices");
    let whole = system.canonicalize().map_err(|e| Error::io(system, "read", &e))?;
    std::fs::create_dir(&devices).map_err(|e| Error::io(&devices, "create the folder", &e))?;
    symlink(&whole, devices.join("system")).map_err(|e| Error::io(&devices, "write into", &e))?;
    named(sysfs::read(&root.path)?, path)
}

/// A machine read from a copy, with the copy's name instead of this host's.
fn named(mut machine: Machine, path: &Path) -> Result<Machine> {
    machine.about = format!("{}, from a copy of sysfs", counted(machine.topology.nr_cpus(), "CPU"));
    for note in &mut machine.provenance {
        if note.source.starts_with("read from ") {
            note.source = format!("a copy of sysfs, {}", path.display());
        }
    }
    Ok(machine)
}

fn of_read(name: &str, read: &Read) -> Result<Machine> {
    let mut places = read.places.clone();
    places.sort_by_key(|p| p.cpu);
    if places.windows(2).any(|w| w[0].cpu == w[1].cpu) {
        return Err(Error::input("a CPU is listed twice"));
    }
    let nodes = distinct(&places, |p| p.node);
    let distance = |a: usize, b: usize| if a == b { 10 } else { REMOTE };
    let node_distance = if read.distances.len() == nodes.len() {
        read.distances.clone()
    } else {
        (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| distance(a, b)).collect()).collect()
    };
    let mut topology = Topology::plain(dense(&places, &nodes), node_distance);
    topology.capacity = capacity(&places, &read.capacities)?;
    topology.check()?;
    let model = if read.model.is_empty() { String::new() } else { format!(" of {}", read.model) };
    let cpus = topology.nr_cpus();
    let about = format!("{}{model}", counted(cpus, "CPU"));
    let source = match read.lacks.as_str() {
        "" => read.source.to_owned(),
        lacks => format!("{}; {lacks}", read.source),
    };
    with_topology(name, about, source, topology)
}

/// The capacity of each CPU; empty where all are the fastest.
fn capacity(places: &[CpuUnits], of: &BTreeMap<u64, u64>) -> Result<Vec<u32>> {
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let one = |p: &CpuUnits| {
        let lacks = || {
            Error::input(format!("CPU {} has no capacity, and others have one", p.cpu))
                .help("take a copy of /sys/devices/system, or leave out the kinds of CPUs (<cpukind>)")
        };
        of.get(&p.cpu).map(|c| u32::try_from(*c).unwrap_or(u32::MAX)).ok_or_else(lacks)
    };
    let all = places.iter().map(one).collect::<Result<Vec<u32>>>()?;
    Ok(if all.iter().all(|c| *c == FULL_CAPACITY) { Vec::new() } else { all })
}

fn with_topology(name: &str, about: String, source: String, topology: Topology) -> Result<Machine> {
    let mut machine = Machine::load(NO_MAKE)?;
    machine.provenance.retain(|note| note.name != "topology");
    machine.provenance.insert(0, CostNote { name: "topology".to_owned(), range: None, source });
    Ok(Machine { name: name.to_owned(), about, topology, ..machine })
}

fn distinct(places: &[CpuUnits], unit: impl Fn(&CpuUnits) -> u64) -> Vec<u64> {
    let mut all: Vec<u64> = places.iter().map(unit).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Units with numbers from 0 in the order of their CPUs; nodes keep the order of their numbers.
fn dense(places: &[CpuUnits], nodes: &[u64]) -> Vec<Cpu> {
    fn ids(places: &[CpuUnits], key: impl Fn(&CpuUnits) -> (u64, u64)) -> Vec<u32> {
        let mut known = BTreeMap::new();
        let id = |p: &CpuUnits| {
            let next = known.len() as u32;
            *known.entry(key(p)).or_insert(next)
        };
        places.iter().map(id).collect()
    }
    let package = ids(places, |p| (p.package, 0));
    // A cache that spans nodes is cut at the node, as the kernel does.
    let llc = ids(places, |p| (p.llc, p.node));
    let (cluster, core) = (ids(places, |p| (p.cluster, p.node)), ids(places, |p| (p.core, p.package)));
    // Guests of QEMU may have an L2 for each thread of a core: such threads are not clusters of cores.
    let mut first = BTreeMap::new();
    let is_split = core.iter().zip(&cluster).any(|(core, own)| *first.entry(*core).or_insert(*own) != *own);
    let cluster = if is_split { core.clone() } else { cluster };
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    let one = |(at, place): (usize, &CpuUnits)| {
        let thread = threads.entry(core[at]).or_insert(0);
        *thread += 1;
        Cpu {
            package: package[at],
            node: nodes.partition_point(|n| *n < place.node) as u32,
            llc: llc[at],
            cluster: cluster[at],
            core: core[at],
            thread: *thread - 1,
        }
    };
    places.iter().enumerate().map(one).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    pub(super) fn imported(file: &str, text: &str) -> Result<Machine> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        fs::write(&path, text).unwrap();
        import(&path)
    }

    pub(super) fn counts(m: &Machine) -> [u32; 5] {
        let most = |unit: fn(&Cpu) -> u32| m.topology.cpus.iter().map(|c| unit(c) + 1).max().unwrap();
        [most(|c| c.package), most(|c| c.node), most(|c| c.llc), most(|c| c.core), most(|c| c.thread)]
    }

    #[test]
    fn a_size_is_packages_with_cores() {
        assert_eq!(counts(&sized("2x16", true).unwrap()), [2, 2, 2, 32, 2]);
        assert_eq!(counts(&sized("8", false).unwrap()), [1, 1, 1, 8, 1]);
        for wrong in ["", "x", "0x4", "2x", "2x3x4", "ax2", "99999x99999"] {
            assert!(sized(wrong, false).is_err(), "{wrong}");
        }
        let text = sized("2x16", true).unwrap().text("mine", "").unwrap();
        assert!(text.contains("packages = 2") && text.contains("cores = 32"), "{text}");
    }

    #[test]
    fn the_summary_of_lscpu_gives_a_regular_machine() {
        let field = |name: &str, data: &str| format!(r#"{{"field": "{name}:", "data": "{data}"}}"#);
        let of = |node0: &str, node1: &str| {
            let fields = [
                field("CPU(s)", "16"),
                field("Model name", "A CPU"),
                field("Thread(s) per core", "2"),
                field("Core(s) per socket", "4"),
                field("Socket(s)", "2"),
                field("L3", "64 MiB (4 instances)"),
                field("NUMA node(s)", "3"),
                field("NUMA node0 CPU(s)", node0),
                field("NUMA node1 CPU(s)", node1),
                field("NUMA node2 CPU(s)", ""),
            ];
            imported("box.json", &format!(r#"{{"lscpu": [{}]}}"#, fields.join(",")))
        };
        let last = of("0-3,8-11", "4-7,12-15").unwrap();
        assert_eq!((last.name.as_str(), counts(&last)), ("box", [2, 2, 4, 8, 2]));
        assert_eq!((last.topology.cpus[8].core, last.topology.cpus[8].thread), (0, 1));
        let adjacent = of("0-7", "8-15").unwrap();
        assert_eq!((adjacent.topology.cpus[1].core, adjacent.topology.cpus[1].thread), (0, 1));
        let turns = of("0,2,4,6,8,10,12,14", "1,3,5,7,9,11,13,15").unwrap().text("box", "").unwrap();
        assert!(turns.contains("numbering = \"alternating\""), "{turns}");
        for (node0, node1, wrong) in [("0-1", "8-15", 0), ("0-7", "8-14", 1), ("0-3,8-11", "8-15", 1)] {
            let e = of(node0, node1).unwrap_err().to_string();
            let text = format!("the counts do not explain how the CPUs of NUMA node {wrong} are numbered");
            assert!(e.contains(&text) && e.contains("lscpu -e -J"), "{e}");
        }
        assert!(of("0-7", "other").is_err());
        let short = imported(
            "box.json",
            r#"{"lscpu": [{"field": "CPU(s):", "data": "3"}, {"field": "Socket(s):", "data": "2"}]}"#,
        );
        assert!(short.is_err());
    }

    #[test]
    fn rows_of_lscpu_give_each_cpu() {
        let row = |cpu: u32, node: u32, core: u32, l3: u32| {
            format!(
                r#"{{"cpu": {cpu}, "node": {node}, "socket": {node}, "core": {core}, "l1d:l1i:l2:l3": "{core}:{core}:{core}:{l3}", "online": true}}"#
            )
        };
        let rows = [row(0, 0, 0, 0), row(1, 1, 1, 1), row(2, 0, 0, 0), row(3, 1, 1, 1)];
        let m = imported("rows.json", &format!(r#"{{"cpus": [{}]}}"#, rows.join(","))).unwrap();
        assert_eq!(counts(&m), [2, 2, 2, 2, 2]);
        let turns = (0..8).map(|cpu| row(cpu, cpu % 2, cpu % 4, cpu % 2)).collect::<Vec<_>>();
        let turns = imported("rows.json", &format!(r#"{{"cpus": [{}]}}"#, turns.join(","))).unwrap();
        assert_eq!(counts(&turns), [2, 2, 2, 4, 2]);
        let text = turns.text("rows", "").unwrap();
        assert!(text.contains("numbering = \"alternating\""), "{text}");
        let off = rows[3].replace("true", "false");
        let m = imported("rows.json", &format!(r#"{{"cpus": [{},{},{off}]}}"#, rows[0], rows[1])).unwrap();
        assert_eq!(counts(&m), [2, 2, 2, 2, 1]);
    }

    #[test]
    fn hwlocs_xml_gives_nodes_by_their_cpus() {
        let package = |at: u32| {
            let core = |c: u32| {
                format!(
                    r#"<object type="L2Cache" cache_size="1"><object type="Core" os_index="{c}"><object type="PU" os_index="{}"/><object type="PU" os_index="{}"/></object></object>"#,
                    at * 2 + c,
                    at * 2 + c + 4
                )
            };
            format!(
                r#"<object type="Package" os_index="{at}"><object type="NUMANode" os_index="{at}" cpuset="0x000000{}"/><object type="L3Cache" cache_size="1">{}{}</object></object>"#,
                ["33", "cc"][at as usize],
                core(0),
                core(1)
            )
        };
        let text = format!(
            r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><!-- a comment --><topology version="2.0"><object type="Machine" os_index="0"><info name="CPUModel" value="A &amp; B"/>{}{}</object><distances2 type="NUMANode" nbobjs="2" kind="5"><indexes length="4">0 1 </indexes><u64values length="12">10 21 21 10 </u64values></distances2></topology>"#,
            package(0),
            package(1)
        );
        let m = imported("box.xml", &text).unwrap();
        assert_eq!(counts(&m), [2, 2, 2, 4, 2]);
        assert_eq!((m.topology.node_distance[0][1], m.about.as_str()), (21, "8 CPUs of A & B"));
        for wrong in ["<topology>", "<topology><object type=\"Machine\"/></topology>", "<html></html>", "<a"]
        {
            assert!(imported("box.xml", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_of_cpus_have_the_kernels_capacities() {
        let cores: String = (0..4)
            .map(|c| format!(r#"<object type="Core"><object type="PU" os_index="{c}"/></object>"#))
            .collect();
        let kind = |cpus: &str, info: &str| format!(r#"<cpukind cpuset="0x{cpus}">{info}</cpukind>"#);
        let of = |kinds: &str| {
            let text = format!(
                r#"<topology version="2.0"><object type="Machine">{cores}</object>{kinds}</topology>{}"#,
                "\0"
            );
            imported("box.xml", &text)
        };
        let capacity = |n: u32| format!(r#"<info name="LinuxCapacity" value="{n}"/>"#);
        let m = of(&(kind("5", &capacity(718)) + &kind("a", &capacity(1024)))).unwrap();
        assert_eq!(m.topology.capacity, [718, 1024, 718, 1024]);
        let text = m.text("gb", "").unwrap();
        assert!(text.contains("718"), "{text}");
        assert!(of(&kind("f", &capacity(1024))).unwrap().topology.capacity.is_empty());
        // The kernel shows no capacity of an Intel hybrid.
        let type_of = |name: &str| format!(r#"<info name="CoreType" value="{name}"/>"#);
        let m = of(&(kind("3", &type_of("IntelAtom")) + &kind("c", &type_of("IntelCore")))).unwrap();
        assert!(m.topology.capacity.is_empty());
        assert!(
            m.text("box", "")
                .unwrap()
                .contains("2 kinds of CPUs (IntelAtom, IntelCore) without LinuxCapacity")
        );
        assert!(of(&kind("1", &capacity(718))).unwrap_err().to_string().contains("CPU 1 has no capacity"));
        assert!(of(&kind("f", &capacity(4000))).unwrap_err().to_string().contains("a capacity of 4000"));
        assert!(of(&kind("f", r#"<info name="LinuxCapacity" value="x"/>"#)).is_err());
    }

    #[test]
    fn threads_of_a_core_with_an_l2_each_are_of_one_cluster() {
        let rows = "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0 0 0 0 0:0:0:0 yes\n  1 0 0 0 1:1:1:0 yes\n  \
                    2 0 0 1 2:2:2:0 yes\n  3 0 0 1 3:3:3:0 yes\n";
        let m = imported("box.txt", rows).unwrap();
        let cpus: Vec<_> = m.topology.cpus.iter().map(|c| (c.core, c.cluster, c.thread)).collect();
        assert_eq!(cpus, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)]);
    }

    #[test]
    fn nodes_that_alternate_over_packages_are_kept_unchanged() {
        // Sub-NUMA clusters: package 0 has nodes 0 and 2, package 1 nodes 1 and 3.
        let node = |node: u32, cpu: u32| {
            format!(
                r#"<object type="Group"><object type="NUMANode" os_index="{node}" cpuset="0x{:08x}"/><object type="Core"><object type="PU" os_index="{cpu}"/></object></object>"#,
                1_u32 << cpu
            )
        };
        let text = format!(
            r#"<topology version="2.0"><object type="Machine"><object type="Package">{}{}</object><object type="Package">{}{}</object></object></topology>"#,
            node(0, 0),
            node(2, 1),
            node(1, 2),
            node(3, 3)
        );
        let m = imported("snc.xml", &text).unwrap();
        let nodes: Vec<(u32, u32)> = m.topology.cpus.iter().map(|c| (c.package, c.node)).collect();
        assert_eq!(nodes, [(0, 0), (0, 2), (1, 1), (1, 3)]);
        assert!(m.text("snc", "").unwrap().contains("units = ["));
    }

    #[test]
    fn nodes_of_memory_alone_are_not_the_nodes_of_cpus() {
        let core = |cpu: u32| {
            format!(r#"<object type="Core" os_index="{cpu}"><object type="PU" os_index="{cpu}"/></object>"#)
        };
        let node = |at: u32, cpus: &str| {
            format!(r#"<object type="NUMANode" os_index="{at}" cpuset="0x0000000{cpus}"/>"#)
        };
        // Node 4 serves the whole machine and comes first; 2 and 3 are next to the nodes of the packages.
        let text = format!(
            r#"<topology version="2.0"><object type="Machine">{}<object type="Package">{}{}{}{}</object><object type="Package">{}{}{}{}</object></object><distances2 type="NUMANode" nbobjs="5"><indexes>0 1 2 3 4</indexes><u64values>10 21 13 23 31 21 10</u64values><u64values>23 13 31 13 23 10 33 33 23 13 33 10 33 31 31 33 33 10</u64values></distances2></topology>"#,
            node(4, "f"),
            node(0, "3"),
            node(2, "3"),
            core(0),
            core(1),
            node(3, "c"),
            node(1, "c"),
            core(2),
            core(3),
        );
        let m = imported("box.xml", &text).unwrap();
        assert_eq!(m.topology.cpus.iter().map(|c| c.node).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(m.topology.node_distance, [[10, 21], [21, 10]]);
        assert!(m.text("box", "").unwrap().contains("nodes = 2"));
    }

    #[test]
    fn distances_belong_to_the_nodes_whatever_their_order() {
        let package = |node: u32, cpus: u32| {
            format!(
                r#"<object type="Package"><object type="NUMANode" os_index="{node}" cpuset="0x0000000{cpus}"/><object type="Core"><object type="PU" os_index="{node}"/></object></object>"#
            )
        };
        let text = format!(
            r#"<topology version="2.0"><object type="Machine">{}{}{}</object><distances2 type="NUMANode" nbobjs="3"><indexes>2 0 1 </indexes><u64values>10 20 30 20 10 25 30 25 10 </u64values></distances2></topology>"#,
            package(2, 4),
            package(0, 1),
            package(1, 2),
        );
        let m = imported("box.xml", &text).unwrap();
        assert_eq!(m.topology.cpus.iter().map(|c| c.node).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(m.topology.node_distance, [[10, 25, 20], [25, 10, 30], [20, 30, 10]]);
    }

    #[test]
    fn a_copy_of_sysfs_is_found_wherever_it_begins() {
        let dir = tempfile::tempdir().unwrap();
        for below in ["a/sys/devices/system", "b/devices/system", "c/system", "d"] {
            let cpu = dir.path().join(below).join("cpu");
            fs::create_dir_all(&cpu).unwrap();
            fs::write(cpu.join("online"), "0-3\n").unwrap();
        }
        for name in ["a", "b", "c", "d"] {
            let m = import(&dir.path().join(name)).unwrap();
            assert_eq!((m.name.as_str(), m.topology.nr_cpus()), (name, 4));
            assert!(m.text(name, "").unwrap().contains("cores = 4"));
        }
        assert!(import(dir.path()).unwrap_err().to_string().contains("not a copy"));
    }

    #[test]
    fn a_file_that_is_not_a_machine_is_refused() {
        for text in ["", "hello", "{}", "{\"cpus\": []}", "[1]", "{\"lscpu\": 3}"] {
            assert!(imported("x", text).is_err(), "{text}");
        }
    }
}
