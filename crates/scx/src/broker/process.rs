//! The program as a process: its files, its threads, and its end.

use super::errno::Errno;
use schedlab_base::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// How the threads of the program are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    Run,
    /// Each was found waiting for something, but one after the other.
    SeemToWait,
    /// All wait for the broker: none can continue without it.
    Sleep,
}

/// The number by which this machine tells files of events from one another.
pub fn event_id(pid: i32, number: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("eventfd-id:"))?.trim().parse().ok()
}

pub struct Process {
    pid: i32,
    /// Readable when the process has ended.
    file: OwnedFd,
}

impl Process {
    /// # Errors
    /// When the machine can't watch processes.
    pub fn new(pid: i32) -> Result<Process> {
        // SAFETY: takes integers only.
        let number = Errno::check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) });
        let number = number.map_err(|Errno(errno)| {
            let why = std::io::Error::from_raw_os_error(errno);
            Error::machine(format!("can't watch a scheduler's program (pidfd_open): {why}"))
        })?;
        // SAFETY: just made, and owned by nobody.
        Ok(Process { pid, file: unsafe { OwnedFd::from_raw_fd(number as i32) } })
    }
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
    /// The program's file of this number.
    pub fn file(&self, number: i32) -> Option<OwnedFd> {
        // SAFETY: takes integers only.
        let got = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.file.as_raw_fd(), number, 0) };
        // SAFETY: just made, and owned by nobody.
        Errno::check(got).ok().map(|number| unsafe { OwnedFd::from_raw_fd(number as i32) })
    }
    /// How its threads are, of which so many wait for the broker.
    pub fn threads(&self, held: usize) -> Threads {
        let Ok(folder) = std::fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return Threads::Run;
        };
        let threads: Vec<PathBuf> = folder.flatten().map(|thread| thread.path()).collect();
        if threads.len() == held {
            return Threads::Sleep;
        }
        let runs = |thread: &PathBuf| {
            let text = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
            // The name before it may have any characters.
            matches!(text.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('R' | 'D'))
        };
        if threads.iter().any(runs) { Threads::Run } else { Threads::SeemToWait }
    }
    /// To the process, which is all that there is: it can't start another one. It must not have been reaped yet.
    pub fn signal(&self, signal: i32) {
        // SAFETY: takes integers only; the process is a child of this one.
        unsafe { libc::kill(self.pid, signal) };
    }
    /// Whether it has a function for this signal: then the signal interrupts what it waits for.
    pub fn handles(&self, signal: i32) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
    }
    /// The `eventfd-id` of its file of this number.
    pub fn event_id(&self, number: i32) -> Option<u64> {
        event_id(self.pid, number)
    }
    /// Whether it has this file of events open.
    pub fn has_event(&self, id: u64) -> bool {
        let numbers = std::fs::read_dir(format!("/proc/{}/fdinfo", self.pid));
        let mut names =
            numbers.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.any(|name| name.parse().is_ok_and(|number| self.event_id(number) == Some(id)))
    }
}
