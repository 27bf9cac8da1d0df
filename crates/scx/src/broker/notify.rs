//! The listener of a seccomp filter: system calls come in, answers go out.

use super::errno::Errno;
use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub id: u64,
    /// The thread that makes it.
    pub thread: i32,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// How a call is answered.
#[derive(Debug)]
pub enum Reply {
    Value(i64),
    /// The kernel of this machine does the call.
    Continue,
    /// The call's result is this file, at a number of the system's choice or at a given one, closed on exec or not.
    File {
        file: OwnedFd,
        at: Option<u32>,
        close_on_exec: bool,
    },
    /// Later: the call sleeps.
    Hold,
}

impl Reply {
    /// A file at a number of the system's choice, closed on exec, as all of bpf(2) are.
    pub fn file(file: OwnedFd) -> Reply {
        Reply::File { file, at: None, close_on_exec: true }
    }
}

pub struct Listener(pub OwnedFd);

impl Listener {
    /// # Errors
    /// ENOENT when the caller was killed in the meantime.
    pub fn receive(&self) -> Result<Call, Errno> {
        // SAFETY: the struct consists of integers, and the kernel wants it zeroed.
        let mut notice: seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes one struct of this type.
        let got = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &mut notice) };
        Errno::check(got.into())?;
        Ok(Call {
            id: notice.id,
            thread: notice.pid as i32,
            number: notice.data.nr.into(),
            arguments: notice.data.args,
        })
    }
    /// Whether the call still waits. If so, what was read from its thread's memory before was its own: until then
    /// another process may have got the number.
    pub fn is_valid(&self, call: &Call) -> bool {
        // SAFETY: the request reads one u64.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &call.id) == 0 }
    }
    /// A caller that was killed needs no answer: that is not an error.
    pub fn answer(&self, call: &Call, reply: Result<Reply, Errno>) {
        match reply {
            Ok(Reply::Hold) => {}
            Ok(Reply::Value(value)) => self.send(call, value, 0, 0),
            Ok(Reply::Continue) => self.send(call, 0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Ok(Reply::File { file, at, close_on_exec }) => self.inject(call, &file, at, close_on_exec),
            Err(errno) => self.send(call, 0, -errno.0, 0),
        }
    }
    fn send(&self, call: &Call, value: i64, error: i32, flags: u32) {
        let answer = seccomp_notif_resp { id: call.id, val: value, error, flags };
        // SAFETY: the request reads one struct of this type.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &answer) };
    }
    /// Puts the file into the caller's table. One step where the kernel has it (5.14): else a caller that gets a signal
    /// between the two keeps a file that it does not know.
    fn inject(&self, call: &Call, file: &OwnedFd, at: Option<u32>, close_on_exec: bool) {
        let set = if at.is_some() { libc::SECCOMP_ADDFD_FLAG_SETFD as u32 } else { 0 };
        let mut add = seccomp_notif_addfd {
            id: call.id,
            flags: set | libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: file.as_raw_fd() as u32,
            newfd: at.unwrap_or(0),
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        if self.add(&add).is_ok() {
            return;
        }
        add.flags = set;
        match self.add(&add) {
            Ok(number) => self.send(call, number, 0, 0),
            Err(Errno(errno)) => self.send(call, 0, -errno, 0),
        }
    }
    fn add(&self, add: &seccomp_notif_addfd) -> Result<i64, Errno> {
        // SAFETY: the request reads one struct of this type, whose `srcfd` is open.
        Errno::check(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, add) }.into())
    }
}

/// What of `files` is ready for what it is asked for. `timeout_ms` as in poll(2).
pub fn poll(files: &[(BorrowedFd<'_>, i16)], timeout_ms: i32) -> Vec<bool> {
    let mut asked: Vec<libc::pollfd> = files
        .iter()
        .map(|(file, events)| libc::pollfd { fd: file.as_raw_fd(), events: *events, revents: 0 })
        .collect();
    // SAFETY: the array has as many elements as are said.
    let got = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout_ms) };
    asked.iter().map(|file| got > 0 && file.revents != 0).collect()
}
