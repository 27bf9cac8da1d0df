//! Paths into types: `task->scx.weight` in the program's types, and the same names in the kernel's.

use crate::btf::{Btf, Item, Kind, essential};

/// Steps of a path, and structs within structs.
const LONGEST: usize = 64;

/// One step: a member by name, or an element by its index.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Member(&'a str, Item),
    Element(u64),
}

/// A place in a type.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    steps: Vec<Step<'a>>,
    /// From the start of the type.
    pub bit: u64,
    /// The type at the end, as the last member or array names it.
    pub id: u32,
    /// The width if it is a bit field, else 0.
    pub bits: u32,
}

/// Whether an array ends its struct and has no length: any index is inside.
fn is_flexible(btf: &Btf, array: u32, step: Option<&Step>, parent: u32) -> bool {
    let last = btf.items(parent).last();
    btf.count(array) == 0 && matches!((step, last), (Some(Step::Member(_, m)), Some(l)) if m == l)
}

/// The numbers of `0:1:2`.
pub(super) fn indices(path: &str) -> Option<Vec<u64>> {
    let all: Option<Vec<u64>> = path.split(':').map(|n| n.parse().ok()).collect();
    all.filter(|a| a.len() <= LONGEST)
}

/// The place in the program's own type that the path names. None if the type has no such place.
pub(super) fn local<'a>(own: &'a Btf, root: u32, path: &str) -> Option<Place<'a>> {
    let path = indices(path)?;
    let (first, rest) = path.split_first()?;
    let mut place = start(own, root, *first)?;
    let mut parent = 0;
    for index in rest {
        let id = own.bare(place.id);
        if own.kind(id).is_composite() {
            let member = *own.items(id).get(usize::try_from(*index).ok()?)?;
            place.bit = place.bit.checked_add(member.value)?;
            (place.id, place.bits, parent) = (member.id, member.bits, id);
            if !own.item_name(&member).is_empty() {
                place.steps.push(Step::Member(own.item_name(&member), member));
            }
        } else {
            place.element(own, id, *index, parent)?;
        }
    }
    Some(place)
}

fn start<'a>(btf: &Btf, root: u32, index: u64) -> Option<Place<'a>> {
    let bit = match index {
        0 => 0,
        _ => index.checked_mul(btf.size(root)?)?.checked_mul(8)?,
    };
    Some(Place { steps: vec![Step::Element(index)], bit, id: root, bits: 0 })
}

impl<'a> Place<'a> {
    fn element(&mut self, btf: &Btf, array: u32, index: u64, parent: u32) -> Option<()> {
        let is_array = btf.kind(array) == Kind::Array;
        let inside = || index < btf.count(array) || is_flexible(btf, array, self.steps.last(), parent);
        if !is_array || !inside() {
            return None;
        }
        let element = btf.bare(btf.to(array));
        let bytes = index.checked_mul(btf.size(element)?)?;
        self.bit = self.bit.checked_add(bytes.checked_mul(8)?)?;
        self.steps.push(Step::Element(index));
        (self.id, self.bits) = (element, 0);
        Some(())
    }
    /// Whether the last step is an element of an array.
    pub fn is_element(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Element(_)) | None)
    }
    /// The same place in the kernel's type. None if that has other members, or others of that name.
    pub fn within<'k>(&self, own: &Btf, kernel: &'k Btf, root: u32) -> Option<Place<'k>> {
        let Some(Step::Element(first)) = self.steps.first() else { return None };
        let mut place = start(kernel, root, *first)?;
        let mut parent = 0;
        for step in &self.steps[1..] {
            let id = kernel.bare(place.id);
            match step {
                Step::Element(index) => place.element(kernel, id, *index, parent)?,
                Step::Member(name, member) => {
                    let (found, bit) = kernel.member(id, name)?;
                    if !alike(own, member.id, kernel, found.id) {
                        return None;
                    }
                    place.bit = place.bit.checked_add(bit)?;
                    place.steps.push(Step::Member(kernel.item_name(&found), found));
                    (place.id, place.bits, parent) = (found.id, found.bits, id);
                }
            }
        }
        Some(place)
    }
}

/// Whether a member of one type may stand for one of the other: both are structs, pointers, integers and so on.
fn alike(own: &Btf, mut a: u32, kernel: &Btf, mut b: u32) -> bool {
    for _ in 0..LONGEST {
        (a, b) = (own.bare(a), kernel.bare(b));
        let (x, y) = (own.kind(a), kernel.kind(b));
        if x.is_composite() && y.is_composite() {
            return true;
        }
        if !x.stands_for(y) {
            return false;
        }
        match x {
            Kind::Ptr | Kind::Float => return true,
            Kind::Int => return own.int_offset(a) == 0 && kernel.int_offset(b) == 0,
            Kind::Fwd | Kind::Enum | Kind::Enum64 => {
                let (m, n) = (essential(own.name(a)), essential(kernel.name(b)));
                return m.is_empty() || n.is_empty() || m == n;
            }
            Kind::Array => (a, b) = (own.to(a), kernel.to(b)),
            _ => return false,
        }
    }
    false
}
