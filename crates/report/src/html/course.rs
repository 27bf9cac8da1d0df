//! The page of a history: its changes, and the course of each metric on all machines, with levels and changes.

use super::colour;
use super::curves::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, drawing};
use super::escape::escape;
use super::page::head;
use super::scale::label;
use crate::gate::{at_words, heading, machines, named, notes, size, when, word};
use crate::number::{percent, value};
use schedlab_compare::history::{At, Change, Judged, Series};
use std::collections::BTreeSet;
use std::fmt::Write;

/// About how many lines a vertical scale has.
const TICKS: f64 = 4.0;

/// The page of a history.
pub fn history(judged: &Judged, title: &str, version: &str) -> String {
    let mut out = head(title);
    let _ = writeln!(
        out,
        "<header><h1>{}</h1>\n<p>{}</p>\n<p class=\"note\">Made by schedlab {}.</p></header>",
        escape(title),
        escape(&heading(judged)),
        escape(version)
    );
    out += &changes(judged);
    notes(judged).iter().for_each(|note| out += &format!("<p class=\"note\">{}</p>\n", escape(note)));
    let mut seen = BTreeSet::new();
    for first in &judged.series {
        let of: Vec<&Series> = judged.series.iter().filter(|s| is_same(s, first)).collect();
        if seen.insert((&first.workload, &first.load, &first.metric)) {
            out += &section(judged, &of);
        }
    }
    out + "</body></html>\n"
}

fn is_same(a: &Series, b: &Series) -> bool {
    (&a.workload, &a.load, &a.metric) == (&b.workload, &b.load, &b.metric)
}

/// The table of changes and drifts.
fn changes(j: &Judged) -> String {
    if j.changes.is_empty() && j.drifts.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<div class=\"wide\"><table><thead><tr><th>verdict</th><th>metric</th><th>change</th><th>when</th><th>machines</th></tr></thead><tbody>\n",
    );
    let mut row = |class: &str, fields: [String; 5]| {
        let [verdict, metric, change, when, machines] = fields.map(|f| escape(&f));
        let _ = writeln!(
            out,
            "<tr class=\"{class}\"><td class=\"change\">{verdict}</td><td>{metric}</td><td class=\"num change\">{change}</td><td>{when}</td><td>{machines}</td></tr>"
        );
    };
    for c in &j.changes {
        let what = named(&c.workload, &c.load, &c.metric);
        let class = if word(c) == c.verdict.word() { word(c) } else { "unclear" };
        row(class, [word(c).to_owned(), what, size(c.change_pct, c.ci95_pct), when(c), machines(c)]);
    }
    for d in &j.drifts {
        let span = format!("{} to {}", at_words(&d.from), at_words(&d.to));
        let what = named(&d.workload, &d.load, &d.metric);
        row("unclear", ["drift".to_owned(), what, percent(d.change_pct), span, d.machine.clone()]);
    }
    out + "</tbody></table></div>\n"
}

/// The course of one metric on its machines.
fn section(j: &Judged, of: &[&Series]) -> String {
    let Some(first) = of.first() else { return String::new() };
    let name = named(&first.workload, &first.load, &first.metric);
    let machine = |(at, s): (usize, &&Series)| {
        format!("<span class=\"{}\"><i></i>{}</span>", colour(at), escape(&s.machine))
    };
    let key: String = of.iter().enumerate().filter(|(_, s)| !s.machine.is_empty()).map(machine).collect();
    let places = places(of);
    let Some(y) = Linear::of(of) else { return String::new() };
    let x = |at: &At| {
        let place = places.iter().position(|p| p == at).unwrap_or(0) as f64;
        LEFT + (place + 0.5) / places.len() as f64 * (WIDTH - LEFT - RIGHT)
    };
    // Machines have levels of their own: changes are compared, not machines.
    let (caption, unit) = match of.len() {
        1 => ("", first.unit.as_str()),
        _ => ("percent of each machine's first level", ""),
    };
    let mut svg = y.lines(unit);
    for (end, anchor) in [(places.first(), "start"), (places.last(), "end")] {
        let Some(at) = end else { continue };
        let text = if at.date.is_empty() { &at.commit } else { &at.date };
        let at = if anchor == "start" { LEFT } else { WIDTH - RIGHT };
        let _ = write!(
            svg,
            "<text x=\"{at}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - 8.0,
            escape(text)
        );
    }
    for c in j
        .changes
        .iter()
        .filter(|c| (&c.workload, &c.load, &c.metric) == (&first.workload, &first.load, &first.metric))
    {
        svg += &mark(c, x(&c.first));
    }
    of.iter().enumerate().for_each(|(at, s)| svg += &course(s, &colour(at), &x, &y));
    format!(
        "<section><h2>{0}</h2>\n<div class=\"key\">{key}</div>\n<figure><figcaption>{caption}</figcaption>{1}</figure></section>\n",
        escape(&name),
        drawing(&format!("the course of {name}"), &svg)
    )
}

/// A vertical line where the metric changed.
fn mark(c: &Change, x: f64) -> String {
    let tip = format!("{} {}: {}", word(c), size(c.change_pct, c.ci95_pct), when(c));
    format!(
        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" style=\"stroke:var(--{}, var(--dim));stroke-width:2;stroke-dasharray:4 3\"><title>{}</title></line>",
        HEIGHT - BOTTOM,
        word(c),
        escape(&tip)
    )
}

/// A point for each unit and a line for each level.
fn course(s: &Series, class: &str, x: &dyn Fn(&At) -> f64, y: &Linear) -> String {
    let point = |u: &schedlab_compare::history::Unit| {
        format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\" style=\"fill:var(--own)\"><title>{}</title></circle>",
            x(&u.at),
            y.at(u.mean * y.factor(s)),
            escape(&format!("{} {}: {}", s.machine, at_words(&u.at), value(u.mean, &s.unit)))
        )
    };
    let mut out = format!("<g class=\"{class}\">{}", s.units.iter().map(point).collect::<String>());
    for (i, level) in s.levels.iter().enumerate() {
        let to = s.levels.get(i + 1).map_or(s.units.len(), |next| next.from);
        let ends = [&s.units[level.from].at, &s.units[to - 1].at]
            .map(|at| format!("{:.1},{:.1}", x(at), y.at(level.mean * y.factor(s))));
        let _ = write!(out, "<polyline class=\"line {class}\" points=\"{}\"/>", ends.join(" "));
    }
    out + "</g>"
}

/// The units of all machines in order, each once.
fn places(of: &[&Series]) -> Vec<At> {
    let mut all: Vec<At> = Vec::new();
    for unit in of.iter().flat_map(|s| &s.units) {
        if !all.contains(&unit.at) {
            all.push(unit.at.clone());
        }
    }
    // Units of one day keep their order.
    all.sort_by(|a, b| a.date.cmp(&b.date));
    all
}

/// A linear vertical scale.
struct Linear {
    low: f64,
    high: f64,
    /// Of several machines values are in percent of the first level.
    of_several: bool,
}

impl Linear {
    fn of(series: &[&Series]) -> Option<Linear> {
        let of_several = series.len() > 1;
        let values = || series.iter().flat_map(|s| s.units.iter().map(|u| u.mean * factor(of_several, s)));
        let (low, high) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let margin = (0.08 * (high - low)).max(0.01 * high.abs()).max(f64::MIN_POSITIVE);
        Some(Linear { low: low - margin, high: high + margin, of_several })
    }
    fn factor(&self, s: &Series) -> f64 {
        factor(self.of_several, s)
    }
    fn at(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - BOTTOM - TOP)
    }
    /// Lines at round values.
    fn lines(&self, unit: &str) -> String {
        let rough = (self.high - self.low) / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil();
        let all = (0..2 * TICKS as usize).map(|i| (first + i as f64) * step).take_while(|v| *v <= self.high);
        let tick = |v: f64| {
            format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
                WIDTH - RIGHT,
                self.at(v),
                LEFT - 5.0,
                self.at(v) + 4.0,
                escape(&label(v, unit))
            )
        };
        all.map(tick).collect()
    }
}

/// What makes percent of the first level of a series' values; 1 for one machine, and where that level is not above 0.
fn factor(of_several: bool, s: &Series) -> f64 {
    let first = s.levels.first().map_or(0.0, |level| level.mean);
    if of_several && first > 0.0 { 100.0 / first } else { 1.0 }
}
