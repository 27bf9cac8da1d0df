//! The longest waits of the runs whose CPUs are shown, each with a button that shows its place there.

use super::escape::escape;
use super::strips::WAITS;
use super::{HtmlReport, ShownRun};
use crate::number::{duration, three};
use schedlab_analyse::explain::{Explained, TailCause, beyond, of_kept};
use schedlab_analyse::{Explanation, explain};
use std::fmt::Write;

/// The section; empty without shown runs.
pub fn section(report: &HtmlReport<'_>) -> String {
    if report.shown.is_empty() {
        return String::new();
    }
    let mut out = String::from("<section id=\"waits\"><h2>The longest waits</h2>\n");
    for (at, shown) in report.shown.iter().enumerate() {
        out += &of_run(report, at, shown);
    }
    out + "</section>\n"
}

fn of_run(report: &HtmlReport<'_>, at: usize, shown: &ShownRun<'_>) -> String {
    let e = explain(shown.record, WAITS);
    let cell = &report.comparison.cells[shown.cell];
    let mut out = format!("<h3>{}, seed {}</h3>\n", escape(&cell.variant), shown.record.seed);
    if e.worst.is_empty() {
        return out + "<p class=\"note\">The run has no wait whose cause is known.</p>\n";
    }
    out += &causes(&e);
    out += "<div class=\"wide\"><table class=\"flat\"><thead><tr><th></th><th class=\"num\">wait</th><th>task</th><th>cause</th>\
            <th class=\"num\">woken at</th><th>by</th><th>put on</th><th>behind</th><th>until</th></tr></thead><tbody>\n";
    for (n, explained) in e.worst.iter().enumerate() {
        out += &row(at, n, explained);
    }
    out += "</tbody></table></div>\n";
    out
}

fn causes(e: &Explanation) -> String {
    let pct = |part: u64, whole: u64| three(100.0 * part as f64 / whole.max(1) as f64);
    let one = |s: &TailCause| {
        format!(
            "<tr><td class=\"num\">{}%</td><td class=\"num\">{}%</td><th>{}</th><td>{}</td></tr>\n",
            pct(s.waits, e.tail.waits),
            pct(s.time_ns, e.tail.time_ns),
            escape(s.cause),
            escape(s.about)
        )
    };
    format!(
        "<p>{}. By cause{}:</p>\n<div class=\"wide\"><table><thead><tr><th class=\"num\">waits</th>\
         <th class=\"num\">time</th><th>cause</th><th></th></tr></thead><tbody>\n{}</tbody></table></div>\n",
        escape(&beyond(e)),
        escape(&of_kept(e)),
        e.tail.causes.iter().map(one).collect::<String>()
    )
}

fn row(run: usize, n: usize, explained: &Explained) -> String {
    let w = &explained.wait;
    let mut out = format!(
        "<tr><td><button type=\"button\" class=\"place\" data-run=\"{run}\" data-wait=\"{n}\">show</button></td>"
    );
    let at = w.woken_at.0;
    let placed = match &w.placement {
        Some(why) => format!("{} ({why})", w.chosen_cpu),
        None => w.chosen_cpu.to_string(),
    };
    let behind = match (&w.occupant, w.nr_running) {
        (Some(o), 3) => format!("{}, 1 other", o.task),
        (Some(o), n) if n > 3 => format!("{}, {} others", o.task, n - 2),
        (Some(o), _) => o.task.clone(),
        (None, _) => "an idle CPU".to_owned(),
    };
    let queues = w.queue_words();
    let behind = if queues.is_empty() { behind } else { format!("{behind}; {queues}") };
    let moved = w.moved.as_ref().map_or_else(String::new, |why| format!("moved ({why}) to {}; ", w.ran_on));
    let end = match &w.ended_by {
        Some(task) => format!("{moved}{task} left: {}", w.ended_why),
        None => format!("{moved}the CPU was idle"),
    };
    let _ = write!(out, "<td class=\"num\">{}</td>", duration(w.length_ns as f64));
    let _ = write!(out, "<td>{}</td><td>{}</td>", escape(&w.task), escape(explained.cause));
    let _ = write!(out, "<td class=\"num\">{}.{:06} s</td>", at / 1_000_000_000, at % 1_000_000_000 / 1000);
    for text in [w.waker.as_deref().unwrap_or("an interrupt"), &placed, &behind, &end] {
        let _ = write!(out, "<td class=\"words\">{}</td>", escape(text));
    }
    out + "</tr>\n"
}
