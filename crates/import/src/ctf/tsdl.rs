//! The description of a trace (TSDL): types, and where they stand in packets and events.
//!
//! Written for what tracers write: LTTng 2.x, babeltrace, barectf, schedlab. Types are kept in a list and refer to each
//! other by index, so that none is copied.

mod parse;
mod words;

use schedlab_base::{Error, Result};
use std::collections::BTreeMap;

/// A type's index in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Which(pub(super) usize);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number of up to 64 bits. `big`: its own byte order. `clock`: it is a clock's count.
    Integer { bits: u32, align: u32, signed: bool, big: Option<bool>, is_text: bool, clock: bool },
    /// Bits that are not read: a floating point number.
    Skipped { bits: u32, align: u32 },
    /// A text that ends with a zero.
    Text,
    /// A number with names for ranges.
    Enum { of: Which, labels: Vec<(i64, i64, String)> },
    /// Fields one after the other.
    Struct { align: u32, fields: Vec<(String, Which)> },
    /// One of several types: the option named by the label of the field `tag`.
    Variant { tag: String, options: Vec<(String, Which)> },
    /// A fixed number of elements.
    Array { of: Which, length: u32 },
    /// As many elements as the field `length` says.
    Sequence { of: Which, length: String },
}

#[derive(Default)]
pub struct Types {
    kinds: Vec<Kind>,
    /// The alignment of each type, bits.
    aligns: Vec<u32>,
    /// Whether the byte order is big-endian, unless a type says otherwise.
    pub big: bool,
}

impl Types {
    fn add(&mut self, kind: Kind) -> Which {
        let align = match &kind {
            Kind::Integer { align, .. } | Kind::Skipped { align, .. } => *align,
            Kind::Text => 8,
            Kind::Enum { of, .. } | Kind::Array { of, .. } | Kind::Sequence { of, .. } => self.align(*of),
            Kind::Struct { align, fields } => {
                fields.iter().map(|(_, field)| self.align(*field)).fold(*align, u32::max)
            }
            Kind::Variant { .. } => 1,
        };
        self.kinds.push(kind);
        self.aligns.push(align);
        Which(self.kinds.len() - 1)
    }
    pub fn kind(&self, which: Which) -> &Kind {
        &self.kinds[which.0]
    }
    /// The alignment of a type, in bits: for a structure, the largest of its fields'.
    pub fn align(&self, which: Which) -> u32 {
        self.aligns[which.0]
    }
    /// The name that an enumeration has for a number.
    pub fn label(&self, of: Which, number: i64) -> Option<&str> {
        let Kind::Enum { labels, .. } = self.kind(of) else { return None };
        labels.iter().find(|(from, to, _)| (*from..=*to).contains(&number)).map(|(.., name)| name.as_str())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    frequency: u64,
    /// Offset of the clock, in counts and in seconds.
    offset: i64,
    offset_s: i64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { frequency: 1_000_000_000, offset: 0, offset_s: 0 }
    }
}

impl Clock {
    /// The time of a count, ns; 0 for a time before the clock's start.
    pub fn ns(&self, count: u64) -> u64 {
        let counts = i128::from(count) + i128::from(self.offset);
        let ns =
            counts * 1_000_000_000 / i128::from(self.frequency) + i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(ns).unwrap_or(if ns < 0 { 0 } else { u64::MAX })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamClass {
    /// The type after a packet's header.
    pub packet_context: Option<Which>,
    /// The type at the start of an event.
    pub event_header: Option<Which>,
    /// The type after the event's header.
    pub event_context: Option<Which>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventClass {
    pub name: String,
    /// The type before the event's own fields.
    pub context: Option<Which>,
    pub fields: Option<Which>,
}

#[derive(Default)]
pub struct Description {
    pub types: Types,
    /// The type at the start of a packet.
    pub packet_header: Option<Which>,
    /// Classes of streams by number.
    pub streams: BTreeMap<u64, StreamClass>,
    /// Classes of events, by the numbers of stream and event.
    events: BTreeMap<(u64, u64), EventClass>,
    pub clock: Clock,
    pub release: Option<String>,
}

impl Description {
    /// Reads a description: a text, or a text in packets.
    ///
    /// # Errors
    /// The first part that can't be read, with its line.
    pub fn read(bytes: &[u8]) -> Result<Description> {
        let text = words::text(bytes).ok_or_else(|| {
            Error::input("the file 'metadata' is not a description of CTF, or is of another byte order")
                .help("known is CTF 1.8: babeltrace2 convert --output-format=ctf makes it of other traces")
        })?;
        if text.trim_start().starts_with(['{', '[', '\u{1e}']) {
            return Err(Error::input("the trace is of CTF 2, and 1.8 is read").help(
                "babeltrace2 convert --component=sink.ctf.fs --params='ctf-version=\"1.8\"' converts it",
            ));
        }
        parse::description(&text)
    }
    pub fn event(&self, stream: u64, id: u64) -> Option<&EventClass> {
        self.events.get(&(stream, id))
    }
}
