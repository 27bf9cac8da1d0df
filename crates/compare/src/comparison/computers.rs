//! The computers of live runs: how cells of different computers or kernel builds differ, and the warning about
//! comparing them.

use super::group::CellRuns;
use schedlab_base::Warning;
use schedlab_record::{Computer, Record};
use serde::{Deserialize, Serialize};

/// The computer on which a cell's runs were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellComputer {
    pub cpus: usize,
    /// CPU model, the kernel's build and boot options; "" for unknown ones.
    #[serde(flatten)]
    pub known: Computer,
}

impl CellComputer {
    /// The computer of a run; `None` if it does not matter, or is unknown.
    pub(super) fn of(record: &Record) -> Option<CellComputer> {
        let known = Computer::of_run(record).or_else(|| {
            let cpu = record.guest.as_ref()?.host_cpu.clone()?;
            Some(Computer { cpu, ..Computer::default() })
        })?;
        Some(CellComputer { cpus: record.machine.topology.nr_cpus(), known })
    }
    /// "2 CPUs of AMD EPYC 9754".
    pub fn words(&self) -> String {
        let cpus = schedlab_base::counted(self.cpus, "CPU");
        match self.known.cpu.as_str() {
            "" => format!("{cpus} of an unknown model"),
            model => format!("{cpus} of {model}"),
        }
    }
}

/// A part of a computer in which cells may differ: its name, its text, and whether a difference counts.
type Part = (&'static str, fn(&CellComputer) -> String, bool);

/// The warning about a group with cells of several computers, builds or boots. It names only the differences.
pub(super) fn warning(cells: &[CellRuns<'_>]) -> Option<Warning> {
    let known: Vec<(&str, CellComputer)> =
        cells.iter().filter_map(|c| Some((c.label.as_str(), CellComputer::of(c.runs[0])?))).collect();
    let releases_differ = cells.windows(2).any(|w| w[0].runs[0].kernel != w[1].runs[0].kernel);
    // Different releases always have different builds.
    let parts: [Part; 4] = [
        ("CPUs", CellComputer::words, true),
        ("build", |c| c.known.build.clone(), !releases_differ),
        ("booted with", |c| c.known.boot_options.clone(), true),
        ("clock source", |c| c.known.clocksource.clone(), true),
    ];
    let differs = |of: fn(&CellComputer) -> String| known.windows(2).any(|w| of(&w[0].1) != of(&w[1].1));
    let parts: Vec<_> = parts.into_iter().filter(|(_, of, counts)| *counts && differs(*of)).collect();
    if parts.is_empty() {
        return None;
    }
    let words_of = |(label, computer): &(&str, CellComputer)| {
        let part = |(what, of, _): &Part| match of(computer) {
            text if text.is_empty() => format!("{what} unknown"),
            text if *what == "CPUs" => text,
            text => format!("{what} {text}"),
        };
        format!("{label}: {}", parts.iter().map(part).collect::<Vec<_>>().join(", "))
    };
    let (r, load) = (cells[0].runs[0], &cells[0].load);
    let text = format!(
        "{} {load}: runs of different computers or boots, and a change may be theirs ({})",
        r.workload,
        known.iter().map(words_of).collect::<Vec<_>>().join("; ")
    );
    Some(Warning::new("compare.computers", text))
}

/// Short names of the cells' computers, if their CPU models differ.
pub(super) fn short_names(cells: &[&CellRuns<'_>]) -> Option<Vec<String>> {
    let names: Option<Vec<String>> = cells
        .iter()
        .map(|c| Some(CellComputer::of(c.runs[0])?.known.cpu_in_short()).filter(|name| !name.is_empty()))
        .collect();
    names.filter(|names| all_differ(names))
}

pub(super) fn all_differ(names: &[String]) -> bool {
    names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1)
}
