//! Lines of a file, one after the other, in a buffer of fixed size.

use std::io::{self, Read};
use std::ops::Range;

/// Size of the buffer; a longer line is not a record and is skipped.
const BUFFER: usize = 1 << 20;

pub struct Lines<R> {
    from: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The place of the last line returned.
    given: Range<usize>,
    /// Whether the rest of a line that is too long is being skipped.
    skipping: bool,
    /// Number of the last line returned, from 1.
    pub number: u64,
    /// Whether the last line returned had no newline.
    pub cut: bool,
}

impl<R: Read> Lines<R> {
    pub fn new(from: R) -> Lines<R> {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Lines { from, buffer, start: 0, end: 0, given: 0..0, skipping: false, number: 0, cut: false }
    }

    /// The next line, without its newline; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file can't be read.
    #[inline]
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let held = &self.buffer[self.start..self.end];
            match memchr::memchr(b'\n', held) {
                Some(length) => {
                    let from = self.start;
                    self.start += length + 1;
                    self.number += 1;
                    if std::mem::take(&mut self.skipping) {
                        continue;
                    }
                    let line = &self.buffer[from..from + length];
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    self.given = from..from + line.len();
                    return Ok(Some(line));
                }
                None if self.fill()? => {}
                None if self.start == self.end => return Ok(None),
                None => {
                    self.given = self.start..self.end;
                    self.start = self.end;
                    self.number += 1;
                    self.cut = true;
                    return Ok((!self.skipping).then_some(self.last()));
                }
            }
        }
    }

    #[inline]
    pub fn last(&self) -> &[u8] {
        &self.buffer[self.given.clone()]
    }

    /// Reads on; false at the end of the file.
    #[cold]
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.end = 0;
            self.skipping = true;
        }
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.end += n;
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}
