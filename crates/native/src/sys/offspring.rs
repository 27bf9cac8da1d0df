//! System calls for children that are other programs: their process group, their end, and the processes they leave.
//!
//! A command leads a process group, and its starter adopts orphans (PR_SET_CHILD_SUBREAPER, Linux 3.4). So every
//! process that the command starts, in any session, becomes a child here when its own parent ends, and none survives a
//! run.

use schedlab_base::Ns;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// The usage of ended children, including that of the children they reaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    pub user: Ns,
    pub system: Ns,
    /// Switches at which a task slept.
    pub voluntary: u64,
    /// Switches at which a task was preempted.
    pub involuntary: u64,
    /// Largest resident memory of one process, KiB.
    pub max_rss_kib: u64,
}

impl Used {
    /// The sum.
    pub fn plus(self, o: Used) -> Used {
        Used {
            user: Ns(self.user.0 + o.user.0),
            system: Ns(self.system.0 + o.system.0),
            voluntary: self.voluntary + o.voluntary,
            involuntary: self.involuntary + o.involuntary,
            max_rss_kib: self.max_rss_kib.max(o.max_rss_kib),
        }
    }
    fn of(r: &libc::rusage) -> Used {
        let ns = |t: libc::timeval| Ns(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000);
        Used {
            user: ns(r.ru_utime),
            system: ns(r.ru_stime),
            voluntary: r.ru_nvcsw as u64,
            involuntary: r.ru_nivcsw as u64,
            max_rss_kib: r.ru_maxrss as u64,
        }
    }
}

/// Makes this process the parent of all processes that its children leave behind. It also survives its own parent, so
/// that it can still end them.
pub fn adopt_orphans() {
    // SAFETY: both take integers only.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
    }
}

/// Makes the command lead its own process group, and makes the kernel kill it if this process dies first.
pub fn lead_group(command: &mut Command) {
    command.process_group(0);
    let bind = || {
        // SAFETY: takes integers only.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(bind) };
}

/// Makes the command lead its own session, and so its own process group.
pub fn lead_session(command: &mut Command) {
    let lead = || {
        // SAFETY: takes nothing; a new process leads no group, so it can't fail.
        unsafe { libc::setsid() };
        Ok(())
    };
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(lead) };
}

/// A descriptor that is readable after the process's end (pidfd_open, Linux 5.3); `None` on older kernels.
pub fn end_of(process: u32) -> Option<OwnedFd> {
    // SAFETY: takes integers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    // SAFETY: a fresh descriptor, owned by nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Child(u32, ExitStatus, Used),
    /// All children still run.
    None,
    NoChildren,
}

pub fn take_ended() -> Ended {
    let mut status = 0;
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are live places for the kernel to fill; all zeroes are a valid rusage.
    let (child, used) = unsafe {
        let child = libc::wait4(-1, &mut status, libc::WNOHANG, used.as_mut_ptr());
        (child, used.assume_init())
    };
    match child {
        0 => Ended::None,
        child if child > 0 => Ended::Child(child as u32, ExitStatus::from_raw(status), Used::of(&used)),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => Ended::None,
        _ => Ended::NoChildren,
    }
}

/// # Errors
/// When it is not a child of this process.
pub fn take(child: u32) -> io::Result<(ExitStatus, Used)> {
    let mut status = 0;
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both are live places for the kernel to fill; all zeroes are a valid rusage.
        let (taken, used) = unsafe {
            let taken = libc::wait4(child as i32, &mut status, 0, used.as_mut_ptr());
            (taken, used.assume_init())
        };
        if taken == child as i32 {
            return Ok((ExitStatus::from_raw(status), Used::of(&used)));
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Sends SIGTERM to a child that has not been reaped.
pub fn terminate(child: u32) {
    // SAFETY: takes integers only; a child that has not been reaped keeps its number.
    unsafe { libc::kill(child as i32, libc::SIGTERM) };
}

/// Whether a child has ended; does not reap it.
pub fn has_ended(process: u32) -> bool {
    parent_and_state(process).is_none_or(|(_, ended)| ended)
}

/// Sends a signal to a process group; an empty group is not an error. Call it only while the leader has not been
/// reaped: later the number may belong to another group.
pub fn signal_group(leader: u32, signal: i32) {
    // SAFETY: takes integers only.
    unsafe { libc::kill(-(leader as i32), signal) };
}

/// Kills every current child; returns their ids.
pub fn kill_children() -> Vec<u32> {
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|f| f.file_name().to_str()?.parse::<u32>().ok());
    let children: Vec<u32> = pids.filter(|pid| parent_and_state(*pid) == Some((own, false))).collect();
    for pid in &children {
        // SAFETY: takes integers only; a child that has not been reaped keeps its number.
        unsafe { libc::kill(*pid as i32, libc::SIGKILL) };
    }
    children
}

/// A process's parent, and whether it is a zombie.
fn parent_and_state(pid: u32) -> Option<(u32, bool)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may contain anything, including brackets.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?;
    Some((rest.next()?.parse().ok()?, state == "Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_but_memory_is_a_maximum() {
        let a = Used { user: Ns(1), system: Ns(2), voluntary: 3, involuntary: 4, max_rss_kib: 50 };
        let b = Used { user: Ns(10), system: Ns(20), voluntary: 30, involuntary: 40, max_rss_kib: 5 };
        let want = Used { user: Ns(11), system: Ns(22), voluntary: 33, involuntary: 44, max_rss_kib: 50 };
        assert_eq!(a.plus(b), want);
    }

    #[test]
    fn a_process_knows_its_parent() {
        // SAFETY: takes no argument and can't fail.
        let parent = unsafe { libc::getppid() } as u32;
        assert_eq!(parent_and_state(std::process::id()), Some((parent, false)));
        assert_eq!(parent_and_state(u32::MAX), None);
    }
}
