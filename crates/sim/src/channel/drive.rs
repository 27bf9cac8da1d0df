//! Reads and writes of channels through time: calls, copies, the lock, sleeping, and waking the other side.
//!
//! A call takes the syscall entry and the kind's own price, then the copy of the bytes that are there or that fit. At
//! the end of the copy the bytes change hands, and the calling task wakes the sleepers at the other end. Only then does
//! the call continue, sleep or return. A writer stays in one call until all its bytes are in. A reader's call returns
//! with the bytes that were there; the missing ones need a further call. All these wakeups let the scheduler know that
//! the waker is about to sleep (WF_SYNC), except those of TCP writers.
//!
//! If the machine states how long a call holds its channel's lock (`pipe_lock_ns`, with the copy; `unix_lock_ns`,
//! without), others wait for it ([`schedlab_world::channel::lock`]). A waiter with a processor of its own spins; on
//! CPUs that take turns, a spinner's turn ends. On such CPUs a lock is often kept for a whole round of turns, since a
//! good part of a call is spent in it. TCP's and UDP's locks are never waited for.

use crate::cpu::Cpu;
use crate::frame::{Step, Sys};
use crate::system::{Context, System};
use crate::task::UserOp;
use schedlab_base::{CpuId, Error, TaskId};
use schedlab_workload::{ChannelKind, PortId};
use schedlab_world::channel::exchange::Wakes;
use schedlab_world::channel::lock::POLL_NS;
use schedlab_world::channel::state::Transfer;
use schedlab_world::net::Packet;

impl System<'_> {
    /// The current task writes to or reads from `port`.
    pub fn begin_transfer(&mut self, cpu: CpuId, curr: TaskId, port: PortId, sends: bool, bytes: u32) {
        match self.channels.begin(port, sends, bytes) {
            Ok(transfer) => self.call(cpu, curr, transfer),
            Err(what) => {
                self.run.fault = Some(Error::input(format!("task '{}' {what}", self.tasks[curr].name)));
            }
        }
    }

    /// A system call for the bytes that are left.
    fn call(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        let entry_ns = self.channels.entry_ns(&self.fixed.machine.costs, t);
        self.copy(cpu, curr, Transfer { opens: true, returned: false, slept: false, ..t }, entry_ns);
    }

    /// Copies the bytes that are there or that fit, after `entry_ns`.
    fn copy(&mut self, cpu: CpuId, curr: TaskId, mut t: Transfer, entry_ns: u64) {
        t.back = false;
        t.part = self.channels.fits(t);
        let lock_ns = self.channels.lock_ns(&self.fixed.machine.costs, t.port);
        // The lock time is a part of the call's time. A call that continues after sleeping may have less time left than
        // that.
        t.held_ns = lock_ns.min(entry_ns);
        self.tasks[curr].user = UserOp::Transfer(t);
        let before_ns = entry_ns - t.held_ns;
        match self.channels.kind(t.port) {
            _ if lock_ns == 0 => {
                self.begin(
                    cpu,
                    Step::Syscall(Sys::Transfer),
                    entry_ns + self.channels.copy_ns(&self.fixed.machine.costs, cpu, t),
                );
            }
            ChannelKind::Pipe => self.begin(cpu, Step::Syscall(Sys::Lock), before_ns),
            _ => self.begin(
                cpu,
                Step::Syscall(Sys::Lock),
                before_ns + self.channels.copy_ns(&self.fixed.machine.costs, cpu, t),
            ),
        }
    }

    /// The current task's transfer is about to touch its buffer: it takes the lock, or waits for it.
    pub fn lock_buffer(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(mut t) = self.tasks[curr].user else { return };
        if !self.channels.locks[t.buffer()].take(curr) {
            if let Some(sharing) = &mut self.turns {
                sharing.gives_way = true;
            }
            return self.begin(cpu, Step::Syscall(Sys::Lock), POLL_NS);
        }
        let held_ns = self.channels.held_ns(&self.fixed.machine.costs, cpu, curr, &mut t);
        self.tasks[curr].user = UserOp::Transfer(t);
        self.begin(cpu, Step::Syscall(Sys::Transfer), held_ns);
    }

    /// The copy is over: the bytes change hands, and the sleepers that waited for them are woken.
    pub fn copied(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(mut t) = self.tasks[curr].user else { return };
        if t.part > 0 {
            self.channels.locks[t.buffer()].release(curr);
        }
        let done = if t.sends { self.put(cpu, &mut t) } else { self.get(cpu, &mut t) };
        self.tasks[curr].user = if done { UserOp::Ask } else { UserOp::Transfer(t) };
        self.cpus[cpu].call_left_ns =
            if done || t.returned { self.channels.end_ns(&self.fixed.machine.costs, t.port) } else { 0 };
        self.next_wakeup(cpu, Context::Task);
    }

    /// The copied bytes enter the channel, or leave for another machine. Returns whether all bytes are in.
    fn put(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let (kind, to) = (self.channels.kind(t.port), t.port.peer());
        if self.others.nic.is_far(to) {
            let bytes = std::mem::take(&mut t.part);
            t.left -= bytes;
            t.opens = false;
            self.send_away(cpu, Packet { to, bytes });
            return t.left == 0 || kind == ChannelKind::Udp;
        }
        let wakes = wakes(&mut self.cpus[cpu], Context::Task);
        let put = self.channels.put(cpu, t, &self.fixed.history, wakes);
        self.accounts.stats.datagrams_lost += u64::from(put.lost);
        put.done
    }

    /// The copied bytes leave the channel. Returns whether all wanted bytes have come.
    fn get(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let wakes = wakes(&mut self.cpus[cpu], Context::Task);
        let done = self.channels.get(cpu, t, &self.fixed.history, wakes);
        self.was_read(cpu, t.port);
        done
    }

    /// Notes the readers that sleep at `port` as those that a context of `cpu` is to wake.
    pub fn wake_readers(&mut self, cpu: CpuId, port: PortId, context: Context) {
        let wakes = wakes(&mut self.cpus[cpu], context);
        self.channels.arrived(port, &self.fixed.history, wakes);
    }

    /// An unfinished operation continues: by a further call, a further copy, or by sleeping until there is something.
    pub fn transfer_on(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        if t.returned {
            return self.call(cpu, curr, t);
        }
        if self.channels.may_continue(t) {
            let costs = &self.fixed.machine.costs;
            let back_ns = if t.back { self.channels.sleeping_ns(costs, t.port) } else { 0 };
            return self.copy(cpu, curr, t, back_ns);
        }
        self.tasks[curr].user = UserOp::Transfer(Transfer { slept: true, back: true, ..t });
        self.channels.sleeps(curr, t, &self.fixed.history);
        self.block(cpu, curr);
    }
}

/// The list of tasks that a context of a CPU is to wake.
fn wakes(cpu: &mut Cpu, context: Context) -> Wakes<'_> {
    Wakes { tasks: &mut cpu.to_wake[context as usize], sync: &mut cpu.sync_wakes }
}
