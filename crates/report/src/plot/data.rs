//! The data of a plot, taken from a comparison: the swept number, the lines, and their points.
//!
//! The names of cells contain the sweeps ("1x8,threads=4", "v4.5,hz=250", "small,cpus=2"), so that stored runs can be
//! plotted like an experiment.

use crate::number::value;
use crate::{published, short};
use schedlab_base::Ns;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, Measured};
use schedlab_compare::stats::special::t_quantile;

/// A mean with half the width of its 95 % interval (0 for a single run).
#[derive(Clone, PartialEq, Debug)]
pub struct PlotPoint {
    /// The swept number; `None` for a cell without one.
    pub x: Option<f64>,
    pub mean: f64,
    pub half: f64,
    /// The figure published for it, in the metric's unit.
    pub published: Option<f64>,
    /// The cell and its figures in words, shown under the pointer.
    pub tip: String,
}

/// The cells of one line, or of one colour of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<PlotPoint>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    pub metric: String,
    pub unit: String,
    pub lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PlotData {
    /// The swept parameter and its unit; `None` for bars, which stand at `groups`.
    pub swept: Option<(String, &'static str)>,
    pub groups: Vec<String>,
    pub panels: Vec<Panel>,
}

/// A cell's names, split into fixed and swept parts.
struct CellNames {
    /// Workload, machine, load, variant, and how its runs were made.
    fixed: Vec<String>,
    swept: Vec<(String, String)>,
}

fn parts(cell: &Cell) -> CellNames {
    let mut all = CellNames { fixed: vec![cell.workload.clone()], swept: Vec::new() };
    for name in [&cell.machine, &cell.load, &cell.variant] {
        let mut fixed = Vec::new();
        for (i, word) in name.split(',').enumerate() {
            match word.split_once('=') {
                Some((key, value)) if (i > 0 || number(value).is_some()) && !key.contains(':') => {
                    all.swept.push((key.to_owned(), value.to_owned()));
                }
                _ => fixed.push(word),
            }
        }
        all.fixed.push(fixed.join(","));
    }
    all.fixed.push(cell.how());
    all
}

/// A swept value as a number; times in ns.
fn number(text: &str) -> Option<(f64, &'static str)> {
    match text.parse::<f64>() {
        Ok(n) => Some((n, "")).filter(|(n, _)| n.is_finite()),
        Err(_) => Ns::parse(text, "").ok().map(|t| (t.0 as f64, "ns")),
    }
}

/// The key with the most different numbers among the cells; of equal ones the first.
fn axis(all: &[CellNames]) -> Option<(String, &'static str)> {
    let mut keys: Vec<(&str, &'static str, Vec<f64>)> = Vec::new();
    for (key, value) in all.iter().flat_map(|p| &p.swept) {
        let Some((n, unit)) = number(value) else { continue };
        if !keys.iter().any(|(k, ..)| k == key) {
            keys.push((key, unit, Vec::new()));
        }
        if let Some((_, _, values)) =
            keys.iter_mut().find(|(k, ..)| k == key).filter(|(_, _, v)| !v.contains(&n))
        {
            values.push(n);
        }
    }
    let most = keys.iter().map(|(.., v)| v.len()).max().filter(|n| *n > 1)?;
    keys.into_iter().find(|(.., v)| v.len() == most).map(|(key, unit, _)| (key.to_owned(), unit))
}

/// Half the 95 % interval of the mean over runs.
fn half(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    t_quantile(0.975, n - 1.0) * (variance / n).sqrt()
}

/// The cell and its figures in words.
fn tip(cell: &Cell, m: &Measured, published: Option<f64>) -> String {
    let place = format!("{} {} on {}, {}", cell.workload, cell.load, cell.machine, cell.variant);
    let runs = schedlab_base::things(m.values.len(), "run");
    let half = match half(&m.values) {
        0.0 => String::new(),
        half => format!(" +- {}", value(half, &m.unit)),
    };
    let published = published.map_or_else(String::new, |p| format!("; published {}", value(p, &m.unit)));
    format!("{place}: {}{half} ({} {runs}){published}", value(m.mean, &m.unit), m.values.len())
}

/// The data to plot, by workload: a parameter of one workload is not an axis for another.
pub fn by_workload(c: &Comparison) -> Vec<PlotData> {
    let mut workloads: Vec<&str> = Vec::new();
    for cell in &c.cells {
        if !workloads.contains(&cell.workload.as_str()) {
            workloads.push(&cell.workload);
        }
    }
    if workloads.len() < 2 {
        return vec![of(c)];
    }
    let one = |workload: &str| {
        let cells = c.cells.iter().filter(|cell| cell.workload == workload).cloned().collect();
        let mut data = of(&Comparison { cells, ..c.clone() });
        for panel in data.panels.iter_mut().filter(|p| short(&p.metric, workload) == p.metric) {
            panel.metric = format!("{workload} {}", panel.metric);
        }
        data
    };
    workloads.into_iter().map(one).filter(|data| !data.panels.is_empty()).collect()
}

pub fn of(c: &Comparison) -> PlotData {
    let all: Vec<CellNames> = c.cells.iter().map(parts).collect();
    let swept = axis(&all);
    let telling: Vec<bool> =
        (0..5).map(|i| all.iter().any(|p| p.fixed[i] != all[0].fixed[i] && !p.fixed[i].is_empty())).collect();
    // With a sweep, everything except the swept number names the line. Without one, the variant sets a bar's colour and
    // the rest sets its group.
    let words = |p: &CellNames, of: &[usize]| {
        let fixed = of.iter().filter(|i| telling[**i]).map(|i| p.fixed[*i].clone()).filter(|w| !w.is_empty());
        fixed.collect::<Vec<String>>()
    };
    let line = |p: &CellNames, cell: &Cell| match &swept {
        Some((key, _)) => {
            let mut name = words(p, &[0, 1, 2, 3, 4]);
            name.extend(p.swept.iter().filter(|(k, _)| k != key).map(|(k, v)| format!("{k}={v}")));
            name.join(" ")
        }
        None => cell.variant.clone(),
    };
    let place = |p: &CellNames, cell: &Cell| {
        let mut name = words(p, &[0, 1]);
        name.push(cell.load.clone());
        name.extend(words(p, &[4]));
        name.join(" ")
    };
    let mut groups: Vec<String> = Vec::new();
    if swept.is_none() {
        for (p, cell) in all.iter().zip(&c.cells) {
            let name = place(p, cell);
            if !groups.contains(&name) {
                groups.push(name);
            }
        }
    }
    let x_of = |p: &CellNames, cell: &Cell| match &swept {
        Some((key, _)) => p.swept.iter().find(|(k, _)| k == key).and_then(|(_, v)| number(v)).map(|(n, _)| n),
        None => groups.iter().position(|g| *g == place(p, cell)).map(|at| at as f64),
    };
    let panel = |metric: &String| {
        let mut panel = Panel { metric: metric.clone(), unit: String::new(), lines: Vec::new() };
        for (p, cell) in all.iter().zip(&c.cells) {
            let Some(m) = cell.metrics.get(metric).and_then(|s| s.measured()) else { continue };
            panel.unit.clone_from(&m.unit);
            let published = published(c, cell, metric).filter(|p| p.unit == m.unit).map(|p| p.value);
            let (half, tip) = (half(&m.values), tip(cell, m, published));
            let point = PlotPoint { x: x_of(p, cell), mean: m.mean, half, published, tip };
            let name = line(p, cell);
            match panel.lines.iter_mut().find(|l| l.name == name) {
                Some(line) => line.points.push(point),
                None => panel.lines.push(Line { name, points: vec![point] }),
            }
        }
        for line in &mut panel.lines {
            line.points.sort_by(|a, b| a.x.partial_cmp(&b.x).unwrap_or(std::cmp::Ordering::Equal));
        }
        panel
    };
    let panels: Vec<Panel> = c.metrics.iter().map(panel).filter(|p| !p.lines.is_empty()).collect();
    PlotData { swept, groups, panels }
}
