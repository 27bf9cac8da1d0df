//! The output of `lscpu -J` and `lscpu -e -J`. The first counts units, the second has a row for each CPU. Plain text of
//! either becomes the same values ([`super::plain`]).

use super::{CpuUnits, Read};
use schedlab_base::{CpuId, CpuSet, Error, Result};
use schedlab_machine::Topology;
use schedlab_machine::shape::{Numbering, Shape};
use serde_json::Value;

pub(super) const ROWS: &str = "lscpu -e -J";
const SUMMARY: &str = "lscpu -J";

/// Reads either form.
///
/// # Errors
/// When it is neither, or its counts do not fit together.
pub(super) fn read(text: &str) -> Result<Read> {
    let whole: Value = serde_json::from_str(text)
        .map_err(|e| Error::input(format!("not JSON: {e}")).help(format!("{SUMMARY} > box.json")))?;
    match (whole["cpus"].as_array(), whole["lscpu"].as_array()) {
        (Some(rows), _) => of_rows(rows),
        (None, Some(fields)) => of_summary(fields),
        (None, None) => {
            Err(Error::input("not the output of lscpu")
                .help(format!("{SUMMARY} or {ROWS} prints it as JSON")))
        }
    }
}

/// A number, which some versions print as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

pub(super) fn of_rows(rows: &[Value]) -> Result<Read> {
    let is_online = |row: &&Value| row["online"] != false && row["online"] != "no";
    let places = rows.iter().filter(is_online).map(|row| {
        let wrong = || Error::input(format!("a row of lscpu without its CPU or core: {row}"));
        let cpu = number(&row["cpu"]).ok_or_else(wrong)?;
        let core = number(&row["core"]).ok_or_else(wrong)?;
        let package = number(&row["socket"]).unwrap_or(0);
        let node = number(&row["node"]).unwrap_or(0);
        let (l2, last) = caches(row);
        let llc = last.unwrap_or(package);
        Ok(CpuUnits { cpu, package, node, llc, cluster: l2.unwrap_or(core), core })
    });
    let mut places = places.collect::<Result<Vec<CpuUnits>>>()?;
    let l2_is_last = rows.iter().all(|row| caches(row).0 == caches(row).1);
    if l2_is_last {
        places.iter_mut().for_each(|p| p.cluster = p.core);
    }
    Ok(Read { places, source: ROWS, ..Read::default() })
}

/// The second and the last level among a row's caches. The column's name lists all levels: "l1d:l1i:l2:l3".
fn caches(row: &Value) -> (Option<u64>, Option<u64>) {
    let column = row.as_object().into_iter().flatten().find(|(name, _)| name.starts_with("l1"));
    let Some((names, ids)) = column.and_then(|(names, v)| Some((names, v.as_str()?))) else {
        return (None, None);
    };
    let all: Vec<(&str, Option<u64>)> =
        names.split(':').zip(ids.split(':').map(|id| id.trim().parse().ok())).collect();
    let l2 = all.iter().find(|(name, _)| *name == "l2").and_then(|(_, id)| *id);
    (l2, all.iter().rev().find(|(name, id)| !name.starts_with("l1") && id.is_some()).and_then(|(_, id)| *id))
}

/// The value of a field, which may be nested in another.
fn field<'a>(fields: &'a [Value], name: &str) -> Option<&'a str> {
    fields.iter().find_map(|f| {
        let own = f["field"].as_str().is_some_and(|text| text.trim_end_matches(':') == name);
        let below = || field(f["children"].as_array()?, name);
        own.then(|| f["data"].as_str()).flatten().or_else(below)
    })
}

/// The number of each node and its CPUs, from "NUMA node0 CPU(s)"; "" for a node that holds only memory.
fn nodes(fields: &[Value]) -> Vec<(u32, &str)> {
    let mut all = Vec::new();
    for f in fields {
        let name = f["field"].as_str().and_then(|name| name.strip_prefix("NUMA node")?.split_once(" CPU(s)"));
        if let Some(number) = name.and_then(|(number, _)| number.parse().ok()) {
            all.push((number, f["data"].as_str().unwrap_or_default().trim()));
        }
        all.extend(f["children"].as_array().map_or_else(Vec::new, |inner| nodes(inner)));
    }
    all
}

/// The first machine whose nodes have the listed CPUs.
fn with_nodes(made: Vec<Topology>, listed: &[(u32, &str)]) -> Result<Topology> {
    let sets = listed.iter().map(|(_, cpus)| CpuSet::parse(cpus)).collect::<Result<Vec<_>>>()?;
    // The first node that has other CPUs.
    let other = |t: &Topology| {
        let mut own = vec![Vec::new(); sets.len()];
        for (at, cpu) in t.cpus.iter().enumerate() {
            own.get_mut(cpu.node as usize).into_iter().for_each(|node| node.push(CpuId(at as u32)));
        }
        own.into_iter().zip(&sets).position(|(own, listed)| own.into_iter().collect::<CpuSet>() != *listed)
    };
    let mut furthest = 0;
    for topology in made {
        match other(&topology) {
            None => return Ok(topology),
            Some(at) => furthest = furthest.max(at),
        }
    }
    let node = listed.get(furthest).map_or(0, |(number, _)| *number);
    Err(Error::input(format!("the counts do not explain how the CPUs of NUMA node {node} are numbered"))
        .help(format!("take {ROWS}, which has each CPU")))
}

pub(super) fn of_summary(fields: &[Value]) -> Result<Read> {
    let count =
        |name: &str| field(fields, name).and_then(|text| text.trim().parse::<u32>().ok()).filter(|n| *n > 0);
    let missing =
        |name: &str| Error::input(format!("lscpu's output has no '{name}'")).help(format!("take {ROWS}"));
    let all = count("CPU(s)").ok_or_else(|| missing("CPU(s)"))?;
    let packages = count("Socket(s)").or_else(|| count("Cluster(s)")).ok_or_else(|| missing("Socket(s)"))?;
    let each = count("Core(s) per socket").or_else(|| count("Core(s) per cluster"));
    let each = each.ok_or_else(|| missing("Core(s) per socket"))?;
    let threads_per_core = count("Thread(s) per core").unwrap_or(1);
    let mut with_cpus: Vec<(u32, &str)> =
        nodes(fields).into_iter().filter(|(_, cpus)| !cpus.is_empty()).collect();
    with_cpus.sort_unstable();
    let nodes = match with_cpus.len() as u32 {
        0 => count("NUMA node(s)").unwrap_or(1),
        some => some,
    };
    let cores = packages.saturating_mul(each);
    if cores.saturating_mul(threads_per_core) != all {
        let text = format!(
            "{} {} not {packages} x {each} cores x {threads_per_core} threads",
            schedlab_base::counted(all, "CPU"),
            schedlab_base::one_or(all, "is", "are")
        );
        return Err(
            Error::input(text).help(format!("some may be offline, or cores of several kinds: take {ROWS}"))
        );
    }
    // "64 MiB (4 instances)"
    let instances = |name: &str| -> Option<u32> {
        field(fields, name)?.split_once('(')?.1.split(' ').next()?.parse().ok()
    };
    let llcs = instances("L3").or_else(|| instances("L3 cache")).unwrap_or_else(|| packages.max(nodes));
    let shape = |numbering| Shape {
        packages,
        nodes,
        llcs,
        clusters: 0,
        cores,
        threads_per_core,
        numbering,
        remote_distance: super::REMOTE,
    };
    let orders = [Numbering::SiblingsLast, Numbering::Adjacent, Numbering::Alternating];
    let made = orders.into_iter().map(|n| shape(n).topology()).collect::<Result<Vec<_>>>()?;
    let topology = with_nodes(made, &with_cpus)?;
    let place = |(cpu, c): (usize, &schedlab_machine::Cpu)| CpuUnits {
        cpu: cpu as u64,
        package: c.package.into(),
        node: c.node.into(),
        llc: c.llc.into(),
        cluster: c.cluster.into(),
        core: c.core.into(),
    };
    let places = topology.cpus.iter().enumerate().map(place).collect();
    let model = field(fields, "Model name").unwrap_or_default().to_owned();
    Ok(Read { places, model, source: SUMMARY, ..Read::default() })
}
