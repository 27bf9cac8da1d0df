//! A database's log for programs: one disk write contains many commits (group commit).
//!
//! A committing task adds its record, asks the logger, and waits until the log is flushed up to that record. The logger
//! takes all present records, waits for the disk, and wakes all waiters. Records that arrive meanwhile are in the next
//! write.

use super::draws::Draws;
use super::wake_list::{BLOCKED, POSTED, post};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

/// The state that a log's tasks share. Record numbers are modulo 2^32.
#[derive(Clone, Copy)]
pub struct Log {
    /// Number of records added.
    added: SlotId,
    /// Number of records on the disk. Committing tasks wait on this word.
    flushed: WordId,
    /// The word on which the logger waits.
    asked: WordId,
}

impl Log {
    pub fn new(b: &mut Builder) -> Log {
        Log { added: b.slot(), flushed: b.word(), asked: b.word() }
    }
}

enum State {
    /// The task has no record in the log.
    Out,
    /// Waits until this number of records is on the disk.
    Until(u32),
}

/// One task's commits.
pub struct Commit {
    log: Log,
    state: State,
}

impl Commit {
    pub fn new(log: Log) -> Commit {
        Commit { log, state: State::Out }
    }
    /// The next operation of a commit; `None` once it is on the disk.
    pub fn next(&mut self, env: &mut dyn Env) -> Option<Op> {
        let Log { added, flushed, asked } = self.log;
        if let State::Out = self.state {
            let record = env.slot(added).fetch_add(1, SeqCst) as u32 + 1;
            self.state = State::Until(record);
            if let Some(wake) = post(asked, env) {
                return Some(wake);
            }
        }
        let State::Until(record) = self.state else { return None };
        let value = env.word(flushed).load(SeqCst);
        if value.wrapping_sub(record) as i32 >= 0 {
            self.state = State::Out;
            return None;
        }
        Some(Op::Wait { word: flushed, value, until: Ns::MAX })
    }
}

enum Doing {
    Look,
    /// Writes up to this record.
    Write(u32),
}

/// The task that writes the log.
pub struct Logger {
    log: Log,
    disk: Draws,
    /// The most waiting tasks.
    waiters: u32,
    doing: Doing,
}

impl Logger {
    /// The logger of `log`; writes take `disk`. At most `waiters` tasks commit.
    pub fn new(log: Log, disk: Draws, waiters: usize) -> Logger {
        Logger { log, disk, waiters: waiters as u32, doing: Doing::Look }
    }
}

impl Program for Logger {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let Log { added, flushed, asked } = self.log;
        match self.doing {
            Doing::Look => {
                env.word(asked).store(BLOCKED, SeqCst);
                let there = env.slot(added).load(SeqCst) as u32;
                if there == env.word(flushed).load(SeqCst) {
                    return Op::Wait { word: asked, value: BLOCKED, until: Ns::MAX };
                }
                // Tasks that commit during the write need not wake the logger.
                env.word(asked).store(POSTED, SeqCst);
                self.doing = Doing::Write(there);
                Op::Sleep { length: self.disk.next() }
            }
            Doing::Write(there) => {
                env.word(flushed).store(there, SeqCst);
                self.doing = Doing::Look;
                Op::Wake { word: flushed, count: self.waiters }
            }
        }
    }
}
