//! Groups of cells: which runs belong together, and by which labels their variants are distinguished.

use super::{compilers, computers};
use schedlab_base::{GuestMode, Origin, Warning};
use schedlab_machine::Span;
use schedlab_record::{Computer, Observe, Record};

/// The runs of a cell, by ascending seed.
pub struct CellRuns<'a> {
    /// The variant's name, followed by the kernel's if several cells have that name.
    pub label: String,
    /// The load's name, with a number if another load of the comparison has the same name.
    pub load: String,
    /// The runs; at least one.
    pub runs: Vec<&'a Record>,
}

impl CellRuns<'_> {
    /// Whether a baseline's name means this variant, by its label or its plain name.
    pub fn is_named(&self, name: &str) -> bool {
        self.label == name || self.runs[0].variant.name == name || self.runs[0].kernel == name
    }
}

/// The cell that a baseline's name means: by label, else by variant, else by kernel.
pub fn named(cells: &[CellRuns<'_>], name: &str) -> Option<usize> {
    let at = |is: fn(&CellRuns<'_>, &str) -> bool| cells.iter().position(|c| is(c, name));
    at(|c, name| c.label == name)
        .or_else(|| at(|c, name| c.runs[0].variant.name == name))
        .or_else(|| at(|c, name| c.runs[0].kernel == name))
}

/// The key that all variants of a load share.
fn group_key(r: &Record) -> (&Origin, Option<GuestMode>, &str, &str, &str, String, Vec<&Span>) {
    let spans = r.drawn.iter().map(|d| &d.span).collect();
    (&r.backend, mode(r), &r.machine.name, &r.workload, &r.load, r.spec.to_string(), spans)
}

/// How a guest's time passes. Figures of different modes are not comparable.
pub fn mode(r: &Record) -> Option<GuestMode> {
    r.guest.as_ref().map(|g| g.mode)
}

fn same_cell(a: &Record, b: &Record) -> bool {
    a.kernel == b.kernel
        && a.variant == b.variant
        && same_machine(a, b)
        && a.resolved == b.resolved
        && a.guest == b.guest
        && a.code == b.code
        && a.watched() == b.watched()
        && Computer::is_same(a, b)
}

/// Whether two records have the same machine. Costs, which only simulators have, are ignored for live runs.
fn same_machine(a: &Record, b: &Record) -> bool {
    let of = |r: &Record| (r.machine.name.clone(), r.machine.topology.clone(), r.machine.os_cpu.clone());
    if a.backend.is_simulated() { a.machine == b.machine } else { a.machine == b.machine || of(a) == of(b) }
}

pub(super) fn same_place(a: &Record, b: &Record) -> bool {
    same_cell(a, b) && group_key(a) == group_key(b)
}

/// The cells, group by group, both in the order of their first run.
pub fn group(records: &[Record]) -> Vec<Vec<CellRuns<'_>>> {
    let mut groups: Vec<(_, Vec<CellRuns<'_>>)> = Vec::new();
    let some_as_stated = records.iter().any(|r| r.drawn.is_empty());
    for r in records {
        let key = group_key(r);
        let at = groups.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        let cells = &mut groups[at].1;
        match cells.iter_mut().find(|c| same_cell(c.runs[0], r)) {
            // A run that was named twice (through its store and its folder) counts once.
            Some(c) if c.runs.iter().any(|o| o.seed == r.seed) => {}
            Some(c) => c.runs.push(r),
            None => {
                let (label, mut load) = (r.variant.name.clone(), r.load.clone());
                if some_as_stated && !r.drawn.is_empty() {
                    load.push_str(" (costs drawn)");
                }
                cells.push(CellRuns { label, load, runs: vec![r] });
            }
        }
    }
    let mut groups: Vec<Vec<CellRuns<'_>>> = groups.into_iter().map(|(_, cells)| cells).collect();
    for cells in &mut groups {
        cells.iter_mut().for_each(|c| c.runs.sort_by_key(|r| r.seed));
        tell_apart(cells);
    }
    number_loads(&mut groups);
    groups
}

/// Cells with the same variant name as a cell that was watched less closely, each with the word for how it was watched.
fn closer(cells: &[CellRuns<'_>]) -> Vec<(usize, &'static str)> {
    let watched = |c: &CellRuns<'_>| c.runs[0].watched();
    let less = |c: &CellRuns<'_>| cells.iter().any(|o| o.label == c.label && watched(o) < watched(c));
    let all = cells.iter().enumerate().filter(|(_, c)| less(c));
    all.filter_map(|(i, c)| Some((i, watched(c)?.name()))).collect()
}

/// The warning about a group whose cells were watched in different ways.
pub fn watched_differently(cells: &[CellRuns<'_>]) -> Option<Warning> {
    let watched = |level| {
        let of = cells.iter().filter(|c| c.runs[0].watched() == Some(level));
        let names: Vec<&str> = of.map(|c| c.label.as_str()).collect();
        (!names.is_empty()).then(|| format!("{} by {}", names.join(", "), level.name()))
    };
    let levels = [Observe::Accounts, Observe::Stays, Observe::Counters, Observe::Caches, Observe::Events];
    let names_by_level: Vec<String> = levels.into_iter().filter_map(watched).collect();
    (names_by_level.len() > 1).then(|| {
        let (r, load) = (cells[0].runs[0], &cells[0].load);
        let text = format!(
            "{} {load}: runs were watched differently ({}), and watching costs time: make them again alike, all with or all \
             without --counters and --events",
            r.workload,
            names_by_level.join("; ")
        );
        Warning::new("watched.differently", text)
    })
}

/// Numbers loads with the same name but different workloads (by file, or by parameters outside the name): rows,
/// published figures and tables find their cells by the load's name.
fn number_loads(groups: &mut [Vec<CellRuns<'_>>]) {
    let name = |cells: &[CellRuns<'_>]| {
        let r = cells[0].runs[0];
        (r.backend.clone(), r.machine.name.clone(), r.workload.clone(), cells[0].load.clone())
    };
    let names: Vec<_> = groups.iter().map(|cells| name(cells)).collect();
    for (i, cells) in groups.iter_mut().enumerate() {
        if names.iter().filter(|n| **n == names[i]).count() > 1 {
            let number = names[..=i].iter().filter(|n| **n == names[i]).count();
            cells.iter_mut().for_each(|c| c.load = format!("{} #{number}", c.load));
        }
    }
}

/// Names that distinguish cells with the same label; `None` if they do not all differ.
type ShortNames = fn(&[&CellRuns<'_>]) -> Option<Vec<String>>;

/// Makes the labels of cells unique: by how they were watched, then by kernel, by the compilers of their images, by
/// their computers' CPUs, and finally by number.
fn tell_apart(cells: &mut [CellRuns<'_>]) {
    for (i, watched) in closer(cells) {
        cells[i].label = format!("{} ({watched})", cells[i].label);
    }
    for clash in clashes(cells) {
        let kernel = |i: usize| cells[i].runs[0].kernel.clone();
        let kernels: Vec<String> = clash.iter().map(|i| kernel(*i)).collect();
        if kernels.windows(2).any(|w| w[0] != w[1]) {
            clash.iter().zip(kernels).for_each(|(i, kernel)| cells[*i].label += &format!(" {kernel}"));
        }
    }
    let names: [(ShortNames, &str); 2] = [(compilers::short_names, "by"), (computers::short_names, "on")];
    for (short_names, word) in names {
        for clash in clashes(cells) {
            let alike: Vec<&CellRuns<'_>> = clash.iter().map(|i| &cells[*i]).collect();
            if let Some(names) = short_names(&alike) {
                clash.iter().zip(names).for_each(|(i, name)| cells[*i].label += &format!(" {word} {name}"));
            }
        }
    }
    for clash in clashes(cells) {
        clash.iter().enumerate().for_each(|(n, i)| cells[*i].label += &format!(" #{}", n + 1));
    }
}

/// The cells that share their label with others, label by label.
fn clashes(cells: &[CellRuns<'_>]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        match all.iter_mut().find(|some| cells[some[0]].label == cell.label) {
            Some(some) => some.push(i),
            None => all.push(vec![i]),
        }
    }
    all.retain(|some| some.len() > 1);
    all
}
