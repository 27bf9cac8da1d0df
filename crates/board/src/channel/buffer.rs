//! Channels: the bytes in a pipe or a socket, the room left in it, and when a sleeper at either end is woken.
//!
//! Buffers have the default sizes and the accounting of kernels 3.4 to 6.x; amounts are bytes. Nothing here takes time;
//! the driver adds that. Rules, by kind:
//!
//! - pipe (`fs/pipe.c`): 16 pages. The bytes of a call beyond whole pages join the last page if all of them fit there;
//!   otherwise they start pages of their own. So 40 messages of 100 bytes share a page, and its last 96 bytes stay
//!   unused.
//! - UNIX stream (`net/unix`, `net/core/sock.c`): every message is held in buffers of at most 36,544 bytes, charged by
//!   their `truesize` against SO_SNDBUF of 212,992; one more is taken while the sum is below that.
//! - TCP over loopback: unread bytes count against 131,072 (the middle of `tcp_rmem`). Not modelled: the sender's own
//!   queue and the growth of both buffers. A task that waits for answers never fills them; a one-way stream blocks
//!   earlier than in the kernel.
//! - UDP over loopback: datagrams are charged by `truesize` against SO_RCVBUF of 212,992; a datagram that arrives while
//!   more than that is queued is lost. The sender never waits, since loopback uncharges the datagram at once.

use schedlab_kernel::History;
use schedlab_workload::ChannelKind;
use std::collections::VecDeque;

/// A page, bytes.
const PAGE: u32 = 4096;
/// Pages of a pipe (PIPE_DEF_BUFFERS).
const PIPE_PAGES: usize = 16;
/// Default SO_SNDBUF and SO_RCVBUF (256 times a buffer of 256 bytes with its heads).
const SOCKET_BYTES: u64 = 212_992;
/// Default receive buffer of TCP.
const TCP_BYTES: u64 = 131_072;
/// `struct sk_buff` and `struct skb_shared_info`, in whole cache lines.
const SKB_BYTES: u64 = 256;
const SKB_SHARED_BYTES: u64 = 320;
/// Bytes of a message that fit in a buffer's head; the rest lies in pages, at most 32 KB of them (UNIX_SKB_FRAGS_SZ).
const SKB_HEAD_BYTES: u32 = PAGE - SKB_SHARED_BYTES as u32;
const SKB_PAGED_BYTES: u32 = 32_768;
/// IP and UDP headers, and the room for the link's.
const UDP_HEADERS: u32 = 59;
/// Bytes of a datagram and its headers that lie in one piece (SKB_MAX_ALLOC).
const SLAB_MAX_BYTES: u32 = 4 * PAGE - SKB_SHARED_BYTES as u32;

/// The memory charged for a buffer with `head` bytes in its head and `paged` bytes in pages (`skb->truesize`):
/// allocations are rounded up to powers of two. This holds for kernels 4.5 to 6.2; 6.3 rounds small heads differently,
/// which is not modelled.
fn truesize(head: u32, paged: u32) -> u64 {
    let head = (u64::from(head).next_multiple_of(64) + SKB_SHARED_BYTES).next_power_of_two();
    SKB_BYTES + head + u64::from(paged.next_multiple_of(PAGE))
}

/// The charge of a UNIX stream buffer of that size.
pub fn unix_truesize(bytes: u32) -> u64 {
    let paged = bytes.saturating_sub(SKB_HEAD_BYTES).next_multiple_of(PAGE).min(bytes);
    truesize(bytes - paged, paged)
}

/// The memory for a message that a kernel with init_on_alloc clears, beyond what a message of a byte needs: the kind's
/// own price has that. TCP, and UDP above what a slab holds (`SKB_MAX_ALLOC`), write into 32 KB that the sender used
/// before (`sk_page_frag()`), and clear what goes beyond.
pub fn cleared_bytes(kind: ChannelKind, bytes: u32) -> u64 {
    let datagram = |bytes: u32| truesize(bytes.saturating_add(UDP_HEADERS), 0);
    match kind {
        ChannelKind::Pipe => 0,
        ChannelKind::Unix => unix_truesize(bytes).saturating_sub(unix_truesize(1)),
        ChannelKind::Udp if bytes.saturating_add(UDP_HEADERS) < SLAB_MAX_BYTES => {
            datagram(bytes).saturating_sub(datagram(1))
        }
        ChannelKind::Tcp | ChannelKind::Udp => {
            u64::from(bytes.saturating_sub(1) / SKB_PAGED_BYTES * SKB_PAGED_BYTES)
        }
    }
}

/// A page, message buffer or datagram.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Bytes not read yet.
    left: u32,
    /// The offset at which its data end. Bytes that were read leave no room after them.
    end: u32,
    /// Bytes charged for it; 0 for a page.
    charge: u64,
}

/// One direction of a channel.
#[derive(Clone, Debug)]
pub struct Buffer {
    kind: ChannelKind,
    /// Oldest first; empty for TCP.
    parts: VecDeque<Part>,
    /// Bytes not read yet.
    unread: u64,
    /// Sum of the charges, bytes.
    charged: u64,
    /// Bytes taken in and given out so far. A datagram that was cut short counts in full.
    pub written: u64,
    /// See `written`.
    pub read: u64,
    /// Parts that were begun so far.
    parts_begun: u64,
    /// A TCP writer found no room and sleeps, or is about to sleep (SOCK_NOSPACE).
    no_space: bool,
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Bytes that went in, or were lost.
    pub bytes: u32,
    /// The write was a datagram, and there was no room for it.
    pub lost: bool,
}

/// The outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Bytes that were read.
    pub bytes: u32,
    /// A page or buffer became free.
    pub freed: bool,
}

impl Buffer {
    /// An empty buffer.
    pub fn new(kind: ChannelKind) -> Buffer {
        Buffer {
            kind,
            parts: VecDeque::with_capacity(PIPE_PAGES),
            unread: 0,
            charged: 0,
            written: 0,
            read: 0,
            parts_begun: 0,
            no_space: false,
        }
    }
    /// A writer that found no room goes to sleep.
    #[inline]
    pub fn writer_waits(&mut self) {
        self.no_space = self.kind == ChannelKind::Tcp;
    }
    /// The sleepers at the writer's end were woken because room came.
    #[inline]
    pub fn writer_woken(&mut self) {
        self.no_space = false;
    }
    /// Memory charged for the contents, bytes. TCP has another accounting.
    #[inline]
    pub fn charged(&self) -> u64 {
        self.charged
    }
    /// Whether a reader would sleep.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self.kind {
            ChannelKind::Tcp => self.unread == 0,
            _ => self.parts.is_empty(),
        }
    }
    /// Whether a pipe has no free page.
    #[inline]
    pub fn pages_full(&self) -> bool {
        self.parts.len() >= PIPE_PAGES
    }

    /// The page of a pipe that the next write goes to, or that the next read comes from, by its number since the pipe
    /// was made; and whether the write begins it, or the read uses it up. `bytes`: of the call. `opens`: as below.
    #[inline]
    pub fn page(&self, sends: bool, bytes: u32, opens: bool) -> (u64, bool) {
        if sends {
            let begins = self.joins(bytes, opens) == 0;
            return ((self.parts_begun + u64::from(begins)).saturating_sub(1), begins);
        }
        let first = self.parts_begun - self.parts.len() as u64;
        (first, self.parts.front().is_some_and(|page| page.left <= bytes))
    }

    /// How many of `bytes` a write would take now. `opens`: no byte of the call is in yet.
    #[inline]
    pub fn room(&self, bytes: u32, opens: bool) -> u32 {
        match self.kind {
            ChannelKind::Pipe => {
                let joins = self.joins(bytes, opens);
                let free = PIPE_PAGES.saturating_sub(self.parts.len()) as u32 * PAGE;
                joins + (bytes - joins).min(free)
            }
            ChannelKind::Unix => {
                let (mut taken, mut charged) = (0, self.charged);
                while taken < bytes && charged < SOCKET_BYTES {
                    let part = (bytes - taken).min(SKB_HEAD_BYTES + SKB_PAGED_BYTES);
                    charged += unix_truesize(part);
                    taken += part;
                }
                taken
            }
            ChannelKind::Tcp => u64::from(bytes).min(TCP_BYTES - self.unread) as u32,
            ChannelKind::Udp => bytes,
        }
    }

    /// How many of the bytes of a call to a pipe join its last page.
    fn joins(&self, bytes: u32, opens: bool) -> u32 {
        let odd = bytes % PAGE;
        let fits = self.parts.back().is_some_and(|p| p.end + odd <= PAGE);
        if opens && fits { odd } else { 0 }
    }

    /// Takes in as many of `bytes` as there is [`Buffer::room`] for.
    #[inline]
    pub fn write(&mut self, bytes: u32, opens: bool) -> Written {
        let taken = self.room(bytes, opens);
        match self.kind {
            ChannelKind::Pipe => {
                let joins = self.joins(bytes, opens);
                if let Some(last) = self.parts.back_mut().filter(|_| joins > 0) {
                    last.left += joins;
                    last.end += joins;
                    debug_assert!(last.end <= PAGE, "a page ends at {} of {PAGE} bytes", last.end);
                }
                self.split(taken - joins, PAGE, |_| 0);
            }
            ChannelKind::Unix => self.split(taken, SKB_HEAD_BYTES + SKB_PAGED_BYTES, unix_truesize),
            ChannelKind::Tcp => {}
            ChannelKind::Udp => {
                if self.charged > SOCKET_BYTES {
                    return Written { bytes, lost: true };
                }
                self.push(bytes, truesize(bytes.saturating_add(UDP_HEADERS), 0));
            }
        }
        self.unread += u64::from(taken);
        self.written += u64::from(taken);
        debug_assert!(taken <= bytes, "{taken} of {bytes} bytes were written");
        self.assert_accounts();
        Written { bytes: taken, lost: false }
    }

    /// Asserts what needs no walk over the parts: the sums, and the room that the kind has.
    #[inline]
    fn assert_accounts(&self) {
        let Buffer { kind, unread, charged, written, read, .. } = *self;
        let (parts, most) = (self.parts.len(), self.most());
        debug_assert!(written == read + unread, "{written} bytes in, {read} out, and {unread} left");
        debug_assert!(unread <= most, "{unread} bytes are in a {kind:?}, which holds {most}");
        debug_assert!(kind != ChannelKind::Pipe || parts <= PIPE_PAGES, "a pipe has {parts} pages");
        debug_assert!(kind != ChannelKind::Tcp || parts == 0, "a TCP buffer has {parts} parts");
        debug_assert!(parts > 0 || charged == 0, "{charged} bytes are charged for nothing");
        debug_assert!(parts > 0 || unread == 0 || kind == ChannelKind::Tcp, "{unread} bytes are in no part");
    }

    /// The most bytes that it holds.
    fn most(&self) -> u64 {
        match self.kind {
            ChannelKind::Pipe => PIPE_PAGES as u64 * u64::from(PAGE),
            ChannelKind::Tcp => TCP_BYTES,
            // The charge exceeds the bytes held; the last buffer may exceed the limit.
            _ => SOCKET_BYTES + u64::from(u16::MAX),
        }
    }

    fn split(&mut self, bytes: u32, largest: u32, charge: impl Fn(u32) -> u64) {
        let mut rest = bytes;
        while rest > 0 {
            let part = rest.min(largest);
            self.push(part, charge(part));
            rest -= part;
        }
    }

    fn push(&mut self, bytes: u32, charge: u64) {
        self.parts_begun += 1;
        self.parts.push_back(Part { left: bytes, end: bytes, charge });
        self.charged += charge;
    }

    /// How many bytes a read of `bytes` would give now.
    #[inline]
    pub fn ready(&self, bytes: u32) -> u32 {
        let there = match self.kind {
            ChannelKind::Udp => self.parts.front().map_or(0, |p| u64::from(p.left)),
            _ => self.unread,
        };
        there.min(u64::from(bytes)) as u32
    }

    /// Takes out up to `bytes`; the rest of a datagram is thrown away.
    #[inline]
    pub fn take(&mut self, bytes: u32) -> Taken {
        let got = self.ready(bytes);
        let gone = match self.kind {
            ChannelKind::Udp => self.parts.front().map_or(0, |p| p.left),
            _ => got,
        };
        let before = self.parts.len();
        self.drop_parts(gone);
        self.unread -= u64::from(gone);
        self.read += u64::from(gone);
        debug_assert!(got <= bytes && got <= gone, "{got} of {bytes} bytes were read, {gone} are gone");
        self.assert_accounts();
        let freed = match self.kind {
            ChannelKind::Tcp => got > 0,
            _ => self.parts.len() < before,
        };
        Taken { bytes: got, freed }
    }

    /// Takes `bytes` bytes off the oldest parts, and drops the parts that are empty then (also an empty datagram).
    fn drop_parts(&mut self, bytes: u32) {
        let mut rest = bytes;
        while let Some(part) = self.parts.front_mut() {
            let here = rest.min(part.left);
            part.left -= here;
            rest -= here;
            if part.left > 0 {
                break;
            }
            self.charged -= part.charge;
            self.parts.pop_front();
            if rest == 0 {
                break;
            }
        }
    }

    /// Whether a write wakes a sleeping reader. `was_empty`: the buffer was empty before it. A pipe with two queues
    /// skips the wakeup if an unread message has caused one already.
    #[inline]
    pub fn wakes_reader(&self, was_empty: bool, history: &History) -> bool {
        self.kind != ChannelKind::Pipe || !history.pipe_two_queues || was_empty
    }

    /// Whether a read wakes a sleeping writer. `was_full`: no page was free before it.
    ///
    /// Pipes with one queue: whenever a page came free. Pipes with two: whenever the pipe had been full, even if it
    /// still is; later kernels (`pipe_stays_full`) skip that last case. UNIX: when a message buffer came free and at
    /// most a quarter of SO_SNDBUF is charged (`unix_write_space`). TCP: when a writer found no room before
    /// (`tcp_check_space`) and the free bytes are at least half of the used ones (`sk_stream_write_space`). A wakeup
    /// reaches all who sleep at that end, a reader of the other direction included.
    #[inline]
    pub fn wakes_writer(&self, was_full: bool, freed: bool, history: &History) -> bool {
        match self.kind {
            ChannelKind::Pipe if !history.pipe_two_queues => freed,
            ChannelKind::Pipe => was_full && (!history.pipe_stays_full || !self.pages_full()),
            ChannelKind::Unix => freed && self.charged * 4 <= SOCKET_BYTES,
            ChannelKind::Tcp => self.no_space && freed && self.unread * 3 <= TCP_BYTES * 2,
            ChannelKind::Udp => false,
        }
    }

    /// Checks the accounts against each other; for tests of the whole simulator.
    ///
    /// # Errors
    /// A sentence that names the account that does not add up.
    pub fn check(&self) -> Result<(), String> {
        let left: u64 = self.parts.iter().map(|p| u64::from(p.left)).sum();
        let charged: u64 = self.parts.iter().map(|p| p.charge).sum();
        let most = self.most();
        if self.written != self.read + self.unread {
            return Err(format!("{} bytes in, {} out, {} left", self.written, self.read, self.unread));
        }
        if self.kind != ChannelKind::Tcp && (left, charged) != (self.unread, self.charged) {
            return Err(format!(
                "{left} bytes charged {charged}, counted {} and {}",
                self.unread, self.charged
            ));
        }
        if self.unread > most {
            return Err(format!("{} bytes in a {:?} that holds {most}", self.unread, self.kind));
        }
        Ok(())
    }
}

/// Whether readers and writers of the channel sleep in one queue. (Both tasks at one end of a socket share a queue, but
/// each end has its own.)
pub fn one_queue(kind: ChannelKind, history: &History) -> bool {
    kind == ChannelKind::Pipe && !history.pipe_two_queues
}

/// Whether a wakeup wakes only the oldest sleeper, which wakes the next one if something is left. Otherwise a wakeup
/// wakes all sleepers, the newest first.
pub fn exclusive(kind: ChannelKind, history: &History) -> bool {
    match kind {
        ChannelKind::Pipe => history.pipe_exclusive,
        ChannelKind::Udp => true,
        ChannelKind::Unix | ChannelKind::Tcp => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schedlab_base::Version;

    const OLD: &History = &History::of(Version::new(5, 4));
    const NEW: &History = &History::of(Version::new(6, 5));
    const V6_14: &History = &History::of(Version::new(6, 14));

    /// How many messages of that size fit before a writer has to wait, and their bytes.
    fn fill(kind: ChannelKind, bytes: u32) -> (u32, u64) {
        let mut buffer = Buffer::new(kind);
        let mut messages = 0;
        while buffer.write(bytes, true) == (Written { bytes, lost: false }) {
            messages += 1;
        }
        (messages, buffer.unread)
    }

    #[test]
    fn memory_that_is_cleared_for_a_message_is_what_was_counted_in_guests() {
        let of = |kind| [1, 100, 1_000, 8_000, 32_768, 65_000].map(|bytes| cleared_bytes(kind, bytes));
        // Instructions of a write beyond those for a byte and its copy: 1537 of 1000 bytes, 8792 of 8000.
        assert_eq!(of(ChannelKind::Unix)[..4], [0, 0, 1_536, 8_192]);
        // 1536 and 16370; from 16 KB to 32 KB none.
        assert_eq!(of(ChannelKind::Udp), [0, 0, 1_536, 15_872, 0, 32_768]);
        assert_eq!(of(ChannelKind::Tcp), [0, 0, 0, 0, 0, 32_768]);
    }

    #[test]
    fn a_pipe_holds_sixteen_pages_and_wastes_the_rest_of_a_page() {
        assert_eq!(fill(ChannelKind::Pipe, 4096).0, 16);
        assert_eq!(fill(ChannelKind::Pipe, 64), (1024, 65_536));
        assert_eq!(fill(ChannelKind::Pipe, 100), (640, 64_000), "forty to a page");
        assert_eq!(fill(ChannelKind::Pipe, 2049).0, 16, "no two fit into a page");
        // 5000 bytes are a page and 904 bytes. The 904 join those of the previous message if these came last.
        assert_eq!(
            fill(ChannelKind::Pipe, 5000),
            (10, 54_096),
            "two in three pages, and a page of the eleventh"
        );
    }

    #[test]
    fn only_the_start_of_a_call_joins_a_page_and_read_bytes_make_no_room_in_it() {
        let mut pipe = Buffer::new(ChannelKind::Pipe);
        pipe.write(100, true);
        pipe.write(100, false);
        assert_eq!(pipe.parts.len(), 2);
        pipe.write(3900, true);
        assert_eq!(pipe.take(3000), Taken { bytes: 3000, freed: true });
        assert_eq!(pipe.parts.len(), 1);
        pipe.write(97, true);
        assert_eq!(pipe.parts.len(), 2, "the page's last 96 bytes are behind 4000, read or not");
        assert_eq!(pipe.take(1), Taken { bytes: 1, freed: false });
    }

    #[test]
    fn small_unix_messages_are_charged_by_the_memory_they_occupy() {
        // 100 bytes: two lines of head and 320 of shared info make 512, and 256 for the buffer itself.
        assert_eq!(unix_truesize(100), 768);
        assert_eq!(unix_truesize(1), 768);
        assert_eq!(unix_truesize(193), 1280, "no longer within 512");
        assert_eq!(unix_truesize(3776), 256 + 4096, "the largest that lies in the head");
        assert_eq!(unix_truesize(4096), 768 + 4096, "a page, and an empty head");
        assert_eq!(fill(ChannelKind::Unix, 100), (278, 27_800), "277 are charged 212,736");
    }

    #[test]
    fn tcp_counts_bytes_and_udp_loses_datagrams_without_room() {
        assert_eq!(fill(ChannelKind::Tcp, 1000), (131, 131_072), "and 72 bytes of the next");
        let (messages, _) = fill(ChannelKind::Udp, 100);
        assert_eq!(messages, 278);
        let mut udp = Buffer::new(ChannelKind::Udp);
        udp.write(100, true);
        udp.write(0, true);
        udp.write(7, true);
        assert_eq!(udp.take(10), Taken { bytes: 10, freed: true }, "the rest of it is gone");
        assert_eq!(udp.take(10), Taken { bytes: 0, freed: true }, "an empty one came");
        assert_eq!((udp.take(10).bytes, udp.is_empty()), (7, true));
    }

    #[test]
    fn writers_are_woken_when_their_kind_has_room_enough() {
        let mut unix = Buffer::new(ChannelKind::Unix);
        for _ in 0..278 {
            unix.write(100, true);
        }
        let mut taken = 0;
        while !unix.wakes_writer(false, unix.parts.len() < 278, NEW) {
            unix.take(100);
            taken += 1;
        }
        assert_eq!(278 - taken, 212_992 / 4 / 768, "a quarter is charged");
        assert!(!unix.wakes_writer(false, false, NEW), "a message half read frees nothing");
        let mut tcp = Buffer::new(ChannelKind::Tcp);
        tcp.write(u32::MAX, true);
        tcp.take(43_690);
        tcp.writer_waits();
        assert!(!tcp.wakes_writer(false, true, NEW), "less than half of what is not free");
        tcp.take(1);
        assert!(tcp.wakes_writer(false, true, NEW));
        tcp.writer_woken();
        assert!(!tcp.wakes_writer(false, true, NEW), "nobody has missed room since");
    }

    #[test]
    fn pipes_wake_by_their_release() {
        let mut pipe = Buffer::new(ChannelKind::Pipe);
        pipe.write(16 * PAGE, true);
        assert!(pipe.pages_full() && pipe.wakes_reader(false, OLD) && !pipe.wakes_reader(false, NEW));
        pipe.take(1);
        assert!(!pipe.wakes_writer(true, false, OLD), "no page came free");
        assert!(pipe.wakes_writer(true, false, NEW), "it had been full");
        assert!(!pipe.wakes_writer(true, false, V6_14), "and still is");
        pipe.take(PAGE);
        assert!(pipe.wakes_writer(true, true, V6_14));
        assert!(pipe.wakes_writer(false, true, OLD) && !pipe.wakes_writer(false, true, NEW));
        assert!(one_queue(ChannelKind::Pipe, OLD) && !one_queue(ChannelKind::Unix, OLD));
        assert!(
            !exclusive(ChannelKind::Pipe, &History::of(Version::new(5, 5)))
                && exclusive(ChannelKind::Pipe, NEW)
        );
    }

    proptest! {
        /// For any series of writes and reads: the bytes out are the bytes in; a read gives as much as `ready` said,
        /// and a write takes as much as `room` said; an empty channel always has room for something.
        #[test]
        fn bytes_are_conserved(
            kind in prop_oneof![Just(ChannelKind::Pipe), Just(ChannelKind::Unix), Just(ChannelKind::Tcp)],
            acts in prop::collection::vec((any::<bool>(), 1u32..100_000, any::<bool>()), 1..80),
        ) {
            let mut buffer = Buffer::new(kind);
            let (mut put, mut got) = (0u64, 0u64);
            for (writes, bytes, opens) in acts {
                if writes {
                    let room = buffer.room(bytes, opens);
                    prop_assert!(room > 0 || !buffer.is_empty());
                    prop_assert_eq!(buffer.write(bytes, opens).bytes, room);
                    put += u64::from(room);
                } else {
                    let ready = buffer.ready(bytes);
                    prop_assert_eq!(ready == 0, buffer.is_empty());
                    prop_assert_eq!(buffer.take(bytes).bytes, ready);
                    got += u64::from(ready);
                }
                prop_assert_eq!((buffer.written, buffer.read), (put, got));
                buffer.check().map_err(TestCaseError::fail)?;
            }
        }
    }
}
