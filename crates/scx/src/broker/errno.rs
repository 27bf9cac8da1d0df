//! Errors as system calls give them: a number of errno.

use std::io;

/// A number of errno, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// What the last system call of this thread left.
    pub fn last() -> Errno {
        io::Error::last_os_error().into()
    }
    /// The result of a system call that gives -1 when it fails.
    pub fn check(result: i64) -> Result<i64, Errno> {
        if result < 0 { Err(Errno::last()) } else { Ok(result) }
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}
