//! Commands that end when this process ends, and groups of processes that are ended. The requests to the kernel are
//! prctl(2) and kill(2).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Time for a group to end by itself, and between two looks at it.
const GRACE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

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

/// Ends a command that leads its own process group, with all processes of the group: by SIGTERM, so that make removes
/// its unfinished files, and later by SIGKILL.
pub fn end_group(leader: &mut Child) {
    let group = -(leader.id() as i32);
    // SAFETY: kill takes integers only. The group has its leader's number until both are gone.
    let signal = |number: libc::c_int| unsafe { libc::kill(group, number) } == 0;
    let began = Instant::now();
    signal(libc::SIGTERM);
    loop {
        let _ = leader.try_wait();
        if !signal(0) {
            break;
        }
        if began.elapsed() > GRACE {
            signal(libc::SIGKILL);
            break;
        }
        std::thread::sleep(LOOK);
    }
    let _ = leader.wait();
}
