//! Rows that a comparison lacks: one side did not measure a figure, or a variant has no run of a load that others have.
//! As for an unclear row, the data can't tell. A figure that neither side measured is not a gap: short runs have no
//! samples for far percentiles.

use super::model::{Cell, CellStat, Comparison};
use std::collections::BTreeSet;

/// A missing row.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap<'a> {
    /// The variant's cell of the load, or the load's first cell if the variant has none.
    pub cell: &'a Cell,
    pub variant: &'a str,
    /// The metric; `None` if the variant has no run of this load.
    pub metric: Option<&'a str>,
    pub why: String,
}

/// All gaps of a comparison, load by load. None if it has no rows, because then variants are not compared.
pub fn gaps(c: &Comparison) -> Vec<Gap<'_>> {
    if c.comparisons.is_empty() {
        return Vec::new();
    }
    let baselines: BTreeSet<&str> = c.comparisons.iter().map(|r| r.baseline.as_str()).collect();
    c.cells.chunk_by(Cell::same_group).flat_map(|group| of_group(c, group, &baselines)).collect()
}

fn of_group<'a>(c: &'a Comparison, group: &'a [Cell], baselines: &BTreeSet<&str>) -> Vec<Gap<'a>> {
    let Some(first) = group.first() else { return Vec::new() };
    let rows = || c.comparisons.iter().filter(|r| group.iter().any(|cell| r.is_of(cell)));
    let own = rows().next().map(|r| r.baseline.as_str());
    let base = match own {
        Some(name) => group.iter().find(|cell| cell.variant == name),
        None => group.iter().find(|cell| baselines.contains(cell.variant.as_str())),
    };
    let mut all = absent(c, group, first, own, baselines);
    let Some(base) = base else { return all };
    for cell in group.iter().filter(|cell| cell.variant != base.variant) {
        let is_measured = |metric: &&String| [base, cell].iter().any(|c| measures(c, metric));
        let is_missing = |metric: &&String| !rows().any(|r| r.is_of(cell) && r.metric == **metric);
        all.extend(c.metrics.iter().filter(is_measured).filter(is_missing).map(|metric| Gap {
            cell,
            variant: &cell.variant,
            metric: Some(metric),
            why: why(cell.metrics.get(metric), base.metrics.get(metric)),
        }));
    }
    all
}

fn measures(cell: &Cell, metric: &str) -> bool {
    cell.metrics.get(metric).is_some_and(|stat| stat.measured().is_some())
}

/// The variants that other loads of this backend have and this load lacks.
fn absent<'a>(
    c: &'a Comparison,
    group: &[Cell],
    first: &'a Cell,
    own: Option<&str>,
    baselines: &BTreeSet<&str>,
) -> Vec<Gap<'a>> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let alike = |cell: &&Cell| (&cell.backend, &cell.mode) == (&first.backend, &first.mode);
    let is_here = |name: &str| group.iter().any(|cell| cell.variant == name);
    let names = c.cells.iter().filter(alike).map(|cell| cell.variant.as_str());
    let gap = |variant: &'a str| {
        let is_baseline = own.is_none() && baselines.contains(variant);
        let what = if is_baseline { "the baseline has" } else { "there is" };
        Gap { cell: first, variant, metric: None, why: format!("{what} no run of this load") }
    };
    names.filter(|name| !is_here(name) && seen.insert(*name)).map(gap).collect()
}

fn why(variant: Option<&CellStat>, base: Option<&CellStat>) -> String {
    match (variant, base) {
        (Some(CellStat::Missing { missing }), _) => format!("not measured: {missing}"),
        (_, Some(CellStat::Missing { missing })) => format!("not measured in the baseline: {missing}"),
        _ => "the two figures do not compare".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{BaselineIs, Question, compare};
    use crate::testing;
    use schedlab_kernel::Variant;
    use schedlab_record::Record;

    /// Two runs of a load under a variant; without the counter if `None`.
    fn runs(load: &str, variant: &str, migrations: Option<u64>) -> Vec<Record> {
        let one = |seed: u64| {
            let counters: Vec<(&str, u64)> = migrations.iter().map(|n| ("migrations", n + seed)).collect();
            let mut record = testing::record(&counters);
            (record.variant, record.seed) = (Variant::plain(variant), seed);
            record.load = load.to_owned();
            record
        };
        vec![one(1), one(2)]
    }

    fn gap_words(records: &[Vec<Record>]) -> Vec<String> {
        let question = Question {
            metrics: vec!["migrations".to_owned()],
            baseline: Some("old".to_owned()),
            baseline_is: BaselineIs::Asked,
            ..Question::default()
        };
        let comparison = compare(&records.concat(), &question, &[]).unwrap();
        let one = |g: &Gap<'_>| format!("{} {} {:?}: {}", g.cell.load, g.variant, g.metric, g.why);
        gaps(&comparison).iter().map(one).collect()
    }

    #[test]
    fn missing_rows_are_gaps() {
        let whole = [runs("a", "old", Some(1)), runs("a", "new", Some(1))];
        assert_eq!(gap_words(&whole), [""; 0]);
        let missing = |more: &[Vec<Record>]| gap_words(&[&whole[..], more].concat());
        let of = |old, new| missing(&[runs("b", "old", old), runs("b", "new", new)]);
        let [one] = &of(Some(1), None)[..] else { panic!("one figure is missing") };
        assert!(one.starts_with("b new Some(\"migrations\"): not measured: "), "{one}");
        let [one] = &of(None, Some(1))[..] else { panic!("the baseline's figure is missing") };
        assert!(one.starts_with("b new Some(\"migrations\"): not measured in the baseline: "), "{one}");
        assert_eq!(of(None, None), [""; 0], "what neither side measured is not compared");
        assert_eq!(
            missing(&[runs("b", "new", Some(1))]),
            ["b old None: the baseline has no run of this load"]
        );
        assert_eq!(missing(&[runs("b", "old", Some(1))]), ["b new None: there is no run of this load"]);
    }
}
