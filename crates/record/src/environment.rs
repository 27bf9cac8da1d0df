//! The environment of a run, as sorted keys and values for the record.
//!
//! Only values that affect results are read, from world-readable files. Names of hosts and users, addresses and the
//! free text of the kernel's command line are left out. A value that a machine does not have is absent, never guessed.

use crate::MODEL;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Keys and files; a file's first line is the value.
const FILES: &[(&str, &str)] = &[
    ("kernel.release", "proc/sys/kernel/osrelease"),
    ("kernel.version", "proc/sys/kernel/version"),
    ("kernel.clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("kernel.thp", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("kernel.numa_balancing", "proc/sys/kernel/numa_balancing"),
    ("kernel.autogroup", "proc/sys/kernel/sched_autogroup_enabled"),
    ("kernel.schedstats", "proc/sys/kernel/sched_schedstats"),
    ("kernel.sched_ext", "sys/kernel/sched_ext/state"),
    ("cpu.online", "sys/devices/system/cpu/online"),
    ("cpu.isolated", "sys/devices/system/cpu/isolated"),
    ("cpu.nohz_full", "sys/devices/system/cpu/nohz_full"),
    ("cpu.smt", "sys/devices/system/cpu/smt/control"),
    ("cpu.smt_active", "sys/devices/system/cpu/smt/active"),
    ("cpu.boost", "sys/devices/system/cpu/cpufreq/boost"),
    ("cpu.no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("cpu.idle_driver", "sys/devices/system/cpu/cpuidle/current_driver"),
    ("cpu.idle_governor", "sys/devices/system/cpu/cpuidle/current_governor"),
    ("cgroup.cpu_max", "sys/fs/cgroup/cpu.max"),
    ("load.average", "proc/loadavg"),
];

/// Words of the kernel's command line that change scheduling; only these are kept.
const BOOT_OPTIONS: &[&str] = &[
    "clocksource",
    "idle",
    "intel_idle.max_cstate",
    "intel_pstate",
    "isolcpus",
    "maxcpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "skew_tick",
    "transparent_hugepage",
    "tsc",
];

/// The environment of a live run, read from this host.
pub fn capture() -> BTreeMap<String, String> {
    capture_from(Path::new("/"))
}

/// The model of this host's CPUs, read once; `None` if the host does not name it.
pub fn cpu_model() -> Option<String> {
    here().get("cpu.model").cloned()
}

/// The environment of this host, read at the first call. The part that identifies the host ([`crate::Computer`]) is
/// constant while it runs, except for the clock source, which the kernel may abandon.
pub fn here() -> &'static BTreeMap<String, String> {
    static HERE: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    HERE.get_or_init(capture)
}

/// The environment of a simulated run, the same everywhere, so that a seed always gives the same bytes.
pub fn simulated() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("schedlab.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("schedlab.model".to_owned(), MODEL.to_string()),
    ])
}

fn capture_from(root: &Path) -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let mut all = BTreeMap::from([("schedlab.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let mut put = |key: &str, value: Option<String>| {
        if let Some(v) = value.filter(|v| !v.is_empty()) {
            all.insert(key.to_owned(), v);
        }
    };
    put("cpu.architecture", Some(std::env::consts::ARCH.to_owned()));
    for (key, path) in FILES {
        put(key, read(path).and_then(|t| t.lines().next().map(|l| l.trim().to_owned())));
    }
    put("cpu.governor", governors(root));
    put("kernel.boot_options", read("proc/cmdline").map(|t| boot_options(&t)));
    crate::scheduler::capture(root, &mut put);
    if let Some(info) = read("proc/cpuinfo") {
        put("cpu.model", cpuinfo(&info, "model name").map(str::to_owned));
        put("cpu.microcode", cpuinfo(&info, "microcode").map(str::to_owned));
        let hypervisor = cpuinfo(&info, "flags").map(|f| f.split(' ').any(|w| w == "hypervisor"));
        put("cpu.hypervisor", hypervisor.map(|h| if h { "yes" } else { "no" }.to_owned()));
    }
    all
}

/// The first value of a key in /proc/cpuinfo.
fn cpuinfo<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim())
}

/// The frequency governors in use, each once.
fn governors(root: &Path) -> Option<String> {
    let policies = fs::read_dir(root.join("sys/devices/system/cpu/cpufreq")).ok()?;
    let names: BTreeSet<String> = policies
        .filter_map(|p| fs::read_to_string(p.ok()?.path().join("scaling_governor")).ok())
        .map(|t| t.trim().to_owned())
        .collect();
    Some(names.into_iter().collect::<Vec<_>>().join(","))
}

fn boot_options(line: &str) -> String {
    let known = |word: &&str| BOOT_OPTIONS.contains(&word.split('=').next().unwrap_or(word));
    line.split_whitespace().filter(known).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_values_are_read_and_missing_ones_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        put("proc/sys/kernel/osrelease", "6.12.1\n");
        put("proc/cmdline", "root=/dev/sda1 token=secret isolcpus=2-3 nosmt quiet\n");
        put("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu hypervisor sse\n");
        put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n");
        put("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n");
        let env = capture_from(dir.path());
        let get = |k: &str| env.get(k).map(String::as_str);
        assert_eq!(get("kernel.release"), Some("6.12.1"));
        assert_eq!(get("kernel.boot_options"), Some("isolcpus=2-3 nosmt"));
        assert_eq!(get("cpu.model"), Some("A CPU"));
        assert_eq!(get("cpu.hypervisor"), Some("yes"));
        assert_eq!(get("cpu.governor"), Some("performance,powersave"));
        assert_eq!(get("cpu.boost"), None, "absent files are absent keys");
        assert!(env.values().all(|v| !v.contains("secret")));
    }

    #[test]
    fn a_simulations_environment_names_no_host_and_no_time() {
        let keys: Vec<String> = simulated().into_keys().collect();
        assert_eq!(keys, ["schedlab.model", "schedlab.version"]);
    }
}
