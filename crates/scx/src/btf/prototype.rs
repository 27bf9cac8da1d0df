//! Prototypes of kfuncs.
//!
//! Kfuncs of 7.x may have a last parameter that no program passes: `const struct bpf_prog_aux *`, which the verifier
//! puts in. A kernel's build takes it from the BTF that programs see; the BTF of its compiler still has it.
//!
//! A program names a tracepoint by the type of its probes, `btf_trace_NAME`, which a kernel has where programs may be
//! attached to them (`CONFIG_BPF_EVENTS`). Each tracepoint has a function of that type, `__probestub_NAME`.

use super::parse::{Words, parts, whole};
use super::{Btf, Kind};
use crate::Target;
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
/// Begins the name of a tracepoint's function, and of the type that programs know.
const PROBE: &str = "__probestub_";
pub(crate) const PROBE_TYPE: &str = "btf_trace_";
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
    /// Tracepoints by name that have no type for programs yet, and the prototypes of their probes.
    fn probes(&self) -> Vec<(&str, u32)> {
        let functions = self.ids().filter(|id| self.kind(*id) == Kind::Func);
        let probe = |id: u32| Some((self.name(id).strip_prefix(PROBE)?, self.to(id)));
        let is_known = |name: &str| self.find(&format!("{PROBE_TYPE}{name}"), Kind::Typedef).is_some();
        functions.filter_map(probe).filter(|(name, _)| !is_known(name)).collect()
    }
    /// Bytes of each argument that a tracepoint or function of the kernel has for programs. None: it is not known.
    pub fn arguments(&self, target: &Target) -> Option<Vec<u64>> {
        let (function, hidden) = match target {
            // A probe's own data comes first.
            Target::Tracepoint(name) => (self.func(&format!("{PROBE}{name}"))?, 1),
            Target::Entry(name) | Target::Exit(name) | Target::Probe(name) | Target::ReturnProbe(name) => {
                (self.func(name)?, 0)
            }
        };
        let of = self.items(self.to(function)).get(hidden..)?;
        of.iter().map(|item| self.size(item.id)).collect()
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

/// A kernel's BTF as programs are to see it: kfuncs have no implicit argument, and tracepoints have the types of their
/// probes. Ids of types stay; new ones are behind them.
///
/// # Errors
/// If the bytes are not BTF.
pub fn for_programs(bytes: &[u8]) -> Result<Vec<u8>> {
    let kernel = Btf::parse(bytes)?;
    let cut = kernel.with_aux();
    let (mut types, strings) = parts(bytes)?;
    let mut strings = strings.to_vec();
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
    for (name, prototype) in kernel.probes() {
        let at = strings.len() as u32;
        strings.extend(format!("{PROBE_TYPE}{name}\0").bytes());
        let pointer = [0, (Kind::Ptr as u32) << 24, prototype];
        let named = [at, (Kind::Typedef as u32) << 24, id + 1];
        pointer.iter().chain(&named).for_each(|w| body.extend(w.to_le_bytes()));
        id += 2;
    }
    Ok(whole(&body, &strings))
}

fn word(words: &mut Words) -> Result<u32> {
    words.next().ok_or_else(|| Error::internal("BTF ends inside a type"))
}
