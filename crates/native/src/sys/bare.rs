//! Minimal processes.

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

/// Waits until a child has ended.
pub fn wait_for(child: u32) {
    // SAFETY: the status is not asked for.
    while unsafe { libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), 0) } < 0
        && errno() == libc::EINTR
    {}
}
