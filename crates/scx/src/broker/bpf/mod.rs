//! bpf(2): a table of its commands. What the program hands in is kept; what it asks for is answered from that.

mod assemble;
mod elements;
mod info;
mod links;
mod maps;
mod object;
mod probes;
mod programs;
mod rings;

use super::errno::Errno;
use super::kernel::Kernel;
use super::memory::{Memory, memory};
use super::notify::{Call, Reply};
use crate::Scheduler;
use crate::btf::Btf;
use assemble::Chosen;
use object::{Inode, Object};
pub use probes::PROBE_KIND;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;

/// The part of `union bpf_attr` that is read: all fields of 7.3's commands lie in it.
const ATTRIBUTE_BYTES: usize = 184;

/// A call of bpf(2), with its attributes.
pub struct Asked<'a> {
    pub call: &'a Call,
    pub memory: Memory,
    /// The CPU that the caller is on.
    pub cpu: u32,
    attributes: [u8; ATTRIBUTE_BYTES],
    pub kernel: &'a mut dyn Kernel,
}

impl Asked<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.attributes[at..at + 4].try_into().expect("4 bytes"))
    }
    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.attributes[at..at + 8].try_into().expect("8 bytes"))
    }
    /// A name of 16 bytes.
    fn name(&self, at: usize) -> String {
        let bytes = &self.attributes[at..at + 16];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
    /// Writes a field of the attributes back.
    fn put(&self, at: usize, value: u32) -> Result<(), Errno> {
        self.memory.write(self.call.arguments[1] + at as u64, &value.to_le_bytes())
    }
}

type Answer = Result<Reply, Errno>;
type Command = fn(&mut Bpf, &mut Asked<'_>) -> Answer;

const DONE: Answer = Ok(Reply::Value(0));

/// Commands of `enum bpf_cmd`. What is not here is not known: EINVAL, as a kernel says to a newer command.
const TABLE: &[(u32, Command)] = &[
    (0, Bpf::map_create),
    (1, Bpf::map_lookup),
    (2, Bpf::map_update),
    (3, Bpf::map_delete),
    (4, Bpf::map_next_key),
    (5, Bpf::program_load),
    (6, |_, _| Err(Errno(libc::EPERM))),  // BPF_OBJ_PIN
    (7, |_, _| Err(Errno(libc::ENOENT))), // BPF_OBJ_GET
    (10, Bpf::test_run),
    (11, |_, _| Err(Errno(libc::ENOENT))), // BPF_PROG_GET_NEXT_ID
    (12, |_, _| Err(Errno(libc::ENOENT))), // BPF_MAP_GET_NEXT_ID
    (13, Bpf::by_id),                      // BPF_PROG_GET_FD_BY_ID
    (14, Bpf::by_id),                      // BPF_MAP_GET_FD_BY_ID
    (15, Bpf::information),
    (17, Bpf::raw_tracepoint_open),
    (18, Bpf::btf_load),
    (19, Bpf::by_id), // BPF_BTF_GET_FD_BY_ID
    (21, Bpf::map_take),
    (22, Bpf::map_freeze),
    (23, |_, _| Err(Errno(libc::ENOENT))), // BPF_BTF_GET_NEXT_ID: no modules
    (24, |bpf, asked| bpf.lookup_batch(asked, false)),
    (25, |bpf, asked| bpf.lookup_batch(asked, true)),
    (26, Bpf::update_batch),
    (27, Bpf::delete_batch),
    (28, Bpf::link_create),
    (29, |_, _| Err(Errno(libc::EOPNOTSUPP))), // BPF_LINK_UPDATE: sched_ext has none
    (30, Bpf::by_id),                          // BPF_LINK_GET_FD_BY_ID
    (31, |_, _| Err(Errno(libc::ENOENT))),     // BPF_LINK_GET_NEXT_ID
    (32, |bpf, _| bpf.make(Object::Other, "bpf-stats", 0)), // BPF_ENABLE_STATS
    (33, Bpf::iterator_create),
    (34, Bpf::link_detach),
    (35, Bpf::bind_map),
    (36, |_, _| Err(Errno(libc::EPERM))), // BPF_TOKEN_CREATE
    (38, Bpf::bind_map),                  // BPF_PROG_ASSOC_STRUCT_OPS: two objects, as there
];

/// A scheduler that is attached, and the object that holds it: its map, or a link to it.
#[derive(Debug)]
struct Attached {
    by: usize,
    map: usize,
}

#[derive(Debug, Default)]
pub struct Bpf {
    /// Possible CPUs of the simulated machine.
    cpus: u32,
    /// The simulated kernel's BTF, as the program sees it.
    kernel: Btf,
    objects: Vec<Object>,
    by_inode: HashMap<Inode, usize>,
    /// What the far side has.
    chosen: Chosen,
    attached: Option<Attached>,
    /// The scheduler that was attached first.
    pub scheduler: Option<Scheduler>,
    /// Commands that were refused because they are not known here or mean nothing here, with how often.
    pub refused: BTreeMap<String, u64>,
}

impl Bpf {
    pub fn new(cpus: u32, kernel: Btf) -> Bpf {
        Bpf { cpus, kernel, ..Bpf::default() }
    }
    /// `cpu`: on which its thread runs.
    ///
    /// # Errors
    /// What the call fails with.
    pub fn answer(&mut self, call: &Call, cpu: u32, kernel: &mut dyn Kernel) -> Answer {
        let memory = Memory { pid: call.thread };
        let command = call.arguments[0] as u32;
        let Some((_, run)) = TABLE.iter().find(|(number, _)| *number == command) else {
            self.refuse(format!("command {command}"));
            return Err(Errno(libc::EINVAL));
        };
        let mut attributes = [0; ATTRIBUTE_BYTES];
        let size = (call.arguments[2] as usize).min(ATTRIBUTE_BYTES);
        memory.read(call.arguments[1], &mut attributes[..size])?;
        run(self, &mut Asked { call, memory, attributes, cpu, kernel })
    }
    fn refuse(&mut self, what: String) {
        *self.refused.entry(what).or_default() += 1;
    }
    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }
    pub fn attached_name(&self) -> Option<&str> {
        self.scheduler.as_ref().filter(|_| self.is_attached()).map(|scheduler| &*scheduler.name)
    }
    /// Adds an object with a file of its own.
    fn make(&mut self, object: Object, name: &str, bytes: u64) -> Answer {
        let file = memory(name, bytes)?;
        self.add(object, &file);
        Ok(Reply::file(file.into()))
    }
    fn add(&mut self, object: Object, file: &File) -> usize {
        self.objects.push(object);
        let index = self.objects.len() - 1;
        if let Some(inode) = object::inode(file) {
            self.by_inode.insert(inode, index);
        }
        index
    }
    /// The object behind a file descriptor of the program.
    fn at(&self, call: &Call, number: u32) -> Result<usize, Errno> {
        let inode = object::inode_at(call.thread, number).ok_or(Errno(libc::EBADF))?;
        self.by_inode.get(&inode).copied().ok_or(Errno(libc::EBADF))
    }
    /// All objects that the process has open.
    fn open_in(&self, pid: i32) -> Vec<usize> {
        let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
        let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut open: Vec<usize> = numbers
            .filter_map(|number| self.by_inode.get(&object::inode_at(pid, number)?).copied())
            .collect();
        open.sort_unstable();
        open.dedup();
        open
    }
    /// `BPF_BTF_LOAD`.
    fn btf_load(&mut self, asked: &mut Asked<'_>) -> Answer {
        let data = asked.memory.bytes(asked.u64(0), asked.u32(16) as usize)?;
        self.make(Object::Btf(data), "btf", 0)
    }
    /// `BPF_*_GET_FD_BY_ID`: the program keeps what it made open by itself; another handle of it is not there.
    fn by_id(&mut self, _: &mut Asked<'_>) -> Answer {
        Err(Errno(libc::ENOENT))
    }
}
