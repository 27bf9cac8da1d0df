//! Prototypes of kfuncs.
//!
//! Kfuncs of 7.x may have a last parameter that no program passes: `const struct bpf_prog_aux *`, which the verifier
//! puts in. A kernel's build takes it from the BTF that programs see; the BTF of its compiler still has it.

use super::parse::{Words, parts, whole};
use super::{Btf, Kind};
use schedlab_base::{Error, Result};
use std::collections::BTreeSet;

/// What a function gives back, as far as a caller must know it: which bits of the register are its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultKind {
    Void,
    /// A bool or 8 bits without sign.
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    /// 64 bits.
    Wide,
    Pointer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prototype {
    /// Arguments that a program passes.
    pub arguments: u8,
    /// Whether one more follows, the implicit `const struct bpf_prog_aux *`.
    pub aux: bool,
    pub result: ResultKind,
}

/// Begins the names of kfuncs of sched_ext that have the implicit argument. An image's BTF does not mark kfuncs.
const KFUNCS: [&str; 3] = ["scx_bpf_", "__scx_bpf_", "bpf_iter_scx_"];
/// The mark that a kernel's has.
const KFUNC_TAG: &str = "bpf_kfunc";

impl Btf {
    /// Of a function by its id.
    ///
    /// # Errors
    /// If it is not a function, or takes or gives what no register holds.
    pub fn prototype(&self, id: u32) -> Result<Prototype> {
        let unfit =
            |what: &str| Error::input(format!("function '{}' of the kernel's BTF {what}", self.name(id)));
        let prototype = self.to(id);
        if self.kind(id) != Kind::Func || self.kind(prototype) != Kind::FuncProto {
            return Err(unfit("is none"));
        }
        let all = self.items(prototype).len();
        let aux = self.has_aux(prototype);
        let arguments = u8::try_from(all - usize::from(aux)).map_err(|_| unfit("has too many arguments"))?;
        let result =
            self.result(self.to(prototype)).ok_or_else(|| unfit("gives back no number or pointer"))?;
        Ok(Prototype { arguments, aux, result })
    }
    /// Whether the last parameter of a prototype is the implicit one.
    pub(crate) fn has_aux(&self, prototype: u32) -> bool {
        let last = self.items(prototype).last().map_or(0, |p| self.bare(p.id));
        self.kind(last) == Kind::Ptr && self.name(self.bare(self.to(last))) == "bpf_prog_aux"
    }
    fn result(&self, id: u32) -> Option<ResultKind> {
        let bare = self.bare(id);
        match (self.kind(bare), self.size(bare), self.is_signed(bare)) {
            (Kind::Void, ..) => Some(ResultKind::Void),
            (Kind::Ptr, ..) => Some(ResultKind::Pointer),
            (Kind::Int | Kind::Enum | Kind::Enum64, Some(size), signed) => match (size, signed) {
                (1, false) => Some(ResultKind::U8),
                (1, true) => Some(ResultKind::S8),
                (2, false) => Some(ResultKind::U16),
                (2, true) => Some(ResultKind::S16),
                (4, false) => Some(ResultKind::U32),
                (4, true) => Some(ResultKind::S32),
                (8, _) => Some(ResultKind::Wide),
                _ => None,
            },
            _ => None,
        }
    }
    /// Prototypes of kfuncs with the implicit argument.
    fn with_aux(&self) -> BTreeSet<u32> {
        let tagged = |id: u32| self.kind(id) == Kind::DeclTag && self.name(id) == KFUNC_TAG;
        let named =
            |id: u32| self.kind(id) == Kind::Func && KFUNCS.iter().any(|k| self.name(id).starts_with(k));
        let kfuncs = self.ids().filter(|id| named(*id) || tagged(*id));
        kfuncs
            .map(|id| if tagged(id) { self.to(self.to(id)) } else { self.to(id) })
            .filter(|p| self.kind(*p) == Kind::FuncProto && self.has_aux(*p))
            .collect()
    }
}

/// A kernel's BTF as programs are to see it: kfuncs have no implicit argument. Ids of types stay.
///
/// # Errors
/// If the bytes are not BTF.
pub fn without_aux(bytes: &[u8]) -> Result<Vec<u8>> {
    let cut = Btf::parse(bytes)?.with_aux();
    let (mut types, strings) = parts(bytes)?;
    let mut body = Vec::with_capacity(types.len());
    let mut id = 0;
    while !types.is_empty() {
        id += 1;
        let mut words = Words(types);
        let (name, info, to) = (word(&mut words)?, word(&mut words)?, word(&mut words)?);
        let kind = Kind::of(info).unwrap_or_default();
        let end = 12 + kind.bytes_behind((info & 0xff_ffff) as usize);
        let shorter = u32::from(cut.contains(&id));
        [name, info - shorter, to].iter().for_each(|w| body.extend(w.to_le_bytes()));
        body.extend(types.get(12..end - 8 * shorter as usize).unwrap_or_default());
        types = types.get(end..).unwrap_or_default();
    }
    Ok(whole(&body, strings))
}

fn word(words: &mut Words) -> Result<u32> {
    words.next().ok_or_else(|| Error::internal("BTF ends inside a type"))
}
