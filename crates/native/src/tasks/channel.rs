//! Live channels: pipes and connected sockets. They are made before any task, and all tasks keep them open until the
//! end.
//!
//! A transfer that the kernel completes in one piece is a single read(2) or write(2): no clock, no allocation (the
//! task's buffer already has the size of its longest transfer), no check of the phase. Only after a partial transfer,
//! an error or a signal does a task check whether the run is over; then it leaves, in any state of the channel. Since
//! every task holds every end, a leaving peer closes nothing: the other task sleeps until the end, as it would in futex
//! wait.
//!
//! A datagram can be lost even over loopback (full receive buffer, full backlog). A task that waits for it waits until
//! the end. Counts of sent, received and leftover datagrams show the loss: warning `channel.lost`.

use crate::sys::limits;
use crate::sys::{self, Lines};
use schedlab_base::{Error, Ns, Result, Warning};
use schedlab_workload::{ChannelKind, PortId, SetId};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

mod make;
mod sets;

pub(crate) use make::pair;
use make::word;
use sets::Sets;

/// The least size of a buffer. Its neighbours on the heap belong to other threads, and must not share most of its
/// lines.
const BUFFER_BYTES: usize = 4096;
/// The longest single read or write; longer transfers take several.
const PIECE_BYTES: usize = 1 << 20;
/// Time until the datagrams of an ended sender have arrived.
const ON_ITS_WAY: Ns = Ns::ms(50);
/// Capacity of a pipe. A user at his limit gets less (pipe(7)).
const PIPE_BYTES: u32 = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// All bytes went through.
    All,
    Over,
}

/// A task's memory for sending and receiving. Its content is arbitrary.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    #[inline]
    fn of(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes {
            self.grow(bytes);
        }
        &mut self.0[..bytes]
    }
    /// Allocates the least size.
    pub fn make(&mut self) {
        self.grow(BUFFER_BYTES);
    }
    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.0.resize(bytes.max(BUFFER_BYTES), 0);
    }
}

struct End {
    fd: OwnedFd,
    kind: ChannelKind,
}

pub struct Channels {
    ends: Vec<End>,
    /// Counts of datagrams sent from and received at each end: two lines per end, shared with processes.
    datagrams: Option<Lines>,
    /// Sets of ends for [`Channels::ready`].
    sets: Sets,
}

impl Channels {
    /// Makes all channels and sets of ends.
    ///
    /// # Errors
    /// At a limit of descriptors (the error names it); without loopback; without memory for buffers.
    pub fn open(kinds: &[ChannelKind], sets: &[Vec<PortId>]) -> Result<Channels> {
        limits::room_for_channels(kinds.len() + sets.len())?;
        let mut listener = None;
        let mut ends = Vec::with_capacity(2 * kinds.len());
        for (number, kind) in kinds.iter().enumerate() {
            let pair = make::pair(*kind, &mut listener).map_err(|e| make::not_made(number, *kind, &e))?;
            ends.extend(pair.map(|fd| End { fd, kind: *kind }));
        }
        let lines = || {
            Lines::map(2 * ends.len())
                .map_err(|e| Error::machine(format!("can't map counts of datagrams: {e}")))
        };
        let datagrams = kinds.contains(&ChannelKind::Udp).then(lines).transpose()?;
        let sets = Sets::open(sets, &ends)?;
        Ok(Channels { ends, datagrams, sets })
    }

    /// An end of the set with data; sleeps while there is none. `None`: the run is `over`. `found` belongs to the task,
    /// and keeps further ends that a call finds.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn ready(
        &self,
        set: SetId,
        found: &mut VecDeque<PortId>,
        over: impl Fn() -> bool,
    ) -> Result<Option<PortId>> {
        self.sets.ready(set, found, over)
    }

    /// Whether the run has no channels.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    #[inline]
    fn end(&self, port: PortId) -> Result<&End> {
        self.ends.get(port.index()).ok_or_else(|| {
            let (number, all) = (port.channel(), self.ends.len() / 2);
            Error::internal(format!("channel {number} was not declared ({all} are)"))
        })
    }

    /// Writes `bytes`; sleeps while the channel is full.
    ///
    /// # Errors
    /// When the kernel refuses, unless the run is `over`.
    #[inline]
    pub fn send(
        &self,
        port: PortId,
        bytes: u32,
        buffer: &mut Buffer,
        over: impl Fn() -> bool,
    ) -> Result<Moved> {
        let end = self.end(port)?;
        let mut left = bytes as usize;
        loop {
            match sys::write(end.fd.as_fd(), buffer.of(left.min(PIECE_BYTES))) {
                Ok(n) if n == left => break,
                done => left -= rest(done, &over, |e| refused("write to", port, end.kind, e))?,
            }
            if over() {
                return Ok(Moved::Over);
            }
        }
        if end.kind == ChannelKind::Udp {
            self.count(2 * port.index());
        }
        Ok(Moved::All)
    }

    /// Reads until `bytes` have arrived; sleeps while there are none.
    ///
    /// # Errors
    /// When the kernel refuses, the channel is closed, or a datagram has another size; unless the run is `over`.
    #[inline]
    pub fn receive(
        &self,
        port: PortId,
        bytes: u32,
        buffer: &mut Buffer,
        over: impl Fn() -> bool,
    ) -> Result<Moved> {
        let end = self.end(port)?;
        if end.kind == ChannelKind::Udp {
            return self.receive_datagram(end, port, bytes as usize, buffer, over);
        }
        let mut left = bytes as usize;
        loop {
            match sys::read(end.fd.as_fd(), buffer.of(left.min(PIECE_BYTES))) {
                Ok(n) if n == left => return Ok(Moved::All),
                Ok(0) if !over() => return Err(closed(port, end.kind)),
                done => left -= rest(done, &over, |e| refused("read from", port, end.kind, e))?,
            }
            if over() {
                return Ok(Moved::Over);
            }
        }
    }

    /// As [`Channels::receive`], for one datagram. The buffer has room for another byte, so that a longer datagram is
    /// noticed.
    fn receive_datagram(
        &self,
        end: &End,
        port: PortId,
        bytes: usize,
        buffer: &mut Buffer,
        over: impl Fn() -> bool,
    ) -> Result<Moved> {
        let data = buffer.of(bytes + 1);
        loop {
            match sys::read(end.fd.as_fd(), data) {
                Ok(n) if n == bytes => break,
                Ok(n) => {
                    let (at_least, number) = (if n > bytes { "at least " } else { "" }, port.channel());
                    let text =
                        format!("a datagram of {at_least}{n} bytes came on channel {number}, not of {bytes}");
                    return Err(Error::internal(text));
                }
                Err(e) if e.kind() == ErrorKind::Interrupted && !over() => {}
                Err(_) if over() => return Ok(Moved::Over),
                Err(e) => return Err(refused("read from", port, end.kind, &e)),
            }
        }
        self.count(2 * port.index() + 1);
        Ok(Moved::All)
    }

    fn count(&self, line: usize) {
        if let Some(lines) = &self.datagrams {
            lines.get()[line].slot.fetch_add(1, Relaxed);
        }
    }

    /// The warnings about lost datagrams and about small pipes. Call it after all tasks have left.
    ///
    /// # Errors
    /// When none of many datagrams arrived at an end: this machine blocks them.
    pub fn settle(&self) -> Result<Vec<Warning>> {
        let mut warnings: Vec<Warning> = self.small_pipes().into_iter().collect();
        let Some(lines) = &self.datagrams else { return Ok(warnings) };
        let count = |line: usize| lines.get()[line].slot.load(Relaxed);
        let ports = || (0..self.ends.len()).filter(|at| self.ends[*at].kind == ChannelKind::Udp);
        // For each end: number of datagrams sent to it, and number that reached it, received or not.
        let mut ends: Vec<(usize, u64, u64)> =
            ports().map(|at| (at, count(2 * (at ^ 1)), count(2 * at + 1) + self.left_at(at))).collect();
        if ends.iter().any(|(_, sent, arrived)| arrived < sent) {
            sys::sleep_for(ON_ITS_WAY.0);
            ends.iter_mut().for_each(|(at, _, arrived)| *arrived += self.left_at(*at));
        }
        if let Some((at, sent, _)) = ends.iter().find(|(_, sent, arrived)| *sent > 0 && *arrived == 0) {
            let channel = at / 2;
            let text =
                format!("none of {sent} datagrams arrived at an end of channel {channel} over loopback");
            return Err(Error::machine(text)
                .help("a packet filter that drops UDP on 127.0.0.1 does this (nft list ruleset)"));
        }
        let sent: u64 = ends.iter().map(|(_, sent, _)| sent).sum();
        let lost: u64 = ends.iter().map(|(_, sent, arrived)| sent.saturating_sub(*arrived)).sum();
        if lost > 0 {
            let text = format!(
                "{lost} of {sent} datagrams were lost over loopback: a task that waited for one slept until the end"
            );
            warnings.push(Warning::new("channel.lost", text));
        }
        Ok(warnings)
    }

    /// Drains the datagrams that no task received at an end; returns their number.
    fn left_at(&self, at: usize) -> u64 {
        let fd = self.ends[at].fd.as_fd();
        let mut left = 0;
        // If a read fails on a ready end, no datagram is left.
        while sys::wait_readable([Some(fd)], 0)[0] && sys::read(fd, &mut [0]).is_ok() {
            left += 1;
        }
        left
    }

    fn small_pipes(&self) -> Option<Warning> {
        let pipes = self.ends.iter().filter(|e| e.kind == ChannelKind::Pipe).step_by(2);
        let sizes: Vec<u32> = pipes.filter_map(|e| sys::pipe_size(e.fd.as_fd())).collect();
        let small = sizes.iter().filter(|s| **s < PIPE_BYTES).count();
        let least = sizes.iter().min().filter(|_| small > 0)?;
        let text = format!(
            "{small} of {} pipes hold {least} bytes or little more instead of {PIPE_BYTES}: raise \
             fs.pipe-user-pages-soft or use fewer",
            sizes.len()
        );
        Some(Warning::new("channel.small_pipes", text))
    }
}

/// Bytes moved by an incomplete call; 0 if a signal arrived or the run is `over`.
#[cold]
fn rest(
    done: io::Result<usize>,
    over: &impl Fn() -> bool,
    refused: impl FnOnce(&io::Error) -> Error,
) -> Result<usize> {
    match done {
        Ok(n) => Ok(n),
        Err(e) if e.kind() == ErrorKind::Interrupted || over() => Ok(0),
        Err(e) => Err(refused(&e)),
    }
}

fn closed(port: PortId, kind: ChannelKind) -> Error {
    Error::machine(format!("the other end of channel {}, a {}, was closed", port.channel(), word(kind)))
}

#[cold]
fn refused(what: &str, port: PortId, kind: ChannelKind, e: &io::Error) -> Error {
    let at = format!("channel {}, a {}", port.channel(), word(kind));
    match e.raw_os_error() {
        Some(libc::EPIPE | libc::ECONNRESET) => closed(port, kind),
        Some(libc::EBADF) => Error::internal(format!("can't {what} {at}: this end is the other way")),
        Some(libc::EMSGSIZE) => {
            Error::input(format!("can't {what} {at}: {e}")).help("a datagram holds at most 65507 bytes")
        }
        _ => Error::machine(format!("can't {what} {at}: {e}")),
    }
}

#[cfg(test)]
mod tests;
