//! Timers with a descriptor, and the shortest system call. Mirrors timerfd_create(2), Linux 2.6.27, and getppid(2).

use super::raw::check;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A timer on CLOCK_MONOTONIC.
pub fn timer() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Arms a timer to expire once, after this time.
pub fn arm_timer(timer: &OwnedFd, it_value: libc::timespec) {
    let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    // SAFETY: `spec` outlives the call; the old value is not asked for.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &spec, std::ptr::null_mut()) };
}

/// Enters the kernel and returns: getppid(2), which libc does not cache.
pub fn enter_kernel() {
    // SAFETY: getppid has no arguments and can't fail.
    unsafe { libc::syscall(libc::SYS_getppid) };
}
