//! The state folder of this user, which holds the probe of this machine and its noise floors. A folder that can't be
//! read is a warning; runs and comparisons continue without its content.

use schedlab_compare::noise;
use schedlab_machine::probed;
use schedlab_native::settings::journal;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
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
pub fn why_unreadable(path: &Path) -> Option<std::io::Error> {
    File::open(path).err().filter(|e| e.kind() != ErrorKind::NotFound)
}
