//! A curve for each variant: the value at each percentile. Both scales are logarithmic, so that the tail has space.

use super::escape::escape;
use super::points::{CurvePoint, curve, nines};
use super::scale::{Log, label};
use super::{LoadGroup, colour};
use crate::number::value;
use schedlab_record::Series;
use serde_json::json;
use std::fmt::Write;

/// Size of the drawing, in its own units.
pub const WIDTH: f64 = 440.0;
pub const HEIGHT: f64 = 230.0;
pub const LEFT: f64 = 48.0;
pub const RIGHT: f64 = 10.0;
pub const TOP: f64 = 10.0;
pub const BOTTOM: f64 = 24.0;

/// Half the width of the longest label of a percentile.
const LABEL: f64 = 22.0;
const TICKS: [f64; 6] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99];

/// The figure of a series, given for each cell of the group; empty if there is nothing to draw.
pub fn figure(group: &LoadGroup<'_>, name: &str, series: &[Option<Series>]) -> String {
    let unit = series.iter().flatten().next().map_or("", Series::unit);
    let lines: Vec<(usize, Vec<CurvePoint>)> =
        series.iter().enumerate().filter_map(|(at, s)| Some((at, curve(s.as_ref()?)))).collect();
    let values = lines.iter().flat_map(|(_, points)| points.iter().map(|p| p.value));
    let Some(y) = Log::of(values, (HEIGHT - BOTTOM, TOP)) else { return String::new() };
    let most = lines.iter().flat_map(|(_, p)| p.iter().map(|p| nines(p.percentile))).fold(0.1, f64::max);
    let x = |percentile: f64| LEFT + nines(percentile) / most * (WIDTH - LEFT - RIGHT);
    let mut svg = String::new();
    for tick in TICKS.into_iter().filter(|t| nines(*t) <= most) {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{1}\"/><text x=\"{0:.1}\" y=\"{2}\" text-anchor=\"{3}\">{tick}%</text>",
            x(tick),
            HEIGHT - BOTTOM,
            HEIGHT - 8.0,
            // The last label would overlap the edge.
            if x(tick) > WIDTH - LABEL { "end" } else { "middle" }
        );
    }
    svg += &across(&y, unit);
    for (at, points) in &lines {
        let path: Vec<String> =
            points.iter().map(|p| format!("{:.1},{:.1}", x(p.percentile), y.at(p.value))).collect();
        let _ = write!(svg, "<polyline class=\"line {}\" points=\"{}\"/>", colour(*at), path.join(" "));
    }
    let _ = write!(svg, "<line class=\"hair\" x1=\"0\" x2=\"0\" y1=\"{TOP}\" y2=\"{}\"/>", HEIGHT - BOTTOM);
    format!(
        "<figure data-points=\"{}\"><figcaption>{} by percentile</figcaption>\n{}\n<div class=\"told\">{}</div></figure>\n",
        escape(&points_json(group, &lines, unit, x).to_string()),
        escape(name),
        drawing(&format!("{name} by percentile"), &svg),
        "point at the chart for values"
    )
}

/// The values at each percentile, to be shown under the pointer.
fn points_json(
    group: &LoadGroup<'_>,
    lines: &[(usize, Vec<CurvePoint>)],
    unit: &str,
    x: impl Fn(f64) -> f64,
) -> serde_json::Value {
    let mut all: Vec<f64> =
        lines.iter().flat_map(|(_, points)| points.iter().map(|p| p.percentile)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let line = |(at, points): &(usize, Vec<CurvePoint>)| {
        let at_each = all.iter().map(|p| points.iter().find(|o| o.percentile == *p));
        let texts: Vec<String> =
            at_each.map(|p| p.map_or_else(String::new, |p| value(p.value, unit))).collect();
        json!({ "name": group.cells[*at].variant, "told": texts })
    };
    json!({
        "x": all.iter().map(|p| (x(*p) * 10.0).round() / 10.0).collect::<Vec<_>>(),
        "names": all.iter().map(|p| format!("p{p}")).collect::<Vec<_>>(),
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
    })
}

/// Lines and labels of a vertical scale.
pub fn across(y: &Log, unit: &str) -> String {
    let tick = |v: &f64| {
        format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{1}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            y.at(*v),
            WIDTH - RIGHT,
            LEFT - 5.0,
            y.at(*v) + 4.0,
            escape(&label(*v, unit))
        )
    };
    y.ticks().iter().map(tick).collect()
}

/// The SVG element.
pub fn drawing(about: &str, content: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{content}</svg>",
        escape(about)
    )
}
