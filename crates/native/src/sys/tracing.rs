//! The kernel's tracing files without a visible mount, and perf events that share a ring.

use super::raw::check;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
/// PERF_EVENT_IOC_SET_OUTPUT: `_IO('$', 5)`.
const SET_OUTPUT: libc::c_ulong = 0x2405;

fn fresh(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = check(result as libc::c_int)?;
    // SAFETY: a fresh descriptor, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The root of a tracefs that is not mounted anywhere; closing the descriptor removes it (fsopen, fsmount; Linux 5.2).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, ENODEV if the kernel has no tracefs, ENOSYS before 5.2.
pub fn detached_tracefs() -> io::Result<OwnedFd> {
    // SAFETY: the name is a NUL-terminated literal.
    let made = fresh(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) })?;
    let none = ptr::null::<libc::c_char>();
    // SAFETY: the descriptor is open; this command takes neither key nor value.
    let created =
        unsafe { libc::syscall(libc::SYS_fsconfig, made.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) };
    check(created as libc::c_int)?;
    // SAFETY: takes an open descriptor and integers.
    fresh(unsafe { libc::syscall(libc::SYS_fsmount, made.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

/// Makes a perf event write its records into the ring of another event on the same CPU.
///
/// # Errors
/// EINVAL if they differ in CPU or clock.
pub fn set_output(event: &impl AsRawFd, ring: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: both descriptors are open through the call, which takes no pointer.
    check(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT as _, ring.as_raw_fd()) }).map(drop)
}
