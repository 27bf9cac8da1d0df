//! Values set from outside, as the scheduler's own program would set them.

use super::maps::{ARENA_DATA, Maps, Variable, is_data};
use super::{Source, Values};
use crate::btf::{Btf, Kind};
use schedlab_base::{Error, Result};

/// A value that belongs to the operations: `ops` or `ops.MEMBER`.
pub(super) struct Setting {
    pub name: String,
    pub value: String,
}

impl Setting {
    /// The member of the operations.
    pub fn member(&self) -> Option<&str> {
        self.name.strip_prefix("ops.")
    }
    fn unfit(&self, why: &str) -> Error {
        Error::input(format!("{} = {}: {why}", self.name, self.value)).help(
            "a number, true or false, names of enumerators with |, a list with commas for an array, or text",
        )
    }
}

/// Sets variables and sizes of maps. Gives the rest, which is for the operations.
pub(super) fn set(source: &Source, maps: &mut Maps, values: &Values) -> Result<Vec<Setting>> {
    let variables: Vec<Variable> = {
        let sections = source.elf.sections.iter().filter(|s| is_data(s) || s.name == ARENA_DATA);
        let mut all: Vec<Variable> = sections.flat_map(|s| source.variables(s.name)).collect();
        all.sort_by_key(|v| (v.section, v.at));
        all.dedup_by_key(|v| (v.section, v.at));
        all
    };
    let mut rest = Vec::new();
    for (name, value) in values.iter().filter(|(name, _)| !super::setup::is_step(name)) {
        let setting = Setting { name: name.clone(), value: value.clone() };
        if let Some(map) = name.strip_prefix("map:") {
            resize(maps, map, &setting)?;
        } else if name == "ops" || name.starts_with("ops.") {
            rest.push(setting);
        } else {
            let (variable, path) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
            let v = variables.iter().find(|v| v.name == variable);
            let v =
                v.ok_or_else(|| Error::unknown("variable", variable, variables.iter().map(|v| v.name)))?;
            let (at, id) =
                part(&source.own, v.id, path).ok_or_else(|| setting.unfit("it has no such part"))?;
            let most = if path.is_empty() { maps.room(source, v) } else { 0 };
            let bytes = sized(&source.own, id, &setting, source.kernel.btf, most)?;
            maps.write(source, &Variable { at: v.at + at, id, ..*v }, &bytes)?;
        }
    }
    Ok(rest)
}

/// A part of a value of this type, `.MEMBER` or `[INDEX]` or several of them: its place in bytes, and its type.
fn part(btf: &Btf, id: u32, path: &str) -> Option<(u64, u32)> {
    let bare = btf.bare(id);
    let (at, id, rest) = if let Some(path) = path.strip_prefix('.') {
        let (name, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
        let (member, bits) = btf.member(bare, name)?;
        (bits / 8, member.id, rest)
    } else if let Some(path) = path.strip_prefix('[') {
        let (index, rest) = path.split_once(']')?;
        let index: u64 = index.parse().ok().filter(|i| *i < btf.count(bare))?;
        (index * btf.size(btf.to(bare))?, btf.to(bare), rest)
    } else {
        return path.is_empty().then_some((0, id));
    };
    part(btf, id, rest).map(|(more, id)| (at + more, id))
}

fn resize(maps: &mut Maps, name: &str, setting: &Setting) -> Result<()> {
    let (map, what) = name.rsplit_once('.').unwrap_or((name, ""));
    let size: u32 = setting.value.parse().map_err(|_| setting.unfit("it is not a size"))?;
    let at = maps.all.iter().position(|m| m.name == map);
    let at = at.ok_or_else(|| Error::unknown("map", map, maps.all.iter().map(|m| m.name.as_str())))?;
    match what {
        "max_entries" => maps.all[at].max_entries = size,
        "inner" => maps.add_inner(at, size).ok_or_else(|| setting.unfit("it is not a map of maps"))?,
        "value_size" if size as usize >= maps.all[at].initial.len() => maps.all[at].value_bytes = size,
        "value_size" => return Err(setting.unfit("the map's first value is larger")),
        _ => return Err(Error::unknown("property of a map", what, ["max_entries", "value_size", "inner"])),
    }
    Ok(())
}

/// A value's bytes in that type. Names of enumerators are the kernel's.
pub(super) fn bytes(btf: &Btf, id: u32, setting: &Setting, kernel: &Btf) -> Result<Vec<u8>> {
    sized(btf, id, setting, kernel, 0)
}

/// An array may have more bytes than its type, up to `most`.
fn sized(btf: &Btf, id: u32, setting: &Setting, kernel: &Btf, most: u64) -> Result<Vec<u8>> {
    let bare = btf.bare(id);
    if btf.kind(bare) != Kind::Array {
        return one(btf, bare, setting, &setting.value, kernel);
    }
    let element = btf.bare(btf.to(bare));
    let size =
        btf.size(bare).filter(|s| *s <= 1 << 24).ok_or_else(|| setting.unfit("the array has no size"))?;
    let mut made = if btf.name(element) == "char" {
        let mut text = setting.value.clone().into_bytes();
        text.push(0);
        text
    } else {
        let parts = setting.value.split(',').map(|part| one(btf, element, setting, part.trim(), kernel));
        parts.collect::<Result<Vec<_>>>()?.concat()
    };
    if made.len() as u64 > size.max(most) {
        return Err(setting.unfit("it is longer than the array"));
    }
    made.resize(made.len().max(size as usize), 0);
    Ok(made)
}

fn one(btf: &Btf, bare: u32, setting: &Setting, text: &str, kernel: &Btf) -> Result<Vec<u8>> {
    let number = matches!(btf.kind(bare), Kind::Int | Kind::Enum | Kind::Enum64);
    let size = btf.size(bare).filter(|s| number && matches!(s, 1 | 2 | 4 | 8));
    let size = size.ok_or_else(|| setting.unfit("it is not a number or an array of numbers"))? as usize;
    let mut value = 0;
    for word in text.split('|') {
        value |= self::word(word.trim(), kernel).ok_or_else(|| setting.unfit(&format!("what is {word}?")))?;
    }
    let bits = 8 * size as u32;
    let (low, high) = match bits {
        64 => (i128::from(i64::MIN), i128::from(u64::MAX)),
        _ => (-(1i128 << (bits - 1)), (1i128 << bits) - 1),
    };
    if btf.is_bool(bare) && !(0..=1).contains(&value) || !(low..=high).contains(&value) {
        return Err(setting.unfit(&format!("its type has {bits} bits")));
    }
    Ok(value.to_le_bytes()[..size].to_vec())
}

fn word(text: &str, kernel: &Btf) -> Option<i128> {
    match text {
        "true" => return Some(1),
        "false" => return Some(0),
        _ => {}
    }
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse::<u64>().ok(),
    };
    match number {
        Some(number) => Some(sign * i128::from(number)),
        None => kernel.enumerators().find(|(name, _)| *name == text).map(|(_, v)| i128::from(v)),
    }
}
