//! Helpers that all system calls share: `timespec`s, results, clocks.

use libc::{c_int, c_long};
use std::io;

pub(super) const SECOND: u64 = 1_000_000_000;

/// A time in ns in the kernel's form.
pub(super) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / SECOND) as _, tv_nsec: (ns % SECOND) as c_long }
}

pub(super) fn nanoseconds(t: libc::timespec) -> u64 {
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// `Err` with errno when a call returned -1.
pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The error of this thread's last call; 0 if it had none.
pub(super) fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A clock's time, ns. The clock must exist: an unknown one reads as 0.
pub(super) fn clock(id: libc::clockid_t) -> u64 {
    let mut t = timespec(0);
    // SAFETY: `t` is a valid timespec for the kernel to fill; an unknown clock is refused.
    unsafe { libc::clock_gettime(id, &mut t) };
    nanoseconds(t)
}
