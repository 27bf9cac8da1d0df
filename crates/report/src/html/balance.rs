//! Counters of load balancing as `/proc/schedstat` has them, summed over CPUs, for each variant.

use super::Group;
use super::escape::escape;
use crate::number::count;
use schedlab_record::Record;
use schedlab_record::schedstat::{BALANCE_ROWS, IdleType, Totals};

/// The table; empty when no run has the counters.
pub fn table(group: &Group<'_>) -> String {
    let totals: Vec<Vec<Totals>> = group.runs.iter().map(|runs| totals(runs)).collect();
    let Some(first) = totals.iter().flatten().next() else { return String::new() };
    let mut body = String::new();
    for (level, domain) in first.domains.iter().enumerate() {
        for (kind, idle) in IdleType::ALL.iter().enumerate() {
            for row in BALANCE_ROWS {
                let of = |t: &Totals| t.domains.get(level).map_or(0, |d| (row.get)(&d.lb[kind]));
                let values: Vec<Option<f64>> = totals.iter().map(|runs| mean(runs, of)).collect();
                if values.iter().flatten().all(|v| *v == 0.0) {
                    continue;
                }
                let name =
                    if domain.name.is_empty() { format!("domain{level}") } else { domain.name.clone() };
                body += &format!("<tr><th>{} {} {}</th>", escape(&name), idle.name(), row.name);
                for value in values {
                    let text = value.map_or_else(|| "-".to_owned(), |v| count(v.round()));
                    body += &format!("<td class=\"num\">{text}</td>");
                }
                body += "</tr>\n";
            }
        }
    }
    if body.is_empty() {
        return String::new();
    }
    let heads: String =
        group.cells.iter().map(|c| format!("<th class=\"num\">{}</th>", escape(&c.variant))).collect();
    format!(
        "<details class=\"long\"><summary><h4 style=\"display:inline\">Balance counters (schedstat)</h4></summary>\n\
         <p class=\"note\">Domain, type of idleness, counter; sums over CPUs, means over runs; without counters that are 0.</p>\n\
         <div class=\"wide\"><table><thead><tr><th>counter</th>{heads}</tr></thead><tbody>\n{body}</tbody></table></div></details>\n"
    )
}

fn totals(runs: &[Record]) -> Vec<Totals> {
    runs.iter().filter_map(|r| Some(r.found.schedstat.as_ref()?.totals())).collect()
}

fn mean(totals: &[Totals], of: impl Fn(&Totals) -> u64) -> Option<f64> {
    (!totals.is_empty()).then(|| totals.iter().map(|t| of(t) as f64).sum::<f64>() / totals.len() as f64)
}
