//! The entries of an object's debug data that types are made of, in one list.
//!
//! A compiler describes each source by a tree of entries (DWARF). Only types, their members, functions and variables
//! are kept, each with the few attributes that BTF asks for. A reference is the place of another entry in the list;
//! the entries below one follow it, up to its end.

use gimli::constants as dw;
use gimli::{AttributeValue, DwAt, DwTag, Dwarf, EndianSlice, LittleEndian, SectionId, Unit};
use object::{Object, ObjectSection};
use schedlab_base::{Error, Result};
use std::collections::HashMap;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// References from one entry to another, as from a variable to its declaration.
const LONGEST: usize = 8;

#[derive(Clone, Default, Debug)]
pub(super) struct Entry<'a> {
    tag: u16,
    pub name: &'a str,
    /// Where its type's entry is; none: void.
    pub to: Option<usize>,
    /// The entry that describes it, if it is another one.
    origin: Option<usize>,
    pub bytes: u64,
    /// An enumerator's value; the encoding of a number; the elements of an array.
    pub value: u64,
    pub is_negative: bool,
    /// A member's offset in bits, and its bits if it is a bit field.
    pub offset_bits: u64,
    pub bits: u32,
    pub is_declaration: bool,
    pub is_external: bool,
    /// Of a variable.
    pub address: Option<u64>,
    /// Behind the entries below it.
    end: usize,
}

pub(super) struct Entries<'a>(pub Vec<Entry<'a>>);

impl Entry<'_> {
    pub(super) fn tag(&self) -> DwTag {
        DwTag(self.tag)
    }
}

impl<'a> Entries<'a> {
    /// # Errors
    /// If the object's debug data can't be read.
    pub(super) fn of(file: &object::File<'a>) -> Result<Entries<'a>> {
        let section = |id: SectionId| -> std::result::Result<Bytes<'a>, object::Error> {
            let found = file.section_by_name(id.name());
            let data = found.map_or(Ok(&[][..]), |section| section.data())?;
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let dwarf = Dwarf::load(section).map_err(|e| unfit(&e.to_string()))?;
        let mut reading = Reading { dwarf: &dwarf, all: Vec::new(), at: HashMap::new(), refs: Vec::new() };
        reading.units().map_err(|e| unfit(&e.to_string()))?;
        Ok(Entries(reading.resolved()))
    }
    /// The entries right below one, and those of blocks without an entry of their own.
    pub(super) fn below(&self, at: usize) -> impl Iterator<Item = &Entry<'a>> + Clone {
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let found = (next < self.0[at].end).then(|| &self.0[next])?;
            next = found.end;
            Some(found)
        })
    }
    /// The entry that describes another one: the declaration of a variable.
    pub(super) fn origin(&self, mut at: usize) -> usize {
        for _ in 0..LONGEST {
            match self.0[at].origin {
                Some(origin) => at = origin,
                None => break,
            }
        }
        at
    }
}

pub(super) fn unfit(what: &str) -> Error {
    Error::internal(format!("debug data of the image: {what}"))
}

/// Which of an entry's references an offset is.
enum Ref {
    Type,
    Origin,
}

struct Reading<'d, 'a> {
    dwarf: &'d Dwarf<Bytes<'a>>,
    all: Vec<Entry<'a>>,
    /// Places of entries by their offsets.
    at: HashMap<usize, usize>,
    refs: Vec<(usize, Ref, usize)>,
}

fn is_kept(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_base_type
            | dw::DW_TAG_pointer_type
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type
            | dw::DW_TAG_typedef
            | dw::DW_TAG_array_type
            | dw::DW_TAG_subrange_type
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_member
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_enumerator
            | dw::DW_TAG_subroutine_type
            | dw::DW_TAG_subprogram
            | dw::DW_TAG_formal_parameter
            | dw::DW_TAG_unspecified_parameters
            | dw::DW_TAG_unspecified_type
            | dw::DW_TAG_variable
    )
}

impl<'a> Reading<'_, 'a> {
    fn units(&mut self) -> gimli::Result<()> {
        let dwarf = self.dwarf;
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            self.unit(&dwarf.unit(header)?)?;
        }
        Ok(())
    }
    fn unit(&mut self, unit: &Unit<Bytes<'a>>) -> gimli::Result<()> {
        let begins = unit.header.debug_info_offset().map_or(0, |offset| offset.0);
        let mut raw = unit.entries_raw(None)?;
        // For each level above: the entry there, if it is kept.
        let mut above: Vec<Option<usize>> = Vec::new();
        while !raw.is_empty() {
            let (offset, depth) =
                (begins + raw.next_offset().0, usize::try_from(raw.next_depth()).unwrap_or(0));
            self.close(&mut above, depth);
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            // A parameter of code that was put into another function describes no function.
            let is_parameter = matches!(tag, dw::DW_TAG_formal_parameter | dw::DW_TAG_unspecified_parameters);
            let is_kept = is_kept(tag) && !(is_parameter && above.last().is_none_or(Option::is_none));
            above.push(is_kept.then_some(self.all.len()));
            if !is_kept {
                raw.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let place = self.all.len();
            self.at.insert(offset, place);
            self.all.push(Entry { tag: tag.0, end: place + 1, ..Entry::default() });
            let mut field = Field::default();
            for form in abbreviation.attributes() {
                let attribute = raw.read_attribute(*form)?;
                self.attribute(unit, begins, (attribute.name(), attribute.value()), &mut field)?;
            }
            let entry = &mut self.all[place];
            entry.offset_bits = field.offset_bits(entry.bits, entry.bytes);
        }
        self.close(&mut above, 0);
        Ok(())
    }
    /// Ends the entries that are not above a depth.
    fn close(&mut self, above: &mut Vec<Option<usize>>, depth: usize) {
        let end = self.all.len();
        above.drain(depth.min(above.len())..).flatten().for_each(|at| self.all[at].end = end);
    }
    fn attribute(
        &mut self,
        unit: &Unit<Bytes<'a>>,
        begins: usize,
        (name, value): (DwAt, AttributeValue<Bytes<'a>>),
        field: &mut Field,
    ) -> gimli::Result<()> {
        let place = self.all.len() - 1;
        let number = value.udata_value();
        let offset = match value {
            AttributeValue::UnitRef(offset) => Some(begins + offset.0),
            AttributeValue::DebugInfoRef(offset) => Some(offset.0),
            _ => None,
        };
        let entry = &mut self.all[place];
        match name {
            dw::DW_AT_name => entry.name = text(self.dwarf.attr_string(unit, value)?),
            dw::DW_AT_type => self.refs.extend(offset.map(|to| (place, Ref::Type, to))),
            dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                self.refs.extend(offset.map(|to| (place, Ref::Origin, to)));
            }
            dw::DW_AT_byte_size => entry.bytes = number.unwrap_or(0),
            dw::DW_AT_bit_size => entry.bits = number.unwrap_or(0) as u32,
            dw::DW_AT_bit_offset => field.from_top = number,
            dw::DW_AT_data_bit_offset => field.from_start = number,
            dw::DW_AT_data_member_location => field.byte = number.unwrap_or(0),
            dw::DW_AT_const_value => {
                entry.is_negative = number.is_none() && value.sdata_value().is_some();
                entry.value = number.or(value.sdata_value().map(i64::cast_unsigned)).unwrap_or(0);
            }
            dw::DW_AT_encoding => {
                if let AttributeValue::Encoding(encoding) = value {
                    entry.value = encoding.0.into();
                }
            }
            dw::DW_AT_count => entry.value = number.unwrap_or(0),
            // The last index of an empty array is -1.
            dw::DW_AT_upper_bound => entry.value = number.map_or(0, |last| last.wrapping_add(1)),
            dw::DW_AT_declaration => entry.is_declaration = true,
            dw::DW_AT_external => entry.is_external = true,
            dw::DW_AT_location => {
                let operation = value.exprloc_value().map(|e| e.operations(unit.encoding()).next());
                if let Some(Ok(Some(gimli::Operation::Address { address }))) = operation {
                    entry.address = Some(address);
                }
            }
            _ => {}
        }
        Ok(())
    }
    fn resolved(mut self) -> Vec<Entry<'a>> {
        for (place, kind, offset) in self.refs {
            let to = self.at.get(&offset).copied();
            match kind {
                Ref::Type => self.all[place].to = to,
                Ref::Origin => self.all[place].origin = to,
            }
        }
        self.all
    }
}

/// Where a member starts: DWARF has three ways to say it.
#[derive(Default)]
struct Field {
    byte: u64,
    /// Bits from the start of the struct.
    from_start: Option<u64>,
    /// Bits from the highest one of the number that the field is a part of.
    from_top: Option<u64>,
}

impl Field {
    fn offset_bits(&self, bits: u32, bytes: u64) -> u64 {
        let of_byte = self.byte.wrapping_mul(8);
        match (self.from_start, self.from_top) {
            (Some(at), _) => at,
            (None, Some(top)) => {
                of_byte.wrapping_add(bytes.wrapping_mul(8)).wrapping_sub(top).wrapping_sub(bits.into())
            }
            (None, None) => of_byte,
        }
    }
}

/// Empty if it is not text.
fn text(string: Bytes<'_>) -> &str {
    std::str::from_utf8(string.slice()).unwrap_or_default()
}
