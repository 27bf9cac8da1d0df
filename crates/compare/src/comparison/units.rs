//! Figures with the same name but different units or good directions. They are different quantities: they are neither
//! merged nor compared.

use super::group::group;
use super::{Cell, CellStat, CountedWarning};
use schedlab_base::Warning;
use schedlab_record::{Better, Record};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Unit and good direction of a quantity.
type Kind<'a> = (&'a str, Better);

/// The quantities of a record, by name.
fn kinds(r: &Record) -> impl Iterator<Item = (&str, Kind<'_>)> {
    let figures = r.found.figures.iter().map(|(name, f)| (name.as_str(), (f.unit.as_str(), f.better)));
    let series = r.found.series.iter().map(|(name, s)| (name.as_str(), (s.unit(), s.better())));
    figures.chain(series)
}

fn kind<'a>(r: &'a Record, name: &str) -> Option<Kind<'a>> {
    let figure = r.found.figures.get(name).map(|f| (f.unit.as_str(), f.better));
    figure.or_else(|| r.found.series.get(name).map(|s| (s.unit(), s.better())))
}

/// Whether each name has one unit and direction in all records.
fn agree(records: &[Record]) -> bool {
    let mut known: BTreeMap<&str, Kind<'_>> = BTreeMap::new();
    records.iter().flat_map(kinds).all(|(name, kind)| *known.entry(name).or_insert(kind) == kind)
}

/// The records without figures and series whose unit or direction differs from the first run of their cell; and the
/// warnings about them.
pub(super) fn alike(records: Cow<'_, [Record]>) -> (Cow<'_, [Record]>, Vec<CountedWarning>) {
    if agree(&records) {
        return (records, Vec::new());
    }
    let (odd, warnings) = odd(&records);
    let mut all = records.into_owned();
    for (at, name) in odd {
        all[at].found.figures.remove(&name);
        all[at].found.series.remove(&name);
    }
    (Cow::Owned(all), warnings)
}

/// The quantities, by record index, that differ from those of the first run of their cell; and the warnings.
fn odd(records: &[Record]) -> (Vec<(usize, String)>, Vec<CountedWarning>) {
    let mut odd: Vec<(usize, String)> = Vec::new();
    let mut warnings: Vec<CountedWarning> = Vec::new();
    for cell in group(records).iter().flatten() {
        let first = cell.runs[0];
        for other in &cell.runs {
            for (name, (unit, better)) in kinds(other) {
                let Some((wanted, good)) = kind(first, name).filter(|first| *first != (unit, better)) else {
                    continue;
                };
                odd.extend(records.iter().position(|r| is_one(r, other)).map(|at| (at, name.to_owned())));
                let text = format!(
                    "{} {} {}: {name} is {} in the first run and {} in others, which count as runs without it",
                    other.workload,
                    cell.load,
                    cell.label,
                    words(wanted, good),
                    words(unit, better)
                );
                let warning = Warning::new("compare.unit", text);
                match warnings.iter_mut().find(|c| c.warning == warning) {
                    Some(c) => c.runs += 1,
                    None => warnings.push(CountedWarning { warning, runs: 1 }),
                }
            }
        }
    }
    (odd, warnings)
}

/// Whether both are the same object: groups borrow their records.
fn is_one(a: &Record, b: &Record) -> bool {
    std::ptr::eq(a, b)
}

/// "in ns, less is better".
fn words(unit: &str, better: Better) -> String {
    let unit = if unit.is_empty() { "a count".to_owned() } else { format!("in {unit}") };
    match better {
        Better::Lower => unit + ", less is better",
        Better::Higher => unit + ", more is better",
        Better::Neither => unit,
    }
}

/// Whether two cells give a metric in the same unit and direction. A cell without the metric fits any.
pub(super) fn same(base: &Cell, cell: &Cell, metric: &str) -> bool {
    let kind =
        |c: &Cell| c.metrics.get(metric).and_then(CellStat::measured).map(|m| (m.unit.clone(), m.better));
    kind(base).zip(kind(cell)).is_none_or(|(a, b)| a == b)
}

/// The warning about cells whose metric is not compared with the baseline's.
pub(super) fn not_compared(base: &Cell, cells: &[Cell], metrics: &[String]) -> Vec<CountedWarning> {
    let mut all = Vec::new();
    for (cell, metric) in cells.iter().flat_map(|c| metrics.iter().map(move |m| (c, m))) {
        let kind = |c: &Cell| {
            c.metrics
                .get(metric)
                .and_then(CellStat::measured)
                .map(|m| words(&m.unit, m.better))
                .unwrap_or_default()
        };
        if !same(base, cell, metric) {
            let text = format!(
                "{} {}: {metric} is {} under {} and {} under {}: it is not compared",
                cell.workload,
                cell.load,
                kind(base),
                base.variant,
                kind(cell),
                cell.variant
            );
            all.push(CountedWarning { warning: Warning::new("compare.unit", text), runs: 0 });
        }
    }
    all
}
