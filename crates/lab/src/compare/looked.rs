//! Stored runs that were made look after look are judged at one look here: the reader must know it.

use super::Named;
use crate::budget::looks_of_copy;
use schedlab_base::{Warning, input};
use schedlab_record::RunDir;
use schedlab_record::holdings::EXPERIMENT_FILE;
use std::collections::BTreeMap;
use std::path::Path;

/// The warning about runs that `--budget` has made. A cell's first and last run stand for it: later looks add runs to
/// those of the first, which may have been there before.
pub fn warning(runs: &[Named]) -> Option<Warning> {
    let mut cells: BTreeMap<&Path, (&RunDir, &RunDir)> = BTreeMap::new();
    for named in runs {
        let Some(cell) = named.run.path.parent() else { continue };
        cells.entry(cell).and_modify(|(_, last)| *last = &named.run).or_insert((&named.run, &named.run));
    }
    let looks = |run: &RunDir| looks_of_copy(&input::text_if_there(&run.path.join(EXPERIMENT_FILE)).ok()??);
    let found: Vec<String> =
        cells.values().filter_map(|(first, last)| looks(last).or_else(|| looks(first))).collect();
    let first = found.first()?;
    let which = if found.len() == cells.len() { "these runs" } else { "some of these runs" };
    let text = format!(
        "{which} were made by --budget, which looked at the rows after {first} runs of a cell until they were decided; here \
         they are judged at one look, and a table without a change raises a false alarm more often than in 5 % of \
         cases: the command that made them, given again, judges by looks"
    );
    Some(Warning::new("compare.looks", text))
}
