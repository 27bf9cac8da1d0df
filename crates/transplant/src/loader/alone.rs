//! Loading in a static executable: by our loader ([`super::elf`]), and with the unwinder of Rust's standard library.

use super::elf::{Loaded, load};
use super::{DEPTH, refused};
use schedlab_base::{Error, Result};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// The one object of this process.
#[derive(Clone, Copy)]
pub(crate) struct Handle(());

impl Handle {
    pub(crate) fn open(path: &Path) -> Result<Handle> {
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", &e))?;
        let loaded = load(&bytes).map_err(|why| refused(path, &why))?;
        let frames = loaded.frames.map(|frames| loaded.base + frames);
        LOADED.set(loaded).map_err(|_| Error::internal("a process loads one image"))?;
        frames.into_iter().for_each(add);
        Ok(Handle(()))
    }
    pub(crate) fn symbol(self, name: &str) -> Result<*mut c_void> {
        let offset = LOADED.get().and_then(|loaded| Some(loaded.base + loaded.symbols.get(name)?));
        let offset = offset.ok_or_else(|| Error::internal(format!("the image has no {name}")))?;
        Ok(offset as *mut c_void)
    }
}

/// The first byte of the object that holds an address.
pub(crate) fn base_of(address: *const c_void) -> Option<usize> {
    let held = LOADED.get().filter(|held| (held.base..held.base + held.bytes).contains(&(address as usize)));
    held.map(|held| held.base)
}

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> c_int, with: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn __unw_add_dynamic_eh_frame_section(section: usize);
}

/// The unwinder knows an object by its section `.eh_frame`, which ends with a zero.
fn add(section: usize) {
    // SAFETY: the section is in memory, for good.
    unsafe { __unw_add_dynamic_eh_frame_section(section) };
}

/// Room for addresses, and how many it has.
struct Calls<'a>(&'a mut [*mut c_void], usize);

extern "C" fn step(context: *mut c_void, calls: *mut c_void) -> c_int {
    // SAFETY: the unwinder hands on the `Calls` that `backtrace` lends it, and a context of its own.
    let (calls, at) = unsafe { (&mut *calls.cast::<Calls<'_>>(), _Unwind_GetIP(context)) };
    let Some(place) = calls.0.get_mut(calls.1) else { return 5 };
    *place = at as *mut c_void;
    calls.1 += 1;
    0
}

/// As glibc's backtrace(3): writes the calls, innermost first, and says how many.
pub(super) extern "C" fn backtrace(to: *mut *mut c_void, most: c_int) -> c_int {
    // SAFETY: the caller has room for as many.
    let room = unsafe { std::slice::from_raw_parts_mut(to, most.max(0) as usize) };
    let mut calls = Calls(room, 0);
    // SAFETY: `calls` lives through the call.
    unsafe { _Unwind_Backtrace(step, (&raw mut calls).cast()) };
    calls.1 as c_int
}

pub(crate) fn followed() -> Vec<usize> {
    let mut at = [std::ptr::null_mut(); DEPTH];
    let count = backtrace(at.as_mut_ptr(), DEPTH as c_int);
    at[..count as usize].iter().map(|at| *at as usize).collect()
}
