//! What bpf(2) makes: maps, programs, BTF and links. Each is an anonymous file in the program's table, and known by
//! that file's inode, because programs move file descriptors to other numbers.

use super::super::errno::Errno;
use crate::{Insn, Map, Target};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Kinds of maps (`enum bpf_map_type`) that this crate treats in a way of their own.
pub mod kind {
    pub const ARRAY: u32 = 2;
    pub const PROG_ARRAY: u32 = 3;
    pub const PERF_EVENT_ARRAY: u32 = 4;
    pub const PERCPU_HASH: u32 = 5;
    pub const PERCPU_ARRAY: u32 = 6;
    pub const LRU_PERCPU_HASH: u32 = 10;
    pub const ARRAY_OF_MAPS: u32 = 12;
    pub const HASH_OF_MAPS: u32 = 13;
    pub const STRUCT_OPS: u32 = 26;
    pub use crate::scheduler::RINGBUF;
    pub const USER_RINGBUF: u32 = 31;
    pub const ARENA: u32 = 33;
}

/// Entries of a keyed map in the order in which they were made.
#[derive(Debug, Default)]
pub struct Entries {
    order: BTreeMap<Vec<u8>, u64>,
    values: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    made: u64,
}

impl Entries {
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.order.get(key).map(|place| &*self.values[place].1)
    }
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let place = *self.order.entry(key.to_owned()).or_insert_with(|| {
            self.made += 1;
            self.made
        });
        self.values.insert(place, (key.to_owned(), value.to_owned()));
    }
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.order.remove(key).is_some_and(|place| self.values.remove(&place).is_some())
    }
    /// The key after this one; the first one if there is no such key.
    pub fn after(&self, key: Option<&[u8]>) -> Option<&[u8]> {
        let from = key.and_then(|key| self.order.get(key)).map_or(0, |place| place + 1);
        self.values.range(from..).next().map(|(_, (key, _))| &**key)
    }
    pub fn len(&self) -> usize {
        self.order.len()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.values().map(|(key, value)| (&**key, &**value))
    }
}

/// A map as it was created. `map.inner` and such indices are filled in when a scheduler is made of it.
#[derive(Debug)]
pub struct MapObject {
    pub map: Map,
    /// The memory, of those that have any: a program may make thousands of others, and open files are few.
    pub file: Option<File>,
    pub entries: Entries,
    /// The object that describes inner maps.
    pub template: Option<usize>,
    pub btf: Option<usize>,
    pub key_type: u32,
    pub value_type: u32,
    pub kernel_value_type: u32,
    /// The value of a struct of operations, and the programs that it names: offset and object.
    pub ops: Vec<u8>,
    pub functions: Vec<(u32, usize)>,
    /// The index that the far side knows it by.
    pub far: Option<usize>,
    /// Of a ring that is in an epoll set: what stands there for it.
    pub bell: Option<File>,
}

impl MapObject {
    pub fn is_per_cpu(&self) -> bool {
        matches!(self.map.kind, kind::PERCPU_HASH | kind::PERCPU_ARRAY | kind::LRU_PERCPU_HASH)
    }
    /// Values are file descriptors of maps or programs.
    pub fn holds_objects(&self) -> bool {
        matches!(self.map.kind, kind::PROG_ARRAY | kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS)
    }
    /// Values are in the memory.
    pub fn is_array(&self) -> bool {
        matches!(self.map.kind, kind::ARRAY | kind::PERCPU_ARRAY)
    }
    /// Keys are the numbers below `max_entries`.
    pub fn is_indexed(&self) -> bool {
        self.is_array()
            || matches!(self.map.kind, kind::PROG_ARRAY | kind::ARRAY_OF_MAPS | kind::PERF_EVENT_ARRAY)
    }
    /// The memory of an array.
    ///
    /// # Errors
    /// EINVAL for another map.
    pub fn memory(&self) -> Result<&File, Errno> {
        self.file.as_ref().ok_or(Errno(libc::EINVAL))
    }
    /// Bytes of a value as bpf(2) takes it.
    pub fn value_bytes(&self, cpus: u32) -> usize {
        if self.is_per_cpu() { self.stride(cpus) } else { self.map.value_bytes as usize }
    }
    /// Bytes that an instruction may name a place in: the first value, or an arena.
    pub fn all_bytes(&self) -> u64 {
        if self.map.kind == kind::ARENA {
            u64::from(self.map.max_entries) * 4096
        } else {
            self.map.value_bytes.into()
        }
    }
    /// Bytes from one element of an array to the next.
    pub fn stride(&self, cpus: u32) -> usize {
        let one = (self.map.value_bytes as usize).next_multiple_of(8);
        if self.is_per_cpu() { one * cpus as usize } else { one }
    }
}

#[derive(Debug, Default)]
pub struct ProgramObject {
    pub name: String,
    pub kind: u32,
    /// Maps are named by their object.
    pub instructions: Vec<Insn>,
    /// What it is to be attached to, of the kernel's BTF, and how (`enum bpf_attach_type`).
    pub attach_btf_id: u32,
    pub attach_type: u32,
    /// Where lines of its source begin.
    pub lines: Vec<(u32, String)>,
    pub far: Option<usize>,
}

#[derive(Debug)]
pub enum Object {
    Map(Box<MapObject>),
    Program(ProgramObject),
    Btf(Vec<u8>),
    /// Of this program or struct of operations (object); what a program is attached to.
    Link(usize, Option<Target>),
    /// A function that programs may be attached to: when it begins or, if that is true, when it has returned.
    Event(String, bool),
    /// A file that stands for something without content.
    Other,
}

/// An inode: device and number.
pub type Inode = (u64, u64);

pub fn inode(file: &File) -> Option<Inode> {
    file.metadata().ok().map(|data| (data.dev(), data.ino()))
}

/// The inode behind a file descriptor of a thread.
pub fn inode_at(thread: i32, number: u32) -> Option<Inode> {
    let data = std::fs::metadata(format!("/proc/{thread}/fd/{number}")).ok()?;
    Some((data.dev(), data.ino()))
}
