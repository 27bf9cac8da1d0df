//! Who the program is: the same numbers in each run, whatever this machine gave its threads.
//!
//! Its signals are sent by the broker, and to its own threads only. A thread library also knows its threads by this
//! machine's numbers, which clone(2) leaves in its memory: both are taken.

use super::errno::Errno;
use super::notify::{Call, Reply};

/// The program's process id, and its first thread's: among the highest, so that no simulated task has it.
pub const PROGRAM: i32 = 4_100_000;
const PARENT: i32 = 1;
/// In the place of a thread that has ended.
const ENDED: i32 = 0;

#[derive(Debug)]
pub struct Identity {
    /// This machine's numbers of its threads, in the order of their creation.
    threads: Vec<i32>,
    pid: i32,
}

impl Identity {
    pub fn new(pid: i32) -> Identity {
        Identity { threads: vec![pid], pid }
    }
    /// # Errors
    /// What the call fails with; ENOSYS for one that is not about this.
    pub fn answer(&mut self, call: &Call) -> Result<Reply, Errno> {
        let [first, second, third, ..] = call.arguments.map(|argument| argument as i32);
        match call.number {
            libc::SYS_getpid => Ok(Reply::Value(PROGRAM.into())),
            libc::SYS_gettid => Ok(Reply::Value(self.number(call.thread).into())),
            libc::SYS_getppid => Ok(Reply::Value(PARENT.into())),
            // Its group and its session are its own.
            libc::SYS_getpgid | libc::SYS_getsid if first != 0 && !self.is_own(first) => {
                Err(Errno(libc::ESRCH))
            }
            libc::SYS_getpgid | libc::SYS_getsid => Ok(Reply::Value(PROGRAM.into())),
            libc::SYS_kill if first == 0 || self.is_own(first.saturating_abs()) => self.signal(None, second),
            libc::SYS_tkill => self.signal(Some(first), second),
            libc::SYS_tgkill if self.is_own(first) => self.signal(Some(second), third),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_getpgrp => Ok(Reply::Value(PROGRAM.into())),
            libc::SYS_kill | libc::SYS_tgkill => Err(Errno(libc::ESRCH)),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }
    fn is_own(&self, process: i32) -> bool {
        [PROGRAM, self.pid].contains(&process)
    }
    /// The number that the program knows a thread by.
    fn number(&mut self, thread: i32) -> i32 {
        if !self.threads.contains(&thread) {
            self.look();
        }
        let at = self.threads.iter().position(|known| *known == thread);
        PROGRAM + at.unwrap_or(self.threads.len()) as i32
    }
    /// This machine's number of a thread.
    pub fn here(&self, thread: i32) -> i32 {
        let at = usize::try_from(thread.wrapping_sub(PROGRAM)).ok();
        at.and_then(|at| self.threads.get(at).copied()).filter(|here| *here != ENDED).unwrap_or(thread)
    }
    fn look(&mut self) {
        let folder = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = folder.into_iter().flatten().flatten();
        self.see(names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect());
    }
    /// Threads that were not seen before get the next numbers. The kernel lists them in the order of their creation,
    /// which is not that of its numbers: those begin anew when they are used up, and then a thread may have the number
    /// of one that has ended.
    fn see(&mut self, listed: Vec<i32>) {
        for known in self.threads.iter_mut().skip(1).filter(|known| !listed.contains(known)) {
            *known = ENDED;
        }
        self.threads
            .extend(listed.into_iter().filter(|thread| !self.threads.contains(thread)).collect::<Vec<_>>());
    }
    /// To the process, or to one of its threads.
    fn signal(&mut self, thread: Option<i32>, signal: i32) -> Result<Reply, Errno> {
        let Some(thread) = thread else {
            // SAFETY: takes integers only. The process waits for the answer to a call: it was not reaped.
            return Errno::check(unsafe { libc::kill(self.pid, signal) }.into()).map(Reply::Value);
        };
        let thread = self.here(thread);
        // SAFETY: as above; a thread of another process is not found.
        Errno::check(unsafe { libc::syscall(libc::SYS_tgkill, self.pid, thread, signal) }).map(Reply::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbered_by_their_creation_when_the_machines_numbers_begin_anew() {
        let mut identity = Identity::new(32_700);
        identity.see(vec![32_700, 32_767, 301]);
        identity.see(vec![32_700, 301]);
        // The number of the one that has ended is given again.
        identity.see(vec![32_700, 301, 32_767, 300]);
        let here: Vec<i32> = (PROGRAM..PROGRAM + 5).map(|thread| identity.here(thread)).collect();
        assert_eq!(here, [32_700, PROGRAM + 1, 301, 32_767, 300], "PROGRAM + 1 has ended");
    }
}
