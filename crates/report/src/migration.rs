//! A calibration of migration cost as text: the matrix, and the cost by working set.

use crate::text::wrap;
use schedlab_base::CpuId;
use schedlab_machine::migration::{Calibration, Cost, Distances, Origin, PairCost};
use std::io::{self, Write};

/// A matrix of more CPUs does not fit into lines.
const MATRIX_CPUS: usize = 64;
/// The most pairs that are listed.
const PAIRS: usize = 24;

/// Writes the matrix and the costs.
///
/// # Errors
/// When `out` fails.
pub fn text(
    found: &Calibration,
    distances: &Distances,
    mhz: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if found.cpus <= MATRIX_CPUS {
        let cell = |a: CpuId, b: CpuId| found.cutoff_ns(distances, a, b);
        let matrix = found.matrix.print_with(distances, found.cpus, found.effective_cache, mhz, &cell);
        write!(out, "{matrix}")?;
    } else {
        writeln!(
            out,
            "{} make no readable matrix: see --plot and --json",
            schedlab_base::counted(found.cpus, "CPU")
        )?;
    }
    writeln!(out)?;
    curve(found, out)?;
    pairs(&found.pairs, out)?;
    surroundings(found, out)?;
    for warning in &found.warnings {
        write!(out, "{}", wrap("warning: ", &warning.message))?;
    }
    Ok(())
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// A size in KB or MB.
pub fn size(bytes: u64) -> String {
    match bytes >> 10 {
        kb if kb < 1024 => format!("{kb} KB"),
        kb => format!("{:.1} MB", kb as f64 / 1024.0),
    }
}

/// Median and quartiles, us.
fn figure(cost: &Cost) -> String {
    if cost.spoilt {
        return "disturbed".to_owned();
    }
    let low = cost.spread_ns.0 as f64 / 1000.0;
    let high = cost.spread_ns.1 as f64 / 1000.0;
    // If moving takes no longer than staying, no cost can be distinguished from noise.
    let median = if cost.seen { us(cost.cost_ns) } else { "none seen".to_owned() };
    format!("{median} ({low:.1} to {high:.1})")
}

/// The cost of a move by working set and distance.
fn curve(found: &Calibration, out: &mut dyn Write) -> io::Result<()> {
    if found.distances.is_empty() {
        return writeln!(out, "all cutoffs were given: nothing was measured");
    }
    writeln!(out, "cost of one move, us (half of a cutoff): median (quartiles)")?;
    write!(out, "{:<12} {:<7}", "working set", "fits")?;
    for of in &found.distances {
        write!(out, " {:<27}", format!("distance {} ({})", of.distance, of.name))?;
    }
    writeln!(out)?;
    for (bytes, fits) in rows(found) {
        write!(out, "{:<12} {fits:<7}", size(bytes))?;
        for of in &found.distances {
            let shown = of.curve.near(bytes).map_or_else(|| "-".to_owned(), figure);
            write!(out, " {shown:<27}")?;
        }
        writeln!(out)?;
    }
    write!(out, "{:<20}", "dearest")?;
    for of in &found.distances {
        let shown = of.curve.dearest.map_or_else(
            || "no move costs more than staying".to_owned(),
            |cost| format!("{} at {}", figure(&cost), size(cost.size)),
        );
        write!(out, " {shown}")?;
    }
    writeln!(out)?;
    if let Some(control) = &found.control {
        writeln!(out, "{:<20} {}: a CPU to itself, {}", "control", figure(control), size(control.size))?;
    }
    Ok(())
}

/// The rows of the table: measured sizes, each about twice the one before, with the cache level that holds it.
fn rows(found: &Calibration) -> Vec<(u64, String)> {
    let Some(first) = found.distances.first() else { return Vec::new() };
    let sizes = doublings(first.curve.points.iter().rev().map(|point| point.size));
    let fits = |bytes: u64| {
        let held = found.caches.iter().find(|(_, size)| bytes <= *size);
        held.map_or_else(|| "memory".to_owned(), |(level, _)| format!("L{level}"))
    };
    sizes.into_iter().map(|bytes| (bytes, fits(bytes))).collect()
}

/// Of ascending sizes: the first, each one about twice the last one chosen, and the last.
pub fn doublings(sizes: impl Iterator<Item = u64>) -> Vec<u64> {
    let all: Vec<u64> = sizes.collect();
    let mut chosen: Vec<u64> = Vec::new();
    for size in &all {
        let last = chosen.last().copied().unwrap_or(0);
        if size * 100 >= last * 195 || Some(size) == all.last() {
            chosen.push(*size);
        }
    }
    chosen
}

/// The pairs that are not the first of their distance.
fn pairs(all: &[PairCost], out: &mut dyn Write) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "other pairs, at the dearest size of their distance:")?;
    for pair in all.iter().take(PAIRS) {
        let (a, b) = pair.pair;
        writeln!(out, "  CPUs {a} and {b}, distance {}: {} us", pair.distance, figure(&pair.cost))?;
    }
    if all.len() > PAIRS {
        writeln!(out, "  and {} more: see --plot and --json", all.len() - PAIRS)?;
    }
    Ok(())
}

fn surroundings(found: &Calibration, out: &mut dyn Write) -> io::Result<()> {
    let told = found.levels.told.map_or_else(|| "none".to_owned(), size);
    let seen = found.levels.found.map_or_else(|| "not seen".to_owned(), size);
    let huge = found.huge_pct.map_or_else(|| "unknown".to_owned(), |pct| format!("{pct} %"));
    writeln!(out)?;
    writeln!(
        out,
        "largest cache: {} used, {told} reported, {seen} by touching; sets up to {}, {}; huge pages {huge}; clock {}; {:.0} s",
        size(found.effective_cache),
        size(found.largest),
        found.pattern.name(),
        found.clock,
        found.took_ns as f64 / 1e9,
    )?;
    let given = found.matrix.entries.iter().filter(|e| e.origin == Origin::Given);
    for entry in given {
        writeln!(out, "distance {}: the cutoff was given", entry.distance)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_about_a_doubling_apart_and_end_at_the_largest() {
        assert_eq!(doublings([32, 64, 67, 100, 131, 260, 300].into_iter()), [32, 64, 131, 260, 300]);
        assert!(doublings(std::iter::empty()).is_empty());
    }
}
