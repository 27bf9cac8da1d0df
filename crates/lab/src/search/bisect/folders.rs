//! Folders of commits: built by the user's command, and removed.

use schedlab_base::wrap::last_lines;
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_kernels::parent::{end_group, end_with_parent};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks at a build.
const LOOK: Duration = Duration::from_millis(20);
/// The variable that keeps git from looking for a repository in these folders and above them.
pub const CEILING: &str = "GIT_CEILING_DIRECTORIES";

/// The folder at which git's look for a repository ends: a commit's folder has none, and the cache may be in one.
pub fn ceiling(folder: &Path) -> String {
    let above = folder.parent().unwrap_or(folder);
    above.canonicalize().unwrap_or_else(|_| above.to_owned()).to_string_lossy().into_owned()
}

/// Builds a folder of files by a command for the shell. What the command writes is in a file beside the folder.
///
/// # Errors
/// Of the input, with the last lines that the command wrote, if it fails; the interruption, after its processes ended.
pub fn run_build(build: &str, folder: &Path, stop: &AtomicBool) -> Result<()> {
    let log = folder.with_extension("log");
    let file = File::create(&log).map_err(|e| Error::io(&log, "write", &e))?;
    let both = file.try_clone().map_err(|e| Error::io(&log, "write", &e))?;
    let mut command = Command::new("sh");
    command.args(["-c", build]).current_dir(folder).env(CEILING, ceiling(folder));
    command.stdin(Stdio::null()).stdout(file).stderr(both).process_group(0);
    end_with_parent(&mut command);
    let failed = |e| Error::machine(format!("can't run sh: {e}"));
    let mut child = command.spawn().map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            end_group(&mut child);
            return Err(Error::new(ErrorKind::CheckFailed, "interrupted while a commit was built")
                .help("the same command uses the builds that are complete"));
        }
        std::thread::sleep(LOOK);
    };
    if status.success() {
        return Ok(());
    }
    Err(Error::input(format!("the build failed ({status}){}", last_built(folder))))
}

/// The last lines that a folder's build wrote, each in a line of its own behind other words.
pub fn last_built(folder: &Path) -> String {
    let text = fs::read(folder.with_extension("log")).unwrap_or_default();
    match last_lines(&String::from_utf8_lossy(&text)) {
        lines if lines.is_empty() => " and wrote nothing".to_owned(),
        lines => format!(":\n  {lines}"),
    }
}

/// Removes a commit's folder with the files beside it, and first of all the note that it is built.
///
/// # Errors
/// Of the machine, when the folder can't be removed.
pub fn remove(folder: &Path) -> Result<()> {
    for file in ["done", "index", "log"].map(|kind| folder.with_extension(kind)) {
        let _ = fs::remove_file(file);
    }
    let gone = fs::remove_dir_all(folder).or_else(|_| {
        // Caches of modules are made read-only.
        make_writable(folder);
        fs::remove_dir_all(folder)
    });
    match gone {
        Err(e) if folder.exists() => Err(Error::machine(format!("can't remove {}: {e}", folder.display()))
            .help("it is a commit's folder that nothing needs: remove it")),
        _ => Ok(()),
    }
}

/// Lets the owner write to all folders in a folder; links are not followed.
fn make_writable(folder: &Path) {
    let Ok(meta) = fs::symlink_metadata(folder) else { return };
    if !meta.is_dir() {
        return;
    }
    let mut mode = meta.permissions();
    mode.set_mode(mode.mode() | 0o700);
    let _ = fs::set_permissions(folder, mode);
    fs::read_dir(folder).into_iter().flatten().flatten().for_each(|entry| make_writable(&entry.path()));
}
