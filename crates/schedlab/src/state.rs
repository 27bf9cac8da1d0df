//! The state folder of this user, where a probe of this machine and its noise floors are kept. A folder that can't be read
//! is a warning: runs and comparisons do without what is in it.

use crate::output;
use schedlab_lab::noise;
use schedlab_machine::probed;
use schedlab_native::settings::journal;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files of it that are read without being asked for.
const READ: &[&str] = &[noise::FILE, probed::FILE];

/// Says, once, that something in the folder can't be read.
pub fn warn_if_unreadable() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let Ok(folder) = journal::state_folder() else { return };
    let Some(e) = READ.iter().find_map(|name| why_unreadable(&folder.join(name))) else { return };
    if !TOLD.swap(true, Ordering::SeqCst) {
        let text = format!("can't read the state folder {}: {e}", folder.display());
        output::note(&format!("warning: {text}; a probe and noise floors kept there are not used"));
    }
}

/// Why a file that may be there can't be read; `None`: it can, or there is none.
pub fn why_unreadable(path: &Path) -> Option<std::io::Error> {
    File::open(path).err().filter(|e| e.kind() != ErrorKind::NotFound)
}
