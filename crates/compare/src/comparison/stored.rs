//! Stored runs for comparisons: from their stores' indexes, or from their records.
//!
//! A comparison uses digests of all runs, or outlines of all (records without waits) if it needs a metric that digests
//! lack. Both give the same figures, and so the same bytes ([`schedlab_record::index`]).

use super::{Folders, Question, headline};
use schedlab_base::{Error, Result, parallel};
use schedlab_record::index::{self, Index, ReadOutline};
use schedlab_record::metric::beyond_index;
use schedlab_record::{Record, RunDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A comparison that had to read this many records of a store adds their rows to its index.
const WORTH_A_ROW: usize = 500;

/// The records of runs for a question, in the order of the runs. Their folders are added to `folders`.
///
/// # Errors
/// The first record that can't be read.
pub fn records(runs: &[RunDir], question: &Question, folders: &mut Folders) -> Result<Vec<Record>> {
    let asked: Vec<&String> = question.metrics.iter().chain(question.of_load.values().flatten()).collect();
    let mut records =
        if asked.iter().any(|name| beyond_index(name)) { outlines(runs)? } else { digests(runs)? };
    let unasked = if question.metrics.is_empty() { headline(&records, false) } else { Vec::new() };
    if unasked.iter().any(|name| beyond_index(name)) {
        records = outlines(runs)?;
    }
    runs.iter().zip(&records).for_each(|(run, record)| folders.add(run, record));
    Ok(records)
}

/// The outlines of all these runs.
///
/// # Errors
/// The first record that can't be read.
pub fn outlines(runs: &[RunDir]) -> Result<Vec<Record>> {
    in_order(parallel::map(parallel::cpus(), runs, RunDir::outline))
}

/// Keeps the order, so that of several errors always the same one is reported.
fn in_order<T>(read: Vec<Result<T>>) -> Result<Vec<T>> {
    read.into_iter().collect()
}

/// The digests of all these runs, from rows of the index or from records.
fn digests(runs: &[RunDir]) -> Result<Vec<Record>> {
    let places: Vec<Option<&Path>> = runs.iter().map(|run| Some(index::place(run)?.0)).collect();
    let mut indexes: BTreeMap<&Path, Index> = BTreeMap::new();
    for root in places.iter().flatten() {
        indexes.entry(root).or_insert_with(|| Index::open(root));
    }
    let placed: Vec<(&RunDir, Option<&Path>)> = runs.iter().zip(places.iter().copied()).collect();
    let read = |(run, root): &(&RunDir, Option<&Path>)| -> Result<(bool, ReadOutline)> {
        let row = root.and_then(|root| indexes.get(root)?.get(run));
        match row {
            Some(row) => Ok((true, ReadOutline::known(row))),
            None => Ok((false, ReadOutline::outline(run)?)),
        }
    };
    let read = in_order(parallel::map(parallel::cpus(), &placed, read))?;
    let (fresh, records): (Vec<bool>, Vec<ReadOutline>) = read.into_iter().unzip();
    for (root, known) in &indexes {
        let of_root = (0..runs.len()).filter(|i| places[*i] == Some(root) && !fresh[*i]);
        let new: Vec<(&RunDir, &ReadOutline)> = of_root.map(|i| (&runs[i], &records[i])).collect();
        if new.len() >= WORTH_A_ROW {
            // The index only saves time: if it can't be written, the records are read again next time.
            let _ = known.add(&new);
        }
    }
    let one =
        |(read, is_row): (ReadOutline, bool)| if is_row { read.record } else { index::digest(read.record) };
    Ok(records.into_iter().zip(fresh).map(one).collect())
}

/// Rebuilds the index of a store. Returns the number of its rows.
///
/// # Errors
/// As [`check`], and when the index can't be written.
pub fn rebuild(root: &Path, runs: &[RunDir]) -> Result<usize> {
    let read = in_order(parallel::map(parallel::cpus(), runs, ReadOutline::outline))?;
    let all: Vec<(&RunDir, &ReadOutline)> = runs.iter().zip(&read).collect();
    Index::open(root).rebuild(&all)?;
    Ok(all.len())
}

/// The result of comparing a store's index with its records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Runs with a row that equals their record.
    pub right: usize,
    /// Runs without a row, or with one of an earlier record.
    pub missing: usize,
    /// Runs with a row that differs from their record.
    pub wrong: Vec<PathBuf>,
}

/// Reads every record and compares it with its row.
///
/// # Errors
/// The first record that can't be read.
pub fn check(root: &Path, runs: &[RunDir]) -> Result<Checked> {
    let index = Index::open(root);
    let one = |run: &RunDir| -> std::result::Result<Option<bool>, Error> {
        let record = index::digest(run.outline()?);
        Ok(index.get(run).map(|row| row == record))
    };
    let all: Vec<_> = parallel::map(parallel::cpus(), runs, one);
    let mut checked = Checked::default();
    for (run, found) in runs.iter().zip(all) {
        match found? {
            Some(true) => checked.right += 1,
            Some(false) => checked.wrong.push(run.path.clone()),
            None => checked.missing += 1,
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare_paths;
    use crate::testing;
    use schedlab_record::store::{self, RECORD_FILE, Store};
    use schedlab_record::{Better, Series, cell_hash};
    use std::fs;

    /// A store of two variants with five runs each.
    fn stored() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("runs");
        let store = Store::create(&root).unwrap();
        for (variant, factor) in [("v6.5", 10), ("other", 12)] {
            for seed in 1..=5 {
                let mut record = testing::record(&[]);
                (record.variant.name, record.seed) = (variant.to_owned(), seed);
                let mut delays = Series::new("ns", Better::Lower);
                (0..5000).for_each(|i| delays.record(i * factor + seed));
                record.found.series.insert("wakeup_delay".into(), delays);
                record.found.counters.insert("migrations".into(), factor * seed);
                store.put(&cell_hash(&record), seed, &record, &[]).unwrap();
            }
        }
        (dir, root)
    }

    fn compared(root: &Path, metrics: &[&str]) -> String {
        let metrics = metrics.iter().map(|m| (*m).to_owned()).collect();
        let question = Question { metrics, ..Question::default() };
        serde_json::to_string(&compare_paths(&[root.to_owned()], &question).unwrap()).unwrap()
    }

    #[test]
    fn a_comparison_has_the_same_bytes_with_and_without_the_index() {
        let (_dir, root) = stored();
        // One metric of the index, and one that it lacks.
        let asked: [&[&str]; 3] = [
            &["wakeup_delay.max"],
            &["wakeup_delay.p99", "migrations", "wakeup_delay.mean"],
            &["wakeup_delay.p97.3"],
        ];
        let plain = asked.map(|metrics| compared(&root, metrics));
        assert!(plain[1].contains("\"change_pct\""), "{}", plain[1]);
        let runs = store::list(&root).unwrap();
        assert_eq!(rebuild(&root, &runs).unwrap(), 10);
        assert_eq!(check(&root, &runs).unwrap(), Checked { right: 10, ..Checked::default() });
        assert_eq!(asked.map(|metrics| compared(&root, metrics)), plain);
        // Rows are used: these records can no longer be read.
        let of = |run: &RunDir| run.path.join(RECORD_FILE);
        let mtime = fs::metadata(of(&runs[0])).unwrap().modified().unwrap();
        let text = fs::read_to_string(of(&runs[0])).unwrap();
        fs::write(of(&runs[0]), "x".repeat(text.len())).unwrap();
        fs::File::open(of(&runs[0])).unwrap().set_modified(mtime).unwrap();
        assert_eq!(compared(&root, asked[1]), plain[1]);
        // A changed record is read.
        fs::write(of(&runs[0]), text.replace("\"migrations\":", "\"migrations\":1")).unwrap();
        assert_ne!(compared(&root, asked[1]), plain[1]);
        assert_eq!(check(&root, &runs).unwrap(), Checked { right: 9, missing: 1, wrong: Vec::new() });
    }
}
