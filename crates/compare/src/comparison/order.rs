//! The order of stored runs in a comparison. The first cell of a group is the baseline unless another one is asked for.
//!
//! Folders are named by hashes, so their order means nothing. The baseline is that of the experiment that made the
//! runs; else the variant that was named first; else, within one source, the plain kernel of the oldest version.

use super::BaselineIs;
use super::group::mode;
use crate::runs::means;
use schedlab_base::natural::Natural;
use schedlab_base::{Backend, input};
use schedlab_record::store_listing::EXPERIMENT_FILE;
use schedlab_record::{Record, RunDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A stored run named by the user.
#[derive(Clone, Debug)]
pub struct Named {
    pub source: usize,
    pub run: RunDir,
}

pub fn of_one_source(runs: Vec<RunDir>) -> Vec<Named> {
    runs.into_iter().map(|run| Named { source: 0, run }).collect()
}

/// The records of stored runs in the order of the tables, and why the first cell of a group comes first.
pub(super) fn in_order(runs: &[Named], records: Vec<Record>) -> (Vec<Record>, BaselineIs) {
    let mut baselines: BTreeMap<&Path, Option<Baseline>> = BTreeMap::new();
    let mut all = Vec::with_capacity(records.len());
    for (named, record) in runs.iter().zip(records) {
        let cell = named.run.path.parent().unwrap_or(Path::new(""));
        let baseline = baselines.entry(cell).or_insert_with(|| Baseline::beside(&named.run));
        let is_own = baseline.as_ref().is_some_and(|b| b.is(&record));
        all.push((named.source, is_own, record));
    }
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    let same = |a: &(usize, bool, Record), b: &(usize, bool, Record)| load_of(&a.2) == load_of(&b.2);
    // If a load's experiment has a baseline, that was sorted first.
    let of_load: Vec<bool> = all.chunk_by(same).filter_map(|load| Some(load.first()?.1)).collect();
    let sources = all.windows(2).any(|two| two[0].0 != two[1].0);
    let is_first = match (of_load.iter().any(|own| *own), of_load.iter().all(|own| *own)) {
        (true, true) => BaselineIs::OfExperiment,
        (true, false) => BaselineIs::Mixed,
        (false, _) if sources || all.is_empty() => BaselineIs::First,
        (false, _) => BaselineIs::FirstByName,
    };
    (all.into_iter().map(|(.., record)| record).collect(), is_first)
}

fn load_of(r: &Record) -> impl Ord + '_ {
    (Natural(&r.workload), Natural(&r.load), Natural(&r.machine.name), &r.backend, mode(r))
}

fn key((source, is_own, r): &(usize, bool, Record)) -> impl Ord + '_ {
    let variant = (!is_own, *source, !r.variant.is_plain(), Natural(&r.kernel), Natural(&r.variant.name));
    (load_of(r), variant, !r.drawn.is_empty(), r.watched(), r.seed)
}

/// The baseline of an experiment, and that of its guests.
struct Baseline {
    plain: Option<String>,
    guests: Option<String>,
}

impl Baseline {
    /// The baseline of the experiment, by its copy in the run's folder.
    fn beside(run: &RunDir) -> Option<Baseline> {
        let path: PathBuf = run.path.join(EXPERIMENT_FILE);
        Baseline::of(&input::text_if_there(&path).ok()??)
    }
    /// The baseline in an experiment's text. The text is not read as an experiment, because the machines and files that
    /// it names are next to the original.
    fn of(text: &str) -> Option<Baseline> {
        let top = text.parse::<toml::Table>().ok()?;
        let plain = of_table(&top);
        let guests = top.get("vm").and_then(toml::Value::as_table).and_then(of_table);
        Some(Baseline { guests: guests.or_else(|| plain.clone()), plain })
    }
    /// Whether a record is of the baseline. Of a swept variant it is the first value, which sorts first.
    fn is(&self, record: &Record) -> bool {
        let name = if record.backend == Backend::Vm { self.guests.as_deref() } else { self.plain.as_deref() };
        // The kernel of a guest is named by its series: 6.1 for v6.1.
        let is = |name: &str| {
            means(name, &record.variant.name) || means(name.trim_start_matches('v'), &record.variant.name)
        };
        name.is_some_and(is)
    }
}

/// The baseline that a table names, or its first variant.
fn of_table(table: &toml::Table) -> Option<String> {
    let text = |value: Option<&toml::Value>| value.and_then(toml::Value::as_str).map(str::to_owned);
    let first = table.get("variant").and_then(toml::Value::as_array).and_then(|all| all.first()?.as_table());
    let named = |key: &str| text(first.and_then(|v| v.get(key)));
    text(table.get("baseline")).or_else(|| named("name")).or_else(|| named("kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use schedlab_kernel::Variant;
    use std::fs;

    fn record(variant: &str, load: &str) -> Record {
        let mut record = testing::record(&[]);
        (record.variant, record.kernel) = (Variant::plain(variant), variant.to_owned());
        record.load = load.to_owned();
        record
    }

    fn order(runs: &[Named], records: Vec<Record>) -> (Vec<String>, BaselineIs) {
        let (records, own) = in_order(runs, records);
        (records.iter().map(|r| format!("{} {}", r.load, r.variant.name)).collect(), own)
    }

    fn named(source: usize, path: &Path) -> Named {
        Named { source, run: RunDir { path: path.to_owned() } }
    }

    #[test]
    fn versions_and_loads_are_sorted_by_number() {
        let nowhere = |n: usize| named(0, Path::new(&format!("nowhere/{n}")));
        let runs: Vec<Named> = (0..4).map(nowhere).collect();
        let records = vec![
            record("v6.12", "groups=16"),
            record("v6.5", "groups=16"),
            record("v2.6.30", "groups=16"),
            record("v6.5", "groups=4"),
        ];
        let (order, own) = order(&runs, records);
        assert_eq!(order, ["groups=4 v6.5", "groups=16 v2.6.30", "groups=16 v6.5", "groups=16 v6.12"]);
        assert_eq!(own, BaselineIs::FirstByName);
    }

    #[test]
    fn the_source_that_was_named_first_comes_first_and_the_experiments_baseline_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a/1"), dir.path().join("b/1"));
        let runs = [named(0, &a), named(1, &b)];
        let records = || vec![record("v6.12", "x"), record("v6.5", "x")];
        assert_eq!(
            order(&runs, records()),
            (vec!["x v6.12".to_owned(), "x v6.5".to_owned()], BaselineIs::First)
        );
        fs::create_dir_all(&b).unwrap();
        let text = "baseline = 'v6.5'\n[[variant]]\nkernel = 'v6.12'\n[[variant]]\nkernel = 'v6.5'\n";
        fs::write(b.join(EXPERIMENT_FILE), text).unwrap();
        let own_first = vec!["x v6.5".to_owned(), "x v6.12".to_owned()];
        assert_eq!(order(&runs, records()), (own_first, BaselineIs::OfExperiment));
        // A run of another load without an experiment.
        let runs = [&runs[..], &[named(0, &dir.path().join("c/1"))]].concat();
        let (_, is) = order(&runs, [records(), vec![record("v6.12", "y")]].concat());
        assert_eq!(is, BaselineIs::Mixed);
    }

    #[test]
    fn the_baseline_of_a_text_is_the_named_one_or_the_first_variant() {
        let of = |text: &str| Baseline::of(text).and_then(|b| b.plain);
        assert_eq!(of("[[variant]]\nname = 'a'\nkernel = 'v6.5'").as_deref(), Some("a"));
        assert_eq!(of("baseline = 'b'\n[[variant]]\nname = 'a'").as_deref(), Some("b"));
        assert_eq!(of("name = 'x'"), None);
        let both = Baseline::of("baseline = 'v6.5'\n[vm]\nbaseline = '6.1'").unwrap();
        assert_eq!(both.guests.as_deref(), Some("6.1"));
        let swept = Baseline::of("[[variant]]\nname = 'hz'").unwrap();
        assert!(swept.is(&record("hz,hz=100", "x")) && !swept.is(&record("hzz", "x")));
    }
}
