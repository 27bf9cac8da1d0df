//! The folders of a comparison's runs, by cell.

use schedlab_record::{Record, RunDir, cell_hash};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders of cells; empty if unknown.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// By the cell's name; several if several stores have the cell.
    by_cell: BTreeMap<String, Vec<String>>,
    seen: BTreeSet<PathBuf>,
}

impl Folders {
    /// The folders of cells in a store, by the cells' names.
    pub fn of_cells(names: impl IntoIterator<Item = String>, root: &Path) -> Folders {
        let mut folders = Folders::default();
        for name in names {
            let folder = root.join(&name);
            folders.put(name, folder);
        }
        folders
    }
    /// Adds the folder of a run. The first run read from a folder stands for all of its runs.
    pub fn add(&mut self, run: &RunDir, record: &Record) {
        let Some(folder) = run.path.parent() else { return };
        if !self.seen.contains(folder) {
            self.put(cell_hash(record), folder.to_owned());
        }
    }
    fn put(&mut self, cell: String, folder: PathBuf) {
        let shown = folder.display().to_string();
        if self.seen.insert(folder) {
            self.by_cell.entry(cell).or_default().push(shown);
        }
    }
    /// The folders of a comparison's cell: several if its runs were made or watched differently.
    pub(super) fn of(&self, runs: &[&Record]) -> Vec<String> {
        if self.by_cell.is_empty() {
            return Vec::new();
        }
        let mut kinds: Vec<&Record> = Vec::new();
        for run in runs {
            if !kinds.iter().any(|k| (k.model, k.observe) == (run.model, run.observe)) {
                kinds.push(run);
            }
        }
        kinds.iter().filter_map(|r| self.by_cell.get(&cell_hash(r))).flatten().cloned().collect()
    }
}
