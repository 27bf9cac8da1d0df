//! Prices of calls on channels, ns, from the machine's costs.
//!
//! A call takes the entry and the kind's own price, then the copy. Messages to UNIX sockets lie in kernel memory, which
//! the kernel keeps for later messages. The page allocator is needed only when more memory is held than ever before,
//! and takes longer (`unix_new_ns`). The CPU that freed the memory is not tracked.
//!
//! The CPUs that last wrote to and read from a buffer are remembered: data in another CPU's cache take longer to touch
//! (`remote_send_ns`, `remote_recv_ns`), at the same price for every distance. If several CPUs have written, the last
//! one counts for all unread bytes. Where lines have owners, these costs are 0, and lines are charged
//! ([`crate::objects`]).

use super::buffer;
use super::state::{ChannelMemory, Channels, Transfer};
use schedlab_base::CpuId;
use schedlab_machine::Costs;
use schedlab_workload::{ChannelKind, PortId};

/// The charge of the messages that fill the slabs a CPU holds ready, bytes: 32 messages. Computed from the sizes of
/// slabs (16 heads in a page, 32 bodies in four), not measured.
const SLAB: u64 = 24 * 1024;

impl Channels {
    /// A call's entry and its kind's own price, up to the copy.
    #[inline]
    pub fn entry_ns(&self, costs: &Costs, t: Transfer) -> u64 {
        let own_ns = match (self.kind(t.port), t.sends) {
            (ChannelKind::Pipe, _) => costs.pipe_io_ns,
            (ChannelKind::Unix, true) => costs.unix_send_ns,
            (ChannelKind::Unix, false) => costs.unix_recv_ns,
            (ChannelKind::Tcp, true) => costs.tcp_send_ns,
            (ChannelKind::Tcp, false) => costs.tcp_recv_ns,
            (ChannelKind::Udp, true) => costs.udp_send_ns,
            (ChannelKind::Udp, false) => costs.udp_recv_ns,
        };
        costs.program_ns + costs.syscall_ns + own_ns.saturating_sub(self.end_ns(costs, t.port))
    }

    /// Time that a call on this end still takes after its wakeups; a part of its total time.
    #[inline]
    pub fn end_ns(&self, costs: &Costs, port: PortId) -> u64 {
        match self.kind(port) {
            ChannelKind::Pipe | ChannelKind::Unix => costs.channel_end_ns,
            ChannelKind::Tcp | ChannelKind::Udp => 0,
        }
    }

    /// How long a call holds the lock of its channel, without the copy; 0 where locks are not simulated.
    #[inline]
    pub fn lock_ns(&self, costs: &Costs, port: PortId) -> u64 {
        match self.kind(port) {
            ChannelKind::Pipe => costs.pipe_lock_ns,
            ChannelKind::Unix => costs.unix_lock_ns,
            ChannelKind::Tcp | ChannelKind::Udp => 0,
        }
    }

    /// Whether those that write to a socket wait for one that wakes its sleepers.
    #[inline]
    pub fn sleepers_are_locked(&self, costs: &Costs, port: PortId) -> bool {
        costs.unix_lock_ns > 0 && self.kind(port) != ChannelKind::Pipe
    }

    /// How long a task that has got its buffer's lock holds it. In a pipe the transfer learns here how much is copied.
    #[inline]
    pub fn held_ns(&self, costs: &Costs, cpu: CpuId, t: &mut Transfer) -> u64 {
        if self.kind(t.port) != ChannelKind::Pipe {
            return t.held_ns;
        }
        t.part = self.fits(*t);
        t.held_ns + self.copy_ns(costs, cpu, *t)
    }
    /// The copy of a transfer's part.
    #[inline]
    pub fn copy_ns(&self, costs: &Costs, cpu: CpuId, t: Transfer) -> u64 {
        let copied_ns = u64::from(t.part) * costs.copy_ns_per_kb / 1024;
        copied_ns + self.remote_ns(costs, cpu, t) + self.memory_ns(costs, t)
    }

    /// The cost of sleeping at a channel, without the call and the switch. It is charged when the task is back.
    #[inline]
    pub fn sleeping_ns(&self, costs: &Costs, port: PortId) -> u64 {
        match self.kind(port) {
            ChannelKind::Pipe => costs.pipe_wait_ns,
            _ => costs.socket_wait_ns,
        }
    }

    /// Extra time of a write for its message's memory: it is cleared, new, or not held ready.
    fn memory_ns(&self, costs: &Costs, t: Transfer) -> u64 {
        if !t.sends || t.part == 0 {
            return 0;
        }
        let (ChannelMemory { held, most }, kind) = (self.memory, self.kind(t.port));
        let got_ns = match kind == ChannelKind::Unix {
            true if held + buffer::unix_truesize(t.part) > most => costs.unix_new_ns,
            true if held > SLAB => costs.unix_reuse_ns,
            _ => 0,
        };
        got_ns + buffer::cleared_bytes(kind, t.part) * costs.clear_ns_per_kb / 1024
    }

    /// Extra time of a transfer because another CPU used the buffer last. A transfer of no bytes touches only the lock
    /// and pays nothing.
    fn remote_ns(&self, costs: &Costs, cpu: CpuId, t: Transfer) -> u64 {
        match t.sends {
            _ if t.part == 0 => 0,
            true if self.users[t.port.peer().index()].write_is_remote(cpu) => costs.remote_send_ns,
            false if self.users[t.port.index()].read_is_remote(cpu) => costs.remote_recv_ns,
            _ => 0,
        }
    }
}
