//! Instructions of each section, with references to maps, the kernel and other functions resolved.

use super::Source;
use super::core::Core;
use super::elf::{Holds, Symbol};
use super::ext;
use super::externs::{Extern, Externs};
use super::maps::Maps;
use super::patch::{LOAD_64, MISSING, patch};
use super::similar::Pair;
use crate::Insn;
use object::SymbolKind;
use schedlab_base::Result;
use std::collections::{BTreeMap, HashMap};

pub(super) const CALL: u8 = 0x85;
/// What the source register of a 16-byte load or call says (`BPF_PSEUDO_*`).
pub(super) mod pseudo {
    pub const MAP: u8 = 1;
    pub const MAP_VALUE: u8 = 2;
    pub const BTF_ID: u8 = 3;
    pub const FUNC: u8 = 4;
    pub const CALL: u8 = 1;
    pub const KFUNC: u8 = 2;
}

/// A place in the code: section and instruction.
pub(super) type Place = (usize, usize);

/// A function, as the symbols say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function<'a> {
    pub name: &'a str,
    pub section: usize,
    pub start: usize,
    pub len: usize,
    pub global: bool,
}

#[derive(Default)]
pub(super) struct Code<'a> {
    /// By section.
    pub sections: HashMap<usize, Vec<Insn>>,
    /// Instructions that stand for what the kernel lacks.
    pub missing: BTreeMap<Place, String>,
    /// The function that an instruction calls, or whose address it loads.
    pub references: HashMap<Place, Place>,
    /// In order of section and start.
    pub functions: Vec<Function<'a>>,
    /// Where lines of the source begin.
    pub lines: BTreeMap<Place, String>,
}

impl Insn {
    pub(super) fn with_source(self, source: u8) -> Insn {
        Insn { registers: self.registers & 0xf | source << 4, ..self }
    }
}

impl<'a> Code<'a> {
    pub fn read(source: &'a Source, maps: &Maps, externs: &Externs) -> Result<Code<'a>> {
        let mut made = Code::default();
        for (at, section) in source.elf.sections.iter().enumerate() {
            if section.holds == Holds::Code {
                made.sections.insert(at, source.elf.code(at)?);
            }
        }
        made.functions(source)?;
        made.lines(source);
        made.relocate_types(source)?;
        let mut sections: Vec<usize> = made.sections.keys().copied().collect();
        sections.sort_unstable();
        for section in sections {
            Linker { source, maps, externs, code: &mut made, section }.run()?;
        }
        Ok(made)
    }
    fn functions(&mut self, source: &'a Source) -> Result<()> {
        for s in source.elf.symbols.iter().filter(|s| s.kind == SymbolKind::Text) {
            let Some((section, code)) = s.section.and_then(|at| Some((at, self.sections.get(&at)?))) else {
                continue;
            };
            let (start, len) = ((s.value / 8) as usize, (s.bytes / 8) as usize);
            if len == 0 || start.checked_add(len).is_none_or(|end| end > code.len()) {
                return Err(source.elf.refused(&format!("function {} is not inside its section", s.name)));
            }
            self.functions.push(Function { name: s.name, section, start, len, global: s.global });
        }
        self.functions.sort_by_key(|f| (f.section, f.start));
        self.functions.dedup_by_key(|f| (f.section, f.start));
        Ok(())
    }
    /// The function that begins at a place.
    pub fn function_at(&self, place: Place) -> Option<usize> {
        self.functions.binary_search_by_key(&place, |f| (f.section, f.start)).ok()
    }
    /// A place as people name it.
    pub fn name(&self, place: Place) -> String {
        let at = self.functions.partition_point(|f| (f.section, f.start) <= place);
        match at.checked_sub(1).map(|f| &self.functions[f]) {
            Some(f) if f.section == place.0 => format!("instruction {} of {}", place.1 - f.start, f.name),
            _ => format!("instruction {} of section {}", place.1, place.0),
        }
    }
    fn lines(&mut self, source: &Source) {
        let Some(bytes) = source.elf.find(".BTF.ext").map(|s| s.data) else { return };
        let mut all = ext::lines(bytes, &source.own);
        for (at, section) in source.elf.sections.iter().enumerate() {
            let of = all.remove(section.name).filter(|_| section.holds == Holds::Code).unwrap_or_default();
            self.lines.extend(of.into_iter().map(|(i, line)| ((at, i), line)));
        }
    }
    fn relocate_types(&mut self, source: &Source) -> Result<()> {
        let Some(bytes) = source.elf.find(".BTF.ext").map(|s| s.data) else { return Ok(()) };
        let all = ext::relocations(bytes, &source.own)
            .ok_or_else(|| source.elf.refused("section .BTF.ext is not whole"))?;
        let core = Core { pair: Pair::new(&source.own, source.kernel.btf) };
        for (at, section) in source.elf.sections.iter().enumerate() {
            let Some(relocations) = all.get(section.name).filter(|_| section.holds == Holds::Code) else {
                continue;
            };
            for r in relocations {
                let refused =
                    |what: &str| source.elf.refused(&format!("CO-RE: {} {what}", self.name((at, r.at))));
                let answer = core.answer(r).map_err(|what| refused(&what))?;
                let code = self.sections.get_mut(&at).map(Vec::as_mut_slice).unwrap_or_default();
                let size = if code.get(r.at).is_some_and(|i| i.code == LOAD_64) { 2 } else { 1 };
                match patch(code, r.at, answer) {
                    Ok(None) => {}
                    Ok(Some(name)) => {
                        self.missing.extend((r.at..r.at + size).map(|i| ((at, i), name.clone())))
                    }
                    Err(why) => {
                        return Err(source.elf.refused(&format!("CO-RE: {} {why}", self.name((at, r.at)))));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Relocations of one section of code.
struct Linker<'a, 'l> {
    source: &'a Source<'a>,
    maps: &'l Maps,
    externs: &'l Externs,
    code: &'l mut Code<'a>,
    section: usize,
}

impl Linker<'_, '_> {
    fn run(mut self) -> Result<()> {
        let mut done = vec![false; self.code.sections[&self.section].len()];
        for (offset, symbol) in &self.source.elf.sections[self.section].relocations {
            let at = usize::try_from(offset / 8).unwrap_or(usize::MAX);
            let Some(insn) = self.code.sections[&self.section].get(at).copied().filter(|_| offset % 8 == 0)
            else {
                return Err(self.source.elf.refused("a relocation is not at an instruction"));
            };
            done[at] = true;
            match insn.code {
                LOAD_64 if at + 1 < done.len() => self.load(at, insn, *symbol)?,
                CALL => self.call(at, insn, *symbol)?,
                code => return Err(self.refused(at, &format!("has a relocation and opcode {code:#x}"))),
            }
        }
        self.unrelocated(&done)
    }
    fn refused(&self, at: usize, what: &str) -> schedlab_base::Error {
        self.source.elf.refused(&format!("{} {what}", self.code.name((self.section, at))))
    }
    fn insn(&mut self, at: usize) -> &mut Insn {
        &mut self.code.sections.get_mut(&self.section).expect("it was read")[at]
    }
    fn symbol(&self, at: usize) -> Symbol<'_> {
        self.source.elf.symbols[at]
    }
    /// A 16-byte load: of a map, a variable, a function.
    fn load(&mut self, at: usize, insn: Insn, symbol: usize) -> Result<()> {
        let s = self.symbol(symbol);
        let (name, offset) = (s.name.to_owned(), s.value.wrapping_add(insn.imm as i64 as u64));
        let Some(section) = s.section else { return self.load_extern(at, symbol, &name) };
        let (source, low, high) = if let Some(map) = self.maps.defined.get(&(section, offset)) {
            (pseudo::MAP, *map as u64, 0)
        } else if let Some(map) = self.maps.sections.get(&section) {
            (pseudo::MAP_VALUE, *map as u64, offset)
        } else if self.code.sections.contains_key(&section) {
            self.refer(at, (section, (offset / 8) as usize));
            (pseudo::FUNC, 0, 0)
        } else {
            return Err(self
                .refused(at, &format!("refers to '{name}', which is not a map, a variable or a function")));
        };
        self.put(at, source, low, high);
        Ok(())
    }
    fn put(&mut self, at: usize, source: u8, low: u64, high: u64) {
        let first = self.insn(at);
        *first = Insn { imm: (low as u32).cast_signed(), ..first.with_source(source) };
        self.insn(at + 1).imm = (high as u32).cast_signed();
    }
    fn refer(&mut self, at: usize, to: Place) {
        self.code.references.insert((self.section, at), to);
    }
    fn load_extern(&mut self, at: usize, symbol: usize, name: &str) -> Result<()> {
        match self.externs.all.get(&symbol) {
            Some(Extern::Setting(offset)) => {
                self.put(at, pseudo::MAP_VALUE, self.externs.settings as u64, *offset);
            }
            Some(Extern::Known(id)) => self.put(at, pseudo::BTF_ID, u64::from(*id), 0),
            // A program only asks whether it is there.
            Some(Extern::Supplied) => self.put(at, 0, 1, 0),
            Some(Extern::Absent { weak: true }) => self.put(at, 0, 0, 0),
            Some(Extern::Absent { weak: false }) | None => {
                for i in at..at + 2 {
                    *self.insn(i) = MISSING;
                    self.code.missing.insert((self.section, i), name.to_owned());
                }
            }
        }
        Ok(())
    }
    fn call(&mut self, at: usize, insn: Insn, symbol: usize) -> Result<()> {
        let s = self.symbol(symbol);
        let name = s.name.to_owned();
        if let Some(section) = s.section {
            let to = (s.value / 8) as i64 + i64::from(insn.imm) + 1;
            let to = usize::try_from(to).ok().filter(|_| self.code.sections.contains_key(&section));
            let to =
                to.ok_or_else(|| self.refused(at, &format!("calls '{name}', which is not a function")))?;
            *self.insn(at) = insn.with_source(pseudo::CALL);
            self.refer(at, (section, to));
            return Ok(());
        }
        match self.externs.all.get(&symbol) {
            Some(Extern::Known(id)) => {
                *self.insn(at) = Insn { imm: id.cast_signed(), off: 0, ..insn.with_source(pseudo::KFUNC) };
            }
            _ => {
                *self.insn(at) = MISSING;
                self.code.missing.insert((self.section, at), crate::btf::essential(&name).to_owned());
            }
        }
        Ok(())
    }
    /// Calls within a section have no relocation; nothing else refers to anything without one.
    fn unrelocated(&mut self, done: &[bool]) -> Result<()> {
        let mut at = 0;
        while at < done.len() {
            let insn = self.code.sections[&self.section][at];
            match (insn.code, insn.source()) {
                _ if done[at] => {}
                (CALL, pseudo::CALL) => {
                    let to = at as i64 + 1 + i64::from(insn.imm);
                    let to = usize::try_from(to)
                        .map_err(|_| self.refused(at, "calls what is before its section"))?;
                    self.refer(at, (self.section, to));
                }
                (CALL | LOAD_64, source) if source != 0 => {
                    return Err(self.refused(at, "refers to something, but has no relocation"));
                }
                _ => {}
            }
            at += if insn.code == LOAD_64 { 2 } else { 1 };
        }
        Ok(())
    }
}
