//! Channels of the rig: a bounded buffer per direction, and the tasks waiting at its ends, first come first served. A
//! buffer counts bytes, and on UDP also the sizes of datagrams, so that one read takes one datagram.

use crate::{ChannelKind, PortId, SetId};
use std::collections::VecDeque;

/// Capacity of a buffer, bytes: 16 pages for a pipe, the kernel's default send buffer for sockets.
const fn capacity(kind: ChannelKind) -> u32 {
    match kind {
        ChannelKind::Pipe => 65_536,
        ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => 212_992,
    }
}

/// A task, and the bytes that it must still move.
type Party = (usize, u32);

/// One direction of a channel.
struct Way {
    kind: ChannelKind,
    used: u32,
    /// Sizes of the datagrams in the buffer.
    datagrams: VecDeque<u32>,
    writers: VecDeque<Party>,
    readers: VecDeque<Party>,
}

impl Way {
    fn new(kind: ChannelKind) -> Way {
        let (writers, readers) = (VecDeque::new(), VecDeque::new());
        Way { kind, used: 0, datagrams: VecDeque::new(), writers, readers }
    }

    /// Moves as much as possible; returns the tasks whose calls are done.
    fn pump(&mut self) -> Vec<usize> {
        let mut done = Vec::new();
        while self.fill(&mut done) | self.drain(&mut done) {}
        done
    }
    /// Lets the first writer fill the buffer; returns whether anything moved.
    fn fill(&mut self, done: &mut Vec<usize>) -> bool {
        let room = capacity(self.kind) - self.used;
        let Some((task, left)) = self.writers.front_mut() else { return false };
        let moved = if self.kind == ChannelKind::Udp && *left > room { 0 } else { room.min(*left) };
        if moved == 0 {
            return false;
        }
        self.used += moved;
        *left -= moved;
        if self.kind == ChannelKind::Udp {
            self.datagrams.push_back(moved);
        }
        if *left == 0 {
            done.push(*task);
            self.writers.pop_front();
        }
        true
    }
    /// Lets the first reader empty the buffer; returns whether anything moved.
    fn drain(&mut self, done: &mut Vec<usize>) -> bool {
        let Some((task, left)) = self.readers.front_mut() else { return false };
        let moved = match self.kind {
            ChannelKind::Udp => self.datagrams.pop_front().unwrap_or(0),
            _ => self.used.min(*left),
        };
        if moved == 0 {
            return false;
        }
        assert!(moved <= *left, "a datagram of {moved} bytes is cut to {left}");
        self.used -= moved;
        *left = if self.kind == ChannelKind::Udp { 0 } else { *left - moved };
        if *left == 0 {
            done.push(*task);
            self.readers.pop_front();
        }
        true
    }
}

/// A set of ends in the order of checking, and the task that waits on it.
struct Set {
    ends: VecDeque<PortId>,
    waiter: Option<usize>,
}

pub struct Channels {
    ways: Vec<[Way; 2]>,
    sets: Vec<Set>,
}

impl Channels {
    pub fn new(kinds: &[ChannelKind], sets: Vec<Vec<PortId>>) -> Channels {
        let ways = kinds.iter().map(|k| [Way::new(*k), Way::new(*k)]).collect();
        let sets = sets.into_iter().map(|ends| Set { ends: ends.into(), waiter: None }).collect();
        Channels { ways, sets }
    }
    fn towards(&mut self, end: PortId) -> &mut Way {
        &mut self.ways[end.channel()][end.index() % 2]
    }
    /// An end of the set with data; without one, `task` waits.
    pub fn poll(&mut self, task: usize, set: SetId) -> Option<PortId> {
        for _ in 0..self.sets[set.index()].ends.len() {
            let end = self.sets[set.index()].ends[0];
            self.sets[set.index()].ends.rotate_left(1);
            if self.towards(end).used > 0 {
                return Some(end);
            }
        }
        assert!(self.sets[set.index()].waiter.replace(task).is_none(), "two tasks wait on a set");
        None
    }
    /// Data have arrived at `end`: returns the task that waits on its set, and the end.
    pub fn came(&mut self, end: PortId) -> Option<(usize, PortId)> {
        if self.towards(end).used == 0 {
            return None;
        }
        let set = self.sets.iter_mut().find(|s| s.ends.contains(&end))?;
        Some((set.waiter.take()?, end))
    }
    /// Lets `task` write; returns the tasks whose calls are done, possibly including `task`.
    pub fn send(&mut self, task: usize, port: PortId, bytes: u32) -> Vec<usize> {
        let way = self.towards(port.peer());
        assert!(
            way.kind != ChannelKind::Pipe || !port.index().is_multiple_of(2),
            "a pipe's first end is read"
        );
        assert!(bytes > 0, "nothing is written");
        way.writers.push_back((task, bytes));
        way.pump()
    }
    /// Lets `task` read; returns tasks like [`Channels::send`].
    pub fn recv(&mut self, task: usize, port: PortId, bytes: u32) -> Vec<usize> {
        let way = self.towards(port);
        assert!(
            way.kind != ChannelKind::Pipe || port.index().is_multiple_of(2),
            "a pipe's second end is written"
        );
        assert!(bytes > 0, "nothing is read");
        way.readers.push_back((task, bytes));
        way.pump()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const READ: PortId = PortId(0);
    const WRITE: PortId = PortId(1);

    #[test]
    fn a_writer_waits_for_room_and_a_reader_for_all_its_bytes() {
        let mut c = Channels::new(&[ChannelKind::Pipe], Vec::new());
        assert_eq!(c.send(7, WRITE, 65_536), [7], "exactly full");
        assert_eq!(c.send(8, WRITE, 10), [] as [usize; 0]);
        assert_eq!(c.recv(9, READ, 5), [9], "five bytes of room are not enough for ten");
        assert_eq!(c.recv(9, READ, 5), [9, 8]);
        assert_eq!(c.recv(9, READ, 65_537), [] as [usize; 0]);
        assert_eq!(c.send(7, WRITE, 1), [7, 9]);
    }

    #[test]
    fn a_datagram_is_taken_whole_and_sockets_go_both_ways() {
        let mut c = Channels::new(&[ChannelKind::Pipe, ChannelKind::Udp], Vec::new());
        let (a, b) = (PortId(2), PortId(3));
        assert_eq!(c.send(1, a, 100), [1]);
        assert_eq!(c.send(1, a, 200), [1]);
        assert_eq!(c.recv(2, b, 500), [2]);
        assert_eq!(c.recv(2, b, 200), [2], "the second is there by itself");
        assert_eq!(c.recv(2, b, 1), [] as [usize; 0]);
        assert_eq!(c.send(2, b, 1), [2], "and the other way is another buffer");
    }
}
