//! Finds tracefs: its usual mounts, else schedlab's own invisible mount. All show the same tracefs.

use super::layout::{Layouts, NAMES};
use crate::sys;
use schedlab_base::{Error, Result};
use schedlab_import::binary::fields::Tracepoints;
use schedlab_import::binary::format::Format;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The usual mounts of tracefs: since 4.1, and before.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Tracefs for this process.
struct Root {
    path: PathBuf,
    /// The own mount, which must stay open while its paths are used.
    _own: Option<OwnedFd>,
}

static ROOT: OnceLock<Root> = OnceLock::new();

/// The folder of tracefs. schedlab's own mount lasts as long as this process.
///
/// # Errors
/// As [`sys::detached_tracefs`], if tracefs is not mounted.
pub fn root() -> io::Result<&'static Path> {
    if let Some(known) = ROOT.get() {
        return Ok(&known.path);
    }
    let found = match MOUNTS.iter().map(Path::new).find(|m| m.join("events/sched/sched_switch/id").is_file())
    {
        Some(mounted) => Root { path: mounted.to_owned(), _own: None },
        None => detached_root()?,
    };
    Ok(&ROOT.get_or_init(|| found).path)
}

fn detached_root() -> io::Result<Root> {
    let mount = sys::detached_tracefs()?;
    Ok(Root { path: PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())), _own: Some(mount) })
}

/// # Errors
/// When tracefs can't be read, with the reason and a remedy.
pub fn layouts() -> Result<Layouts> {
    layouts_in(root().map_err(|e| unreadable(&e))?)
}

/// The same layouts for the reader of recordings.
pub fn tracepoints() -> Result<Tracepoints> {
    Tracepoints::of(&formats_in(root().map_err(|e| unreadable(&e))?)?)
}

fn layouts_in(tracefs: &Path) -> Result<Layouts> {
    let formats: [Format; NAMES.len()] =
        formats_in(tracefs)?.try_into().map_err(|_| Error::internal("one format for each tracepoint"))?;
    Layouts::of(&formats)
}

fn formats_in(tracefs: &Path) -> Result<Vec<Format>> {
    let folder = tracefs.join("events/sched");
    let one = |name: &str| {
        let file = folder.join(name).join("format");
        let text = std::fs::read_to_string(&file).map_err(|e| no_tracepoint(name, &e))?;
        Format::parse(name, &text)
    };
    NAMES.iter().map(|n| one(n)).collect()
}

fn unreadable(e: &io::Error) -> Error {
    let (why, help) = match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (
            "this user may not read tracefs".to_owned(),
            "run as root, or have root mount it and let you read it: mount -t tracefs -o gid=$(id -g) none \
             /sys/kernel/tracing",
        ),
        Some(libc::ENODEV) => (
            "this kernel has no tracefs".to_owned(),
            "it takes a kernel built with CONFIG_FTRACE and CONFIG_EVENT_TRACING",
        ),
        Some(libc::ENOSYS) => {
            ("tracefs is not mounted".to_owned(), "mount -t tracefs none /sys/kernel/tracing (as root)")
        }
        _ => (format!("tracefs can't be read: {e}"), "mount -t tracefs none /sys/kernel/tracing (as root)"),
    };
    Error::machine(why).help(help)
}

fn no_tracepoint(name: &str, e: &io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::machine(format!("this kernel has no tracepoint {name}"))
            .help("it takes a kernel built with CONFIG_EVENT_TRACING"),
        _ => {
            Error::machine(format!("the format of tracepoint {name} can't be read: {e}")).help("run as root")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;

    #[test]
    fn a_mount_of_our_own_is_the_tracefs_that_others_see() {
        let (Ok(here), Ok(first), Ok(second)) = (root(), detached_root(), detached_root()) else {
            return skipped("root and tracefs");
        };
        let name = format!("instances/test-{}", std::process::id());
        std::fs::create_dir(first.path.join(&name)).unwrap();
        let seen = [here, &second.path].map(|root| root.join(&name).join("trace_clock").is_file());
        std::fs::remove_dir(second.path.join(&name)).unwrap();
        assert_eq!(seen, [true, true]);
        assert!(!first.path.join(&name).exists());
    }
}
