//! The table of settings: name, meaning, values, and place by kernel era.
//!
//! Sources: D004 for `sched/features` (in debugfs; next to `sched/` before 5.13), Documentation/admin-guide of 6.12 for
//! sysctls and sysfs, kernel 5.13 for the move of the scheduler's tunables from /proc/sys/kernel to debugfs, D001 for
//! settings that were fixed on its measured machine (governor, deep idle states). `smt` is last, because it removes
//! files of other settings.

use super::form::Form;
use schedlab_base::{Error, Ns, Result};
use std::path::Path;

/// The accepted values of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// A whole number in this range; for names ending in `_ns`, also a time such as `3ms`.
    Number(i64, i64),
    /// 0 or 1, off or on.
    Switch,
    Words(&'static [&'static str]),
    /// A word from the machine's own list.
    Word,
    /// Names of features separated by commas; the prefix `NO_` disables a feature.
    Features,
    /// The name of the deepest allowed idle state, or `all`.
    IdleState,
}

impl Values {
    pub fn describe(self) -> String {
        match self {
            Values::Number(low, high) => format!("{low} to {high}"),
            Values::Switch => "0 or 1".to_owned(),
            Values::Words(words) => words.join(", "),
            Values::Word => "a name the machine lists".to_owned(),
            Values::Features => "names with commas, NO_NAME for off".to_owned(),
            Values::IdleState => "the deepest state allowed, or all".to_owned(),
        }
    }
}

/// A possible place of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The path; `*` is a number.
    pub pattern: &'static str,
    /// How it reads back.
    pub form: Form,
    /// Whether 1 means off.
    pub inverted: bool,
    /// The kernels with this place.
    pub era: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The name on the command line and in experiments.
    pub name: &'static str,
    /// Description, one line.
    pub about: &'static str,
    pub values: Values,
    /// Possible places; the first that this machine has is used.
    pub places: &'static [Place],
}

const fn plain(pattern: &'static str, era: &'static str) -> Place {
    Place { pattern, form: Form::Plain, inverted: false, era }
}
const fn with(form: Form, pattern: &'static str, era: &'static str) -> Place {
    Place { pattern, form, inverted: false, era }
}

const NS: Values = Values::Number(0, 1_000_000_000);

macro_rules! debugfs {
    ($name:literal) => {
        concat!("/sys/kernel/debug/sched/", $name)
    };
}
macro_rules! sysctl {
    ($name:literal) => {
        concat!("/proc/sys/kernel/", $name)
    };
}
macro_rules! cpu {
    ($name:literal) => {
        concat!("/sys/devices/system/cpu/", $name)
    };
}

/// Every setting. The settings of one change are applied in this order and restored in reverse order.
#[rustfmt::skip]
pub const SETTINGS: &[Row] = &[
    Row { name: "features", about: "the scheduler's feature switches", values: Values::Features, places: &[
        with(Form::Feature, debugfs!("features"), "5.13 and later"),
        with(Form::Feature, "/sys/kernel/debug/sched_features", "2.6.28 to 5.12"),
    ] },
    Row { name: "base_slice_ns", about: "slice of a task that asks for none; the file holds it times the CPU factor",
        values: Values::Number(100_000, 1_000_000_000), places: &[plain(debugfs!("base_slice_ns"), "6.6 and later")] },
    Row { name: "sched_latency_ns", about: "CFS: period of a short queue; the file holds it times the CPU factor", values: NS, places: &[
        plain(debugfs!("latency_ns"), "5.13 to 6.5"), plain(sysctl!("sched_latency_ns"), "2.6.23 to 5.12"),
    ] },
    Row { name: "min_granularity_ns", about: "CFS: shortest slice; the file holds it times the CPU factor", values: NS, places: &[
        plain(debugfs!("min_granularity_ns"), "5.13 to 6.5"), plain(sysctl!("sched_min_granularity_ns"), "2.6.23 to 5.12"),
    ] },
    Row { name: "wakeup_granularity_ns", about: "CFS: lead that a waking task needs to preempt; the file holds it times the CPU factor", values: NS, places: &[
        plain(debugfs!("wakeup_granularity_ns"), "5.13 to 6.5"), plain(sysctl!("sched_wakeup_granularity_ns"), "2.6.23 to 5.12"),
    ] },
    Row { name: "migration_cost_ns", about: "a task that ran more recently than this is cache hot", values: NS, places: &[
        plain(debugfs!("migration_cost_ns"), "5.13 and later"), plain(sysctl!("sched_migration_cost_ns"), "3.9 to 5.12"),
        plain(sysctl!("sched_migration_cost"), "2.6.23 to 3.8"),
    ] },
    Row { name: "nr_migrate", about: "tasks the balancer moves in one go", values: Values::Number(1, 1024), places: &[
        plain(debugfs!("nr_migrate"), "5.13 and later"), plain(sysctl!("sched_nr_migrate"), "2.6.25 to 5.12"),
    ] },
    Row { name: "tunable_scaling", about: "how slices grow with CPUs: 0 not, 1 with the logarithm, 2 in proportion",
        values: Values::Number(0, 2), places: &[
        plain(debugfs!("tunable_scaling"), "5.13 and later"), plain(sysctl!("sched_tunable_scaling"), "2.6.33 to 5.12"),
    ] },
    Row { name: "compat_yield", about: "1: sched_yield goes behind every other task", values: Values::Switch,
        places: &[plain(sysctl!("sched_compat_yield"), "2.6.23 to 2.6.38")] },
    Row { name: "child_runs_first", about: "1: a new child runs before its parent", values: Values::Switch,
        places: &[plain(sysctl!("sched_child_runs_first"), "2.6.23 to 6.5")] },
    Row { name: "preempt", about: "where kernel code may be preempted", values: Values::Words(&["none", "voluntary", "full", "lazy"]),
        places: &[with(Form::Bracketed, debugfs!("preempt"), "5.12 and later with CONFIG_PREEMPT_DYNAMIC")] },
    Row { name: "cgroup_mode", about: "how a group's shares are spread over CPUs", values: Values::Words(&["up", "smp", "concur", "max", "tasks"]),
        places: &[with(Form::Bracketed, debugfs!("cgroup_mode"), "7.3 and later")] },
    Row { name: "autogroup", about: "a task group for each session", values: Values::Switch,
        places: &[plain(sysctl!("sched_autogroup_enabled"), "2.6.38 and later with CONFIG_SCHED_AUTOGROUP")] },
    Row { name: "numa_balancing", about: "memory and tasks follow each other: 0 off, 1 balance, 2 tiering, 3 both",
        values: Values::Number(0, 3), places: &[plain(sysctl!("numa_balancing"), "3.13 and later with CONFIG_NUMA_BALANCING")] },
    Row { name: "schedstats", about: "the scheduler counts (/proc/schedstat)", values: Values::Switch,
        places: &[plain(sysctl!("sched_schedstats"), "4.6 and later with CONFIG_SCHEDSTATS")] },
    Row { name: "rt_runtime_us", about: "real-time tasks' share of each period, -1 for all of it", values: Values::Number(-1, 1_000_000_000),
        places: &[plain(sysctl!("sched_rt_runtime_us"), "2.6.25 and later")] },
    Row { name: "rt_period_us", about: "the period of that share", values: Values::Number(1, 1_000_000_000),
        places: &[plain(sysctl!("sched_rt_period_us"), "2.6.25 and later")] },
    Row { name: "rr_timeslice_ms", about: "slice of SCHED_RR tasks", values: Values::Number(0, 1_000_000),
        places: &[plain(sysctl!("sched_rr_timeslice_ms"), "3.9 and later")] },
    Row { name: "cfs_bandwidth_slice_us", about: "how much quota a CPU takes of its group at a time", values: Values::Number(1, 1_000_000),
        places: &[plain(sysctl!("sched_cfs_bandwidth_slice_us"), "3.2 and later with CONFIG_CFS_BANDWIDTH")] },
    Row { name: "nmi_watchdog", about: "the lockup watchdog, which holds a hardware counter", values: Values::Switch,
        places: &[plain(sysctl!("nmi_watchdog"), "2.6.38 and later with a hardware lockup detector")] },
    Row { name: "governor", about: "how clock frequency is chosen", values: Values::Word, places: &[
        plain(cpu!("cpufreq/policy*/scaling_governor"), "4.3 and later"),
        plain(cpu!("cpu*/cpufreq/scaling_governor"), "2.6.9 and later"),
    ] },
    Row { name: "min_freq_khz", about: "lowest clock frequency", values: Values::Number(0, 100_000_000), places: &[
        plain(cpu!("cpufreq/policy*/scaling_min_freq"), "4.3 and later"), plain(cpu!("cpu*/cpufreq/scaling_min_freq"), "2.6.9 and later"),
    ] },
    Row { name: "max_freq_khz", about: "highest clock frequency", values: Values::Number(0, 100_000_000), places: &[
        plain(cpu!("cpufreq/policy*/scaling_max_freq"), "4.3 and later"), plain(cpu!("cpu*/cpufreq/scaling_max_freq"), "2.6.9 and later"),
    ] },
    Row { name: "boost", about: "frequencies above the nominal one", values: Values::Switch, places: &[
        Place { inverted: true, ..plain(cpu!("intel_pstate/no_turbo"), "3.9 and later with intel_pstate") },
        plain(cpu!("cpufreq/boost"), "3.7 and later with a driver that boosts"),
    ] },
    Row { name: "idle_states", about: "the deepest idle state that CPUs may enter (cpuidle/state*/name)", values: Values::IdleState,
        places: &[plain(cpu!("cpu*/cpuidle/state*/disable"), "3.9 and later with CONFIG_CPU_IDLE")] },
    Row { name: "smt", about: "sibling threads", values: Values::Words(&["on", "off"]),
        places: &[plain(cpu!("smt/control"), "4.19 and later")] },
];

/// The prefix for any other file with one value, such as a delegated cgroup's `cpu.weight`.
pub const FILE_PREFIX: &str = "file:";

/// # Errors
/// When there is none; the error offers the nearest name.
pub fn row(name: &str) -> Result<&'static Row> {
    let other = |e: Error| {
        let near = e.remedy().unwrap_or_default().to_owned();
        e.help(format!("{near}; any other file with one value is {FILE_PREFIX}PATH"))
    };
    SETTINGS
        .iter()
        .find(|r| r.name == name)
        .ok_or_else(|| other(Error::unknown("setting", name, SETTINGS.iter().map(|r| r.name))))
}

/// Checks a setting and its value as far as possible without a machine.
///
/// # Errors
/// When the name is unknown, or the value is out of range or not one of the listed words.
pub fn check(name: &str, value: &str) -> Result<()> {
    if let Some(path) = name.strip_prefix(FILE_PREFIX) {
        if !Path::new(path).is_absolute() {
            return Err(Error::input(format!("setting '{name}': '{path}' is not an absolute path"))
                .help(format!("{FILE_PREFIX}/sys/fs/cgroup/NAME/cpu.weight")));
        }
        return one_line(name, value).map(drop);
    }
    row(name)?.normalise(value).map(drop)
}

/// Checks a value for a file with one value.
///
/// # Errors
/// When it is empty or longer than a line.
pub fn one_line<'a>(name: &str, value: &'a str) -> Result<&'a str> {
    let value = value.trim();
    if value.is_empty() || value.chars().any(char::is_control) {
        return Err(Error::input(format!("setting '{name}': {value:?} is not one value on one line")));
    }
    Ok(value)
}

impl Row {
    /// The value to write, before a place or a machine changes it.
    ///
    /// # Errors
    /// When no machine accepts the value.
    pub fn normalise(&self, value: &str) -> Result<String> {
        let value = one_line(self.name, value)?;
        let wrong = || {
            Error::input(format!("setting '{}' does not take '{value}'", self.name))
                .help(format!("it takes {}", self.values.describe()))
        };
        match self.values {
            Values::Number(low, high) => {
                let number = self.number(value).filter(|n| (low..=high).contains(n));
                number.map(|n| n.to_string()).ok_or_else(wrong)
            }
            Values::Switch => match value {
                "1" | "on" | "true" => Ok("1".to_owned()),
                "0" | "off" | "false" => Ok("0".to_owned()),
                _ => Err(wrong()),
            },
            Values::Words(words) => words.contains(&value).then(|| value.to_owned()).ok_or_else(|| {
                Error::unknown(&format!("value of setting '{}'", self.name), value, words.iter().copied())
            }),
            Values::Word | Values::IdleState => {
                let word = !value.contains(|c: char| c.is_whitespace() || c == '/' || c == ',');
                word.then(|| value.to_owned()).ok_or_else(wrong)
            }
            Values::Features => {
                let upper = value.to_ascii_uppercase();
                let names = upper.split(',').map(str::trim);
                let good = |name: &str| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                };
                if names.clone().all(good) { Ok(names.collect::<Vec<_>>().join(",")) } else { Err(wrong()) }
            }
        }
    }

    fn number(&self, value: &str) -> Option<i64> {
        let plain = value.replace('_', "").parse::<i64>().ok();
        let time = || {
            let ns = Ns::parse(value, "ns").ok().filter(|_| self.name.ends_with("_ns"))?;
            i64::try_from(ns.0).ok()
        };
        plain.or_else(time)
    }

    /// Its possible places and their kernels, for messages.
    pub fn whereabouts(&self) -> String {
        let one = |p: &Place| format!("{} ({})", p.pattern, p.era);
        self.places.iter().map(one).collect::<Vec<_>>().join(", ")
    }
    /// Whether newer kernels have it only in debugfs.
    pub fn in_debugfs(&self) -> bool {
        self.places.iter().any(|p| p.pattern.starts_with("/sys/kernel/debug/"))
    }
}
