//! CO-RE: what the program asked about the kernel's types, answered by the kernel's BTF.
//!
//! A field may be elsewhere, have another size, or be gone. A program that can live without it asks whether it is
//! there; an instruction that uses what is not there is marked, and a run that reaches it ends with that name.

use super::ext::Relocation;
use super::similar::Pair;
use super::spec::{self, Place, indices};
use crate::btf::{Btf, Kind, essential};

/// What a relocation asks, with the numbers of the format.
mod question {
    // 8, between an id and a size, is whether a type exists.
    pub const OFFSET: u32 = 0;
    pub const SIZE: u32 = 1;
    pub const FIELD_EXISTS: u32 = 2;
    pub const SIGNED: u32 = 3;
    pub const LEFT: u32 = 4;
    pub const RIGHT: u32 = 5;
    pub const OWN_ID: u32 = 6;
    pub const KERNEL_ID: u32 = 7;
    pub const TYPE_SIZE: u32 = 9;
    pub const VALUE_EXISTS: u32 = 10;
    pub const VALUE: u32 = 11;
    pub const TYPE_MATCHES: u32 = 12;
}
use question::*;

/// An answer to a relocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Value(Value),
    /// The kernel has no such thing, or more than one.
    Missing(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Value {
    /// By the program's own types; the instruction has it. None: the compiler or linker may have written another.
    pub old: Option<u64>,
    pub new: u64,
    /// Sizes of the field in the program's types and in the kernel's, if a load or store is to have that size.
    pub sizes: Option<(u64, u64)>,
    /// Whether the value may be loaded with another size: pointers and numbers without sign.
    pub widens: bool,
}

/// A number that a field has, and its type if it is a whole one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Measure {
    value: u64,
    whole: Option<u32>,
    /// Compilers agree about it, so that the instruction has the program's value.
    certain: bool,
}

/// Relocations with their answers.
pub(super) struct Core<'a> {
    pub pair: Pair<'a>,
}

impl<'a> Core<'a> {
    fn own(&self) -> &'a Btf {
        self.pair.own
    }
    fn kernel(&self) -> &'a Btf {
        self.pair.kernel
    }
    /// The error says what was asked, which the program's own types have no place for.
    pub fn answer(&self, r: &Relocation) -> Result<Answer, String> {
        let found = match r.question {
            OFFSET..=RIGHT => self.field(r),
            OWN_ID => Some(Answer::Value(Value { new: u64::from(r.id), ..Value::default() })),
            KERNEL_ID..=TYPE_SIZE | TYPE_MATCHES => Some(self.whole_type(r)),
            VALUE_EXISTS | VALUE => self.enumerator(r),
            _ => None,
        };
        found.ok_or_else(|| {
            let what = format!("question {} about '{}' {}", r.question, self.own().name(r.id), r.path);
            format!("asks {what}, which has no meaning in its own BTF")
        })
    }
    /// The kernel's types with this type's name and kind.
    fn candidates(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        let (name, kind) = (essential(self.own().name(id)), self.own().kind(id));
        self.kernel().alike(name).filter(move |k| self.kernel().kind(*k).stands_for(kind))
    }
    fn field(&self, r: &Relocation) -> Option<Answer> {
        let own = spec::local(self.own(), r.id, r.path)?;
        let places: Vec<Place> =
            self.candidates(r.id).filter_map(|id| own.within(self.own(), self.kernel(), id)).collect();
        if r.question == FIELD_EXISTS {
            return Some(Answer::Value(Value {
                old: Some(1),
                new: u64::from(!places.is_empty()),
                ..Value::default()
            }));
        }
        let old = measure(self.own(), &own, r.question)?;
        let name = self.describe(r);
        let Some(first) = places.first() else { return Some(Answer::Missing(name)) };
        let Some(new) = measure(self.kernel(), first, r.question) else {
            return Some(Answer::Missing(format!("{name} (no load has its bits)")));
        };
        let same = |p: &Place| {
            p.bit == first.bit && measure(self.kernel(), p, r.question).is_some_and(|m| m.value == new.value)
        };
        if !places.iter().all(same) {
            return Some(Answer::Missing(format!("{name} (types of that name differ)")));
        }
        Some(Answer::Value(self.measured(old, new)))
    }
    fn measured(&self, old: Measure, new: Measure) -> Value {
        let mut made = Value { old: old.certain.then_some(old.value), new: new.value, ..Value::default() };
        if let (Some(a), Some(b)) = (old.whole, new.whole) {
            made.sizes = self.own().size(a).zip(self.kernel().size(b));
            let (a, b) = (self.own().bare(a), self.kernel().bare(b));
            made.widens = match (self.own().kind(a), self.kernel().kind(b)) {
                (Kind::Ptr, Kind::Ptr) => true,
                (Kind::Int, Kind::Int) => !self.own().is_signed(a) && !self.kernel().is_signed(b),
                _ => false,
            };
        }
        made
    }
    fn whole_type(&self, r: &Relocation) -> Answer {
        let fits = |id: &u32| match r.question {
            TYPE_MATCHES => self.pair.matches(r.id, *id),
            _ => self.pair.compatible(r.id, *id),
        };
        let value = |btf: &Btf, id: u32| match r.question {
            KERNEL_ID => u64::from(id),
            TYPE_SIZE => btf.size(id).unwrap_or(0),
            _ => 1,
        };
        let found: Vec<u64> = self.candidates(r.id).filter(fits).map(|id| value(self.kernel(), id)).collect();
        if found.iter().any(|v| *v != found[0]) {
            return Answer::Missing(format!("{} (types of that name differ)", self.describe(r)));
        }
        let old = (r.question != KERNEL_ID).then(|| value(self.own(), r.id));
        Answer::Value(Value { old, new: found.first().copied().unwrap_or(0), ..Value::default() })
    }
    fn enumerator(&self, r: &Relocation) -> Option<Answer> {
        let index = *indices(r.path)?.first()?;
        let own = self.own().bare(r.id);
        let item = self.own().items(own).get(usize::try_from(index).ok()?)?;
        if !self.own().kind(own).is_enum() {
            return None;
        }
        let name = essential(self.own().item_name(item));
        let named =
            |id: u32| self.kernel().items(id).iter().find(|k| essential(self.kernel().item_name(k)) == name);
        let found: Vec<u64> = self.candidates(own).filter_map(|id| named(id).map(|k| k.value)).collect();
        if r.question == VALUE_EXISTS {
            let new = u64::from(!found.is_empty());
            return Some(Answer::Value(Value { old: Some(1), new, ..Value::default() }));
        }
        Some(match found.first() {
            Some(new) if found.iter().all(|v| v == new) => {
                Answer::Value(Value { old: Some(item.value), new: *new, ..Value::default() })
            }
            _ => Answer::Missing(format!("enum {} {name}", self.own().name(own))),
        })
    }
    /// The name of a relocation's field or type.
    fn describe(&self, r: &Relocation) -> String {
        let mut name = essential(self.own().name(r.id)).to_owned();
        let mut id = r.id;
        for index in indices(r.path).unwrap_or_default().into_iter().skip(1) {
            id = self.own().bare(id);
            match self.own().items(id).get(index as usize) {
                Some(m) if self.own().kind(id).is_composite() => {
                    if !self.own().item_name(m).is_empty() {
                        name = format!("{name}.{}", self.own().item_name(m));
                    }
                    id = m.id;
                }
                _ => {
                    name = format!("{name}[{index}]");
                    id = self.own().to(id);
                }
            }
        }
        name
    }
}

/// What a load of a field needs. A bit field is loaded as the smallest aligned number that holds it.
fn measure(btf: &Btf, place: &Place, asked: u32) -> Option<Measure> {
    let size = btf.size(place.id)?;
    if place.is_element() {
        return match asked {
            OFFSET => Some(Measure { value: place.bit / 8, whole: Some(place.id), certain: true }),
            SIZE => Some(Measure { value: size, whole: None, certain: true }),
            _ => None,
        };
    }
    let is_field = place.bits > 0;
    let (byte, bytes) = if is_field { holder(place, size)? } else { (place.bit / 8, size) };
    let bits = if is_field { u64::from(place.bits) } else { bytes.checked_mul(8)? };
    let bare = btf.bare(place.id);
    let (value, certain) = match asked {
        OFFSET => (byte, !is_field),
        SIZE => (bytes, !is_field),
        SIGNED => (u64::from(btf.is_signed(bare)), true),
        LEFT => (64u64.checked_sub((place.bit + bits).checked_sub(byte * 8)?)?, !is_field),
        _ => (64u64.checked_sub(bits)?, true),
    };
    let whole = (asked == OFFSET && !is_field).then_some(place.id);
    Some(Measure { value, whole, certain })
}

/// The first byte and the size of the number that holds a bit field.
fn holder(place: &Place, declared: u64) -> Option<(u64, u64)> {
    let mut bytes = declared;
    while bytes.is_power_of_two() && bytes <= 8 {
        let byte = place.bit / 8 / bytes * bytes;
        if place.bit + u64::from(place.bits) <= (byte + bytes) * 8 {
            return Some((byte, bytes));
        }
        bytes *= 2;
    }
    None
}
