//! Copies of this process: minimal ones, and whole ones of a process with one thread.

use super::raw::{check, errno};
use std::io;

/// Starts a process that runs `body` and ends; returns its id. The body may only make system calls and read memory: the
/// child lacks the caller's other threads, which may hold locks.
///
/// # Errors
/// EAGAIN at a limit of processes, ENOMEM.
pub fn fork_bare(body: impl FnOnce()) -> io::Result<u32> {
    // SAFETY: the child does no more than the body, which takes no lock and allocates nothing, and ends.
    match unsafe { libc::fork() } {
        0 => {
            body();
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) }
        }
        child => check(child).map(|child| child as u32),
    }
}

/// Copies this process, which has no other thread: its copy may do whatever the process may. Returns the copy's id, and
/// `None` in the copy, which ends with this process.
///
/// # Errors
/// EAGAIN at a limit of processes, ENOMEM, and when there are other threads.
pub fn fork_alone() -> io::Result<Option<u32>> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("a process of {threads} threads can't be copied")));
    }
    let own = std::process::id();
    // SAFETY: no lock is held by a thread that the copy would lack.
    match unsafe { libc::fork() } {
        0 => {
            super::die_with_parent();
            if std::os::unix::process::parent_id() != own {
                // It ended before.
                std::process::exit(1);
            }
            Ok(None)
        }
        copy => check(copy).map(|copy| Some(copy as u32)),
    }
}

/// Waits until a child has ended.
pub fn wait_for(child: u32) {
    // SAFETY: the status is not asked for.
    while unsafe { libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), 0) } < 0
        && errno() == libc::EINTR
    {}
}
