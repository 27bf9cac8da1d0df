//! The file of a run's events while the run is made: under a temporary name in the store, removed unless the run ends.

use schedlab_base::{Error, Ns, Result, temp};
use schedlab_trace::Cast;
use schedlab_trace::kept::Writer;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The prefix of such files' names.
const PREFIX: &str = ".events.";

/// A file that is being written.
pub(super) struct Kept {
    pub(super) writer: Writer<File>,
    left: Left,
}

/// A new name for a file in a folder; first removes the files of killed runs from it.
pub(super) fn name(folder: &Path) -> PathBuf {
    temp::clear_left(folder, PREFIX);
    temp::new_name(folder, PREFIX)
}

/// Writes a whole file into a folder; returns its place.
pub(super) fn whole(folder: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let path = name(folder);
    let left = Left::at(path.clone());
    std::fs::write(&path, bytes)
        .map_err(|e| Error::io(&path, "write", &e).help("without --keep-events nothing is written there"))?;
    left.stays().ok_or_else(|| Error::internal("a file of events without a name"))
}

/// A file that is removed when this is dropped.
pub(super) struct Left(Option<PathBuf>);

impl Left {
    pub(super) fn at(path: PathBuf) -> Left {
        Left(Some(path))
    }
    /// Keeps the file.
    pub(super) fn stays(mut self) -> Option<PathBuf> {
        self.0.take()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = self.0.take().map(std::fs::remove_file);
    }
}

impl Kept {
    /// Begins a file in that folder; `details` says whether it asks for details.
    pub(super) fn create(folder: &Path, details: bool) -> Result<Kept> {
        let path = name(folder);
        let failed = |e| Error::io(&path, "write", &e);
        let file = File::create(&path).map_err(failed)?;
        let _ = file.try_lock();
        let writer = Writer::new(file).map_err(failed)?;
        let writer = if details { writer.detailed() } else { writer };
        Ok(Kept { writer, left: Left::at(path) })
    }
    /// Ends the file; returns its place.
    ///
    /// # Errors
    /// When it could not be written.
    pub(super) fn finish(mut self, cast: Cast, measured_from: Ns) -> Result<PathBuf> {
        self.writer.measured_from(measured_from);
        let path = self.left.0.clone().unwrap_or_default();
        let ended = self.writer.finish(cast).and_then(|file| file.sync_all());
        ended.map_err(|e| {
            Error::io(&path, "write", &e).help("without --keep-events nothing is written there")
        })?;
        self.left.stays().ok_or_else(|| Error::internal("a file of events without a name"))
    }
}
