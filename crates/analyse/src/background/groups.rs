//! Groups of threads with the same work, and their common statistics.
//!
//! Kernel threads are grouped by the table [`GROUPS`], user processes by name. A thread is per CPU if it is a kernel
//! thread, its name ends in a CPU's number, and it may run on one CPU only.

use super::{Arrival, Thread};
use schedlab_base::{CpuSet, Ns};
use schedlab_record::{Better, Series};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Beginning of a kernel thread's name, and the group's name.
const GROUPS: &[(&str, &str)] = &[
    ("kworker/u", "kworker-unbound"),
    ("kworker/R-", "kworker-rescuer"),
    ("kworker/", "kworker"),
    ("ksoftirqd/", "ksoftirqd"),
    ("migration/", STOPPER),
    ("rcu", "rcu"),
    ("ktimers/", "timers"),
    ("ktimersoftd/", "timers"),
    ("irq/", "irq"),
    ("kswapd", "memory"),
    ("kcompactd", "memory"),
    ("khugepaged", "memory"),
    ("kdamond", "memory"),
    ("ksmd", "memory"),
    ("jbd2/", "storage"),
    ("xfs", "storage"),
    ("loop", "storage"),
    ("kthreadd", "kthreadd"),
];
/// The group of the stoppers, which the simulator has by itself.
pub(super) const STOPPER: &str = "migration";
/// The group of all other kernel threads.
const OTHER_KERNEL: &str = "kernel-other";
/// The group of processes beyond [`MOST_PROCESSES`].
const OTHER_USER: &str = "user-other";
/// The most user processes with groups of their own: those that wake up most often.
const MOST_PROCESSES: usize = 8;
/// Gaps are regular if the ratio of standard deviation to mean is below this. Exponential gaps have 1.
const PERIODIC: f64 = 0.3;
/// Gaps are bursty if the ratio is above this.
const BURSTY: f64 = 1.5;
/// A shape is judged by at least this many gaps.
const LEAST_GAPS: usize = 10;

/// Facts about a thread, from /proc.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadFacts {
    pub kernel: bool,
    pub process: String,
    /// Its affinity mask.
    pub cpus: CpuSet,
    pub nice: i8,
    /// Whether its class is above the fair one.
    pub real_time: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadKind {
    Kernel,
    /// Threads of user processes.
    User,
}

/// The shape of the gaps between arrivals, by the ratio of standard deviation to mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Below 0.3.
    Periodic,
    /// Between 0.3 and 1.5, as for independent arrivals.
    Random,
    /// Above 1.5.
    Bursty,
    /// Too few gaps to judge.
    Few,
}

impl Shape {
    pub const fn name(self) -> &'static str {
        match self {
            Shape::Periodic => "periodic",
            Shape::Random => "random",
            Shape::Bursty => "bursty",
            Shape::Few => "few",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Group {
    pub name: String,
    pub kind: ThreadKind,
    /// Whether each CPU has such a thread, bound to it.
    pub per_cpu: bool,
    pub nice: i8,
    /// Whether their class is above the fair one.
    pub real_time: bool,
    pub threads: usize,
    pub wakeups: u64,
    /// Arrivals per second; of a group per CPU, the mean on one CPU.
    pub per_second: f64,
    /// Run time per arrival, ns.
    #[serde(rename = "run_ns")]
    pub run: Spread,
    /// Gap between arrivals (of a group per CPU: on one CPU), ns.
    #[serde(rename = "gap_ns")]
    pub gap: Spread,
    pub shape: Shape,
    /// Time on a CPU, in percent of one CPU.
    pub cpu_pct: f64,
}

/// A distribution in brief; `None` for too few samples.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub max: Option<u64>,
}

impl Spread {
    fn of(values: impl Iterator<Item = Ns>) -> Spread {
        let mut series = Series::new("ns", Better::Neither);
        values.for_each(|v| series.record(v.0));
        let at = |p| series.percentile(p).number();
        Spread { mean: series.mean(), p50: at(50.0), p90: at(90.0), max: series.max() }
    }
}

/// The key of a group, in the order of the table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    kind: ThreadKind,
    name: String,
    per_cpu: bool,
    nice: i8,
    real_time: bool,
}

impl GroupKey {
    /// If the thread is gone and has no facts, its name and its parent's name decide.
    fn of(thread: &Thread, facts: Option<&ThreadFacts>) -> GroupKey {
        let known = GROUPS.iter().find(|(begin, _)| thread.name.starts_with(begin)).map(|row| row.1);
        let by_kernel = || thread.parent.as_deref() == Some("kthreadd") || known.is_some();
        let kernel = facts.map_or_else(by_kernel, |f| f.kernel);
        let (nice, real_time) = facts.map_or((0, false), |f| (f.nice, f.real_time));
        if !kernel {
            let name = facts.map_or(&thread.name, |f| &f.process).clone();
            return GroupKey { kind: ThreadKind::User, name, per_cpu: false, nice, real_time };
        }
        let bound = facts.is_none_or(|f| f.cpus.len() == 1);
        let per_cpu = bound && names_a_cpu(&thread.name);
        let name = known.unwrap_or(OTHER_KERNEL);
        // Workers of high priority have an H after their number, and nice -20.
        let high = name.starts_with("kworker") && (nice < 0 || facts.is_none() && thread.name.ends_with('H'));
        let (name, nice) =
            if high { (format!("{name}-high"), nice.min(-20)) } else { (name.to_owned(), nice) };
        GroupKey { kind: ThreadKind::Kernel, name, per_cpu, nice, real_time }
    }
}

/// Whether the name has a CPU's number after its slash: "ksoftirqd/3", "kworker/3:1H".
fn names_a_cpu(name: &str) -> bool {
    let number = name.rsplit_once('/').map(|(_, rest)| rest.split(':').next().unwrap_or(rest));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The groups of threads that ran in `window` on a machine with `cpus` CPUs, sorted by kind (kernel first) and name.
pub fn groups(threads: &[(Thread, Option<ThreadFacts>)], cpus: usize, window: Ns) -> Vec<Group> {
    let mut by_key: BTreeMap<GroupKey, Vec<&Thread>> = BTreeMap::new();
    for (thread, facts) in threads.iter().filter(|(thread, _)| thread.cpu_time > Ns::ZERO) {
        by_key.entry(GroupKey::of(thread, facts.as_ref())).or_default().push(thread);
    }
    for key in quiet_processes(&by_key) {
        let Some(mut members) = by_key.remove(&key) else { continue };
        let key = GroupKey { name: OTHER_USER.to_owned(), nice: 0, real_time: false, ..key };
        by_key.entry(key).or_default().append(&mut members);
    }
    by_key.into_iter().map(|(key, members)| group(key, &members, cpus, window)).collect()
}

/// All user processes except those that wake up most often.
fn quiet_processes(by_key: &BTreeMap<GroupKey, Vec<&Thread>>) -> Vec<GroupKey> {
    let wakeups = |members: &[&Thread]| members.iter().map(|t| t.arrivals.len()).sum::<usize>();
    let users = by_key.iter().filter(|(key, _)| key.kind == ThreadKind::User);
    let mut users: Vec<(usize, &GroupKey)> = users.map(|(key, members)| (wakeups(members), key)).collect();
    users.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    users.into_iter().skip(MOST_PROCESSES).map(|(_, key)| key.clone()).collect()
}

fn group(key: GroupKey, members: &[&Thread], cpus: usize, window: Ns) -> Group {
    let arrivals: Vec<Arrival> = members.iter().flat_map(|t| t.arrivals.iter().copied()).collect();
    let gaps = gaps(&arrivals, key.per_cpu);
    let places = if key.per_cpu { cpus.max(1) } else { 1 } as f64;
    let cpu_time: u64 = members.iter().map(|t| t.cpu_time.0).sum();
    let seconds = window.as_secs_f64().max(f64::MIN_POSITIVE);
    Group {
        name: key.name,
        kind: key.kind,
        per_cpu: key.per_cpu,
        nice: key.nice,
        real_time: key.real_time,
        threads: members.iter().map(|t| &t.name).collect::<BTreeSet<_>>().len(),
        wakeups: arrivals.len() as u64,
        per_second: arrivals.len() as f64 / seconds / places,
        run: Spread::of(arrivals.iter().map(|a| a.ran)),
        shape: shape(&gaps),
        gap: Spread::of(gaps.into_iter()),
        cpu_pct: cpu_time as f64 / window.0.max(1) as f64 * 100.0,
    }
}

/// Gaps between arrivals; for a group per CPU, between those on the same CPU.
fn gaps(arrivals: &[Arrival], per_cpu: bool) -> Vec<Ns> {
    let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for a in arrivals {
        times.entry(if per_cpu { a.cpu.0 } else { 0 }).or_default().push(a.at.0);
    }
    let mut all = Vec::new();
    for mut of_one in times.into_values() {
        of_one.sort_unstable();
        all.extend(of_one.windows(2).map(|pair| Ns(pair[1] - pair[0])));
    }
    all
}

fn shape(gaps: &[Ns]) -> Shape {
    let n = gaps.len() as f64;
    if gaps.len() < LEAST_GAPS {
        return Shape::Few;
    }
    let mean = gaps.iter().map(|g| g.0 as f64).sum::<f64>() / n;
    let variance = gaps.iter().map(|g| (g.0 as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    match variance.sqrt() / mean.max(f64::MIN_POSITIVE) {
        ratio if ratio < PERIODIC => Shape::Periodic,
        ratio if ratio > BURSTY => Shape::Bursty,
        _ => Shape::Random,
    }
}
