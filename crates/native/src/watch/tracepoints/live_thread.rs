//! Facts in /proc about a live thread: its process, priority and group.
//!
//! A group is the path of the cpu controller's control group. For tasks in the root group it is the session's
//! autogroup, if autogroup is enabled, because the kernel then schedules sessions as groups.

use super::task_table::weighted;
use std::fs;
use std::sync::OnceLock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveThread {
    pub process: u32,
    /// Priority in the kernel's numbers: 0 to 99 is real-time, 120 is nice 0.
    pub prio: i32,
    /// `None`: the root group.
    pub group: Option<String>,
}

/// The thread with that id, if any.
pub fn find(tid: u32) -> Option<LiveThread> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{tid}/{name}"));
    let process = process(&read("status").ok()?)?;
    let prio = prio(&read("stat").ok()?)?;
    let group = read("cgroup").ok().and_then(|text| group(&text, weighted));
    // Real-time tasks are not in a session's group.
    Some(LiveThread { process, prio, group: group.or_else(|| session_of(process).filter(|_| prio >= 100)) })
}

/// The session's group of a process outside control groups; kernel threads have none.
pub(super) fn session_of(process: u32) -> Option<String> {
    if !autogroup_is_on() {
        return None;
    }
    session(&fs::read_to_string(format!("/proc/{process}/autogroup")).ok()?)
}

fn autogroup_is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    let read = || fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
    *ON.get_or_init(|| read().trim() == "1")
}

fn process(status: &str) -> Option<u32> {
    status.lines().find_map(|l| l.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// From the file `stat`: field 18 is 20 for nice 0, and -1 - p for real-time priority p.
fn prio(stat: &str) -> Option<i32> {
    let (_, after) = stat.rsplit_once(')')?;
    let shown: i32 = after.split_ascii_whitespace().nth(15)?.parse().ok()?;
    Some(100 + shown)
}

/// From the file `cgroup`: the line of the cpu controller (v1), else the nearest group in the line without controllers
/// (v2), at or above it, in which the cpu controller is active.
pub(super) fn group(text: &str, deciding: impl Fn(&str) -> Option<&str>) -> Option<String> {
    let lines = || text.lines().filter_map(|l| l.split_once(':')?.1.split_once(':'));
    let cpu = lines().find(|(controllers, _)| controllers.split(',').any(|c| c == "cpu"));
    let path = match cpu {
        Some((_, path)) => path,
        None => deciding(lines().find(|(controllers, _)| controllers.is_empty())?.1)?,
    };
    (!path.is_empty() && path != "/").then(|| path.to_owned())
}

fn session(text: &str) -> Option<String> {
    text.split_ascii_whitespace().next().filter(|path| path.len() > 1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there() {
        let me = find(std::process::id()).unwrap();
        assert_eq!(me.process, std::process::id());
        assert!((0..140).contains(&me.prio), "{me:?}");
        assert_eq!(find(u32::MAX), None);
    }

    #[test]
    fn files_are_read_as_kernels_write_them() {
        assert_eq!(prio("12 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 25 5 1 0 9"), Some(125));
        assert_eq!(prio("12 (rt) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 -51 0 1 0 9"), Some(49));
        assert_eq!(process("Name:\tx\nTgid:\t77\nPid:\t78\n"), Some(77));
        let group = |text: &str, depth: usize| {
            group(text, |path| path.match_indices('/').nth(depth).map(|(end, _)| &path[..end]))
        };
        assert_eq!(group("4:memory:/m\n1:cpu,cpuacct:/a/b\n0::/u\n", 9).unwrap(), "/a/b");
        assert_eq!(group("0::/user.slice/me\n", 1).unwrap(), "/user.slice", "where the controller decides");
        assert_eq!(group("0::/user.slice/me\n", 0), None, "it decides in the root alone");
        assert_eq!(group("1:cpu:/\n0::/u\n", 9), None, "the cpu controller's root");
        assert_eq!(session("/autogroup-15 nice 0\n").unwrap(), "/autogroup-15");
    }
}
