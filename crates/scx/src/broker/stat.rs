//! Files of this machine and of the simulated one as stat(2) shows them, and the system calls at open files.

use super::errno::Errno;
use super::time::EPOCH_S;
use super::tree::{Node, Tree, size};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `struct open_how` of openat2(2).
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}
/// Links of /proc that lead to open files, to folders of processes and out of their roots are not followed.
const RESOLVE_NO_MAGICLINKS: u64 = 2;
const EMPTY: &std::ffi::CStr = c"";
/// The device of all files of the simulated machine, and their blocks.
const DEVICE: u64 = 21;
const BLOCK_BYTES: i64 = 4096;

fn owned(result: i64) -> Result<OwnedFd, Errno> {
    // SAFETY: just opened, and owned by nobody.
    Errno::check(result).map(|number| unsafe { OwnedFd::from_raw_fd(number as i32) })
}

/// Opens a place, without reading or writing there.
pub fn place(path: &Path, follow: bool) -> Result<OwnedFd, Errno> {
    let last = if follow { 0 } else { libc::O_NOFOLLOW };
    let how = OpenHow {
        flags: (libc::O_PATH | libc::O_CLOEXEC | last) as u64,
        mode: 0,
        resolve: RESOLVE_NO_MAGICLINKS,
    };
    let at = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: the path ends with a zero; the struct is as large as is said.
    owned(unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, at.as_ptr(), &raw const how, size_of::<OpenHow>())
    })
}

/// Opens what is open, once more, with these flags.
pub fn again(file: &OwnedFd, flags: i32) -> Result<OwnedFd, Errno> {
    let at = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: the path ends with a zero.
    owned(unsafe { libc::open(at.as_ptr(), flags | libc::O_CLOEXEC) }.into())
}

/// A file of this machine.
pub fn of_file(file: &OwnedFd) -> Result<libc::stat, Errno> {
    // SAFETY: the struct consists of integers.
    let mut got: libc::stat = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the path ends with a zero; the struct is the one that the call fills.
    let done = unsafe { libc::fstatat(file.as_raw_fd(), EMPTY.as_ptr(), &mut got, flags) };
    Errno::check(done.into())?;
    Ok(dated(got))
}

/// A file of the simulated machine, at this path.
pub fn of_node(tree: &Tree, path: &Path, node: &Node) -> libc::stat {
    // SAFETY: the struct consists of integers.
    let mut got: libc::stat = unsafe { std::mem::zeroed() };
    got.st_mode = match node {
        Node::Folder(_) => libc::S_IFDIR | 0o755,
        Node::File(_) => libc::S_IFREG | 0o644,
        Node::Link(_) => libc::S_IFLNK | 0o777,
    };
    got.st_dev = DEVICE;
    got.st_ino = tree.inode(path);
    got.st_nlink = if matches!(node, Node::Folder(_)) { 2 } else { 1 };
    got.st_size = size(node) as i64;
    got.st_blksize = BLOCK_BYTES as _;
    dated(got)
}

/// Owned by root, and written when the simulated date begins.
fn dated(mut got: libc::stat) -> libc::stat {
    (got.st_uid, got.st_gid) = (0, 0);
    (got.st_atime, got.st_mtime, got.st_ctime) = (EPOCH_S as i64, EPOCH_S as i64, EPOCH_S as i64);
    (got.st_atime_nsec, got.st_mtime_nsec, got.st_ctime_nsec) = (0, 0, 0);
    got
}

/// The same as statx(2) has it.
pub fn extended(got: &libc::stat) -> libc::statx {
    // SAFETY: the struct consists of integers.
    let mut made: libc::statx = unsafe { std::mem::zeroed() };
    made.stx_mask = libc::STATX_BASIC_STATS;
    made.stx_blksize = got.st_blksize as u32;
    made.stx_nlink = got.st_nlink as u32;
    made.stx_mode = got.st_mode as u16;
    made.stx_ino = got.st_ino;
    made.stx_size = got.st_size as u64;
    made.stx_blocks = got.st_blocks as u64;
    made.stx_dev_major = libc::major(got.st_dev);
    made.stx_dev_minor = libc::minor(got.st_dev);
    made.stx_rdev_major = libc::major(got.st_rdev);
    made.stx_rdev_minor = libc::minor(got.st_rdev);
    for time in [&mut made.stx_atime, &mut made.stx_mtime, &mut made.stx_ctime] {
        time.tv_sec = got.st_mtime;
    }
    made
}

/// Where a link leads that is open as a place.
pub fn link_of(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut text = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the path ends with a zero, and the buffer is as long as is said.
    let count =
        unsafe { libc::readlinkat(file.as_raw_fd(), EMPTY.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    text.truncate(Errno::check(count as i64)? as usize);
    Ok(text)
}

/// getdents64(2) of a folder of this machine.
pub fn list(folder: &File, most: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0u8; most];
    // SAFETY: the buffer is as long as is said.
    let count = unsafe { libc::syscall(libc::SYS_getdents64, folder.as_raw_fd(), bytes.as_mut_ptr(), most) };
    bytes.truncate(Errno::check(count)? as usize);
    Ok(bytes)
}

/// The bytes of a struct that the kernel or this file fills: plain integers, whose gaps are zeroed.
pub fn bytes_of<T>(filled: &T) -> &[u8] {
    // SAFETY: `filled` was zeroed and then written, so that each byte has a value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(filled).cast(), size_of::<T>()) }
}
