//! Bytes to types. Each reference is checked here, so that no other part has to.

use super::{Btf, Item, Kind, Type, essential, hash};
use schedlab_base::{Error, Result};

const MAGIC: u16 = 0xeb9f;
/// The header up to the strings' length; newer ones have more behind it.
const HEADER_BYTES: u32 = 24;
/// A type without its items.
const TYPE_BYTES: usize = 12;

const KINDS: [Kind; 20] = [
    Kind::Void,
    Kind::Int,
    Kind::Ptr,
    Kind::Array,
    Kind::Struct,
    Kind::Union,
    Kind::Enum,
    Kind::Fwd,
    Kind::Typedef,
    Kind::Volatile,
    Kind::Const,
    Kind::Restrict,
    Kind::Func,
    Kind::FuncProto,
    Kind::Var,
    Kind::Datasec,
    Kind::Float,
    Kind::DeclTag,
    Kind::TypeTag,
    Kind::Enum64,
];

fn bad(what: &str) -> Error {
    Error::input(format!("BTF: {what}"))
        .help("the file is cut off or is not BTF of little-endian order; make it again (clang -g)")
}

/// Words of 32 bits, one after another.
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl Words<'_> {
    pub(crate) fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }
}

/// Bytes of the types and of the strings.
pub(super) fn parts(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let mut words = Words(bytes);
    let (magic, header) = (words.next(), words.next());
    if magic.map(|m| m as u16) != Some(MAGIC) {
        return Err(bad("it does not start with 0xeb9f"));
    }
    let header = header.filter(|h| *h >= HEADER_BYTES && *h as usize <= bytes.len());
    let body = header.and_then(|h| bytes.get(h as usize..)).ok_or_else(|| bad("its header is not whole"))?;
    let mut part = || {
        let (at, len) = (words.next()? as usize, words.next()? as usize);
        body.get(at..at.checked_add(len)?)
    };
    match (part(), part()) {
        (Some(types), Some(strings)) => Ok((types, strings)),
        _ => Err(bad("its types or strings end behind the file")),
    }
}

/// The reverse of [`parts`].
pub(super) fn whole(types: &[u8], strings: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(types.len() + strings.len() + HEADER_BYTES as usize);
    made.extend(MAGIC.to_le_bytes());
    // The version, and no flags.
    made.extend([1, 0]);
    let lengths = [HEADER_BYTES as usize, 0, types.len(), types.len(), strings.len()];
    lengths.iter().for_each(|n| made.extend((*n as u32).to_le_bytes()));
    made.extend(types);
    made.extend(strings);
    made
}

impl Kind {
    pub(super) fn of(info: u32) -> Option<Kind> {
        KINDS.get((info >> 24 & 0x7f) as usize).copied()
    }
    /// Bytes behind a type of this kind with `n` items.
    pub(super) fn bytes_behind(self, n: usize) -> usize {
        match self {
            Kind::Int | Kind::Var | Kind::DeclTag => 4,
            Kind::Array => 12,
            Kind::Struct | Kind::Union | Kind::Datasec | Kind::Enum64 => 12 * n,
            Kind::Enum | Kind::FuncProto => 8 * n,
            _ => 0,
        }
    }
}

impl Btf {
    /// Reads raw BTF: a file of `/sys/kernel/btf`, or a section `.BTF`.
    ///
    /// # Errors
    /// If the bytes are not whole BTF, or name types or strings that are not there.
    pub fn parse(bytes: &[u8]) -> Result<Btf> {
        let (mut types, strings) = parts(bytes)?;
        if strings.first() != Some(&0) || strings.last() != Some(&0) {
            return Err(bad("its strings do not start and end with a zero"));
        }
        let strings = std::str::from_utf8(strings).map_err(|_| bad("its strings are not text"))?;
        let mut btf = Btf { types: vec![Type::default()], strings: strings.to_owned(), ..Btf::default() };
        while !types.is_empty() {
            let at = btf.types.len();
            types = btf
                .push(types)
                .ok_or_else(|| bad(&format!("type {at} is not whole, or of an unknown kind")))?;
        }
        btf.check()?;
        btf.index();
        Ok(btf)
    }
    /// Takes one type from the bytes, and gives the rest.
    fn push<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut words = Words(bytes);
        let (name, info, size_or_id) = (words.next()?, words.next()?, words.next()?);
        let (kind, flag, n) = (Kind::of(info)?, info >> 31 != 0, (info & 0xff_ffff) as usize);
        let end = TYPE_BYTES.checked_add(kind.bytes_behind(n))?;
        let mut behind = Words(bytes.get(TYPE_BYTES..end)?);
        let mut made =
            Type { name, kind, flag, size_or_id, first: self.items.len() as u32, items: 0, detail: 0 };
        match kind {
            Kind::Void => return None,
            Kind::Int | Kind::Var | Kind::DeclTag => made.detail = behind.next()?,
            Kind::Func => made.detail = n as u32,
            Kind::Array => {
                let (id, _, value) = (behind.next()?, behind.next()?, behind.next()?);
                self.items.push(Item { name: 0, id, value: u64::from(value), bits: 0, offset: 0 });
            }
            Kind::Struct | Kind::Union | Kind::Enum | Kind::Enum64 | Kind::FuncProto | Kind::Datasec => {
                for _ in 0..n {
                    self.items.push(item(kind, flag, &mut behind)?);
                }
            }
            _ => {}
        }
        made.items = self.items.len() as u32 - made.first;
        self.types.push(made);
        bytes.get(end..)
    }
    fn check(&self) -> Result<()> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let outside = |t: &Type| {
            let items = &self.items[t.first as usize..(t.first + t.items) as usize];
            let id = match t.kind {
                Kind::Int
                | Kind::Struct
                | Kind::Union
                | Kind::Enum
                | Kind::Enum64
                | Kind::Datasec
                | Kind::Float => 0,
                Kind::Fwd | Kind::Array => 0,
                _ => t.size_or_id,
            };
            t.name >= strings || id >= types || items.iter().any(|i| i.name >= strings || i.id >= types)
        };
        match self.types.iter().position(outside) {
            Some(at) => Err(bad(&format!("type {at} names a type or string that is not there"))),
            None if !self.names().all(|n| self.strings.is_char_boundary(n as usize)) => {
                Err(bad("a name starts inside a letter"))
            }
            None => Ok(()),
        }
    }
    fn names(&self) -> impl Iterator<Item = u32> {
        self.types.iter().map(|t| t.name).chain(self.items.iter().map(|i| i.name))
    }
    fn index(&mut self) {
        let mut heads = vec![0; self.types.len().next_power_of_two()];
        let mut next = vec![0; self.types.len()];
        for id in self.ids().rev().filter(|id| !self.name(*id).is_empty()) {
            let head =
                &mut heads[hash(essential(self.name(id))) & (self.types.len().next_power_of_two() - 1)];
            next[id as usize] = *head;
            *head = id;
        }
        (self.heads, self.next) = (heads, next);
    }
}

fn item(kind: Kind, flag: bool, words: &mut Words) -> Option<Item> {
    let first = words.next()?;
    let second = words.next()?;
    Some(match kind {
        Kind::Struct | Kind::Union => {
            let offset = words.next()?;
            let (at, bits) = if flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            Item { name: first, id: second, value: u64::from(at), bits, offset: 0 }
        }
        Kind::Enum => {
            let value = if flag { second.cast_signed() as i64 as u64 } else { u64::from(second) };
            Item { name: first, id: 0, value, bits: 0, offset: 0 }
        }
        Kind::Enum64 => Item {
            name: first,
            id: 0,
            value: u64::from(second) | u64::from(words.next()?) << 32,
            bits: 0,
            offset: 0,
        },
        Kind::Datasec => {
            Item { name: 0, id: first, value: u64::from(words.next()?), bits: 0, offset: second }
        }
        _ => Item { name: first, id: second, value: 0, bits: 0, offset: 0 },
    })
}
