//! System calls that name a file: each is done here, at the place where the path leads, and its result handed in.
//!
//! No path is given back to this machine's kernel: a program could change it between a look and the call. A file of
//! this machine is opened without magic links, and what was reached must be shown, too: only then it is read or handed
//! in. Times and owners of all files are the same on each machine.

use super::errno::Errno;
use super::memory::{Memory, memory};
use super::notify::{Call, Reply};
use super::paths::{Paths, Place, Refusal, Refused, is_scratch, opened};
use super::process::Process;
use super::stat;
use super::tree::{Node, Tree, records, whole_records};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
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
    /// Of an open file: result.
    StatOpen(usize),
    Statx,
    /// Folder, path, buffer, size.
    ReadLink(Option<usize>, usize, usize, usize),
    /// What is in an open folder.
    List,
    /// Wants to hear of changes at the path, of which there are none.
    Watch(usize),
    /// Wants to change what is at the path.
    Change(Option<usize>, usize),
    /// Wants what no program gets, with the path in the record.
    Never(Option<usize>, usize, Refusal),
}

#[derive(Clone, Copy, Debug)]
pub enum Flags {
    At(usize),
    /// Of older calls, which other architectures lack.
    #[cfg(target_arch = "x86_64")]
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
    (libc::SYS_fstat, Kind::StatOpen(1)),
    (libc::SYS_statx, Kind::Statx),
    (libc::SYS_readlinkat, Kind::ReadLink(AT, 1, 2, 3)),
    (libc::SYS_getdents64, Kind::List),
    (libc::SYS_inotify_add_watch, Kind::Watch(1)),
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
    (libc::SYS_statfs, Kind::Never(None, 0, Refusal::NotShown)),
    (libc::SYS_chdir, Kind::Never(None, 0, Refusal::NotShown)),
    (libc::SYS_execve, Kind::Never(None, 0, Refusal::Execute)),
    (libc::SYS_execveat, Kind::Never(AT, 1, Refusal::Execute)),
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
    pub tree: &'a Tree,
    pub paths: &'a Paths,
    pub process: &'a Process,
    pub refused: &'a mut Refused,
}

/// A named file that the program is shown.
struct Named {
    path: PathBuf,
    place: Place,
}

/// What is there.
enum Reached<'t> {
    Node(&'t Node),
    /// Open as a place only (`O_PATH`).
    File(OwnedFd),
}

/// The folder of a call, and its path.
type PathAt = (Option<usize>, usize);

impl<'a> Files<'a> {
    /// # Errors
    /// What the call fails with.
    pub fn answer(&mut self, call: &Call, kind: Kind) -> Result<Reply, Errno> {
        let memory = Memory { pid: call.thread };
        match kind {
            Kind::Open(folder, path, flags) => self.open(call, (folder, path), call.arguments[flags] as i32),
            Kind::OpenHow => self.open(call, (AT, 1), memory.u64(call.arguments[2])? as i32),
            Kind::Access(folder, path, mode) => {
                self.access(call, (folder, path), call.arguments[mode] as i32)
            }
            Kind::Stat(folder, path, result, flags) => {
                let flags = match flags {
                    Flags::At(at) => call.arguments[at] as i32,
                    #[cfg(target_arch = "x86_64")]
                    Flags::Are(flags) => flags,
                };
                let got = self.stat(call, (folder, path), flags)?;
                memory.write(call.arguments[result], stat::bytes_of(&got)).map(|()| Reply::Value(0))
            }
            Kind::StatOpen(result) => {
                let got = self.stat_open(call)?;
                memory.write(call.arguments[result], stat::bytes_of(&got)).map(|()| Reply::Value(0))
            }
            Kind::Statx => {
                let got = stat::extended(&self.stat(call, (AT, 1), call.arguments[2] as i32)?);
                memory.write(call.arguments[4], stat::bytes_of(&got)).map(|()| Reply::Value(0))
            }
            Kind::ReadLink(folder, path, buffer, size) => {
                let link = self.read_link(call, (folder, path))?;
                let link = &link[..link.len().min(call.arguments[size] as usize)];
                memory.write(call.arguments[buffer], link)?;
                Ok(Reply::Value(link.len() as i64))
            }
            Kind::List => self.list(call),
            Kind::Watch(path) => {
                let named = self.shown(call, (None, path))?;
                self.reach(&named, true)?;
                // A number above 0, the same for the same path.
                Ok(Reply::Value((self.tree.inode(&named.path) >> 33 | 1) as i64))
            }
            Kind::Change(folder, path) => {
                let named = self.named(call, (folder, path))?;
                let is_scratch = is_scratch(&named);
                self.refused.add(&named, if is_scratch { Refusal::NoEffect } else { Refusal::Write });
                if is_scratch { Ok(Reply::Value(0)) } else { Err(Errno(libc::EACCES)) }
            }
            Kind::Never(folder, path, why) => {
                // Without a path: what is open as the folder.
                let open = folder.and_then(|at| opened(call.thread, call.arguments[at] as i32));
                let named = self.named(call, (folder, path)).or_else(|errno| open.ok_or(errno))?;
                self.refused.add(&named, why);
                Err(Errno(if why == Refusal::Execute { libc::EACCES } else { libc::ENOENT }))
            }
        }
    }
    fn named(&self, call: &Call, (folder, path): PathAt) -> Result<PathBuf, Errno> {
        let raw = Memory { pid: call.thread }.text(call.arguments[path])?;
        let folder = folder.map_or(libc::AT_FDCWD, |at| call.arguments[at] as i32);
        let raw = Path::new(OsStr::from_bytes(&raw));
        if raw.as_os_str().is_empty() {
            return Err(Errno(libc::ENOENT));
        }
        self.paths.named(call.thread, folder, raw).ok_or(Errno(libc::EBADF))
    }
    fn shown(&mut self, call: &Call, at: PathAt) -> Result<Named, Errno> {
        let path = self.named(call, at)?;
        match self.paths.place(&path) {
            Some(place) => Ok(Named { path, place }),
            None => Err(self.refuse(&path, Refusal::NotShown, libc::ENOENT)),
        }
    }
    fn refuse(&mut self, path: &Path, why: Refusal, errno: i32) -> Errno {
        self.refused.add(path, why);
        Errno(errno)
    }
    /// What is at the place. That the simulated machine has no such file is written down.
    fn reach(&mut self, named: &Named, follow: bool) -> Result<Reached<'a>, Errno> {
        let path = match &named.place {
            Place::Machine => {
                let tree: &'a Tree = self.tree;
                let node = tree.find(&named.path, follow);
                return node
                    .map(Reached::Node)
                    .ok_or_else(|| self.refuse(&named.path, Refusal::Absent, libc::ENOENT));
            }
            Place::Here(path, _) | Place::Own(path) => path,
        };
        let file = stat::place(path, follow)?;
        let reached = std::fs::read_link(by_number(&file))?;
        if self.paths.shows(&named.place, &reached) {
            Ok(Reached::File(file))
        } else {
            Err(self.refuse(&reached, Refusal::NotShown, libc::ENOENT))
        }
    }
    fn open(&mut self, call: &Call, at: PathAt, flags: i32) -> Result<Reply, Errno> {
        let named = self.shown(call, at)?;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY
            || flags & (libc::O_CREAT | libc::O_TRUNC) != 0
            || flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        if writes && !matches!(named.place, Place::Machine | Place::Here(_, true)) {
            return Err(self.refuse(&named.path, Refusal::Write, libc::EACCES));
        }
        let found = self.reach(&named, flags & libc::O_NOFOLLOW == 0);
        if writes && matches!(named.place, Place::Machine) {
            let is_file = matches!(found, Ok(Reached::Node(Node::File(_))));
            let (why, errno) = if is_file { (Refusal::NoEffect, 0) } else { (Refusal::Write, libc::EACCES) };
            let errno = self.refuse(&named.path, why, errno);
            if !is_file {
                return Err(errno);
            }
        }
        let file = match found? {
            Reached::Node(node) => handed(self.tree, (&named.path, node), flags, writes)?,
            Reached::File(file) if flags & libc::O_PATH != 0 => file,
            Reached::File(file) => {
                let kept = flags & (libc::O_ACCMODE | libc::O_DIRECTORY);
                // Not to block here: a named pipe would wait for its other end.
                stat::again(&file, kept | libc::O_NOCTTY | libc::O_NONBLOCK)?
            }
        };
        Ok(Reply::File { file, at: None, close_on_exec })
    }
    fn access(&mut self, call: &Call, at: PathAt, mode: i32) -> Result<Reply, Errno> {
        let named = self.shown(call, at)?;
        if mode & libc::W_OK != 0 && !matches!(named.place, Place::Machine | Place::Here(_, true)) {
            return Err(self.refuse(&named.path, Refusal::Write, libc::EACCES));
        }
        match self.reach(&named, true)? {
            Reached::Node(Node::File(_)) if mode & libc::X_OK != 0 => Err(Errno(libc::EACCES)),
            Reached::Node(_) => Ok(Reply::Value(0)),
            Reached::File(file) => {
                let at = CString::new(by_number(&file)).map_err(|_| Errno(libc::EINVAL))?;
                // SAFETY: the path ends with a zero.
                Errno::check(unsafe { libc::access(at.as_ptr(), mode) }.into()).map(Reply::Value)
            }
        }
    }
    fn stat(&mut self, call: &Call, at: PathAt, flags: i32) -> Result<libc::stat, Errno> {
        let place = call.arguments[at.1];
        let of_file = flags & libc::AT_EMPTY_PATH != 0;
        if of_file && (place == 0 || Memory { pid: call.thread }.bytes(place, 1)? == [0]) {
            return self.stat_open(call);
        }
        let named = self.shown(call, at)?;
        match self.reach(&named, flags & libc::AT_SYMLINK_NOFOLLOW == 0)? {
            Reached::Node(node) => Ok(stat::of_node(self.tree, &named.path, node)),
            Reached::File(file) => stat::of_file(&file),
        }
    }
    /// Of the open file that the first argument says.
    fn stat_open(&self, call: &Call) -> Result<libc::stat, Errno> {
        let number = call.arguments[0] as i32;
        let file = self.process.file(number).ok_or(Errno(libc::EBADF))?;
        let path = opened(call.thread, number).unwrap_or_default();
        let node =
            matches!(self.paths.place(&path), Some(Place::Machine)).then(|| self.tree.find(&path, true));
        node.flatten().map_or_else(|| stat::of_file(&file), |node| Ok(stat::of_node(self.tree, &path, node)))
    }
    fn read_link(&mut self, call: &Call, at: PathAt) -> Result<Vec<u8>, Errno> {
        let mut named = self.shown(call, at)?;
        if named.path == Path::new("/proc/self/exe") {
            return Ok(self.paths.program.as_os_str().as_bytes().to_vec());
        }
        if let Place::Own(path) = &mut named.place {
            // What it names is not looked at.
            return Ok(std::fs::read_link(&*path)?.into_os_string().into_encoded_bytes());
        }
        match self.reach(&named, false)? {
            Reached::Node(Node::Link(to)) => Ok(to.clone().into_bytes()),
            Reached::Node(_) => Err(Errno(libc::EINVAL)),
            Reached::File(file) => stat::link_of(&file),
        }
    }
    /// getdents64(2): the position is the file's, which both sides share.
    fn list(&mut self, call: &Call) -> Result<Reply, Errno> {
        let [number, buffer, most, ..] = call.arguments;
        let file = File::from(self.process.file(number as i32).ok_or(Errno(libc::EBADF))?);
        let path = opened(call.thread, number as i32).unwrap_or_default();
        let is_folder = matches!(self.paths.place(&path), Some(Place::Machine))
            && matches!(self.tree.find(&path, true), Some(Node::Folder(_)));
        let bytes = if is_folder {
            let at = (&file).stream_position()?;
            let mut rest = vec![0; (file.metadata()?.len().saturating_sub(at) as usize).min(MOST_LISTED)];
            file.read_exact_at(&mut rest, at)?;
            rest.truncate(whole_records(&rest, most as usize).len());
            (&file).seek_relative(rest.len() as i64)?;
            rest
        } else {
            stat::list(&file, (most as usize).min(MOST_LISTED))?
        };
        Memory { pid: call.thread }.write(buffer, &bytes)?;
        Ok(Reply::Value(bytes.len() as i64))
    }
}

/// Bytes of a folder at once.
const MOST_LISTED: usize = 1 << 16;

/// A file of the simulated machine, in memory, as the program gets it: a copy that nobody else sees.
fn handed(tree: &Tree, (path, node): (&Path, &Node), flags: i32, writes: bool) -> Result<OwnedFd, Errno> {
    let bytes = match node {
        Node::Link(_) => return Err(Errno(libc::ELOOP)),
        Node::File(_) if flags & libc::O_DIRECTORY != 0 => return Err(Errno(libc::ENOTDIR)),
        Node::File(_) if flags & libc::O_TRUNC != 0 => Vec::new(),
        Node::File(bytes) => bytes.clone(),
        Node::Folder(inside) => records(tree, path, inside),
    };
    let mut file = memory(&path.to_string_lossy(), 0)?;
    file.write_all(&bytes)?;
    file.rewind()?;
    if writes { Ok(file.into()) } else { stat::again(&file.into(), libc::O_RDONLY) }
}

fn by_number(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
