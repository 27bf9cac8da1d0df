//! The layout of a tracepoint's record, read from its `format` file.
//!
//! Offsets differ between kernels (some have a comm as an array, others as a string elsewhere; some have more fields).
//! So no offset is assumed: a field is found by its name.

use crate::states::States;
use schedlab_base::{Error, Result};

/// The place of a number within a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    offset: usize,
    size: usize,
}

impl Place {
    /// The number there, taken as unsigned; `None` if the record is too short.
    #[inline]
    pub fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset + self.size)?;
        Some(match self.size {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }
    /// A thread's or CPU's number there.
    #[inline]
    pub fn small(self, record: &[u8]) -> Option<u32> {
        self.number(record).map(|n| n as u32)
    }
    /// The text there: bytes up to a zero, or what a word with length and place points to (`__data_loc`).
    #[inline]
    pub fn text(self, record: &[u8]) -> Option<&[u8]> {
        if self.size != 4 {
            return self.bytes(record);
        }
        let word = self.number(record)? as usize;
        let (at, length) = (word & 0xffff, word >> 16);
        record.get(at..at + length)
    }
    /// The bytes there.
    #[inline]
    pub fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset + self.size)
    }
}

struct Field {
    name: String,
    place: Place,
}

/// One tracepoint.
pub struct Format {
    tracepoint: String,
    /// Its number, with which records begin.
    pub id: u16,
    fields: Vec<Field>,
    /// What the bits of a state mean, if it has one.
    pub states: States,
}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// When the tracepoint has no number, or a field has no place.
    pub fn parse(tracepoint: &str, text: &str) -> Result<Format> {
        let wrong = |what: &str| Error::machine(format!("the format of tracepoint {tracepoint} has {what}"));
        let id = text.lines().find_map(|l| l.strip_prefix("ID:"));
        let id = id.and_then(|id| id.trim().parse().ok()).ok_or_else(|| wrong("no number"))?;
        let lines = text.lines().filter_map(|l| l.trim_start().strip_prefix("field:"));
        let fields = lines.map(|l| field(l).ok_or_else(|| wrong("a field that can't be read")));
        let states = States::of_format(text);
        Ok(Format { tracepoint: tracepoint.to_owned(), id, fields: fields.collect::<Result<_>>()?, states })
    }

    pub fn name(&self) -> &str {
        &self.tracepoint
    }

    /// The place of a number of one, two, four or eight bytes.
    ///
    /// # Errors
    /// When there is no such field, or it is not a number.
    pub fn number(&self, name: &str) -> Result<Place> {
        let place = self.any(name)?;
        match place.size {
            1 | 2 | 4 | 8 => Ok(place),
            n => Err(self.strange(name, &format!("has {n} bytes, which is not a number"))),
        }
    }
    /// The place of a field of any kind.
    ///
    /// # Errors
    /// When there is no such field.
    pub fn any(&self, name: &str) -> Result<Place> {
        let found = self.fields.iter().find(|f| f.name == name);
        found.map(|f| f.place).ok_or_else(|| self.strange(name, "is not there"))
    }
    fn strange(&self, name: &str, what: &str) -> Error {
        Error::machine(format!("field {name} of tracepoint {} {what}", self.tracepoint))
            .help("this kernel lays it out in a way that schedlab does not know: measure without --events")
    }
}

/// Reads the text after `field:`: `char prev_comm[16];`, `offset:8;`, `size:16;`, apart by tabs.
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse().ok();
    let place = Place { offset: number("offset:")?, size: number("size:")? };
    (!name.is_empty()).then_some(Field { name, place })
}
