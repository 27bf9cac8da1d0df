//! Calls about the whole system: its clocks, the user, and a lock that all processes see.

use super::raw::{check, clock, nanoseconds, timespec};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// CLOCK_BOOTTIME, ns since boot.
pub fn boottime_ns() -> u64 {
    clock(libc::CLOCK_BOOTTIME)
}

/// Tick period, ns: the coarse clock's resolution (`TICK_NSEC`).
pub fn jiffy_ns() -> u64 {
    let mut every = timespec(0);
    // SAFETY: `every` is a live value for the kernel to fill.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut every) };
    nanoseconds(every)
}

pub fn is_root() -> bool {
    // SAFETY: takes no argument and can't fail.
    unsafe { libc::geteuid() == 0 }
}

/// Takes the file's exclusive lock (flock(2)) if it is free; returns whether it was.
///
/// # Errors
/// When the file system has no locks.
pub fn lock_now(file: &File) -> io::Result<bool> {
    // SAFETY: flock on a descriptor that is open for the time of the borrow.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}
