//! State: the channels of a workload, and an operation that is under way on one of them.

use super::buffer::{Buffer, Written};
use super::lock::Lock;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::{ChannelKind, PortId, SetId};
use std::collections::VecDeque;

/// The CPUs that used a buffer last: their caches hold its messages, its memory and its lock.
#[derive(Clone, Copy, Default, Debug)]
pub struct Users {
    pub writer: Option<CpuId>,
    pub reader: Option<CpuId>,
}

impl Users {
    /// Whether a write from `cpu` touches memory that another CPU wrote, or freed by reading it.
    #[inline]
    pub fn write_is_remote(self, cpu: CpuId) -> bool {
        [self.writer, self.reader].into_iter().flatten().any(|user| user != cpu)
    }
    /// Whether a read on `cpu` gets bytes that another CPU wrote.
    #[inline]
    pub fn read_is_remote(self, cpu: CpuId) -> bool {
        self.writer.is_some_and(|writer| writer != cpu)
    }
}

/// Memory charged for all messages to UNIX sockets, bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct ChannelMemory {
    pub held: u64,
    /// The largest `held` so far.
    pub most: u64,
}

impl ChannelMemory {
    /// A buffer's charge has changed from `before` to `now`, bytes.
    #[inline]
    pub fn changed(&mut self, before: u64, now: u64) {
        debug_assert!(
            before <= self.held,
            "a buffer gives back {before} bytes, and {} are charged",
            self.held
        );
        self.held = self.held - before + now;
        self.most = self.most.max(self.held);
    }
}

/// The most ends that a call finds; the live agent's calls find as many.
pub const BATCH: usize = 64;

/// A set of ends.
#[derive(Clone, Debug)]
pub struct PollSet {
    /// Ends that received something, each once; some may have been read empty since.
    pub came: VecDeque<PortId>,
    /// Ends that the last call found and the program has not got yet.
    pub found: VecDeque<PortId>,
    /// The task that sleeps on it.
    pub sleeper: Option<TaskId>,
}

impl PollSet {
    /// A set of `ends` ends.
    pub fn new(ends: usize) -> PollSet {
        PollSet { came: VecDeque::with_capacity(ends), found: VecDeque::with_capacity(BATCH), sleeper: None }
    }
}

/// The channels of a workload.
#[derive(Default)]
pub struct Channels {
    pub kinds: Vec<ChannelKind>,
    /// By the end that reads them. A pipe's second buffer is never used.
    pub buffers: Vec<Buffer>,
    /// The last users of each buffer.
    pub users: Vec<Users>,
    /// The lock of each buffer.
    pub locks: Vec<Lock>,
    /// The lock of the sleepers at each end.
    pub sleepers_locks: Vec<Lock>,
    /// Whether a sleeper is being woken under that lock: until that is over others see it sleep.
    pub wakes_sleeper: Vec<bool>,
    pub memory: ChannelMemory,
    /// The sleepers at each end, oldest first. If readers and writers share a queue, it is the first end's.
    pub sleepers: Vec<VecDeque<TaskId>>,
    /// The sets of ends that tasks wait on together.
    pub sets: Vec<PollSet>,
    /// The set of each end; empty without sets.
    pub set_of: Vec<Option<SetId>>,
    /// Whether each end is on the list of its set.
    pub listed: Vec<bool>,
}

impl Channels {
    /// Whether a transfer's task holds its channel's lock or waits for it.
    #[inline]
    pub fn locks_out(&self, task: TaskId, t: Transfer) -> bool {
        self.locks[t.buffer()].concerns(task)
    }
    /// Empty channels; at most `tasks` sleep at each. `sets` are the ends of each set.
    pub fn new(kinds: Vec<ChannelKind>, sets: &[Vec<PortId>], tasks: usize) -> Channels {
        let all = if sets.is_empty() { 0 } else { 2 * kinds.len() };
        let mut set_of = vec![None; all];
        for (number, ends) in sets.iter().enumerate() {
            ends.iter().for_each(|end| set_of[end.index()] = Some(SetId(number as u32)));
        }
        let ends = || kinds.iter().flat_map(|kind| [*kind; 2]);
        Channels {
            buffers: ends().map(Buffer::new).collect(),
            users: vec![Users::default(); 2 * kinds.len()],
            memory: ChannelMemory::default(),
            locks: ends().map(|kind| Lock::new(kind, tasks.min(8))).collect(),
            sleepers_locks: ends().map(|_| Lock::new(ChannelKind::Unix, tasks.min(8))).collect(),
            wakes_sleeper: vec![false; 2 * kinds.len()],
            sleepers: ends().map(|_| VecDeque::with_capacity(tasks.min(8))).collect(),
            sets: sets.iter().map(|ends| PollSet::new(ends.len())).collect(),
            set_of,
            listed: vec![false; all],
            kinds,
        }
    }
    /// A message of `bytes` bytes arrives at an end, by an interrupt on `cpu`. Returns how many bytes the channel took,
    /// and whether it lost the message.
    #[inline]
    pub fn take_in(&mut self, end: PortId, bytes: u32, cpu: CpuId) -> Written {
        let at = end.0 as usize;
        if bytes == 0 && self.kind(end) != ChannelKind::Udp {
            return Written { bytes: 0, lost: false };
        }
        self.users[at].writer = Some(cpu);
        self.buffers[at].write(bytes, true)
    }
    /// The kind of the channel that an end belongs to.
    #[inline]
    pub fn kind(&self, port: PortId) -> ChannelKind {
        self.kinds[port.channel()]
    }
    /// Whether any channel may lose data.
    #[inline]
    pub fn may_lose(&self) -> bool {
        self.kinds.contains(&ChannelKind::Udp)
    }
}

/// An unfinished operation on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The task's end.
    pub port: PortId,
    /// It writes.
    pub sends: bool,
    /// Bytes still to go.
    pub left: u32,
    /// Bytes that the copy in progress carries.
    pub part: u32,
    /// How long it will hold the buffer's lock, without the copy under it, ns.
    pub held_ns: u64,
    /// Nothing of this call has been copied yet.
    pub opens: bool,
    /// The call has returned; another one must follow.
    pub returned: bool,
    /// It slept in this call.
    pub slept: bool,
    /// It has done nothing since it slept.
    pub back: bool,
}

impl Transfer {
    /// The buffer it writes to or reads from, by the end that reads it.
    #[inline]
    pub fn buffer(self) -> usize {
        if self.sends { self.port.peer().index() } else { self.port.index() }
    }
}
