//! Definitions of maps: structs whose members' types say what a map is.

use super::Source;
use super::maps::{Maps, kind};
use crate::Map;
use crate::btf::{Btf, Kind};
use schedlab_base::{Error, Result};

/// Maps of one object.
const MOST: usize = 4096;

/// One definition, of the map of this name.
pub(super) struct Definition<'a> {
    pub source: &'a Source<'a>,
    pub name: &'a str,
}

impl Definition<'_> {
    fn refused(&self, what: &str) -> Error {
        self.source.elf.refused(&format!("map {}: {what}", self.name))
    }
    fn own(&self) -> &Btf {
        &self.source.own
    }
    /// Adds a map, and those inside it. Gives its index.
    pub fn read(&self, maps: &mut Maps, id: u32) -> Result<usize> {
        if maps.all.len() >= MOST {
            return Err(self.refused("there are too many maps"));
        }
        let id = self.own().bare(id);
        if self.own().kind(id) != Kind::Struct {
            return Err(self.refused("its definition is not a struct"));
        }
        let at = maps.all.len();
        maps.all.push(Map { name: self.name.to_owned(), ..Map::default() });
        let mut made = maps.all[at].clone();
        for member in self.own().items(id) {
            let name = self.own().item_name(member);
            if name == "values" {
                made.inner = self.inner(maps, member.id)?;
            } else {
                self.member(&mut made, name, member.id)?;
            }
        }
        if !(1..=kind::LAST).contains(&made.kind) {
            return Err(self.refused(&format!("its type {} is unknown", made.kind)));
        }
        if made.inner.is_some() || matches!(made.kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) {
            (made.value_bytes, made.key_bytes) = (4, made.key_bytes.max(4));
        }
        if made.kind == kind::PERF_EVENT_ARRAY {
            (made.key_bytes, made.value_bytes) = (4, 4);
            made.max_entries = if made.max_entries == 0 { self.source.cpus } else { made.max_entries };
        }
        maps.all[at] = made;
        Ok(at)
    }
    /// Maps inside have no names of their own.
    fn inner(&self, maps: &mut Maps, id: u32) -> Result<Option<usize>> {
        let element = self.own().to(self.own().bare(id));
        let target = self.own().to(self.own().bare(element));
        match self.own().kind(self.own().bare(target)) {
            Kind::FuncProto => Ok(None),
            _ if self.name.matches(".inner").count() > 1 => {
                Err(self.refused("it holds maps of maps of maps"))
            }
            _ => {
                let name = format!("{}.inner", self.name);
                Definition { source: self.source, name: &name }.read(maps, target).map(Some)
            }
        }
    }
    fn member(&self, map: &mut Map, name: &str, id: u32) -> Result<()> {
        let number = || self.number(id).ok_or_else(|| self.refused(&format!("'{name}' is not a number")));
        let short =
            || number().and_then(|n| u32::try_from(n).map_err(|_| self.refused(&format!("{name} is {n}"))));
        let target = self.own().to(self.own().bare(id));
        let size = || {
            let size = self.own().size(target).and_then(|s| u32::try_from(s).ok());
            size.ok_or_else(|| self.refused(&format!("the type of '{name}' has no size")))
        };
        match name {
            "type" => map.kind = short()?,
            "max_entries" => map.max_entries = short()?,
            "map_flags" => map.flags = short()?,
            "key_size" => map.key_bytes = short()?,
            "value_size" => map.value_bytes = short()?,
            "map_extra" => map.extra = number()?,
            "key" => map.key_bytes = size()?,
            "value" => {
                map.value_bytes = size()?;
                map.special = crate::special::fields(self.own(), self.source.kernel.btf, target);
            }
            "pinning" | "numa_node" => {}
            _ => return Err(self.refused(&format!("it has a member '{name}' of no known meaning"))),
        }
        Ok(())
    }
    /// A number is the length of an array that is pointed to, or the only value of an enum.
    fn number(&self, id: u32) -> Option<u64> {
        let id = self.own().bare(id);
        match self.own().kind(id) {
            Kind::Ptr => {
                let array = self.own().bare(self.own().to(id));
                (self.own().kind(array) == Kind::Array).then(|| self.own().count(array))
            }
            kind if kind.is_enum() => self.own().items(id).first().map(|e| e.value),
            _ => None,
        }
    }
}
