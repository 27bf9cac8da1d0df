//! Whether the lines that patches change are executed: one run of each load on the patched kernel's own code is made
//! again with breakpoints at them ([`schedlab_transplant::visits`]).
//!
//! A page without changes can mean that a patch is harmless, or that none of its lines was reached. Runs with
//! breakpoints take longer on this host, but are the same on the simulated machine, at any level.

use super::Trial;
use crate::ask::cell::Cell;
use crate::make::exec::RunOptions;
use crate::make::exec::code::{self, VISITS};
use crate::make::plan::Plan;
use schedlab_base::{Backend, Error, Result, parallel};
use schedlab_compare::trial::{Reached, Visits};
use schedlab_kernels::code::{CodePlace, places};
use schedlab_kernels::diff::ChangedLines;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// A patch with more places is a rewrite, for which visits of single lines mean nothing.
const MOST_PLACES: usize = 4_096;

/// How often the changed lines are reached, change by change in the order of files and lines; empty if the patched
/// kernel has no cell of its own code. Runs are made `jobs` side by side.
///
/// # Errors
/// When a run or a tool that reads the image fails, and when a patch has too many places.
pub fn reached(
    trial: &Trial,
    plan: &Plan,
    changed: &[ChangedLines],
    (jobs, stop): (usize, &AtomicBool),
) -> Result<Vec<Reached>> {
    let is_patched = |c: &&Cell| c.backend == Backend::Code && c.variant.name == trial.patched.name;
    let cells: Vec<&Cell> = plan.cells.iter().filter(is_patched).collect();
    let is_code = |c: &&ChangedLines| c.path.ends_with(".c") || c.path.ends_with(".h");
    let changed: Vec<ChangedLines> = changed.iter().filter(is_code).cloned().collect();
    let Some(image) = cells.first().and_then(|cell| cell.code.as_ref()) else { return Ok(Vec::new()) };
    let places = places(&image.object, &changed)?;
    if places.len() > MOST_PLACES {
        let text = format!("the patch changes {} places of the code", places.len());
        return Err(Error::input(text).help(format!("visits are counted of {MOST_PLACES} at most")));
    }
    let seed = plan.runs.iter().map(|run| run.seed).min().unwrap_or(1);
    let watched: Vec<u64> = places.iter().map(|place| place.address).collect();
    let one = |cell: &&Cell| -> Result<Option<Vec<u64>>> {
        if watched.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let options = RunOptions { watched: watched.clone(), ..RunOptions::default() };
        let made = code::run(cell, seed, &options, stop)?;
        let file = made.and_then(|made| made.files.into_iter().find(|(name, _)| *name == VISITS));
        let text = file.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned());
        Ok(text.map(|text| text.lines().filter_map(|line| line.parse().ok()).collect()))
    };
    let counts = parallel::map(jobs, &cells, one).into_iter().collect::<Result<Vec<_>>>()?;
    Ok(changed
        .iter()
        .enumerate()
        .map(|(at, lines)| of_change((at, lines), &places, &cells, &counts))
        .collect())
}

fn of_change(
    (at, changed): (usize, &ChangedLines),
    places: &[CodePlace],
    cells: &[&Cell],
    counts: &[Option<Vec<u64>>],
) -> Reached {
    let mut functions: Vec<String> =
        places.iter().filter(|p| p.change == at).map(|p| p.function.clone()).collect();
    functions.sort();
    functions.dedup();
    let of = |(cell, counts): (&&Cell, &Option<Vec<u64>>)| {
        let times = visits(at, places, counts.as_ref()?);
        let (machine, workload) = (cell.machine.name.clone(), cell.spec.name().to_owned());
        Some(Visits { machine, workload, load: cell.load.clone(), times })
    };
    Reached {
        place: format!("{}:{}", changed.path, changed.lines.start()),
        functions,
        visits: cells.iter().zip(counts).filter_map(of).collect(),
    }
}

/// The visits of a change: its lines are at several places of a function, of which the most visited one counts, and in
/// several functions, whose visits are added.
fn visits(change: usize, places: &[CodePlace], counts: &[u64]) -> u64 {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for (place, times) in places.iter().zip(counts).filter(|(place, _)| place.change == change) {
        let of = most.entry(&place.function).or_default();
        *of = (*of).max(*times);
    }
    most.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_count_the_busiest_place_of_each_function() {
        let place =
            |change, address, function: &str| CodePlace { change, address, function: function.into() };
        let places = [place(0, 1, "a"), place(0, 2, "a"), place(1, 3, "a"), place(0, 4, "b")];
        assert_eq!((visits(0, &places, &[10, 7, 99, 2]), visits(1, &places, &[10, 7, 99, 2])), (12, 99));
        assert_eq!(visits(2, &places, &[10, 7, 99, 2]), 0);
    }
}
