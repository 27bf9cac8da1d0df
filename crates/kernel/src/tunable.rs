//! Tunables: numbers of a kernel that can be set. Each row has the name, the range, the releases with it, the owner of
//! the name, the trees in which this was read, and its meaning. Help, validation, JSON and docs/features.md are made
//! from the table.

use crate::history::{came, span, went};
use crate::origin::{Source, Span};
use crate::preempt::{self, Preempt};
use schedlab_base::{Error, Result, Version};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct TunableRow {
    /// The unit is last.
    pub name: &'static str,
    pub about: &'static str,
    pub range: (u64, u64),
    /// Releases that have it; `None`: no release.
    pub kernels: Option<Span>,
    /// The owner of the name, and a live kernel's file or call.
    pub source: Source,
    /// Trees in which this was read.
    pub read: &'static str,
}

impl TunableRow {
    /// The names of its values, from 0 on; empty if values are numbers only.
    pub fn words(&self) -> &'static [&'static str] {
        match self.name {
            "preempt" => preempt::WORDS,
            CGROUP_MODE => CGROUP_MODES,
            _ => &[],
        }
    }
    /// The written form of a value.
    pub fn text(&self, value: u64) -> String {
        self.words().get(value as usize).map_or_else(|| value.to_string(), |word| (*word).to_owned())
    }
    pub fn takes(&self) -> String {
        match self.words() {
            [] => format!("{} to {}", self.range.0, self.range.1),
            words => words.join(", "),
        }
    }
}

pub const CGROUP_MODE: &str = "cgroup_mode";
/// Names of the modes, in the kernel's order.
const CGROUP_MODES: &[&str] = &["up", "smp", "concur", "max", "tasks"];
/// The mode that our rules implement: `concur`, the default.
pub const MODELLED_CGROUP_MODE: u64 = 2;

pub fn names() -> Vec<&'static str> {
    TUNABLES.iter().map(|row| row.name).chain([preempt::OLD_TUNABLE]).collect()
}

/// Reads a tunable's value from a user: a whole number, or a name if its values have names. Old names of the tunable
/// work, too ([`preempt::rename`]).
///
/// # Errors
/// For an unknown tunable, a value that is neither, or one out of range.
pub fn read(name: &str, text: &str) -> Result<u64> {
    let number = || text.replace('_', "").parse::<u64>().ok();
    if name == preempt::OLD_TUNABLE {
        let range =
            || Error::input(format!("{name} is 0 or 1, not '{text}'")).help("preempt names the model");
        return number().filter(|n| *n <= 1).ok_or_else(range);
    }
    let known = || TUNABLES.iter().map(|r| r.name);
    let row =
        TUNABLES.iter().find(|r| r.name == name).ok_or_else(|| Error::unknown("tunable", name, known()))?;
    let word = row.words().iter().position(|word| *word == text).map(|at| at as u64);
    let value = word.or_else(number).ok_or_else(|| match row.words() {
        [] => Error::input(format!("{name} is a whole number, not '{text}'")),
        words => Error::unknown(name, text, words.iter().copied()),
    })?;
    Tunables::defaults(Version::v2_6(23)).set(name, value)?;
    Ok(value)
}

/// Tunables of which the kernel's file has the product with the factor of the CPUs ([`Tunables::factor`]).
pub const SCALED: &[&str] =
    &["base_slice_ns", "sched_latency_ns", "min_granularity_ns", "wakeup_granularity_ns"];

/// Whether a tunable's values have the kernel's names.
pub fn takes_words(name: &str) -> bool {
    TUNABLES.iter().any(|row| row.name == name && !row.words().is_empty())
}

/// The written form of a tunable's value.
pub fn text(name: &str, value: u64) -> String {
    TUNABLES.iter().find(|r| r.name == name).map_or_else(|| value.to_string(), |row| row.text(value))
}

macro_rules! tunables {
    ($(
        $name:ident, $lo:literal ..= $hi:literal, $kernels:expr, $source:expr, $read:literal, $about:literal;
    )*) => {
        /// The tunables of a kernel, before scaling by the number of CPUs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Tunables { $(#[doc = $about] pub $name: u64,)* }

        pub const TUNABLES: &[TunableRow] = &[$(TunableRow { name: stringify!($name), about: $about, range: ($lo, $hi),
            kernels: $kernels, source: $source, read: $read },)*];

        impl Tunables {
            /// Builds the tunables from values by name. The error is a missing name.
            fn of(value: impl Fn(&str) -> Option<u64>) -> std::result::Result<Tunables, &'static str> {
                Ok(Tunables {
                    $($name: value(stringify!($name)).ok_or(stringify!($name))?,)*
                })
            }
            /// Sets the tunable with that name.
            ///
            /// # Errors
            /// When there is none, or the value is out of range.
            pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
                let row = TUNABLES.iter().find(|r| r.name == name)
                    .ok_or_else(|| Error::unknown("tunable", name, TUNABLES.iter().map(|r| r.name)))?;
                if !(row.range.0..=row.range.1).contains(&value) {
                    return Err(Error::input(format!("{name} = {value} is out of range"))
                        .help(format!("it takes {}", row.takes())));
                }
                match name { $(stringify!($name) => self.$name = value,)* _ => {} }
                Ok(())
            }
            pub fn get(&self, name: &str) -> Option<u64> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }
        }
    };
}

const ALL: Option<Span> = Some(Span::ALL);
const CFS: Option<Span> = Some(Span::between(went("o1"), came("eevdf")));
const FAIR: Option<Span> = Some(Span::since(went("o1")));
const O1: Option<Span> = Some(span("o1"));

#[rustfmt::skip]
tunables! {
    hz, 24 ..= 10000, ALL, Source::Kernel("CONFIG_HZ"),
        "every tree",
        "ticks a second (CONFIG_HZ)";
    preempt, 0 ..= 3, ALL, Source::Kernel("preempt= on the command line, sched/preempt in debugfs (5.12 and later); CONFIG_PREEMPT_NONE, CONFIG_PREEMPT_VOLUNTARY, CONFIG_PREEMPT, CONFIG_PREEMPT_LAZY"),
        "6.1, 7.3.4; releases as the chronology says",
        "where a task in the kernel gives way: none: at its return to user mode; voluntary: also where it might sleep; full: anywhere without a lock; lazy: as full, but one fair task to another at the return to user mode or after a tick";
    sched_latency_ns, 100000 ..= 1000000000, CFS, Source::Kernel("/proc/sys/kernel/sched_latency_ns; from 5.13 on sched/latency_ns in debugfs"),
        "2.6.30, 6.1; moved: from memory",
        "period in which every task of a short queue runs once";
    min_granularity_ns, 10000 ..= 1000000000, CFS, Source::Kernel("/proc/sys/kernel/sched_min_granularity_ns; from 5.13 on sched/min_granularity_ns in debugfs"),
        "2.6.30, 6.1; moved: from memory",
        "shortest slice a tick enforces";
    wakeup_granularity_ns, 0 ..= 1000000000, CFS, Source::Kernel("/proc/sys/kernel/sched_wakeup_granularity_ns; from 5.13 on sched/wakeup_granularity_ns in debugfs"),
        "2.6.30, 6.1; moved: from memory",
        "how far a waking task must be behind to preempt";
    base_slice_ns, 100000 ..= 100000000, Some(span("eevdf")), Source::Kernel("sched/base_slice_ns in debugfs"),
        "6.12.107, 7.3; since from memory",
        "slice of a task that asks for none (6.6 and later)";
    scale_by_cpus, 0 ..= 2, FAIR, Source::Ours("tunable_scaling, whose 1 is this 1; 2 is the rule of kernels before 2.6.32"),
        "2.6.30, 6.1",
        "1: the four above are multiplied by 1 + log2(CPUs), at most 8 CPUs counted; 2: all CPUs counted (before 2.6.32), latency and min_granularity at most 200 ms; 0: not";
    compat_yield, 0 ..= 1, Some(Span::between(went("o1"), Version::v2_6(39))), Source::Kernel("/proc/sys/kernel/sched_compat_yield"),
        "from memory",
        "1: sched_yield goes behind every other task (before 2.6.39)";
    migration_cost_ns, 0 ..= 1000000000, FAIR, Source::Kernel("/proc/sys/kernel/sched_migration_cost_ns, before 3.9 without _ns; from 5.13 on sched/migration_cost_ns in debugfs"),
        "2.6.30, 6.1, 7.3; moved: from memory",
        "a task that ran less long ago is cache hot; newidle gate";
    nr_migrate, 1 ..= 1024, FAIR, Source::Kernel("/proc/sys/kernel/sched_nr_migrate; from 5.13 on sched/nr_migrate in debugfs"),
        "6.1; moved: from memory",
        "tasks moved in one go by the balancer";
    cfs_bandwidth_slice_ns, 1000 ..= 1000000000, Some(span("bandwidth")), Source::Kernel("/proc/sys/kernel/sched_cfs_bandwidth_slice_us, in us"),
        "6.1, 6.12, 7.3",
        "part of a group's quota that a CPU takes at a time (3.2 and later)";
    autogroup, 0 ..= 1, Some(span("autogroup")), Source::Kernel("/proc/sys/kernel/sched_autogroup_enabled"),
        "6.1, 7.3; since from memory",
        "1: the tasks of each session that are in no group are a group of their own; here a benchmark is a session (2.6.38 and later)";
    cgroup_mode, 0 ..= 4, Some(Span::since(Version::new(7, 3))), Source::Kernel("sched/cgroup_mode in debugfs"),
        "7.2.12 has it not, 7.3.4 has it",
        "what a group's entity weighs on a CPU: the group's shares (up); the CPU's part of them, by load (smp); that part times the tasks that can run at once (concur), the CPUs, but no more than nice -20 (max), or the tasks (tasks); our rules have concur alone (7.3 and later)";
    rt_period_ns, 1000000 ..= 60000000000, Some(Span::since(came("rt-throttles"))), Source::Kernel("/proc/sys/kernel/sched_rt_period_us, in us"),
        "6.1, 6.12",
        "period over which real-time tasks are throttled";
    rt_runtime_ns, 0 ..= 60000000000, Some(Span::between(came("rt-throttles"), came("fair-server"))), Source::Kernel("/proc/sys/kernel/sched_rt_runtime_us, in us; -1 there is the period here"),
        "6.1, 6.12",
        "how long a CPU's real-time tasks may run in a period; as long as that, or 0: they are not throttled (before 6.12)";
    rr_timeslice_ns, 1000000 ..= 10000000000, ALL, Source::Kernel("/proc/sys/kernel/sched_rr_timeslice_ms (3.9 and later), in ms"),
        "6.1, 6.12; before 3.9 from memory",
        "turn of a SCHED_RR task among its equals";
    fair_server_period_ns, 1000000 ..= 60000000000, Some(span("fair-server")), Source::Kernel("sched/fair_server/cpuN/period in debugfs"),
        "6.12",
        "period of the fair server (6.12 and later)";
    fair_server_runtime_ns, 0 ..= 60000000000, Some(span("fair-server")), Source::Kernel("sched/fair_server/cpuN/runtime in debugfs"),
        "6.12",
        "what the fair server gives fair tasks in a period; 0: there is none (6.12 and later)";
    timer_slack_ns, 0 ..= 1000000000, Some(Span::since(Version::v2_6(28))), Source::Kernel("prctl(PR_SET_TIMERSLACK), /proc/PID/timerslack_ns"),
        "6.1; since from memory",
        "slack of sleeps and futex time-outs of ordinary tasks";
    cache_hot_smt_ns, 0 ..= 1000000000, O1, Source::Kernel("cache_hot_time of SD_SIBLING_INIT; migration_cost= on the command line from 2.6.16 on"),
        "2.6.12; the option from memory",
        "between threads of a core, a task that ran less long ago is cache hot (before 2.6.23)";
    cache_hot_smp_ns, 0 ..= 1000000000, O1, Source::Kernel("cache_hot_time of SD_CPU_INIT; migration_cost= on the command line from 2.6.16 on"),
        "2.6.12; the option from memory",
        "between cores of a node, a task that ran less long ago is cache hot (before 2.6.23)";
    cache_hot_node_ns, 0 ..= 1000000000, O1, Source::Kernel("cache_hot_time of SD_NODE_INIT; migration_cost= on the command line from 2.6.16 on"),
        "2.6.12; the option from memory",
        "between nodes, a task that ran less long ago is cache hot (before 2.6.23)";
    probe_batch, 0 ..= 4096, None, Source::Ours(""),
        "no kernel's",
        "CPUs a balance pass reads between re-reads of the world; 0: one group (since 5.5 at most 16 of it), 1: exact";
}

impl Serialize for Tunables {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let usual = Tunables::defaults(Version::v2_6(23));
        let tells = |name: &str| !LATE.contains(&name) || self.get(name) != usual.get(name);
        s.collect_map(TUNABLES.iter().filter(|r| tells(r.name)).map(|r| (r.name, self.get(r.name))))
    }
}

/// Tunables newer than records of model 10. Records contain them only if they differ from every version's default, so
/// other records do not change.
const LATE: [&str; 6] = [
    "cfs_bandwidth_slice_ns",
    "autogroup",
    CGROUP_MODE,
    "cache_hot_smt_ns",
    "cache_hot_smp_ns",
    "cache_hot_node_ns",
];

/// The value of a tunable that records may lack (some of model 9 and before, and all [`LATE`] ones): every version's
/// default.
fn usual_value(name: &str) -> Option<u64> {
    const CAME: [&str; 6] = [
        "preempt",
        "rt_period_ns",
        "rt_runtime_ns",
        "rr_timeslice_ns",
        "fair_server_period_ns",
        "fair_server_runtime_ns",
    ];
    (CAME.contains(&name) || LATE.contains(&name))
        .then(|| Tunables::defaults(Version::v2_6(23)).get(name))
        .flatten()
}

impl<'de> Deserialize<'de> for Tunables {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Tunables, D::Error> {
        let values = BTreeMap::<String, u64>::deserialize(d)?;
        let value = |name: &str| values.get(name).copied().or_else(|| usual_value(name));
        Tunables::of(value).map_err(D::Error::missing_field)
    }
}

impl Tunables {
    /// The defaults of a kernel. CFS from 3.4 to 6.5 has one set of granularities (sources of 3.x, 4.x and 6.1), 2.6.30
    /// another (its source; 2.6.27's is the same). base_slice was read in 6.12.107 and 7.3; the first kernels with
    /// EEVDF had 0.75 ms (unverified, also whether 6.12.0 still did); CFS has none. HZ is Kconfig's default, 250;
    /// distributions differ, so sweep it where ticks matter.
    pub fn defaults(version: Version) -> Tunables {
        let early = version < Version::v2_6(32);
        let first_eevdf = Span::between(came("eevdf"), Version::new(6, 12));
        let (latency, min, wakeup) = match version {
            v if v < Version::v2_6(32) => (20_000_000, 4_000_000, 5_000_000),
            _ => (6_000_000, 750_000, 1_000_000),
        };
        Tunables {
            // i386 and x86_64 always had 1000 before 2.6.13.
            hz: if version < Version::v2_6(13) { 1000 } else { 250 },
            preempt: Preempt::default_of(version) as u64,
            sched_latency_ns: latency,
            min_granularity_ns: min,
            wakeup_granularity_ns: wakeup,
            base_slice_ns: if first_eevdf.has(version) { 750_000 } else { 700_000 },
            scale_by_cpus: if early { 2 } else { 1 },
            compat_yield: 0,
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            cfs_bandwidth_slice_ns: 5_000_000,
            autogroup: 0,
            cgroup_mode: MODELLED_CGROUP_MODE,
            rt_period_ns: 1_000_000_000,
            rt_runtime_ns: 950_000_000,
            rr_timeslice_ns: 100_000_000,
            fair_server_period_ns: 1_000_000_000,
            fair_server_runtime_ns: 50_000_000,
            // hrtimers had no slack before 2.6.28.
            timer_slack_ns: if version < Version::v2_6(28) { 0 } else { 50_000 },
            cache_hot_smt_ns: 0,
            cache_hot_smp_ns: 2_500_000,
            cache_hot_node_ns: 10_000_000,
            probe_batch: 0,
        }
    }
    /// Checks tunables that limit each other, as the kernel does when one is written.
    ///
    /// # Errors
    /// When a runtime is longer than its period (EINVAL).
    pub fn check(&self) -> Result<()> {
        let pairs = [
            ("rt_runtime_ns", self.rt_runtime_ns, "rt_period_ns", self.rt_period_ns),
            (
                "fair_server_runtime_ns",
                self.fair_server_runtime_ns,
                "fair_server_period_ns",
                self.fair_server_period_ns,
            ),
        ];
        match pairs.iter().find(|(_, runtime_ns, _, period_ns)| runtime_ns > period_ns) {
            None => Ok(()),
            Some((runtime, runtime_ns, period, period_ns)) => {
                let text =
                    format!("{runtime} = {runtime_ns} is above {period} = {period_ns}, which kernels refuse");
                let help = format!("set {runtime} to {period_ns} at most, or raise {period}, too");
                Err(Error::input(text).help(help))
            }
        }
    }
    /// The factor of granularities on a machine of `nr_cpus` (logarithmic; since 2.6.32 capped at 8 CPUs).
    pub fn factor(&self, nr_cpus: usize) -> u64 {
        let counted = match self.scale_by_cpus {
            0 => return 1,
            1 => nr_cpus.clamp(1, 8),
            _ => nr_cpus.max(1),
        };
        1 + u64::from(counted.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_every_tunable_and_those_of_model_9_get_the_defaults_of_later_ones() {
        let mut t = Tunables::defaults(Version::new(6, 5));
        let mut values = serde_json::to_value(t).unwrap();
        assert_eq!(values.as_object().unwrap().len(), TUNABLES.len() - LATE.len());
        let read = |v: &serde_json::Value| serde_json::from_value::<Tunables>(v.clone());
        assert_eq!(read(&values).unwrap(), t);
        let object = values.as_object_mut().unwrap();
        for name in ["rt_period_ns", "rr_timeslice_ns", "fair_server_period_ns", "fair_server_runtime_ns"] {
            object.remove(name).unwrap();
        }
        object["rt_runtime_ns"] = 900_000_000.into();
        t.rt_runtime_ns = 900_000_000;
        assert_eq!(read(&values).unwrap(), t);
        t.autogroup = 1;
        assert_eq!(read(&serde_json::to_value(t).unwrap()).unwrap(), t);
        t.cache_hot_smp_ns = 1_700_000;
        values = serde_json::to_value(t).unwrap();
        assert_eq!(values["cache_hot_smp_ns"], 1_700_000);
        assert_eq!(read(&values).unwrap(), t, "a value of its own is kept");
        values.as_object_mut().unwrap().remove("hz");
        assert!(read(&values).unwrap_err().to_string().contains("`hz`"), "older ones are needed");
    }

    #[test]
    fn granularities_scale_with_the_log_of_cpus_up_to_eight() {
        let t = Tunables::defaults(Version::new(4, 5));
        let latency: Vec<u64> =
            [1, 2, 4, 8, 224].iter().map(|n| t.sched_latency_ns * t.factor(*n) / 1_000_000).collect();
        assert_eq!(latency, [6, 12, 18, 24, 24]);
    }

    #[test]
    fn early_kernels_count_every_cpu() {
        let t = Tunables::defaults(Version::v2_6(30));
        let all =
            |n| [t.sched_latency_ns, t.min_granularity_ns, t.wakeup_granularity_ns].map(|g| g * t.factor(n));
        assert_eq!(all(2), [40_000_000, 8_000_000, 10_000_000]);
        assert_eq!(all(16), [100_000_000, 20_000_000, 25_000_000]);
        let before = Tunables::defaults(Version::v2_6(27));
        assert_eq!(
            (before.wakeup_granularity_ns, before.timer_slack_ns, t.timer_slack_ns),
            (5_000_000, 0, 50_000)
        );
    }

    #[test]
    fn a_runtime_above_its_period_is_refused() {
        let mut t = Tunables::defaults(Version::new(6, 1));
        t.rt_runtime_ns = t.rt_period_ns;
        assert!(t.check().is_ok(), "it says that nothing is throttled");
        t.rt_period_ns -= 1;
        let text = t.check().unwrap_err().to_string();
        assert!(text.contains("rt_runtime_ns = 1000000000 is above rt_period_ns = 999999999"), "{text}");
        let mut t = Tunables::defaults(Version::new(6, 12));
        t.fair_server_period_ns = 40_000_000;
        assert!(t.check().unwrap_err().to_string().contains("fair_server_period_ns = 40000000"));
    }

    #[test]
    fn refuses_unknown_names_and_absurd_values() {
        let mut t = Tunables::defaults(Version::new(4, 5));
        assert!(t.set("hzz", 1000).unwrap_err().to_string().contains("'hz'"));
        assert!(t.set("hz", 0).is_err() && t.set("hz", 1000).is_ok() && t.hz == 1000);
    }
}
