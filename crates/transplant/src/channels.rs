//! Reads and writes of channels, waiting for several ends, and locks of user space, through time.
//!
//! The rules and prices are `schedlab_world`'s, and the order of steps is that of `sim/src/channel/drive.rs`: entry,
//! lock, copy, exchange, wakeups, the rest of the call.

use crate::board::Board;
use crate::cpu::{Call, Next};
use crate::task::UserOp;
use schedlab_base::{CpuId, Error, TaskId};
use schedlab_workload::{ChannelKind, Outcome, PortId, SetId, WordId};
use schedlab_world::channel::lock::POLL_NS;
use schedlab_world::channel::state::Transfer;
use schedlab_world::engine::NEVER;
use schedlab_world::net::Packet;
use schedlab_world::speed::Speed;
use std::sync::atomic::Ordering::SeqCst;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// The time of a test and set that succeeds, and of a release, ns of a CPU at full speed.
const ATOMIC_NS: u64 = 20;
/// How often a task looks for a lock where it can't be found running, ns.
const LOOK_EVERY_NS: u64 = 1_000;

impl Board<'_> {
    /// The current task writes to or reads from `port`.
    pub fn begin_transfer(&mut self, cpu: CpuId, curr: TaskId, port: PortId, sends: bool, bytes: u32) {
        match self.channels.begin(port, sends, bytes) {
            Ok(transfer) => self.call_for(cpu, curr, transfer),
            Err(what) => {
                let text = format!("task '{}' {what}", self.tasks[curr].name);
                self.fail(Error::input(text));
            }
        }
    }

    /// A system call for the bytes that are left.
    fn call_for(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        let entry_ns = self.channels.entry_ns(&self.machine.costs, t);
        self.copy(cpu, curr, Transfer { opens: true, returned: false, slept: false, ..t }, entry_ns);
    }

    /// Copies the bytes that are there or that fit, after `entry_ns`.
    fn copy(&mut self, cpu: CpuId, curr: TaskId, mut t: Transfer, entry_ns: u64) {
        let costs = &self.machine.costs;
        t.back = false;
        t.part = self.channels.fits(t);
        let lock_ns = self.channels.lock_ns(costs, t.port);
        t.held_ns = lock_ns.min(entry_ns);
        self.tasks[curr].user = UserOp::Transfer(t);
        let before_ns = entry_ns - t.held_ns;
        let copy_ns = self.channels.copy_ns(costs, cpu, t);
        match self.channels.kind(t.port) {
            _ if lock_ns == 0 => self.begin_open(cpu, Next::Call(Call::Copied), entry_ns + copy_ns),
            ChannelKind::Pipe => self.begin_open(cpu, Next::Call(Call::Lock), before_ns),
            _ => self.begin_open(cpu, Next::Call(Call::Lock), before_ns + copy_ns),
        }
    }

    /// The current task's transfer takes the lock of its buffer, or waits for it.
    pub fn lock_buffer(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(mut t) = self.tasks[curr].user else { return };
        if !self.channels.locks[t.buffer()].take(curr) {
            if let Some(sharing) = &mut self.turns {
                sharing.gives_way = true;
            }
            return self.begin_open(cpu, Next::Call(Call::Lock), POLL_NS);
        }
        let held_ns = self.channels.held_ns(&self.machine.costs, cpu, curr, &mut t);
        self.tasks[curr].user = UserOp::Transfer(t);
        self.begin_open(cpu, Next::Call(Call::Copied), held_ns);
    }

    /// The copy is over: the bytes change hands, and the sleepers that waited for them are woken.
    pub fn copied(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(mut t) = self.tasks[curr].user else { return };
        if t.part > 0 {
            self.channels.locks[t.buffer()].release(curr);
        }
        let done = if t.sends { self.put(cpu, &mut t) } else { self.get(cpu, &mut t) };
        self.tasks[curr].user = if done { UserOp::Ask } else { UserOp::Transfer(t) };
        let end_ns = self.channels.end_ns(&self.machine.costs, t.port);
        self.cpus[cpu].call_left_ns = if done || t.returned { end_ns } else { 0 };
        self.wake_next(cpu);
    }

    /// The copied bytes enter the channel, or leave for another machine. Returns whether all bytes are in.
    fn put(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let to = t.port.peer();
        if self.nic.is_far(to) {
            let bytes = std::mem::take(&mut t.part);
            t.left -= bytes;
            t.opens = false;
            self.route(cpu, Packet { to, bytes });
            return t.left == 0 || self.channels.kind(t.port) == ChannelKind::Udp;
        }
        let wakes = self.cpus[cpu].wakes();
        let put = self.channels.put(cpu, t, &self.history, wakes);
        self.accounts.datagrams_lost += u64::from(put.lost);
        put.done
    }

    /// The copied bytes leave the channel. Returns whether all wanted bytes have come.
    fn get(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let wakes = self.cpus[cpu].wakes();
        let done = self.channels.get(cpu, t, &self.history, wakes);
        self.was_read(cpu, t.port);
        done
    }

    /// An unfinished operation continues: by a further call, a further copy, or by sleeping until there is something.
    pub fn transfer_continues(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        if t.returned {
            return self.call_for(cpu, curr, t);
        }
        if self.channels.may_continue(t) {
            let costs = &self.machine.costs;
            let back_ns = if t.back { self.channels.sleeping_ns(costs, t.port) } else { 0 };
            return self.copy(cpu, curr, t, back_ns);
        }
        self.tasks[curr].user = UserOp::Transfer(Transfer { slept: true, back: true, ..t });
        self.channels.sleeps(curr, t, &self.history);
        self.block(cpu);
    }

    /// The call looks for ends with something to read, or the program gets the next of those that it had found.
    pub fn poll(&mut self, cpu: CpuId, curr: TaskId, set: SetId) {
        let Some(end) = self.channels.next_found(set, curr) else {
            self.tasks[curr].user = UserOp::Poll(set);
            return self.block(cpu);
        };
        self.tasks[curr].user = UserOp::Ask;
        self.tasks[curr].outcome = Outcome::Ready(end);
        self.settle_now(cpu);
    }

    /// The current task wants a lock of user space.
    pub fn begin_spin(&mut self, cpu: CpuId, curr: TaskId, word: WordId) {
        self.user.spinners[word.index()].push_back(curr);
        self.tasks[curr].user = UserOp::SpinLock { word };
        self.start_user(cpu);
    }

    /// A task, in user mode again, takes the lock if it is free, or continues to spin. Returns when that ends.
    pub fn spin_on(&mut self, curr: TaskId, word: WordId, speed: Speed) -> u64 {
        if self.user.words[word.index()].compare_exchange(FREE, HELD, SeqCst, SeqCst).is_err() {
            // On CPUs that stand still now and then a task looks again soon.
            return if self.turns.is_some() { self.now + LOOK_EVERY_NS } else { NEVER };
        }
        self.user.spinners[word.index()].retain(|t| *t != curr);
        self.tasks[curr].user = UserOp::Run { left_ns: ATOMIC_NS };
        self.now + speed.time(ATOMIC_NS)
    }

    /// The current task releases a lock: the task that has spun longest among those that run gets it.
    pub fn unlock_spin(&mut self, cpu: CpuId, curr: TaskId, word: WordId) {
        self.user.words[word.index()].store(FREE, SeqCst);
        self.tasks[curr].user = UserOp::Run { left_ns: ATOMIC_NS };
        self.start_user(cpu);
        if self.turns.is_some() {
            return;
        }
        let on = |task: TaskId| {
            self.cpus.ids().find(|c| self.cpus[*c].in_user() && self.cpus[*c].current.program() == Some(task))
        };
        let Some(on) = self.user.spinners[word.index()].iter().find_map(|t| on(*t)) else { return };
        self.account_user(on);
        self.start_user(on);
        self.touch(on);
    }
}
