//! A run's events in a file: `events.slt` in the run's folder.
//!
//! The file is written during the run, in constant memory, and read in the same order. An event takes about 8 bytes.
//! The form is private; `schedlab trace` converts it for other tools.
//!
//! Numbers of fixed size are little-endian. The file begins with [`MAGIC`], followed by sections: a letter, the length
//! of the content (u32), its CRC-32 (u32), the content. Their order is:
//!
//! | letter | content |
//! | --- | --- |
//! | `H` | JSON: the schema, and for each kind of reason its names in numerical order |
//! | `B` | a block of events and samples, at most [`MAX_SECTION`] bytes; any number of blocks |
//! | `C` | JSON: the cast, the numbers of events and samples, the start of the measured time |
//! | `R` | JSON: the run to which the events belong; a file that is in no store yet lacks it |
//!
//! JSON that is longer than a section continues in the next `C`: a section of [`MAX_SECTION`] bytes is not the last.
//! The last 16 bytes of the file are the offset of the first `C` section (u64) and [`END_MAGIC`]. The cast is at the
//! end, because a recording knows it only then; a reader still gets it before the first event. The run is known when
//! the store takes the file ([`assign`]). Reasons are stored by
//! number; the header has their names, so that later versions with more reasons can read the file.
//!
//! In a block every number is a LEB128 varint. An event is the number of its kind, the difference to the previous time
//! in the block (zigzag; the first counts from 0), its CPU, and the fields of its kind in the order of declaration. An
//! optional task or CPU is 0 for `None`, else its number plus 1.
//!
//! A truncated or damaged file gives one error, with the offset of the damage.

mod code;
mod names;
mod owner;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use owner::{RunId, assign};
pub use read::{Items, Reader};
pub use write::Writer;

use crate::{Cast, Event};
use names::Names;
use schedlab_base::{Ns, TaskId};
use serde::{Deserialize, Serialize};

/// The file's name in a run's folder.
pub const EVENTS_FILE: &str = "events.slt";
/// The first bytes of a file. The digit is the version of the form.
pub const MAGIC: [u8; 8] = *b"SLTEVT1\n";
/// The last bytes of a file.
pub const END_MAGIC: [u8; 8] = *b"SLTEND1\n";
/// The longest content of a section, bytes. A longer one counts as damage.
pub const MAX_SECTION: usize = 64 << 20;
/// Bytes of the file's end: offset of the first `C` section, magic.
const FOOT: u64 = 16;
/// The schema in the header.
const SCHEMA: &str = "schedlab/events/1";
/// A block with this much content is written, bytes.
const BLOCK: usize = 64 << 10;

/// An event or a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    Event(Event),
    /// A value that a program recorded ([`Sink::sample`](crate::Sink::sample)).
    Sample {
        /// Time since the run began.
        at: Ns,
        /// The task that recorded it.
        task: TaskId,
        /// Index of the series, in the workload's order.
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

/// The content of `C`, the end of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Close {
    pub cast: Cast,
    pub events: u64,
    pub samples: u64,
    /// Start of the measured time. Records ignore whatever ends earlier, in the warm-up.
    pub measured_from: Ns,
    /// Number of events that the source lost; the file does not report where.
    pub lost: u64,
}
