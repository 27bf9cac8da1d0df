//! Makes docs/metrics.md from the table.

use super::{METRICS, Metric};
use crate::Observe;
use std::fmt::Write;

const HEAD: &str = include_str!("page-head.md");

pub fn page() -> String {
    let mut text = HEAD.to_owned();
    for m in METRICS {
        let backends = m.backends.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
        let backends = match m.watched {
            Observe::Accounts => backends,
            Observe::Stays | Observe::Counters => backends.replace("host", "host (counters)"),
            Observe::Caches => backends.replace("host", "host (caches)"),
            Observe::Events => backends.replace("host", "host (events)"),
        };
        let unit = match (m.unit, m.name) {
            ("", super::PROGRAM_SERIES) => "declared",
            ("", _) => "count",
            (unit, _) => unit,
        };
        let better = if m.name == super::PROGRAM_SERIES { "declared" } else { m.better.name() };
        // Writing to a String can't fail.
        let _ = writeln!(text, "| `{}` | {unit} | {better} | {backends} | {} |", m.name, m.about);
    }
    METRICS.iter().for_each(|m| choices(m, &mut text));
    text
}

/// The names that can fill a row's placeholder. Rows with the same names are listed with the first.
fn choices(metric: &Metric, text: &mut String) {
    let Some(choices) = metric.choices else { return };
    let words = choices();
    let same: Vec<&str> =
        METRICS.iter().filter(|m| m.choices.is_some_and(|c| c() == words)).map(|m| m.name).collect();
    if same[0] != metric.name {
        return;
    }
    let names: Vec<String> = same.iter().map(|n| format!("`{n}`")).collect();
    let _ = writeln!(text, "\n## {}\n\n| name | meaning |\n| --- | --- |", names.join(", "));
    for (word, about) in words {
        let _ = writeln!(text, "| `{word}` | {about} |");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_metrics_page_agrees_with_the_table() {
        schedlab_base::testing::page_is("docs/metrics.md", &super::page());
    }
}
