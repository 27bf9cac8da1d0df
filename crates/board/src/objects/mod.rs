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
/// Pages of a pipe, which are used in turn, and their bytes.
const PIPE_PAGES: u64 = 16;
const PAGE: u64 = 4096;
/// Bytes of a `pipe_buffer`, which has a page.
const SLOT_BYTES: u64 = 40;
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
    /// They are written, and not read before.
    pub const STORE: u16 = 8;
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
            Access::Store => Touched::STORE,
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
    slots: u64,
    file: u64,
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
    /// Whether other threads have the task's files, too.
    shares_files: Vec<bool>,
    machine: u64,
}

/// Where a transfer is in its pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InPipe {
    /// The page, by its number since the pipe was made.
    pub page: u64,
    /// Bytes that were written to the pipe, or read from it, before.
    pub offset: u64,
}

impl Objects {
    /// The objects of these channels, so many words, and the tasks, which share their files or not. `new` gives a place
    /// with so many lines.
    pub fn new(
        channels: &Channels,
        words: usize,
        shares_files: Vec<bool>,
        mut new: impl FnMut(u32) -> u64,
    ) -> Objects {
        let mut lines = |lines: u64| if lines == 0 { 0 } else { new(lines as u32) };
        let ends = channels.kinds.iter().flat_map(|kind| [*kind; 2]).map(|kind| {
            let of = Object::Channel(kind);
            let at = |place| u64::from(lines_at(of, place));
            let (data, slots) = match kind {
                ChannelKind::Pipe => (PIPE_PAGES * PAGE, PIPE_PAGES * SLOT_BYTES),
                _ => (PLACES * MOST_DATA * LINE, 0),
            };
            End {
                socket: lines(at(Place::Reader).max(at(Place::Writer))),
                buffer: lines(at(Place::Buffer)),
                messages: lines(PLACES * at(Place::Message)),
                data: lines(data / LINE),
                slots: lines(slots / LINE),
                file: lines(at(Place::File)),
                ..End::default()
            }
        });
        let ends = ends.collect();
        let own = |of| u64::from(lines_at(of, Place::Own));
        Objects {
            ends,
            words: (0..words).map(|_| lines(own(Object::Futex))).collect(),
            tasks: shares_files.iter().map(|_| lines(own(Object::Task))).collect(),
            shares_files,
            machine: lines(1),
        }
    }

    /// What a transfer touches of its channel then, in the table's order.
    pub fn of_transfer(&self, kind: ChannelKind, t: Transfer, pipe: InPipe, when: &[When]) -> Touches {
        let mut touches = Touches::none();
        for row in ROWS.iter().filter(|row| row.of == Object::Channel(kind) && when.contains(&row.when)) {
            self.touch_channel(&mut touches, row, t, pipe);
        }
        touches
    }
    /// Whether a task has its files with other threads.
    pub fn shares_files(&self, task: TaskId) -> bool {
        self.shares_files.get(task.index()).is_some_and(|shares| *shares)
    }
    fn touch_channel(&self, touches: &mut Touches, row: &Row, t: Transfer, pipe: InPipe) {
        let (reads, writes) = if t.sends { (t.port.peer(), t.port) } else { (t.port, t.port.peer()) };
        let (Some(direction), Some(writer)) = (self.ends.get(reads.index()), self.ends.get(writes.index()))
        else {
            return;
        };
        let message = if t.sends { direction.written } else { direction.read } % PLACES;
        let heads = u64::from(lines_at(row.of, Place::Message));
        let (base, lines) = match row.place {
            // It finds no message, or no room for one.
            Place::Message | Place::Data | Place::Slot if t.part == 0 => return,
            Place::Buffer => (direction.buffer, row.lines.into()),
            Place::Reader => (direction.socket, row.lines.into()),
            // sock_wfree() of a message.
            Place::Writer if !t.sends && row.when == When::Call && t.part == 0 => return,
            Place::Writer => (writer.socket, row.lines.into()),
            Place::Message => (direction.messages + message * heads * LINE, row.lines.into()),
            Place::Data if row.of == Object::Channel(ChannelKind::Pipe) => {
                let (within, bytes) = (pipe.offset % PAGE, PIPE_PAGES * PAGE);
                let at = pipe.page % PIPE_PAGES * PAGE + within;
                let end = (at + u64::from(t.part)).div_ceil(LINE).min(bytes / LINE);
                (direction.data + at / LINE * LINE, (end - at / LINE).min(MOST_DATA))
            }
            Place::Slot => (direction.slots + pipe.page % PIPE_PAGES * SLOT_BYTES / LINE * LINE, 1),
            Place::File if t.sends => (writer.file, row.lines.into()),
            Place::File => (direction.file, row.lines.into()),
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
