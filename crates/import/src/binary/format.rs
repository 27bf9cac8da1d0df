//! The layout of a tracepoint's record, read from its `format` file.
//!
//! Offsets differ between kernels: a comm is an array in some tracepoints, and a text after the record in others (in
//! 7.3 those of sched_migrate_task, sched_process_fork and sched_stat_runtime); some have more fields. So no offset is
//! assumed: a field is found by its name, and read as its type says.

use crate::states::States;
use schedlab_base::{Error, Result};

/// The place of a field within a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    offset: usize,
    size: usize,
    kind: Kind,
}

/// How a field is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// In the record itself.
    Here,
    /// In the record, as a word with length and offset of the field (`__data_loc`).
    Elsewhere,
    /// The same, with the offset counted from the word's end (`__rel_loc`, 5.17).
    Behind,
}

impl Place {
    /// The unsigned number there; `None` if the record is too short.
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
    /// The number of a thread or CPU there.
    #[inline]
    pub fn small(self, record: &[u8]) -> Option<u32> {
        self.number(record).map(|n| n as u32)
    }
    /// The text there: bytes up to a zero, or those that the word points to.
    #[inline]
    pub fn text(self, record: &[u8]) -> Option<&[u8]> {
        let from = match self.kind {
            Kind::Here => return self.bytes(record),
            Kind::Elsewhere => 0,
            Kind::Behind => self.offset + self.size,
        };
        let word = self.number(record)? as usize;
        let (at, length) = (from + (word & 0xffff), word >> 16);
        record.get(at..at + length)
    }
    #[inline]
    pub fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset + self.size)
    }
}

struct Field {
    name: String,
    place: Place,
}

/// The layout of one tracepoint.
pub struct Format {
    tracepoint: String,
    /// The tracepoint's number, with which its records begin.
    pub id: u16,
    fields: Vec<Field>,
    /// The meaning of the bits of a state, if it has one.
    pub states: States,
}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// When the tracepoint has no number, or a field has no offset.
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
            _ if place.kind != Kind::Here => Err(self.strange(name, "is a text, which is not a number")),
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

/// Reads the text after `field:`: `char prev_comm[16];`, `offset:8;`, `size:16;`, separated by tabs.
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let kind = match declared.split(' ').next() {
        Some("__data_loc") => Kind::Elsewhere,
        Some("__rel_loc") => Kind::Behind,
        _ => Kind::Here,
    };
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse().ok();
    let place = Place { offset: number("offset:")?, size: number("size:")?, kind };
    (!name.is_empty()).then_some(Field { name, place })
}

#[cfg(test)]
mod tests {
    use super::super::fields::{Record, Tracepoints};
    use super::*;
    use crate::sched_record::RecordKind;

    /// The formats of 7.3.4, as read in a guest, without their common fields.
    const FORMATS: [(&str, u16, &str); 4] = [
        (
            "sched_switch",
            311,
            "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
             \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
             \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n",
        ),
        (
            "sched_migrate_task",
            309,
            "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:int prio;\toffset:16;\tsize:4;\tsigned:1;\n\
             \tfield:int orig_cpu;\toffset:20;\tsize:4;\tsigned:1;\n\
             \tfield:int dest_cpu;\toffset:24;\tsize:4;\tsigned:1;\n",
        ),
        (
            "sched_process_fork",
            303,
            "\tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n",
        ),
        (
            "sched_stat_runtime",
            297,
            "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:u64 runtime;\toffset:16;\tsize:8;\tsigned:0;\n",
        ),
    ];
    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

    fn format(at: usize) -> Format {
        let (name, id, own) = FORMATS[at];
        Format::parse(name, &format!("name: {name}\nID: {id}\nformat:\n{COMMON}{own}\nprint fmt: \"\"\n"))
            .unwrap()
    }

    /// A record made of words, and texts after them.
    fn record(id: u16, words: &[u32], texts: &[u8]) -> Vec<u8> {
        let mut all = id.to_ne_bytes().to_vec();
        all.extend([0, 0]);
        all.extend(77_u32.to_ne_bytes());
        words.iter().for_each(|w| all.extend(w.to_ne_bytes()));
        all.extend(texts);
        all
    }

    #[test]
    fn texts_behind_records_are_read_where_7_3_has_them() {
        let all: Vec<Format> = (0..FORMATS.len()).map(format).collect();
        let points = Tracepoints::of(&all).unwrap();
        let text = |length: u32, at: u32| length << 16 | at;
        let moved = record(309, &[text(4, 28), 12, 120, 3, 1], b"a b\0");
        let Record::Event(77, RecordKind::Migrate { thread, from: 3, to: 1 }) = points.read(&moved) else {
            panic!("sched_migrate_task");
        };
        assert_eq!((thread.comm.bytes(), thread.tid, thread.prio), (&b"a b"[..], 12, Some(120)));
        let forked = record(303, &[text(3, 24), 12, text(6, 27), 13], b"sh\0child\0");
        let Record::Event(77, RecordKind::Fork { parent, child, .. }) = points.read(&forked) else {
            panic!("sched_process_fork");
        };
        assert_eq!((parent.comm.bytes(), parent.tid), (&b"sh"[..], 12));
        assert_eq!((child.comm.bytes(), child.tid), (&b"child"[..], 13));
        // A tracepoint that is not read also has a comm behind the record, at the offset where it was an array of 16
        // bytes.
        let runs = record(297, &[text(4, 24), 12, 5, 0], b"a b\0");
        assert!(matches!(points.read(&runs), Record::Other));
        let comm = all[3].any("comm").unwrap();
        assert_eq!(
            (comm.text(&runs), all[3].number("pid").unwrap().small(&runs)),
            (Some(&b"a b\0"[..]), Some(12))
        );
        assert!(all[3].number("comm").is_err());
    }

    #[test]
    fn a_text_outside_of_its_record_is_not_read() {
        let comm = format(1).any("comm").unwrap();
        for (length, at) in [(4_u32, 60_u32), (0xffff, 0xffff), (9, 28)] {
            assert_eq!(comm.text(&record(309, &[length << 16 | at, 1, 1, 1, 1], b"abc\0")), None);
        }
        let behind =
            Format::parse("x", "ID: 1\n\tfield:__rel_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n");
        let comm = behind.unwrap().any("comm").unwrap();
        assert_eq!(comm.text(&record(1, &[3 << 16 | 4, 0], b"abc")), Some(&b"abc"[..]));
    }
}
