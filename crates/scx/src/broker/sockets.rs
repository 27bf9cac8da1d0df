//! Sockets between the program and its own tools, such as the one that scx programs give their statistics at: with
//! names in the file system for the program, and without any outside of it.

use super::errno::Errno;
use super::memory::Memory;
use super::notify::{Call, Reply};
use super::paths::{Refusal, Refused};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FAMILY_BYTES: usize = size_of::<libc::sa_family_t>();
const UNIX: [u8; FAMILY_BYTES] = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();

/// Of this machine's time.
const FULL_QUEUE_S: i64 = 1;

#[derive(Debug, Default)]
pub struct Sockets {
    /// Addresses that the system chose, by the name that the program knows.
    bound: BTreeMap<PathBuf, Vec<u8>>,
}

impl Sockets {
    /// bind(2) and connect(2) with this socket of the program.
    ///
    /// # Errors
    /// EACCES for a socket of another kind; ECONNREFUSED where the program itself has none.
    pub fn answer(&mut self, call: &Call, socket: &OwnedFd, refused: &mut Refused) -> Result<Reply, Errno> {
        let name = name(call)?;
        if call.number == libc::SYS_bind {
            refused.add(&name, Refusal::NoEffect);
            let done = with_address(&UNIX, |at, bytes| {
                // SAFETY: the address is as long as is said: the family alone, for which the system chooses the rest.
                unsafe { libc::bind(socket.as_raw_fd(), at, bytes) }
            });
            Errno::check(done.into())?;
            self.bound.insert(name, own_address(socket)?);
            return Ok(Reply::Value(0));
        }
        let Some(address) = self.bound.get(&name) else {
            refused.add(&name, Refusal::NotShown);
            return Err(Errno(libc::ECONNREFUSED));
        };
        // To a listener of the same program, which may let its queue be full: then it fails with EAGAIN after a while.
        limit(socket, FULL_QUEUE_S)?;
        let done = with_address(address, |at, bytes| {
            // SAFETY: the address is as long as is said.
            unsafe { libc::connect(socket.as_raw_fd(), at, bytes) }
        });
        let done = Errno::check(done.into()).map(Reply::Value);
        limit(socket, 0)?;
        done
    }
}

/// The name of a socket in the file system.
fn name(call: &Call) -> Result<PathBuf, Errno> {
    let size = (call.arguments[2] as usize).min(size_of::<libc::sockaddr_un>());
    let address = Memory { pid: call.thread }.bytes(call.arguments[1], size)?;
    let path = address.strip_prefix(&UNIX).ok_or(Errno(libc::EACCES))?;
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    Ok(Path::new(OsStr::from_bytes(&path[..end])).to_owned())
}

fn with_address(address: &[u8], call: impl Fn(*const libc::sockaddr, libc::socklen_t) -> i32) -> i32 {
    call(address.as_ptr().cast(), address.len() as libc::socklen_t)
}

/// How long sending and connecting may wait; 0: for ever, as the program, which can't change it, expects.
fn limit(socket: &OwnedFd, seconds: i64) -> Result<(), Errno> {
    let time = libc::timeval { tv_sec: seconds, tv_usec: 0 };
    let (at, bytes) = ((&raw const time).cast(), size_of::<libc::timeval>() as libc::socklen_t);
    // SAFETY: the struct is as long as is said.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, at, bytes) };
    Errno::check(done.into()).map(drop)
}

fn own_address(socket: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut address = vec![0; size_of::<libc::sockaddr_un>()];
    let mut bytes = address.len() as libc::socklen_t;
    // SAFETY: the buffer is as long as is said.
    let done = unsafe { libc::getsockname(socket.as_raw_fd(), address.as_mut_ptr().cast(), &mut bytes) };
    Errno::check(done.into())?;
    address.truncate(bytes as usize);
    Ok(address)
}
