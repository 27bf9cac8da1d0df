//! Histograms of all variants, drawn over each other: the share of values in bars of equal width on a logarithmic
//! scale.

use super::colour;
use super::curves::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, drawing};
use super::escape::escape;
use super::points::{bars, next};
use super::scale::{Log, label};
use schedlab_record::Series;
use std::fmt::Write;

/// The figure of a series, given for each cell of the group; empty if there is nothing to draw.
pub fn figure(name: &str, series: &[Option<Series>]) -> String {
    let unit = series.iter().flatten().next().map_or("", Series::unit);
    let all: Vec<(usize, Vec<(f64, f64)>)> =
        series.iter().enumerate().filter_map(|(at, s)| Some((at, bars(s.as_ref()?)))).collect();
    let bounds = all.iter().flat_map(|(_, b)| b.iter().flat_map(|(low, _)| [*low, next(*low)]));
    let Some(x) = Log::of(bounds, (LEFT, WIDTH - RIGHT)) else { return String::new() };
    let most = all.iter().flat_map(|(_, b)| b.iter().map(|(_, share)| *share)).fold(0.0, f64::max);
    let base = HEIGHT - BOTTOM;
    let y = |share: f64| base - share / most * (base - TOP);
    let mut svg = String::new();
    for tick in x.ticks() {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{base}\"/><text x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\">{2}</text>",
            x.at(tick),
            HEIGHT - 8.0,
            escape(&label(tick, unit))
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{0}\" y=\"{1:.1}\" text-anchor=\"end\">{2:.0}%</text><text x=\"{0}\" y=\"{base}\" text-anchor=\"end\">0</text>",
        LEFT - 5.0,
        TOP + 6.0,
        100.0 * most
    );
    for (at, bars) in &all {
        let path = outline(bars, &x, y, base);
        let _ = write!(
            svg,
            "<path class=\"area {0}\" d=\"{path}Z\"/><path class=\"line {0}\" d=\"{path}\"/>",
            colour(*at)
        );
    }
    let about = format!("histogram of {name}");
    format!(
        "<figure><figcaption>{}: share of values</figcaption>\n{}</figure>\n",
        escape(name),
        drawing(&about, &svg)
    )
}

/// The outline of the bars, from the base line and back to it.
fn outline(bars: &[(f64, f64)], x: &Log, y: impl Fn(f64) -> f64, base: f64) -> String {
    let mut path = String::new();
    let mut right = f64::NEG_INFINITY;
    for (low, share) in bars {
        let (from, until) = (x.at(*low), x.at(next(*low)));
        if (from - right).abs() > 0.05 {
            if right.is_finite() {
                let _ = write!(path, "V{base:.1}");
            }
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{from:.1} {base:.1}");
        }
        let _ = write!(path, "V{:.1}H{until:.1}", y(*share));
        right = until;
    }
    let _ = write!(path, "V{base:.1}");
    path
}
