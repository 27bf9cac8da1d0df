//! The default form: plain text of at most 78 columns, fit for mail. A matrix for each load has a row for each metric
//! and a column for each variant.
//!
//! A cell has the value, the change and its verdict. The form `detail` adds spread, interval and power, as the legend
//! says.

pub mod limit;
pub(crate) mod matrix;
pub(crate) mod notes;
pub(crate) mod summary;
pub mod too_few_runs;

use crate::heading::{kernels, place};
use crate::number::{parameters, three};
use crate::text::{WIDTH, sources, stalled, warnings_but, wrap};
use crate::{Exporter, groups, uncertainty};
use matrix::MatrixLayout;
use schedlab_base::counted;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{BaselineFit, Cell, how};
use serde_json::{Map, Value};
use std::io::{self, Write};

pub struct Table;

impl Exporter for Table {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        let layout = MatrixLayout::of(c);
        stalled(c, out)?;
        if let Some(text) = too_few_runs::note(c) {
            writeln!(out, "{}", wrap("", &text))?;
        }
        top(c, out)?;
        for group in groups(c) {
            let Some(first) = group.first() else { continue };
            heading(c, group, first, out)?;
            layout.write(c, group, out)?;
            if let Some(fit) = c.fit(first) {
                write!(out, "{}", wrap("", &nearness(c, fit)))?;
            }
            uncertainty::of_group(c, group, out)?;
            writeln!(out)?;
        }
        best(c, out)?;
        uncertain(c, out)?;
        if let Some(text) = summary::of(c) {
            write!(out, "{}", wrap("", &text))?;
        }
        notes::legend(c, out)?;
        sources(c, out)?;
        notes::missing(c, out)?;
        notes::kept(c, out)?;
        warnings_but(c, |code| too_few_runs::is_said(c, code), out)
    }
}

/// Writes the paragraph on the model's own uncertainty.
fn uncertain(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    uncertainty::summary(c).map_or(Ok(()), |text| writeln!(out, "{}", wrap("", &text)))
}

/// The experiment's name, and for each workload the parameters that all its loads share.
fn top(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    if !c.experiment.is_empty() {
        lines.push(format!("{}\n", c.experiment));
    }
    let mut workloads: Vec<&str> = Vec::new();
    for cell in &c.cells {
        if !workloads.contains(&cell.workload.as_str()) {
            workloads.push(&cell.workload);
            let params = parameters(&cell.workload, &split(c, cell, true));
            if !params.is_empty() {
                lines.push(wrap(&format!("{}: ", cell.workload), &params.join(" ")));
            }
        }
    }
    lines.iter().try_for_each(|l| write!(out, "{l}"))?;
    if lines.is_empty() { Ok(()) } else { writeln!(out) }
}

/// A cell's parameters: those that all cells of its workload share (`shared`), or the others.
fn split(c: &Comparison, cell: &Cell, shared: bool) -> Value {
    let everywhere = |name: &String, v: &Value| {
        c.cells.iter().filter(|o| o.workload == cell.workload).all(|o| o.params.get(name) == Some(v))
    };
    let all = cell.params.as_object().into_iter().flatten();
    let some: Map<String, Value> =
        all.filter(|(n, v)| everywhere(n, v) == shared).map(|(n, v)| (n.clone(), v.clone())).collect();
    Value::Object(some)
}

/// Writes "schbench 2x24 on fb-2x12-smt, simulated v4.5, 10 runs, message_threads=2", in two lines if it is too long
/// for one.
fn heading(c: &Comparison, group: &[Cell], cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    let (fewest, most) = group.iter().fold((usize::MAX, 0), |(a, b), c| (a.min(c.runs), b.max(c.runs)));
    let runs = match (fewest, most) {
        (a, b) if a == b => counted(a, "run"),
        (a, b) => format!("{a} to {b} runs"),
    };
    let how = how(group) + if cell.mode.is_some() { " of" } else { "" };
    let what = format!("{} {} on {}", cell.workload, cell.load, place(c, group));
    let text = format!("{what}, {how} {}, {runs}", kernels(group));
    let own = parameters(&cell.workload, &split(c, cell, false)).join(" ");
    match text.len() + 2 + own.len() {
        _ if own.is_empty() => write!(out, "{}", wrap("", &text)),
        ..=WIDTH => writeln!(out, "{text}, {own}"),
        _ => write!(out, "{}{}", wrap("", &text), wrap("  ", &own)),
    }
}

/// How close the baseline is to the figures published for it.
fn nearness(c: &Comparison, fit: &BaselineFit) -> String {
    let missing = match fit.missing {
        0 => String::new(),
        n => format!(", {n} of {} missing", counted(n + fit.metrics, "figure")),
    };
    let best = match c.fits.len() {
        2.. if c.best_fit() == Some(fit) => format!(" (best of {})", counted(c.fits.len(), "load")),
        _ => String::new(),
    };
    format!(
        "fit of {} to its published figures: off by a factor {}{missing}{best}",
        fit.variant,
        three(fit.factor)
    )
}

/// Writes which load fits best, if there is a choice, and how far behind the next one is.
fn best(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut fits: Vec<&BaselineFit> = c.fits.iter().collect();
    fits.sort_by(|a, b| a.order(b));
    let [best, next, ..] = fits[..] else { return Ok(()) };
    let text = format!(
        "best fit of {}: {} {} on {} (factor {}); its other columns are predictions. Next: {} {} on {} (factor {}).",
        best.variant,
        best.workload,
        best.load,
        best.machine,
        three(best.factor),
        next.workload,
        next.load,
        next.machine,
        three(next.factor)
    );
    writeln!(out, "{}", wrap("", &text))
}
