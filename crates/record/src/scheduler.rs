//! The settings of a live kernel's scheduler in debugfs, as keys and values of a record's environment.
//!
//! `sched.features`, `sched.preempt`, one key for each tunable (`sched.base_slice_ns`; already scaled by the number of
//! CPUs), and `sched.domains.cpuN` for CPU 0 and every CPU whose domains differ from its predecessor's: domains bottom
//! up, separated by `;`, each `NAME key=value ... flags=A|B`. Only root can read these. Domains need `sched_verbose` in
//! 6.12 and 7.3, but not in 6.1 (read in 6.1.192, 6.12.117 and 7.3.4). A key whose file is missing is absent. Before
//! 5.13 debugfs has only the features.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Prefix of all keys.
pub const PREFIX: &str = "sched.";
/// Prefix of the keys of domains, before the CPU's number.
pub const DOMAINS: &str = "sched.domains.cpu";

/// Files that hold one number.
const NUMBERS: &[&str] = &[
    "latency_ns",
    "min_granularity_ns",
    "idle_min_granularity_ns",
    "wakeup_granularity_ns",
    "base_slice_ns",
    "migration_cost_ns",
    "nr_migrate",
    "tunable_scaling",
];
/// Files with the parameters with which a domain was built; its other files change at run time.
const PARAMS: &[&str] = &["min_interval", "max_interval", "busy_factor", "imbalance_pct", "cache_nice_tries"];

/// Reads the files that exist below `root`.
pub(crate) fn capture(root: &Path, put: &mut impl FnMut(&str, Option<String>)) {
    let dir = root.join("sys/kernel/debug/sched");
    let features =
        words(&dir.join("features")).or_else(|| words(&root.join("sys/kernel/debug/sched_features")));
    put("sched.features", features);
    put("sched.preempt", words(&dir.join("preempt")));
    for name in NUMBERS {
        put(&format!("{PREFIX}{name}"), words(&dir.join(name)));
    }
    let mut last = String::new();
    for (cpu, path) in numbered(&dir.join("domains"), "cpu") {
        let stack: Vec<String> = numbered(&path, "domain").into_values().filter_map(|d| domain(&d)).collect();
        let text = stack.join("; ");
        if text != last {
            put(&format!("{DOMAINS}{cpu}"), Some(text.clone()));
            last = text;
        }
    }
}

/// A file's words, separated by single blanks.
fn words(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Entries `<prefix>N` of a directory, by number.
fn numbered(dir: &Path, prefix: &str) -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |e: fs::DirEntry| {
        let number = e.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((number, e.path()))
    };
    entries.filter_map(of).collect()
}

fn domain(dir: &Path) -> Option<String> {
    let mut text = words(&dir.join("name"))?;
    for name in PARAMS {
        if let Some(value) = words(&dir.join(name)) {
            text += &format!(" {name}={value}");
        }
    }
    let flags = words(&dir.join("flags")).unwrap_or_default().replace(' ', "|");
    Some(text + " flags=" + &flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debugfs_is_read_and_equal_cpus_are_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = dir.path().join("sys/kernel/debug/sched").join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        put("features", "START_DEBIT NO_NEXT_BUDDY \n");
        put("latency_ns", "18000000\n");
        for cpu in ["cpu0", "cpu1", "cpu2", "cpu10"] {
            put(&format!("domains/{cpu}/domain0/name"), "MC\n");
            put(&format!("domains/{cpu}/domain0/flags"), "SD_BALANCE_EXEC SD_NUMA \n");
            put(&format!("domains/{cpu}/domain0/imbalance_pct"), "117\n");
            put(&format!("domains/{cpu}/domain0/max_newidle_lb_cost"), "4711\n");
        }
        put("domains/cpu10/domain1/name", "NUMA\n");
        let mut seen = BTreeMap::new();
        capture(dir.path(), &mut |key: &str, value: Option<String>| {
            seen.extend(value.map(|v| (key.to_owned(), v)));
        });
        let mc = "MC imbalance_pct=117 flags=SD_BALANCE_EXEC|SD_NUMA";
        let want = [
            ("sched.domains.cpu0", mc.to_owned()),
            ("sched.domains.cpu10", format!("{mc}; NUMA flags=")),
            ("sched.features", "START_DEBIT NO_NEXT_BUDDY".to_owned()),
            ("sched.latency_ns", "18000000".to_owned()),
        ];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), want.map(|(k, v)| (k.to_owned(), v)));
    }
}
