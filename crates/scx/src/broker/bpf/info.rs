//! `BPF_OBJ_GET_INFO_BY_FD`: structs that are written field by field, as long as the program has room for.

use super::super::errno::Errno;
use super::object::Object;
use super::{Answer, Asked, Bpf, DONE};

/// The longest of the structs, of 7.3.
const MOST_BYTES: usize = 232;
/// `BPF_LINK_TYPE_*`.
const LINK_RAW_TRACEPOINT: u32 = 1;
const LINK_STRUCT_OPS: u32 = 9;

/// A struct that is filled.
struct Filled([u8; MOST_BYTES]);

impl Filled {
    fn u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    fn name(&mut self, at: usize, name: &str) {
        let most = name.len().min(15);
        self.0[at..at + most].copy_from_slice(&name.as_bytes()[..most]);
    }
}

/// The id of an object: from 1.
fn id(object: usize) -> u32 {
    object as u32 + 1
}

impl Bpf {
    pub fn information(&mut self, asked: &mut Asked<'_>) -> Answer {
        let object = self.at(asked.call, asked.u32(0))?;
        let room = asked.u32(4) as usize;
        let mut filled = Filled([0; MOST_BYTES]);
        let bytes = match &self.objects[object] {
            Object::Map(_) => self.map_information(object, &mut filled),
            Object::Program(program) => {
                filled.u32(0, program.kind);
                filled.u32(4, id(object));
                filled.name(64, &program.name);
                filled.u32(84, 1);
                filled.u32(224, program.attach_btf_id);
                232
            }
            Object::Btf(data) => return self.btf_information(asked, object, data),
            Object::Link(of, _) => {
                let is_ops = matches!(self.objects[*of], Object::Map(_));
                filled.u32(0, if is_ops { LINK_STRUCT_OPS } else { LINK_RAW_TRACEPOINT });
                filled.u32(4, id(object));
                // Of a struct of operations the map, of others the program.
                filled.u32(if is_ops { 16 } else { 8 }, id(*of));
                64
            }
            Object::Event(..) | Object::Other => return Err(Errno(libc::EINVAL)),
        };
        let bytes = room.min(bytes);
        asked.memory.write(asked.u64(8), &filled.0[..bytes])?;
        asked.put(4, bytes as u32)?;
        DONE
    }
    fn map_information(&self, object: usize, filled: &mut Filled) -> usize {
        let it = self.map(object);
        let words =
            [it.map.kind, id(object), it.map.key_bytes, it.map.value_bytes, it.map.max_entries, it.map.flags];
        for (at, word) in words.into_iter().enumerate() {
            filled.u32(at * 4, word);
        }
        filled.name(24, &it.map.name);
        filled.u32(44, it.kernel_value_type);
        filled.u32(64, it.btf.map_or(0, id));
        filled.u32(68, it.key_type);
        filled.u32(72, it.value_type);
        filled.u64(80, it.map.extra);
        104
    }
    /// The data itself goes to a place that the program names in the struct.
    fn btf_information(&self, asked: &Asked<'_>, object: usize, data: &[u8]) -> Answer {
        let room = (asked.u32(4) as usize).min(32);
        let mut given = [0; 32];
        asked.memory.read(asked.u64(8), &mut given[..room])?;
        let word = |at: usize| u32::from_le_bytes(given[at..at + 4].try_into().expect("4 bytes"));
        let place = u64::from(word(0)) | u64::from(word(4)) << 32;
        let copied = data.len().min(word(8) as usize);
        if place != 0 {
            asked.memory.write(place, &data[..copied])?;
        }
        let mut filled = Filled([0; MOST_BYTES]);
        filled.u64(0, place);
        filled.u32(8, data.len() as u32);
        filled.u32(12, id(object));
        // The name is empty; where it would go stays as it is.
        filled.0[16..24].copy_from_slice(&given[16..24]);
        asked.memory.write(asked.u64(8), &filled.0[..room])?;
        asked.put(4, room as u32)?;
        DONE
    }
}
