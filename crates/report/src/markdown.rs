//! One Markdown table: a row for each load, metric and variant.

use crate::number::{percent, signed, value};
use crate::uncertainty::summary;
use crate::{Exporter, groups, legend, row, short};
use schedlab_base::printable;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, DISAGREES};
use std::io::{self, Write};

pub struct Markdown;

impl Exporter for Markdown {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        c.stalled.iter().try_for_each(|s| writeln!(out, "**Stopped:** {}\n", plain(&s.words())))?;
        writeln!(
            out,
            "| machine | load | metric | variant | mean | std | change | 95% interval | verdict |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |")?;
        for group in groups(c) {
            for (metric, cell) in c.metrics.iter().flat_map(|m| group.iter().map(move |cell| (m, cell))) {
                if let Some(stat) = cell.metrics.get(metric) {
                    writeln!(out, "{}", line(c, cell, metric, stat))?;
                }
            }
        }
        if let Some(text) = summary(c) {
            writeln!(out, "\n{text}")?;
        }
        if !c.comparisons.is_empty() {
            writeln!(out, "\n{}", words(c))?;
        }
        if let Some(text) = legend::levels(c) {
            writeln!(out, "\n{text}")?;
        }
        if !c.warnings.is_empty() {
            writeln!(out)?;
        }
        c.warnings.iter().try_for_each(|w| writeln!(out, "- warning: {}", plain(&w.warning.message)))
    }
}

fn line(c: &Comparison, cell: &Cell, metric: &str, stat: &CellStat) -> String {
    let (mean, std) = match stat {
        CellStat::Measured(m) => {
            (value(m.mean, &m.unit), m.std_pct.map_or_else(String::new, |s| format!("{s:.1}%")))
        }
        CellStat::Missing { missing } => (format!("- ({missing})"), String::new()),
    };
    let r = row(c, cell, metric);
    let doubt = if c.disagrees(cell, metric) { DISAGREES } else { "" };
    let mean = mean + doubt + r.map_or("", ComparisonRow::flag);
    let fields = [
        cell.machine.clone(),
        format!("{} {}", cell.workload, cell.load),
        short(metric, &cell.workload).to_owned(),
        cell.variant.clone(),
        mean,
        std,
        r.and_then(|r| r.change_pct).map_or_else(String::new, percent),
        r.and_then(|r| r.ci95_pct)
            .map_or_else(String::new, |[a, b]| format!("{} to {}", signed(a), signed(b))),
        match r {
            Some(r) => r.verdict.word().to_owned(),
            None if is_baseline(c, cell) => "baseline".to_owned(),
            None => String::new(),
        },
    ];
    format!("| {} |", fields.map(|f| plain(&f)).join(" | "))
}

/// An invisible space. Forges look for people, links and issues in the text that remains once markup is removed, so
/// markup alone does not prevent that.
const NOTHING: &str = "&#8203;";

/// Escapes text so that Markdown shows it unchanged. Names come from other people's files: otherwise their HTML would
/// be interpreted, links and images followed, people and issues mentioned, and a bar would end a field. A name such as
/// `lb_count` needs no escapes.
pub fn plain(text: &str) -> String {
    let text = printable::name(text);
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let (before, behind) = (&text[..at], &text[at + c.len_utf8()..]);
        match c {
            '@' => out.extend(["@", NOTHING]),
            ':' if behind.starts_with("//") => out.extend([":", NOTHING]),
            '.' if ends_with_www(before) => out.extend([NOTHING, "."]),
            '#' if behind.starts_with(|c: char| c.is_ascii_digit()) => out.extend(["\\#", NOTHING]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '\\' | '`' | '[' | ']' | '!' | '*' | '~' | '#' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn ends_with_www(text: &str) -> bool {
    text.len().checked_sub(3).and_then(|at| text.get(at..)).is_some_and(|w| w.eq_ignore_ascii_case("www"))
}

/// The legend of the columns.
fn words(c: &Comparison) -> String {
    format!(
        "Mean and std over runs; change: typical, trimmed, over runs.{} {}",
        legend::flag(c),
        legend::words(c)
    )
}

/// Whether this cell is its group's baseline or only cell.
fn is_baseline(c: &Comparison, cell: &Cell) -> bool {
    let group = c.cells.iter().filter(|other| other.same_group(cell));
    let of_group = |r: &&ComparisonRow| {
        (&r.backend, &r.machine, &r.workload, &r.load)
            == (&cell.backend, &cell.machine, &cell.workload, &cell.load)
    };
    match c.comparisons.iter().find(of_group) {
        Some(r) => r.baseline == cell.variant,
        None => group.count() == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_are_shown_and_not_interpreted() {
        assert_eq!(
            plain("domain0.newidle.lb_count +4.2%, -1 to +2 (p < 0.05)"),
            "domain0.newidle.lb_count +4.2%, -1 to +2 (p &lt; 0.05)"
        );
        assert_eq!(plain("<img src=x onerror=alert(1)>"), "&lt;img src=x onerror=alert(1)&gt;");
        assert_eq!(
            plain("![x](http://h)|`a`\n# b\\"),
            "\\!\\[x\\](http:&#8203;//h)\\|\\`a\\`\\\\u000a\\# b\\\\"
        );
        assert_eq!(plain("&lt;b&gt;"), "&amp;lt;b&amp;gt;");
        assert_eq!(plain("v6.5@team, a@b.org"), "v6.5@&#8203;team, a@&#8203;b.org");
        assert_eq!(plain("see HTTPS://x.org WWW.x.org"), "see HTTPS:&#8203;//x.org WWW&#8203;.x.org");
        assert_eq!(plain("v6.5 #2: é://"), "v6.5 \\#&#8203;2: é:&#8203;//");
    }
}
