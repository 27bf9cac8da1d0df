//! The run to which a file of events belongs.

use super::write::section;
use super::{END_MAGIC, FOOT, Reader};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// A run's identity: the name of its cell's folder, and its seed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunId {
    pub cell: String,
    pub seed: u64,
}

/// Writes a run's identity at the end of a complete file of events.
///
/// # Errors
/// When the file is damaged, or the disk refuses.
pub fn assign(path: &Path, run: &RunId) -> Result<()> {
    let close_at = Reader::open(path)?.close_at();
    let append = |mut file: File| -> io::Result<()> {
        file.seek(SeekFrom::End(-(FOOT as i64)))?;
        let mut end = Vec::new();
        section(&mut end, b'R', &serde_json::to_vec(run)?)?;
        end.extend(close_at.to_le_bytes());
        end.extend(END_MAGIC);
        file.write_all(&end)?;
        file.sync_all()
    };
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(append).map_err(|e| Error::io(path, "write", &e))
}
