//! The kernel's objects outside `kernel/sched` as cache lines: which lines a call touches ([`table`]), and where they
//! are.
//!
//! Only a kernel that knows the owners of lines has them: it gives each object an address, and charges the lines that
//! another CPU has ([`Kernel::touch_lines`](crate::board::Kernel::touch_lines)). Elsewhere a board has no objects, and
//! nothing is touched. The contents of the lines do not exist.
//!
//! Lines are touched where a call begins, or where it gets its channel's lock; what the wakeups touch is charged behind
//! them. Messages have [`PLACES`] places in turn: the sender allocates memory that a reader has freed before.
//!
//! Not modelled: slabs of CPUs, pages of the page allocator, counters of control groups, routes and devices, epoll's
//! sets. A call that reads several messages of TCP at once touches the heads of one.

pub mod table;

use crate::channel::state::{Channels, Transfer};
use schedlab_base::TaskId;
use schedlab_workload::ChannelKind;
use table::{Access, Object, Place, ROWS, Row, When, lines_at};

/// Bytes of a line.
const LINE: u64 = 64;
/// Places of a direction's messages: the objects of a slab of heads, 16 in a page, twice.
const PLACES: u64 = 32;
/// Lines of a message's bytes that are touched; of larger messages the first ones.
const MOST_DATA: u64 = 64;
/// Bytes of a pipe, which are used in turn.
const PIPE_BYTES: u64 = 65_536;
/// Lines that a CPU asks for at once at most: the line fill buffers of an Intel core since 2008.
const AT_ONCE: u64 = 10;

/// Lines of an object that a call touches: `struct img_touched` of the image's interface.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// The address of the first line.
    pub at: u64,
    pub lines: u16,
    /// Bits of [`Touched::WRITE`] and the others; 0: lines are read, one after the other.
    pub how: u16,
}

impl Touched {
    pub const WRITE: u16 = 1;
    pub const ATOMIC: u16 = 2;
    /// The lines are asked for together.
    pub const TOGETHER: u16 = 4;
}

/// The most entries of a call: rows of a kind, and a message's bytes.
const MOST: usize = 32;

/// What a call touches, in order.
#[derive(Clone, Copy, Debug)]
pub struct Touches {
    all: [Touched; MOST],
    nr: usize,
}

impl Touches {
    pub fn none() -> Touches {
        Touches { all: [Touched::default(); MOST], nr: 0 }
    }
    pub fn all(&self) -> &[Touched] {
        &self.all[..self.nr]
    }
    fn push(&mut self, at: u64, lines: u64, access: Access, together: bool) {
        let how = match access {
            Access::No => return,
            Access::Read => 0,
            Access::Write => Touched::WRITE,
            Access::Atomic => Touched::ATOMIC,
        };
        let how = if together { how | Touched::TOGETHER } else { how };
        let at_once = if together { AT_ONCE } else { MOST_DATA };
        for first in (0..lines).step_by(at_once as usize) {
            debug_assert!(self.nr < MOST, "a call touches more than {MOST} parts of objects");
            if let Some(free) = self.all.get_mut(self.nr) {
                *free = Touched { at: at + first * LINE, lines: (lines - first).min(at_once) as u16, how };
                self.nr += 1;
            }
        }
    }
}

/// The objects of an end, and of the direction that is read there.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    socket: u64,
    buffer: u64,
    messages: u64,
    data: u64,
    /// Messages that were written to the direction, and read from it.
    written: u64,
    read: u64,
}

/// The addresses of all objects.
pub struct Objects {
    /// By port.
    ends: Vec<End>,
    /// By word.
    words: Vec<u64>,
    /// By task.
    tasks: Vec<u64>,
    machine: u64,
}

impl Objects {
    /// The objects of these channels, so many words and so many tasks. `new` gives a place with so many lines.
    pub fn new(channels: &Channels, words: usize, tasks: usize, mut new: impl FnMut(u32) -> u64) -> Objects {
        let mut lines = |lines: u64| if lines == 0 { 0 } else { new(lines as u32) };
        let ends = channels.kinds.iter().flat_map(|kind| [*kind; 2]).map(|kind| {
            let of = Object::Channel(kind);
            let at = |place| u64::from(lines_at(of, place));
            let data = if kind == ChannelKind::Pipe { PIPE_BYTES / LINE } else { PLACES * MOST_DATA };
            End {
                socket: lines(at(Place::Reader).max(at(Place::Writer))),
                buffer: lines(at(Place::Buffer)),
                messages: lines(PLACES * at(Place::Message)),
                data: lines(data),
                ..End::default()
            }
        });
        let ends = ends.collect();
        let own = |of| u64::from(lines_at(of, Place::Own));
        Objects {
            ends,
            words: (0..words).map(|_| lines(own(Object::Futex))).collect(),
            tasks: (0..tasks).map(|_| lines(own(Object::Task))).collect(),
            machine: lines(1),
        }
    }

    /// What a transfer touches of its channel then. `offset`: the bytes that were written to, or read from, a pipe
    /// before.
    pub fn of_transfer(&self, kind: ChannelKind, t: Transfer, offset: u64, when: When) -> Touches {
        let mut touches = Touches::none();
        for row in ROWS.iter().filter(|row| row.of == Object::Channel(kind) && row.when == when) {
            self.touch_channel(&mut touches, row, t, offset);
        }
        touches
    }
    fn touch_channel(&self, touches: &mut Touches, row: &Row, t: Transfer, offset: u64) {
        let (reads, writes) = if t.sends { (t.port.peer(), t.port) } else { (t.port, t.port.peer()) };
        let (Some(direction), Some(writer)) = (self.ends.get(reads.index()), self.ends.get(writes.index()))
        else {
            return;
        };
        let message = if t.sends { direction.written } else { direction.read } % PLACES;
        let heads = u64::from(lines_at(row.of, Place::Message));
        let (base, lines) = match row.place {
            // It finds no message, or no room for one.
            Place::Message | Place::Data if t.part == 0 => return,
            Place::Buffer => (direction.buffer, row.lines.into()),
            Place::Reader => (direction.socket, row.lines.into()),
            // sock_wfree() of a message.
            Place::Writer if !t.sends && row.when == When::Call && t.part == 0 => return,
            Place::Writer => (writer.socket, row.lines.into()),
            Place::Message => (direction.messages + message * heads * LINE, row.lines.into()),
            Place::Data if row.of == Object::Channel(ChannelKind::Pipe) => {
                let first = offset % PIPE_BYTES / LINE;
                let end = (offset % PIPE_BYTES + u64::from(t.part)).div_ceil(LINE).min(PIPE_BYTES / LINE);
                (direction.data + first * LINE, (end - first).min(MOST_DATA))
            }
            Place::Data => {
                let lines = u64::from(t.part).div_ceil(LINE).min(MOST_DATA);
                // Small messages lie side by side, so that few lines need owners.
                (direction.data + message * lines * LINE, lines)
            }
            Place::Machine => (self.machine, row.lines.into()),
            Place::Own => return,
        };
        let access = if t.sends { row.writes } else { row.reads };
        touches.push(base + u64::from(row.first) * LINE, lines, access, row.is_stream());
    }

    /// A transfer has carried a message.
    pub fn carried(&mut self, t: Transfer) {
        if let Some(end) = self.ends.get_mut(t.buffer()) {
            let messages = if t.sends { &mut end.written } else { &mut end.read };
            *messages += 1;
        }
    }

    /// What a wait for a word touches of it, or a wake. `waiter`: somebody waits.
    pub fn of_word(&self, word: usize, wakes: bool, waiter: bool) -> Touches {
        let mut touches = Touches::none();
        let bucket = if waiter { When::Locked } else { When::Other };
        let is_due = |row: &&Row| row.of == Object::Futex && (row.when == When::Call || row.when == bucket);
        for row in ROWS.iter().filter(is_due) {
            let access = if wakes { row.writes } else { row.reads };
            touch_own(&mut touches, &self.words, word, row, access);
        }
        touches
    }
    /// What is touched of a task: its wait entry when it goes to sleep, is woken or is back ([`When::Sleeps`]), or what
    /// it brings to another CPU ([`When::Moved`]).
    pub fn of_task(&self, task: TaskId, when: When) -> Touches {
        let mut touches = Touches::none();
        for row in ROWS.iter().filter(|row| row.of == Object::Task && row.when == when) {
            touch_own(&mut touches, &self.tasks, task.index(), row, row.reads);
        }
        touches
    }
}

fn touch_own(touches: &mut Touches, all: &[u64], which: usize, row: &Row, access: Access) {
    if let Some(base) = all.get(which) {
        touches.push(base + u64::from(row.first) * LINE, row.lines.into(), access, row.is_stream());
    }
}

#[cfg(test)]
mod tests;
