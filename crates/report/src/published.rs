//! Posted series held against our runs, as text and Markdown: each published figure next to ours, and totals.

use crate::markdown::plain;
use crate::number;
use crate::text::wrap;
use schedlab_compare::published::{Claimed, JudgedRow, JudgedSeries, RowVerdict, Score, by_mechanism};
use std::io::{self, Write};

pub fn text(all: &[JudgedSeries], out: &mut dyn Write) -> io::Result<()> {
    for series in all {
        write!(out, "{}", wrap(&format!("{:<22} ", series.name), &series.title))?;
        for row in &series.rows {
            let head = format!("  {:<13} ", row.verdict.words());
            write!(out, "{}", wrap(&head, &format!("{}: {}", place(row), figures(row))))?;
        }
        for warning in &series.warnings {
            write!(out, "{}", wrap("  warning:      ", &warning.message))?;
        }
        write!(out, "{}", wrap("  all:          ", &score(&Score::of(&series.rows))))?;
    }
    for (mechanism, counts) in by_mechanism(all) {
        write!(out, "{}", wrap(&format!("{mechanism:<22} "), &score(&counts)))?;
    }
    write!(out, "\n{}", wrap("", &format!("All rows: {}.", score(&whole(all)))))
}

/// Writes the same as Markdown tables: the totals, then each series; rows that were not run are counted only.
pub fn markdown(all: &[JudgedSeries], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "All rows: {}.\n", score(&whole(all)))?;
    writeln!(out, "| mechanism | sign | size | false changes | near values | not run | not modelled |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for (mechanism, t) in by_mechanism(all) {
        let of = |part: usize, whole: usize| format!("{part} of {whole}");
        let [sign, changes, near] = [of(t.sign, t.changed), of(t.false_changes, t.nil), of(t.near, t.values)];
        let [size, run, modelled] = [t.size, t.not_run, t.not_modelled];
        let mechanism = plain(mechanism);
        writeln!(out, "| {mechanism} | {sign} | {size} | {changes} | {near} | {run} | {modelled} |")?;
    }
    for series in all {
        writeln!(out, "\n**{}**: {} ({}).", series.name, plain(&series.title), plain(&series.posted))?;
        writeln!(out, "{}.", score(&Score::of(&series.rows)))?;
        let run = |row: &&JudgedRow| ![RowVerdict::NotModelled, RowVerdict::NotRun].contains(&row.verdict);
        for (at, row) in series.rows.iter().filter(run).enumerate() {
            if at == 0 {
                writeln!(out, "\n| machine | load | metric | published | ours | verdict |")?;
                writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
            }
            let reading = if row.other_reading { ", other reading" } else { "" };
            let machine = format!("{}{reading}", row.machine);
            let cells =
                [&machine, &row.load, &row.metric, &published(row), &ours(row)].map(|text| plain(text));
            writeln!(out, "| {} | {} |", cells.join(" | "), row.verdict.words())?;
        }
        let warnings = series.warnings.iter().map(|w| format!("warning: {}", plain(&w.message)));
        for (at, line) in not_modelled(&series.rows).into_iter().chain(warnings).enumerate() {
            let gap = if at == 0 { "\n" } else { "" };
            writeln!(out, "{gap}- {line}")?;
        }
    }
    Ok(())
}

/// The rows that are not modelled, a line for each reason.
fn not_modelled(rows: &[JudgedRow]) -> Vec<String> {
    let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
    for row in rows.iter().filter(|row| row.verdict == RowVerdict::NotModelled) {
        let (metric, why) = (row.metric.as_str(), row.why.as_deref().unwrap_or_default());
        match reasons.iter_mut().find(|(m, w, _)| (*m, *w) == (metric, why)) {
            Some((_, _, rows)) => *rows += 1,
            None => reasons.push((metric, why, 1)),
        }
    }
    let line = |(metric, why, rows): (&str, &str, usize)| {
        let rows = schedlab_base::counted(rows, "row");
        format!("not modelled: {}, {rows}: {}", plain(metric), plain(why))
    };
    reasons.into_iter().map(line).collect()
}

fn whole(all: &[JudgedSeries]) -> Score {
    Score::of(all.iter().flat_map(|s| &s.rows))
}

fn place(row: &JudgedRow) -> String {
    let reading = if row.other_reading { " (other reading)" } else { "" };
    let on = if row.machine.is_empty() { String::new() } else { format!(" on {}{reading}", row.machine) };
    format!("{}, {}{on}", row.load, row.metric)
}

fn figures(row: &JudgedRow) -> String {
    match &row.why {
        Some(why) if row.ours.is_none() => format!("published {}; {why}", published(row)),
        Some(why) => format!("published {}, ours {}; {why}", published(row), ours(row)),
        None => format!("published {}, ours {}", published(row), ours(row)),
    }
}

fn published(row: &JudgedRow) -> String {
    match &row.claimed {
        Claimed::Change { published_pct, deviation_pct, deviation_is_stated: true } => {
            format!("{published_pct:+.1} \u{b1} {deviation_pct:.1} %")
        }
        Claimed::Change { published_pct, .. } => format!("{published_pct:+.1} %"),
        Claimed::Value { variant, published, unit } => {
            format!("{} ({variant})", number::value(*published, unit))
        }
    }
}

fn ours(row: &JudgedRow) -> String {
    let Some(ours) = row.ours else { return "-".to_owned() };
    let one = |n: f64, unit: &str| match &row.claimed {
        Claimed::Change { .. } => format!("{n:+.1}{unit}"),
        Claimed::Value { unit, .. } => number::value(n, unit),
    };
    let ends = row.ci95.map(|ends| ends.map(|end| one(end, "")));
    one(ours, " %") + &ends.map_or_else(String::new, |[low, high]| format!(" [{low}, {high}]"))
}

fn score(t: &Score) -> String {
    let mut parts = Vec::new();
    if t.changed > 0 {
        let Score { changed, sign, size, .. } = t;
        parts.push(format!("of {changed} published changes {sign} have the sign here and {size} the size"));
    }
    if t.nil > 0 {
        parts.push(format!("of {} that are nil {} change", t.nil, t.false_changes));
    }
    if t.values > 0 {
        parts.push(format!("of {} published values ours is near {}", t.values, t.near));
    }
    let others = [(t.not_known, "not known"), (t.not_run, "not run"), (t.not_modelled, "not modelled")];
    parts.extend(others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join("; ")
}
