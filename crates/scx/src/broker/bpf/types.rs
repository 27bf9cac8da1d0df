//! A look into BTF: only what bpf(2) itself needs of it, which is where special fields of a map's value and functions
//! of a struct of operations are.

use crate::Special;

const HEADER_BYTES: usize = 24;
const KIND_PTR: u32 = 2;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_TYPE_TAG: u32 = 18;
/// `typedef`, `volatile`, `const`, `restrict`.
const PASS_THROUGH: std::ops::RangeInclusive<u32> = 8..=11;

/// Bytes that follow a type of this kind: fixed, and for each of its elements.
fn extra(kind: u32) -> (usize, usize) {
    match kind {
        1 | KIND_VAR | 17 => (4, 0),
        KIND_ARRAY => (12, 0),
        KIND_STRUCT | KIND_UNION | KIND_DATASEC | 19 => (0, 12),
        6 | KIND_FUNC_PROTO => (0, 8),
        _ => (0, 0),
    }
}

/// A member of a struct or a variable of a section. Of a struct it has a name.
pub struct Member<'a> {
    pub name: &'a str,
    pub kind: u32,
    pub offset_bytes: u32,
}

pub struct Types<'a> {
    data: &'a [u8],
    strings: usize,
    /// Where type `id` starts. Type 0 is `void`.
    starts: Vec<usize>,
}

impl<'a> Types<'a> {
    /// None: the data is not BTF.
    pub fn new(data: &'a [u8]) -> Option<Types<'a>> {
        let mut types = Types { data, strings: 0, starts: vec![0] };
        let header = types.word(4)? as usize;
        if types.word(0)? & 0xffff != 0xeb9f || header < HEADER_BYTES {
            return None;
        }
        let end = header + types.word(8)? as usize + types.word(12)? as usize;
        types.strings = header + types.word(16)? as usize;
        let mut at = header + types.word(8)? as usize;
        while at < end {
            types.starts.push(at);
            let info = types.word(at + 4)?;
            let (fixed, each) = extra(info >> 24 & 31);
            at += 12 + fixed + each * (info & 0xffff) as usize;
        }
        Some(types)
    }
    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.data.get(at..at + 4)?.try_into().ok()?))
    }
    /// Name, kind, number of elements, and size or type.
    fn head(&self, id: u32) -> Option<(&'a str, u32, u32, u32)> {
        let at = *self.starts.get(id as usize).filter(|at| **at > 0)?;
        let info = self.word(at + 4)?;
        Some((self.text(self.word(at)?), info >> 24 & 31, info & 0xffff, self.word(at + 8)?))
    }
    fn text(&self, offset: u32) -> &'a str {
        let rest = self.data.get(self.strings + offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }
    pub fn name(&self, id: u32) -> &'a str {
        self.head(id).map_or("", |head| head.0)
    }
    pub fn struct_named(&self, name: &str) -> Option<u32> {
        let is = |id: &u32| matches!(self.head(*id), Some((its, KIND_STRUCT, ..)) if its == name);
        (1..self.starts.len() as u32).find(is)
    }
    /// The type behind names and qualifiers.
    fn plain(&self, mut id: u32) -> u32 {
        // A chain is short; one that is not is a ring.
        for _ in 0..64 {
            match self.head(id) {
                Some((_, kind, _, of)) if PASS_THROUGH.contains(&kind) => id = of,
                _ => break,
            }
        }
        id
    }
    /// Members of a struct, or variables of a section.
    pub fn members(&self, id: u32) -> Vec<Member<'a>> {
        let Some((_, kind, count, _)) = self.head(id) else { return Vec::new() };
        let at = self.starts[id as usize] + 12;
        let member = |i: usize| {
            let words = [0, 4, 8].map(|word| self.word(at + i * 12 + word).unwrap_or(0));
            match kind {
                KIND_DATASEC => {
                    let variable = self.head(words[0]).map_or(0, |head| head.3);
                    Member { name: self.name(words[0]), kind: variable, offset_bytes: words[1] }
                }
                // Bits; the upper byte is a bit field's width if the struct has any.
                _ => Member {
                    name: self.text(words[0]),
                    kind: words[1],
                    offset_bytes: (words[2] & 0xff_ffff) / 8,
                },
            }
        };
        match kind {
            KIND_STRUCT | KIND_UNION | KIND_DATASEC => (0..count as usize).map(member).collect(),
            _ => Vec::new(),
        }
    }
    /// Whether it is a pointer to a function.
    pub fn is_function(&self, id: u32) -> bool {
        let Some((_, KIND_PTR, _, of)) = self.head(self.plain(id)) else { return false };
        self.head(self.plain(of)).is_some_and(|head| head.1 == KIND_FUNC_PROTO)
    }
    /// The special fields of a value of this type, by offset.
    pub fn special(&self, id: u32) -> Vec<(u32, Special)> {
        let mut found = Vec::new();
        self.collect(id, 0, 0, &mut found);
        found
    }
    fn collect(&self, id: u32, base: u32, depth: u32, found: &mut Vec<(u32, Special)>) {
        // As deep as the kernel looks, and as many as it takes.
        if depth > 16 || found.len() > 4096 {
            return;
        }
        let id = self.plain(id);
        let Some((name, kind, _, of)) = self.head(id) else { return };
        match (kind, named_special(name)) {
            (KIND_STRUCT, Some(special)) => found.push((base, special)),
            (KIND_STRUCT | KIND_DATASEC, None) => {
                for member in self.members(id) {
                    self.collect(member.kind, base + member.offset_bytes, depth + 1, found);
                }
            }
            (KIND_PTR, _) if self.is_kptr(of) => found.push((base, Special::Kptr)),
            (KIND_ARRAY, _) => self.collect_array(id, base, depth, found),
            _ => {}
        }
    }
    fn collect_array(&self, id: u32, base: u32, depth: u32, found: &mut Vec<(u32, Special)>) {
        let at = self.starts[id as usize] + 12;
        let (Some(of), Some(count)) = (self.word(at), self.word(at + 8)) else { return };
        let mut first = Vec::new();
        self.collect(of, 0, depth + 1, &mut first);
        if first.is_empty() {
            return;
        }
        for i in 0..count.min(4096) {
            found.extend(first.iter().map(|(offset, special)| (base + i * self.size(of) + offset, *special)));
        }
    }
    fn size(&self, id: u32) -> u32 {
        let id = self.plain(id);
        match self.head(id) {
            Some((_, KIND_PTR, ..)) => 8,
            Some((_, KIND_ARRAY, ..)) => {
                let at = self.starts[id as usize] + 12;
                self.word(at + 8).unwrap_or(0) * self.word(at).map_or(0, |of| self.size(of))
            }
            Some((_, _, _, size)) => size,
            None => 0,
        }
    }
    fn is_kptr(&self, of: u32) -> bool {
        self.head(of).is_some_and(|(name, kind, ..)| {
            kind == KIND_TYPE_TAG && matches!(name, "kptr" | "kptr_untrusted" | "percpu_kptr" | "uptr")
        })
    }
}

fn named_special(name: &str) -> Option<Special> {
    Some(match name {
        "bpf_timer" => Special::Timer,
        "bpf_spin_lock" | "bpf_res_spin_lock" => Special::SpinLock,
        "bpf_list_head" | "bpf_list_node" | "bpf_rb_root" | "bpf_rb_node" | "bpf_refcount" | "bpf_wq"
        | "bpf_task_work" => Special::Other,
        _ => return None,
    })
}
