//! The parts of an object file: sections, symbols, relocations.

use crate::Insn;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind, SymbolScope,
};
use schedlab_base::{Error, Result, printable};
use std::collections::HashMap;

/// No scheduler has larger sections of data.
const LARGEST: u64 = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    Code,
    Data,
    /// Zeros, of which the file has no bytes.
    Zeros,
    /// Nothing that a program uses.
    Other,
}

pub(super) struct Section<'a> {
    pub name: &'a str,
    pub holds: Holds,
    /// Empty if it holds zeros.
    pub data: &'a [u8],
    pub bytes: u64,
    /// Offset and symbol, in order.
    pub relocations: Vec<(u64, usize)>,
}

#[derive(Clone, Copy)]
pub(super) struct Symbol<'a> {
    pub name: &'a str,
    /// Its section. None: another object or the kernel has it.
    pub section: Option<usize>,
    pub value: u64,
    pub bytes: u64,
    pub kind: SymbolKind,
    pub weak: bool,
    pub global: bool,
    /// Other objects see it.
    pub visible: bool,
}

pub(super) struct Elf<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
    /// By their indices in the file.
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<Symbol<'a>>,
    /// Variables by name.
    named: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Elf<'a> {
    pub fn parse(bytes: &'a [u8], file: &'a str) -> Result<Elf<'a>> {
        let broken = |e: object::Error| refused(file, &format!("it is not an ELF object of 64 bits: {e}"));
        let elf = ElfFile64::<LittleEndian>::parse(bytes).map_err(broken)?;
        if elf.elf_header().e_machine.get(LittleEndian) != object::elf::EM_BPF {
            return Err(refused(file, "it is for another machine than BPF"));
        }
        let mut made = Elf { file, sections: Vec::new(), symbols: Vec::new(), named: HashMap::new() };
        for section in elf.sections() {
            made.put(section.index().0, self::section(file, &section)?);
        }
        for symbol in elf.symbols() {
            let name = symbol.name().map_err(broken)?;
            let section = symbol.section_index().map(|s| s.0);
            let (value, bytes, kind) = (symbol.address(), symbol.size(), symbol.kind());
            let (weak, global) = (symbol.is_weak(), symbol.is_global());
            let visible = symbol.scope() == SymbolScope::Dynamic;
            let at = symbol.index().0;
            while made.symbols.len() < at {
                made.symbols.push(Symbol::NONE);
            }
            if kind == SymbolKind::Data && section.is_some() {
                made.named.entry(name).or_default().push(at);
            }
            made.symbols.push(Symbol { name, section, value, bytes, kind, weak, global, visible });
        }
        made.check()?;
        Ok(made)
    }
    fn put(&mut self, at: usize, section: Section<'a>) {
        while self.sections.len() < at {
            self.sections.push(Section::NONE);
        }
        self.sections.push(section);
    }
    fn check(&self) -> Result<()> {
        if let Some(s) = self.sections.iter().find(|s| s.bytes > LARGEST && s.holds != Holds::Other) {
            return Err(self.refused(&format!("section {} has {} bytes", s.name, s.bytes)));
        }
        let known = |(_, symbol): &(u64, usize)| *symbol < self.symbols.len();
        match self.sections.iter().find(|s| !s.relocations.iter().all(known)) {
            Some(s) => Err(self.refused(&format!("a relocation of section {} has no symbol", s.name))),
            None => Ok(()),
        }
    }
    pub fn find(&self, section: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|s| s.name == section)
    }
    /// A variable of a section with this name.
    pub fn variable(&self, name: &str, section: &str) -> Option<&Symbol<'a>> {
        let inside =
            |s: &&Symbol| s.section.and_then(|s| self.sections.get(s)).is_some_and(|s| s.name == section);
        self.named.get(name)?.iter().map(|at| &self.symbols[*at]).find(inside)
    }
    /// An error about this file.
    pub fn refused(&self, what: &str) -> Error {
        refused(self.file, what)
    }
    /// The instructions of a section of code.
    pub fn code(&self, section: usize) -> Result<Vec<Insn>> {
        let section = &self.sections[section];
        if !section.data.len().is_multiple_of(8) {
            return Err(self.refused(&format!("section {} ends inside an instruction", section.name)));
        }
        Ok(section.data.chunks_exact(8).map(|b| insn(b.try_into().unwrap_or_default())).collect())
    }
}

impl Section<'_> {
    const NONE: Section<'static> =
        Section { name: "", holds: Holds::Other, data: &[], bytes: 0, relocations: Vec::new() };
}

impl Symbol<'_> {
    const NONE: Symbol<'static> = Symbol {
        name: "",
        section: None,
        value: 0,
        bytes: 0,
        kind: SymbolKind::Unknown,
        weak: false,
        global: false,
        visible: false,
    };
}

fn refused(file: &str, what: &str) -> Error {
    Error::input(format!("{}: {}", printable::name(file), printable::name(what)))
        .help("a scheduler is one object of clang -g -O2 -target bpf, or of 'bpftool gen object'")
}

fn insn(b: [u8; 8]) -> Insn {
    Insn {
        code: b[0],
        registers: b[1],
        off: i16::from_le_bytes([b[2], b[3]]),
        imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
    }
}

fn section<'a>(file: &str, section: &impl ObjectSection<'a>) -> Result<Section<'a>> {
    let name = section.name().map_err(|_| refused(file, "a section has no readable name"))?;
    let holds = match section.kind() {
        SectionKind::Text => Holds::Code,
        SectionKind::UninitializedData => Holds::Zeros,
        SectionKind::Data | SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => Holds::Data,
        _ => Holds::Other,
    };
    let data = section.data().map_err(|_| refused(file, &format!("section {name} ends behind the file")))?;
    let mut relocations = Vec::new();
    if matches!(holds, Holds::Code | Holds::Data) {
        for (offset, relocation) in section.relocations() {
            if let RelocationTarget::Symbol(symbol) = relocation.target() {
                relocations.push((offset, symbol.0));
            }
        }
    }
    Ok(Section { name, holds, data, bytes: section.size(), relocations })
}
