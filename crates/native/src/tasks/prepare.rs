//! A task's preparation before the start: it maps memory that it will use, so that the measured time has its work and
//! not its beginning.
//!
//! A forked process begins with few mapped pages: each page of code, of the shared arena and of memory written since
//! the fork has a page fault at its first use (`do_fault`, `do_wp_page`). In a guest of 6.1 these were 45 page faults,
//! which took longer than 60 messages. Mirrors madvise(2) with MADV_POPULATE_READ and MADV_POPULATE_WRITE, Linux 5.14;
//! on older kernels a process has its page faults during the run. Threads lack only their stack, which is written to.

use crate::sys;
use std::hint::black_box;
use std::ops::Range;

/// Bytes of a task's stack that are mapped below its first frame; programs are small state machines.
const STACK_BYTES: usize = 8 << 10;
/// The part of a file that one page fault maps (`fault_around_bytes`). So mapping one page of each part is enough;
/// mapping every page costs the kernel 3.9 million instructions per process in a guest.
const FAULT_AROUND: usize = 64 << 10;
/// The largest writable part of the executable or a library that each process copies.
const MOST_WRITABLE: usize = 256 << 10;

/// The parts of its creator's memory that a new process will use.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    read: Vec<Range<usize>>,
    written: Vec<Range<usize>>,
}

impl Inherited {
    /// The parts of this process's memory.
    pub fn here() -> Inherited {
        Inherited::of(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    /// Reads the text of /proc/PID/maps: the parts of files, and nameless parts. Heap and stack are skipped, because a
    /// task uses little of them.
    fn of(maps: &str) -> Inherited {
        let mut all = Inherited::default();
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let (Some(range), Some(rights)) = (words.next().and_then(range), words.next()) else { continue };
            let name = words.nth(3).unwrap_or_default();
            let of_file = name.starts_with('/') && !name.starts_with("/dev/") && !name.starts_with("/memfd:");
            match rights {
                "r-xp" | "r--p" if of_file => all.read.push(range),
                "rw-p" if (of_file || name.is_empty()) && range.len() <= MOST_WRITABLE => {
                    all.written.push(range);
                }
                _ => {}
            }
        }
        all
    }

    pub fn map(&self) {
        for range in &self.read {
            let stretches = (range.start & !(FAULT_AROUND - 1)..range.end).step_by(FAULT_AROUND);
            stretches.map(|at| at.max(range.start)).for_each(|at| sys::populate(at..at + 1, false));
        }
        self.written.iter().for_each(|range| sys::populate(range.clone(), true));
    }
}

fn range(word: &str) -> Option<Range<usize>> {
    let (from, to) = word.split_once('-')?;
    Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
}

/// Maps the memory of a value for writing.
pub fn map_value<T: ?Sized>(value: &T) {
    let from = std::ptr::from_ref(value).cast::<u8>() as usize;
    sys::populate(from..from + size_of_val(value), true);
}

/// Writes to the stack below the caller's frame.
#[inline(never)]
pub fn touch_stack() {
    black_box(&mut [0u8; STACK_BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_parts_next_to_them_are_mapped_but_not_heap_stack_and_large_parts() {
        let maps = "\
00400000-00500000 r-xp 00000000 fe:00 12 /bin/a program\n\
00500000-00510000 rw-p 00100000 fe:00 12 /bin/a program\n\
00600000-00700000 rw-p 00000000 00:00 0 [heap]\n\
00800000-00801000 rw-p 00000000 00:00 0 \n\
00900000-00a00000 rw-p 00000000 00:00 0 \n\
7f000000-7f001000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n\
7ffe0000-7fff0000 rw-p 00000000 00:00 0 [stack]\n\
7fff8000-7fffa000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        let all = Inherited::of(maps);
        assert_eq!((all.read.len(), &all.read[0]), (1, &(0x400000..0x500000)));
        assert_eq!(all.written, [0x500000..0x510000, 0x800000..0x801000]);
        assert!(!Inherited::here().read.is_empty());
    }
}
