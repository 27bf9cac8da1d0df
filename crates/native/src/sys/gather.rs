//! Waits for many descriptors as one (epoll(7)).

use super::raw::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A descriptor that is readable while one of those added to it is.
#[derive(Debug)]
pub struct Gathered(OwnedFd);

impl Gathered {
    /// A descriptor that gathers none yet.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn new() -> io::Result<Gathered> {
        // SAFETY: takes an integer only.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a fresh descriptor, owned by nobody else.
        Ok(Gathered(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    /// Adds a descriptor; closing it removes it.
    ///
    /// # Errors
    /// ENOSPC at the limit of watches.
    pub fn add(&self, other: &(impl AsRawFd + ?Sized)) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (all, one) = (self.0.as_raw_fd(), other.as_raw_fd());
        // SAFETY: both descriptors are open through the call; `event` is a live epoll_event that is only read.
        check(unsafe { libc::epoll_ctl(all, libc::EPOLL_CTL_ADD, one, &mut event) }).map(drop)
    }
    /// The descriptor to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
