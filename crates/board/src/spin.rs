//! Locks of user space for which tasks spin (a test and set in a loop), as in databases.
//!
//! The kernel knows nothing of them: a task that holds one is preempted like any other, and those that want it burn
//! their time. A released lock goes to the task that has spun longest among those that run in user mode at that moment.
//! If none does, the first that comes back to user mode takes it. CPUs of a virtual machine or of a deterministic guest
//! sometimes stand still; there a task looks again each microsecond instead.

use crate::board::Kernel;
use crate::engine::NEVER;
use crate::speed::Speed;
use crate::thread::UserOp;
use crate::user::UserMode;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::WordId;
use std::sync::atomic::Ordering::SeqCst;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// The time of a test and set that succeeds, and of a release, ns of a CPU at full speed.
const ATOMIC_NS: u64 = 20;
/// Interval at which a task looks where it can't be found running, ns.
const LOOK_EVERY_NS: u64 = 1_000;

/// Tasks that spin.
pub trait Spins<'s>: Kernel<'s> {
    /// The current task wants a lock.
    fn begin_spin(&mut self, cpu: CpuId, curr: TaskId, word: WordId) {
        let board = self.board_mut();
        let spinners = &mut board.user.spinners[word.index()];
        debug_assert!(!spinners.contains(&curr), "{curr:?} spins for {word:?} twice");
        spinners.push_back(curr);
        board.threads[curr].user = UserOp::SpinLock { word };
        self.start_user(cpu);
    }

    /// The current task, in user mode again, takes the lock if it is free, or continues to spin. Returns when that
    /// ends.
    fn spin_on(&mut self, curr: TaskId, word: WordId, speed: Speed) -> u64 {
        let (now, looks) = (self.now(), self.looks_again());
        let board = self.board_mut();
        if board.user.words[word.index()].compare_exchange(FREE, HELD, SeqCst, SeqCst).is_err() {
            return if looks { now + LOOK_EVERY_NS } else { NEVER };
        }
        let spinners = &mut board.user.spinners[word.index()];
        debug_assert!(spinners.contains(&curr), "{curr:?} takes {word:?} without having spun for it");
        spinners.retain(|t| *t != curr);
        board.threads[curr].user = UserOp::Run { left_ns: ATOMIC_NS };
        now + speed.time(ATOMIC_NS)
    }

    /// The current task releases a lock.
    fn unlock_spin(&mut self, cpu: CpuId, curr: TaskId, word: WordId) {
        let board = self.board_mut();
        let before = board.user.words[word.index()].swap(FREE, SeqCst);
        debug_assert!(before == HELD, "{curr:?} releases {word:?}, which is {before}");
        board.threads[curr].user = UserOp::Run { left_ns: ATOMIC_NS };
        self.start_user(cpu);
        if self.looks_again() {
            // The next one may stand still; each looks again soon.
            return;
        }
        let next = self.board().user.spinners[word.index()].iter().find_map(|t| self.executes(*t));
        if let Some(on) = next {
            self.account_user(on);
            self.start_user(on);
            self.touch(on);
        }
    }

    /// Whether a spinning task has to look again by itself, because CPUs sometimes stand still.
    fn looks_again(&self) -> bool {
        self.board().turns.is_some() || self.host_speed(CpuId(0)).is_some()
    }
}

impl<'s, K: Kernel<'s>> Spins<'s> for K {}
