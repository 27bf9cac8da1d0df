//! `.BTF.ext`: which instructions depend on the layout of a kernel's types, and where lines of the source begin.

use crate::btf::Btf;
use std::collections::HashMap;

/// One relocation of CO-RE, as the compiler wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation<'a> {
    /// The instruction in its section.
    pub at: usize,
    /// A type of the program's BTF.
    pub id: u32,
    /// Which part of it: indices, divided by colons.
    pub path: &'a str,
    pub question: u32,
}

/// Places of the two parts' offsets in the header, bytes.
const LINES: usize = 16;
const RELOCATIONS: usize = 24;
/// All records of both have 16 bytes or more.
const RECORD_BYTES: usize = 16;

fn word(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk::<4>()?))
}

/// The records of a part by the name of their section. None if the bytes are not whole.
fn records<'a>(bytes: &'a [u8], own: &'a Btf, part: usize) -> Option<HashMap<&'a str, Vec<&'a [u8]>>> {
    let mut found: HashMap<&str, Vec<&[u8]>> = HashMap::new();
    if word(bytes, 0)? as u16 != 0xeb9f {
        return None;
    }
    let header = word(bytes, 4)? as usize;
    if header < part + 8 {
        return Some(found);
    }
    let (start, len) = (word(bytes, part)? as usize, word(bytes, part + 4)? as usize);
    let mut rest = bytes.get(header.checked_add(start)?..)?.get(..len)?;
    if rest.is_empty() {
        return Some(found);
    }
    let record = word(rest, 0)? as usize;
    rest = rest.get(4..)?;
    if record < RECORD_BYTES {
        return None;
    }
    while !rest.is_empty() {
        let (name, n) = (own.text(word(rest, 0)?), word(rest, 4)? as usize);
        let records = rest.get(8..)?.get(..n.checked_mul(record)?)?;
        found.entry(name).or_default().extend(records.chunks_exact(record));
        rest = &rest[8 + records.len()..];
    }
    Some(found)
}

/// Relocations by the name of their section. None if the bytes are not whole.
pub(super) fn relocations<'a>(
    bytes: &'a [u8],
    own: &'a Btf,
) -> Option<HashMap<&'a str, Vec<Relocation<'a>>>> {
    let one = |r: &[u8]| {
        Some(Relocation {
            at: word(r, 0)? as usize / 8,
            id: word(r, 4)?,
            path: own.text(word(r, 8)?),
            question: word(r, 12)?,
        })
    };
    let all = records(bytes, own, RELOCATIONS)?.into_iter();
    all.map(|(name, of)| Some((name, of.into_iter().map(one).collect::<Option<_>>()?))).collect()
}

/// Where lines of the source begin: the instruction in its section, and the line as people name it. Empty if it is not
/// said.
pub(super) fn lines<'a>(bytes: &'a [u8], own: &'a Btf) -> HashMap<&'a str, Vec<(usize, String)>> {
    let one = |r: &[u8]| Some((word(r, 0)? as usize / 8, line(own, r.get(4..16)?)?));
    let all = records(bytes, own, LINES).unwrap_or_default().into_iter();
    all.map(|(name, of)| (name, of.into_iter().filter_map(one).collect())).collect()
}

/// A record of a line without its instruction: the name of the file without folders, and the line's number.
pub(crate) fn line(own: &Btf, record: &[u8]) -> Option<String> {
    let path = own.text(word(record, 0)?);
    let file = path.rsplit('/').next().unwrap_or(path);
    Some(format!("{file}:{}", word(record, 8)? >> 10))
}
