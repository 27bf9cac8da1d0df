//! Maps: those that a program defines in `.maps`, and its sections of data.

use super::Source;
use super::definition::Definition;
use super::elf::{Holds, Section};
use crate::Map;
use crate::btf::Kind;
use object::SymbolKind;
use schedlab_base::Result;
use std::collections::HashMap;

/// `enum bpf_map_type`, as far as they need more than their sizes.
pub(super) mod kind {
    pub const HASH: u32 = 1;
    pub const ARRAY: u32 = 2;
    pub const PROG_ARRAY: u32 = 3;
    pub const PERF_EVENT_ARRAY: u32 = 4;
    pub const PERCPU_HASH: u32 = 5;
    pub const PERCPU_ARRAY: u32 = 6;
    pub const LRU_HASH: u32 = 9;
    pub const LRU_PERCPU_HASH: u32 = 10;
    pub const ARRAY_OF_MAPS: u32 = 12;
    pub const HASH_OF_MAPS: u32 = 13;
    pub const ARENA: u32 = 33;
    /// The last that is known, `BPF_MAP_TYPE_INSN_ARRAY`.
    pub const LAST: u32 = 34;
}
/// `BPF_F_RDONLY_PROG` and `BPF_F_MMAPABLE`.
pub(super) const READ_ONLY: u32 = 1 << 7;
pub(super) const MMAPABLE: u32 = 1 << 10;

/// The section of the arena's variables.
pub(super) const ARENA_DATA: &str = ".addr_space.1";

#[derive(Default)]
pub(super) struct Maps {
    pub all: Vec<Map>,
    /// By section and offset of their definitions.
    pub defined: HashMap<(usize, u64), usize>,
    /// Sections of data, also that of the arena's variables.
    pub sections: HashMap<usize, usize>,
}

/// A global variable.
#[derive(Clone, Copy)]
pub(super) struct Variable<'a> {
    pub name: &'a str,
    /// Its type.
    pub id: u32,
    /// Its section, and its place there.
    pub section: usize,
    pub at: u64,
    pub bytes: u64,
}

impl Source<'_> {
    /// The variables of a section.
    pub fn variables(&self, section: &str) -> Vec<Variable<'_>> {
        let own = &self.own;
        let Some(list) = own.find(section, Kind::Datasec) else { return Vec::new() };
        let variable = |id: u32| {
            let symbol = self.elf.variable(own.name(id), section)?;
            let (at, bytes, section) = (symbol.value, symbol.bytes, symbol.section?);
            Some(Variable { name: own.name(id), id: own.to(id), section, at, bytes })
        };
        own.items(list).iter().filter_map(|v| variable(v.id)).collect()
    }
}

/// Whether this is a section of global variables.
pub(super) fn is_data(section: &Section) -> bool {
    let named = |of: &str| section.name.strip_prefix(of).is_some_and(|r| r.is_empty() || r.starts_with('.'));
    let data = [".data", ".rodata", ".bss"].iter().any(|of| named(of));
    data && matches!(section.holds, Holds::Data | Holds::Zeros) && section.bytes > 0
}

impl Maps {
    pub fn read(source: &Source) -> Result<Maps> {
        let mut maps = Maps::default();
        for (at, section) in source.elf.sections.iter().enumerate() {
            match section.name {
                ".maps" => maps.define(source, at)?,
                _ if is_data(section) => {
                    maps.sections.insert(at, maps.all.len());
                    maps.all.push(of_section(source, at));
                }
                name => known_section(source, name, section)?,
            }
        }
        if let Some(at) = source.elf.sections.iter().position(|s| s.name == ARENA_DATA && s.bytes > 0) {
            let arena = maps.all.iter().position(|m| m.kind == kind::ARENA);
            let arena =
                arena.ok_or_else(|| source.elf.refused("section .addr_space.1, but no map is an arena"))?;
            maps.all[arena].initial = source.elf.sections[at].data.to_vec();
            maps.sections.insert(at, arena);
        }
        maps.fill_inner(source)?;
        Ok(maps)
    }
    fn define(&mut self, source: &Source, section: usize) -> Result<()> {
        for v in source.variables(".maps") {
            let made = Definition { source, name: v.name }.read(self, v.id)?;
            self.defined.insert((section, v.at), made);
        }
        let symbols = source.elf.symbols.iter().filter(|s| s.section == Some(section));
        match symbols
            .filter(|s| s.kind == SymbolKind::Data)
            .find(|s| !self.defined.contains_key(&(section, s.value)))
        {
            Some(s) => Err(source.elf.refused(&format!("map {} has no definition in BTF", s.name))),
            None => Ok(()),
        }
    }
    /// Maps that a map of maps has from the start: relocations in its definition.
    fn fill_inner(&mut self, source: &Source) -> Result<()> {
        for Variable { name, id, section, at, bytes } in source.variables(".maps") {
            let Some((values, bit)) = source.own.member(id, "values") else { continue };
            let first = at.saturating_add(bit / 8);
            let end = at.saturating_add(bytes.max(source.own.size(values.id).unwrap_or(0)));
            let relocations = source.elf.sections[section].relocations.iter();
            let inside = relocations.filter(|r| r.0 >= first && r.0 < end);
            let outer = self.defined[&(section, at)];
            for (offset, symbol) in inside {
                let symbol = &source.elf.symbols[*symbol];
                let target = symbol.section.and_then(|s| self.defined.get(&(s, symbol.value)));
                let Some(target) = target.filter(|_| self.all[outer].inner.is_some()) else {
                    let what = format!("map {name} holds {}, which is not a map", symbol.name);
                    return Err(source
                        .elf
                        .refused(&what)
                        .help("tail calls are not supported; programs call functions"));
                };
                let slot = u32::try_from((offset - first) / 8).unwrap_or(u32::MAX);
                self.all[outer].inner_initial.push((slot, *target));
            }
        }
        Ok(())
    }
    /// Variables named `__SCX_...` get the value of the kernel's enumerator `SCX_...`, zero if there is none.
    pub fn set_enumerators(&mut self, source: &Source) -> Result<()> {
        let known: HashMap<&str, u64> =
            source.kernel.btf.enumerators().filter(|(name, _)| name.starts_with("SCX_")).collect();
        for section in source.elf.sections.iter().filter(|s| is_data(s)) {
            for v in source.variables(section.name) {
                let value = v.name.strip_prefix("__").and_then(|n| known.get(n));
                let (Some(value), Some(bytes)) = (value, source.own.size(v.id)) else { continue };
                self.write(source, &v, &value.to_le_bytes()[..bytes.min(8) as usize])?;
            }
        }
        Ok(())
    }
    /// Bytes from a variable to the end of its section's map, which may have been made larger than the section.
    pub fn room(&self, source: &Source, v: &Variable) -> u64 {
        let bytes = self.sections.get(&v.section).map_or(0, |at| self.all[*at].value_bytes.into());
        if bytes > source.elf.sections[v.section].bytes { bytes.saturating_sub(v.at) } else { 0 }
    }
    /// New inner maps for the first entries of a map of maps.
    pub fn add_inner(&mut self, at: usize, entries: u32) -> Option<()> {
        let model = self.all[at].inner?;
        for slot in 0..entries {
            let map = self.all[model].clone();
            let made = self.all.len();
            self.all[at].inner_initial.push((slot, made));
            self.all.push(map);
        }
        Some(())
    }
    /// Writes into a variable.
    pub fn write(&mut self, source: &Source, v: &Variable, bytes: &[u8]) -> Result<()> {
        let outside = || source.elf.refused(&format!("variable {} is not inside its section", v.name));
        let map = &mut self.all[*self.sections.get(&v.section).ok_or_else(outside)?];
        let value = map.value_bytes.max(map.initial.len() as u32) as usize;
        map.initial.resize(value, 0);
        let place =
            usize::try_from(v.at).ok().and_then(|at| map.initial.get_mut(at..at.checked_add(bytes.len())?));
        place.ok_or_else(outside)?.copy_from_slice(bytes);
        Ok(())
    }
    /// Sizes that the kernel would refuse. Programs resize maps when they load an object; here a value does.
    pub fn check(&self, source: &Source) -> Result<()> {
        use kind::*;
        let sized = [
            HASH,
            ARRAY,
            PROG_ARRAY,
            PERCPU_HASH,
            PERCPU_ARRAY,
            LRU_HASH,
            LRU_PERCPU_HASH,
            ARRAY_OF_MAPS,
            HASH_OF_MAPS,
        ];
        let inner = |at: usize| self.all.iter().any(|m| m.inner == Some(at));
        let empty = self.all.iter().enumerate();
        match empty.filter(|(at, _)| !inner(*at)).find(|(_, m)| m.max_entries == 0 && sized.contains(&m.kind))
        {
            Some((_, m)) => Err(source
                .elf
                .refused(&format!(
                    "map {} has no entries: the scheduler's own program sets their number",
                    m.name
                ))
                .help(format!("set map:{}.max_entries", m.name))),
            None => Ok(()),
        }
    }
}

/// A section with bytes that nothing here reads is refused, so that nothing is lost in silence.
fn known_section(source: &Source, name: &str, section: &Section) -> Result<()> {
    let unread = matches!(section.holds, Holds::Data | Holds::Zeros) && section.bytes > 0;
    let own = ["license", "version", ARENA_DATA, ".kconfig", ".ksyms", ".eh_frame"].contains(&name)
        || name.trim_start_matches('?').starts_with(".struct_ops");
    if unread && !own {
        return Err(source.elf.refused(&format!("section {name} is of no known kind")));
    }
    Ok(())
}

fn of_section(source: &Source, at: usize) -> Map {
    let section = &source.elf.sections[at];
    let visible =
        source.elf.symbols.iter().any(|s| s.section == Some(at) && s.visible && s.kind == SymbolKind::Data);
    let mmapable = if visible { MMAPABLE } else { 0 };
    let read_only = section.name.starts_with(".rodata");
    let mut special = Vec::new();
    for v in source.variables(section.name) {
        let fields = crate::special::fields(&source.own, source.kernel.btf, v.id).into_iter();
        let at = |f: u32| u32::try_from(v.at).ok()?.checked_add(f);
        special.extend(fields.filter_map(|f| Some(crate::Field { at: at(f.at)?, ..f })));
    }
    special.sort_by_key(|f| f.at);
    Map {
        name: section.name.to_owned(),
        kind: kind::ARRAY,
        key_bytes: 4,
        value_bytes: section.bytes as u32,
        max_entries: 1,
        flags: mmapable | if read_only { READ_ONLY } else { 0 },
        initial: section.data.to_vec(),
        special,
        ..Map::default()
    }
}
