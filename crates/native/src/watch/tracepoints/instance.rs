//! schedlab's own tracing instance: a folder in tracefs with its own buffers, clock and switches, invisible to other
//! tracing.
//!
//! It is the only thing that recording events may leave in the system: the kernel keeps it until it is removed. Its
//! name contains the process that made it ([`Owner`]). So the next schedlab, or `schedlab restore`, recognises an
//! instance of a dead process and removes it. Linux 3.10.

use super::layout::Layouts;
use super::layout::NAMES;
use super::ring::{RingItem, Source, TimedRecord};
use super::tracefs;
use crate::settings::owner::Owner;
use crate::sys;
use schedlab_import::binary::page::{Head, Part, read};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The folder of instances in messages, even if tracefs is accessed through another path.
pub const FOLDER: &str = "/sys/kernel/tracing/instances";
/// The name of a leftover instance as a setting.
pub const SETTING: &str = "tracing instance";
const OURS: &str = "schedlab-";
/// Number of instances that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);
/// Inode of the initial process id namespace (PROC_PID_INIT_INO, Linux 3.8).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether an instance may be made: only by root, and only in the namespace whose thread numbers tracepoints report. An
/// agent whose parent is process 1 (schedlab is the guest's init) makes none, because the costs of guests were counted
/// with perf (machines/icount.toml).
pub fn may_be_had() -> bool {
    sys::is_root()
        && std::os::unix::process::parent_id() != 1
        && threads_have_the_kernels_numbers()
        && folder().is_ok_and(|f| f.is_dir())
}

/// Whether this process has the kernel's thread numbers: only in the initial process id namespace.
pub fn threads_have_the_kernels_numbers() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|m| m.ino() == FIRST_NAMESPACE)
}

/// The folder of instances for this process.
fn folder() -> io::Result<PathBuf> {
    Ok(tracefs::root()?.join("instances"))
}

pub fn names() -> Vec<String> {
    let listed = folder().and_then(fs::read_dir).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// An instance. Dropping it removes it; its [`Pipe`]s must be dropped before.
pub struct Instance {
    folder: PathBuf,
    head: Head,
}

impl Instance {
    /// Makes an instance that records the scheduler's tracepoints, with a buffer of `bytes` per CPU.
    ///
    /// # Errors
    /// When the kernel refuses; no instance is left then.
    pub fn make(bytes: usize) -> io::Result<Instance> {
        clear_left();
        let me = Owner::of(std::process::id()).ok_or(io::ErrorKind::NotFound)?;
        // Several threads of one process may each have an instance.
        let nth = MADE.fetch_add(1, Relaxed);
        let folder = folder()?.join(format!("{OURS}{}-{}.{nth}", me.pid, me.started));
        let head = Head::parse(&header()?).map_err(|e| io::Error::other(e.message().to_owned()))?;
        fs::create_dir(&folder)?;
        let made = Instance { folder, head };
        made.write("trace_clock", "mono")?;
        made.write("buffer_size_kb", &(bytes >> 10).to_string())?;
        for name in NAMES {
            made.write(&format!("events/sched/{name}/enable"), "1")?;
        }
        Ok(made)
    }
    #[cfg(test)]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), text)
    }
    pub fn pipe(&self, cpu: u32) -> io::Result<Pipe> {
        let path = self.folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
        Ok(Pipe { cpu, file, head: self.head, page: vec![0; self.head.bytes] })
    }
}

/// The text of `events/header_page`. It must be read in one call: 6.18 never returns the rest in a second read.
fn header() -> io::Result<String> {
    let mut text = [0; 4096];
    let n = File::open(tracefs::root()?.join("events/header_page"))?.read(&mut text)?;
    Ok(String::from_utf8_lossy(&text[..n]).into_owned())
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If it can't be removed now, the next start finds it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// One CPU's records of an [`Instance`].
pub struct Pipe {
    cpu: u32,
    file: File,
    head: Head,
    page: Vec<u8>,
}

impl AsRawFd for Pipe {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Source for Pipe {
    fn empty(&mut self, layouts: &Layouts, give: &mut dyn FnMut(RingItem<'_>)) {
        let Pipe { cpu, file, head, page } = self;
        // EAGAIN means that no more data is available.
        while let Ok(n @ 1..) = file.read(page) {
            read(head, &page[..n], |part| match part {
                Part::Missed(n) => give(RingItem::Lost(n)),
                Part::Record(at_ns, raw) => {
                    if let Some(what) = layouts.read(raw) {
                        let thread = layouts.current(raw).unwrap_or(0);
                        give(RingItem::Record(TimedRecord { at_ns, cpu: *cpu, what }, thread, raw));
                    }
                }
            });
        }
    }
}

/// The process that made the instance with that name, if it is schedlab's.
fn maker(name: &str) -> Option<Owner> {
    let (pid, started) = name.strip_prefix(OURS)?.split_once('-')?;
    let started = started.split_once('.').map_or(started, |(started, _)| started);
    Some(Owner { pid: pid.parse().ok()?, started: started.parse().ok()? })
}

/// Those of the named instances whose processes are dead.
pub fn left(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| maker(name).is_some_and(|owner| Owner::of(owner.pid) != Some(owner)));
    names
}

/// The instance's path in messages.
pub fn shown(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Removes the instances of killed processes; returns each with the result.
pub fn clear_left() -> Vec<(PathBuf, io::Result<()>)> {
    let remove = |name: String| (shown(&name), folder().and_then(|f| fs::remove_dir(f.join(&name))));
    left(names()).into_iter().map(remove).collect()
}

/// Switches this process's instances off, and removes those without readers; for an exit without unwinding. The kernel
/// keeps an instance with open pipes; the next schedlab removes it.
pub fn stop_mine() {
    let (Some(me), Ok(folder)) = (Owner::of(std::process::id()), folder()) else { return };
    for name in names().iter().filter(|name| maker(name) == Some(me)) {
        let instance = folder.join(name);
        let _ = fs::write(instance.join("tracing_on"), "0");
        for event in NAMES {
            let _ = fs::write(instance.join(format!("events/sched/{event}/enable")), "0");
        }
        let _ = fs::remove_dir(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instances_of_schedlabs_that_are_gone_are_left_ones() {
        let me = Owner::of(std::process::id()).unwrap();
        let mine = format!("schedlab-{}-{}.0", me.pid, me.started);
        let before = format!("schedlab-{}-{}.3", me.pid, me.started + 1);
        let names = [mine.as_str(), &before, "schedlab-x-1", "schedlab-5", "others-1-2"].map(str::to_owned);
        assert_eq!(left(names.to_vec()), [before]);
    }
}
