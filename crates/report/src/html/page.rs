//! The page around the sections: head, title, navigation, scripts.

use super::escape::escape;
use super::{HtmlReport, loads, matrix, notes, strips, waits};
use schedlab_base::counted;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SELFTEST: &str = include_str!("selftest.js");
const CURVES: &str = include_str!("curves.js");
const PIXELS: &str = include_str!("pixels.js");
const STRIPS: &str = include_str!("strips.js");

pub fn page(report: &HtmlReport<'_>) -> String {
    let mut out = head(report.title);
    out += &top(report);
    out += &matrix::section(report);
    out += &strips::section(report);
    out += &waits::section(report);
    out += &loads::section(report);
    out += &notes::environment(report);
    out += &notes::again(report);
    for script in [CURVES, PIXELS, STRIPS] {
        let _ = writeln!(out, "<script>\n{script}</script>");
    }
    out + "</body></html>\n"
}

/// The file up to its content. Nothing may be loaded from elsewhere.
pub fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n<script>\n{SELFTEST}</script>\n</head><body>\n",
        escape(title)
    )
}

fn top(report: &HtmlReport<'_>) -> String {
    let c = report.comparison;
    let mut out = format!("<header><h1>{}</h1>\n", escape(report.title));
    if !report.about.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escape(report.about));
    }
    let runs: usize = c.cells.iter().map(|c| c.runs).sum();
    let mut seeds: Vec<u64> = c.cells.iter().flat_map(|c| c.seeds.iter().copied()).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let made = match &report.made {
        (first, _) if first.is_empty() => String::new(),
        (first, last) if first == last => format!(", stored {first} UTC"),
        (first, last) => format!(", stored {first} to {last} UTC"),
    };
    let _ = writeln!(
        out,
        "<p class=\"note\">{} in {}, seeds {}{made}. Made by schedlab {} with <code>{}</code></p>",
        counted(runs, "run"),
        counted(c.cells.len(), "cell"),
        schedlab_compare::runs::seeds(&seeds),
        escape(report.version),
        escape(report.command)
    );
    out += "<nav><a href=\"#comparison\">Comparison</a><a href=\"#cores\">Cores x time</a>";
    if !report.shown.is_empty() {
        out += "<a href=\"#waits\">Longest waits</a>";
    }
    out + "<a href=\"#loads\">Latency, slices, reasons</a><a href=\"#environment\">Environment</a>\
           <a href=\"#again\">Make it again</a></nav></header>\n"
}
