//! The best of many settings as text: the confirmed rows, the winner, and the head of the race.

use crate::number::{change, signed};
use crate::text::wrap;
use schedlab_base::counted;
use schedlab_compare::comparison::ComparisonRow;
use schedlab_compare::tuned::{Pruned, Raced, Tuned};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Places of the race that are shown.
const SHOWN: usize = 10;

/// Writes the result. `all`: the whole race. Rows of a setting stand together.
///
/// # Errors
/// Of the output.
pub fn text(tuned: &Tuned, all: bool, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", said(tuned))?;
    writeln!(out, "\nConfirmed by fresh runs against {}", tuned.default)?;
    let mut of = "";
    let mut rows: Vec<&ComparisonRow> = tuned.confirmed.iter().collect();
    rows.sort_by_key(|row| tuned.confirmed.iter().position(|first| first.variant == row.variant));
    for row in rows {
        if row.variant != of {
            of = &row.variant;
            writeln!(out, "  {of}")?;
        }
        let pct = row.change_pct.map_or_else(|| "?".to_owned(), change);
        let interval = row
            .ci95_pct
            .map_or_else(String::new, |[low, high]| format!(" [{}, {}]", signed(low), signed(high)));
        let (mark, metric, load, pairs) = (row.verdict.mark(), &row.metric, &row.load, row.pairs);
        writeln!(out, "{pct:>10} {mark}{interval}, {pairs} pairs: {metric}, {} {load}", row.workload)?;
    }
    let pruned = tuned.pruned.as_ref().filter(|pruned| !pruned.dropped.is_empty());
    if let Some(Pruned { backend, metrics, dropped }) = pruned {
        let (many, metrics) = (counted(dropped.len() as u64, "setting"), metrics.join(" and "));
        writeln!(
            out,
            "\n{many} did not run: others were better in the replay on backend {backend}, by {metrics}"
        )?;
    }
    if !tuned.race.is_empty() {
        writeln!(out, "\nThe race, best first (not a result: who leads was lucky, too)")?;
    }
    let shown = if all { tuned.race.len() } else { SHOWN };
    for Raced { setting, runs, change_pct } in tuned.race.iter().take(shown) {
        let pct = |pct: &Option<f64>| format!("{:>8}", pct.map_or_else(|| "?".to_owned(), change));
        let pcts: Vec<String> = change_pct.iter().map(pct).collect();
        let runs = counted(*runs, "run");
        writeln!(out, "  {} {runs:>8}  {setting}", pcts.join(" "))?;
    }
    if tuned.race.len() > shown {
        writeln!(out, "  {} more: --all", tuned.race.len() - shown)?;
    }
    let reasons: BTreeSet<&str> = tuned.left_out.iter().map(|one| one.why.as_str()).collect();
    for why in reasons {
        let of = tuned.left_out.iter().filter(|one| one.why == why).map(|one| one.setting.as_str());
        write!(out, "{}", wrap("left out: ", &format!("{}: {why}", of.collect::<Vec<_>>().join(", "))))?;
    }
    Ok(())
}

/// The outcome in words.
fn said(tuned: &Tuned) -> String {
    let Tuned { settings, default, runs, metrics, .. } = tuned;
    let of = format!(
        "{} by {}, {}",
        counted(*settings as u64, "setting"),
        metrics.join(" and "),
        counted(*runs, "run")
    );
    let cut = if tuned.cut_short { " Time was up before the race was over." } else { "" };
    let outcome = match &tuned.winner {
        Some(winner) => format!("Best: {winner}, better than {default} beyond chance."),
        None => format!("Nothing beats {default} beyond chance."),
    };
    let text = format!(
        "{outcome} ({of}.){cut} Where no setting is better, a search names one in at most 5 % of cases: only fresh runs \
         of the finalists decide."
    );
    wrap("", &text)
}
