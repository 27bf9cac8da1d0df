//! The result of a knee search as plain text.

use crate::number::{count, value};
use crate::text::wrap;
use crate::uncertainty::of_one;
use schedlab_lab::knee::Knees;
use schedlab_record::Metric;
use std::io::{self, Write};

/// Writes a knee search's table.
///
/// # Errors
/// What the writer says.
pub fn export(k: &Knees, out: &mut dyn Write) -> io::Result<()> {
    let unit = Metric::find(&k.limit.metric)
        .map_or_else(|_| "ns".to_owned(), |m| if m.unit.is_empty() { "ns".into() } else { m.unit });
    let sign = if k.limit.below { "<" } else { ">" };
    let limit = format!("{} {sign} {}", k.limit.metric, value(k.limit.value, &unit));
    let head =
        format!("largest {} of {} with {limit}, on {} ({})", k.parameter, k.workload, k.machine, k.backend);
    write!(out, "{}", wrap("", &head))?;
    writeln!(out, "{:<24}{:>10}  {:<20}by seed", "variant", "knee", "95% interval")?;
    for v in &k.variants {
        let interval = v.ci95.map_or_else(String::new, |[a, b]| format!("[{}, {}]", count(a), count(b)));
        let knees: Vec<String> = v.knees.iter().map(u64::to_string).collect();
        let mean = if v.knees.is_empty() { "-".to_owned() } else { format!("{:.1}", v.mean) };
        let first = format!("{:<24}{mean:>10}  {interval:<20}", v.variant);
        write!(out, "{}", wrap(&first, &knees.join(" ")))?;
        if v.unknown > 0 {
            let text = format!(
                "{} seeds can't tell: {} is missing at loads that matter, for lack of samples; run longer",
                v.unknown, k.limit.metric
            );
            write!(out, "{}", wrap("  ", &text))?;
        }
        if let Some(sway) = &v.uncertainty {
            write!(out, "{}", wrap("  ", &of_one(sway, "")))?;
        }
        if v.at_cap > 0 {
            let text = format!(
                "{} of {} seeds reached the cap of {}: the knee may lie above",
                v.at_cap,
                v.knees.len(),
                k.cap
            );
            write!(out, "{}", wrap("  ", &text))?;
        }
    }
    if k.interrupted {
        writeln!(out, "interrupted: seeds that were not finished are left out")?;
    }
    k.warnings.iter().try_for_each(|w| write!(out, "{}", wrap("warning: ", &w.message)))
}
