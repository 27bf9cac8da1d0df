//! The simulated machine as files: what programs and their libraries read of /sys and /proc.
//!
//! Two tables say it all: files of a CPU and files of a cache. CPUs are numbered from 0 on without gaps, and all of
//! them are online. What changes while the machine runs is put anew by [`Tree::put_times`] and [`Tree::put_state`].

use super::bpf::PROBE_KIND;
use super::tree::{Node as Entry, Tree};
use std::fmt::Write;

/// A CPU. Numbers of cores, clusters and packages are the kernel's: two CPUs with the same package and core are threads
/// of one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    pub core: u32,
    pub cluster: u32,
    pub die: u32,
    pub package: u32,
    pub node: u32,
    /// Of 1,024.
    pub capacity: u32,
    pub least_khz: u32,
    pub most_khz: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheKind {
    Data,
    Instruction,
    Unified,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    pub level: u32,
    pub kind: CacheKind,
    /// Unique among those of this level and kind.
    pub id: u32,
    pub bytes: u64,
    pub line_bytes: u32,
    pub ways: u32,
    /// The CPUs that share it.
    pub cpus: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    pub cpus: Vec<Cpu>,
    pub caches: Vec<Cache>,
    /// Of each node: its memory, and its distance to each node (10: itself).
    pub nodes: Vec<Node>,
    /// `CONFIG_X=y` lines of the kernel, for programs that ask for its configuration.
    pub config: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    pub memory_bytes: u64,
    pub distances: Vec<u32>,
}

/// A group of tasks: a folder of `/sys/fs/cgroup`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// From the root: "/" is the root itself.
    pub path: String,
    /// What the kernel knows it by, and the folder's inode.
    pub id: u64,
    /// Files of the cpu controller, and what they say.
    pub files: Vec<(String, String)>,
}

/// CPUs that are the same in something.
type Same = fn(&Cpu, &Cpu) -> bool;

/// Files `NAME_list` (a list) and `NAME` (a mask) in a CPU's folder `topology`.
const SETS: &[(&str, Same)] = &[
    ("thread_siblings", same_core),
    ("core_cpus", same_core),
    ("core_siblings", same_package),
    ("package_cpus", same_package),
    ("die_cpus", |a, b| same_package(a, b) && a.die == b.die),
    ("cluster_cpus", |a, b| same_package(a, b) && a.cluster == b.cluster),
];

fn same_core(a: &Cpu, b: &Cpu) -> bool {
    same_package(a, b) && a.core == b.core
}
fn same_package(a: &Cpu, b: &Cpu) -> bool {
    a.package == b.package
}

/// What a file says of a CPU.
type Number = fn(&Cpu) -> u32;

/// Files of a CPU that have one number.
const NUMBERS: &[(&str, Number)] = &[
    ("topology/core_id", |cpu| cpu.core),
    ("topology/cluster_id", |cpu| cpu.cluster),
    ("topology/die_id", |cpu| cpu.die),
    ("topology/physical_package_id", |cpu| cpu.package),
    ("cpu_capacity", |cpu| cpu.capacity),
    ("cpufreq/cpuinfo_min_freq", |cpu| cpu.least_khz),
    ("cpufreq/cpuinfo_max_freq", |cpu| cpu.most_khz),
    ("cpufreq/scaling_min_freq", |cpu| cpu.least_khz),
    ("cpufreq/scaling_max_freq", |cpu| cpu.most_khz),
    ("cpufreq/scaling_cur_freq", |cpu| cpu.most_khz),
    ("cpufreq/base_frequency", |cpu| cpu.most_khz),
    ("cpufreq/cpuinfo_transition_latency", |_| 0),
    ("power/pm_qos_resume_latency_us", |_| 0),
    ("online", |_| 1),
];

impl Tree {
    fn text(&mut self, path: &str, text: String) {
        self.put(path, Entry::File(text.into_bytes()));
    }
    fn line(&mut self, path: &str, value: impl std::fmt::Display) {
        self.text(path, format!("{value}\n"));
    }
    fn sets(&mut self, path: &str, list: &str, cpus: &[u32], of: usize) {
        self.line(list, ranges(cpus));
        self.line(path, mask(cpus, of));
    }
    fn link(&mut self, path: &str, to: String) {
        self.put(path, Entry::Link(to));
    }
    /// `/proc/stat`: the time that each CPU has been with a task so far is user time, the rest of its time is idle.
    pub fn put_times(&mut self, busy_ns: &[u64], now_ns: u64) {
        let ticks = |ns: u64| ns / (1_000_000_000 / USER_HZ);
        let one = |busy_ns: &u64| (ticks(*busy_ns), ticks(now_ns.saturating_sub(*busy_ns)));
        let each: Vec<(u64, u64)> = busy_ns.iter().map(one).collect();
        let all = each.iter().fold((0, 0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
        let named = each.iter().enumerate().map(|(cpu, times)| (format!("cpu{cpu}"), *times));
        let mut text = String::new();
        for (name, (user, idle)) in std::iter::once(("cpu ".to_owned(), all)).chain(named) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name} {user} 0 0 {idle} 0 0 0 0 0 0");
        }
        self.text("proc/stat", text + "btime 1767225600\n");
    }
    /// Functions that programs may be attached to.
    pub fn put_functions<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let (mut symbols, mut traceable) = (String::new(), String::new());
        for name in names {
            // Writing to a string does not fail.
            let _ = writeln!(symbols, "{:016x} T {name}", 0);
            let _ = writeln!(traceable, "{name}");
        }
        self.text("proc/kallsyms", symbols);
        self.text("sys/kernel/tracing/available_filter_functions", traceable);
        self.line("proc/mounts", "tracefs /sys/kernel/tracing tracefs rw 0 0");
    }
    pub fn put_group(&mut self, group: &Group) {
        let folder = format!("sys/fs/cgroup{}", group.path.trim_end_matches('/'));
        for (name, text) in &group.files {
            self.text(&format!("{folder}/{name}"), text.clone());
        }
        for name in ["cgroup.controllers", "cgroup.subtree_control"] {
            self.line(&format!("{folder}/{name}"), "cpu");
        }
        self.set_inode(&folder, group.id);
    }
    /// `/sys/kernel/sched_ext`: whether a scheduler has the tasks, and its name.
    pub fn put_state(&mut self, scheduler: Option<&str>) {
        let folder = "sys/kernel/sched_ext";
        self.line(&format!("{folder}/state"), if scheduler.is_some() { "enabled" } else { "disabled" });
        self.line(&format!("{folder}/enable_seq"), u32::from(scheduler.is_some()));
        if let Some(name) = scheduler {
            self.line(&format!("{folder}/root/ops"), name);
        }
    }
}

/// Ticks of a second in files of times.
const USER_HZ: u64 = 100;

/// The machine's files.
pub fn files(machine: &Machine) -> Tree {
    let mut tree = Tree::default();
    let all: Vec<u32> = (0..machine.cpus.len() as u32).collect();
    for name in ["possible", "present", "online"] {
        tree.line(&format!("sys/devices/system/cpu/{name}"), ranges(&all));
    }
    for name in ["offline", "isolated", "nohz_full"] {
        tree.line(&format!("sys/devices/system/cpu/{name}"), "");
    }
    tree.line("sys/devices/system/cpu/kernel_max", machine.cpus.len().saturating_sub(1));
    let has_threads =
        machine.cpus.iter().enumerate().any(|(i, a)| machine.cpus[..i].iter().any(|b| same_core(a, b)));
    tree.line("sys/devices/system/cpu/smt/active", u32::from(has_threads));
    tree.line("sys/devices/system/cpu/smt/control", if has_threads { "on" } else { "notsupported" });
    for cpu in &all {
        put_cpu(&mut tree, machine, *cpu);
    }
    put_nodes(&mut tree, machine);
    put_kernel(&mut tree, machine);
    tree
}

fn put_cpu(tree: &mut Tree, machine: &Machine, number: u32) {
    let folder = format!("sys/devices/system/cpu/cpu{number}");
    let (this, of) = (&machine.cpus[number as usize], machine.cpus.len());
    for (name, value) in NUMBERS {
        tree.line(&format!("{folder}/{name}"), value(this));
    }
    for (name, same) in SETS {
        let numbered = machine.cpus.iter().zip(0..);
        let cpus: Vec<u32> = numbered.filter(|(cpu, _)| same(this, cpu)).map(|(_, i)| i).collect();
        let path = format!("{folder}/topology/{name}");
        tree.sets(&path, &format!("{path}_list"), &cpus, of);
    }
    let caches = machine.caches.iter().filter(|cache| cache.cpus.contains(&number));
    for (index, cache) in caches.enumerate() {
        put_cache(tree, &format!("{folder}/cache/index{index}"), cache, of);
    }
    tree.link(&format!("{folder}/node{}", this.node), format!("../../node/node{}", this.node));
}

fn put_cache(tree: &mut Tree, folder: &str, cache: &Cache, cpus: usize) {
    let way_bytes = u64::from(cache.line_bytes.max(1)) * u64::from(cache.ways.max(1));
    tree.line(&format!("{folder}/id"), cache.id);
    tree.line(&format!("{folder}/level"), cache.level);
    tree.line(&format!("{folder}/type"), format!("{:?}", cache.kind));
    tree.line(&format!("{folder}/size"), format!("{}K", cache.bytes / 1024));
    tree.line(&format!("{folder}/coherency_line_size"), cache.line_bytes);
    tree.line(&format!("{folder}/ways_of_associativity"), cache.ways);
    tree.line(&format!("{folder}/number_of_sets"), cache.bytes / way_bytes);
    let map = format!("{folder}/shared_cpu_map");
    tree.sets(&map, &format!("{folder}/shared_cpu_list"), &cache.cpus, cpus);
}

fn put_nodes(tree: &mut Tree, machine: &Machine) {
    let folder = "sys/devices/system/node";
    let all: Vec<u32> = (0..machine.nodes.len() as u32).collect();
    let on = |node: u32| -> Vec<u32> {
        machine.cpus.iter().zip(0..).filter(|(cpu, _)| cpu.node == node).map(|(_, i)| i).collect()
    };
    for name in ["possible", "online", "has_normal_memory", "has_memory"] {
        tree.line(&format!("{folder}/{name}"), ranges(&all));
    }
    let with_cpus: Vec<u32> = all.iter().copied().filter(|node| !on(*node).is_empty()).collect();
    tree.line(&format!("{folder}/has_cpu"), ranges(&with_cpus));
    for (number, node) in all.iter().zip(&machine.nodes) {
        let (folder, cpus) = (format!("{folder}/node{number}"), on(*number));
        tree.sets(&format!("{folder}/cpumap"), &format!("{folder}/cpulist"), &cpus, machine.cpus.len());
        let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
        tree.line(&format!("{folder}/distance"), distances.join(" "));
        let kib = node.memory_bytes / 1024;
        tree.line(
            &format!("{folder}/meminfo"),
            format!("Node {number} MemTotal: {kib} kB\nNode {number} MemFree: {kib} kB"),
        );
        for cpu in cpus {
            tree.link(&format!("{folder}/cpu{cpu}"), format!("../../cpu/cpu{cpu}"));
        }
    }
}

/// What the kernel says of itself. Nothing has run yet.
fn put_kernel(tree: &mut Tree, machine: &Machine) {
    let mut info = String::new();
    for (number, cpu) in machine.cpus.iter().enumerate() {
        let (mhz, khz) = (cpu.most_khz / 1000, cpu.most_khz % 1000);
        // Writing to a string does not fail.
        let _ = write!(
            info,
            "processor\t: {number}\ncpu MHz\t\t: {mhz}.{khz:03}\nphysical id\t: {}\ncore id\t\t: {}\n\n",
            cpu.package, cpu.core
        );
    }
    tree.text("proc/cpuinfo", info);
    tree.put_times(&vec![0; machine.cpus.len()], 0);
    let kib = machine.nodes.iter().map(|node| node.memory_bytes / 1024).sum::<u64>();
    tree.line("proc/meminfo", format!("MemTotal: {kib} kB\nMemFree: {kib} kB\nMemAvailable: {kib} kB"));
    tree.line("proc/sys/kernel/pid_max", 4_194_304);
    // Readers of gzip take plain text, too.
    tree.text("proc/config.gz", machine.config.clone());
    // What programs read before they attach to functions.
    tree.line("sys/bus/event_source/devices/kprobe/type", PROBE_KIND);
    tree.line("sys/bus/event_source/devices/kprobe/format/retprobe", "config:0");
    tree.put_state(None);
    for name in ["switch_all", "nr_rejected", "hotplug_seq"] {
        tree.line(&format!("sys/kernel/sched_ext/{name}"), 0);
    }
}

/// `0-3,8`.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(a, b): (u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    runs.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Words of 32 bits, the highest first: `00000001,ffffffff`. The first one is as long as it must be.
fn mask(cpus: &[u32], of: usize) -> String {
    let mut words = vec![0u32; of.div_ceil(32).max(1)];
    for cpu in cpus {
        words[*cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let first = if of.is_multiple_of(32) { 8 } else { (of % 32).div_ceil(4) };
    let mut text = format!("{:0first$x}", words.pop().unwrap_or(0));
    for word in words.iter().rev() {
        let _ = write!(text, ",{word:08x}");
    }
    text
}

#[cfg(test)]
mod tests;
