//! Cases that are drawn: workload, machine, kernel and features by a seeded program, so that nobody chose them.
//!
//! Case `i` of a seed depends on the seed and on `i` alone: the first cases of a longer list are the same, and one
//! draw that is added does not shift the others. Every part of a case is something that the simulator and a guest can
//! run; [`NOT_DRAWN`] lists the rest with its reason. The tolerances are those of the cases that ship
//! ([`super::metrics::CLASSES`]). A case is text, complete in one file, to be kept and run like any other. Times in
//! cases carry their unit.

mod dice;
mod kernel;
mod machine;
mod program;
mod rtapp;

use super::case::{self, Case};
use dice::Dice;
use kernel::Chosen;
use machine::Shape;
use program::PROGRAMS;
use schedlab_base::{Result, Stream};
use schedlab_compare::agreement::rows::CLASSES;
use std::fmt::Write;
use std::path::Path;

/// The largest number of cases in a list.
pub const MAX_DRAWN: u64 = 10_000;

/// The largest machine with the full number of runs; a guest with more CPUs takes longer.
const SMALL_CPUS: u32 = 8;

/// A benchmark that is not drawn.
const HOGS: &str = "hogs";
/// Benchmarks that came later: one more kind would change every case that was drawn.
#[cfg(test)]
const LATER: &[&str] = &["http", "oltp", "database", "volano", "trade", "forks"];
/// Things that no case is drawn with, each with the reason.
pub const NOT_DRAWN: &[(&str, &str)] = &[
    (HOGS, "slice without wakers is the same"),
    (
        "http, oltp, database, volano, trade, forks",
        "they came when cases had been drawn, which must stay the same",
    ),
    ("commands", "the simulator has no program of theirs"),
    ("SCHED_DEADLINE and task groups", "the first is not simulated, the others are not made in guests"),
    ("caches and nodes of unequal size, clusters that share an L2", "QEMU does not build them"),
    ("guests in real time, hosts", "only a deterministic guest has a simulated counterpart of any shape"),
    ("other kernels than 6.1 and 7.3", "the costs of guests were counted under these two"),
    ("tunables", "features change decisions; a tunable's value would be one more thing to choose"),
];

/// A case that was drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// Its name: seed, number and workload.
    pub name: String,
    /// Its text, as a case file has it.
    pub text: String,
}

impl Drawn {
    /// The case, read as if from the file of its name.
    ///
    /// # Errors
    /// When the reader refuses the text, which is a fault of this module.
    pub fn case(&self) -> Result<Case> {
        case::parse(Path::new(&self.file()), &self.text)
    }
    /// The name of its file.
    pub fn file(&self) -> String {
        format!("{}.toml", self.name)
    }
}

/// The first `n` cases of a seed.
pub fn draw(seed: u64, n: u64) -> Vec<Drawn> {
    (1..=n).map(|number| draw_case(seed, number)).collect()
}

/// Case `number` of a seed.
fn draw_case(seed: u64, number: u64) -> Drawn {
    let dice = Dice(Stream::new(seed).purpose("validate.draw").number(number));
    let shape = Shape::draw(dice.of("machine"));
    let kernel = Chosen::draw(dice.of("kernel"));
    let program = &PROGRAMS[dice.within("program", 0, PROGRAMS.len() as u32 - 1) as usize];
    let workload = (program.draw)(dice.of(program.name), shape.cpus(), &kernel);
    let name = format!("drawn-{seed}-{number:03}-{}", program.name);
    let about =
        format!("{} on {} under {}: {}", program.name, shape.words(), kernel.words(), workload.words());
    Drawn { text: text(&name, &about, &shape, &kernel, &workload.lines), name }
}

fn text(name: &str, about: &str, shape: &Shape, kernel: &Chosen, workload: &[(String, String)]) -> String {
    let runs = if shape.cpus() > SMALL_CPUS { 2 } else { 3 };
    let mut out = format!("name = \"{name}\"\nabout = \"{about}\"\nbackend = \"vm\"\n");
    let _ =
        writeln!(out, "machine = \"{}\"\nmode = \"deterministic\"\nruns = {runs}\nseed = 1", shape.name());
    let _ = writeln!(out, "\n[kernel]\nsimulated = \"{}\"\nimage = \"{}\"", kernel.simulated, kernel.image);
    if !kernel.features.is_empty() {
        let quoted: Vec<String> = kernel.features.iter().map(|f| format!("\"{f}\"")).collect();
        let _ = writeln!(out, "features = [{}]", quoted.join(", "));
    }
    out.push_str("\n[workload]\n");
    workload.iter().for_each(|(key, value)| _ = writeln!(out, "{key} = {value}"));
    out.push_str("\n[tolerance] # per cent, those of the cases that ship\n");
    CLASSES.iter().for_each(|c| _ = writeln!(out, "{} = {}", c.name, c.vm_pct));
    out
}

#[cfg(test)]
mod tests;
