//! A task's own memory, for programs that go over it. A move to another cache must refill it.
//!
//! It is made and touched before the start if the memory of all tasks together is small ([`SMALL_KB`]); otherwise at
//! its first use, so that thousands of tasks that never use theirs have none.

use schedlab_base::{Error, Result};
use std::hint::black_box;

/// A cache line.
#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u64; 8]);

const LINES_PER_KB: usize = 1024 / size_of::<Line>();
/// The lines touched between two looks at the phase: a few microseconds.
const STRETCH: usize = 64 * LINES_PER_KB;

/// The most memory of all tasks together for which each makes its own before the start.
pub const SMALL_KB: u64 = 64 << 10;

/// A task's memory.
pub struct Footprint {
    kb: u32,
    lines: Vec<Line>,
}

impl Footprint {
    /// Memory of `kb` KB, not made yet.
    pub fn of(kb: u32) -> Footprint {
        Footprint { kb, lines: Vec::new() }
    }

    /// Reads and changes each line of the first `kb` KB, `rounds` times; false when it ended because the run is `over`.
    ///
    /// # Errors
    /// When the task's footprint is smaller, or the machine has no memory for it.
    pub fn touch(&mut self, kb: u32, rounds: u32, over: impl Fn() -> bool) -> Result<bool> {
        if kb > self.kb {
            let text = format!("the program goes over {kb} KB of a footprint of {} KB", self.kb);
            return Err(Error::internal(text));
        }
        if kb > 0 {
            self.make()?;
        }
        let lines = &mut self.lines[..kb as usize * LINES_PER_KB];
        for _ in 0..rounds {
            for stretch in lines.chunks_mut(STRETCH) {
                // The compiler must not merge several rounds into one.
                for line in black_box(stretch) {
                    line.0[0] = line.0[0].wrapping_add(1);
                }
                if over() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Makes the memory if it is not made yet.
    ///
    /// # Errors
    /// When there is no memory for it.
    #[inline]
    pub fn make(&mut self) -> Result<()> {
        if self.lines.is_empty() { self.make_lines() } else { Ok(()) }
    }

    #[cold]
    fn make_lines(&mut self) -> Result<()> {
        let lines = self.kb as usize * LINES_PER_KB;
        self.lines.try_reserve_exact(lines).map_err(|e| {
            Error::machine(format!("no memory for a footprint of {} KB: {e}", self.kb))
                .help("use a smaller footprint or fewer tasks")
        })?;
        // Write it, so that no page fault is left for the rounds.
        self.lines.resize(lines, Line([0; 8]));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_changed_once_a_round() {
        let mut f = Footprint::of(200);
        assert!(f.touch(130, 3, || false).unwrap());
        assert_eq!(f.lines.len() * size_of::<Line>(), 200 * 1024);
        let changed: Vec<u64> = f.lines.iter().map(|l| l.0[0]).collect();
        let (touched, rest) = changed.split_at(130 * 16);
        assert!(touched.iter().all(|n| *n == 3) && rest.iter().all(|n| *n == 0));
    }

    #[test]
    fn it_ends_with_the_run_and_not_beyond_the_footprint() {
        let mut f = Footprint::of(256);
        assert!(!f.touch(256, u32::MAX, || true).unwrap());
        assert_eq!(f.lines.iter().map(|l| l.0[0]).sum::<u64>(), STRETCH as u64);
        let e = f.touch(257, 1, || false).unwrap_err();
        assert!(e.to_string().contains("257 KB of a footprint of 256 KB"), "{e}");
        assert!(Footprint::of(0).touch(0, 5, || false).unwrap());
    }
}
