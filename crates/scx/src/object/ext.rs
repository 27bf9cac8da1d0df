//! `.BTF.ext`: which instructions depend on the layout of a kernel's types.

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

/// Relocations by the name of their section. None if the bytes are not whole.
pub(super) fn relocations<'a>(bytes: &[u8], own: &'a Btf) -> Option<HashMap<&'a str, Vec<Relocation<'a>>>> {
    let word = |b: &[u8], at: usize| Some(u32::from_le_bytes(*b.get(at..)?.first_chunk::<4>()?));
    let mut found: HashMap<&str, Vec<Relocation>> = HashMap::new();
    if word(bytes, 0)? as u16 != 0xeb9f {
        return None;
    }
    let header = word(bytes, 4)? as usize;
    if header < 32 {
        return Some(found);
    }
    let (start, len) = (word(bytes, 24)? as usize, word(bytes, 28)? as usize);
    let mut rest = bytes.get(header.checked_add(start)?..)?.get(..len)?;
    if rest.is_empty() {
        return Some(found);
    }
    let record = word(rest, 0)? as usize;
    rest = rest.get(4..)?;
    if record < 16 {
        return None;
    }
    while !rest.is_empty() {
        let (name, n) = (own.text(word(rest, 0)?), word(rest, 4)? as usize);
        let records = rest.get(8..)?.get(..n.checked_mul(record)?)?;
        let of_section = found.entry(name).or_default();
        for r in records.chunks_exact(record) {
            let at = word(r, 0)? as usize / 8;
            of_section.push(Relocation {
                at,
                id: word(r, 4)?,
                path: own.text(word(r, 8)?),
                question: word(r, 12)?,
            });
        }
        rest = &rest[8 + records.len()..];
    }
    Some(found)
}
