//! Stored runs that were made look after look are judged at one look here: the reader must know it.

use super::Named;
use crate::budget::looks_of_copy;
use schedlab_base::{Warning, input};
use schedlab_record::holdings::EXPERIMENT_FILE;
use std::collections::BTreeMap;
use std::path::Path;

/// The warning about runs that `--budget` has made.
pub fn warning(runs: &[Named]) -> Option<Warning> {
    warning_of(runs.iter().map(|named| named.run.path.as_path()))
}

/// As [`warning`], for the folders of runs. Each copy of the experiment is read: a cell's runs may come from several
/// commands, with a budget and without.
pub fn warning_of<'a>(runs: impl Iterator<Item = &'a Path>) -> Option<Warning> {
    let mut cells: BTreeMap<&Path, Option<String>> = BTreeMap::new();
    for run in runs {
        let Some(cell) = run.parent() else { continue };
        let found = cells.entry(cell).or_default();
        if found.is_none() {
            *found = looks(run);
        }
    }
    let found: Vec<&String> = cells.values().flatten().collect();
    let first = found.first()?;
    let which = if found.len() == cells.len() { "these runs" } else { "some of these runs" };
    let text = format!(
        "{which} were made by --budget, which looked at the rows after {first} runs of a cell until they were decided; here \
         they are judged at one look, and a table without a change raises a false alarm more often than in 5 % of \
         cases: the command with --budget judges by looks"
    );
    Some(Warning::new("compare.looks", text))
}

/// The looks at which a run was made.
fn looks(run: &Path) -> Option<String> {
    looks_of_copy(&input::text_if_there(&run.join(EXPERIMENT_FILE)).ok()??)
}
