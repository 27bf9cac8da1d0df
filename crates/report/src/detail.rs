//! Every figure as plain text of at most 78 columns: a block for each load, a paragraph for each metric, a line for
//! each variant with its spread, its interval, and the smallest change that could have been shown. `table` is the short
//! form.

use crate::heading::{against, kernels, place};
use crate::number::{parameters, percent, signed, value};
use crate::text::{sources, stalled, warnings, wrap};
use crate::{Exporter, groups, legend, published, row, uncertainty};
use schedlab_base::Backend;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, how};
use schedlab_compare::stats::Verdict;
use schedlab_record::Better;
use schedlab_record::Published;
use std::io::{self, Write};

pub struct Detail;

impl Exporter for Detail {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        let mut notes = Vec::new();
        stalled(c, out)?;
        for group in groups(c) {
            head(c, group, out)?;
            // A load may have metrics of its own; those of other loads are left out.
            for metric in c.metrics.iter().filter(|m| group.iter().any(|cell| cell.metrics.contains_key(*m)))
            {
                paragraph(c, group, metric, &mut notes, out)?;
            }
            uncertainty::of_group(c, group, out)?;
            writeln!(out)?;
        }
        if let Some(text) = uncertainty::summary(c) {
            write!(out, "{}", wrap("", &text))?;
        }
        for note in &notes {
            write!(out, "{}", wrap("-  ", note))?;
        }
        warnings(c, out)?;
        below(c, out)
    }
}

fn head(c: &Comparison, group: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    let Some(cell) = group.first() else { return Ok(()) };
    let title = if c.experiment.is_empty() { String::new() } else { format!("{}: ", c.experiment) };
    write!(out, "{}", wrap("", &format!("{title}{} {} on {}", cell.workload, cell.load, place(c, group))))?;
    let (fewest, most) = group.iter().fold((usize::MAX, 0), |(a, b), c| (a.min(c.runs), b.max(c.runs)));
    let runs =
        if fewest == most { schedlab_base::counted(most, "run") } else { format!("{fewest} to {most} runs") };
    let how = if cell.backend == Backend::Host { "measured (host)".to_owned() } else { how(group) };
    let text = format!("{how}, kernel {}, {runs} each", kernels(group));
    write!(out, "{}", wrap("  ", &text))?;
    let params = parameters(&cell.workload, &cell.params);
    if !params.is_empty() {
        write!(out, "{}", wrap("  ", &params.join(" ")))?;
    }
    let kept = group.iter().filter(|cell| !cell.folders.is_empty());
    kept.into_iter().try_for_each(|cell| {
        write!(out, "{}", wrap(&format!("  {:<16}", format!("{}:", cell.variant)), &cell.folders.join(" ")))
    })
}

fn paragraph(
    c: &Comparison,
    group: &[Cell],
    metric: &str,
    notes: &mut Vec<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let better = group.iter().find_map(|cell| cell.metrics.get(metric)?.measured()).map(|m| m.better);
    let direction = match better {
        Some(Better::Lower) => " (lower is better)",
        Some(Better::Higher) => " (higher is better)",
        Some(Better::Neither) | None => "",
    };
    let published: Vec<Option<&Published>> = group.iter().map(|cell| published(c, cell, metric)).collect();
    let heading = format!("{metric}{direction}");
    let columns = if published.iter().any(Option::is_some) { "  published" } else { "" };
    writeln!(out, "{}", format!("{heading:<33}{columns}").trim_end())?;
    for (cell, published) in group.iter().zip(&published) {
        let Some(stat) = cell.metrics.get(metric) else { continue };
        let line = line(c, cell, metric, stat, *published, !columns.is_empty(), notes);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Columns: variant 18, mean 9, spread 8, published 9 (if there are published figures), change 9, interval 16, verdict
/// 9.
fn line(
    c: &Comparison,
    cell: &Cell,
    metric: &str,
    stat: &CellStat,
    published: Option<&Published>,
    with_published: bool,
    notes: &mut Vec<String>,
) -> String {
    let (mean, std) = match stat {
        CellStat::Measured(m) => {
            (value(m.mean, &m.unit), m.std_pct.map_or_else(String::new, |s| format!("{s:.1}%")))
        }
        CellStat::Missing { missing } => {
            let note = format!("{metric}: {missing}");
            if !notes.contains(&note) {
                notes.push(note);
            }
            ("-".to_owned(), String::new())
        }
    };
    let name = if cell.variant.chars().count() > 16 {
        format!("  {}\n{:18}", cell.variant, "")
    } else {
        format!("  {:<16}", cell.variant)
    };
    let row = row(c, cell, metric);
    // The flag follows the mean and takes one of the spread's columns.
    let flag = row.map_or("", ComparisonRow::flag);
    let mut text = format!("{name}{mean:>9}{flag}{std:>w$}", w = 8 - flag.len());
    if with_published {
        text.push_str(&format!("{:>9}", published.map_or_else(String::new, |p| value(p.value, &p.unit))));
    }
    if let Some(row) = row {
        text.push_str(&change(row));
    }
    text
}

fn change(row: &ComparisonRow) -> String {
    let pct = row.change_pct.map_or_else(|| "new".to_owned(), percent);
    let interval = row.ci95_pct.map_or_else(String::new, |[a, b]| format!("[{}, {}]", signed(a), signed(b)));
    format!("{pct:>9} {interval:<16} {}", verdict(row))
}

fn verdict(row: &ComparisonRow) -> String {
    match row.verdict {
        Verdict::Unclear => {
            row.detectable_pct.filter(|d| *d < 1000.0).map_or("~".to_owned(), |d| format!("~({d:.0}%)"))
        }
        Verdict::Same => "=".to_owned(),
        decided => format!("{}{}", decided.mark(), decided.word()),
    }
}

fn below(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let text = format!(
        "Mean and std% over runs; typical change against {} with its 95% interval.{} {} ~(N%): a change of N% would have \
         shown. - not measured.",
        against(c),
        legend::flag(c),
        legend::marks(c),
    );
    write!(out, "{}", wrap("", &text))?;
    sources(c, out)
}
