//! The struct of operations: members that the program fills, in the kernel's layout.

use super::Source;
use super::link::Code;
use super::maps::Variable;
use super::values::{self, Setting};
use crate::btf::{Btf, Kind, essential};
use crate::{Ops, OpsKind};
use schedlab_base::{Error, Result, printable};

const NAMES: [(&str, OpsKind); 2] =
    [("sched_ext_ops", OpsKind::ByCpu), ("sched_ext_ops_cid", OpsKind::ByCid)];

/// Operations, of which programs are not made yet.
#[derive(Default)]
pub(super) struct Found {
    pub name: String,
    pub made: Ops,
    /// The function of each of [`Ops::members`].
    pub functions: Vec<usize>,
}

/// Reads the one struct of operations of an object, and sets `ops.MEMBER`.
pub(super) fn read(source: &Source, code: &Code, settings: &[Setting]) -> Result<Found> {
    let named = |name: &str| name.trim_start_matches('?').starts_with(".struct_ops");
    let sections = source.elf.sections.iter().filter(|s| named(s.name));
    let mut all: Vec<Variable> = sections.flat_map(|s| source.variables(s.name)).collect();
    all.sort_by_key(|v| (v.section, v.at));
    all.dedup_by_key(|v| (v.section, v.at));
    // A question mark says that a loader leaves it out unless it is asked for.
    let optional = |v: &Variable| source.elf.sections[v.section].name.starts_with('?');
    let wanted = settings.iter().find(|s| s.name == "ops");
    if let Some(wanted) = wanted {
        let known: Vec<&str> = all.iter().map(|v| v.name).collect();
        all.retain(|v| v.name == wanted.value);
        if all.is_empty() {
            return Err(Error::unknown("struct of operations", &wanted.value, known));
        }
    } else if all.iter().any(|v| !optional(v)) {
        all.retain(|v| !optional(v));
    }
    match all[..] {
        [one] => Reader { source, code, variable: one }.read(settings),
        [] => Err(source
            .elf
            .refused("it has no struct of operations (section .struct_ops or .struct_ops.link)")),
        _ => {
            let names: Vec<&str> = all.iter().map(|v| v.name).collect();
            Err(source
                .elf
                .refused("it has more than one struct of operations")
                .help(format!("set ops to one of: {}", names.join(", "))))
        }
    }
}

struct Reader<'a> {
    source: &'a Source<'a>,
    code: &'a Code<'a>,
    variable: Variable<'a>,
}

impl Reader<'_> {
    fn refused(&self, what: &str) -> Error {
        self.source.elf.refused(&format!("operations {}: {what}", self.variable.name))
    }
    /// The scheduler, and the struct of its operations.
    fn place(&self) -> String {
        printable::name(&format!("{}: operations {}", self.source.elf.file, self.variable.name)).into_owned()
    }
    fn kernel(&self) -> &Btf {
        self.source.kernel.btf
    }
    fn read(&self, settings: &[Setting]) -> Result<Found> {
        let own = &self.source.own;
        let id = own.bare(self.variable.id);
        let name = essential(own.name(id));
        let Some((name, kind)) = NAMES.iter().find(|n| n.0 == name) else {
            return Err(self.refused(&format!("they are a struct {name}, not sched_ext_ops")));
        };
        let theirs = self.kernel().find(name, Kind::Struct);
        let theirs = theirs.ok_or_else(|| {
            self.refused(&format!("this kernel has no struct {name}"))
                .help("take a kernel with sched_ext: 6.12 or later")
        })?;
        let bytes = vec![0; self.kernel().size(theirs).unwrap_or(0) as usize];
        let made = Ops { kind: *kind, bytes, members: Vec::new() };
        let mut found = Found { name: String::new(), made, functions: Vec::new() };
        for m in own.items(id) {
            let member = own.item_name(m);
            let removed = settings.iter().any(|s| s.member() == Some(member) && s.value == "0");
            if m.bits != 0 {
                return Err(self.refused(&format!("member {member} is a bit field")));
            }
            if !removed {
                self.member(&mut found, theirs, member, m.id, m.value / 8)?;
            }
        }
        for s in settings {
            self.set(&mut found, theirs, s)?;
        }
        found.name = self.text(&found.made.bytes, theirs);
        Ok(found)
    }
    fn member(&self, found: &mut Found, theirs: u32, name: &str, id: u32, at: u64) -> Result<()> {
        let own = &self.source.own;
        let size = own.size(id).unwrap_or(0);
        let place = self.variable.at.saturating_add(at);
        let section = &self.source.elf.sections[self.variable.section];
        let value =
            usize::try_from(place).ok().and_then(|p| section.data.get(p..p.checked_add(size as usize)?));
        let value = value.ok_or_else(|| self.refused(&format!("member {name} is behind its section")))?;
        let function = section.relocations.iter().find(|r| r.0 == place).map(|r| r.1);
        if function.is_none() && value.iter().all(|b| *b == 0) {
            return Ok(());
        }
        let known = self.kernel().member(theirs, name);
        let (member, bit) = known.ok_or_else(|| {
            self.refused(&format!("this kernel's {} has no member {name}", self.kernel().name(theirs)))
                .help(format!("set ops.{name} to 0, which leaves it out, or take a newer kernel"))
        })?;
        if self.kernel().size(member.id) != Some(size) {
            return Err(self.refused(&format!("member {name} has another size in this kernel")));
        }
        let Some(symbol) = function else {
            let to = (bit / 8) as usize;
            let place = found.made.bytes.get_mut(to..to + value.len());
            place.ok_or_else(|| self.refused(&format!("member {name} is outside")))?.copy_from_slice(value);
            return Ok(());
        };
        let symbol = &self.source.elf.symbols[symbol];
        let addend = value.first_chunk::<8>().map_or(0, |v| u64::from_le_bytes(*v));
        let start = (symbol.value.wrapping_add(addend) / 8) as usize;
        let function = symbol.section.and_then(|s| self.code.function_at((s, start)));
        let function = function
            .ok_or_else(|| self.refused(&format!("member {name} is '{}', no program", symbol.name)))?;
        found.made.members.push(((bit / 8) as u32, 0, name.to_owned()));
        found.functions.push(function);
        Ok(())
    }
    /// Sets a member from outside. A function can only be left out.
    fn set(&self, found: &mut Found, theirs: u32, setting: &Setting) -> Result<()> {
        let Some(name) = setting.member() else { return Ok(()) };
        let kernel = self.kernel();
        if setting.value == "0" && self.source.own.member(self.variable.id, name).is_some() {
            let (there, to) =
                kernel.member(theirs, name).map_or((0, 0), |(m, bit)| (m.id, (bit / 8) as usize));
            let bytes = kernel.size(there).unwrap_or(0) as usize;
            found.made.bytes.get_mut(to..to.saturating_add(bytes)).unwrap_or_default().fill(0);
            return Ok(());
        }
        let known = || kernel.items(theirs).iter().map(|m| kernel.item_name(m));
        let unknown = || Error::unknown("operation", name, known()).context(self.place());
        let (member, bit) = kernel.member(theirs, name).ok_or_else(unknown)?;
        if kernel.kind(kernel.bare(member.id)) == Kind::Ptr {
            if setting.value == "0" {
                return Ok(());
            }
            return Err(self.refused(&format!("ops.{name} is a function")).help("it can only be set to 0"));
        }
        let value = values::bytes(kernel, member.id, setting, kernel).map_err(|e| e.context(self.place()))?;
        let to = (bit / 8) as usize;
        match found.made.bytes.get_mut(to..to + value.len()) {
            Some(place) => place.copy_from_slice(&value),
            None => return Err(self.refused(&format!("member {name} is outside"))),
        }
        Ok(())
    }
    /// The member `name`.
    fn text(&self, bytes: &[u8], theirs: u32) -> String {
        let place = self.kernel().member(theirs, "name").and_then(|(m, bit)| {
            let (at, size) = ((bit / 8) as usize, self.kernel().size(m.id)? as usize);
            bytes.get(at..at.checked_add(size)?)
        });
        let text = place.unwrap_or_default().split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}
