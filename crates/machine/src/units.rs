//! `[topology]` of a machine file: counts if all units divide evenly, lists if not, and a row per CPU (`units`) if the
//! order of CPUs or nodes fits neither.

use crate::reader::{Source, Table};
use crate::shape::{Numbering, Shape};
use crate::topology::{Arch, Cpu, FULL_CAPACITY, Topology, check_distances};
use crate::uneven::Uneven;
use schedlab_base::{Error, Result};
use std::collections::BTreeMap;

/// Keys that `units` replaces.
const COUNTS: [&str; 7] = ["packages", "nodes", "llcs", "clusters", "cores", "threads_per_core", "numbering"];

/// # Errors
/// For counts and lists that do not match, with their place.
pub(crate) fn topology(source: Source<'_>, table: &Table<'_>) -> Result<Topology> {
    let count = |key| table.number::<u32>(key);
    let packages = count("packages")?.unwrap_or(1);
    let numbering = match table.string("numbering")? {
        None => Numbering::SiblingsLast,
        Some(name) => {
            Numbering::NAMES.iter().find(|(n, _)| *n == name).map(|(_, n)| *n).ok_or_else(|| {
                let known = Numbering::NAMES.iter().map(|(n, _)| *n);
                table.place("numbering", Error::unknown("numbering", name, known))
            })?
        }
    };
    let has_list = table.get("cores").is_some_and(|value| value.get_ref().as_array().is_some());
    let mut topology = match table.matrix("units")? {
        Some((rows, _)) => by_rows(table, &rows)?,
        None if has_list => uneven(table, packages, numbering)?,
        None => regular(table, packages, numbering)?,
    };
    if let Some(nodes) = table.numbers("memoryless")? {
        topology.memoryless = nodes;
        topology.memoryless.sort_unstable();
        topology.memoryless.dedup();
        topology.check().map_err(|e| table.place("memoryless", e))?;
    }
    let nodes = topology.node_distance.len();
    if let Some((rows, spans)) = table.matrix("distances")? {
        if rows.len() != nodes {
            let what = format!(
                "distances has {} for {}",
                schedlab_base::counted(rows.len(), "row"),
                schedlab_base::counted(nodes, "node")
            );
            return Err(table.error_at("distances", what));
        }
        check_distances(&rows).map_err(|(at, what)| {
            let span = at.and_then(|(a, b)| spans.get(a)?.get(b).cloned());
            span.map_or_else(|| table.error_at("distances", what.clone()), |s| source.error(s, what.clone()))
        })?;
        topology.node_distance = rows;
    }
    if let Some(name) = table.string("arch")? {
        let found = Arch::NAMES.iter().find(|(n, _)| *n == name).map(|(_, arch)| *arch);
        let known = Arch::NAMES.iter().map(|(n, _)| *n);
        topology.arch =
            found.ok_or_else(|| table.place("arch", Error::unknown("architecture", name, known)))?;
    }
    if let Some(distance) = count("reclaim_distance")? {
        topology.reclaim_distance = distance;
    }
    Ok(topology)
}

/// A machine whose units divide evenly.
fn regular(table: &Table<'_>, packages: u32, numbering: Numbering) -> Result<Topology> {
    let count = |key| table.number::<u32>(key);
    if table.get("capacity").is_some() {
        let what = "capacity goes with a list of cores, which has an entry for each kind";
        return Err(table.error_at("capacity", what).help("cores = [4, 2] and capacity = [446, 1024]"));
    }
    let nodes = count("nodes")?.unwrap_or(packages);
    let shape = Shape {
        packages,
        nodes,
        llcs: count("llcs")?.unwrap_or(packages.max(nodes)),
        clusters: count("clusters")?.unwrap_or(0),
        cores: table.required("cores", count("cores")?)?,
        threads_per_core: count("threads_per_core")?.unwrap_or(1),
        numbering,
        remote_distance: count("distance")?.unwrap_or(21),
    };
    shape.topology().map_err(|e| table.place("cores", e))
}

/// A machine with a row for each CPU.
fn by_rows(table: &Table<'_>, rows: &[Vec<u32>]) -> Result<Topology> {
    if let Some(key) = COUNTS.iter().find(|key| table.get(key).is_some()) {
        return Err(
            table.error_at(key, format!("{key} does not go with units, which has a row for each CPU"))
        );
    }
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    let mut cpus = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let [package, node, llc, cluster, core] = row[..] else {
            let what =
                format!("the row of cpu{at} in units has {}", schedlab_base::counted(row.len(), "number"));
            return Err(table.error_at("units", what).help("[package, node, llc, cluster, core]"));
        };
        let next = threads.entry(core).or_default();
        cpus.push(Cpu { package, node, llc, cluster, core, thread: *next });
        *next += 1;
    }
    // Also limits the numbers, so that a table of nodes fits into memory.
    type Column = (&'static str, fn(&Cpu) -> u32);
    let units: [Column; 5] = [
        ("package", |c| c.package),
        ("node", |c| c.node),
        ("llc", |c| c.llc),
        ("cluster", |c| c.cluster),
        ("core", |c| c.core),
    ];
    for (name, unit) in units {
        let mut ids: Vec<u32> = cpus.iter().map(unit).collect();
        ids.sort_unstable();
        ids.dedup();
        if let Some((at, id)) = ids.iter().enumerate().find(|(at, id)| **id != *at as u32) {
            let what = format!("units has a {name} {id} and no {name} {at}");
            return Err(table
                .error_at("units", what)
                .help("each kind of unit is numbered from 0 without gaps"));
        }
    }
    let nodes = cpus.iter().map(|c| c.node + 1).max().unwrap_or(0);
    let remote = table.number("distance")?.unwrap_or(21);
    let distance = |a, b| if a == b { 10 } else { remote };
    let matrix = (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect();
    let mut topology = Topology::plain(cpus, matrix);
    topology.capacity = table.numbers("capacity")?.unwrap_or_default();
    topology.check().map_err(|e| table.place("units", e))?;
    Ok(topology)
}

/// A machine with a list of cores by kind and cache.
fn uneven(table: &Table<'_>, packages: u32, numbering: Numbering) -> Result<Topology> {
    let cores = table.required("cores", table.numbers::<u32>("cores")?)?;
    let groups = cores.len();
    let list = |key: &str| -> Result<Option<Vec<u32>>> {
        match table.get(key).and_then(|value| value.get_ref().as_array()) {
            Some(_) => table.numbers(key),
            None => Ok(None),
        }
    };
    // One value for all entries of `cores`, or one for each.
    let each = |key: &str, default: u32| -> Result<Vec<u32>> {
        list(key)?.map_or_else(|| Ok(vec![table.number(key)?.unwrap_or(default); groups]), Ok)
    };
    let llcs = match list("llcs")? {
        Some(each) => each,
        None if table.get("llcs").is_some() => {
            let what = "llcs does not go with a list of cores unless it is a list";
            return Err(table
                .error_at("llcs", what)
                .help("llcs = [2, 1]: the entries of cores in each cache"));
        }
        None => vec![1; groups],
    };
    let caches = llcs.len();
    let nodes = match list("nodes")? {
        Some(each) => each,
        None => {
            let nodes = table.number::<u32>("nodes")?.unwrap_or(packages).max(1);
            if !caches.is_multiple_of(nodes as usize) {
                let what = format!("{caches} caches can't be divided over {nodes} nodes");
                return Err(table.error_at("cores", what).help("nodes = [2, 1]: caches of each node"));
            }
            vec![caches as u32 / nodes; nodes as usize]
        }
    };
    let own = Uneven {
        threads: each("threads_per_core", 1)?,
        clusters: each("clusters", 0)?,
        capacity: each("capacity", FULL_CAPACITY)?,
        cores,
        llcs,
        nodes,
        packages,
        numbering,
        remote_distance: table.number("distance")?.unwrap_or(21),
    };
    own.topology().map_err(|e| table.place("cores", e))
}
