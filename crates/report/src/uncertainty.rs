//! Says how drawn costs affect a comparison: below each load's table, and in two sentences for every form.

use crate::number::{change, value};
use crate::text::wrap;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, DrawnEffect};
use schedlab_compare::uncertainty::{Mover, Sway};
use std::io::{self, Write};

/// Number of costs named in the summary.
const NAMED: usize = 3;

/// A sentence or two about the whole comparison; `None` if no costs were drawn.
pub fn summary(c: &Comparison) -> Option<String> {
    let draws = c.uncertainty.iter().map(|e| e.sway.draws).max()?;
    let costs = c.uncertainty.iter().map(|e| e.sway.costs).max()?;
    let mut text = format!(
        "{} drawn from their ranges, {}: intervals and verdicts contain the model's own uncertainty.",
        schedlab_base::counted(costs, "cost"),
        schedlab_base::counted(draws, "draw")
    );
    if let Some(held) = held(c) {
        text.push(' ');
        text.push_str(&held);
    }
    text.push(' ');
    text.push_str(&strongest(c));
    Some(text)
}

/// How many draws agree with the verdicts.
fn held(c: &Comparison) -> Option<String> {
    let decided = || c.uncertainty.iter().filter_map(|e| e.sway.agree.map(|n| (e, n)));
    let (weakest, n) = decided().min_by(|(a, n), (b, m)| (n * b.sway.draws).cmp(&(m * a.sway.draws)))?;
    let (all, of) = (decided().count(), weakest.sway.draws);
    let whole = decided().filter(|(e, n)| *n == e.sway.draws).count();
    if whole == all {
        return Some(format!("Every draw by itself agrees with each of the {all} verdicts."));
    }
    let DrawnEffect { metric, variant, load, machine, .. } = weakest;
    Some(format!(
        "Every draw by itself agrees with {whole} of {all} verdicts; with the weakest ({metric} of {variant}, {load} on \
         {machine}) {n} of {of} agree."
    ))
}

/// The costs that have the strongest effect on the most figures.
fn strongest(c: &Comparison) -> String {
    let first =
        |e: &'_ DrawnEffect| e.sway.movers.first().filter(|m| m.beyond_chance()).map(|m| m.cost.name.clone());
    let mut counts: Vec<(String, usize)> = Vec::new();
    for name in c.uncertainty.iter().filter_map(first) {
        match counts.iter_mut().find(|(n, _)| *n == name) {
            Some((_, n)) => *n += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let all = c.uncertainty.len();
    match counts.as_slice() {
        [] => {
            format!("No cost correlates with any of {} beyond chance.", schedlab_base::counted(all, "figure"))
        }
        found => {
            let words: Vec<String> = found
                .iter()
                .take(NAMED)
                .map(|(name, n)| {
                    format!("{name} (first in {n} of {})", schedlab_base::counted(all, "figure"))
                })
                .collect();
            format!("The costs that move them most: {}.", words.join(", "))
        }
    }
}

/// Writes a load's paragraph: a line for each figure that a cost affects significantly, or on which draws disagree.
pub fn of_group(c: &Comparison, group: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let of = |e: &&DrawnEffect| {
        (&e.machine, &e.workload, &e.load) == (&first.machine, &first.workload, &first.load)
    };
    let effects: Vec<&DrawnEffect> = c.uncertainty.iter().filter(of).collect();
    if effects.is_empty() {
        return Ok(());
    }
    let head = "figures that drawn costs move (rank correlation; medians over the third of the draws where the cost is \
                lowest, and where it is highest)";
    write!(out, "{}", wrap("", head))?;
    let (mut silent, all) = (0, effects.len());
    for e in effects {
        match line(c, e) {
            Some(text) => write!(out, "{}", wrap("  - ", &text))?,
            None => silent += 1,
        }
    }
    match silent {
        0 => Ok(()),
        1 if all > 1 => writeln!(out, "  - 1 other figure: no cost beyond chance"),
        1 => writeln!(out, "  - 1 figure: no cost beyond chance"),
        n if n == all => writeln!(out, "  - {}: no cost beyond chance", schedlab_base::counted(n, "figure")),
        n => writeln!(out, "  - {}: no cost beyond chance", schedlab_base::counted(n, "other figure")),
    }
}

/// The line of a figure; `None` if no cost affects it significantly and all draws agree.
fn line(c: &Comparison, e: &DrawnEffect) -> Option<String> {
    let metric = crate::short(&e.metric, &e.workload);
    let unit =
        c.cells.iter().find_map(|cell| cell.metrics.get(&e.metric)?.measured()).map_or("", |m| &m.unit);
    let shown = |v: f64| if e.baseline.is_some() { change(v) } else { value(v, unit) };
    let movers: Vec<String> =
        e.sway.movers.iter().filter(|m| m.beyond_chance()).map(|m| mover(m, &shown)).collect();
    let partly = e.sway.agree.filter(|n| *n < e.sway.draws);
    if movers.is_empty() && partly.is_none() {
        return None;
    }
    let what = match &e.baseline {
        Some(_) => format!("{metric}, change of {}", e.variant),
        None => format!("{metric} of {}", e.variant),
    };
    let agree = partly.map(|n| format!("{n} of {} draws agree", e.sway.draws));
    Some(format!("{what}: {}", agree.into_iter().chain(movers).collect::<Vec<_>>().join("; ")))
}

/// "idle.C6 +0.91 (31.0us low, 62.0us high)"
fn mover(m: &Mover, shown: &dyn Fn(f64) -> String) -> String {
    let ends = match (m.low, m.high) {
        (Some(low), Some(high)) => format!(" ({} low, {} high)", shown(low), shown(high)),
        _ => String::new(),
    };
    format!("{} {:+.2}{ends}", m.cost.name, m.rho)
}

/// How drawn costs affect one value, for results that are not a comparison.
pub fn of_one(sway: &Sway, unit: &str) -> String {
    let shown = |v: f64| value(v, unit);
    let movers: Vec<String> =
        sway.movers.iter().filter(|m| m.beyond_chance()).map(|m| mover(m, &shown)).collect();
    let movers = if movers.is_empty() { "no cost beyond chance".to_owned() } else { movers.join("; ") };
    format!(
        "{} drawn from their ranges, {}: {movers}",
        schedlab_base::counted(sway.costs, "cost"),
        schedlab_base::counted(sway.draws, "draw")
    )
}
