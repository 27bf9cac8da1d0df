//! System calls that name a file: each is done here, at the place where the path leads, and its result handed in.

use super::errno::Errno;
use super::memory::{Memory, memory};
use super::notify::{Call, Reply};
use super::paths::{Paths, Place, Refusal, Refused, is_scratch};
use std::ffi::{CString, OsStr};
use std::io::{Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a call is answered. Numbers are places of its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Folder (none: the current one), path, flags.
    Open(Option<usize>, usize, usize),
    /// openat2(2): the flags are in a struct.
    OpenHow,
    /// Folder, path, mode.
    Access(Option<usize>, usize, usize),
    /// Folder, path, result, flags: all, or the ones that the name of the call means.
    Stat(Option<usize>, usize, usize, Flags),
    Statx,
    /// Folder, path, buffer, size.
    ReadLink(Option<usize>, usize, usize, usize),
    /// Wants to change what is at the path.
    Change(Option<usize>, usize),
    /// The file system at a path: never one that the program needs.
    FileSystem,
}

#[derive(Clone, Copy, Debug)]
pub enum Flags {
    At(usize),
    Are(i32),
}

const AT: Option<usize> = Some(0);

/// Calls of every architecture.
const TABLE: &[(i64, Kind)] = &[
    (libc::SYS_openat, Kind::Open(AT, 1, 2)),
    (libc::SYS_openat2, Kind::OpenHow),
    (libc::SYS_faccessat, Kind::Access(AT, 1, 2)),
    (libc::SYS_faccessat2, Kind::Access(AT, 1, 2)),
    (libc::SYS_newfstatat, Kind::Stat(AT, 1, 2, Flags::At(3))),
    (libc::SYS_statx, Kind::Statx),
    (libc::SYS_readlinkat, Kind::ReadLink(AT, 1, 2, 3)),
    (libc::SYS_statfs, Kind::FileSystem),
    (libc::SYS_mkdirat, Kind::Change(AT, 1)),
    (libc::SYS_unlinkat, Kind::Change(AT, 1)),
    (libc::SYS_renameat, Kind::Change(AT, 1)),
    (libc::SYS_renameat2, Kind::Change(AT, 1)),
    (libc::SYS_linkat, Kind::Change(Some(2), 3)),
    (libc::SYS_symlinkat, Kind::Change(Some(1), 2)),
    (libc::SYS_mknodat, Kind::Change(AT, 1)),
    (libc::SYS_fchmodat, Kind::Change(AT, 1)),
    (libc::SYS_fchownat, Kind::Change(AT, 1)),
    (libc::SYS_utimensat, Kind::Change(AT, 1)),
    (libc::SYS_truncate, Kind::Change(None, 0)),
];

#[cfg(target_arch = "x86_64")]
const OLDER: &[(i64, Kind)] = &[
    (libc::SYS_open, Kind::Open(None, 0, 1)),
    (libc::SYS_creat, Kind::Change(None, 0)),
    (libc::SYS_access, Kind::Access(None, 0, 1)),
    (libc::SYS_stat, Kind::Stat(None, 0, 1, Flags::Are(0))),
    (libc::SYS_lstat, Kind::Stat(None, 0, 1, Flags::Are(libc::AT_SYMLINK_NOFOLLOW))),
    (libc::SYS_readlink, Kind::ReadLink(None, 0, 1, 2)),
    (libc::SYS_mkdir, Kind::Change(None, 0)),
    (libc::SYS_rmdir, Kind::Change(None, 0)),
    (libc::SYS_unlink, Kind::Change(None, 0)),
    (libc::SYS_rename, Kind::Change(None, 0)),
    (libc::SYS_link, Kind::Change(None, 1)),
    (libc::SYS_symlink, Kind::Change(None, 1)),
    (libc::SYS_mknod, Kind::Change(None, 0)),
    (libc::SYS_chmod, Kind::Change(None, 0)),
    (libc::SYS_chown, Kind::Change(None, 0)),
    (libc::SYS_lchown, Kind::Change(None, 0)),
    (libc::SYS_utimes, Kind::Change(None, 0)),
    (libc::SYS_utime, Kind::Change(None, 0)),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(i64, Kind)] = &[];

/// How this system call names a file, if it does.
pub fn kind(number: i64) -> Option<Kind> {
    TABLE.iter().chain(OLDER).find(|(n, _)| *n == number).map(|(_, kind)| *kind)
}

pub struct Files<'a> {
    pub paths: &'a Paths,
    pub refused: &'a mut Refused,
}

/// A named file that the program is shown.
struct Named {
    path: PathBuf,
    place: Place,
}

impl Files<'_> {
    /// # Errors
    /// What the call fails with.
    pub fn answer(&mut self, call: &Call, kind: Kind) -> Result<Reply, Errno> {
        match kind {
            Kind::Open(folder, path, flags) => self.open(call, folder, path, call.arguments[flags] as i32),
            Kind::OpenHow => {
                let how = Memory { pid: call.thread }.u64(call.arguments[2])?;
                self.open(call, AT, 1, how as i32)
            }
            Kind::Access(folder, path, mode) => self.access(call, folder, path, call.arguments[mode] as i32),
            Kind::Stat(folder, path, result, Flags::At(at)) => {
                self.stat(call, folder, path, result, call.arguments[at] as i32)
            }
            Kind::Stat(folder, path, result, Flags::Are(flags)) => {
                self.stat(call, folder, path, result, flags)
            }
            Kind::Statx => self.statx(call),
            Kind::ReadLink(folder, path, buffer, size) => self.read_link(call, folder, path, [buffer, size]),
            Kind::Change(folder, path) => {
                let named = self.named(call, folder, path)?;
                let is_scratch = is_scratch(&named);
                self.refused.add(&named, if is_scratch { Refusal::NoEffect } else { Refusal::Write });
                if is_scratch { Ok(Reply::Value(0)) } else { Err(Errno(libc::EACCES)) }
            }
            Kind::FileSystem => {
                let named = self.named(call, None, 0)?;
                self.refused.add(&named, Refusal::NotShown);
                Err(Errno(libc::ENOENT))
            }
        }
    }
    fn named(&self, call: &Call, folder: Option<usize>, path: usize) -> Result<PathBuf, Errno> {
        let raw = Memory { pid: call.thread }.text(call.arguments[path])?;
        let folder = folder.map_or(libc::AT_FDCWD, |at| call.arguments[at] as i32);
        let raw = Path::new(OsStr::from_bytes(&raw));
        if raw.as_os_str().is_empty() {
            return Err(Errno(libc::ENOENT));
        }
        self.paths.named(call.thread, folder, raw).ok_or(Errno(libc::EBADF))
    }
    fn shown(&mut self, call: &Call, folder: Option<usize>, path: usize) -> Result<Named, Errno> {
        let path = self.named(call, folder, path)?;
        match self.paths.place(&path) {
            Some(place) => Ok(Named { path, place }),
            None => {
                self.refused.add(&path, Refusal::NotShown);
                Err(Errno(libc::ENOENT))
            }
        }
    }
    /// What the call at the place gave. That a file is not there is written down if it would be the machine's.
    fn done(&mut self, named: &Named, result: i64) -> Result<i64, Errno> {
        Errno::check(result).inspect_err(|errno| {
            if *errno == Errno(libc::ENOENT) && named.place.path.starts_with(&self.paths.tree) {
                self.refused.add(&named.path, Refusal::Absent);
            }
        })
    }
    fn refuse_write(&mut self, named: &Named) -> Errno {
        self.refused.add(&named.path, Refusal::Write);
        Errno(libc::EACCES)
    }
    fn open(&mut self, call: &Call, folder: Option<usize>, path: usize, flags: i32) -> Result<Reply, Errno> {
        let named = self.shown(call, folder, path)?;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY
            || flags & (libc::O_CREAT | libc::O_TRUNC) != 0
            || flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        if writes && !named.place.writable {
            return self.scratch(&named).map(|file| Reply::File { file, at: None, close_on_exec });
        }
        let kept = libc::O_ACCMODE | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_PATH;
        // Not to block here: a named pipe would wait for its other end.
        let flags_here = flags & kept | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        let at = text(&named.place.path)?;
        // SAFETY: the path ends with a zero.
        let number = self.done(&named, unsafe { libc::open(at.as_ptr(), flags_here) }.into())?;
        // SAFETY: just opened, and owned by nobody.
        let file = unsafe { OwnedFd::from_raw_fd(number as i32) };
        Ok(Reply::File { file, at: None, close_on_exec })
    }
    /// For writing to a file of the simulated machine: a copy that nobody else sees.
    fn scratch(&mut self, named: &Named) -> Result<OwnedFd, Errno> {
        if !named.place.path.starts_with(&self.paths.tree) || !named.place.path.is_file() {
            return Err(self.refuse_write(named));
        }
        self.refused.add(&named.path, Refusal::NoEffect);
        let mut file = memory("scratch", 0)?;
        file.write_all(&std::fs::read(&named.place.path)?)?;
        file.rewind()?;
        Ok(file.into())
    }
    fn access(&mut self, call: &Call, folder: Option<usize>, path: usize, mode: i32) -> Result<Reply, Errno> {
        let named = self.shown(call, folder, path)?;
        if mode & libc::W_OK != 0 && !named.place.writable && !named.place.path.starts_with(&self.paths.tree)
        {
            return Err(self.refuse_write(&named));
        }
        let at = text(&named.place.path)?;
        // SAFETY: the path ends with a zero.
        self.done(&named, unsafe { libc::access(at.as_ptr(), mode) }.into()).map(Reply::Value)
    }
    fn stat(
        &mut self,
        call: &Call,
        folder: Option<usize>,
        path: usize,
        result: usize,
        flags: i32,
    ) -> Result<Reply, Errno> {
        if asks_of_file(call, path, flags)? {
            return Ok(Reply::Continue);
        }
        let named = self.shown(call, folder, path)?;
        let at = text(&named.place.path)?;
        let flags = flags & libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the struct consists of integers.
        let mut got: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends with a zero; the struct is the one that the call fills.
        self.done(&named, unsafe { libc::fstatat(libc::AT_FDCWD, at.as_ptr(), &mut got, flags) }.into())?;
        Memory { pid: call.thread }.write(call.arguments[result], bytes_of(&got)).map(|()| Reply::Value(0))
    }
    fn statx(&mut self, call: &Call) -> Result<Reply, Errno> {
        let (flags, mask) = (call.arguments[2] as i32, call.arguments[3] as u32);
        if asks_of_file(call, 1, flags)? {
            return Ok(Reply::Continue);
        }
        let named = self.shown(call, AT, 1)?;
        let at = text(&named.place.path)?;
        let flags = flags & libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the struct consists of integers.
        let mut got: libc::statx = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends with a zero; the struct is the one that the call fills.
        let result = unsafe { libc::statx(libc::AT_FDCWD, at.as_ptr(), flags, mask, &mut got) };
        self.done(&named, result.into())?;
        Memory { pid: call.thread }.write(call.arguments[4], bytes_of(&got)).map(|()| Reply::Value(0))
    }
    fn read_link(
        &mut self,
        call: &Call,
        folder: Option<usize>,
        path: usize,
        [buffer, size]: [usize; 2],
    ) -> Result<Reply, Errno> {
        let named = self.shown(call, folder, path)?;
        let link = std::fs::read_link(&named.place.path)?;
        let link = link.as_os_str().as_bytes();
        let link = &link[..link.len().min(call.arguments[size] as usize)];
        Memory { pid: call.thread }.write(call.arguments[buffer], link)?;
        Ok(Reply::Value(link.len() as i64))
    }
}

/// Whether the call is about an open file: it has no path, or an empty one.
fn asks_of_file(call: &Call, path: usize, flags: i32) -> Result<bool, Errno> {
    let at = call.arguments[path];
    Ok(flags & libc::AT_EMPTY_PATH != 0 && (at == 0 || Memory { pid: call.thread }.bytes(at, 1)? == [0]))
}

fn text(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))
}

/// The bytes of a struct that the kernel fills: plain integers, whose gaps are zeroed.
fn bytes_of<T>(filled: &T) -> &[u8] {
    // SAFETY: `filled` was zeroed and then written by the kernel, so that each byte has a value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(filled).cast(), size_of::<T>()) }
}
