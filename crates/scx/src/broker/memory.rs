//! The memory of the program, to which its system calls point, and files without a name that are shared with it.

use super::errno::Errno;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};

/// Memory of one thread's process. The thread waits in a system call while it is read.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub pid: i32,
}

/// A path is at most this long, with its zero.
const PATH_MAX: usize = libc::PATH_MAX as usize;
const PAGE: u64 = 4096;
/// The largest piece that a call may ask for: a program, its BTF, or a value.
const MOST_BYTES: usize = 256 << 20;

impl Memory {
    /// # Errors
    /// EFAULT when not all of it can be read.
    pub fn read(self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let far = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: `local` is exactly `bytes`, which is ours to write; `far` is an address of another process.
        let got = unsafe { libc::process_vm_readv(self.pid, &local, 1, &far, 1, 0) };
        if Errno::check(got as i64)? == bytes.len() as i64 { Ok(()) } else { Err(Errno(libc::EFAULT)) }
    }
    /// # Errors
    /// EFAULT when not all of it can be written.
    pub fn write(self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let local = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
        let far = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: `local` is exactly `bytes`, which is only read; `far` is an address of another process.
        let got = unsafe { libc::process_vm_writev(self.pid, &local, 1, &far, 1, 0) };
        if Errno::check(got as i64)? == bytes.len() as i64 { Ok(()) } else { Err(Errno(libc::EFAULT)) }
    }
    /// # Errors
    /// As [`Memory::read`]; E2BIG when it is larger than any call needs.
    pub fn bytes(self, address: u64, count: usize) -> Result<Vec<u8>, Errno> {
        if count > MOST_BYTES {
            return Err(Errno(libc::E2BIG));
        }
        let mut bytes = vec![0; count];
        if count > 0 {
            self.read(address, &mut bytes)?;
        }
        Ok(bytes)
    }
    /// # Errors
    /// As [`Memory::read`].
    pub fn u32(self, address: u64) -> Result<u32, Errno> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
    /// # Errors
    /// As [`Memory::read`].
    pub fn u64(self, address: u64) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
    /// A text that ends with a zero. It is read up to the end of each page, because the next one may not be there.
    ///
    /// # Errors
    /// As [`Memory::read`]; ENAMETOOLONG when no zero comes.
    pub fn text(self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::new();
        while text.len() < PATH_MAX {
            let at = address + text.len() as u64;
            let piece = self.bytes(at, (PAGE - at % PAGE) as usize)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&piece[..end]);
                return Ok(text);
            }
            text.extend(piece);
        }
        Err(Errno(libc::ENAMETOOLONG))
    }
}

/// A new anonymous file of this size, all zeros.
pub fn memory(name: &str, bytes: u64) -> Result<File, Errno> {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: the name ends with a zero.
    let number = Errno::check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) }.into())?;
    // SAFETY: just made, and owned by nobody.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(number as i32) });
    file.set_len(bytes)?;
    Ok(file)
}
