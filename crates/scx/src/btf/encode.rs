//! A kernel's BTF from its debug data.
//!
//! # Problem
//!
//! A kernel's build makes its BTF by pahole(1) from the compiler's debug data, and so should an image's, but without a
//! program that few machines have. Each source of the image describes the types of all headers that it reads, so there
//! are dozens of descriptions of one struct, and they refer to each other in circles.
//!
//! # Rule
//!
//! Each circle goes through a struct or union that has a name. Those are one type where name, size and the members'
//! names and places are equal; a declaration without members is the first struct of that name, if there is one. All
//! other types are one where their bytes are equal.
//!
//! # What is described
//!
//! All types, functions that have a symbol of their name, and the variables of each CPU, as section
//! `.data..percpu`. Ids follow the order of names: a compiler that had read headers before describes the same types in
//! another order, and equal images have equal bytes.

use super::Kind;
use super::dwarf::{Entries, Entry, unfit};
use gimli::constants as dw;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use schedlab_base::Result;
use std::collections::{HashMap, HashSet, VecDeque};

/// Pointers, qualifiers and structs without a name that follow each other.
const DEEPEST: usize = 64;
/// A kernel's name of the section of variables of each CPU.
const PERCPU: &str = ".data..percpu";
/// An integer's encodings.
const SIGNED: u32 = 1;
const BOOL: u32 = 4;
/// `kind_flag` of a type.
const FLAG: u32 = 1 << 31;

/// The BTF of a linked image. `percpu` is its section of variables that each CPU has.
///
/// # Errors
/// If it is not an object, or its debug data can't be read or is not there.
pub fn of_image(image: &[u8], percpu: &str) -> Result<Vec<u8>> {
    let file = object::File::parse(image).map_err(|e| unfit(&e.to_string()))?;
    let entries = Entries::of(&file)?;
    let code = file.symbols().filter(|s| s.is_definition() && s.kind() == SymbolKind::Text);
    let symbols: HashSet<&str> = code.filter_map(|symbol| symbol.name().ok()).collect();
    let section = file.section_by_name(percpu);
    let section = section.map(|section| section.address()..section.address() + section.size());
    let mut making = Making::of(&entries);
    for at in making.order() {
        making.top(at, &symbols, section.as_ref())?;
        making.fill()?;
    }
    making.section(section.map_or(0, |section| section.end - section.start));
    if making.types.is_empty() {
        return Err(unfit("there is none"));
    }
    Ok(making.bytes())
}

/// What two descriptions of a struct must share.
type Shape<'a> = (u16, &'a str, u64, Vec<(&'a str, u64, u32)>);

struct Making<'e, 'a> {
    entries: &'e Entries<'a>,
    /// Ids of entries; 0: not yet, or void.
    ids: Vec<u32>,
    types: Vec<Vec<u8>>,
    by_bytes: HashMap<Vec<u8>, u32>,
    by_shape: HashMap<Shape<'a>, u32>,
    /// The first description with members, by tag and name.
    whole: HashMap<(u16, &'a str), usize>,
    /// Structs and unions that have an id and no bytes yet.
    open: VecDeque<(u32, usize)>,
    strings: Vec<u8>,
    names: HashMap<&'a str, u32>,
    /// Variables of each CPU: offset, id, bytes.
    variables: Vec<(u32, u32, u32)>,
}

fn kind(kind: Kind) -> u32 {
    (kind as u32) << 24
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The number of items in a type's words, behind the three that each type has.
fn items(words: &[u32], each: usize) -> u32 {
    ((words.len() - 3) / each) as u32
}

fn word(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| unfit("a size or place is beyond 32 bits"))
}

impl<'e, 'a> Making<'e, 'a> {
    fn of(entries: &'e Entries<'a>) -> Self {
        let mut whole = HashMap::new();
        for (at, entry) in
            entries.0.iter().enumerate().filter(|(_, e)| !e.name.is_empty() && !e.is_declaration)
        {
            whole.entry((entry.tag().0, entry.name)).or_insert(at);
        }
        Making {
            entries,
            ids: vec![0; entries.0.len()],
            types: Vec::new(),
            by_bytes: HashMap::new(),
            by_shape: HashMap::new(),
            whole,
            open: VecDeque::new(),
            strings: vec![0],
            names: HashMap::from([("", 0)]),
            variables: Vec::new(),
        }
    }
    /// All entries by name; enums without one by their first enumerator's.
    fn order(&self) -> Vec<usize> {
        let name = |at: usize| match self.entries.0[at].name {
            "" => self.entries.below(at).next().map_or("", |first| first.name),
            name => name,
        };
        let mut all: Vec<usize> = (0..self.entries.0.len()).collect();
        all.sort_by_cached_key(|at| (name(*at), self.entries.0[*at].tag().0));
        all
    }
    /// Describes an entry if it is a type with a name, a function, or a variable of each CPU.
    fn top(
        &mut self,
        at: usize,
        symbols: &HashSet<&str>,
        percpu: Option<&std::ops::Range<u64>>,
    ) -> Result<()> {
        let entry = &self.entries.0[at];
        match entry.tag() {
            // One without a name is described where it is used.
            dw::DW_TAG_structure_type | dw::DW_TAG_union_type if entry.name.is_empty() => Ok(()),
            dw::DW_TAG_structure_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_typedef
            | dw::DW_TAG_base_type => self.id(Some(at), 0).map(drop),
            // Where two functions are the same code, one of them has a symbol and no code.
            dw::DW_TAG_subprogram if !entry.is_declaration && symbols.contains(entry.name) => {
                self.function(at)
            }
            dw::DW_TAG_variable => match (entry.address, percpu) {
                (Some(address), Some(section)) if section.contains(&address) => {
                    self.variable(at, address - section.start)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
    fn function(&mut self, at: usize) -> Result<()> {
        let prototype = self.prototype(at, 0)?;
        let name = self.name(self.entries.0[at].name)?;
        self.shared(bytes(&[name, kind(Kind::Func), prototype]));
        Ok(())
    }
    fn variable(&mut self, at: usize, offset: u64) -> Result<()> {
        let described = &self.entries.0[self.entries.origin(at)];
        let of = [self.entries.0[at].to, described.to];
        let to = self.id(of[0].or(of[1]), 0)?;
        let size = self.size(of[0]).or_else(|| self.size(of[1]));
        let Some(size) = size else { return Ok(()) };
        let is_global = described.is_external || self.entries.0[at].is_external;
        let name = self.name(described.name)?;
        let id = self.new_type(bytes(&[name, kind(Kind::Var), to, is_global.into()]));
        self.variables.push((word(offset)?, id, word(size)?));
        Ok(())
    }
    /// The size of a type's values.
    fn size(&self, mut at: Option<usize>) -> Option<u64> {
        let mut times = 1u64;
        for _ in 0..DEEPEST {
            let entry = &self.entries.0[at?];
            match entry.tag() {
                dw::DW_TAG_array_type => {
                    let counts = self.entries.below(at?).filter(|e| e.tag() == dw::DW_TAG_subrange_type);
                    times = counts.map(|e| e.value).try_fold(times, u64::checked_mul)?;
                }
                dw::DW_TAG_pointer_type => return times.checked_mul(8),
                _ if entry.bytes > 0 || entry.to.is_none() => return times.checked_mul(entry.bytes),
                _ => {}
            }
            at = entry.to;
        }
        None
    }
    fn section(&mut self, size: u64) {
        if self.variables.is_empty() {
            return;
        }
        self.variables.sort_unstable();
        let name = self.name(PERCPU).unwrap_or(0);
        let mut words = vec![name, kind(Kind::Datasec) | self.variables.len() as u32, size as u32];
        self.variables.iter().for_each(|(offset, id, size)| words.extend([*id, *offset, *size]));
        self.new_type(bytes(&words));
    }

    fn name(&mut self, name: &'a str) -> Result<u32> {
        if let Some(at) = self.names.get(name) {
            return Ok(*at);
        }
        let at = word(self.strings.len() as u64)?;
        self.strings.extend(name.bytes().chain([0]));
        self.names.insert(name, at);
        Ok(at)
    }
    fn new_type(&mut self, bytes: Vec<u8>) -> u32 {
        self.types.push(bytes);
        self.types.len() as u32
    }
    /// A type that is one with each of equal bytes.
    fn shared(&mut self, bytes: Vec<u8>) -> u32 {
        if let Some(id) = self.by_bytes.get(&bytes) {
            return *id;
        }
        let id = self.new_type(bytes.clone());
        self.by_bytes.insert(bytes, id);
        id
    }
    /// The type of an entry; void without one.
    fn id(&mut self, at: Option<usize>, depth: usize) -> Result<u32> {
        let Some(at) = at else { return Ok(0) };
        if self.ids[at] != 0 {
            return Ok(self.ids[at]);
        }
        if depth > DEEPEST {
            return Err(unfit("types follow each other without end"));
        }
        let entry = &self.entries.0[at];
        let depth = depth + 1;
        let id = match entry.tag() {
            dw::DW_TAG_base_type => self.number(entry)?,
            dw::DW_TAG_pointer_type => self.leading(Kind::Ptr, entry, depth)?,
            dw::DW_TAG_const_type => self.leading(Kind::Const, entry, depth)?,
            dw::DW_TAG_volatile_type => self.leading(Kind::Volatile, entry, depth)?,
            dw::DW_TAG_restrict_type => self.leading(Kind::Restrict, entry, depth)?,
            dw::DW_TAG_typedef => self.leading(Kind::Typedef, entry, depth)?,
            dw::DW_TAG_array_type => self.array(at, depth)?,
            dw::DW_TAG_subroutine_type => self.prototype(at, depth)?,
            dw::DW_TAG_enumeration_type => self.enumeration(at)?,
            dw::DW_TAG_structure_type | dw::DW_TAG_union_type => self.composite(at, depth)?,
            _ => self.id(entry.to, depth)?,
        };
        self.ids[at] = id;
        Ok(id)
    }
    fn number(&mut self, entry: &Entry<'a>) -> Result<u32> {
        let name = self.name(entry.name)?;
        let size = word(entry.bytes)?;
        let encoding = match gimli::DwAte(entry.value as u8) {
            dw::DW_ATE_float => return Ok(self.shared(bytes(&[name, kind(Kind::Float), size]))),
            dw::DW_ATE_signed | dw::DW_ATE_signed_char => SIGNED,
            dw::DW_ATE_boolean => BOOL,
            _ => 0,
        };
        Ok(self.shared(bytes(&[name, kind(Kind::Int), size, (encoding << 24) | (size * 8)])))
    }
    /// A pointer, a qualifier or a typedef.
    fn leading(&mut self, of: Kind, entry: &Entry<'a>, depth: usize) -> Result<u32> {
        let to = self.id(entry.to, depth)?;
        let name = self.name(if of == Kind::Typedef { entry.name } else { "" })?;
        Ok(self.shared(bytes(&[name, kind(of), to])))
    }
    fn array(&mut self, at: usize, depth: usize) -> Result<u32> {
        let mut id = self.id(self.entries.0[at].to, depth)?;
        let ranges = self.entries.below(at).filter(|e| e.tag() == dw::DW_TAG_subrange_type);
        let ranges: Vec<(Option<usize>, u64)> = ranges.map(|e| (e.to, e.value)).collect();
        for (index, count) in ranges.into_iter().rev() {
            let index = self.id(index, depth)?;
            id = self.shared(bytes(&[0, kind(Kind::Array), 0, id, index, word(count)?]));
        }
        Ok(id)
    }
    fn prototype(&mut self, at: usize, depth: usize) -> Result<u32> {
        let entries = self.entries;
        let mut words = vec![0, 0, self.id(entries.0[at].to, depth)?];
        for entry in entries.below(at) {
            match entry.tag() {
                dw::DW_TAG_formal_parameter => {
                    words.extend([self.name(entry.name)?, self.id(entry.to, depth)?]);
                }
                // A nameless parameter without a type stands for those that may follow.
                dw::DW_TAG_unspecified_parameters if words.len() > 3 => words.extend([0, 0]),
                _ => {}
            }
        }
        words[1] = kind(Kind::FuncProto) | items(&words, 2);
        Ok(self.shared(bytes(&words)))
    }
    fn enumeration(&mut self, at: usize) -> Result<u32> {
        let entries = self.entries;
        let entry = &entries.0[at];
        let at = if entry.is_declaration { self.described(entry).unwrap_or(at) } else { at };
        let size = word(entries.0[at].bytes)?;
        let size = if entries.0[at].is_declaration { 4 } else { size };
        let all = entries.below(at).filter(|e| e.tag() == dw::DW_TAG_enumerator);
        let is_signed = all.clone().any(|e| e.is_negative);
        let mut words = vec![self.name(entry.name)?, 0, size];
        for one in all {
            words.extend([self.name(one.name)?, one.value as u32]);
            words.extend((size > 4).then_some((one.value >> 32) as u32));
        }
        let (of, each) = if size > 4 { (Kind::Enum64, 3) } else { (Kind::Enum, 2) };
        let flag = if is_signed { FLAG } else { 0 };
        words[1] = kind(of) | flag | items(&words, each);
        Ok(self.shared(bytes(&words)))
    }
    /// The whole description of what is only declared.
    fn described(&self, entry: &Entry<'a>) -> Option<usize> {
        self.whole.get(&(entry.tag().0, entry.name)).copied()
    }
    fn composite(&mut self, at: usize, depth: usize) -> Result<u32> {
        let entry = &self.entries.0[at];
        if entry.is_declaration {
            return match self.described(entry) {
                Some(whole) => self.id(Some(whole), depth),
                None => {
                    let name = self.name(entry.name)?;
                    let flag = if entry.tag() == dw::DW_TAG_union_type { FLAG } else { 0 };
                    Ok(self.shared(bytes(&[name, kind(Kind::Fwd) | flag, 0])))
                }
            };
        }
        if entry.name.is_empty() {
            let made = self.members(at, depth)?;
            return Ok(self.shared(made));
        }
        let members = self.entries.below(at).filter(|e| e.tag() == dw::DW_TAG_member);
        let members = members.map(|m| (m.name, m.offset_bits, m.bits)).collect();
        let shape: Shape<'a> = (entry.tag().0, entry.name, entry.bytes, members);
        if let Some(id) = self.by_shape.get(&shape) {
            return Ok(*id);
        }
        let id = self.new_type(Vec::new());
        self.by_shape.insert(shape, id);
        self.open.push_back((id, at));
        Ok(id)
    }
    /// The bytes of a struct or union.
    fn members(&mut self, at: usize, depth: usize) -> Result<Vec<u8>> {
        let entries = self.entries;
        let entry = &entries.0[at];
        let all = entries.below(at).filter(|e| e.tag() == dw::DW_TAG_member);
        let has_fields = all.clone().any(|m| m.bits > 0);
        let mut words = vec![self.name(entry.name)?, 0, word(entry.bytes)?];
        for member in all {
            let offset = word(member.offset_bits)?;
            let offset = if has_fields { (member.bits << 24) | (offset & 0xff_ffff) } else { offset };
            words.extend([self.name(member.name)?, self.id(member.to, depth)?, offset]);
        }
        let of = if entry.tag() == dw::DW_TAG_union_type { Kind::Union } else { Kind::Struct };
        let flag = if has_fields { FLAG } else { 0 };
        words[1] = kind(of) | flag | items(&words, 3);
        Ok(bytes(&words))
    }
    /// Gives their members to all structs that have none yet.
    fn fill(&mut self) -> Result<()> {
        while let Some((id, at)) = self.open.pop_front() {
            self.types[id as usize - 1] = self.members(at, 0)?;
        }
        Ok(())
    }
    fn bytes(self) -> Vec<u8> {
        super::parse::whole(&self.types.concat(), &self.strings)
    }
}

#[cfg(test)]
mod tests;
