//! The exchange of bytes between a transfer and its channel, and the tasks that it wakes.
//!
//! A driver takes a call through time: entry, lock, copy. At the end of the copy it calls [`Channels::put`] or
//! [`Channels::get`], which list the tasks to wake, in the order of the wakeups.

use super::buffer;
use super::state::{Channels, Transfer};
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::History;
use schedlab_workload::{ChannelKind, PortId};

/// The tasks that a call is to wake.
pub struct Wakes<'a> {
    /// In the order of the wakeups.
    pub tasks: &'a mut Vec<TaskId>,
    /// The waker is about to sleep (WF_SYNC).
    pub sync: &'a mut bool,
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Put {
    /// All bytes are in.
    pub done: bool,
    /// It was a datagram, and there was no room for it.
    pub lost: bool,
    /// A message has come, or a part of one.
    pub news: bool,
}

/// The largest datagram, bytes: an IP packet less its headers.
const LARGEST_DATAGRAM: u32 = 65_507;

impl Channels {
    /// A task is to write `bytes` to `port`, or to read as many from it.
    ///
    /// # Errors
    /// The fault, in words that follow the task's name.
    #[inline]
    pub fn begin(&self, port: PortId, sends: bool, bytes: u32) -> Result<Transfer, String> {
        match self.kind(port) {
            ChannelKind::Pipe if sends != (port.0 % 2 == 1) => {
                Err("uses the wrong end of a pipe: the first is read, the second written".to_owned())
            }
            ChannelKind::Udp if sends && bytes > LARGEST_DATAGRAM => {
                Err(format!("sends a datagram of {bytes} bytes: at most {LARGEST_DATAGRAM} fit"))
            }
            _ => Ok(Transfer {
                port,
                sends,
                left: bytes,
                part: 0,
                held_ns: 0,
                opens: true,
                returned: false,
                slept: false,
                back: false,
            }),
        }
    }

    /// How many of a transfer's bytes are there to read, or fit, now.
    #[inline]
    pub fn fits(&self, t: Transfer) -> u32 {
        let buffer = &self.buffers[t.buffer()];
        if t.sends { buffer.room(t.left, t.opens) } else { buffer.ready(t.left) }
    }

    /// Whether a call on a pipe takes the lock of the sleepers at its other end, before it knows whether one sleeps.
    #[inline]
    pub fn looks_for_sleepers(&self, t: Transfer) -> bool {
        let buffer = &self.buffers[t.buffer()];
        let turns = if t.sends { buffer.is_empty() } else { buffer.pages_full() };
        turns && t.part > 0 && self.kind(t.port) == ChannelKind::Pipe
    }

    /// Whether an unfinished transfer finds something to do; otherwise its task sleeps.
    #[inline]
    pub fn may_continue(&self, t: Transfer) -> bool {
        let buffer = &self.buffers[t.buffer()];
        if t.sends { buffer.room(t.left, t.opens) > 0 } else { !buffer.is_empty() }
    }

    /// The task of a transfer that found nothing to do sleeps from now on.
    #[inline]
    pub fn sleeps(&mut self, task: TaskId, t: Transfer, history: &History) {
        if t.sends {
            self.buffers[t.buffer()].writer_waits();
        }
        let queue = self.queue_of(t.port, history);
        let sleepers = &mut self.sleepers[queue];
        debug_assert!(!sleepers.contains(&task), "{task:?} sleeps twice at end {queue}");
        sleepers.push_back(task);
    }

    /// The copied bytes enter the channel as far as there still is room.
    #[inline]
    pub fn put(&mut self, cpu: CpuId, t: &mut Transfer, history: &History, mut wakes: Wakes<'_>) -> Put {
        let (kind, to) = (self.kind(t.port), t.port.peer());
        let buffer = &mut self.buffers[to.index()];
        let (was_empty, held) = (buffer.is_empty(), buffer.charged());
        let written = buffer.write(t.part, t.opens);
        debug_assert!(
            written.bytes <= t.left,
            "{} bytes were written, and {} were left",
            written.bytes,
            t.left
        );
        if kind == ChannelKind::Unix {
            self.memory.changed(held, buffer.charged());
        }
        self.users[to.index()].writer = Some(cpu);
        let datagram = kind == ChannelKind::Udp;
        t.left -= written.bytes;
        t.opens &= written.bytes == 0;
        let done = t.left == 0 || datagram;
        let news = !written.lost && (written.bytes > 0 || datagram);
        let full = buffer.pages_full();
        if news && buffer.wakes_reader(was_empty, history) {
            self.wake_sleepers(to, history, true, &mut wakes);
        }
        if done && t.slept && kind == ChannelKind::Pipe && buffer::exclusive(kind, history) && !full {
            self.wake_sleepers(t.port, history, true, &mut wakes);
        }
        if news && let Some(waiter) = self.came(to) {
            wakes.tasks.push(waiter);
            *wakes.sync = false;
        }
        Put { done, lost: written.lost, news }
    }

    /// The copied bytes leave the channel unless another task took them. Returns whether all wanted bytes have come.
    #[inline]
    pub fn get(&mut self, cpu: CpuId, t: &mut Transfer, history: &History, mut wakes: Wakes<'_>) -> bool {
        let (kind, from) = (self.kind(t.port), t.port);
        let datagram = kind == ChannelKind::Udp;
        let buffer = &mut self.buffers[from.index()];
        if t.part == 0 && buffer.ready(t.left) > 0 {
            // Another reader took the bytes first.
            return false;
        }
        let (was_full, held) = (buffer.pages_full(), buffer.charged());
        let taken = buffer.take(if datagram { t.left } else { t.part });
        debug_assert!(taken.bytes <= t.left, "{} bytes were read, and {} were wanted", taken.bytes, t.left);
        if kind == ChannelKind::Unix {
            self.memory.changed(held, buffer.charged());
        }
        if taken.bytes > 0 {
            self.users[from.index()].reader = Some(cpu);
        }
        t.left -= taken.bytes;
        t.returned = taken.bytes > 0 || taken.freed;
        let empty = buffer.is_empty();
        if t.returned && buffer.wakes_writer(was_full, taken.freed, history) {
            buffer.writer_woken();
            self.wake_sleepers(from.peer(), history, kind != ChannelKind::Tcp, &mut wakes);
        }
        if t.returned && t.slept && kind == ChannelKind::Pipe && buffer::exclusive(kind, history) && !empty {
            self.wake_sleepers(from, history, true, &mut wakes);
        }
        if datagram { t.returned } else { t.left == 0 }
    }

    /// A message has arrived at `port` from elsewhere: its readers are to be woken.
    #[inline]
    pub fn arrived(&mut self, port: PortId, history: &History, mut wakes: Wakes<'_>) {
        let sync = *wakes.sync;
        self.wake_sleepers(port, history, sync, &mut wakes);
        wakes.tasks.extend(self.came(port));
    }

    /// The queue that callers on `port` sleep in.
    fn queue_of(&self, port: PortId, history: &History) -> usize {
        if buffer::one_queue(self.kind(port), history) { port.index() & !1 } else { port.index() }
    }

    /// The sleepers at `port` are to be woken: all of them, or the oldest.
    fn wake_sleepers(&mut self, port: PortId, history: &History, sync: bool, wakes: &mut Wakes<'_>) {
        let one = buffer::exclusive(self.kind(port), history);
        let queue = self.queue_of(port, history);
        let sleepers = &mut self.sleepers[queue];
        if one {
            wakes.tasks.extend(sleepers.pop_front());
        } else {
            wakes.tasks.extend(sleepers.drain(..).rev());
        }
        *wakes.sync = sync;
    }
}
