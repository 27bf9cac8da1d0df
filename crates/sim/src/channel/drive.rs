//! Reads and writes of channels through time: calls, copies, the lock, sleeping, and waking the other side.
//!
//! A call takes the syscall entry and the kind's own price, then the copy of the bytes that are there or that fit. At
//! the end of the copy the bytes change hands, and the calling task wakes the sleepers at the other end. Only then does
//! the call continue, sleep or return. A writer stays in one call until all its bytes are in. A reader's call returns
//! with the bytes that were there; the missing ones need a further call. All these wakeups let the scheduler know that
//! the waker is about to sleep (WF_SYNC), except those of TCP writers.
//!
//! If the machine states how long a call holds its channel's lock (`pipe_lock_ns`, with the copy; `unix_lock_ns`,
//! without), others wait for it ([`super::lock`]). A waiter with a processor of its own spins; on CPUs that take turns,
//! a spinner's turn ends. On such CPUs a lock is often kept for a whole round of turns, since a good part of a call is
//! spent in it. TCP's and UDP's locks are never waited for.
//!
//! Messages to UNIX sockets lie in kernel memory, which the kernel keeps for later messages. The page allocator is
//! needed only when more memory is held than ever before, and takes longer (`unix_new_ns`). The CPU that freed the
//! memory is not tracked.
//!
//! The CPUs that last wrote to and read from a buffer are remembered: data in another CPU's cache take longer to touch
//! (`remote_send_ns`, `remote_recv_ns`), at the same price for every distance. If several CPUs have written, the last
//! one counts for all unread bytes.

use super::buffer;
use super::lock::POLL_NS;
use super::state::{ChannelMemory, Transfer};
use crate::frame::{Step, Sys};
use crate::net::Packet;
use crate::system::{Context, System};
use crate::task::UserOp;
use schedlab_base::{CpuId, Error, TaskId};
use schedlab_workload::{ChannelKind, PortId};

/// The largest datagram, bytes: an IP packet less its headers.
const LARGEST_DATAGRAM: u32 = 65_507;

/// The charge of the messages that fill the slabs a CPU has at hand, bytes: 32 messages. Computed from the sizes of
/// slabs (16 heads in a page, 32 bodies in four), not measured.
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
            self.run.fault = Some(Error::input(format!("task '{}' {what}", self.tasks[curr].name)));
            return;
        }
        let (part, opens, returned, slept, back) = (0, true, false, false, false);
        self.call(
            cpu,
            curr,
            Transfer { port, sends, left: bytes, part, held_ns: 0, opens, returned, slept, back },
        );
    }

    /// A system call for the bytes that are left.
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

    /// Time that a call on this end still takes after its wakeups, ns; a part of its total time.
    fn end_ns(&self, port: PortId) -> u64 {
        match self.channels.kind(port) {
            ChannelKind::Pipe | ChannelKind::Unix => self.fixed.machine.costs.channel_end_ns,
            ChannelKind::Tcp | ChannelKind::Udp => 0,
        }
    }

    /// Copies the bytes that are there or that fit, after `entry_ns`.
    fn copy(&mut self, cpu: CpuId, curr: TaskId, mut t: Transfer, entry_ns: u64) {
        t.back = false;
        t.part = self.fits(t);
        let lock_ns = self.lock_ns(t.port);
        // The lock time is a part of the call's time. A call that continues after sleeping may have less time left than
        // that.
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
            // A task that finds nothing to copy releases the lock at once.
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

    /// How many of a transfer's bytes are there, or fit, now.
    fn fits(&self, t: Transfer) -> u32 {
        let buffer = &self.channels.buffers[t.buffer()];
        if t.sends { buffer.room(t.left, t.opens) } else { buffer.ready(t.left) }
    }

    /// Time to copy them, ns.
    fn copy_ns(&self, cpu: CpuId, t: Transfer) -> u64 {
        let copied_ns = u64::from(t.part) * self.fixed.machine.costs.copy_ns_per_kb / 1024;
        copied_ns + self.remote_ns(cpu, t) + self.memory_ns(t)
    }

    /// Extra time of a write for its message's memory, ns: the memory is new, or is not at hand.
    fn memory_ns(&self, t: Transfer) -> u64 {
        let (costs, ChannelMemory { held, most }) = (&self.fixed.machine.costs, self.channels.memory);
        match t.sends && t.part > 0 && self.channels.kind(t.port) == ChannelKind::Unix {
            true if held + buffer::unix_truesize(t.part) > most => costs.unix_new_ns,
            true if held > SLAB => costs.unix_reuse_ns,
            _ => 0,
        }
    }

    /// Extra time of a transfer because another CPU used the buffer last, ns. A transfer of no bytes touches only the
    /// lock and pays nothing.
    fn remote_ns(&self, cpu: CpuId, t: Transfer) -> u64 {
        let costs = &self.fixed.machine.costs;
        match t.sends {
            _ if t.part == 0 => 0,
            true if self.channels.users[t.port.peer().index()].write_is_remote(cpu) => costs.remote_send_ns,
            false if self.channels.users[t.port.index()].read_is_remote(cpu) => costs.remote_recv_ns,
            _ => 0,
        }
    }

    /// The copy is over: the bytes change hands, and the sleepers that waited for them are woken.
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

    /// The copied bytes enter the channel, as far as there still is room. Returns whether all bytes are in.
    fn put(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let (kind, to) = (self.channels.kind(t.port), t.port.peer());
        if self.others.nic.is_far(to) {
            let bytes = std::mem::take(&mut t.part);
            t.left -= bytes;
            t.opens = false;
            self.send_away(cpu, Packet { to, bytes });
            return t.left == 0 || kind == ChannelKind::Udp;
        }
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
        self.accounts.stats.datagrams_lost += u64::from(written.lost);
        let news = !written.lost && (written.bytes > 0 || datagram);
        let full = buffer.pages_full();
        if news && buffer.wakes_reader(was_empty, &self.fixed.history) {
            self.wake_sleepers(cpu, to, true);
        }
        if done && t.slept && kind == ChannelKind::Pipe && self.wakes_one(kind) && !full {
            self.wake_sleepers(cpu, t.port, true);
        }
        if news && let Some(waiter) = self.channels.came(to) {
            let c = &mut self.cpus[cpu];
            c.to_wake[Context::Task as usize].push(waiter);
            c.sync_wakes = false;
        }
        done
    }

    /// The copied bytes leave the channel, as far as no other task took them. Returns whether all wanted bytes have
    /// come.
    fn get(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let (kind, from) = (self.channels.kind(t.port), t.port);
        let datagram = kind == ChannelKind::Udp;
        let buffer = &mut self.channels.buffers[from.index()];
        if t.part == 0 && buffer.ready(t.left) > 0 {
            // Another reader took the bytes first.
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
        let wakes_writer = buffer.wakes_writer(was_full, taken.freed, &self.fixed.history);
        self.was_read(cpu, from);
        if t.returned && wakes_writer {
            self.channels.buffers[from.index()].writer_woken();
            self.wake_sleepers(cpu, from.peer(), kind != ChannelKind::Tcp);
        }
        if t.returned && t.slept && kind == ChannelKind::Pipe && self.wakes_one(kind) && !empty {
            self.wake_sleepers(cpu, from, true);
        }
        if datagram { t.returned } else { t.left == 0 }
    }

    /// Extra time of sleeping at a channel, beside the call and the switch, ns. It is charged when the task is back.
    fn sleeping_ns(&self, port: PortId) -> u64 {
        let costs = &self.fixed.machine.costs;
        match self.channels.kind(port) {
            ChannelKind::Pipe => costs.pipe_wait_ns,
            _ => costs.socket_wait_ns,
        }
    }

    /// The queue that callers on `port` sleep in.
    fn queue_of(&self, port: PortId) -> usize {
        if buffer::one_queue(self.channels.kind(port), &self.fixed.history) {
            port.index() & !1
        } else {
            port.index()
        }
    }

    /// Whether a wakeup of that kind of channel wakes one sleeper only.
    fn wakes_one(&self, kind: ChannelKind) -> bool {
        buffer::exclusive(kind, &self.fixed.history)
    }

    /// Notes the readers that sleep at `port` as those that a context of `cpu` is to wake.
    pub fn wake_readers(&mut self, cpu: CpuId, port: PortId, context: Context) {
        let sync = self.cpus[cpu].sync_wakes;
        self.wake_sleepers_in(context, cpu, port, sync);
        let waiter = self.channels.came(port);
        self.cpus[cpu].to_wake[context as usize].extend(waiter);
    }
    /// Notes the sleepers at `port` that the current task of `cpu` is to wake: all of them, or the oldest.
    fn wake_sleepers(&mut self, cpu: CpuId, port: PortId, sync: bool) {
        self.wake_sleepers_in(Context::Task, cpu, port, sync);
    }
    fn wake_sleepers_in(&mut self, context: Context, cpu: CpuId, port: PortId, sync: bool) {
        let one = self.wakes_one(self.channels.kind(port));
        let queue = self.queue_of(port);
        let sleepers = &mut self.channels.sleepers[queue];
        let c = &mut self.cpus[cpu];
        let list = &mut c.to_wake[context as usize];
        if one {
            list.extend(sleepers.pop_front());
        } else {
            list.extend(sleepers.drain(..).rev());
        }
        c.sync_wakes = sync;
    }

    /// An unfinished operation continues: by a further call, a further copy, or by sleeping until there is something.
    pub fn transfer_on(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        if t.returned {
            return self.call(cpu, curr, t);
        }
        let may = if t.sends {
            self.channels.buffers[t.port.peer().index()].room(t.left, t.opens) > 0
        } else {
            !self.channels.buffers[t.port.index()].is_empty()
        };
        if may {
            return self.copy(cpu, curr, t, if t.back { self.sleeping_ns(t.port) } else { 0 });
        }
        self.tasks[curr].user = UserOp::Transfer(Transfer { slept: true, back: true, ..t });
        if t.sends {
            self.channels.buffers[t.port.peer().index()].writer_waits();
        }
        let queue = self.queue_of(t.port);
        self.channels.sleepers[queue].push_back(curr);
        self.block(cpu, curr);
    }
}
