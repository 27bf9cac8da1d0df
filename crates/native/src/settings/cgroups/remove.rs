//! Removes a control group that schedlab made.
//!
//! The kernel removes only groups without tasks. Tasks of a killed run are exiting; a task that remains is moved to the
//! parent group.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Prefix of the names of schedlab's groups. The process id and its start time follow.
pub const OURS: &str = "schedlab-";
/// Time for a group's last task to leave.
const WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Whether a folder's name belongs to a group that schedlab made, or to one below it.
pub fn is_ours(folder: &Path) -> bool {
    folder.components().any(|part| part.as_os_str().to_string_lossy().starts_with(OURS))
}

/// Removes a group; a missing one is not an error.
///
/// # Errors
/// When it is not schedlab's, or the kernel refuses.
pub fn remove(folder: &Path) -> io::Result<()> {
    if !is_ours(folder) {
        return Err(io::Error::other("it is not a group of schedlab's"));
    }
    let until = Instant::now() + WITHIN;
    loop {
        match fs::remove_dir(folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                move_out(folder);
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Moves a group's tasks to the parent group. A task that has ended needs no move.
fn move_out(folder: &Path) {
    let Some(above) = folder.parent() else { return };
    for list in ["cgroup.threads", "tasks"] {
        let there = fs::read_to_string(folder.join(list)).unwrap_or_default();
        there.lines().for_each(|thread| drop(fs::write(above.join(list), thread)));
    }
}
