//! Maps of a scheduler in the image, as user space asks for their elements: in the form of bpf(2).

use crate::ext::Loaded;
use crate::ext_abi::{RawField, special};
use crate::load::checked;
use schedlab_scx::{Map, Special};
use std::ffi::{c_int, c_ulong, c_void};

/// A map's keys and values, as user space gives and gets them.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub key_bytes: usize,
    value_bytes: usize,
    /// A value for each CPU, each rounded up to 8 bytes.
    is_by_cpu: bool,
    /// Its keys are tasks or groups.
    pub is_storage: bool,
}

impl Shape {
    pub fn of(map: &Map) -> Shape {
        let is_of_maps = matches!(map.kind, 12 | 13);
        Shape {
            key_bytes: map.key_bytes as usize,
            value_bytes: if is_of_maps { 4 } else { map.value_bytes as usize },
            is_by_cpu: matches!(map.kind, 5 | 6 | 10),
            is_storage: matches!(map.kind, 28 | 29 | 32),
        }
    }
    /// Bytes of a key's values.
    pub fn bytes(self, cpus: usize) -> usize {
        if self.is_by_cpu { self.value_bytes.next_multiple_of(8) * cpus } else { self.value_bytes }
    }
}

/// The fields of a map's values that are not copied, for good. Those that a value has no room for, or that lie over
/// others, are of no map that a kernel takes.
pub(crate) fn fields(map: &Map) -> &'static [RawField] {
    let mut end = 0;
    let one = |field: &schedlab_scx::Field| {
        let fits = field.at >= end && field.at.checked_add(field.bytes)? <= map.value_bytes;
        end = if fits { field.at + field.bytes } else { end };
        let special = match field.special {
            Special::SpinLock | Special::Other => special::KEPT,
            Special::Timer => special::TIMER,
            Special::Kptr => special::KPTR,
            Special::Mask => special::KPTR_MASK,
            Special::Own => special::KPTR_OWN,
            Special::Head => special::HEAD,
        };
        fits.then_some(RawField { at: field.at, bytes: field.bytes, special })
    };
    map.special.iter().filter_map(one).collect::<Vec<_>>().leak()
}

impl Loaded {
    /// Whether user space reads a ring.
    pub(crate) fn has_rings(&self) -> bool {
        !self.rings.is_empty()
    }
    /// Whether a ring has called its reader since the last look.
    pub(crate) fn takes_calls(&mut self) -> bool {
        let mut any = false;
        for (map, before) in &mut self.rings {
            // SAFETY: the number is that of a map which the image has made.
            let now = unsafe { (self.functions.img_bpf_rung)(*map) };
            any |= now != std::mem::replace(before, now);
        }
        any
    }
    /// Entries that programs have put into each ring, by its name.
    pub(crate) fn sent(&self) -> Vec<(String, u64)> {
        // SAFETY: the number is that of a map which the image has made.
        let of =
            |(map, name): &(c_int, String)| (name.clone(), unsafe { (self.functions.img_bpf_sent)(*map) });
        self.sinks.iter().map(of).collect()
    }
    /// Memory of the image whose cache lines are charged, for a map that user space sees, too. NULL: none is charged.
    pub(crate) fn room(&self, bytes: usize) -> *mut c_void {
        // SAFETY: the call takes any number.
        unsafe { (self.functions.img_bpf_room)(bytes as c_ulong) }
    }
    /// The shape of a map that user space may ask about, with a key of its size.
    fn shape(&self, map: usize, key: Option<&[u8]>) -> std::result::Result<Shape, i32> {
        let shape = self.shapes.get(map).copied().ok_or(libc::EBADF)?;
        // Keys of storage are tasks and groups by their descriptors, which nobody has here.
        let fits = key.is_none_or(|key| key.len() == shape.key_bytes);
        if shape.is_storage || shape.key_bytes == 0 { Err(libc::EOPNOTSUPP) } else { Ok(shape) }
            .and_then(|shape| if fits { Ok(shape) } else { Err(libc::EINVAL) })
    }
    /// A key's values: of a map by CPU, those of `cpus` CPUs.
    pub(crate) fn lookup(&self, map: usize, key: &[u8], cpus: usize) -> std::result::Result<Vec<u8>, i32> {
        let shape = self.shape(map, Some(key))?;
        let mut value = vec![0; shape.bytes(cpus).next_multiple_of(8)];
        let to = value.as_mut_ptr().cast();
        // SAFETY: the key has the map's size, and the value room for what a key has.
        checked(unsafe { (self.functions.img_bpf_lookup)(map as c_int, key.as_ptr().cast(), to) })?;
        value.truncate(shape.bytes(cpus));
        Ok(value)
    }
    pub(crate) fn update(
        &self,
        map: usize,
        (key, value): (&[u8], &[u8]),
        flags: u64,
        cpus: usize,
    ) -> std::result::Result<(), i32> {
        let shape = self.shape(map, Some(key))?;
        if value.len() < shape.bytes(cpus) {
            return Err(libc::EINVAL);
        }
        let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the key has the map's size, and the value as much as a key has.
        checked(unsafe { (self.functions.img_bpf_update)(map as c_int, key, value, flags) }).map(drop)
    }
    pub(crate) fn delete(&self, map: usize, key: &[u8]) -> std::result::Result<(), i32> {
        self.shape(map, Some(key))?;
        // SAFETY: the key has the map's size.
        checked(unsafe { (self.functions.img_bpf_delete)(map as c_int, key.as_ptr().cast()) }).map(drop)
    }
    pub(crate) fn next(&self, map: usize, key: Option<&[u8]>) -> std::result::Result<Vec<u8>, i32> {
        let mut next = vec![0; self.shape(map, key)?.key_bytes];
        let (from, to) = (key.map_or(std::ptr::null(), |key| key.as_ptr().cast()), next.as_mut_ptr().cast());
        // SAFETY: both keys have the map's size.
        checked(unsafe { (self.functions.img_bpf_next)(map as c_int, from, to) })?;
        Ok(next)
    }
}
