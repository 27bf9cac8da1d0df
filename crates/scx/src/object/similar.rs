//! Whether a type of the program is one of the kernel: roughly (`TYPE_EXISTS`, prototypes of kfuncs), or in each member
//! (`TYPE_MATCHES`).

use crate::btf::{Btf, Item, Kind, essential};
use std::cell::Cell;

/// Types within types.
const DEEPEST: u32 = 32;
/// Pairs of types that one comparison looks at: structs that name each other would make that grow without end.
const MOST: u32 = 100_000;

/// Two sides that are compared.
pub(super) struct Pair<'a> {
    pub own: &'a Btf,
    pub kernel: &'a Btf,
    seen: Cell<u32>,
}

impl<'a> Pair<'a> {
    pub fn new(own: &'a Btf, kernel: &'a Btf) -> Pair<'a> {
        Pair { own, kernel, seen: Cell::new(0) }
    }
    /// Counts a pair, and says whether there were too many.
    fn too_many(&self) -> bool {
        self.seen.set(self.seen.get() + 1);
        self.seen.get() > MOST
    }
    /// Whether kinds agree, behind pointers too; names and members of structs do not count.
    pub fn compatible(&self, own: u32, kernel: u32) -> bool {
        self.seen.set(0);
        self.own.kind(own).stands_for(self.kernel.kind(kernel)) && self.same_kinds(own, kernel, DEEPEST, 0)
    }
    /// Whether a prototype of the program is the kernel's without its last `hidden` parameters.
    pub fn callable(&self, own: u32, kernel: u32, hidden: usize) -> bool {
        self.seen.set(0);
        let both = self.own.kind(own) == Kind::FuncProto && self.kernel.kind(kernel) == Kind::FuncProto;
        both && self.same_kinds(own, kernel, DEEPEST, hidden)
    }
    fn same_kinds(&self, mut a: u32, mut b: u32, mut depth: u32, hidden: usize) -> bool {
        while depth > 0 && !self.too_many() {
            depth -= 1;
            (a, b) = (self.own.bare(a), self.kernel.bare(b));
            let kind = self.own.kind(a);
            if !kind.stands_for(self.kernel.kind(b)) {
                return false;
            }
            match kind {
                Kind::Void | Kind::Struct | Kind::Union | Kind::Enum | Kind::Fwd | Kind::Enum64 => {
                    return true;
                }
                Kind::Int => return self.own.int_offset(a) == 0 && self.kernel.int_offset(b) == 0,
                Kind::FuncProto => {
                    let (p, q) = (self.own.items(a), self.kernel.items(b));
                    let same = |p: u32, q: u32| self.same_kinds(p, q, depth, 0);
                    if p.len() + hidden != q.len() || !p.iter().zip(q).all(|(p, q)| same(p.id, q.id)) {
                        return false;
                    }
                }
                Kind::Ptr | Kind::Array => {}
                _ => return false,
            }
            (a, b) = (self.own.to(a), self.kernel.to(b));
        }
        false
    }
    /// Whether the kernel's type has all members or values of the program's, of types that match too.
    pub fn matches(&self, own: u32, kernel: u32) -> bool {
        self.seen.set(0);
        self.equal(own, kernel, false, DEEPEST)
    }
    fn equal(&self, a: u32, b: u32, behind_pointer: bool, depth: u32) -> bool {
        if depth == 0 || self.too_many() {
            return false;
        }
        let (a, b) = (self.own.bare(a), self.kernel.bare(b));
        let (x, y) = (self.own.kind(a), self.kernel.kind(b));
        if essential(self.own.name(a)) != essential(self.kernel.name(b)) {
            return false;
        }
        let union = |is_fwd: bool, flag: bool, kind: Kind| if is_fwd { flag } else { kind == Kind::Union };
        let same_tag =
            || union(x == Kind::Fwd, self.own.flag(a), x) == union(y == Kind::Fwd, self.kernel.flag(b), y);
        let next = |p: u32, q: u32, behind: bool| self.equal(p, q, behind, depth - 1);
        match x {
            Kind::Void => y == Kind::Void,
            Kind::Fwd => (y == Kind::Fwd || y.is_composite()) && same_tag(),
            Kind::Struct | Kind::Union if behind_pointer => (y == x || y == Kind::Fwd) && same_tag(),
            Kind::Struct | Kind::Union => y == x && self.members(a, b, &next),
            Kind::Enum | Kind::Enum64 => y.is_enum() && self.values(a, b),
            Kind::Int => {
                let signs = self.own.is_signed(a) == self.kernel.is_signed(b);
                y == x && signs && self.own.size(a) == self.kernel.size(b)
            }
            Kind::Ptr => y == x && next(self.own.to(a), self.kernel.to(b), true),
            Kind::Array => {
                y == x
                    && self.own.count(a) == self.kernel.count(b)
                    && next(self.own.to(a), self.kernel.to(b), behind_pointer)
            }
            Kind::FuncProto => {
                let (p, q) = (self.own.items(a), self.kernel.items(b));
                let agree = y == x && p.len() == q.len();
                agree
                    && p.iter().zip(q).all(|(p, q)| next(p.id, q.id, behind_pointer))
                    && next(self.own.to(a), self.kernel.to(b), behind_pointer)
            }
            _ => false,
        }
    }
    fn members(&self, a: u32, b: u32, next: &impl Fn(u32, u32, bool) -> bool) -> bool {
        self.own.items(a).iter().all(|m| {
            let name = essential(self.own.item_name(m));
            let named = |k: &&Item| essential(self.kernel.item_name(k)) == name;
            self.kernel.items(b).iter().filter(named).any(|k| next(m.id, k.id, false))
        })
    }
    fn values(&self, a: u32, b: u32) -> bool {
        self.own.items(a).iter().all(|m| {
            let name = essential(self.own.item_name(m));
            self.kernel.items(b).iter().any(|k| essential(self.kernel.item_name(k)) == name)
        })
    }
}
