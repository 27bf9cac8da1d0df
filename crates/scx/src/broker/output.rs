//! What the program prints: both streams, each up to a limit.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A program that prints without end does not fill the memory.
const MOST_BYTES: usize = 1 << 20;

/// More than a pipe holds.
const MOST_PIECES: usize = 64;

/// One stream of the program.
pub struct Stream<T> {
    pipe: Option<T>,
    pub text: Vec<u8>,
    /// Bytes that came after the limit.
    pub dropped: u64,
}

impl<T: Read + AsFd> Stream<T> {
    pub fn new(pipe: Option<T>) -> Stream<T> {
        if let Some(pipe) = &pipe {
            // SAFETY: sets a flag of an open file.
            unsafe { libc::fcntl(pipe.as_fd().as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Stream { pipe, text: Vec::new(), dropped: 0 }
    }
    /// The pipe, while the program may still write.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }
    /// Takes what is there, but not without end. Whether there was something.
    pub fn take(&mut self) -> bool {
        let mut some = false;
        let mut piece = [0; 4096];
        for _ in 0..MOST_PIECES {
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut piece) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    some = true;
                    let kept = count.min(MOST_BYTES - self.text.len());
                    self.text.extend_from_slice(&piece[..kept]);
                    self.dropped += (count - kept) as u64;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.pipe = None,
            }
        }
        some
    }
}
