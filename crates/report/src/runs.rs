//! Stored cells as a table of at most 78 columns, one line each, as `schedlab runs` lists them.
//!
//! A value that all cells share is printed once, above the table. Names that are too long for the rest of the line are
//! cut, the longest first, and end in `..`; `--json` and `runs show` have them whole.

use crate::text::{WIDTH, wrap};
use schedlab_lab::runs::{ListedCell, digits, seeds};
use std::io::{self, Write};

/// Names are not cut to fewer characters than this.
const LEAST: usize = 6;
const CUT: &str = "..";
const GAP: usize = 2;

/// A column: its head, its texts, its side, and whether it holds names, which may be cut.
struct Column {
    head: &'static str,
    cells: Vec<String>,
    right: bool,
    name: bool,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(|c| c.chars().count()).max().unwrap_or(0).max(self.head.len())
    }
    fn cut(&mut self, width: usize) {
        for cell in &mut self.cells {
            if cell.chars().count() > width {
                let kept: String = cell.chars().take(width.saturating_sub(CUT.len())).collect();
                *cell = kept + CUT;
            }
        }
    }
}

/// Writes the list.
///
/// # Errors
/// When the writer fails.
pub fn list(cells: &[ListedCell], out: &mut dyn Write) -> io::Result<()> {
    if cells.is_empty() {
        return writeln!(out, "no runs are stored there");
    }
    let mut columns = columns(cells);
    let common = take_common(&mut columns);
    if !common.is_empty() {
        let of = if cells.len() == 1 { "the cell: " } else { "all of them: " };
        write!(out, "{}", wrap(of, &common.join(", ")))?;
    }
    fit(&mut columns);
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let line = |of: &dyn Fn(&Column) -> String| {
        let words = columns.iter().zip(&widths).map(|(c, w)| match c.right {
            true => format!("{:>w$}", of(c), w = *w),
            false => format!("{:<w$}", of(c), w = *w),
        });
        words.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    writeln!(out, "{}", line(&|c| c.head.to_owned()))?;
    for i in 0..cells.len() {
        writeln!(out, "{}", line(&|c| c.cells[i].clone()))?;
    }
    foot(cells, out)
}

fn columns(cells: &[ListedCell]) -> Vec<Column> {
    let digits = digits(cells);
    let all = |of: &dyn Fn(&ListedCell) -> String| cells.iter().map(of).collect::<Vec<String>>();
    let name =
        |head, of: &dyn Fn(&ListedCell) -> String| Column { head, cells: all(of), right: false, name: true };
    let word = |of: fn(&schedlab_lab::runs::Of) -> &str| {
        move |c: &ListedCell| c.of.as_ref().map_or("?", of).to_owned()
    };
    let plain =
        |head, right, of: &dyn Fn(&ListedCell) -> String| Column { head, cells: all(of), right, name: false };
    vec![
        plain("cell", false, &|c| c.held.name.chars().take(digits).collect::<String>() + mark(c)),
        name("experiment", &|c| {
            if c.experiments.is_empty() { "-".to_owned() } else { c.experiments.join("+") }
        }),
        name("workload", &word(|o| &o.workload)),
        name("load", &word(|o| &o.load)),
        name("variant", &word(|o| &o.variant)),
        name("machine", &word(|o| &o.machine)),
        plain("on", false, &word(|o| o.backend.name())),
        name("kernel", &word(|o| &o.kernel)),
        plain("runs", true, &|c| c.seeds.len().to_string()),
        plain("when (UTC)", false, &|c| c.made.clone()),
        plain("size", true, &|c| size(c.size_bytes)),
    ]
}

/// Behind a cell's digits: `!` where its record can't be read, `-` where this version would not find its runs.
fn mark(c: &ListedCell) -> &'static str {
    match (&c.error, &c.outdated) {
        (Some(_), _) => "!",
        (None, Some(_)) => "-",
        (None, None) => "",
    }
}

/// Takes out the columns of names that are the same for all cells, and returns those names.
fn take_common(columns: &mut Vec<Column>) -> Vec<String> {
    let mut common = Vec::new();
    let same = |c: &Column| c.cells.windows(2).all(|w| w[0] == w[1]);
    for c in columns.iter().filter(|c| (c.name || c.head == "on") && same(c)) {
        if c.cells[0] != "-" && c.cells[0] != "?" {
            common.push(format!("{} {}", c.head, c.cells[0]));
        }
    }
    columns.retain(|c| !((c.name || c.head == "on") && same(c)));
    common
}

/// Cuts the longest names until a line fits.
fn fit(columns: &mut [Column]) {
    loop {
        let all: usize = columns.iter().map(Column::width).sum::<usize>() + GAP * (columns.len() - 1);
        let longest = columns.iter_mut().filter(|c| c.name && c.width() > LEAST.max(c.head.len()));
        let Some(longest) = longest.max_by_key(|c| c.width()) else { return };
        if all <= WIDTH {
            return;
        }
        let width = longest.width() - 1;
        longest.cut(width);
    }
}

fn foot(cells: &[ListedCell], out: &mut dyn Write) -> io::Result<()> {
    let runs: usize = cells.iter().map(|c| c.seeds.len()).sum();
    let bytes: u64 = cells.iter().map(|c| c.size_bytes).sum();
    let cell = if cells.len() == 1 { "cell" } else { "cells" };
    let run = if runs == 1 { "run" } else { "runs" };
    writeln!(out, "{} {cell}, {runs} {run}, {}", cells.len(), size(bytes))?;
    let (old, torn) = (
        cells.iter().filter(|c| c.outdated.is_some()).count(),
        cells.iter().filter(|c| c.error.is_some()).count(),
    );
    if old > 0 {
        let text = format!(
            "{old} of another version: this version would not find their runs again ('schedlab runs gc')"
        );
        write!(out, "{}", wrap("-  ", &text))?;
    }
    if torn > 0 {
        write!(
            out,
            "{}",
            wrap("!  ", &format!("{torn} with a record that can't be read ('schedlab runs show')"))
        )?;
    }
    Ok(())
}

/// Bytes for people: "12 KB", "3.4 MB".
pub fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} KB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

/// A cell in one line: "schbench 2x24 first-idle on fb-2x12-smt, sim v4.5, seeds 1-10".
pub fn title(c: &ListedCell) -> String {
    let what = match &c.of {
        Some(o) => {
            format!("{} {} {} on {}, {} {}", o.workload, o.load, o.variant, o.machine, o.backend, o.kernel)
        }
        None => "a cell whose record can't be read".to_owned(),
    };
    match c.seeds.len() {
        0 => what,
        1 => format!("{what}, seed {}", seeds(&c.seeds)),
        _ => format!("{what}, seeds {}", seeds(&c.seeds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Backend;
    use schedlab_lab::runs::Of;
    use schedlab_record::holdings::HeldCell;

    fn cell(name: &str, load: &str, variant: &str, kernel: &str) -> ListedCell {
        let word = |w: &str| w.to_owned();
        ListedCell {
            folder: format!("runs/{name}"),
            experiments: vec![word("idle-sibling")],
            of: Some(Of {
                workload: word("schbench"),
                load: word(load),
                variant: word(variant),
                machine: word("fb-2x12-smt"),
                backend: Backend::Sim.into(),
                kernel: word(kernel),
            }),
            seeds: (1..=10).collect(),
            made: word("2026-11-22 06:10"),
            size_bytes: 345_678,
            abandoned: 0,
            outdated: None,
            error: None,
            held: HeldCell {
                folder: format!("runs/{name}").into(),
                name: name.to_owned(),
                runs: Vec::new(),
                abandoned: Vec::new(),
            },
        }
    }

    fn listed(cells: &[ListedCell]) -> String {
        let mut out = Vec::new();
        list(cells, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_the_same_everywhere_is_told_once_and_lines_fit() {
        let long = "a-variant-with-a-name-that-goes-on-and-on-and-on,hz=1000,nr_migrate=32";
        let mut cells = [
            cell("0123456789abcdef0123456789abcdef", "2x24", "v4.5", "v4.5"),
            cell("fedcba9876543210fedcba9876543210", "6x24", long, "v6.5"),
        ];
        cells[1].outdated = Some("simulated by model 8".into());
        let text = listed(&cells);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(
            text.starts_with("all of them: experiment idle-sibling, workload schbench, machine"),
            "{text}"
        );
        assert!(text.contains("01234567   2x24") && text.contains("fedcba98-  6x24"), "{text}");
        assert!(text.contains("a-variant-with-a-") && text.contains(".."), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("2 cells, 20 runs, 691 KB") && words.contains("'schedlab runs gc'"), "{text}");
        assert!(listed(&[]).contains("no runs"));
    }

    #[test]
    fn a_single_cell_is_named_above_its_numbers() {
        let text = listed(&[cell("0123456789abcdef0123456789abcdef", "2x24", "v4.5", "v4.5")]);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "the cell: experiment",
            "workload schbench",
            "load 2x24",
            "variant v4.5",
            "on sim",
            "cell runs when",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [999, 12_400, 3_440_000, 9_990_000_000].map(size),
            ["999 B", "12 KB", "3.4 MB", "10.0 GB"]
        );
    }
}
