//! Facts in /proc about threads that records lack: process, group, and initial name and priority.
//!
//! [`live_thread`](super::live_thread) defines groups. The text of a process's `cgroup` decides its control group, so
//! each text is evaluated once.

use super::live_thread;
use schedlab_import::KnownThread;
use schedlab_import::sched_record::Comm;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The mount point of version 2.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Difference from `priority` in /proc/PID/stat to the kernel's own (MAX_RT_PRIO).
const PRIORITY_BASE: i32 = 100;

/// This machine's threads, and their groups.
#[derive(Default)]
pub struct Census {
    /// Control groups by the text of `cgroup`.
    groups: BTreeMap<String, Option<String>>,
}

impl Census {
    /// All current threads.
    pub fn everyone(&mut self) -> BTreeMap<u32, KnownThread> {
        let mut all = BTreeMap::new();
        for process in numbers(Path::new("/proc")) {
            let group = self.group(process);
            let session = if group.is_none() { live_thread::session_of(process) } else { None };
            for tid in numbers(Path::new(&format!("/proc/{process}/task"))) {
                if let Some(known) = known(process, tid) {
                    // Real-time tasks are not in a session's group.
                    let session = session.as_ref().filter(|_| known.prio.is_some_and(|prio| prio >= 100));
                    all.insert(tid, KnownThread { group: group.as_ref().or(session).cloned(), ..known });
                }
            }
        }
        all
    }

    /// A new thread; `None` if it has ended already.
    pub fn newcomer(&mut self, tid: u32) -> Option<KnownThread> {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let process = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        // Its name is its parent's until it gets its own, and the records report both.
        let group = self.group(process).or_else(|| live_thread::session_of(process));
        Some(KnownThread { process, group, ..KnownThread::default() })
    }

    fn group(&mut self, process: u32) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        if let Some(found) = self.groups.get(&text) {
            return found.clone();
        }
        let found = live_thread::group(&text, weighted);
        self.groups.insert(text, found.clone());
        found
    }
}

/// The subfolders whose names are numbers.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

fn known(process: u32, tid: u32) -> Option<KnownThread> {
    let stat = fs::read(format!("/proc/{process}/task/{tid}/stat")).ok()?;
    let (comm, prio) = name_and_priority(&stat)?;
    Some(KnownThread { comm, process, prio: Some(prio), group: None })
}

/// Name and priority in a thread's `stat`. The name is in parentheses and may contain anything.
fn name_and_priority(stat: &[u8]) -> Option<(Comm, i32)> {
    let from = memchr(b'(', stat)?;
    let to = stat.iter().rposition(|b| *b == b')')?;
    let comm = Comm::of(stat.get(from + 1..to)?);
    let rest = std::str::from_utf8(stat.get(to + 1..)?).ok()?;
    // proc(5) numbers fields from 1; the first one after the name is the third, and `priority` the 18th.
    let priority: i32 = rest.split_whitespace().nth(18 - 3)?.parse().ok()?;
    // Deadline tasks are below all others, and are shown as the first real-time priority.
    Some((comm, (priority + PRIORITY_BASE).max(0)))
}

fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == byte)
}

/// A group and its ancestors.
fn upwards(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(above, _)| above))
}

/// The nearest v2 group at or above that path in which the cpu controller is active.
pub(super) fn weighted(path: &str) -> Option<&str> {
    upwards(path).find(|path| Path::new(&format!("{CGROUPS}{path}/cpu.weight")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_parentheses_and_priorities_are_the_kernels() {
        let stat = |name: &str, priority: &str| {
            format!("7 ({name}) S 1 7 7 0 -1 64 0 0 0 0 0 0 0 0 {priority} 0 1 0 5 0").into_bytes()
        };
        let of = |name, priority| name_and_priority(&stat(name, priority)).map(|(c, p)| (c.text(), p));
        assert_eq!(of("a b) S (", "20"), Some(("a b) S (".to_owned(), 120)));
        assert_eq!(of("rt", "-51"), Some(("rt".to_owned(), 49)));
        assert_eq!(of("dl", "-101"), Some(("dl".to_owned(), 0)));
        assert_eq!(name_and_priority(b"7 (cut"), None);
    }

    #[test]
    fn groups_are_those_that_other_readers_find() {
        assert_eq!(upwards("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        let me = std::process::id();
        let (mut census, other) = (Census::default(), live_thread::find(me).unwrap());
        assert_eq!(census.newcomer(me).unwrap().group, other.group);
        assert_eq!(census.everyone()[&me].group, other.group);
    }

    #[test]
    fn this_thread_is_there() {
        let mut census = Census::default();
        let me = crate::sys::thread_id();
        let known = census.everyone().remove(&me).unwrap();
        assert_eq!((known.process, known.comm.is_unknown()), (std::process::id(), false));
        assert_eq!(census.newcomer(me).unwrap().process, std::process::id());
    }
}
