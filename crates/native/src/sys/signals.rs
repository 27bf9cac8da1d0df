//! Signals of a process between a command and its caller: read from a descriptor and forwarded.

use super::raw::check;
use libc::c_int;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::ptr;

/// Forwarded signals, and the signal of a child's end.
const TAKEN: [c_int; 7] =
    [libc::SIGCHLD, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    pub number: c_int,
    /// Whether a process sent it. A terminal sends its signals to all foreground processes.
    pub sent: bool,
}

/// Reads signals from a descriptor instead of handling them. The calling thread must be the only one.
#[derive(Debug)]
pub struct Signals {
    from: File,
    before: Mask,
}

/// A set of blocked signals.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

impl Mask {
    /// Makes this the calling thread's mask; safe between fork and exec.
    ///
    /// # Errors
    /// Never for a mask from the kernel.
    pub fn set(&self) -> io::Result<()> {
        // SAFETY: the kernel only reads a whole sigset_t.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) } {
            0 => Ok(()),
            e => Err(io::Error::from_raw_os_error(e)),
        }
    }
}

impl Signals {
    /// # Errors
    /// EMFILE and similar.
    pub fn take() -> io::Result<Signals> {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are live and zeroed, the first is emptied before it is filled; a negative descriptor asks
        // for a new one.
        unsafe {
            libc::sigemptyset(all.as_mut_ptr());
            for signal in TAKEN {
                libc::sigaddset(all.as_mut_ptr(), signal);
            }
            let e = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            if e != 0 {
                return Err(io::Error::from_raw_os_error(e));
            }
            let fd = check(libc::signalfd(-1, all.as_ptr(), libc::SFD_CLOEXEC))?;
            Ok(Signals { from: File::from_raw_fd(fd), before: Mask(before.assume_init()) })
        }
    }
    /// The signals that were blocked before; for children.
    pub fn before(&self) -> Mask {
        self.before
    }
    pub fn next(&mut self) -> io::Result<Signal> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut bytes = [0u8; SIZE];
        self.from.read_exact(&mut bytes)?;
        // SAFETY: the kernel filled a whole signalfd_siginfo, integers only, read without asking for alignment.
        let info = unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<libc::signalfd_siginfo>()) };
        Ok(Signal { number: info.ssi_signo as c_int, sent: info.ssi_code <= 0 })
    }
}

/// Whether SIGHUP is ignored, as under nohup(1).
pub fn hangups_are_ignored() -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given; the old one goes into a live, zeroed struct, for which all-zero is valid.
    unsafe {
        libc::sigaction(libc::SIGHUP, ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

pub fn ignore_hangups() {
    // SAFETY: SIG_IGN is a valid disposition of SIGHUP.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Sends a signal to a process. It is not an error if the process has just ended.
pub fn send(process: u32, signal: c_int) {
    // SAFETY: takes integers only.
    unsafe { libc::kill(process as c_int, signal) };
}
