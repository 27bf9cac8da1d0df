//! Plots of comparisons: a metric against the number that is swept, one panel for each metric, one line for each variant
//! and whatever else differs, with 95 % intervals of the mean over runs; without a sweep bars for loads and variants.

mod axis;
mod data;
mod scene;

use axis::{Axis, label, unit};
use data::{Data, Line, Panel};
use scene::{Anchor, Mark, Scene};
use schedlab_base::{Error, Result};
use schedlab_lab::Comparison;
use std::path::Path;

const WIDTH: f64 = 760.0;
const PANEL: f64 = 260.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
const ROW: f64 = 18.0;
const SMALL: f64 = 11.0;
/// Colours that people with colour blindness tell apart as well (after Okabe and Ito).
const COLORS: [u32; 8] = [0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x000000, 0x8c6d31];
const GREY: u32 = 0x888888;
const PALE: u32 = 0xe4e4e4;
/// More panels than this are a page nobody reads.
const MAX_PANELS: usize = 40;

/// The form of a plot, by the end of its file's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Scalable; text is text.
    Svg,
    /// Pixels.
    Png,
}

impl Kind {
    /// The form that a file's name asks for.
    ///
    /// # Errors
    /// A name that ends in neither.
    pub fn of(file: &Path) -> Result<Kind> {
        match file.extension().and_then(|e| e.to_str()) {
            Some("svg") => Ok(Kind::Svg),
            Some("png") => Ok(Kind::Png),
            _ => Err(Error::input(format!("--plot {}: a plot is .svg or .png", file.display()))
                .help("--plot FILE.svg")),
        }
    }
}

/// The bytes of a plot.
///
/// # Errors
/// A comparison in which nothing was measured, or with too many metrics.
pub fn plot(comparison: &Comparison, kind: Kind) -> Result<Vec<u8>> {
    let data = data::of(comparison);
    if data.panels.is_empty() {
        return Err(Error::input("nothing to plot: no metric was measured"));
    }
    if data.panels.len() > MAX_PANELS {
        return Err(Error::input(format!("{} metrics are too many for a plot", data.panels.len()))
            .help(format!("name at most {MAX_PANELS}")));
    }
    let scene = drawn(&comparison.experiment, &data);
    match kind {
        Kind::Svg => Ok(scene.svg().into_bytes()),
        Kind::Png => scene.png(),
    }
}

/// The names of lines, in the order of their first appearance; their place is their colour.
fn names(data: &Data) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for line in data.panels.iter().flat_map(|p| &p.lines) {
        if !all.contains(&line.name.as_str()) {
            all.push(&line.name);
        }
    }
    all
}

fn text(at: (f64, f64), text: impl Into<String>, anchor: Anchor) -> Mark {
    Mark::Text { at, text: text.into(), size: SMALL, anchor }
}
fn line(points: Vec<(f64, f64)>, color: u32, width: f64) -> Mark {
    Mark::Line { points, color, width, dashed: false }
}

fn drawn(title: &str, data: &Data) -> Scene {
    let names = names(data);
    let shown = if names.len() > 1 { names.len() } else { 0 };
    let head = 34.0 + shown as f64 * ROW;
    let height = head + data.panels.len() as f64 * PANEL;
    let mut marks =
        vec![Mark::Text { at: (LEFT, 22.0), text: title.to_owned(), size: 14.0, anchor: Anchor::Start }];
    for (i, name) in names.iter().take(shown).enumerate() {
        let y = 40.0 + i as f64 * ROW;
        marks.push(line(vec![(LEFT, y - 4.0), (LEFT + 24.0, y - 4.0)], COLORS[i % COLORS.len()], 3.0));
        marks.push(text((LEFT + 30.0, y), *name, Anchor::Start));
    }
    for (i, panel) in data.panels.iter().enumerate() {
        Pane { data, panel, names: &names, top: head + i as f64 * PANEL }.draw(&mut marks);
    }
    Scene { size: (WIDTH, height), marks }
}

/// One panel with its place.
struct Pane<'a> {
    data: &'a Data,
    panel: &'a Panel,
    names: &'a [&'a str],
    top: f64,
}

impl Pane<'_> {
    fn draw(&self, marks: &mut Vec<Mark>) {
        let bounds = self.panel.lines.iter().flat_map(|l| &l.points);
        let bounds: Vec<f64> = bounds.flat_map(|p| [p.mean - p.half, p.mean, p.mean + p.half]).collect();
        let most = bounds.iter().copied().fold(0.0, f64::max);
        let (unit, factor) = unit(&self.panel.unit, most);
        // An interval that reaches below 0 is cut there where all means are above: a log axis has no 0.
        let positive = self.panel.lines.iter().flat_map(|l| &l.points).all(|p| p.mean > 0.0);
        let bounds: Vec<f64> =
            bounds.into_iter().filter(|v| !positive || *v > 0.0).map(|v| v * factor).collect();
        let y = Axis::of(&bounds, true, (self.top + PANEL - BOTTOM, self.top + TOP));
        let name = match unit {
            "" => self.panel.metric.clone(),
            unit => format!("{}, {unit}", self.panel.metric),
        };
        marks.push(text((LEFT, self.top + TOP - 8.0), name, Anchor::Start));
        for tick in y.ticks() {
            let at = y.at(tick);
            marks.push(line(vec![(LEFT, at), (WIDTH - RIGHT, at)], PALE, 1.0));
            marks.push(text((LEFT - 6.0, at + 4.0), label(tick), Anchor::End));
        }
        match &self.data.swept {
            Some((key, unit)) => self.lines(marks, &y, factor, key, unit),
            None => self.bars(marks, &y, factor),
        }
        let (left, right, low) = (LEFT, WIDTH - RIGHT, self.top + PANEL - BOTTOM);
        marks.push(line(vec![(left, self.top + TOP), (left, low), (right, low)], GREY, 1.0));
    }

    fn color(&self, of: &Line) -> u32 {
        let at = self.names.iter().position(|n| *n == of.name).unwrap_or(0);
        COLORS[at % COLORS.len()]
    }

    fn lines(&self, marks: &mut Vec<Mark>, y: &Axis, factor: f64, key: &str, key_unit: &str) {
        let all = self.data.panels.iter().flat_map(|p| &p.lines).flat_map(|l| &l.points);
        let mut xs: Vec<f64> = all.filter_map(|p| p.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (shown, scale) = unit(key_unit, xs.last().copied().unwrap_or(0.0));
        let scaled: Vec<f64> = xs.iter().map(|x| x * scale).collect();
        let x = Axis::of(&scaled, false, (LEFT, WIDTH - RIGHT));
        let low = self.top + PANEL - BOTTOM;
        // Few values are labelled themselves, many by round numbers.
        let ticks = if scaled.len() <= 8 { scaled } else { x.ticks() };
        let mut right = f64::NEG_INFINITY;
        for tick in ticks {
            let at = x.at(tick);
            marks.push(line(vec![(at, low), (at, low + 4.0)], GREY, 1.0));
            let half = label(tick).len() as f64 * 3.5;
            if at - half > right {
                marks.push(text((at, low + 16.0), label(tick), Anchor::Middle));
                right = at + half + 4.0;
            }
        }
        let name = if shown.is_empty() { key.to_owned() } else { format!("{key}, {shown}") };
        marks.push(text(((LEFT + WIDTH - RIGHT) / 2.0, low + 32.0), name, Anchor::Middle));
        for l in &self.panel.lines {
            let color = self.color(l);
            let at: Vec<(f64, f64)> =
                l.points.iter().filter_map(|p| Some((x.at(p.x? * scale), y.at(p.mean * factor)))).collect();
            for p in &l.points {
                match p.x {
                    Some(value) => {
                        whisker(marks, y, x.at(value * scale), p.mean * factor, p.half * factor, color)
                    }
                    // Not swept: the same everywhere.
                    None => {
                        let at = y.at(p.mean * factor);
                        let points = vec![(LEFT, at), (WIDTH - RIGHT, at)];
                        marks.push(Mark::Line { points, color, width: 1.5, dashed: true });
                    }
                }
            }
            for (px, py) in &at {
                marks.push(Mark::Rect { at: (px - 3.0, py - 3.0), size: (6.0, 6.0), color });
            }
            if at.len() > 1 {
                marks.push(line(at, color, 1.8));
            }
        }
    }

    fn bars(&self, marks: &mut Vec<Mark>, y: &Axis, factor: f64) {
        let (groups, low) = (&self.data.groups, self.top + PANEL - BOTTOM);
        let room = (WIDTH - RIGHT - LEFT) / groups.len().max(1) as f64;
        let width = room * 0.8 / self.names.len().max(1) as f64;
        for (i, group) in groups.iter().enumerate() {
            let middle = LEFT + (i as f64 + 0.5) * room;
            let fits = (room / 6.5) as usize;
            let name: String = group.chars().take(fits.max(3)).collect();
            marks.push(text((middle, low + 16.0), name, Anchor::Middle));
        }
        for l in &self.panel.lines {
            let color = self.color(l);
            let nth = self.names.iter().position(|n| *n == l.name).unwrap_or(0) as f64;
            for p in &l.points {
                let left = LEFT + (p.x.unwrap_or(0.0) + 0.1) * room + nth * width;
                let top = y.at(p.mean * factor);
                marks.push(Mark::Rect { at: (left, top), size: (width * 0.92, low - top), color });
                whisker(marks, y, left + width * 0.46, p.mean * factor, p.half * factor, GREY);
            }
        }
    }
}

/// An interval around a mean.
fn whisker(marks: &mut Vec<Mark>, y: &Axis, x: f64, mean: f64, half: f64, color: u32) {
    if half > 0.0 {
        let (low, high) = (y.at(mean - half), y.at(mean + half));
        marks.push(line(vec![(x, low), (x, high)], color, 1.2));
        for end in [low, high] {
            marks.push(line(vec![(x - 4.0, end), (x + 4.0, end)], color, 1.2));
        }
    }
}

#[cfg(test)]
mod tests;
