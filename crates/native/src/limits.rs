//! The limits that a workload of many threads meets, by name and value, for an error one can act on.

use crate::sys;
use schedlab_base::Error;
use std::io;

/// The files that hold a limit of threads, and what each is called.
const LIMITS: &[(&str, &str)] = &[
    ("kernel.threads-max", "/proc/sys/kernel/threads-max"),
    ("kernel.pid_max", "/proc/sys/kernel/pid_max"),
    ("vm.max_map_count (two mappings a thread)", "/proc/sys/vm/max_map_count"),
];

/// The error for a thread that could not be made, with `alive` others there, of a workload of `asked` tasks.
pub fn too_many(name: &str, alive: u32, asked: usize, error: &io::Error) -> Error {
    let user = sys::process_limit().map_or("unlimited".to_owned(), |n| n.to_string());
    let mut text = format!("limits here: RLIMIT_NPROC {user}");
    let value = |file: &str| std::fs::read_to_string(file).ok().map(|v| v.trim().to_owned());
    for (limit, file) in LIMITS {
        if let Some(value) = value(file) {
            text += &format!(", {limit} {value}");
        }
    }
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if let Some(path) = cgroup2(&group)
        && let Some(max) = value(&format!("/sys/fs/cgroup{path}/pids.max"))
    {
        text += &format!(", cgroup pids.max {max}");
    }
    Error::machine(format!("can't start the thread of '{name}' beside {alive} others: {error}"))
        .help(format!("the workload has {asked} tasks; use fewer, or raise what is in the way\n  {text}"))
}

/// The cgroup v2 path of a /proc/self/cgroup text, without a final slash.
pub fn cgroup2(text: &str) -> Option<&str> {
    text.lines().find_map(|l| l.strip_prefix("0::")).map(|p| p.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_thread_names_how_many_and_which_limits() {
        let e = too_many("worker-7", 41, 100, &io::Error::from_raw_os_error(libc::EAGAIN)).to_string();
        for part in ["worker-7", "41 others", "100 tasks", "RLIMIT_NPROC", "kernel.threads-max"] {
            assert!(e.contains(part), "{part}: {e}");
        }
    }

    #[test]
    fn finds_the_unified_group() {
        assert_eq!(cgroup2("8:pids:/\n0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!((cgroup2("0::/\n"), cgroup2("1:cpu:/x\n")), (Some(""), None));
    }
}
