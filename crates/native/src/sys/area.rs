//! Private memory, on huge pages if the kernel provides them, fully mapped from the start.
//!
//! Mirrors mmap(2), and madvise(2) with MADV_HUGEPAGE (2.6.38, transparent huge pages).

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A huge page of x86 and of arm64 with small pages of 4 KB, bytes. Elsewhere it only aligns the area.
const HUGE: usize = 2 << 20;
const WORD: usize = size_of::<AtomicU64>();

/// An array of words, initially zero.
#[derive(Debug)]
pub struct Area {
    /// The mapping; it begins up to a huge page before the words.
    mapped: (NonNull<libc::c_void>, usize),
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the area holds atomics only, and the mapping lives as long as the value.
unsafe impl Send for Area {}
// SAFETY: as above; every access goes through atomics.
unsafe impl Sync for Area {}

impl Area {
    /// Maps `bytes` and writes to every page.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn map(bytes: usize) -> io::Result<Area> {
        let bytes = bytes.max(1).next_multiple_of(HUGE);
        let all = bytes.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), all, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = (at as usize).next_multiple_of(HUGE) - at as usize;
        // SAFETY: `skip` is less than HUGE, and the mapping is that much longer than the words.
        let words = unsafe { base.byte_add(skip) };
        // A kernel without huge pages refuses; pages are small then.
        // SAFETY: changes how pages of our own mapping are made, not their content.
        unsafe { libc::madvise(words.as_ptr(), bytes, libc::MADV_HUGEPAGE) };
        let area = Area { mapped: (base, all), words: words.cast(), count: bytes / WORD };
        area.get().iter().step_by(4096 / WORD).for_each(|word| word.store(0, Relaxed));
        Ok(area)
    }
    /// The words: at least as many bytes as requested.
    #[inline]
    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` aligned words, and zero bytes are valid atomics.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
    /// Share of the area on huge pages, per cent; `None` if /proc does not show it.
    pub fn huge_pct(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let own = self.mapped.0.as_ptr() as usize..self.mapped.0.as_ptr() as usize + self.mapped.1;
        let (mut within, mut kb) = (false, 0);
        for line in text.lines() {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            let start = range.and_then(|(from, _)| usize::from_str_radix(from, 16).ok());
            if let Some(start) = start {
                within = own.contains(&start);
            } else if let (true, Some(rest)) = (within, line.strip_prefix("AnonHugePages:")) {
                kb += rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?;
            }
        }
        // A mapping may have been merged with a neighbour that also has huge pages.
        Some((100 * kb * 1024 / (self.count * WORD) as u64).min(100))
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.mapped.0.as_ptr(), self.mapped.1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_aligned_and_large_enough() {
        let area = Area::map(3 << 20).unwrap();
        assert_eq!(area.words.as_ptr() as usize % HUGE, 0);
        assert_eq!(area.get().len() * WORD, 4 << 20, "whole huge pages");
        area.get().last().unwrap().store(7, Relaxed);
        assert_eq!(area.get().last().unwrap().load(Relaxed), 7);
        assert!(area.huge_pct().is_none_or(|pct| pct <= 100));
    }
}
