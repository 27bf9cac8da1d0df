//! Where the formats of tracepoints are read: where tracefs is mounted, else from a mount of its own that nobody sees.

use super::format::Format;
use super::layout::{Layouts, NAMES};
use crate::sys;
use schedlab_base::{Error, Result};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Where tracefs is usually mounted: since 4.1, and before.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// This kernel's layouts.
///
/// # Errors
/// When tracefs can't be read: why, and what would help.
pub fn layouts() -> Result<Layouts> {
    let mounted = MOUNTS.iter().map(Path::new).find(|m| m.join("events/sched/sched_switch/id").is_file());
    if let Some(mounted) = mounted
        && let Ok(found) = layouts_in(mounted)
    {
        return Ok(found);
    }
    let own = sys::detached_tracefs().map_err(|e| unreadable(&e))?;
    // Its files have no path but this one.
    layouts_in(Path::new(&format!("/proc/self/fd/{}", own.as_raw_fd())))
}

fn layouts_in(tracefs: &Path) -> Result<Layouts> {
    let folder = tracefs.join("events/sched");
    let one = |name: &str| {
        let file = folder.join(name).join("format");
        let text = std::fs::read_to_string(&file).map_err(|e| no_tracepoint(name, &e))?;
        Format::parse(name, &text)
    };
    let formats = NAMES.iter().map(|n| one(n)).collect::<Result<Vec<_>>>()?;
    let formats: [Format; NAMES.len()] =
        formats.try_into().map_err(|_| Error::internal("one format for each tracepoint"))?;
    Layouts::of(&formats)
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
