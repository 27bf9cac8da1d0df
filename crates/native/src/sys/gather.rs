//! Waits for many descriptors as one (epoll(7)).

use super::raw::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most descriptors that one call of [`Gathered::wait`] returns.
const BATCH: usize = 64;

/// A descriptor that is readable while one of its added descriptors is.
#[derive(Debug)]
pub struct Gathered(OwnedFd);

impl Gathered {
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
        self.add_as(other, 0)
    }
    /// Adds a descriptor with a number, which [`Gathered::wait`] returns.
    pub fn add_as(&self, other: &(impl AsRawFd + ?Sized), number: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number.into() };
        let (all, one) = (self.0.as_raw_fd(), other.as_raw_fd());
        // SAFETY: both descriptors are open through the call; `event` is a live epoll_event that is only read.
        check(unsafe { libc::epoll_ctl(all, libc::EPOLL_CTL_ADD, one, &mut event) }).map(drop)
    }
    /// Sleeps until a descriptor is readable; calls `each` with the numbers of readable ones, at most [`BATCH`].
    ///
    /// # Errors
    /// EINTR when a signal came.
    pub fn wait(&self, mut each: impl FnMut(u32)) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        // SAFETY: `events` has BATCH entries, which the kernel fills from the first on.
        let found = check(unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), BATCH as libc::c_int, -1)
        })?;
        events.iter().take(found as usize).for_each(|event| each(event.u64 as u32));
        Ok(())
    }
    /// The descriptor to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
