//! Reading from and writing to channels, taken through time: calls, copies, sleeping, and waking the other side.
//!
//! A call takes its entry and the kind's own price, then the copy of what there is or what fits; at the end of that the
//! bytes change hands, those who are to know are woken by the calling task, and only then does the call go on, sleep or
//! return. A writer stays in one call until all is in; a reader's call returns with what there was, and what is still
//! missing is a further call. All these wakeups tell the scheduler that the waker is
//! about to sleep (WF_SYNC), but for TCP's to its writers.
//!
//! Where the machine says how long a call holds its channel's lock (`pipe_lock_ns`, with the copy;
//! `unix_lock_ns`, without), others wait for it ([`super::lock`]): with a processor of their own they
//! spin, and where CPUs take turns a spinner's turn ends. There a lock is often kept for a whole round of
//! turns, since a good part of a call is spent in it. TCP's and UDP's are never waited for.
//!
//! Messages to UNIX sockets lie in memory of the kernel's, which it keeps for the next ones: only where more
//! of it is held than ever before it must be had from the page allocator, which takes longer (`unix_new_ns`).
//! Which CPU freed it is not followed.
//!
//! Which CPU wrote to and read from a buffer last is remembered: what lies in another CPU's cache takes
//! longer to touch (`remote_send_ns`, `remote_recv_ns`), however far that is. Of several writers on different
//! CPUs the last one stands for all that is unread.

use super::buffer;
use super::lock::POLL_NS;
use super::state::{Memory, Transfer};
use crate::frame::{Step, Sys};
use crate::system::{Context, System};
use crate::task::UserOp;
use schedlab_base::{CpuId, Error, TaskId};
use schedlab_workload::{ChannelKind, PortId};

/// The largest datagram, bytes: what an IP packet holds beside its headers.
const LARGEST_DATAGRAM: u32 = 65_507;

/// What messages are charged that fill the slabs a CPU has at hand, bytes: 32 of them, reckoned from the sizes of slabs
/// (16 heads in a page, 32 bodies in four) and not measured.
const SLAB: u64 = 24 * 1024;

impl System<'_> {
    /// The current task writes to or reads from `port`.
    pub fn begin_transfer(&mut self, cpu: CpuId, curr: TaskId, port: PortId, sends: bool, bytes: u32) {
        let wrong = match self.channels.kind(port) {
            ChannelKind::Pipe if sends != (port.0 % 2 == 1) => {
                Some("uses the wrong end of a pipe: the first is read, the second written".to_owned())
            }
            ChannelKind::Udp if sends && bytes > LARGEST_DATAGRAM => {
                Some(format!("sends a datagram of {bytes} bytes: at most {LARGEST_DATAGRAM} fit"))
            }
            _ => None,
        };
        if let Some(what) = wrong {
            self.fault = Some(Error::input(format!("task '{}' {what}", self.tasks[curr].name)));
            return;
        }
        let (part, opens, returned, slept, back) = (0, true, false, false, false);
        self.call(
            cpu,
            curr,
            Transfer { port, sends, left: bytes, part, held_ns: 0, opens, returned, slept, back },
        );
    }

    /// A system call for what is left.
    fn call(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        let costs = &self.fixed.machine.costs;
        let own_ns = match (self.channels.kind(t.port), t.sends) {
            (ChannelKind::Pipe, _) => costs.pipe_io_ns,
            (ChannelKind::Unix, true) => costs.unix_send_ns,
            (ChannelKind::Unix, false) => costs.unix_recv_ns,
            (ChannelKind::Tcp, true) => costs.tcp_send_ns,
            (ChannelKind::Tcp, false) => costs.tcp_recv_ns,
            (ChannelKind::Udp, true) => costs.udp_send_ns,
            (ChannelKind::Udp, false) => costs.udp_recv_ns,
        };
        let entry_ns = costs.program_ns + costs.syscall_ns + own_ns.saturating_sub(self.end_ns(t.port));
        self.copy(cpu, curr, Transfer { opens: true, returned: false, slept: false, ..t }, entry_ns);
    }

    /// What a call on this end has yet to do after its wakeups, ns; a part of what it takes in all.
    fn end_ns(&self, port: PortId) -> u64 {
        match self.channels.kind(port) {
            ChannelKind::Pipe | ChannelKind::Unix => self.fixed.machine.costs.channel_end_ns,
            ChannelKind::Tcp | ChannelKind::Udp => 0,
        }
    }

    /// Copies what there is or what fits, after `entry_ns`.
    fn copy(&mut self, cpu: CpuId, curr: TaskId, mut t: Transfer, entry_ns: u64) {
        t.back = false;
        t.part = self.fits(t);
        let lock_ns = self.lock_ns(t.port);
        // A part of what the call takes anyway; of one that goes on there may be less.
        t.held_ns = lock_ns.min(entry_ns);
        self.tasks[curr].user = UserOp::Transfer(t);
        let before_ns = entry_ns - t.held_ns;
        match self.channels.kind(t.port) {
            _ if lock_ns == 0 => {
                self.begin(cpu, Step::Syscall(Sys::Transfer), entry_ns + self.copy_ns(cpu, t));
            }
            ChannelKind::Pipe => self.begin(cpu, Step::Syscall(Sys::Lock), before_ns),
            _ => self.begin(cpu, Step::Syscall(Sys::Lock), before_ns + self.copy_ns(cpu, t)),
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
        let mut held_ns = t.held_ns;
        if self.channels.kind(t.port) == ChannelKind::Pipe {
            t.part = self.fits(t);
            self.tasks[curr].user = UserOp::Transfer(t);
            held_ns += self.copy_ns(cpu, t);
        }
        if t.part == 0 {
            // Who finds nothing to copy gives it back at once.
            self.channels.locks[t.buffer()].release(curr);
        }
        self.begin(cpu, Step::Syscall(Sys::Transfer), held_ns);
    }

    /// How long a call holds the lock of its channel, beside the copy; 0 where locks are not simulated.
    fn lock_ns(&self, port: PortId) -> u64 {
        let costs = &self.fixed.machine.costs;
        match self.channels.kind(port) {
            ChannelKind::Pipe => costs.pipe_lock_ns,
            ChannelKind::Unix => costs.unix_lock_ns,
            ChannelKind::Tcp | ChannelKind::Udp => 0,
        }
    }

    /// How many of a transfer's bytes there are, or fit, now.
    fn fits(&self, t: Transfer) -> u32 {
        let buffer = &self.channels.buffers[t.buffer()];
        if t.sends { buffer.room(t.left, t.opens) } else { buffer.ready(t.left) }
    }

    /// What it takes to copy them.
    fn copy_ns(&self, cpu: CpuId, t: Transfer) -> u64 {
        let copied_ns = u64::from(t.part) * self.fixed.machine.costs.copy_ns_per_kb / 1024;
        copied_ns + self.remote_ns(cpu, t) + self.memory_ns(t)
    }

    /// What a write takes more because of the memory that its message needs: none had it before, or it is not at hand.
    fn memory_ns(&self, t: Transfer) -> u64 {
        let (costs, Memory { held, most }) = (&self.fixed.machine.costs, self.channels.memory);
        match t.sends && t.part > 0 && self.channels.kind(t.port) == ChannelKind::Unix {
            true if held + buffer::unix_truesize(t.part) > most => costs.unix_new_ns,
            true if held > SLAB => costs.unix_reuse_ns,
            _ => 0,
        }
    }

    /// What a transfer takes more because another CPU used the buffer last. Where nothing is copied nothing is touched
    /// but the lock.
    fn remote_ns(&self, cpu: CpuId, t: Transfer) -> u64 {
        let costs = &self.fixed.machine.costs;
        match t.sends {
            _ if t.part == 0 => 0,
            true if self.channels.users[t.port.peer().index()].write_is_remote(cpu) => costs.remote_send_ns,
            false if self.channels.users[t.port.index()].read_is_remote(cpu) => costs.remote_recv_ns,
            _ => 0,
        }
    }

    /// The copy is over: the bytes change hands, and those who waited for that are woken.
    pub fn copied(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(mut t) = self.tasks[curr].user else { return };
        if t.part > 0 {
            self.channels.locks[t.buffer()].release(curr);
        }
        let done = if t.sends { self.put(cpu, &mut t) } else { self.get(cpu, &mut t) };
        self.tasks[curr].user = if done { UserOp::Ask } else { UserOp::Transfer(t) };
        self.cpus[cpu].call_left_ns = if done || t.returned { self.end_ns(t.port) } else { 0 };
        self.next_wakeup(cpu, Context::Task);
    }

    /// What was copied is in the channel, as far as there still is room. Whether all of it is.
    fn put(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let (kind, to) = (self.channels.kind(t.port), t.port.peer());
        let buffer = &mut self.channels.buffers[to.index()];
        let (was_empty, held) = (buffer.is_empty(), buffer.charged());
        let written = buffer.write(t.part, t.opens);
        if kind == ChannelKind::Unix {
            self.channels.memory.changed(held, buffer.charged());
        }
        self.channels.users[to.index()].writer = Some(cpu);
        let datagram = kind == ChannelKind::Udp;
        t.left -= written.bytes;
        t.opens &= written.bytes == 0;
        let done = t.left == 0 || datagram;
        self.stats.datagrams_lost += u64::from(written.lost);
        let news = !written.lost && (written.bytes > 0 || datagram);
        let full = buffer.pages_full();
        if news && buffer.wakes_reader(was_empty, &self.fixed.history) {
            self.wake_sleepers(cpu, to, true);
        }
        if done && t.slept && kind == ChannelKind::Pipe && self.wakes_one(kind) && !full {
            self.wake_sleepers(cpu, t.port, true);
        }
        done
    }

    /// What was copied is out of the channel, as far as nobody else took it. Whether all that was wanted has come.
    fn get(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let (kind, from) = (self.channels.kind(t.port), t.port);
        let datagram = kind == ChannelKind::Udp;
        let buffer = &mut self.channels.buffers[from.index()];
        if t.part == 0 && buffer.ready(t.left) > 0 {
            // It came too late for this copy.
            return false;
        }
        let (was_full, held) = (buffer.pages_full(), buffer.charged());
        let taken = buffer.take(if datagram { t.left } else { t.part });
        if kind == ChannelKind::Unix {
            self.channels.memory.changed(held, buffer.charged());
        }
        if taken.bytes > 0 {
            self.channels.users[from.index()].reader = Some(cpu);
        }
        t.left -= taken.bytes;
        t.returned = taken.bytes > 0 || taken.freed;
        let empty = buffer.is_empty();
        if t.returned && buffer.wakes_writer(was_full, taken.freed, &self.fixed.history) {
            self.wake_sleepers(cpu, from.peer(), kind != ChannelKind::Tcp);
        }
        if t.returned && t.slept && kind == ChannelKind::Pipe && self.wakes_one(kind) && !empty {
            self.wake_sleepers(cpu, from, true);
        }
        if datagram { t.returned } else { t.left == 0 }
    }

    /// What sleeping at a channel takes, beside the call and the switch. It is charged when the task is back.
    fn sleeping_ns(&self, port: PortId) -> u64 {
        let costs = &self.fixed.machine.costs;
        match self.channels.kind(port) {
            ChannelKind::Pipe => costs.pipe_wait_ns,
            _ => costs.socket_wait_ns,
        }
    }

    /// The queue that those who call on `port` sleep in.
    fn queue_of(&self, port: PortId) -> usize {
        match buffer::one_queue(self.channels.kind(port), &self.fixed.history) {
            true => port.index() & !1,
            false => port.index(),
        }
    }

    /// Whether a wakeup of that kind of channel wakes one sleeper only.
    fn wakes_one(&self, kind: ChannelKind) -> bool {
        buffer::exclusive(kind, &self.fixed.history)
    }

    /// Those who sleep at `port` are to be woken by the current task of `cpu`: all, or the one who came first.
    fn wake_sleepers(&mut self, cpu: CpuId, port: PortId, sync: bool) {
        let one = self.wakes_one(self.channels.kind(port));
        let queue = self.queue_of(port);
        let sleepers = &mut self.channels.sleepers[queue];
        let c = &mut self.cpus[cpu];
        let list = &mut c.to_wake[Context::Task as usize];
        if one {
            list.extend(sleepers.pop_front());
        } else {
            list.extend(sleepers.drain(..).rev());
        }
        c.sync_wakes = sync;
    }

    /// An operation that is not over goes on: by a further call, a further copy, or by sleeping until there
    /// is something.
    pub fn transfer_on(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        if t.returned {
            return self.call(cpu, curr, t);
        }
        let may = match t.sends {
            true => self.channels.buffers[t.port.peer().index()].room(t.left, t.opens) > 0,
            false => !self.channels.buffers[t.port.index()].is_empty(),
        };
        if may {
            return self.copy(cpu, curr, t, if t.back { self.sleeping_ns(t.port) } else { 0 });
        }
        self.tasks[curr].user = UserOp::Transfer(Transfer { slept: true, back: true, ..t });
        let queue = self.queue_of(t.port);
        self.channels.sleepers[queue].push_back(curr);
        self.block(cpu, curr);
    }
}
