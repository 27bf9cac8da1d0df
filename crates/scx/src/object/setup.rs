//! What the scheduler's own program does before it attaches the scheduler: it runs programs of kind syscall.

use super::values::{Setting, bytes};
use super::{Source, Values};
use crate::btf::{Btf, Kind};
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
    let mut flat = Flat { own, leaves: Vec::new(), looks: 0 };
    flat.add(argument, 0, 0);
    let mut made = vec![0; own.size(argument).filter(|bytes| *bytes <= MOST_BYTES).unwrap_or(0) as usize];
    let mut leaves = flat.leaves.into_iter();
    for word in words.filter(|w| !w.is_empty()) {
        let too_many = || source.elf.refused(&format!("program {program} takes fewer values"));
        let (at, id) = leaves.next().ok_or_else(too_many)?;
        let one = Setting { name: setting.name.clone(), value: word };
        let value = bytes(own, id, &one, source.kernel.btf)?;
        let to = usize::try_from(at).ok().and_then(|at| made.get_mut(at..at.checked_add(value.len())?));
        let to = to.ok_or_else(too_many)?;
        to.copy_from_slice(&value);
    }
    Ok(made)
}

/// Types of an argument that are looked at, each time that they are met: a hostile one nests without end.
const MOST_TYPES: u32 = 1 << 16;
const MOST_NESTED: u32 = 32;
/// An argument is not larger.
const MOST_BYTES: u64 = 1 << 20;

/// Numbers inside of a type.
struct Flat<'a> {
    own: &'a Btf,
    /// Their places and types: the first ones.
    leaves: Vec<(u64, u32)>,
    looks: u32,
}

impl Flat<'_> {
    fn add(&mut self, id: u32, at: u64, depth: u32) {
        let bare = self.own.bare(id);
        if depth == MOST_NESTED || self.looks == MOST_TYPES {
            return;
        }
        self.looks += 1;
        match self.own.kind(bare) {
            Kind::Struct => {
                let items = self.own.items(bare).iter();
                items.for_each(|m| self.add(m.id, at.saturating_add(m.value / 8), depth + 1));
            }
            Kind::Array => {
                let (element, size) = (self.own.to(bare), self.own.size(self.own.to(bare)).unwrap_or(0));
                let elements = self.own.count(bare).min(4096);
                (0..elements)
                    .for_each(|i| self.add(element, at.saturating_add(i.saturating_mul(size)), depth + 1));
            }
            _ => self.leaves.push((at, bare)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF of a struct whose only member is an array of itself.
    fn without_end() -> Btf {
        let strings = b"\0s\0m\0";
        let mut types = Vec::new();
        // struct s { struct s m[4096]; }: 1 is the struct, 2 the array, 3 an int.
        let words: [u32; 17] = [1, 4 << 24 | 1, 8, 3, 2, 0, 0, 3 << 24, 0, 1, 3, 4096, 1, 1 << 24, 4, 32, 0];
        words[..16].iter().for_each(|word| types.extend(word.to_le_bytes()));
        let header: [u32; 6] =
            [0x0001_eb9f, 24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        let header = header.iter().flat_map(|word| word.to_le_bytes());
        Btf::parse(&header.chain(types).chain(strings.iter().copied()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_type_that_nests_without_end_is_left_after_a_while() {
        let own = without_end();
        assert_eq!((own.kind(1), own.kind(2), own.count(2)), (Kind::Struct, Kind::Array, 4096));
        let mut flat = Flat { own: &own, leaves: Vec::new(), looks: 0 };
        flat.add(1, 0, 0);
        assert_eq!((flat.looks, flat.leaves.len()), (MOST_TYPES, 0));
        let mut flat = Flat { own: &own, leaves: Vec::new(), looks: 0 };
        flat.add(3, 24, 0);
        assert_eq!(flat.leaves, [(24, 3)]);
    }
}
