//! Commands of bpf(2) that concern one map.

use super::super::errno::Errno;
use super::super::memory::memory;
use super::super::notify::Reply;
use super::object::{Entries, MapObject, Object, kind};
use super::{Answer, Asked, Bpf, DONE};
use crate::btf::Btf;
use crate::{Field, Map, special};

const PAGE: u64 = 4096;
/// Without a value of `value_bytes`: the map's memory would be larger than any real one.
const MOST_MEMORY: u64 = 1 << 40;

impl Bpf {
    /// `BPF_MAP_CREATE`.
    pub fn map_create(&mut self, asked: &mut Asked<'_>) -> Answer {
        let [kind, key_bytes, value_bytes, max_entries, flags] = [0, 4, 8, 12, 16].map(|at| asked.u32(at));
        let is_nested = matches!(kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS);
        let template = is_nested.then(|| self.at(asked.call, asked.u32(20))).transpose()?;
        let btf = self.at(asked.call, asked.u32(48)).ok().filter(|_| asked.u32(56) | asked.u32(52) != 0);
        let value_type = asked.u32(56);
        let map = Map {
            name: asked.name(28),
            kind,
            key_bytes,
            value_bytes,
            max_entries,
            flags,
            special: self.special(btf, value_type),
            extra: asked.u64(64),
            ..Map::default()
        };
        let bytes = memory_bytes(&map, self.cpus).ok_or(Errno(libc::E2BIG))?;
        let file = memory(&map.name, bytes)?;
        let made = MapObject {
            map,
            file: (bytes > 0).then(|| file.try_clone()).transpose()?,
            entries: Entries::default(),
            template,
            btf,
            key_type: asked.u32(52),
            value_type,
            kernel_value_type: asked.u32(60),
            ops: Vec::new(),
            functions: Vec::new(),
            far: None,
            bell: None,
        };
        self.add(Object::Map(Box::new(made)), &file);
        Ok(Reply::file(file.into()))
    }
    fn special(&self, btf: Option<usize>, value_type: u32) -> Vec<Field> {
        match btf.map(|at| &self.objects[at]) {
            Some(Object::Btf(data)) => {
                Btf::parse(data).map_or(Vec::new(), |btf| special::fields(&btf, &self.kernel, value_type))
            }
            _ => Vec::new(),
        }
    }
    /// The map behind the attribute at `at`.
    pub fn map_at(&self, asked: &Asked<'_>, at: usize) -> Result<usize, Errno> {
        let index = self.at(asked.call, asked.u32(at))?;
        matches!(self.objects[index], Object::Map(_)).then_some(index).ok_or(Errno(libc::EINVAL))
    }
    pub fn map(&self, index: usize) -> &MapObject {
        match &self.objects[index] {
            Object::Map(map) => map,
            _ => unreachable!("an index of a map"),
        }
    }
    pub fn map_mut(&mut self, index: usize) -> &mut MapObject {
        match &mut self.objects[index] {
            Object::Map(map) => map,
            _ => unreachable!("an index of a map"),
        }
    }
    fn key(&self, asked: &Asked<'_>, index: usize) -> Result<Vec<u8>, Errno> {
        let bytes = self.map(index).map.key_bytes as usize;
        // A queue has no keys.
        if bytes == 0 { Ok(Vec::new()) } else { asked.memory.bytes(asked.u64(8), bytes) }
    }
    /// `BPF_MAP_LOOKUP_ELEM`.
    pub fn map_lookup(&mut self, asked: &mut Asked<'_>) -> Answer {
        let map = self.map_at(asked, 0)?;
        let key = self.key(asked, map)?;
        let value = self.lookup(map, &key, asked.kernel)?;
        asked.memory.write(asked.u64(16), &value)?;
        DONE
    }
    /// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`.
    pub fn map_take(&mut self, asked: &mut Asked<'_>) -> Answer {
        let map = self.map_at(asked, 0)?;
        let key = self.key(asked, map)?;
        let value = self.lookup(map, &key, asked.kernel)?;
        self.delete(map, &key, asked.kernel)?;
        asked.memory.write(asked.u64(16), &value)?;
        DONE
    }
    /// `BPF_MAP_UPDATE_ELEM`. Of a struct of operations without a link, this attaches it.
    pub fn map_update(&mut self, asked: &mut Asked<'_>) -> Answer {
        let map = self.map_at(asked, 0)?;
        if self.map(map).map.kind == kind::STRUCT_OPS {
            return self.ops_update(map, asked);
        }
        let key = self.key(asked, map)?;
        let value = asked.memory.bytes(asked.u64(16), self.map(map).value_bytes(self.cpus))?;
        let value = self.value_in(map, value, asked)?;
        // A map of maps that the far side has got a map that it has not.
        if self.map(map).far.is_some() && self.map(map).holds_objects() && self.far_value(&value).is_err() {
            self.hand_over(asked.call, asked.kernel)?;
        }
        self.update(map, &key, &value, asked.u64(24), asked.kernel)?;
        DONE
    }
    /// A value as it is kept: in place of the file descriptor of a map or program, its object.
    pub fn value_in(&self, map: usize, value: Vec<u8>, asked: &Asked<'_>) -> Result<Vec<u8>, Errno> {
        if !self.map(map).holds_objects() {
            return Ok(value);
        }
        let number =
            value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno(libc::EINVAL))?;
        Ok((self.at(asked.call, number)? as u32).to_le_bytes().to_vec())
    }
    /// `BPF_MAP_DELETE_ELEM`. Of a struct of operations, this takes it off.
    pub fn map_delete(&mut self, asked: &mut Asked<'_>) -> Answer {
        let map = self.map_at(asked, 0)?;
        if self.map(map).map.kind == kind::STRUCT_OPS {
            self.detach(map, asked.kernel);
            return DONE;
        }
        let key = self.key(asked, map)?;
        self.delete(map, &key, asked.kernel)?;
        DONE
    }
    /// `BPF_MAP_GET_NEXT_KEY`.
    pub fn map_next_key(&mut self, asked: &mut Asked<'_>) -> Answer {
        let map = self.map_at(asked, 0)?;
        let key = if asked.u64(8) == 0 { None } else { Some(self.key(asked, map)?) };
        let next = self.next(map, key.as_deref(), asked.kernel)?;
        asked.memory.write(asked.u64(16), &next)?;
        DONE
    }
    /// `BPF_MAP_FREEZE`: nobody else writes to it.
    pub fn map_freeze(&mut self, asked: &mut Asked<'_>) -> Answer {
        self.map_at(asked, 0)?;
        DONE
    }
}

/// Bytes of a map's memory, in whole pages. 0: it has none.
fn memory_bytes(map: &Map, cpus: u32) -> Option<u64> {
    let (entries, value) = (u64::from(map.max_entries), u64::from(map.value_bytes).next_multiple_of(8));
    let bytes = match map.kind {
        kind::ARRAY => entries.checked_mul(value)?,
        kind::PERCPU_ARRAY => entries.checked_mul(value)?.checked_mul(cpus.into())?,
        kind::ARENA => entries.checked_mul(PAGE)?,
        // Positions of both sides, each in a page, and the data twice: who writes over the end writes to both.
        kind::RINGBUF | kind::USER_RINGBUF => 2 * PAGE + 2 * entries,
        _ => 0,
    };
    let bytes = bytes.next_multiple_of(PAGE);
    (bytes <= MOST_MEMORY).then_some(bytes)
}
