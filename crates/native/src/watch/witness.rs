//! The interference witness: other activity on this machine during a run.
//!
//! It takes two snapshots of world-readable files, before and after the run. Their differences become the environment,
//! and warnings if they exceed a limit in [`LIMITS`]. The kernel accounts /proc/stat in ticks of 1/USER_HZ (10 ms), so
//! small amounts are ignored. Keys of absent files (no PSI, no cpufreq) are left out.

use crate::sys;
use crate::sys::limits;
use schedlab_base::{Ns, Warning};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The error of tick accounting; smaller amounts are ignored.
const TICK_NOISE: Ns = Ns::ms(30);

/// A limit on one kind of interference.
struct Limit {
    code: &'static str,
    /// The largest acceptable share, in thousandths.
    permille: u64,
    /// The amount, and the whole of which it is a share.
    share: fn(&Delta) -> Option<(Ns, Ns)>,
    /// The amount in words.
    what: &'static str,
    /// The whole in words.
    of: &'static str,
}

const LIMITS: &[Limit] = &[
    Limit {
        code: "host.steal",
        permille: 10,
        share: |d| Some((d.steal?, d.capacity?)),
        what: "the hypervisor took",
        of: "the CPU time of this machine",
    },
    Limit {
        code: "host.busy",
        permille: 50,
        share: |d| Some((d.foreign?, d.capacity?)),
        what: "other processes and interrupts used",
        of: "the CPU time of this machine",
    },
    Limit {
        code: "host.throttled",
        permille: 1,
        share: |d| Some((d.throttled?, d.capacity?)),
        what: "the CPU limit of this cgroup withheld",
        of: "the CPU time of this machine",
    },
    Limit {
        code: "host.memory_pressure",
        permille: 10,
        share: |d| Some((*d.pressure.get("memory")?, d.wall)),
        what: "tasks waited for memory during",
        of: "the run",
    },
    Limit {
        code: "host.io_pressure",
        permille: 100,
        share: |d| Some((*d.pressure.get("io")?, d.wall)),
        what: "tasks waited for disks during",
        of: "the run",
    },
];

/// The machine's state before a run.
pub struct Witness {
    root: PathBuf,
    before: Snapshot,
}

impl Witness {
    /// Takes the first snapshot.
    pub fn before() -> Witness {
        let root = PathBuf::from("/");
        Witness { before: Snapshot::take(&root), root }
    }
    /// Takes the second snapshot; returns the differences as environment and warnings.
    pub fn after(&self) -> (BTreeMap<String, String>, Vec<Warning>) {
        let delta = Snapshot::take(&self.root).since(&self.before);
        let mut environment = delta.environment();
        let (policy, nice) = sys::attr();
        environment.insert("run.agent_policy".to_owned(), policy.to_string());
        environment.insert("run.agent_nice".to_owned(), nice.to_string());
        if let Some(range) = frequencies(&self.root) {
            environment.insert("run.frequency_khz".to_owned(), range);
        }
        (environment, delta.warnings())
    }
}

/// The files' content at one time; all counters since boot.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    at_ns: u64,
    own_cpu_ns: u64,
    stat: Option<Stat>,
    /// Time for which some task waited, by resource (PSI, Linux 4.20), us.
    pressure_us: BTreeMap<&'static str, u64>,
    throttled_us: Option<u64>,
    thermal_events: Option<u64>,
}

/// Times of /proc/stat are in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stat {
    cpus: u64,
    busy_ns: u64,
    steal_ns: u64,
    switches: u64,
    forks: u64,
}

const RESOURCES: &[&str] = &["cpu", "memory", "io"];

impl Snapshot {
    fn take(root: &Path) -> Snapshot {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let pressure = |resource: &&'static str| {
            Some((*resource, some_total(&read(&format!("proc/pressure/{resource}")))?))
        };
        let group = read("proc/self/cgroup");
        let group = limits::cgroup2(&group).map(|path| read(&format!("sys/fs/cgroup{path}/cpu.stat")));
        Snapshot {
            at_ns: sys::monotonic_ns(),
            own_cpu_ns: sys::process_cpu_ns(),
            stat: Stat::parse(&read("proc/stat"), sys::stat_tick_ns()),
            pressure_us: RESOURCES.iter().filter_map(pressure).collect(),
            throttled_us: group.and_then(|text| keyed(&text, "throttled_usec")),
            thermal_events: per_cpu(root, "thermal_throttle/core_throttle_count").map(|n| n.iter().sum()),
        }
    }

    fn since(&self, before: &Snapshot) -> Delta {
        let wall = Ns(self.at_ns - before.at_ns);
        let own = Ns(self.own_cpu_ns.saturating_sub(before.own_cpu_ns));
        let minus = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
        let stat = self.stat.zip(before.stat);
        let stat_delta = |field: fn(Stat) -> u64| stat.map(|(a, b)| field(a).saturating_sub(field(b)));
        let pressure = self.pressure_us.iter().filter_map(|(resource, us)| {
            Some((*resource, Ns::us(minus(Some(*us), before.pressure_us.get(resource).copied())?)))
        });
        Delta {
            wall,
            capacity: self.stat.map(|s| Ns(wall.0.saturating_mul(s.cpus))),
            steal: stat_delta(|s| s.steal_ns).map(Ns),
            foreign: stat_delta(|s| s.busy_ns).map(|busy| Ns(busy).since(own)),
            switches: stat_delta(|s| s.switches),
            forks: stat_delta(|s| s.forks),
            pressure: pressure.collect(),
            throttled: minus(self.throttled_us, before.throttled_us).map(Ns::us),
            thermal_events: minus(self.thermal_events, before.thermal_events),
        }
    }
}

impl Stat {
    /// In the file, user time includes guest time. Idle and I/O wait are not CPU use.
    fn parse(text: &str, tick_ns: u64) -> Option<Stat> {
        let total = text.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = total.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *ticks.get(..8)?.first_chunk()?;
        let is_cpu = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
        Some(Stat {
            cpus: text.lines().filter(is_cpu).count() as u64,
            busy_ns: (user + nice + system + irq + softirq) * tick_ns,
            steal_ns: steal * tick_ns,
            switches: keyed(text, "ctxt")?,
            forks: keyed(text, "processes")?,
        })
    }
}

#[derive(Clone, Debug, Default)]
struct Delta {
    wall: Ns,
    /// CPU time of all CPUs together.
    capacity: Option<Ns>,
    steal: Option<Ns>,
    /// CPU time used by others than the agent.
    foreign: Option<Ns>,
    /// Context switches and new tasks of the whole machine.
    switches: Option<u64>,
    forks: Option<u64>,
    pressure: BTreeMap<&'static str, Ns>,
    throttled: Option<Ns>,
    thermal_events: Option<u64>,
}

impl Delta {
    fn environment(&self) -> BTreeMap<String, String> {
        let times = [
            ("run.wall_ns", Some(self.wall)),
            ("run.steal_ns", self.steal),
            ("run.foreign_cpu_ns", self.foreign),
            ("run.throttled_ns", self.throttled),
        ];
        let counts = [
            ("run.system_switches", self.switches),
            ("run.system_forks", self.forks),
            ("run.thermal_events", self.thermal_events),
        ];
        let times = times.into_iter().map(|(key, t)| (key, t.map(|t| t.0)));
        let known = times.chain(counts).filter_map(|(key, n)| Some((key.to_owned(), n?.to_string())));
        let pressure = self.pressure.iter();
        let pressure = pressure.map(|(resource, t)| (format!("run.pressure_{resource}_ns"), t.0.to_string()));
        known.chain(pressure).collect()
    }

    fn warnings(&self) -> Vec<Warning> {
        let over = |limit: &Limit| {
            let (amount, of) = (limit.share)(self)?;
            let permille = amount.0.saturating_mul(1000) / of.0.max(1);
            (amount > TICK_NOISE && permille > limit.permille).then(|| {
                let tenths = |permille: u64| format!("{}.{} %", permille / 10, permille % 10);
                let (seen, fine) = (tenths(permille), tenths(limit.permille));
                let text = format!("{} {seen} of {} (fine: up to {fine})", limit.what, limit.of);
                Warning::new(limit.code, text)
            })
        };
        let hot = self.thermal_events.filter(|n| *n > 0).map(|n| {
            Warning::new(
                "host.thermal",
                format!(
                    "CPUs were slowed down for heat {} during the run",
                    schedlab_base::counted(n, "time")
                ),
            )
        });
        LIMITS.iter().filter_map(over).chain(hot).collect()
    }
}

/// The number after a key at the start of a line.
fn keyed(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// Total of the "some" line of a PSI file, us.
fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.starts_with("some "))?;
    line.split_whitespace().find_map(|w| w.strip_prefix("total="))?.parse().ok()
}

/// A number in every CPU's sysfs folder; `None` if it is missing.
fn per_cpu(root: &Path, file: &str) -> Option<Vec<u64>> {
    let folders = fs::read_dir(root.join("sys/devices/system/cpu")).ok()?;
    let is_cpu = |name: &str| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
    let cpus = folders.flatten().filter(|f| f.file_name().to_str().is_some_and(is_cpu));
    let number = |f: fs::DirEntry| fs::read_to_string(f.path().join(file)).ok()?.trim().parse().ok();
    Some(cpus.filter_map(number).collect::<Vec<u64>>()).filter(|n| !n.is_empty())
}

/// Lowest and highest current frequency, "1200000-3400000", kHz.
fn frequencies(root: &Path) -> Option<String> {
    let khz = per_cpu(root, "cpufreq/scaling_cur_freq")?;
    Some(format!("{}-{}", khz.iter().min()?, khz.iter().max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 10 50 9000 7 3 2 40 90 0\ncpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\n\
                        intr 5 0\nctxt 1234\nprocesses 77\nprocs_running 2\n";

    #[test]
    fn stat_separates_busy_from_idle_and_counts_guest_time_once() {
        let s = Stat::parse(STAT, 10_000_000).unwrap();
        let want = Stat { cpus: 2, busy_ns: 1_650_000_000, steal_ns: 400_000_000, switches: 1234, forks: 77 };
        assert_eq!(s, want);
        assert_eq!(Stat::parse("cpu  1 2\n", 10), None);
    }

    #[test]
    fn only_amounts_beyond_their_limit_cause_warnings() {
        let one = Ns::secs(1);
        let quiet = Delta {
            wall: one,
            capacity: Some(Ns::secs(2)),
            steal: Some(Ns::ms(20)),
            foreign: Some(Ns::ms(100)),
            ..Delta::default()
        };
        assert_eq!(quiet.warnings(), []);
        let noisy = Delta {
            steal: Some(Ns::ms(80)),
            foreign: Some(Ns::ms(500)),
            pressure: BTreeMap::from([("memory", Ns::ms(50)), ("cpu", one)]),
            thermal_events: Some(3),
            ..quiet.clone()
        };
        let codes: Vec<String> = noisy.warnings().into_iter().map(|w| w.code).collect();
        assert_eq!(codes, ["host.steal", "host.busy", "host.memory_pressure", "host.thermal"]);
        assert!(noisy.warnings()[0].message.contains("4.0 %"), "{:?}", noisy.warnings());
        // 4 % of a run of 0.1 s is below the resolution of ticks.
        let short =
            Delta { wall: Ns::ms(100), capacity: Some(Ns::ms(200)), foreign: Some(Ns::ms(20)), ..quiet };
        assert_eq!(short.warnings(), []);
    }

    #[test]
    fn absent_files_leave_their_keys_out() {
        let nowhere = Path::new("/nonexistent");
        let before = Snapshot::take(nowhere);
        let delta = Snapshot::take(nowhere).since(&before);
        assert_eq!(delta.environment().into_keys().collect::<Vec<_>>(), ["run.wall_ns"]);
        assert_eq!(delta.warnings(), []);
    }

    #[test]
    fn own_work_is_not_foreign() {
        let mut before = Snapshot { stat: Some(Stat { cpus: 2, ..Stat::default() }), ..Snapshot::default() };
        let mut after = Snapshot { at_ns: 1_000_000_000, own_cpu_ns: 900_000_000, ..before.clone() };
        after.stat = Some(Stat { cpus: 2, busy_ns: 950_000_000, ..Stat::default() });
        assert_eq!(after.since(&before).foreign, Some(Ns::ms(50)));
        before.stat = None;
        assert_eq!(after.since(&before).foreign, None);
    }

    #[test]
    fn pressure_is_read_from_the_line_of_some() {
        let text = "some avg10=0.52 avg60=0.66 avg300=0.27 total=6710616\nfull avg10=0.00 total=9\n";
        assert_eq!((some_total(text), some_total("full total=9\n")), (Some(6_710_616), None));
        assert_eq!(keyed("nr_throttled 3\nthrottled_usec 99\n", "throttled_usec"), Some(99));
    }
}
