//! Elements of maps, one and many: of arrays in their memory, of others in the broker until the scheduler is attached,
//! and at the far side from then on.

use super::super::errno::Errno;
use super::super::kernel::Kernel;
use super::object::kind;
use super::{Answer, Asked, Bpf, DONE};
use std::os::unix::fs::FileExt;

/// `BPF_NOEXIST` and `BPF_EXIST`.
const NOT_THERE: u64 = 1;
const THERE: u64 = 2;

impl Bpf {
    /// Where an element of an array lies.
    fn place(&self, map: usize, key: &[u8]) -> Result<u64, Errno> {
        let index = index(key)?;
        if index >= self.map(map).map.max_entries {
            return Err(Errno(libc::ENOENT));
        }
        Ok(u64::from(index) * self.map(map).stride(self.cpus) as u64)
    }
    /// # Errors
    /// As `BPF_MAP_LOOKUP_ELEM`.
    pub fn lookup(&self, map: usize, key: &[u8], kernel: &mut dyn Kernel) -> Result<Vec<u8>, Errno> {
        let it = self.map(map);
        if it.is_array() {
            let mut value = vec![0; it.value_bytes(self.cpus)];
            it.memory()?.read_exact_at(&mut value, self.place(map, key)?)?;
            return Ok(value);
        }
        match it.far {
            // Of a map of maps the program gets an id: 1 and the object.
            _ if it.holds_objects() => {
                let object = it.entries.get(key).ok_or(Errno(libc::ENOENT)).and_then(index)?;
                Ok((object + 1).to_le_bytes().to_vec())
            }
            Some(far) => kernel.lookup(far, key),
            None => it.entries.get(key).map(<[u8]>::to_vec).ok_or(Errno(libc::ENOENT)),
        }
    }
    /// # Errors
    /// As `BPF_MAP_UPDATE_ELEM`.
    pub fn update(
        &mut self,
        map: usize,
        key: &[u8],
        value: &[u8],
        flags: u64,
        kernel: &mut dyn Kernel,
    ) -> Result<(), Errno> {
        let it = self.map(map);
        if it.is_array() {
            let place = self.place(map, key).map_err(|_| Errno(libc::E2BIG))?;
            if flags & NOT_THERE != 0 {
                return Err(Errno(libc::EEXIST));
            }
            return Ok(it.memory()?.write_all_at(value, place)?);
        }
        if let Some(far) = it.far {
            let known = if it.holds_objects() { self.far_value(value)? } else { value.to_vec() };
            kernel.update(far, key, &known, flags)?;
            if !it.holds_objects() {
                return Ok(());
            }
        }
        let (is_there, entries) = (it.entries.get(key).is_some(), it.entries.len());
        match (flags & NOT_THERE != 0, flags & THERE != 0) {
            (true, _) if is_there => return Err(Errno(libc::EEXIST)),
            (_, true) if !is_there => return Err(Errno(libc::ENOENT)),
            _ if !is_there && entries >= it.map.max_entries as usize => return Err(Errno(libc::E2BIG)),
            _ => {}
        }
        self.map_mut(map).entries.set(key, value);
        Ok(())
    }
    /// # Errors
    /// As `BPF_MAP_DELETE_ELEM`.
    pub fn delete(&mut self, map: usize, key: &[u8], kernel: &mut dyn Kernel) -> Result<(), Errno> {
        let it = self.map(map);
        if it.is_array() {
            return Err(Errno(libc::EINVAL));
        }
        let holds_objects = it.holds_objects();
        if let Some(far) = it.far {
            kernel.delete(far, key)?;
            if !holds_objects {
                return Ok(());
            }
        }
        if self.map_mut(map).entries.remove(key) { Ok(()) } else { Err(Errno(libc::ENOENT)) }
    }
    /// # Errors
    /// As `BPF_MAP_GET_NEXT_KEY`.
    pub fn next(&self, map: usize, key: Option<&[u8]>, kernel: &mut dyn Kernel) -> Result<Vec<u8>, Errno> {
        let it = self.map(map);
        if it.is_indexed() {
            let most = it.map.max_entries;
            let after = key.map(index).transpose()?.filter(|at| *at < most).map_or(0, |at| at + 1);
            return if after < most { Ok(after.to_le_bytes().to_vec()) } else { Err(Errno(libc::ENOENT)) };
        }
        match it.far {
            Some(far) if !it.holds_objects() => kernel.next(far, key),
            _ => it.entries.after(key).map(<[u8]>::to_vec).ok_or(Errno(libc::ENOENT)),
        }
    }
    /// A map and sizes of its keys and values, for a command on many elements.
    fn batch(&self, asked: &Asked<'_>) -> Result<(usize, usize, usize), Errno> {
        let map = self.map_at(asked, 36)?;
        let it = self.map(map);
        if it.holds_objects() || matches!(it.map.kind, kind::STRUCT_OPS | kind::RINGBUF | kind::ARENA) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        Ok((map, it.map.key_bytes as usize, it.value_bytes(self.cpus)))
    }
    /// `BPF_MAP_LOOKUP_BATCH`, `BPF_MAP_LOOKUP_AND_DELETE_BATCH`. Where a batch ended is said by the number of elements
    /// before it (4 bytes, as a kernel's); of those that are taken away, none are.
    pub fn lookup_batch(&mut self, asked: &mut Asked<'_>, take: bool) -> Answer {
        let (map, key_bytes, value_bytes) = self.batch(asked)?;
        let skipped = if asked.u64(0) == 0 || take { 0 } else { asked.memory.u32(asked.u64(0))? };
        let wanted = asked.u32(32);
        let mut key = None;
        let (mut seen, mut given) = (0, 0);
        let ended = loop {
            let Ok(next) = self.next(map, key.as_deref(), asked.kernel) else { break true };
            if seen >= skipped {
                if given == wanted {
                    break false;
                }
                let value = self.lookup(map, &next, asked.kernel)?;
                asked.memory.write(asked.u64(16) + u64::from(given) * key_bytes as u64, &next)?;
                asked.memory.write(asked.u64(24) + u64::from(given) * value_bytes as u64, &value)?;
                given += 1;
            }
            seen += 1;
            if take {
                self.delete(map, &next, asked.kernel)?;
            } else {
                key = Some(next);
            }
        };
        asked.put(32, given)?;
        if asked.u64(8) != 0 {
            asked.memory.write(asked.u64(8), &(skipped + given).to_le_bytes())?;
        }
        if ended { Err(Errno(libc::ENOENT)) } else { DONE }
    }
    /// `BPF_MAP_UPDATE_BATCH`.
    pub fn update_batch(&mut self, asked: &mut Asked<'_>) -> Answer {
        let (map, key_bytes, value_bytes) = self.batch(asked)?;
        for i in 0..asked.u32(32) {
            let key = asked.memory.bytes(asked.u64(16) + u64::from(i) * key_bytes as u64, key_bytes)?;
            let value = asked.memory.bytes(asked.u64(24) + u64::from(i) * value_bytes as u64, value_bytes)?;
            let done = self.update(map, &key, &value, asked.u64(40), asked.kernel);
            done.or_else(|errno| asked.put(32, i).and(Err(errno)))?;
        }
        DONE
    }
    /// `BPF_MAP_DELETE_BATCH`.
    pub fn delete_batch(&mut self, asked: &mut Asked<'_>) -> Answer {
        let (map, key_bytes, _) = self.batch(asked)?;
        for i in 0..asked.u32(32) {
            let key = asked.memory.bytes(asked.u64(16) + u64::from(i) * key_bytes as u64, key_bytes)?;
            let done = self.delete(map, &key, asked.kernel);
            done.or_else(|errno| asked.put(32, i).and(Err(errno)))?;
        }
        DONE
    }
}

/// A key of an array, or an object in a value.
pub fn index(bytes: &[u8]) -> Result<u32, Errno> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno(libc::EINVAL))
}
