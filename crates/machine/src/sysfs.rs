//! A machine from a running kernel's sysfs: topology and idle states. Costs are those of a generic machine.
//!
//! Reads `devices/system/cpu` and `devices/system/node` below a root from the caller, so that tests bring their own
//! trees. Only online CPUs count. CPU numbers with gaps are made dense, since the simulator numbers CPUs from 0;
//! `Machine::os_cpu` maps back. A CPU without a topology entry is its own unit; without node directories there is one
//! node; a cache that firmware reports across nodes is cut at the node, as in the x86 kernel.

use crate::topology::{Cpu, FULL_CAPACITY, Topology};
use crate::{CacheLevel, CostNote, IdleGovernor, IdleState, Machine, Sharing, presets};
use schedlab_base::{CpuId, CpuSet, Error, Ns, Result, Spot};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the machine that schedlab runs on.
pub const HOST: &str = "host";

/// Reads the machine whose sysfs is mounted at `root`.
///
/// # Errors
/// When the list of online CPUs can't be read, or an existing entry makes no sense.
pub fn read(root: &Path) -> Result<Machine> {
    let cpus = root.join("devices/system/cpu");
    let list = cpus.join("online");
    let text = std::fs::read_to_string(&list).map_err(|e| {
        Error::machine(format!("can't read {}: {e}", list.display()))
            .help("without sysfs, name a preset or describe the machine in a file")
    })?;
    let online: Vec<CpuId> = parse_list(&list, &text)?.iter().collect();
    let nodes = Nodes::read(&root.join("devices/system/node"))?;
    let rows = online.iter().map(|c| row(&cpus, &nodes, *c)).collect::<Result<Vec<Row>>>()?;
    let mut topology = Topology::plain(dense(&rows), nodes.distances(&rows));
    topology.capacity = capacities(&cpus, &online)?;
    topology.memoryless = nodes.memoryless(&rows);
    topology.check().map_err(|e| e.at(Spot::file(&cpus)))?;
    let mut machine = presets::no_make()?;
    let gaps = online.iter().enumerate().any(|(i, c)| c.index() != i);
    machine.os_cpu = if gaps { online.iter().map(|c| c.0).collect() } else { Vec::new() };
    machine.name = HOST.into();
    machine.about = format!("this machine: {} online", schedlab_base::counted(online.len(), "CPU"));
    machine.provenance.retain(|n| n.name != "topology" && !n.name.starts_with("idle."));
    machine.provenance.insert(0, note("topology", root));
    machine.topology = topology;
    let cpuidle = cpus.join(format!("cpu{}/cpuidle", online[0].0));
    if !cpuidle.exists() && !polls() {
        halt(&mut machine, root);
        return Ok(machine);
    }
    machine.idle_governor = governor(root, &cpus.join("cpuidle/current_governor"))?;
    machine.idle_states = idle_states(&cpuidle, machine.idle_governor)?;
    let idle = machine.idle_states.iter().map(|s| note(&format!("idle.{}", s.name), root));
    machine.provenance.extend(idle.collect::<Vec<_>>());
    Ok(machine)
}

/// Whether the kernel's command line asks for polling when idle.
fn polls() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().any(|word| word == "idle=poll")
}

/// Without a cpuidle driver an idle CPU halts at once (`default_idle`), as most guests do. Sysfs does not show the time
/// to leave the halt: a generic machine's shallowest state stands for it until a probe measures it.
fn halt(machine: &mut Machine, root: &Path) {
    let Some(shallowest) = machine.idle_states.first().cloned() else { return };
    let poll = IdleState { name: "POLL".into(), exit: Ns::ZERO, typical: Ns::ZERO, residency: Ns::ZERO };
    let halt = IdleState { name: "HLT".into(), residency: Ns::ZERO, ..shallowest };
    machine.idle_governor = IdleGovernor::Halt;
    machine.idle_states = vec![poll, halt];
    let source = format!(
        "{} has no cpuidle: such a kernel halts; the time to leave that is not measured ('schedlab machine probe' does)",
        root.display()
    );
    machine.provenance.push(CostNote { name: "idle.HLT".into(), range: None, source });
}

fn note(name: &str, root: &Path) -> CostNote {
    CostNote { name: name.into(), range: None, source: format!("read from {}", root.display()) }
}

/// The capacities of the CPUs (`cpu_capacity`, which not every architecture has); empty if all are the fastest.
fn capacities(cpus: &Path, online: &[CpuId]) -> Result<Vec<u32>> {
    let of = |cpu: &CpuId| {
        let file = cpus.join(format!("cpu{}/cpu_capacity", cpu.0));
        text(&file)?.map_or(Ok(FULL_CAPACITY), |t| number(&file, &t))
    };
    let all = online.iter().map(of).collect::<Result<Vec<u32>>>()?;
    Ok(if all.iter().all(|c| *c == FULL_CAPACITY) { Vec::new() } else { all })
}

/// A CPU's units. Each is named by a value that all its CPUs share.
struct Row {
    package: i64,
    node: u32,
    llc: (CpuId, u32),
    cluster: CpuId,
    core: CpuId,
}

fn row(cpus: &Path, nodes: &Nodes, cpu: CpuId) -> Result<Row> {
    let dir = cpus.join(format!("cpu{}", cpu.0));
    let topology = dir.join("topology");
    let own: CpuSet = [cpu].into_iter().collect();
    let with_self = |set: Option<CpuSet>| set.unwrap_or_default().or(&own);
    let threads = match list(&topology.join("core_cpus_list"))? {
        Some(set) => set,
        None => with_self(list(&topology.join("thread_siblings_list"))?),
    };
    let cluster = with_self(list(&topology.join("cluster_cpus_list"))?).or(&threads);
    let llc = last_level(&dir.join("cache"))?.unwrap_or_default().or(&cluster);
    let package = match text(&topology.join("physical_package_id"))? {
        Some(id) => number(&topology.join("physical_package_id"), &id)?,
        None => 0,
    };
    let node = nodes.of(cpu)?;
    let lowest = |set: &CpuSet| set.lowest().unwrap_or(cpu);
    Ok(Row {
        package,
        node,
        llc: (lowest(&llc), node),
        cluster: lowest(&cluster),
        core: lowest(&with_self(Some(threads))),
    })
}

/// The CPUs with dense unit ids, numbered in the order of the CPUs.
fn dense(rows: &[Row]) -> Vec<Cpu> {
    fn ids<K: Ord>(rows: &[Row], key: impl Fn(&Row) -> K) -> Vec<u32> {
        let mut known = BTreeMap::new();
        let id = |r: &Row| {
            let next = known.len() as u32;
            *known.entry(key(r)).or_insert(next)
        };
        rows.iter().map(id).collect()
    }
    let (package, llc) = (ids(rows, |r| r.package), ids(rows, |r| r.llc));
    let (cluster, core) = (ids(rows, |r| r.cluster), ids(rows, |r| r.core));
    let node_ids = nodes_in_use(rows);
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    (0..rows.len())
        .map(|i| {
            let thread = threads.entry(core[i]).or_insert(0);
            *thread += 1;
            let node = node_ids.partition_point(|n| *n < rows[i].node) as u32;
            Cpu {
                package: package[i],
                node,
                llc: llc[i],
                cluster: cluster[i],
                core: core[i],
                thread: *thread - 1,
            }
        })
        .collect()
}

/// The nodes with CPUs, ascending. Nodes with memory only do not matter to the scheduler.
fn nodes_in_use(rows: &[Row]) -> Vec<u32> {
    let mut nodes: Vec<u32> = rows.iter().map(|r| r.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The node directory; empty if there is none.
struct Nodes {
    dir: PathBuf,
    /// The nodes with memory; `None` if the kernel does not list them.
    memory: Option<CpuSet>,
    /// Number, CPUs, distances to all online nodes in order.
    all: Vec<(u32, CpuSet, Vec<u32>)>,
}

impl Nodes {
    fn read(dir: &Path) -> Result<Nodes> {
        let online = list(&dir.join("online"))?.unwrap_or_default();
        let one = |CpuId(n): CpuId| {
            let (cpus, distance) =
                (dir.join(format!("node{n}/cpulist")), dir.join(format!("node{n}/distance")));
            let row = text(&distance)?.unwrap_or_default();
            let row = row.split_whitespace().map(|d| number(&distance, d)).collect::<Result<Vec<u32>>>()?;
            Ok((n, list(&cpus)?.unwrap_or_default(), row))
        };
        let memory = list(&dir.join("has_memory"))?;
        Ok(Nodes { dir: dir.into(), memory, all: online.iter().map(one).collect::<Result<_>>()? })
    }
    fn of(&self, cpu: CpuId) -> Result<u32> {
        if self.all.is_empty() {
            return Ok(0);
        }
        self.all
            .iter()
            .find(|(_, cpus, _)| cpus.contains(cpu))
            .map(|(n, ..)| *n)
            .ok_or_else(|| Error::machine(format!("{cpu} is in no node")).at(Spot::file(&self.dir)))
    }
    /// The used nodes without memory, by dense number; empty if no used node has memory.
    fn memoryless(&self, rows: &[Row]) -> Vec<u32> {
        let Some(memory) = &self.memory else { return Vec::new() };
        let used = nodes_in_use(rows);
        let without = (0..).zip(&used).filter(|(_, n)| !memory.contains(CpuId(**n))).map(|(at, _)| at);
        let all: Vec<u32> = without.collect();
        if all.len() == used.len() { Vec::new() } else { all }
    }
    /// Distances of the used nodes; 10 and 20 if the kernel gives none.
    fn distances(&self, rows: &[Row]) -> Vec<Vec<u32>> {
        let used = nodes_in_use(rows);
        let place = |n: u32| self.all.iter().position(|(m, ..)| *m == n);
        let distance = |a: u32, b: u32| {
            let given = place(a).zip(place(b)).and_then(|(a, b)| self.all[a].2.get(b).copied());
            given.unwrap_or(if a == b { 10 } else { 20 })
        };
        used.iter().map(|a| used.iter().map(|b| distance(*a, *b)).collect()).collect()
    }
}

/// The data caches of the first online CPU, smallest first, as sysfs reports them; empty if it shows none. Sysfs has no
/// cost of a hit: `hit_ns_per_kb` is 0. Hence [`read`] gives a machine no caches; the probe adds measured ones. A
/// virtual machine may report sizes that it does not have.
///
/// # Errors
/// When an existing entry makes no sense.
pub fn caches(root: &Path) -> Result<Vec<CacheLevel>> {
    let cpus = root.join("devices/system/cpu");
    let online = list(&cpus.join("online"))?.unwrap_or_default();
    let Some(first) = online.lowest() else { return Ok(Vec::new()) };
    let dir = cpus.join(format!("cpu{}", first.0));
    let own: CpuSet = [first].into_iter().collect();
    let mut core = list(&dir.join("topology/core_cpus_list"))?;
    if core.is_none() {
        core = list(&dir.join("topology/thread_siblings_list"))?;
    }
    let core = core.unwrap_or_else(|| own.clone());
    let mut all: Vec<CacheLevel> = Vec::new();
    for index in 0.. {
        let entry = dir.join(format!("cache/index{index}"));
        let Some(level) = text(&entry.join("level"))? else { break };
        let Some(size) = text(&entry.join("size"))? else { continue };
        if text(&entry.join("type"))?.is_some_and(|t| t == "Instruction") {
            continue;
        }
        let line = match text(&entry.join("coherency_line_size"))? {
            Some(line) => number(&entry.join("coherency_line_size"), &line)?,
            None => 64,
        };
        let shared = list(&entry.join("shared_cpu_list"))?.unwrap_or_else(|| own.clone());
        all.push(CacheLevel {
            level: number(&entry.join("level"), &level)?,
            size_kb: cache_kb(&entry.join("size"), &size)?,
            line,
            shared: if shared.iter().all(|cpu| core.contains(cpu)) {
                Sharing::Core
            } else {
                Sharing::Cluster
            },
            hit_ns_per_kb: 0,
        });
    }
    all.retain(|cache| cache.size_kb > 0);
    all.sort_by_key(|cache| cache.level);
    // The last one belongs to the LLC's domain, whoever shares it; sizes in a machine file must grow.
    if let Some(last) = all.last_mut() {
        last.shared = Sharing::Llc;
    }
    all.dedup_by(|outer, inner| outer.size_kb <= inner.size_kb);
    Ok(all)
}

/// A cache's size in KB, from "1024K" or "32M".
fn cache_kb(path: &Path, text: &str) -> Result<u64> {
    match (text.strip_suffix('K'), text.strip_suffix('M')) {
        (Some(kb), _) => number(path, kb),
        (_, Some(mb)) => Ok(number::<u64>(path, mb)? << 10),
        _ => Ok(number::<u64>(path, text)? >> 10),
    }
}

/// CPUs that share the highest data or unified cache; `None` if sysfs shows no caches.
fn last_level(dir: &Path) -> Result<Option<CpuSet>> {
    let mut best: Option<(u32, CpuSet)> = None;
    for index in 0.. {
        let entry = dir.join(format!("index{index}"));
        let Some(level) = text(&entry.join("level"))? else { break };
        let level: u32 = number(&entry.join("level"), &level)?;
        let code_only = text(&entry.join("type"))?.is_some_and(|t| t == "Instruction");
        let shared = list(&entry.join("shared_cpu_list"))?;
        if let (false, Some(set)) = (code_only || best.as_ref().is_some_and(|(b, _)| *b > level), shared) {
            best = Some((level, set));
        }
    }
    Ok(best.map(|(_, set)| set))
}

/// The cpuidle governor; haltpoll that must not poll is [`IdleGovernor::Halt`].
fn governor(root: &Path, file: &Path) -> Result<IdleGovernor> {
    if text(file)?.as_deref() != Some("haltpoll") {
        return Ok(IdleGovernor::Menu);
    }
    let longest = text(&root.join("module/haltpoll/parameters/guest_halt_poll_ns"))?;
    Ok(if longest.as_deref() == Some("0") { IdleGovernor::Halt } else { IdleGovernor::Haltpoll })
}

/// A CPU's enabled idle states. Under `menu` without the polling state (exit time 0).
fn idle_states(dir: &Path, governor: IdleGovernor) -> Result<Vec<IdleState>> {
    let mut states = Vec::new();
    for index in 0.. {
        let state = dir.join(format!("state{index}"));
        let Some(name) = text(&state.join("name"))? else { break };
        let us = |file: &str| -> Result<u64> {
            let path = state.join(file);
            text(&path)?.map_or(Ok(0), |t| number(&path, &t))
        };
        if (name != "POLL" || governor != IdleGovernor::Menu) && us("disable")? == 0 {
            let exit = Ns::us(us("latency")?);
            states.push(IdleState { name, exit, typical: exit, residency: Ns::us(us("residency")?) });
        }
    }
    Ok(states)
}

/// A file's trimmed text; `None` if the file does not exist or the kernel has no answer.
fn text(path: &Path) -> Result<Option<String>> {
    use std::io::ErrorKind as Io;
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(e) if matches!(e.kind(), Io::NotFound | Io::NotADirectory) => Ok(None),
        Err(e) => Err(Error::io(path, "read", &e)),
    }
}

fn list(path: &Path) -> Result<Option<CpuSet>> {
    text(path)?.map(|t| parse_list(path, &t)).transpose()
}

fn parse_list(path: &Path, text: &str) -> Result<CpuSet> {
    CpuSet::parse(text).map_err(|e| Error::machine(e.message()).at(Spot::file(path)))
}

fn number<T: std::str::FromStr>(path: &Path, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::machine(format!("'{text}' is not a number")).at(Spot::file(path)))
}

#[cfg(test)]
mod tests;
