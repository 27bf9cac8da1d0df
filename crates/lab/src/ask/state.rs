//! The state folder of this user, which holds the probe of this machine and its noise floors. A folder that can't be
//! read is a warning; runs and comparisons continue without its content.

use schedlab_base::Result;
use schedlab_compare::noise::{self, Floors};
use schedlab_machine::probed;
use schedlab_native::settings::journal;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Its files that commands read unasked.
const READ: &[&str] = &[noise::FILE, probed::FILE];

/// Warns, once, that a file in the folder can't be read.
pub fn warn_if_unreadable(warn: &dyn Fn(&str)) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let Ok(folder) = journal::state_folder() else { return };
    let Some(e) = READ.iter().find_map(|name| why_unreadable(&folder.join(name))) else { return };
    if !WARNED.swap(true, Ordering::SeqCst) {
        let text = format!("can't read the state folder {}: {e}", folder.display());
        warn(&format!("warning: {text}; a probe and noise floors kept there are not used"));
    }
}

/// Why a file can't be read; `None` when it can be read, or is not there.
fn why_unreadable(path: &Path) -> Option<std::io::Error> {
    File::open(path).err().filter(|e| e.kind() != ErrorKind::NotFound)
}

/// The file of this machine's noise floors.
///
/// # Errors
/// When the environment names no folder.
pub fn noise_file() -> Result<PathBuf> {
    Ok(journal::state_folder()?.join(noise::FILE))
}

/// This machine's noise floors; none without a state folder. `warn` gets the warning about a folder that can't be read.
///
/// # Errors
/// When the file is torn or holds something else.
pub fn noise_floors(warn: &dyn Fn(&str)) -> Result<Floors> {
    warn_if_unreadable(warn);
    match noise_file() {
        Ok(path) if why_unreadable(&path).is_none() => Floors::load(&path),
        _ => Ok(Floors::default()),
    }
}
