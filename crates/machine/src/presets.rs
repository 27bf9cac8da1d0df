//! Machines by name: compiled-in files, generic sizes (`smp-N` and the like), this host, the path of a file.

use crate::probed::Probed;
use crate::shape::{Numbering, Shape};
use crate::{Machine, file, sysfs};
use schedlab_base::{Error, Result, input};
use std::path::Path;

macro_rules! preset_files {
    ($($name:literal)*) => {
        /// Name and text of every preset, in listing order.
        const PRESETS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../machines/", $name, ".toml"))),)*];
    };
}

preset_files! {
    "spr-2x56" "spr-2x56-bare" "spr-2x56-d001" "fb-2x24-smt" "fb-2x12-smt" "fb-2x12-smt-0.1pct" "fb-2x12-smt-0.3pct" "fb-2x12-smt-1pct" "fb-2x24" "x5570-2x4-smt" "nodes-2x4" "nodes-4x4" "nodes-8x8-smt" "celeron-2" "p4-ht-2" "p3-8" "ia64-8" "smp-2"
    "intel-112-1s" "intel-112-2s" "spr-120" "spr-224" "icl-128" "icl-144" "gnr-256" "gnr-192" "x86-104" "x86-104-snc2" "m2s-clx-80" "m2s-bdw-80"
    "hsw-72" "hsw-72-cod" "i7-4790" "zen3-nps1" "zen3-nps2" "zen3-nps4" "milan-2x64-nosmt" "milan-2x32-smt" "genoa-2s" "genoa-1s" "kp920-128"
    "thx2" "altra-80" "altra-80-slc"
    "desktop-8-smt" "epyc-2x64-smt" "spr-2x4" "epyc-2x4" "spr-2x30-interleaved" "genoa-4x16-smt" "juno-4-2" "hikey960-4-4"
}

/// Costs, idle states and background of a generic machine.
const ANY_SIZE: &str = include_str!("../../../machines/any-size.toml");

/// Costs, idle states and background of a guest that counts instructions.
const ICOUNT: &str = include_str!("../../../machines/icount.toml");

/// Names that stand for several machines, for messages.
const PATTERNS: &[(&str, &str)] = &[
    ("smp-N", "N CPUs of no make that share one cache, no SMT; also Ncpu"),
    ("smt-N", "N CPUs of no make that share one cache, two threads a core"),
    ("icount-N", "N CPUs of a guest that counts instructions, in turns; one cache, no SMT"),
    ("icount-N-smt", "the same, two threads a core and two nodes with a cache each"),
    ("icount-NxLxC", "the same: N nodes, L caches each, C cores each; with -smt two threads a core"),
    ("host", "this machine, from its sysfs"),
];

impl Machine {
    /// The machine of a file's text; errors show `name` as the file.
    ///
    /// # Errors
    /// When it is not a machine file.
    pub fn parse(name: &str, text: &str) -> Result<Machine> {
        file::parse(Path::new(name), text)
    }

    /// The machine of that name: a preset, `smp-N`, `smt-N`, `icount-N`, `icount-N-smt`, `icount-NxLxC`, `host`, or the
    /// path of a file that ends in `.toml`.
    ///
    /// # Errors
    /// When there is no such machine (the error offers the nearest name), its file is wrong, or the size is impossible.
    pub fn load(name_or_path: &str) -> Result<Machine> {
        let preset = PRESETS.iter().find(|(name, _)| *name == name_or_path);
        if let Some((name, text)) = preset {
            return file::parse(Path::new(&format!("machines/{name}.toml")), text);
        }
        if name_or_path == sysfs::HOST {
            return match Probed::kept()? {
                Some(probed) => probed.host(),
                None => sysfs::read(Path::new("/sys")),
            };
        }
        if let Some(sized) = sized(name_or_path) {
            return sized;
        }
        let path = Path::new(name_or_path);
        if name_or_path.contains('/') || path.extension().is_some_and(|e| e == "toml") {
            let text = input::text(path)?;
            return file::parse(path, &text);
        }
        let known = PRESETS.iter().map(|(n, _)| *n).chain(PATTERNS.iter().map(|(n, _)| *n));
        Err(Error::unknown("machine", name_or_path, known))
    }

    /// Every preset and every pattern, with one line of description.
    pub fn presets() -> impl Iterator<Item = (&'static str, String)> {
        let about = |(name, _): &(&'static str, _)| {
            (*name, Machine::load(name).map_or_else(|e| e.to_string(), |m| m.about))
        };
        PRESETS.iter().map(about).chain(PATTERNS.iter().map(|(n, about)| (*n, (*about).to_string())))
    }
}

/// `smp-N`, `Ncpu`, `smt-N`, `icount-N`, `icount-N-smt` or `icount-NxLxC`; `None` for other names.
fn sized(name: &str) -> Option<Result<Machine>> {
    let plain = name.strip_suffix("cpu").map(|number| format!("smp-{number}"));
    let name = plain.as_deref().unwrap_or(name);
    let (kind, number) = name.split_once('-').filter(|(kind, _)| ["smp", "smt", "icount"].contains(kind))?;
    let (number, smt) = match number.strip_suffix("-smt").filter(|_| kind == "icount") {
        Some(number) => (number, true),
        None => (number, false),
    };
    if let Some(counts) = three(number).filter(|_| kind == "icount") {
        return Some(layered(name, counts, smt));
    }
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let cpus = number.parse().map_err(|_| Error::input(format!("{name}: too many CPUs")));
    if kind == "icount" {
        return Some(cpus.and_then(|cpus| icount(name, cpus, smt)));
    }
    let threads = if kind == "smt" { 2 } else { 1 };
    Some(cpus.and_then(|cpus: u32| {
        if !cpus.is_multiple_of(threads) {
            return Err(Error::input(format!("{name}: with two threads a core, CPUs come in pairs"))
                .help(format!("use smt-{} or smp-{cpus}", cpus + 1)));
        }
        let topology = Shape::flat(cpus / threads, threads).topology().map_err(|e| e.context(name))?;
        let about = format!(
            "{} of no make, one cache, {} a core",
            schedlab_base::counted(cpus, "CPU"),
            schedlab_base::counted(threads, "thread")
        );
        Ok(Machine { name: name.into(), about, topology, ..no_make()? })
    }))
}

/// A guest that counts instructions. CPUs are numbered as in QEMU: the threads of a core are neighbours.
fn icount(name: &str, cpus: u32, smt: bool) -> Result<Machine> {
    let (threads, nodes) = if smt { (2, 2) } else { (1, 1) };
    if !cpus.is_multiple_of(threads * nodes) {
        let whole = cpus.next_multiple_of(threads * nodes);
        return Err(Error::input(format!(
            "{name}: two nodes of cores with two threads need a multiple of 4 CPUs"
        ))
        .help(format!("use icount-{whole}-smt or icount-{cpus}")));
    }
    let about =
        format!("{} of a guest that counts instructions, in turns{}", schedlab_base::counted(cpus, "CPU"), {
            if smt { "; SMT, two nodes" } else { "" }
        });
    counting(name, about, Shape { nodes, llcs: nodes, ..Shape::flat(cpus / threads, threads) })
}

/// The three numbers of `2x2x4`; `None` if the text has another form or a number is too large.
fn three(text: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = text.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// A guest with nodes, caches in each node, and cores at each cache.
fn layered(name: &str, [nodes, caches, cores]: [u32; 3], smt: bool) -> Result<Machine> {
    let too_many = || Error::input(format!("{name}: too many CPUs"));
    let llcs = nodes.checked_mul(caches).ok_or_else(too_many)?;
    let all = llcs.checked_mul(cores).ok_or_else(too_many)?;
    let threads = if smt { 2 } else { 1 };
    let about = format!(
        "a guest that counts instructions, CPUs in turns: {nodes} nodes x {caches} caches x {cores} cores x {threads}"
    );
    counting(name, about, Shape { nodes, llcs, ..Shape::flat(all, threads) })
}

/// A guest that counts instructions. Each node is a socket; the threads of a core are neighbours, as in QEMU.
fn counting(name: &str, about: String, shape: Shape) -> Result<Machine> {
    let numbering = Numbering::Adjacent;
    let shape = Shape { packages: shape.nodes, numbering, remote_distance: 20, ..shape };
    let topology = shape.topology().map_err(|e| e.context(name))?;
    let costs = file::parse(Path::new("machines/icount.toml"), ICOUNT)?;
    Ok(Machine { name: name.into(), about, topology, ..costs })
}

/// The machine that provides costs for machines without their own.
pub(crate) fn no_make() -> Result<Machine> {
    file::parse(Path::new("machines/any-size.toml"), ANY_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_loads_under_its_own_name() {
        for (name, _) in PRESETS {
            let machine = Machine::load(name).unwrap();
            assert_eq!(machine.name, *name);
            machine.topology.check().unwrap();
            assert!(!machine.about.is_empty() && machine.about.len() < 78, "{name}");
            assert!(machine.background.iter().all(|b| !b.source.is_empty()));
        }
        assert_eq!(Machine::presets().count(), PRESETS.len() + PATTERNS.len());
    }

    /// Where a package has one last-level cache, `line_far_ns` is the way to the other package.
    #[test]
    fn presets_with_several_caches_a_package_state_the_way_of_a_line_to_the_other_package() {
        let mut seen = 0;
        for (name, _) in PRESETS {
            let Machine { topology, costs, .. } = Machine::load(name).unwrap();
            let count = |of: fn(&crate::Cpu) -> u32| {
                topology.cpus.iter().map(of).collect::<std::collections::BTreeSet<_>>().len()
            };
            let (packages, caches) = (count(|cpu| cpu.package), count(|cpu| cpu.llc));
            if packages > 1 && caches > packages {
                assert!(costs.line_remote_ns >= costs.line_far_ns, "{name}");
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
    }

    #[test]
    fn guests_that_count_instructions_take_turns_in_any_size() {
        let of = |name: &str| Machine::load(name).unwrap();
        let (flat, smt) = (of("icount-4"), of("icount-16-smt"));
        assert_eq!((flat.topology.nr_cpus(), flat.topology.node_distance.len()), (4, 1));
        assert_eq!((smt.topology.nr_cpus(), smt.topology.node_distance.len()), (16, 2));
        assert_eq!(smt.topology.smt_mask(schedlab_base::CpuId(2)).to_string(), "2-3");
        assert_eq!(smt.topology.llc_mask(schedlab_base::CpuId(2)).to_string(), "0-7");
        for machine in [flat, smt] {
            assert!(machine.turns.is_some() && machine.costs.smt_speed_pct == 100, "{}", machine.name);
        }
        assert!(
            Machine::load("icount-6-smt").unwrap_err().to_string().contains("use icount-8-smt or icount-6")
        );
        assert!(Machine::load("icount-smt").is_err());
    }

    #[test]
    fn a_guest_may_have_any_number_of_nodes_caches_and_cores() {
        let of = |name: &str| Machine::load(name).unwrap();
        assert_eq!(of("icount-2x1x2-smt").topology, of("icount-8-smt").topology);
        assert_eq!(of("icount-1x1x4").topology, of("icount-4").topology);
        let deep = of("icount-2x2x2-smt").topology;
        let cpu = schedlab_base::CpuId(5);
        assert_eq!((deep.nr_cpus(), deep.node_distance.len()), (16, 2));
        assert_eq!(
            (deep.smt_mask(cpu).to_string(), deep.llc_mask(cpu).to_string()),
            ("4-5".into(), "4-7".into())
        );
        let error = |name: &str| Machine::load(name).unwrap_err().to_string();
        assert!(
            error("icount-0x1x2").contains("nodes = 0") || error("icount-0x1x2").contains("packages = 0")
        );
        assert!(error("icount-99999x99999x2").contains("too many CPUs"));
        assert!(
            error("icount-2x2").contains("unknown machine") && error("smp-1x1x2").contains("unknown machine")
        );
    }

    #[test]
    fn presets_have_the_documented_number_of_cpus() {
        let sizes = [
            ("spr-2x56", 224),
            ("spr-2x56-bare", 224),
            ("spr-2x56-d001", 224),
            ("fb-2x24-smt", 96),
            ("fb-2x12-smt", 48),
            ("fb-2x24", 48),
            ("x5570-2x4-smt", 16),
            ("celeron-2", 2),
            ("p4-ht-2", 4),
            ("p3-8", 8),
            ("ia64-8", 8),
            ("smp-2", 2),
            ("desktop-8-smt", 16),
            ("epyc-2x64-smt", 256),
            ("spr-2x4", 16),
            ("epyc-2x4", 16),
            ("spr-2x30-interleaved", 120),
            ("genoa-4x16-smt", 128),
            ("juno-4-2", 6),
            ("hikey960-4-4", 8),
            ("nodes-2x4", 8),
            ("smp-7", 7),
            ("smt-64", 64),
            ("8cpu", 8),
        ];
        for (name, cpus) in sizes {
            assert_eq!(Machine::load(name).unwrap().topology.nr_cpus(), cpus, "{name}");
        }
    }

    #[test]
    fn unknown_names_and_sizes_are_refused() {
        let error = |name: &str| Machine::load(name).unwrap_err().to_string();
        assert!(error("fb-2x12-smtt").contains("did you mean 'fb-2x12-smt'?"));
        assert!(error("smp-0").contains("cores = 0"));
        assert!(error("smp-5000").contains("5000 CPUs"));
        assert!(error("smt-3").contains("smt-4"));
        assert_eq!(Machine::load("8cpu").unwrap(), Machine::load("smp-8").unwrap());
        assert!(error("cpu").contains("unknown machine 'cpu'") && error("0cpu").contains("cores = 0"));
        assert!(error("smp-99999999999999999999").contains("too many"));
        assert!(error("no/such.toml").contains("can't read no/such.toml"));
    }

    #[test]
    fn a_path_is_read_and_named_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, "name = 'mine'\nabout = 'a'\n[topology]\ncores = 3\n").unwrap();
        assert_eq!(Machine::load(path.to_str().unwrap()).unwrap().topology.nr_cpus(), 3);
        std::fs::write(&path, "name = 'mine'\nabout = 'a'\n[topology]\ncoers = 3\n").unwrap();
        assert!(Machine::load(path.to_str().unwrap()).unwrap_err().to_string().contains("mine.toml:4:1: "));
    }
}
