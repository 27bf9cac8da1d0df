//! Plots of comparisons: one panel for each metric, which shows it over the swept number. Each combination of variant
//! and other differences is a line, with 95 % intervals of the mean over runs. Without a sweep, there are bars for
//! loads and variants.

mod axis;
mod data;
pub mod heat;
mod pane;
mod scene;

use crate::text::stack;
use data::PlotData;
use pane::Pane;
use scene::{Anchor, Mark, Scene};
use schedlab_base::{Error, Result};
use schedlab_compare::Comparison;
use std::path::Path;

const WIDTH: f64 = 760.0;
/// Height within a panel's axes.
const INNER: f64 = 184.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
const ROW: f64 = 18.0;
const SMALL: f64 = 11.0;
/// Usual width of a character, and height of a line of labels.
const CHARACTER: f64 = 6.5;
const LABEL: f64 = 13.0;
/// Smallest width of a bar, and of a group with its labels.
const BAR: f64 = 7.0;
const GROUP: f64 = 82.0;
/// Colours that people with colour blindness can distinguish, too (after Okabe and Ito).
const COLORS: [u32; 8] = [0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x000000, 0x8c6d31];
/// How many variations of [`COLORS`] can be distinguished easily: as they are, lighter, darker.
const ROUNDS: usize = 3;
const GREY: u32 = 0x888888;
const DARK: u32 = 0x222222;
const WHITE: u32 = 0xffffff;
const PALE: u32 = 0xe4e4e4;
/// The most panels of a plot: nobody would read more.
const MAX_PANELS: usize = 40;

/// The format of a plot, by its file's extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlotFile {
    /// Scalable; text stays text.
    Svg,
    Png,
}

impl PlotFile {
    /// The format for a file's name.
    ///
    /// # Errors
    /// When the name has another extension.
    pub fn of(file: &Path) -> Result<PlotFile> {
        match file.extension().and_then(|e| e.to_str()) {
            Some("svg") => Ok(PlotFile::Svg),
            Some("png") => Ok(PlotFile::Png),
            _ => Err(Error::input(format!("--plot {}: a plot is .svg or .png", file.display()))
                .help("write --plot FILE.svg")),
        }
    }
}

/// Draws a plot.
///
/// # Errors
/// When the comparison has no measured metric, or too many metrics.
pub fn plot(comparison: &Comparison, kind: PlotFile) -> Result<Vec<u8>> {
    let data = data::by_workload(comparison);
    let panels: usize = data.iter().map(|d| d.panels.len()).sum();
    if panels == 0 {
        return Err(Error::input("nothing to plot: no metric was measured"));
    }
    if panels > MAX_PANELS {
        return Err(Error::input(format!("{panels} metrics are too many for a plot"))
            .help(format!("name at most {MAX_PANELS} metrics")));
    }
    let scene = drawn(&comparison.experiment, &data);
    match kind {
        PlotFile::Svg => Ok(scene.svg().into_bytes()),
        PlotFile::Png => scene.png(),
    }
}

/// The names of lines, in order of first appearance. A name's index sets its colour.
fn names(data: &[PlotData]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for line in data.iter().flat_map(|d| &d.panels).flat_map(|p| &p.lines) {
        if !all.contains(&line.name.as_str()) {
            all.push(&line.name);
        }
    }
    all
}

/// The colour of a line or bar by its index. The first 24 are all different.
fn color(at: usize) -> u32 {
    let base = COLORS[at % COLORS.len()];
    let mixed = |with: u32, share: u32| {
        let part = |shift: u32| {
            let (own, other) = ((base >> shift) & 0xff, (with >> shift) & 0xff);
            ((own * (100 - share) + other * share) / 100) << shift
        };
        part(16) | part(8) | part(0)
    };
    match at / COLORS.len() % ROUNDS {
        0 => base,
        1 => mixed(WHITE, 55),
        _ => mixed(0x804000, 55),
    }
}

fn text(at: (f64, f64), text: impl Into<String>, anchor: Anchor) -> Mark {
    Mark::Text { at, text: text.into(), size: SMALL, anchor }
}
fn line(points: Vec<(f64, f64)>, color: u32, width: f64) -> Mark {
    Mark::Line { points, color, width, dashed: false }
}

/// The measures shared by all panels.
struct Frame {
    width: f64,
    /// Height below the axes.
    bottom: f64,
    /// Labels of the groups of bars, in lines.
    labels: Vec<Vec<String>>,
}

impl Frame {
    /// Makes the drawing wide enough for all groups of bars, and tall enough for their labels.
    fn of(data: &PlotData, bars: usize) -> Frame {
        let groups = data.groups.len();
        let room = (WIDTH - LEFT - RIGHT) / groups.max(1) as f64;
        let room = if groups == 0 { room } else { room.max(GROUP).max(bars as f64 * BAR / 0.8) };
        let fits = ((room - CHARACTER) / CHARACTER) as usize;
        let labels: Vec<Vec<String>> = data.groups.iter().map(|g| stack(g, fits)).collect();
        let lines = labels.iter().map(Vec::len).max().unwrap_or(1);
        let width = if groups == 0 { WIDTH } else { LEFT + RIGHT + groups as f64 * room };
        Frame { width, bottom: BOTTOM + (lines - 1) as f64 * LABEL, labels }
    }
    fn panel(&self) -> f64 {
        TOP + INNER + self.bottom
    }
    /// The right end of the axes.
    fn right(&self) -> f64 {
        self.width - RIGHT
    }
}

fn drawn(title: &str, data: &[PlotData]) -> Scene {
    let names = names(data);
    let shown = if names.len() > 1 { names.len() } else { 0 };
    let points = data.iter().flat_map(|d| &d.panels).flat_map(|p| &p.lines).flat_map(|l| &l.points);
    let published = points.into_iter().any(|p| p.published.is_some());
    let head = 34.0 + (shown + usize::from(published)) as f64 * ROW;
    let mut frames: Vec<Frame> = data.iter().map(|d| Frame::of(d, names.len())).collect();
    let width = frames.iter().map(|f| f.width).fold(0.0, f64::max);
    frames.iter_mut().for_each(|f| f.width = width);
    let heights = data.iter().zip(&frames).map(|(d, f)| d.panels.len() as f64 * f.panel());
    let height = head + heights.sum::<f64>();
    let mut marks =
        vec![Mark::Text { at: (LEFT, 22.0), text: title.to_owned(), size: 14.0, anchor: Anchor::Start }];
    for (i, name) in names.iter().take(shown).enumerate() {
        let y = 40.0 + i as f64 * ROW;
        marks.push(line(vec![(LEFT, y - 4.0), (LEFT + 24.0, y - 4.0)], color(i), 3.0));
        marks.push(text((LEFT + 30.0, y), *name, Anchor::Start));
    }
    if published {
        let y = 40.0 + shown as f64 * ROW;
        marks.extend(pane::diamond((LEFT + 12.0, y - 4.0)));
        marks.push(text((LEFT + 30.0, y), "published", Anchor::Start));
    }
    let mut top = head;
    for (data, frame) in data.iter().zip(&frames) {
        for panel in &data.panels {
            Pane { data, panel, names: &names, frame, top }.draw(&mut marks);
            top += frame.panel();
        }
    }
    Scene { size: (width, height), marks }
}

#[cfg(test)]
mod tests;
