//! What an object needs of the kernel by name: functions, variables, settings of its build.

use super::Source;
use super::maps::{MMAPABLE, Maps, READ_ONLY, kind};
use super::similar::Pair;
use crate::Map;
use crate::btf::{Kind, essential};
use schedlab_base::{Error, Result};
use std::collections::HashMap;

/// `enum libbpf_tristate` and bools in the order of their numbers: no, yes, module.
const STATES: [&str; 3] = ["n", "y", "m"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extern {
    /// Its value is at this offset of the map of settings.
    Setting(u64),
    /// A function or variable of the kernel, by its id.
    Known(u32),
    /// A function that the BTF lacks and the runtime has.
    Supplied,
    Absent {
        weak: bool,
    },
}

#[derive(Default)]
pub(super) struct Externs {
    /// By symbol.
    pub all: HashMap<usize, Extern>,
    /// The map of settings.
    pub settings: usize,
}

impl Externs {
    pub fn read(source: &Source, maps: &mut Maps) -> Result<Externs> {
        let mut made = Externs::default();
        let offsets = settings(source, maps)?;
        made.settings = maps.all.len().saturating_sub(1);
        let listed = |section: &str| {
            let list = source.own.find(section, Kind::Datasec);
            let items = list.map(|l| source.own.items(l)).unwrap_or_default();
            items.iter().map(|v| (source.own.name(v.id), v.id)).collect::<HashMap<_, _>>()
        };
        let ksyms = listed(".ksyms");
        let undefined =
            source.elf.symbols.iter().enumerate().filter(|(_, s)| s.section.is_none() && !s.name.is_empty());
        for (at, symbol) in undefined {
            let found = match (offsets.get(symbol.name), ksyms.get(symbol.name)) {
                (Some(offset), _) => Extern::Setting(*offset),
                (_, Some(id)) => find(source, *id, symbol.name, symbol.weak),
                _ => Extern::Absent { weak: symbol.weak },
            };
            made.all.insert(at, found);
        }
        Ok(made)
    }
}

/// A function of the kernel, or a variable.
fn find(source: &Source, id: u32, name: &str, weak: bool) -> Extern {
    let kernel = source.kernel.btf;
    let found = match source.own.kind(id) {
        Kind::Func => function(source, source.own.to(id), essential(name)),
        _ => {
            let id = source.own.to(id);
            let pair = Pair::new(&source.own, kernel);
            let bare = source.own.bare(id);
            let fits = |k: u32| pair.compatible(bare, kernel.bare(kernel.to(k)));
            match source.own.kind(bare) {
                Kind::Void => kernel.find(name, Kind::Var).or_else(|| kernel.func(name)),
                _ => kernel.find(name, Kind::Var).filter(|k| fits(*k)),
            }
        }
    };
    match found {
        Some(id) => Extern::Known(id),
        None if (source.kernel.supplies)(essential(name)) => Extern::Supplied,
        None => Extern::Absent { weak },
    }
}

/// A function that has this prototype, with or without the argument that programs do not pass. Programs for kernels
/// that show it (up to 6.x) call some by a name with `_impl`.
fn function(source: &Source, prototype: u32, name: &str) -> Option<u32> {
    let kernel = source.kernel.btf;
    let pair = Pair::new(&source.own, kernel);
    let fits = |id: &u32| {
        let theirs = kernel.to(*id);
        let hidden = usize::from(kernel.has_aux(theirs));
        pair.callable(prototype, theirs, hidden) || hidden > 0 && pair.callable(prototype, theirs, 0)
    };
    let shown = || kernel.func(name.strip_suffix("_impl")?).filter(|id| kernel.has_aux(kernel.to(*id)));
    kernel.func(name).or_else(shown).filter(fits)
}

/// Puts settings into a map; gives their offsets.
fn settings<'a>(source: &'a Source, maps: &mut Maps) -> Result<HashMap<&'a str, u64>> {
    let own = &source.own;
    let mut offsets = HashMap::new();
    let mut bytes: Vec<u8> = Vec::new();
    let Some(list) = own.find(".kconfig", Kind::Datasec) else { return Ok(offsets) };
    for v in own.items(list) {
        let (name, id) = (own.name(v.id), own.to(v.id));
        let size = own.size(id).filter(|s| *s <= 4096);
        let size =
            size.ok_or_else(|| source.elf.refused(&format!("setting {name} has a type without a size")))?;
        let symbol = source.elf.symbols.iter().find(|s| s.name == name && s.section.is_none());
        let value = match setting(source, name) {
            Some(text) => number(source, name, id, &text, size)?,
            None if symbol.is_none_or(|s| s.weak) => vec![0; size as usize],
            None => return Err(unknown(source, name)),
        };
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        offsets.insert(name, bytes.len() as u64);
        bytes.extend(value);
    }
    maps.all.push(Map {
        name: ".kconfig".into(),
        kind: kind::ARRAY,
        key_bytes: 4,
        value_bytes: bytes.len() as u32,
        max_entries: 1,
        flags: READ_ONLY | MMAPABLE,
        initial: bytes,
        ..Map::default()
    });
    Ok(offsets)
}

fn unknown(source: &Source, name: &str) -> Error {
    source
        .elf
        .refused(&format!("setting {name} of the kernel's build is not known"))
        .help("declare it __weak: then it is zero where the kernel does not have it")
}

fn setting(source: &Source, name: &str) -> Option<String> {
    match name {
        "LINUX_KERNEL_VERSION" => Some(source.kernel.version.to_string()),
        "LINUX_HAS_BPF_COOKIE" | "LINUX_HAS_SYSCALL_WRAPPER" => Some("1".into()),
        _ => (source.kernel.config)(name),
    }
}

/// A setting's bytes in the type that the program declares.
fn number(source: &Source, name: &str, id: u32, text: &str, size: u64) -> Result<Vec<u8>> {
    let unfit = || source.elf.refused(&format!("setting {name} is {text}, which its type does not hold"));
    let size = size as usize;
    let bare = source.own.bare(id);
    if source.own.kind(bare) == Kind::Array {
        let mut bytes = text.trim_matches('"').as_bytes().to_vec();
        bytes.resize(size, 0);
        return Ok(bytes);
    }
    let value = match STATES.iter().position(|s| *s == text) {
        Some(_) if size == 1 && !source.own.is_bool(bare) => u64::from(text.as_bytes()[0]),
        Some(state) => state as u64,
        None => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| unfit())?,
            None => text
                .parse::<u64>()
                .or_else(|_| text.parse::<i64>().map(i64::cast_unsigned))
                .map_err(|_| unfit())?,
        },
    };
    match size {
        1 | 2 | 4 | 8 => Ok(value.to_le_bytes()[..size].to_vec()),
        _ => Err(unfit()),
    }
}
