//! One panel: its axes, lines or bars with intervals, and published figures as marks.

use super::axis::{Axis, label, unit};
use super::data::{Line, Panel, PlotData};
use super::scene::{Anchor, Mark};
use super::{DARK, Frame, GREY, INNER, LABEL, LEFT, PALE, TOP, WHITE, color, line, text};

/// A panel and its position.
pub struct Pane<'a> {
    pub data: &'a PlotData,
    pub panel: &'a Panel,
    pub names: &'a [&'a str],
    pub frame: &'a Frame,
    pub top: f64,
}

impl Pane<'_> {
    pub fn draw(&self, marks: &mut Vec<Mark>) {
        let points = || self.panel.lines.iter().flat_map(|l| &l.points);
        let own = points().flat_map(|p| [p.mean - p.half, p.mean, p.mean + p.half]);
        let bounds: Vec<f64> = own.chain(points().filter_map(|p| p.published)).collect();
        let most = bounds.iter().copied().fold(0.0, f64::max);
        let (unit, factor) = unit(&self.panel.unit, most);
        // A logarithmic axis has no 0: if all means are above 0, parts of intervals at or below 0 are left out.
        let positive = points().all(|p| p.mean > 0.0);
        let bounds: Vec<f64> =
            bounds.into_iter().filter(|v| !positive || *v > 0.0).map(|v| v * factor).collect();
        let y = Axis::of(&bounds, true, (self.low(), self.top + TOP));
        let name = match unit {
            "" => self.panel.metric.clone(),
            unit => format!("{}, {unit}", self.panel.metric),
        };
        marks.push(text((LEFT, self.top + TOP - 8.0), name, Anchor::Start));
        for tick in y.ticks() {
            let at = y.at(tick);
            marks.push(line(vec![(LEFT, at), (self.frame.right(), at)], PALE, 1.0));
            marks.push(text((LEFT - 6.0, at + 4.0), label(tick), Anchor::End));
        }
        match &self.data.swept {
            Some((key, unit)) => self.lines(marks, &y, factor, key, unit),
            None => self.bars(marks, &y, factor),
        }
        let (left, right, low) = (LEFT, self.frame.right(), self.low());
        marks.push(line(vec![(left, self.top + TOP), (left, low), (right, low)], GREY, 1.0));
    }

    /// The lower end of the axes.
    fn low(&self) -> f64 {
        self.top + TOP + INNER
    }

    fn color(&self, of: &Line) -> u32 {
        color(self.names.iter().position(|n| *n == of.name).unwrap_or(0))
    }

    fn lines(&self, marks: &mut Vec<Mark>, y: &Axis, factor: f64, key: &str, key_unit: &str) {
        let all = self.data.panels.iter().flat_map(|p| &p.lines).flat_map(|l| &l.points);
        let mut xs: Vec<f64> = all.filter_map(|p| p.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (shown, scale) = unit(key_unit, xs.last().copied().unwrap_or(0.0));
        let scaled: Vec<f64> = xs.iter().map(|x| x * scale).collect();
        let x = Axis::of(&scaled, false, (LEFT, self.frame.right()));
        let low = self.low();
        // A few values are labelled one by one, many by round numbers.
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
        marks.push(text(((LEFT + self.frame.right()) / 2.0, low + 32.0), name, Anchor::Middle));
        for l in &self.panel.lines {
            let color = self.color(l);
            let at: Vec<(f64, f64)> =
                l.points.iter().filter_map(|p| Some((x.at(p.x? * scale), y.at(p.mean * factor)))).collect();
            for p in &l.points {
                match p.x {
                    Some(value) => {
                        whisker(marks, y, x.at(value * scale), p.mean * factor, p.half * factor, color)
                    }
                    // A cell without a swept number has one value along the whole axis.
                    None => {
                        let at = y.at(p.mean * factor);
                        let points = vec![(LEFT, at), (self.frame.right(), at)];
                        marks.push(Mark::Line { points, color, width: 1.5, dashed: true });
                    }
                }
            }
            for p in &l.points {
                let Some((px, py)) = p.x.map(|v| (x.at(v * scale), y.at(p.mean * factor))) else { continue };
                let square = Mark::Rect { at: (px - 3.0, py - 3.0), size: (6.0, 6.0), color };
                marks.push(Mark::Tipped { mark: Box::new(square), tip: p.tip.clone() });
                marks.extend(p.published.into_iter().flat_map(|v| diamond((px, y.at(v * factor)))));
            }
            if at.len() > 1 {
                marks.push(line(at, color, 1.8));
            }
        }
    }

    fn bars(&self, marks: &mut Vec<Mark>, y: &Axis, factor: f64) {
        let low = self.low();
        let room = (self.frame.right() - LEFT) / self.frame.labels.len().max(1) as f64;
        let width = room * 0.8 / self.names.len().max(1) as f64;
        for (i, label) in self.frame.labels.iter().enumerate() {
            let middle = LEFT + (i as f64 + 0.5) * room;
            for (n, words) in label.iter().enumerate() {
                marks.push(text((middle, low + 16.0 + n as f64 * LABEL), words, Anchor::Middle));
            }
        }
        for l in &self.panel.lines {
            let color = self.color(l);
            let nth = self.names.iter().position(|n| *n == l.name).unwrap_or(0) as f64;
            for p in &l.points {
                let left = LEFT + (p.x.unwrap_or(0.0) + 0.1) * room + nth * width;
                let top = y.at(p.mean * factor);
                let bar = Mark::Rect { at: (left, top), size: (width * 0.92, low - top), color };
                marks.push(Mark::Tipped { mark: Box::new(bar), tip: p.tip.clone() });
                let middle = left + width * 0.46;
                whisker(marks, y, middle, p.mean * factor, p.half * factor, GREY);
                marks.extend(p.published.into_iter().flat_map(|v| diamond((middle, y.at(v * factor)))));
            }
        }
    }
}

/// The mark of a published figure: dark with a light edge, so that it shows on any bar.
pub fn diamond((x, y): (f64, f64)) -> [Mark; 2] {
    let points = vec![(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y), (x, y - 5.0)];
    [line(points.clone(), WHITE, 4.0), line(points, DARK, 1.6)]
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
