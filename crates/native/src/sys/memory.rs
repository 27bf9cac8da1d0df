//! Memory shared by a run's threads or processes: an anonymous mapping of cache lines, made before them.
//!
//! Mirrors mmap(2) with MAP_SHARED and MAP_POPULATE as of Linux 3.14 and later, and madvise(2) as of 5.14.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Maps the pages of a range as if each had been read, or `written`; content does not change. If this fails or is not
/// supported, pages are mapped at their first use.
pub fn populate(range: Range<usize>, written: bool) {
    const PAGE: usize = 4096;
    const POPULATE_READ: libc::c_int = 22;
    const POPULATE_WRITE: libc::c_int = 23;
    let (from, to) = (range.start & !(PAGE - 1), range.end.next_multiple_of(PAGE));
    let advice = if written { POPULATE_WRITE } else { POPULATE_READ };
    // SAFETY: makes page-table entries only; no memory of this process changes, whatever the range is.
    unsafe { libc::madvise(from as *mut libc::c_void, to.saturating_sub(from), advice) };
}

/// One cache line of the arena, so that words of different tasks never share one. Initially zero.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Line {
    pub word: AtomicU32,
    pub slot: AtomicU64,
}

/// Anonymous memory shared with children (MAP_SHARED), populated in advance: tasks have no page faults in it.
#[derive(Debug)]
pub struct Lines {
    base: NonNull<Line>,
    count: usize,
}

// SAFETY: lines hold atomics only, and the mapping lives as long as the value.
unsafe impl Send for Lines {}
// SAFETY: as above; every access goes through atomics.
unsafe impl Sync for Lines {}

impl Lines {
    /// Maps `count` lines of zeroes.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn map(count: usize) -> io::Result<Lines> {
        let count = count.max(1);
        let bytes = count.checked_mul(size_of::<Line>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Lines { base, count })
    }
    #[inline]
    pub fn get(&self) -> &[Line] {
        // SAFETY: the mapping is `count` lines long, page-aligned, and zero bytes are valid atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl Lines {
    /// Maps the pages in the calling process: a forked process shares the memory, but has no pages mapped.
    pub fn map_here(&self) {
        let from = self.base.as_ptr() as usize;
        populate(from..from + self.count * size_of::<Line>(), true);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * size_of::<Line>()) };
    }
}
