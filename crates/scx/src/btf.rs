//! BTF, the type information of BPF: what a kernel's types look like, and what a program believes they do.
//!
//! # Problem
//!
//! A kernel is known by its BTF alone, and a program's own BTF says what its maps, relocations and calls mean. Both are
//! bytes of others: nothing in them is trusted.
//!
//! # Invariants
//!
//! Each id, offset of a string and list of items in a [`Btf`] is in range; that is checked once ([`Btf::parse`]). Types
//! may still name each other in circles, so each walk has a limit.

mod dwarf;
mod encode;
mod parse;
mod prototype;

pub use encode::of_image;
pub(crate) use prototype::PROBE_TYPE;
pub use prototype::{Prototype, ResultKind, for_programs};

/// Typedefs, modifiers and arrays that follow each other: compilers write a few.
const DEEPEST: usize = 32;

/// The kinds of types, with the numbers of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    #[default]
    Void,
    Int,
    Ptr,
    Array,
    Struct,
    Union,
    Enum,
    Fwd,
    Typedef,
    Volatile,
    Const,
    Restrict,
    Func,
    FuncProto,
    Var,
    Datasec,
    Float,
    DeclTag,
    TypeTag,
    Enum64,
}

impl Kind {
    pub fn is_composite(self) -> bool {
        matches!(self, Kind::Struct | Kind::Union)
    }
    pub fn is_enum(self) -> bool {
        matches!(self, Kind::Enum | Kind::Enum64)
    }
    /// Qualifiers and tags: they have no name that a program could mean.
    fn is_modifier(self) -> bool {
        matches!(self, Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag)
    }
    /// Whether types of these kinds may stand for each other: an enum has two forms.
    pub fn stands_for(self, other: Kind) -> bool {
        self == other || self.is_enum() && other.is_enum()
    }
}

/// A member, enumerator, parameter, variable of a section, or element of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    name: u32,
    /// Its type. Of an enumerator: 0.
    pub id: u32,
    /// A member's offset in bits; an enumerator's value; a variable's size; the number of an array's elements.
    pub value: u64,
    /// A member's width in bits if it is a bit field, else 0.
    pub bits: u32,
    /// Where a variable of a section starts, bytes; else 0. A compiler leaves that to whoever links.
    pub offset: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Type {
    name: u32,
    kind: Kind,
    /// `kind_flag`: signed values of an enum, a union of a forward declaration.
    flag: bool,
    /// A size in bytes or another type's id, as the kind has it.
    size_or_id: u32,
    /// Its items, in [`Btf::items`]: the first, and how many.
    first: u32,
    items: u32,
    /// Of an integer: encoding, offset and bits, as the format has them. Of a function: its linkage.
    detail: u32,
}

/// The types of a kernel or program. Type 0 is void.
#[derive(Clone, Debug, Default)]
pub struct Btf {
    types: Vec<Type>,
    items: Vec<Item>,
    strings: String,
    /// Chains of types by the hash of their essential names: the first of each, and the next of each type; 0 ends one.
    heads: Vec<u32>,
    next: Vec<u32>,
}

/// A name without the program's note of a variant: `task_struct___old` is `task_struct`.
pub fn essential(name: &str) -> &str {
    let n = name.as_bytes();
    let at = (1..n.len().saturating_sub(3))
        .rev()
        .find(|&i| n[i - 1] != b'_' && &n[i..i + 3] == b"___" && n[i + 3] != b'_');
    at.map_or(name, |i| &name[..i])
}

fn hash(name: &str) -> usize {
    name.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)) as usize
}

impl Btf {
    /// Types and void.
    pub fn len(&self) -> usize {
        self.types.len()
    }
    pub fn is_empty(&self) -> bool {
        self.types.len() <= 1
    }
    pub fn ids(&self) -> std::ops::Range<u32> {
        1..self.types.len() as u32
    }
    fn get(&self, id: u32) -> Type {
        self.types.get(id as usize).copied().unwrap_or_default()
    }
    pub fn kind(&self, id: u32) -> Kind {
        self.get(id).kind
    }
    /// Empty if it has none.
    pub fn name(&self, id: u32) -> &str {
        self.text(self.get(id).name)
    }
    pub fn item_name(&self, item: &Item) -> &str {
        self.text(item.name)
    }
    /// The string at that offset.
    pub(crate) fn text(&self, offset: u32) -> &str {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        rest.split('\0').next().unwrap_or_default()
    }
    pub(crate) fn flag(&self, id: u32) -> bool {
        self.get(id).flag
    }
    /// The type that a pointer, typedef, modifier, variable or function names; what a prototype returns; an array's
    /// element.
    pub fn to(&self, id: u32) -> u32 {
        match self.kind(id) {
            Kind::Array => self.items(id).first().map_or(0, |i| i.id),
            Kind::Struct
            | Kind::Union
            | Kind::Int
            | Kind::Float
            | Kind::Enum
            | Kind::Enum64
            | Kind::Datasec => 0,
            _ => self.get(id).size_or_id,
        }
    }
    pub fn items(&self, id: u32) -> &[Item] {
        let t = self.get(id);
        self.items.get(t.first as usize..(t.first + t.items) as usize).unwrap_or_default()
    }
    /// Whether an integer is signed, and whether it is a bool.
    pub fn is_signed(&self, id: u32) -> bool {
        match self.kind(id) {
            Kind::Int => self.get(id).detail >> 24 & 1 != 0,
            Kind::Enum | Kind::Enum64 => self.flag(id),
            _ => false,
        }
    }
    pub fn is_bool(&self, id: u32) -> bool {
        self.kind(id) == Kind::Int && self.get(id).detail >> 24 & 4 != 0
    }
    /// Where an integer starts in its bytes, in bits: old compilers wrote bit fields so.
    pub(crate) fn int_offset(&self, id: u32) -> u32 {
        self.get(id).detail >> 16 & 0xff
    }
    /// The type behind typedefs, qualifiers and tags; void if they go in a circle.
    pub fn bare(&self, mut id: u32) -> u32 {
        for _ in 0..DEEPEST {
            let kind = self.kind(id);
            if !kind.is_modifier() && kind != Kind::Typedef {
                return id;
            }
            id = self.to(id);
        }
        0
    }
    /// A value's size in bytes; none of a function, a declaration or void.
    pub fn size(&self, mut id: u32) -> Option<u64> {
        let mut times = 1u64;
        for _ in 0..DEEPEST {
            match self.kind(id) {
                Kind::Ptr => return times.checked_mul(8),
                Kind::Array => times = times.checked_mul(self.count(id))?,
                Kind::Void | Kind::Fwd | Kind::Func | Kind::FuncProto | Kind::DeclTag => return None,
                Kind::Typedef | Kind::Var => {}
                kind if kind.is_modifier() => {}
                _ => return times.checked_mul(u64::from(self.get(id).size_or_id)),
            }
            id = self.to(id);
        }
        None
    }
    /// The number of an array's elements.
    pub fn count(&self, id: u32) -> u64 {
        self.items(id).first().map_or(0, |i| i.value)
    }
    /// Types whose essential names are this one, in order of their ids.
    pub fn alike<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let head = self.heads.get(hash(name) & self.heads.len().wrapping_sub(1)).copied().unwrap_or_default();
        let chain = std::iter::successors(Some(head), |id| self.next.get(*id as usize).copied());
        chain.take_while(|id| *id != 0).filter(move |id| essential(self.name(*id)) == name)
    }
    /// The first type of exactly that name and kind.
    pub fn find(&self, name: &str, kind: Kind) -> Option<u32> {
        self.alike(essential(name)).find(|id| self.kind(*id) == kind && self.name(*id) == name)
    }
    /// Names of functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.ids().filter(|id| self.kind(*id) == Kind::Func).map(|id| self.name(id))
    }
    pub fn func(&self, name: &str) -> Option<u32> {
        self.find(name, Kind::Func)
    }
    /// A member of that name, also of structs without a name inside: the member, and its offset in bits.
    pub fn member(&self, id: u32, name: &str) -> Option<(Item, u64)> {
        self.member_within(id, name, 0)
    }
    fn member_within(&self, id: u32, name: &str, depth: usize) -> Option<(Item, u64)> {
        let id = self.bare(id);
        if depth > DEEPEST || !self.kind(id).is_composite() {
            return None;
        }
        self.items(id).iter().find_map(|m| match self.item_name(m) {
            "" => self.member_within(m.id, name, depth + 1).map(|(i, at)| (i, at.wrapping_add(m.value))),
            own if own == name => Some((*m, m.value)),
            _ => None,
        })
    }
    /// All enumerators with their values. Negative values are extended to 64 bits.
    pub fn enumerators(&self) -> impl Iterator<Item = (&str, u64)> {
        self.ids()
            .filter(|id| self.kind(*id).is_enum())
            .flat_map(|id| self.items(id).iter().map(|i| (self.item_name(i), i.value)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
