//! Locks of user space for which tasks spin (a test-and-set loop), as in databases.
//!
//! The kernel does not know them: a task that holds one is preempted like any other, and tasks that want it waste their
//! time. A released lock goes to the task that has spun longest among those that are in user mode at that moment. If
//! there is none, the first one that comes back to user mode takes it. If CPUs are paused at times, as in a virtual
//! machine or a deterministic guest, a task checks the lock every microsecond instead.

use crate::frame::{Frame, Step};
use crate::system::System;
use crate::task::UserOp;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::WordId;
use schedlab_world::engine::NEVER;
use schedlab_world::speed::Speed;
use std::sync::atomic::Ordering::SeqCst;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// The time of a successful test-and-set, and of a release, ns of a CPU at full speed.
const ATOMIC_NS: u64 = 20;
/// How often a task checks the lock if CPUs may be paused, ns.
const LOOK_EVERY_NS: u64 = 1_000;

impl System<'_> {
    /// The current task wants a lock.
    pub(crate) fn begin_spin(&mut self, cpu: CpuId, curr: TaskId, word: WordId) {
        self.user.spinners[word.index()].push_back(curr);
        self.tasks[curr].user = UserOp::SpinLock { word };
        self.start_user(cpu);
    }

    /// The current task, in user mode again, takes the lock if it is free, or continues to spin.
    pub(crate) fn spin_on(&mut self, cpu: CpuId, curr: TaskId, word: WordId, speed: Speed) {
        let taken = self.user.words[word.index()].compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok();
        let ends = if taken {
            self.user.spinners[word.index()].retain(|t| *t != curr);
            self.tasks[curr].user = UserOp::Run { left_ns: ATOMIC_NS };
            self.now + speed.time(ATOMIC_NS)
        } else if self.others.hosted.is_some() || self.turns.is_some() {
            self.now + LOOK_EVERY_NS
        } else {
            NEVER
        };
        self.cpus[cpu].task = Frame::until(Step::User, ends);
    }

    /// The current task releases a lock.
    pub(crate) fn unlock_spin(&mut self, cpu: CpuId, curr: TaskId, word: WordId) {
        self.user.words[word.index()].store(FREE, SeqCst);
        self.tasks[curr].user = UserOp::Run { left_ns: ATOMIC_NS };
        self.start_user(cpu);
        if self.others.hosted.is_some() || self.turns.is_some() {
            // The next task may be paused; each one checks the lock again soon.
            return;
        }
        let runs = |t: &&TaskId| {
            let on = &self.cpus[self.tasks[**t].cpu];
            on.curr == Some(**t) && on.in_user()
        };
        let Some(next) = self.user.spinners[word.index()].iter().find(runs).copied() else { return };
        let on = self.tasks[next].cpu;
        self.account_user(on);
        self.start_user(on);
        self.touch(on);
    }
}
