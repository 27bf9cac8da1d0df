//! A task's own memory, for programs that touch it. A move to another cache must refill it.
//!
//! It is allocated and touched before the start if all tasks together need little ([`SMALL_KB`]); otherwise at its
//! first use, so that thousands of tasks that never use theirs have none.

use schedlab_base::{Error, Result};
use std::hint::black_box;

#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u64; 8]);

const LINES_PER_KB: usize = 1024 / size_of::<Line>();
/// Number of lines touched between two checks of the phase: a few microseconds.
const STRETCH: usize = 64 * LINES_PER_KB;

/// The most memory of all tasks together for which each allocates its own before the start.
pub const SMALL_KB: u64 = 64 << 10;

pub struct Footprint {
    kb: u32,
    lines: Vec<Line>,
}

impl Footprint {
    /// Memory of `kb` KB, not allocated yet.
    pub fn of(kb: u32) -> Footprint {
        Footprint { kb, lines: Vec::new() }
    }

    /// Reads and changes each line of the first `kb` KB, `rounds` times; false if it stopped because the run is `over`.
    ///
    /// # Errors
    /// When the task's footprint is smaller, or memory is not available.
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

    /// Allocates the memory, unless done before.
    ///
    /// # Errors
    /// When memory is not available.
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
        // Writing it leaves no page fault for the rounds.
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
