//! Warns that stored runs whose number was decided by several looks are here judged by a single look.

use super::Named;
use crate::stats::Looks;
use schedlab_base::{Warning, input};
use schedlab_record::store_listing::EXPERIMENT_FILE;
use std::collections::BTreeMap;
use std::path::Path;

/// Stands before the looks in a run's copy of the experiment.
const MARK: &str = "\n# made by --budget, with looks after so many runs of a cell: ";

/// An experiment's text with the looks by which its runs are judged, for the copy next to each run.
pub fn with_looks(text: &str, looks: &Looks) -> String {
    let runs: Vec<String> = looks.runs().iter().map(u64::to_string).collect();
    if runs.is_empty() { text.to_owned() } else { format!("{text}{MARK}{}\n", runs.join(", ")) }
}

/// The looks listed in such a copy: "10, 20, 40, 80".
pub fn looks_of_copy(text: &str) -> Option<String> {
    let (_, looks) = text.rsplit_once(MARK)?;
    looks.lines().next().map(str::to_owned)
}

/// The text of the experiment without its looks. Copies of copies by older versions have the mark twice.
pub fn without_looks(text: &str) -> &str {
    text.split_once(MARK).map_or(text, |(text, _)| text)
}

/// The warning about runs that `--budget` made.
pub fn warning(runs: &[Named]) -> Option<Warning> {
    warning_of(runs.iter().map(|named| named.run.path.as_path()))
}

/// As [`warning`], for folders of runs. Every copy of the experiment is read: a cell's runs may come from several
/// commands, with and without a budget.
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

fn looks(run: &Path) -> Option<String> {
    looks_of_copy(&input::text_if_there(&run.join(EXPERIMENT_FILE)).ok()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_experiments_text_and_its_looks() {
        let copy = with_looks("name = 'x'", &Looks::doubling(6, 3));
        assert_eq!(looks_of_copy(&copy).as_deref(), Some("6, 12, 24"));
        assert_eq!((without_looks(&copy), copy.parse::<toml::Table>().unwrap().len()), ("name = 'x'", 1));
        assert_eq!((with_looks("a", &Looks::once()), looks_of_copy("a")), ("a".to_owned(), None));
    }
}
