//! The machines and environments of the runs, warnings, and how to make the runs again.

use super::HtmlReport;
use super::escape::escape;
use std::collections::BTreeSet;
use std::fmt::Write;

pub fn environment(report: &HtmlReport<'_>) -> String {
    let mut out = String::from("<section id=\"environment\"><h2>Environment and warnings</h2>\n");
    let warnings = &report.comparison.warnings;
    if warnings.is_empty() {
        out += "<p>No warnings.</p>\n";
    } else {
        out += "<ul>\n";
        for w in warnings {
            let runs = match w.runs {
                0 => String::new(),
                1 => " (1 run)".to_owned(),
                n => format!(" ({})", schedlab_base::counted(n, "run")),
            };
            let _ = writeln!(out, "<li>{}{runs}</li>", escape(&w.warning.message));
        }
        out += "</ul>\n";
    }
    out += "<div class=\"wide\"><table><tbody>\n";
    for (name, values) in facts(report) {
        let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(&name), escape(&values.join("; ")));
    }
    out + "</tbody></table></div>\n</section>\n"
}

/// Facts about machines and environments, each with its different values.
fn facts(report: &HtmlReport<'_>) -> Vec<(String, Vec<String>)> {
    let runs = || report.runs.iter().flatten();
    let mut facts: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |name: &str, values: Vec<String>| {
        let different: BTreeSet<String> = values.into_iter().filter(|v| !v.is_empty()).collect();
        if !different.is_empty() {
            facts.push((name.to_owned(), different.into_iter().collect()));
        }
    };
    add(
        "machine",
        runs()
            .map(|r| {
                format!("{}, {}", r.machine.name, schedlab_base::counted(r.machine.topology.nr_cpus(), "CPU"))
            })
            .collect(),
    );
    add("kernel", runs().map(|r| r.kernel.clone()).collect());
    add("backend", runs().map(|r| r.backend.to_string()).collect());
    add("model", runs().map(|r| r.model.to_string()).collect());
    let keys: BTreeSet<&String> = runs().flat_map(|r| r.found.environment.keys()).collect();
    for key in keys {
        add(key, runs().filter_map(|r| r.found.environment.get(key).cloned()).collect());
    }
    facts
}

/// How to make the runs again.
pub fn again(report: &HtmlReport<'_>) -> String {
    let mut out = String::from("<section id=\"again\"><h2>How to make it again</h2>\n");
    let _ = writeln!(
        out,
        "<p>This report, from the stored runs (schedlab {}, model {}):</p>\n<pre>{}</pre>",
        escape(report.version),
        report.comparison.model,
        escape(report.command)
    );
    out += "<p>The runs themselves:</p>\n<div class=\"wide\"><table><thead><tr><th>load</th><th>variant</th>\
            <th>seeds</th><th>command</th></tr></thead><tbody>\n";
    for (cell, again) in report.comparison.cells.iter().zip(report.again) {
        let none = "no single command line does it: it needs the experiment that made it";
        let line = again.as_deref().unwrap_or(none);
        let _ = writeln!(
            out,
            "<tr><th>{} {}</th><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            escape(&cell.workload),
            escape(&cell.load),
            escape(&cell.variant),
            schedlab_compare::runs::seeds(&cell.seeds),
            escape(line).replace('\n', "<br>")
        );
    }
    out + "</tbody></table></div>\n</section>\n"
}
