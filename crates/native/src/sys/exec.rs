//! exec(2) that the caller survives: the kernel does everything that concerns the scheduler, then finds no program in
//! the file.
//!
//! Since 2.6 `sched_exec` runs after the file is opened and before its format is examined (`bprm_execve`, `do_execve`).
//! A file of unknown format ends the call with ENOEXEC; the caller's image, threads and files stay. The file begins
//! with printable letters, because for other beginnings the kernel asks modprobe.

use super::raw::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// memfd_create: the file may be executed (Linux 6.3).
const MFD_EXEC: libc::c_uint = 0x10;

/// An executable file in memory without a known format.
///
/// # Errors
/// Those of memfd_create(2) and write(2).
pub fn no_program() -> io::Result<OwnedFd> {
    // SAFETY: the name is a NUL-terminated literal.
    let make =
        |flags| check(unsafe { libc::memfd_create(c"no program".as_ptr(), libc::MFD_CLOEXEC | flags) });
    // Since 6.3 kernels require this flag for executable files; older ones do not know it.
    let fd = make(MFD_EXEC).or_else(|_| make(0))?;
    // SAFETY: a fresh descriptor, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    super::write(file.as_fd(), b"no program\n")?;
    Ok(file)
}

/// Executes the file of [`no_program`]. `Ok`: the kernel found no format, as intended.
///
/// # Errors
/// Any other failure of execveat(2); the caller continues then, too.
pub fn exec(file: &OwnedFd) -> io::Result<()> {
    let none: [*const libc::c_char; 1] = [ptr::null()];
    // SAFETY: the path is a valid string, both lists end in a null pointer, and the descriptor is open.
    unsafe {
        let (fd, path) = (file.as_raw_fd(), c"".as_ptr());
        libc::syscall(libc::SYS_execveat, fd, path, none.as_ptr(), none.as_ptr(), libc::AT_EMPTY_PATH);
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ENOEXEC) => Ok(()),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_survives_and_other_files_are_an_error() {
        let file = no_program().unwrap();
        exec(&file).unwrap();
        exec(&file).unwrap();
        let folder: OwnedFd = std::fs::File::open("/").unwrap().into();
        assert_eq!(exec(&folder).unwrap_err().raw_os_error(), Some(libc::EACCES));
    }
}
