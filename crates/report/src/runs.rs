//! Stored cells as a table of at most 78 columns, as `schedlab runs` lists them.
//!
//! A value that all cells share is printed once, above the table. Names that are too long for the line are shortened
//! with `..`, the longest first; two different names never become the same text. If that is not enough, columns are
//! left out, the least useful first, and finally names take several lines. `--json` and `runs show` have everything.
//!
//! Neighbours with the same names are followed by the figures in which they differ.

use crate::text::{WIDTH, stack, width, wrap};
use schedlab_compare::runs::{CUT, ListedCell, alike, digits, seeds};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Names are not shortened below this many characters.
const LEAST: usize = 6;
const GAP: usize = 2;
/// The head of the column with the backends.
const BACKEND: &str = "on";
/// Columns that are left out if space is lacking, in this order.
const GOING: &[&str] = &["size", "when (UTC)", "kernel", "experiment"];
/// The most figures that are named in which neighbours differ.
const MOST_NAMED: usize = 4;
/// A figure with a longer value is listed only by name.
const LONGEST_VALUE: usize = 30;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    /// Names, which may be shortened.
    Names,
    Texts,
    /// Numbers, right-aligned.
    Numbers,
}

/// A column: its head and its texts.
struct Column {
    head: &'static str,
    kind: ColumnKind,
    cells: Vec<String>,
    /// The length of the longest text, in characters.
    most: usize,
}

impl Column {
    fn new(kind: ColumnKind, head: &'static str, cells: Vec<String>) -> Column {
        let longest = cells.iter().map(|c| width(c)).max().unwrap_or(0);
        Column { head, kind, most: longest.max(head.len()), cells }
    }
    fn has_names(&self) -> bool {
        self.kind == ColumnKind::Names
    }
    /// Whether it may be left out if all cells have the same text.
    fn may_be_common(&self) -> bool {
        self.has_names() || self.head == BACKEND
    }
    fn least(&self) -> usize {
        LEAST.max(self.head.len())
    }
    /// The texts in at most `most` characters; `None` if two different ones would look the same.
    fn shortened(&self, most: usize) -> Option<Vec<String>> {
        [at_end, in_middle].into_iter().find_map(|cut| {
            let short: Vec<String> = self.cells.iter().map(|c| cut(c, most)).collect();
            let mut of: BTreeMap<&str, &str> = BTreeMap::new();
            let mut pairs = short.iter().zip(&self.cells);
            let all_differ = pairs.all(|(short, whole)| *of.entry(short).or_insert(whole) == whole);
            all_differ.then_some(short)
        })
    }
}

/// The first characters of a text that is longer than `most`.
fn at_end(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(CUT.len())).collect::<String>() + CUT
}

/// The first and the last characters of a text that is longer than `most`.
fn in_middle(text: &str, most: usize) -> String {
    let long = width(text);
    if long <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(CUT.len());
    let (first, last) = (kept.div_ceil(2), kept / 2);
    let end = text.chars().skip(long - last);
    text.chars().take(first).chain(CUT.chars()).chain(end).collect()
}

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
    let gone = fit(&mut columns);
    let line = |of: &dyn Fn(&Column) -> String| {
        let words = columns.iter().map(|c| match c.kind {
            ColumnKind::Numbers => format!("{:>w$}", of(c), w = c.most),
            ColumnKind::Names | ColumnKind::Texts => format!("{:<w$}", of(c), w = c.most),
        });
        words.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    writeln!(out, "{}", line(&|c| c.head.to_owned()))?;
    for (i, cell) in cells.iter().enumerate() {
        let stacks: Vec<Vec<String>> = columns.iter().map(|c| stack(&c.cells[i], c.most)).collect();
        for at in 0..stacks.iter().map(Vec::len).max().unwrap_or(0) {
            let mut texts = stacks.iter().map(|s| s.get(at).cloned().unwrap_or_default());
            let texts: BTreeMap<&str, String> = columns.iter().map(|c| c.head).zip(&mut texts).collect();
            writeln!(out, "{}", line(&|c| texts[c.head].clone()))?;
        }
        let is_last = cells.get(i + 1).is_none_or(|next| !alike(cell, next));
        if is_last && !cell.differs.is_empty() {
            let first = cells[..i].iter().rposition(|c| !alike(c, cell)).map_or(0, |before| before + 1);
            write!(out, "{}", wrap("          differs: ", &differences(&cells[first..=i])))?;
        }
    }
    if !gone.is_empty() {
        let text = format!("{} (--json has them)", gone.join(", "));
        write!(out, "{}", wrap("left out for want of room: ", &text))?;
    }
    foot(cells, out)
}

/// The figures in which cells with the same names differ, each with its values in the order of the cells.
fn differences(group: &[ListedCell]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let one = |key: &String| {
        let values: Vec<&str> =
            group.iter().map(|c| c.differs.get(key).map_or("-", String::as_str)).collect();
        if values.iter().all(|v| width(v) <= LONGEST_VALUE) {
            format!("{key} {}", values.join(" / "))
        } else {
            key.clone()
        }
    };
    let mut all: Vec<String> = first.differs.keys().take(MOST_NAMED).map(one).collect();
    if let Some(more) = first.differs.len().checked_sub(MOST_NAMED).filter(|n| *n > 0) {
        all.push(format!("and {more} more"));
    }
    all.join(", ")
}

fn columns(cells: &[ListedCell]) -> Vec<Column> {
    let digits = digits(cells);
    let all = |of: &dyn Fn(&ListedCell) -> String| cells.iter().map(of).collect::<Vec<String>>();
    let name = |head, of: &dyn Fn(&ListedCell) -> String| Column::new(ColumnKind::Names, head, all(of));
    let word = |of: fn(&schedlab_compare::runs::CellSubject) -> &str| {
        move |c: &ListedCell| c.of.as_ref().map_or("?", of).to_owned()
    };
    let text = |head, of: &dyn Fn(&ListedCell) -> String| Column::new(ColumnKind::Texts, head, all(of));
    let number = |head, of: &dyn Fn(&ListedCell) -> String| Column::new(ColumnKind::Numbers, head, all(of));
    vec![
        text("cell", &|c| c.held.name.chars().take(digits).collect::<String>() + mark(c)),
        name("experiment", &|c| {
            if c.experiments.is_empty() { "-".to_owned() } else { c.experiments.join("+") }
        }),
        name("workload", &word(|o| &o.workload)),
        name("load", &word(|o| &o.load)),
        name("variant", &word(|o| &o.variant)),
        name("machine", &word(|o| &o.machine)),
        text(BACKEND, &word(|o| o.backend.name())),
        name("kernel", &word(|o| &o.kernel)),
        number("runs", &|c| c.seeds.len().to_string()),
        text("when (UTC)", &|c| c.made.clone()),
        number("size", &|c| size(c.size_bytes)),
    ]
}

/// The mark after a cell's digits: `!` if its record can't be read, `-` if this version would not find its runs.
fn mark(c: &ListedCell) -> &'static str {
    match (&c.error, &c.outdated) {
        (Some(_), _) => "!",
        (None, Some(_)) => "-",
        (None, None) => "",
    }
}

/// Removes the columns of names that all cells share, and returns those names.
fn take_common(columns: &mut Vec<Column>) -> Vec<String> {
    let mut common = Vec::new();
    let same = |c: &Column| c.cells.windows(2).all(|w| w[0] == w[1]);
    for c in columns.iter().filter(|c| c.may_be_common() && same(c)) {
        if c.cells[0] != "-" && c.cells[0] != "?" {
            common.push(format!("{} {}", c.head, c.cells[0]));
        }
    }
    columns.retain(|c| !(c.may_be_common() && same(c)));
    common
}

/// Makes a line fit: shortens names, leaves out columns, and finally lets names take several lines. Returns the heads
/// of the left-out columns.
fn fit(columns: &mut Vec<Column>) -> Vec<&'static str> {
    let mut gone = Vec::new();
    let mut going = GOING.iter();
    loop {
        if let Some(short) = shortened(columns) {
            columns.iter_mut().zip(short).for_each(|(c, cells)| *c = Column::new(c.kind, c.head, cells));
            return gone;
        }
        let Some(head) = going.next() else { break };
        if columns.iter().any(|c| c.head == *head) {
            columns.retain(|c| c.head != *head);
            gone.push(*head);
        }
    }
    while total(columns.iter().map(|c| c.most)) > WIDTH {
        let wide = columns.iter_mut().filter(|c| c.has_names() && c.most > c.least()).max_by_key(|c| c.most);
        let Some(wide) = wide else { break };
        wide.most -= 1;
    }
    gone
}

/// The width of a line.
fn total(widths: impl ExactSizeIterator<Item = usize>) -> usize {
    GAP * widths.len().saturating_sub(1) + widths.sum::<usize>()
}

/// The texts of all columns, with the longest names shortened until a line fits; `None` if that is impossible.
fn shortened(columns: &[Column]) -> Option<Vec<Vec<String>>> {
    let mut short: Vec<(usize, Vec<String>)> = columns.iter().map(|c| (c.most, c.cells.clone())).collect();
    let mut stuck = vec![false; columns.len()];
    while total(short.iter().map(|(most, _)| *most)) > WIDTH {
        let may = |i: &usize| columns[*i].has_names() && !stuck[*i] && short[*i].0 > columns[*i].least();
        let at = (0..columns.len()).filter(may).max_by_key(|i| short[*i].0)?;
        match columns[at].shortened(short[at].0 - 1) {
            Some(cells) => short[at] = (short[at].0 - 1, cells),
            None => stuck[at] = true,
        }
    }
    Some(short.into_iter().map(|(_, cells)| cells).collect())
}

fn foot(cells: &[ListedCell], out: &mut dyn Write) -> io::Result<()> {
    let runs: usize = cells.iter().map(|c| c.seeds.len()).sum();
    let bytes: u64 = cells.iter().map(|c| c.size_bytes).sum();
    let cell = if cells.len() == 1 { "cell" } else { "cells" };
    let run = schedlab_base::things(runs, "run");
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

/// A number of bytes as text: "12 KB", "3.4 MB".
pub fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} KB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

/// A cell, or some of its runs by seed, in one line: "schbench 2x24 first-idle on fb-2x12-smt, sim v4.5, seeds 1-10".
pub fn title(c: &ListedCell, of: &[u64]) -> String {
    let what = match &c.of {
        Some(o) => {
            format!("{} {} {} on {}, {} {}", o.workload, o.load, o.variant, o.machine, o.backend, o.kernel)
        }
        None => "a cell whose record can't be read".to_owned(),
    };
    match of.len() {
        0 => what,
        1 => format!("{what}, seed {}", seeds(of)),
        _ => format!("{what}, seeds {}", seeds(of)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Backend;
    use schedlab_compare::runs::CellSubject;
    use schedlab_record::store_listing::HeldCell;

    fn cell(name: &str, load: &str, variant: &str, kernel: &str) -> ListedCell {
        let word = |w: &str| w.to_owned();
        ListedCell {
            folder: format!("runs/{name}"),
            experiments: vec![word("idle-sibling")],
            of: Some(CellSubject {
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
            differs: BTreeMap::new(),
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
    fn common_values_are_shown_once_and_lines_fit() {
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
    fn a_mixed_store_fits_and_different_names_stay_different() {
        let mut cells = Vec::new();
        for (i, load) in ["threads=8", "threads=16"].into_iter().enumerate() {
            for (j, kernel) in ["v6.5", "6.1.192-amd64", "running-kernel"].into_iter().enumerate() {
                let mut c =
                    cell(&format!("{i}{j}234567{:024}", 0), load, &format!("{kernel}:NO_SIS_UTIL"), kernel);
                let of = c.of.as_mut().unwrap();
                of.machine = ["smt-8", "spr-2x56", "fb-2x12-smt"][j].into();
                of.workload = ["schbench", "hackbench", "embedded-db"][j].into();
                of.backend = [Backend::Sim, Backend::Vm, Backend::Host][j].into();
                c.experiments = vec![format!("wakeups-of-{j}")];
                cells.push(c);
            }
        }
        let text = listed(&cells);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        let rest = |digits: &str| text.lines().find_map(|l| l.strip_prefix(digits)).unwrap();
        assert_ne!(rest("00234567"), rest("10234567"), "only their loads differ: {text}");
        assert!(text.contains("left out for want of room: size"), "{text}");
        // Long names that differ only in the middle are not shortened to the same text.
        let long = |c: char| format!("{}{c}{}", "a".repeat(40), "b".repeat(40));
        cells[0].of.as_mut().unwrap().variant = long('x');
        cells[1].of.as_mut().unwrap().variant = long('y');
        let text = listed(&cells);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(!text.contains(".."), "each name is whole, in several lines: {text}");
    }

    #[test]
    fn differences_between_neighbours_with_the_same_names_follow_them() {
        let name = |c: char| c.to_string().repeat(32);
        let mut cells = ['1', '2', '3'].map(|c| cell(&name(c), "2x24", "v4.5", "v4.5"));
        cells[2].of.as_mut().unwrap().load = "6x24".into();
        for (c, runtime) in cells.iter_mut().zip(["5s", "2s"]) {
            c.differs = [("runtime".to_owned(), runtime.to_owned())].into();
        }
        let text = listed(&cells);
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|l| l.trim() == "differs: runtime 5s / 2s").unwrap();
        assert!(lines[at - 1].starts_with("22222222") && lines[at + 1].starts_with("33333333"), "{text}");
        cells[0].differs = (0..6).map(|i| (format!("machine.costs.{i}"), "9".repeat(40))).collect();
        cells[1].differs = cells[0].differs.clone();
        let text = listed(&cells);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("differs: machine.costs.0, machine.costs.1,") && words.contains("and 2 more"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
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
