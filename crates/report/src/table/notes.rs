//! The notes below the matrices: why metrics are missing, where the runs are stored, and the legend.

use crate::heading::against;
use crate::legend;
use crate::number::FACTOR_FROM_PCT;
use crate::text::{stacks, wrap};
use schedlab_base::{counted, one_or};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::CellStat;
use std::io::{self, Write};
use std::path::Path;

/// Writes a note for each metric that is missing in whole cells, or in some runs of a cell.
pub fn missing(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    for metric in &c.metrics {
        let stats = || c.cells.iter().filter_map(|cell| cell.metrics.get(metric));
        let why: Vec<&str> = stats()
            .filter_map(|s| match s {
                CellStat::Missing { missing } => Some(missing.as_str()),
                CellStat::Measured(_) => None,
            })
            .collect();
        if let Some(first) = why.first() {
            let like = if why.iter().all(|w| w == first) { "" } else { "such as " };
            let text = format!("{metric}, {}: {like}{first}", counted(why.len(), "cell"));
            write!(out, "{}", wrap("-  ", &text))?;
        }
        let partly: Vec<usize> =
            stats().filter_map(CellStat::measured).map(|m| m.missing_runs).filter(|n| *n > 0).collect();
        if !partly.is_empty() {
            let (runs, cells) = (partly.iter().sum::<usize>(), counted(partly.len(), "cell"));
            let text = format!(
                "{metric} is missing in {} of {cells}, which {} without {}",
                counted(runs, "run"),
                one_or(partly.len(), "counts", "count"),
                one_or(runs, "it", "them")
            );
            write!(out, "{}", wrap("note: ", &text))?;
        }
    }
    Ok(())
}

/// Writes where the runs are: the store, and the command that lists each cell's folder.
pub fn kept(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut stores: Vec<String> = Vec::new();
    for folder in c.cells.iter().flat_map(|cell| &cell.folders) {
        let store = Path::new(folder).parent().unwrap_or(Path::new("")).display().to_string();
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    let text = match &stores[..] {
        [] => return Ok(()),
        [one] if one == USUAL_STORE => format!("kept in {one}; 'schedlab runs' lists each cell's folder"),
        [one] => format!("kept in {one}; 'schedlab runs --out {one}' lists each cell's folder"),
        several => {
            format!("kept in {}; 'schedlab runs --out DIR' lists each cell's folder", several.join(", "))
        }
    };
    write!(out, "{}", wrap("runs: ", &text))?;
    stacks(c).map_or(Ok(()), |text| write!(out, "{}", wrap("      ", &text)))
}

const USUAL_STORE: &str = "runs";

/// The legend of columns and marks.
pub fn legend(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    legend_with(c, " (std in percent of it)", out)
}

/// As [`legend`]; `spread` says how the spread of a mean is shown, if it is.
pub fn legend_with(c: &Comparison, spread: &str, out: &mut dyn Write) -> io::Result<()> {
    let single = c.cells.iter().all(|cell| cell.runs == 1);
    if c.comparisons.is_empty() {
        let text = if single { "One run each.".to_owned() } else { format!("Mean over runs{spread}.") };
        return write!(out, "{}", wrap("", &text));
    }
    if single {
        let text = format!(
            "One run each, with its change against {}. ~ a single run can't tell how much of the change is chance.",
            against(c)
        );
        return write!(out, "{}", wrap("", &text));
    }
    let large = c.comparisons.iter().any(|r| r.change_pct.is_some_and(|p| p >= FACTOR_FROM_PCT));
    let factor = if large { ", x20: 20 times as much" } else { "" };
    let text = format!(
        "Mean over runs{spread} and typical change against {}: trimmed, over runs{factor}.{} {} --format \
         detail has the spread and interval of every cell, and the change that would have shown.",
        against(c),
        legend::flag(c),
        legend::marks(c),
    );
    write!(out, "{}", wrap("", &text))
}
