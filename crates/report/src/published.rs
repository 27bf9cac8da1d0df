//! Posted series held against our runs, as text and Markdown: each published change next to ours, and totals.

use crate::markdown::plain;
use crate::text::wrap;
use schedlab_compare::published::{ChangeVerdict, JudgedChange, JudgedSeries, Score, by_mechanism};
use std::io::{self, Write};

pub fn text(all: &[JudgedSeries], out: &mut dyn Write) -> io::Result<()> {
    for series in all {
        write!(out, "{}", wrap(&format!("{:<22} ", series.name), &series.title))?;
        for row in &series.changes {
            let head = format!("  {:<13} ", row.verdict.words());
            write!(out, "{}", wrap(&head, &format!("{}: {}", place(row), figures(row))))?;
        }
        for warning in &series.warnings {
            write!(out, "{}", wrap("  warning:      ", &warning.message))?;
        }
        write!(out, "{}", wrap("  all:          ", &score(&Score::of(&series.changes))))?;
    }
    for (mechanism, counts) in by_mechanism(all) {
        write!(out, "{}", wrap(&format!("{mechanism:<22} "), &score(&counts)))?;
    }
    write!(out, "\n{}", wrap("", &format!("All rows: {}.", score(&whole(all)))))
}

/// Writes the same as Markdown tables: the totals, then each series.
pub fn markdown(all: &[JudgedSeries], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "All rows: {}.\n", score(&whole(all)))?;
    writeln!(
        out,
        "| mechanism | sign | size | false changes | not modelled |\n| --- | --- | --- | --- | --- |"
    )?;
    for (mechanism, t) in by_mechanism(all) {
        writeln!(
            out,
            "| {} | {} of {} | {} | {} of {} | {} |",
            plain(mechanism),
            t.sign,
            t.changed,
            t.size,
            t.false_changes,
            t.nil,
            t.not_modelled
        )?;
    }
    for series in all {
        writeln!(out, "\n**{}**: {} ({}). ", series.name, plain(&series.title), plain(&series.posted))?;
        writeln!(out, "{}.\n", score(&Score::of(&series.changes)))?;
        writeln!(
            out,
            "| machine | load | metric | published | ours | verdict |\n| --- | --- | --- | --- | --- | --- |"
        )?;
        let (rows, missing): (Vec<_>, Vec<_>) =
            series.changes.iter().partition(|row| row.verdict != ChangeVerdict::NotModelled);
        for row in rows {
            let machine =
                format!("{}{}", row.machine, if row.other_reading { ", other reading" } else { "" });
            let cells =
                [&machine, &row.load, &row.metric, &published(row), &ours(row)].map(|text| plain(text));
            writeln!(out, "| {} | {} |", cells.join(" | "), row.verdict.words())?;
        }
        not_modelled(&missing, out)?;
    }
    Ok(())
}

/// The rows that are not modelled, a line for each reason.
fn not_modelled(rows: &[&JudgedChange], out: &mut dyn Write) -> io::Result<()> {
    let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
    for row in rows {
        let (metric, why) = (row.metric.as_str(), row.why.as_deref().unwrap_or_default());
        match reasons.iter_mut().find(|(m, w, _)| (*m, *w) == (metric, why)) {
            Some((_, _, rows)) => *rows += 1,
            None => reasons.push((metric, why, 1)),
        }
    }
    for (at, (metric, why, rows)) in reasons.iter().enumerate() {
        let gap = if at == 0 { "\n" } else { "" };
        let rows = schedlab_base::counted(*rows, "row");
        writeln!(out, "{gap}- not modelled: {}, {rows}: {}", plain(metric), plain(why))?;
    }
    Ok(())
}

fn whole(all: &[JudgedSeries]) -> Score {
    Score::of(all.iter().flat_map(|s| &s.changes))
}

fn place(row: &JudgedChange) -> String {
    let reading = if row.other_reading { " (other reading)" } else { "" };
    let on = if row.machine.is_empty() { String::new() } else { format!(" on {}{reading}", row.machine) };
    format!("{}, {}{on}", row.load, row.metric)
}

fn figures(row: &JudgedChange) -> String {
    match &row.why {
        Some(why) if row.ours_pct.is_none() => format!("published {}; {why}", published(row)),
        Some(why) => format!("published {}, ours {}; {why}", published(row), ours(row)),
        None => format!("published {}, ours {}", published(row), ours(row)),
    }
}

fn published(row: &JudgedChange) -> String {
    let deviation = match row.deviation_is_stated {
        true => format!(" \u{b1} {:.1}", row.deviation_pct),
        false => String::new(),
    };
    format!("{:+.1}{deviation} %", row.published_pct)
}

fn ours(row: &JudgedChange) -> String {
    let Some(ours) = row.ours_pct else { return "-".to_owned() };
    let interval = row.ci95_pct.map_or_else(String::new, |[low, high]| format!(" [{low:+.1}, {high:+.1}]"));
    format!("{ours:+.1} %{interval}")
}

fn score(t: &Score) -> String {
    let mut text = format!(
        "of {} published changes {} have the sign here and {} the size; of {} that are nil {} change",
        t.changed, t.sign, t.size, t.nil, t.false_changes
    );
    for (n, what) in [(t.not_known, "not known"), (t.not_run, "not run"), (t.not_modelled, "not modelled")] {
        if n > 0 {
            text += &format!("; {n} {what}");
        }
    }
    text
}
