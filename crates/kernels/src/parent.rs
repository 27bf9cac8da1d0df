//! Commands that end when this process ends. The request to the kernel is prctl(2).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the kernel kill the command when the thread that started it ends, however it ends.
pub fn die_with_parent(command: &mut Command) {
    signal_with_parent(command, libc::SIGKILL);
}

/// As [`die_with_parent`], but by SIGTERM, for commands that end their own children then.
pub fn end_with_parent(command: &mut Command) {
    signal_with_parent(command, libc::SIGTERM);
}

fn signal_with_parent(command: &mut Command, signal: libc::c_int) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: both calls take integers only and are async-signal-safe.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) < 0 {
                return Err(io::Error::last_os_error());
            }
            // A parent that died before the request is not noticed by it.
            if libc::getppid() as u32 == parent { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(ask) };
}
