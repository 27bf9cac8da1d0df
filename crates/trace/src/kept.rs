//! The events of a run in a file: `events.slt` in the run's folder.
//!
//! The file is written as the events come, in constant memory, and read back in the order in which it was written. An
//! event takes about 8 bytes. The form is our own, not for exchange: `schedlab trace` makes files for other tools of
//! it.
//!
//! All numbers of fixed size are little-endian. The file begins with [`MAGIC`] and continues in sections: a letter, the
//! length of the content (u32), its CRC-32 (u32), the content. They stand in this order:
//!
//! | letter | content |
//! | --- | --- |
//! | `H` | JSON: the schema, and for each kind of reason the names in the order of their numbers |
//! | `B` | a block of events and samples, at most [`MAX_SECTION`] bytes; any number of blocks |
//! | `C` | JSON: the cast, the numbers of events and samples, the start of the measured time |
//!
//! JSON that is longer than a section continues in the next `C`: one of [`MAX_SECTION`] bytes is not the last. The last
//! 16 bytes of the file are the offset of the first `C` section (u64) and [`END_MAGIC`]. The cast stands at the end,
//! since a recording knows it only then; a reader has it before the first event all the same. Reasons are stored by
//! number, and the header has their names, so that a file stays readable when a later version has more of them.
//!
//! In a block every number is a LEB128 varint. An event is the number of its kind, the difference to the time before
//! it in the block (zigzag; the first one counts from 0), its CPU, and the fields of its kind in the order of their
//! declaration. A task or CPU that may be missing is 0 for `None`, else its number plus 1.
//!
//! A file that was cut off, or in which a byte is wrong, gives one error with the offset at which it stands.

mod code;
mod names;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Items, Reader};
pub use write::Writer;

use crate::{Cast, Event};
use names::Names;
use schedlab_base::{Ns, TaskId};
use serde::{Deserialize, Serialize};

/// The file's name in a run's folder.
pub const EVENTS_FILE: &str = "events.slt";
/// The first bytes of a file. The digit counts the versions of the form.
pub const MAGIC: [u8; 8] = *b"SLTEVT1\n";
/// The last bytes of a file.
pub const END_MAGIC: [u8; 8] = *b"SLTEND1\n";
/// The longest content of a section, bytes: a longer one is taken for damage.
pub const MAX_SECTION: usize = 64 << 20;
/// The schema in the header.
const SCHEMA: &str = "schedlab/events/1";
/// Content of a block at which it is written, bytes.
const BLOCK: usize = 64 << 10;

/// One thing in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    Event(Event),
    /// A value that a program recorded ([`Sink::sample`](crate::Sink::sample)).
    Sample {
        /// When, since the run began.
        at: Ns,
        /// The task that recorded it.
        task: TaskId,
        /// Index of the series, as the workload declares them.
        series: u16,
        value: u64,
    },
}

impl Item {
    pub fn at(&self) -> Ns {
        match self {
            Item::Event(event) => event.at,
            Item::Sample { at, .. } => *at,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    names: Names,
}

/// The end of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Close {
    /// The tasks and the frame of the run.
    pub cast: Cast,
    pub events: u64,
    pub samples: u64,
    /// The record counts nothing that ends before this time: the run's warm-up.
    pub measured_from: Ns,
    /// Events that the source lost; nothing in the file reports where.
    pub lost: u64,
}
