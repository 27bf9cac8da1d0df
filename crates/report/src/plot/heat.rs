//! A heat map of pairs of CPUs. A row is the CPU that a task leaves, a column the CPU to which it goes, both in the
//! topology's order. Darker means more time; a legend has the times.

use super::scene::{Anchor, Mark, Scene};
use super::{GREY, LEFT, PlotFile, SMALL, WHITE, text};
use schedlab_base::{Error, Result};

/// Side of a cell (least, most), and of the whole map if its cells allow it.
const CELL: (f64, f64) = (6.0, 64.0);
const SIDE: f64 = 560.0;
/// Cells of at least this size show their figure, and get a label for each CPU.
const FIGURES: f64 = 34.0;
const LABELS: f64 = 13.0;
const TOP: f64 = 92.0;
/// The legend: steps, height, and width with its figures.
const STEPS: usize = 32;
const LEGEND: (f64, f64) = (200.0, 12.0);
/// The colours of the least and the greatest time.
const PALE: u32 = 0xeef4fa;
const DEEP: u32 = 0x08306b;
const MAX_CPUS: usize = 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    pub title: String,
    /// The text below the title.
    pub about: String,
    /// The CPUs in their order on the map.
    pub cpus: Vec<u32>,
    /// The time of each pair, ms, by indices into `cpus`; `None` without a figure.
    pub ms: Vec<Vec<Option<f64>>>,
}

impl Heat {
    /// Draws the map.
    ///
    /// # Errors
    /// For more CPUs than can be drawn, or none.
    pub fn plot(&self, kind: PlotFile) -> Result<Vec<u8>> {
        if self.cpus.is_empty() || self.cpus.len() > MAX_CPUS {
            let what = format!("a map of {} can't be drawn", schedlab_base::counted(self.cpus.len(), "CPU"));
            return Err(Error::input(what).help(format!("it takes 1 to {MAX_CPUS}")));
        }
        let scene = self.scene();
        match kind {
            PlotFile::Svg => Ok(scene.svg().into_bytes()),
            PlotFile::Png => scene.png(),
        }
    }
    /// The smallest and the largest time.
    fn range(&self) -> (f64, f64) {
        let all = || self.ms.iter().flatten().filter_map(|ms| *ms);
        let least = all().fold(f64::INFINITY, f64::min);
        (if least.is_finite() { least } else { 0.0 }, all().fold(0.0, f64::max))
    }
    fn scene(&self) -> Scene {
        let n = self.cpus.len();
        let cell = (SIDE / n as f64).clamp(CELL.0, CELL.1);
        let side = cell * n as f64;
        let title =
            Mark::Text { at: (LEFT, 24.0), text: self.title.clone(), size: 14.0, anchor: Anchor::Start };
        let mut marks = vec![title, text((LEFT, 42.0), self.about.clone(), Anchor::Start)];
        let range = self.range();
        legend(range, &mut marks);
        marks.push(text((LEFT + side / 2.0, TOP + side + 34.0), "to CPU", Anchor::Middle));
        marks.push(text((LEFT - 26.0, TOP - 10.0), "from CPU", Anchor::Middle));
        let step = (LABELS / cell).ceil().max(1.0) as usize;
        for (i, cpu) in self.cpus.iter().enumerate() {
            let middle = (i as f64 + 0.5) * cell;
            if i % step == 0 {
                marks.push(text((LEFT - 6.0, TOP + middle + 4.0), cpu.to_string(), Anchor::End));
                let wide = if cell < 20.0 { 2 } else { 1 };
                if (i / step).is_multiple_of(wide) {
                    marks.push(text((LEFT + middle, TOP + side + 16.0), cpu.to_string(), Anchor::Middle));
                }
            }
            for (j, to) in self.cpus.iter().enumerate() {
                let at = (LEFT + j as f64 * cell, TOP + i as f64 * cell);
                let timed = self.ms[i][j].map(|ms| (ms, share(range, ms)));
                draw_cell(at, cell, (*cpu, *to), timed, &mut marks);
            }
        }
        let width = (LEFT + side + 30.0).max(LEFT + LEGEND.0 + 120.0).max(620.0);
        Scene { size: (width, TOP + side + 48.0), marks }
    }
}

/// A pair's cell, with its time and the time's share of the range.
fn draw_cell(at: (f64, f64), side: f64, pair: (u32, u32), timed: Option<(f64, f64)>, marks: &mut Vec<Mark>) {
    let gap = if side > 12.0 { 1.0 } else { 0.0 };
    let color = timed.map_or(0xf2f2f2, |(_, share)| shade(share));
    let mark = Mark::Rect { at, size: (side - gap, side - gap), color };
    let Some((ms, share)) = timed else {
        marks.push(mark);
        return;
    };
    let tip = format!("CPU {} to {}: {ms:.3} ms", pair.0, pair.1);
    marks.push(Mark::Tipped { mark: Box::new(mark), tip });
    if side >= FIGURES {
        let middle = (at.0 + side / 2.0, at.1 + side / 2.0 + 4.0);
        if share > 0.5 {
            // Texts are black; a pale background keeps them legible on a dark cell.
            let size = (side * 0.7, SMALL + 4.0);
            let corner = (middle.0 - size.0 / 2.0, middle.1 - SMALL);
            marks.push(Mark::Rect { at: corner, size, color: WHITE });
        }
        marks.push(text(middle, short(ms), Anchor::Middle));
    }
}

/// A time's position between the smallest and the largest, 0 to 1.
fn share((least, most): (f64, f64), ms: f64) -> f64 {
    if most > least { (ms - least) / (most - least) } else { 0.3 }
}

fn legend((least, most): (f64, f64), marks: &mut Vec<Mark>) {
    let (top, step) = (54.0, LEGEND.0 / STEPS as f64);
    for i in 0..STEPS {
        let at = (LEFT + i as f64 * step, top);
        let color = shade(i as f64 / (STEPS - 1) as f64);
        marks.push(Mark::Rect { at, size: (step + 0.3, LEGEND.1), color });
    }
    let frame =
        [(LEFT, top), (LEFT + LEGEND.0, top), (LEFT + LEGEND.0, top + LEGEND.1), (LEFT, top + LEGEND.1)];
    let points = frame.iter().copied().chain([frame[0]]).collect();
    marks.push(Mark::Line { points, color: GREY, width: 0.5, dashed: false });
    let words = format!("{} to {} ms", short(least), short(most));
    marks.push(text((LEFT + LEGEND.0 + 10.0, top + 10.0), words, Anchor::Start));
}

/// A time with as many decimals as are useful.
fn short(ms: f64) -> String {
    match ms {
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 0.1 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

/// The colour between the palest and the deepest.
fn shade(share: f64) -> u32 {
    let mix = |shift: u32| {
        let part = |color: u32| f64::from((color >> shift) & 0xff);
        (part(PALE) + (part(DEEP) - part(PALE)) * share.clamp(0.0, 1.0)).round() as u32
    };
    (mix(16) << 16) | (mix(8) << 8) | mix(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat() -> Heat {
        let ms = vec![vec![None, Some(0.5), Some(2.0)], vec![Some(0.5), None, Some(2.0)], vec![None; 3]];
        Heat { title: "what a move costs".into(), about: "a host".into(), cpus: vec![0, 2, 1], ms }
    }

    #[test]
    fn a_cell_has_its_figure_and_its_tip_and_the_legend_both_ends() {
        let svg = String::from_utf8(heat().plot(PlotFile::Svg).unwrap()).unwrap();
        assert!(svg.contains("what a move costs") && svg.contains("0.50 to 2.00 ms"));
        assert!(svg.contains("CPU 0 to 2: 0.500 ms") && svg.contains("CPU 2 to 1: 2.000 ms"));
        assert!(svg.contains(&format!("#{PALE:06x}")) && svg.contains(&format!("#{DEEP:06x}")));
        assert!(heat().plot(PlotFile::Png).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn a_large_machine_has_small_cells_without_figures() {
        let cpus: Vec<u32> = (0..256).collect();
        let ms = vec![vec![Some(1.0); 256]; 256];
        let svg = Heat { cpus, ms, ..heat() }.plot(PlotFile::Svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(!svg.contains(">1.00</text>"));
        let none = Heat { cpus: Vec::new(), ms: Vec::new(), ..heat() };
        assert!(none.plot(PlotFile::Svg).is_err());
    }

    #[test]
    fn shades_run_from_pale_to_deep() {
        assert_eq!((shade(0.0), shade(1.0), shade(7.0)), (PALE, DEEP, DEEP));
    }
}
