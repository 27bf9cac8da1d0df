//! What the scheduler's own program does before it attaches the scheduler: it runs programs of kind syscall.

use super::values::{Setting, bytes};
use super::{Source, Values};
use crate::btf::Kind;
use crate::{Program, Setup};
use schedlab_base::{Error, Result};

/// Programs of the arena library of scx, in the order in which its user-space half runs them.
const ARENA_LIBRARY: [&str; 4] =
    ["arena_init", "arena_topology_init", "arena_alloc_mask", "arena_topology_node_init"];
/// The word that stands for each CPU in turn.
const EACH_CPU: &str = "cpu";

/// Whether a value is for [`read`].
pub(super) fn is_step(name: &str) -> bool {
    name.starts_with("run:") || name == "arena"
}

/// The steps in the order of the values: `run:PROGRAM=V,V,...` fills the program's argument member by member;
/// `arena=STRUCT` prepares the arena library for task contexts of that type.
pub(super) fn read(source: &Source, values: &Values, programs: &[Program]) -> Result<Vec<Setup>> {
    let mut made = Vec::new();
    let all = || programs.iter().map(|p| p.name.as_str());
    let find =
        |name: &str| all().position(|p| p == name).ok_or_else(|| Error::unknown("program", name, all()));
    for (name, value) in values.iter().filter(|(name, _)| is_step(name)) {
        let setting = Setting { name: name.clone(), value: value.clone() };
        let Some(program) = name.strip_prefix("run:") else {
            let own = &source.own;
            let context = own.find(value, Kind::Struct).and_then(|id| own.size(id));
            let lacks = || source.elf.refused(&format!("it has no struct {value}"));
            let task_bytes = value.parse().ok().or(context).ok_or_else(lacks)?;
            let programs = ARENA_LIBRARY.map(find).into_iter().collect::<Result<Vec<_>>>()?;
            made.push(Setup::ArenaLibrary { programs, task_bytes });
            continue;
        };
        let at = find(program)?;
        let each = value.split(',').any(|v| v == EACH_CPU);
        for cpu in 0..if each { source.cpus } else { 1 } {
            let words = value.split(',').map(|v| if v == EACH_CPU { cpu.to_string() } else { v.to_owned() });
            let context = context(source, program, &setting, words)?;
            made.push(Setup::Run { program: at, context });
        }
    }
    Ok(made)
}

/// The argument of a program, which points to a struct.
fn context(
    source: &Source,
    program: &str,
    setting: &Setting,
    words: impl Iterator<Item = String>,
) -> Result<Vec<u8>> {
    let own = &source.own;
    let argument = own.func(program).and_then(|f| own.items(own.to(f)).first());
    let argument = argument.map_or(0, |a| own.bare(own.to(own.bare(a.id))));
    let mut leaves = Vec::new();
    flatten(source, argument, 0, &mut leaves);
    let mut made = vec![0; own.size(argument).unwrap_or(0) as usize];
    let mut leaves = leaves.into_iter();
    for word in words.filter(|w| !w.is_empty()) {
        let too_many = || source.elf.refused(&format!("program {program} takes fewer values"));
        let (at, id) = leaves.next().ok_or_else(too_many)?;
        let one = Setting { name: setting.name.clone(), value: word };
        let value = bytes(own, id, &one, source.kernel.btf)?;
        let to = made.get_mut(at as usize..at as usize + value.len()).ok_or_else(too_many)?;
        to.copy_from_slice(&value);
    }
    Ok(made)
}

/// Numbers inside of a type, with their places.
fn flatten(source: &Source, id: u32, at: u64, leaves: &mut Vec<(u64, u32)>) {
    let own = &source.own;
    let bare = own.bare(id);
    match own.kind(bare) {
        Kind::Struct => own.items(bare).iter().for_each(|m| flatten(source, m.id, at + m.value / 8, leaves)),
        Kind::Array => {
            let (element, size) = (own.to(bare), own.size(own.to(bare)).unwrap_or(0));
            (0..own.count(bare).min(4096)).for_each(|i| flatten(source, element, at + i * size, leaves));
        }
        _ => leaves.push((at, bare)),
    }
}
