//! Rings in epoll sets: a program waits for a ring's map, which here is plain memory, that no epoll takes. In its place
//! stands a bell, an eventfd of this process: it can be read as long as the ring has entries that nobody has read.

use super::super::errno::Errno;
use super::super::memory::Memory;
use super::super::notify::{Call, Reply};
use super::super::process::Process;
use super::object::{MapObject, Object, kind};
use super::{Answer, Bpf};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Where a ring's reader and its writer are, in its memory.
const READER: u64 = 0;
const WRITER: u64 = 4096;

fn bell() -> Result<File, Errno> {
    // SAFETY: takes integers only.
    let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    Errno::check(number.into())?;
    // SAFETY: just made, and owned by nobody.
    Ok(unsafe { OwnedFd::from_raw_fd(number) }.into())
}

impl MapObject {
    fn is_ring(&self) -> bool {
        matches!(self.map.kind, kind::RINGBUF | kind::USER_RINGBUF)
    }
    /// Whether there are entries for the program to read.
    fn has_entries(&self) -> bool {
        let position = |at: u64| {
            let mut bytes = [0; 8];
            let file = self.file.as_ref().filter(|_| self.map.kind == kind::RINGBUF)?;
            file.read_exact_at(&mut bytes, at).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        position(READER) != position(WRITER)
    }
}

impl Bpf {
    /// epoll_ctl(2): of a ring its bell is meant.
    ///
    /// # Errors
    /// What the call fails with.
    pub fn epoll_control(&mut self, call: &Call, process: &Process) -> Answer {
        let [set, operation, number, event, ..] = call.arguments;
        let ring = self.at(call, number as u32).ok().filter(|at| match &self.objects[*at] {
            Object::Map(map) => map.is_ring(),
            _ => false,
        });
        let Some(ring) = ring else { return Ok(Reply::Continue) };
        if self.map(ring).bell.is_none() {
            self.map_mut(ring).bell = Some(bell()?);
        }
        let set = process.file(set as i32).ok_or(Errno(libc::EBADF))?;
        // SAFETY: the struct consists of integers.
        let mut given: libc::epoll_event = unsafe { std::mem::zeroed() };
        if event != 0 {
            let mut bytes = [0; size_of::<libc::epoll_event>()];
            Memory { pid: call.thread }.read(event, &mut bytes)?;
            // SAFETY: the bytes are those of such a struct, which consists of integers.
            given = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        }
        let bell = self.map(ring).bell.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: both are open files, and the event lives through the call.
        let done = unsafe { libc::epoll_ctl(set.as_raw_fd(), operation as i32, bell, &raw mut given) };
        Errno::check(done.into())?;
        self.ring();
        Ok(Reply::Value(0))
    }
    /// Rings the bells of rings with entries, and stops the others.
    pub fn ring(&self) {
        for object in &self.objects {
            let Object::Map(map) = object else { continue };
            let Some(mut bell) = map.bell.as_ref() else { continue };
            // Neither waits: the number that it keeps is 0 or 1.
            let _ = bell.read(&mut [0; 8]);
            if map.has_entries() {
                let _ = bell.write(&1u64.to_ne_bytes());
            }
        }
    }
}
