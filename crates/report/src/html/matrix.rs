//! The comparison: a table for each load with a row for each metric and a column for each variant, the baseline first.
//! Values, changes and verdicts are the same as in the form `table`.

use super::escape::escape;
use super::{HtmlReport, LoadGroup, colour};
use crate::heading::{against, kernels, place};
use crate::legend;
use crate::number::{change, percent, signed, spread, value};
use crate::table::matrix::{baseline, metrics};
use crate::{published, row, short};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{self, Cell, CellStat, ComparisonRow};
use std::fmt::Write;

pub fn section(report: &HtmlReport<'_>) -> String {
    let c = report.comparison;
    let mut out = String::from("<section id=\"comparison\"><h2>Comparison</h2>\n");
    if let Some(text) = crate::table::summary::of(c) {
        let _ = writeln!(out, "<p>{}</p>", escape(&text));
    }
    for group in report.groups() {
        out += &table(c, &group);
    }
    if !c.comparisons.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"note\">Changes are against {}. {}{}</p>",
            escape(&against(c)),
            escape(&legend::marks(c)),
            escape(legend::flag(c).as_str())
        );
    }
    let _ = writeln!(
        out,
        "<details class=\"long\"><summary>The same as text, for mail</summary><pre>{}</pre></details>\n</section>",
        escape(&text(c))
    );
    out
}

/// The comparison in the form `table`.
fn text(c: &Comparison) -> String {
    let mut text = Vec::new();
    // Writing to a Vec never fails.
    let _ = crate::Exporter::export(&crate::table::Table, c, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn table(c: &Comparison, group: &LoadGroup<'_>) -> String {
    let at = baseline(c, group.cells);
    let Some(base) = group.cells.get(at) else { return String::new() };
    let order: Vec<usize> = std::iter::once(at).chain((0..group.cells.len()).filter(|i| *i != at)).collect();
    let mut out =
        format!("<h3>{}</h3>\n<p class=\"note\">{}</p>\n", escape(&name(c, group)), escape(&how(group)));
    out += "<div class=\"wide\"><table class=\"matrix\"><thead><tr><th>metric</th>";
    for i in &order {
        let name = &group.cells[*i].variant;
        let word =
            if *i == at && group.cells.len() > 1 { "<small class=\"dim\">baseline</small>" } else { "" };
        let _ = write!(
            out,
            "<th class=\"num swatch\"><span class=\"{}\"><i></i>{}</span> {word}</th>",
            colour(*i),
            escape(name)
        );
    }
    out += "</tr></thead><tbody>\n";
    for metric in metrics(c, base) {
        let _ = write!(out, "<tr><th>{}</th>", escape(short(metric, &base.workload)));
        order.iter().for_each(|i| out += &cell(c, &group.cells[*i], metric));
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    out
}

/// "simulated v4.5, 10 runs".
fn how(group: &LoadGroup<'_>) -> String {
    let Some(first) = group.cells.first() else { return String::new() };
    let mut runs: Vec<usize> = group.cells.iter().map(|c| c.runs).collect();
    runs.dedup();
    let one = runs == [1];
    let runs: Vec<String> = runs.iter().map(usize::to_string).collect();
    let params = crate::number::parameters(&first.workload, &first.params);
    let params = if params.is_empty() { String::new() } else { format!("; {}", params.join(" ")) };
    let word = if one { "run" } else { "runs" };
    let kernels = kernels(group.cells);
    format!(
        "{} {kernels}, {} {word} of each variant{params}",
        comparison::how(group.cells),
        runs.join(" or ")
    )
}

/// As [`LoadGroup::name`], with the computers of live runs if there are several.
fn name(c: &Comparison, group: &LoadGroup<'_>) -> String {
    let first = group.cells.first().map(|cell| format!("{} {}", cell.workload, cell.load));
    format!("{} on {}", first.unwrap_or_default(), place(c, group.cells))
}

fn cell(c: &Comparison, cell: &Cell, metric: &str) -> String {
    let measured = match cell.metrics.get(metric) {
        Some(CellStat::Measured(m)) => m,
        Some(CellStat::Missing { missing }) => {
            return format!("<td class=\"num\" title=\"{}\">-</td>", escape(missing));
        }
        None => return "<td class=\"num\">-</td>".to_owned(),
    };
    let row = row(c, cell, metric);
    let spread =
        measured.std_pct.map_or_else(String::new, |s| format!(" <span class=\"dim\">({})</span>", spread(s)));
    let published = published(c, cell, metric).map_or_else(String::new, |p| {
        format!("<small>published {}</small>", escape(&value(p.value, &p.unit)))
    });
    format!(
        "<td class=\"num {}\">{}{}{spread}{}{published}</td>",
        row.map_or("", |r| r.verdict.word()),
        escape(&value(measured.mean, &measured.unit)),
        row.map_or("", ComparisonRow::flag),
        row.map_or_else(String::new, verdict)
    )
}

/// If an interval's ends differ by more than this factor, as with two or three runs, it says nothing.
const WIDEST: f64 = 100.0;

/// The interval below a change, percent. If it says nothing, its ends are only shown under the pointer.
fn interval([low, high]: [f64; 2]) -> String {
    let ends = format!("{} to {}%", signed(low), signed(high));
    if 100.0 + high > WIDEST * (100.0 + low) {
        return format!("<small title=\"{ends}\">interval wider than x{WIDEST}</small>");
    }
    format!("<small>{ends}</small>")
}

/// A change with its mark, and below it its interval and p-value.
fn verdict(row: &ComparisonRow) -> String {
    let change = row.change_pct.map_or_else(|| "new".to_owned(), change);
    let interval = row.ci95_pct.map_or_else(String::new, interval);
    let power =
        row.detectable_pct.map_or_else(String::new, |d| format!("; shows changes from {} on", percent(d)));
    let why = row.why.as_ref().map_or_else(String::new, |w| format!("; {w}"));
    let words = format!("{}, p = {:.2e}{power}{why}", row.verdict.word(), row.p);
    format!(
        " <span class=\"change\" title=\"{}\">{} {}</span>{interval}",
        escape(&words),
        escape(&change),
        row.verdict.mark()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_says_nothing_is_not_written_out() {
        assert_eq!(interval([-22.9, 41.0]), "<small>-22.9 to +41.0%</small>");
        let wide = interval([-100.0, 1_594_661.0]);
        assert!(
            wide.contains(">interval wider than x100<") && wide.contains("title=\"-100 to +1594661%\""),
            "{wide}"
        );
        assert!(interval([-90.0, 905.0]).contains("wider"), "from a tenth to ten times");
        assert!(interval([900.0, 20_000.0]).contains("+900 to +20000%"), "far, and well known");
    }
}
