//! Run folders (being built).

use std::path::PathBuf;

/// A run folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunDir {
    /// The folder.
    pub path: PathBuf,
}

/// Where runs are kept: `ROOT/<cell-hash>/<seed>/`.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The folder.
    pub fn root(&self) -> &std::path::Path {
        &self.root
    }
}
