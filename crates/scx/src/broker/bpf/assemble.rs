//! Makes a scheduler of what the program has handed in, when it attaches.

use super::super::errno::Errno;
use super::super::kernel::Entry;
use super::Bpf;
use super::elements::index;
use super::links::{at_byte, data};
use super::object::{self, Inode, Object, kind};
use crate::btf::{Btf, Kind};
use crate::{Insn, Ops, OpsKind, Program, Scheduler};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

/// Objects that the far side has: an object's place here is its index there. More come behind them.
#[derive(Debug, Default)]
pub struct Chosen {
    pub maps: Vec<usize>,
    pub programs: Vec<usize>,
}

/// What libbpf writes in place of something that the kernel does not have: a call of a helper with a number from here
/// on, and for a relocation of a field one number.
const NO_MAP: i32 = 2_001_000_000;
const NO_FUNCTION: i32 = 2_002_000_000;
const NO_END: i32 = 2_003_000_000;
const NO_FIELD: i32 = 0x0bad_2310;
/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
const NAME_BYTES: usize = 128;

impl Bpf {
    /// Adds programs of the operations, others that are still open, maps that these name, and open maps. Probes of
    /// libbpf are closed by now. Gives the elements of what is new.
    pub fn choose(&mut self, ops: Option<usize>, pid: i32) -> Vec<Entry> {
        let open = self.open_in(pid);
        let functions = ops.map_or(&[][..], |ops| &self.map(ops).functions);
        let mut programs: Vec<usize> = functions.iter().map(|(_, program)| *program).collect();
        programs.extend(open.iter().filter(|at| matches!(self.objects[**at], Object::Program(_))));
        programs.sort_unstable();
        programs.dedup();
        programs.retain(|at| self.program(*at).far.is_none());
        let is_map =
            |at: &usize| matches!(&self.objects[*at], Object::Map(m) if m.map.kind != kind::STRUCT_OPS);
        let mut named: Vec<usize> = open.into_iter().filter(is_map).collect();
        for program in &programs {
            let maps = self.program(*program).instructions.iter().filter(|insn| insn.is_map());
            named.extend(maps.map(|insn| insn.imm as usize));
        }
        let mut maps = BTreeSet::new();
        while let Some(at) = named.pop() {
            let it = self.map(at);
            if maps.insert(at) {
                let inner = it.holds_objects() && it.map.kind != kind::PROG_ARRAY;
                let held = it.entries.iter().filter(|_| inner).filter_map(|(_, value)| index(value).ok());
                named.extend(held.map(|at| at as usize).chain(it.template));
            }
        }
        let maps: Vec<usize> = maps.into_iter().filter(|at| self.map(*at).far.is_none()).collect();
        self.know(&maps, &programs);
        maps.iter().flat_map(|at| self.entries(*at)).collect()
    }
    /// What the far side has, and the operations if there are any yet. None: they are not of sched_ext.
    pub fn assemble(&self, ops: Option<usize>, pid: i32) -> Option<Scheduler> {
        let ops = ops.map_or(Some(Ops::default()), |ops| self.ops(ops))?;
        let name = ops_name(&self.kernel, &ops);
        let maps = self.chosen.maps.iter().map(|at| self.finished_map(*at, pid)).collect();
        let programs = self.chosen.programs.iter().map(|at| self.finished_program(*at)).collect();
        // The largest is that of the programs; the others are questions of a library.
        let own = self.objects.iter().filter_map(|object| match object {
            Object::Btf(data) => Some(data),
            _ => None,
        });
        let btf = own.max_by_key(|data| data.len()).cloned().unwrap_or_default();
        Some(Scheduler { name, maps, programs, ops, btf, setup: Vec::new() })
    }
    fn ops(&self, map: usize) -> Option<Ops> {
        let it = self.map(map);
        let data = data(&self.kernel, it.kernel_value_type)?;
        let members = self.kernel.items(data.id);
        let named = it.functions.iter().filter_map(|(place, program)| {
            let offset = place - at_byte(&data);
            let member = members.iter().find(|member| at_byte(member) == offset)?;
            let name = self.kernel.item_name(member).to_owned();
            Some((offset, self.program(*program).far?, name))
        });
        let members = named.collect();
        let is_by_cid = self.kernel.name(data.id) == "sched_ext_ops_cid";
        let kind = if is_by_cid { OpsKind::ByCid } else { OpsKind::ByCpu };
        Some(Ops { kind, bytes: it.ops.get(at_byte(&data) as usize..)?.to_vec(), members })
    }
    fn finished_map(&self, at: usize, pid: i32) -> crate::Map {
        let it = self.map(at);
        let mut map = it.map.clone();
        if map.kind == kind::ARRAY && map.max_entries == 1 {
            map.initial = vec![0; map.value_bytes as usize];
            // Memory of this size was made for it: what can't be read is zero.
            it.memory().ok().and_then(|file| file.read_exact_at(&mut map.initial, 0).ok());
        }
        if map.kind == kind::ARENA && map.extra == 0 {
            // Pointers in it are the program's: it starts where the program has put it.
            let inode = it.file.as_ref().and_then(object::inode);
            map.extra = inode.and_then(|inode| mapped_at(pid, inode)).unwrap_or(0);
        }
        map.inner = it.template.and_then(|template| self.map(template).far);
        if map.kind == kind::ARRAY_OF_MAPS {
            let place = |value: &[u8]| self.map(index(value).ok()? as usize).far;
            let held = it.entries.iter().filter_map(|(key, value)| Some((index(key).ok()?, place(value)?)));
            map.inner_initial = held.collect();
        }
        map
    }
    fn finished_program(&self, at: usize) -> Program {
        let it = self.program(at);
        let mut instructions = it.instructions.clone();
        for insn in instructions.iter_mut().filter(|insn| insn.is_map()) {
            insn.imm = self.map(insn.imm as usize).far.expect("maps of programs are chosen") as i32;
        }
        let missing = it.instructions.iter().enumerate();
        let missing = missing.filter_map(|(i, insn)| Some((i as u32, missing_name(*insn)?))).collect();
        let (name, lines) = (it.name.clone(), it.lines.clone());
        Program { name, kind: it.kind, instructions, missing, target: None, lines }
    }
    /// From here on the far side has them, and the elements of keyed maps.
    fn know(&mut self, maps: &[usize], programs: &[usize]) {
        for at in maps {
            self.map_mut(*at).far = Some(self.chosen.maps.len());
            self.chosen.maps.push(*at);
        }
        for at in programs {
            if let Object::Program(program) = &mut self.objects[*at] {
                program.far = Some(self.chosen.programs.len());
                self.chosen.programs.push(*at);
            }
        }
    }
    /// Elements of a keyed map.
    fn entries(&self, at: usize) -> Vec<Entry> {
        let it = self.map(at);
        let (Some(far), true) = (it.far, it.map.kind != kind::ARRAY_OF_MAPS) else { return Vec::new() };
        let as_known =
            |value: &[u8]| if it.holds_objects() { self.far_value(value).ok() } else { Some(value.to_vec()) };
        let entry = |(key, value): (&[u8], &[u8])| {
            Some(Entry { map: far, key: key.to_vec(), value: as_known(value)? })
        };
        it.entries.iter().filter_map(entry).collect()
    }
    /// The index that the far side knows an object by, as a value.
    pub fn far_value(&self, value: &[u8]) -> Result<Vec<u8>, Errno> {
        let far = match &self.objects[index(value)? as usize] {
            Object::Map(map) => map.far,
            Object::Program(program) => program.far,
            _ => None,
        };
        far.map(|far| (far as u32).to_le_bytes().to_vec()).ok_or(Errno(libc::EINVAL))
    }
}

/// Where the process has mapped the start of a file.
fn mapped_at(pid: i32, (_, inode): Inode) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let of_file = |line: &&str| {
        let mut words = line.split_ascii_whitespace();
        words.nth(2) == Some("00000000") && words.nth(1).and_then(|word| word.parse().ok()) == Some(inode)
    };
    u64::from_str_radix(maps.lines().find(of_file)?.split('-').next()?, 16).ok()
}

fn ops_name(kernel: &Btf, ops: &Ops) -> String {
    let name = if ops.kind == OpsKind::ByCid { "sched_ext_ops_cid" } else { "sched_ext_ops" };
    let place = kernel.find(name, Kind::Struct).and_then(|id| kernel.member(id, "name"));
    let place = place.map(|(_, bits)| (bits / 8) as usize);
    let bytes = place.and_then(|at| ops.bytes.get(at..at + NAME_BYTES)).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// What an instruction stands for that libbpf has put in place of something that is not there. Which one it was is
/// known to libbpf alone, up to the number of the extern.
fn missing_name(insn: Insn) -> Option<String> {
    if insn.code != CALL {
        return None;
    }
    match insn.imm {
        NO_FIELD => Some("a field or type that the kernel does not have".to_owned()),
        imm @ NO_FUNCTION..NO_END => Some(format!("a kernel function: extern {}", imm - NO_FUNCTION)),
        imm @ NO_MAP..NO_FUNCTION => Some(format!("a map that was not created: map {}", imm - NO_MAP)),
        _ => None,
    }
}
