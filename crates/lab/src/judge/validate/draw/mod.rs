//! Drawn cases: a seeded program chooses workload, machine, kernel and features, so that nobody can choose favourable
//! ones.
//!
//! Case `i` of a seed depends only on the seed and on `i`: a longer list begins with the same cases, and an added draw
//! does not shift the others. The simulator and a guest can run every part of a case; [`NOT_DRAWN`] lists the rest with
//! its reason. The tolerances are those of the shipped cases ([`super::metrics::CLASSES`]). A case is text, complete in
//! one file, and can be kept and run like any other. Times in cases have their unit.

mod dice;
mod kernel;
mod machine;
mod program;
mod rtapp;

use super::case::{self, Case};
use dice::Dice;
use kernel::Chosen;
use machine::{MOST_CPUS, Shape};
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
/// Later benchmarks, which are not drawn: one more kind would change every case of a seed.
#[cfg(test)]
const LATER: &[&str] = &["http", "oltp", "pool", "database", "volano", "trade", "forks"];
/// Things that no drawn case has, each with the reason.
pub const NOT_DRAWN: &[(&str, &str)] = &[
    (HOGS, "slice without wakers is the same"),
    (
        "http, oltp, pool, database, volano, trade, forks",
        "they came when cases had been drawn, which must stay the same",
    ),
    ("commands", "the simulator has no program of theirs"),
    ("SCHED_DEADLINE and task groups", "the first is not simulated, the others are not made in guests"),
    ("caches and nodes of unequal size, clusters that share an L2", "QEMU does not build them"),
    ("guests in real time, hosts", "only a deterministic guest has a simulated counterpart of any shape"),
    ("other kernels than 6.1 and 7.3", "the costs of guests were counted under these two"),
    ("tunables", "features change decisions; a tunable's value would be one more thing to choose"),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// Its name: seed, number and workload.
    pub name: String,
    /// Its text, in the form of a case file.
    pub text: String,
}

impl Drawn {
    /// The case, read as if from the file of that name.
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

/// The first `n` cases of a seed for sched_ext schedulers, commands of programs, which have them in turn. Workloads and
/// machines, of at most eight CPUs, do not depend on the schedulers.
pub fn draw_under(seed: u64, n: u64, schedulers: &[String]) -> Vec<Drawn> {
    (1..=n).zip(schedulers.iter().cycle()).map(|(number, scx)| draw_under_one(seed, number, scx)).collect()
}

/// Case `number` of a seed.
fn draw_case(seed: u64, number: u64) -> Drawn {
    let dice = Dice(Stream::new(seed).purpose("validate.draw").number(number));
    let (shape, kernel) = (Shape::draw(dice.of("machine"), MOST_CPUS), Chosen::draw(dice.of("kernel")));
    drawn(dice, &format!("drawn-{seed}-{number:03}"), &shape, &kernel, None)
}

fn draw_under_one(seed: u64, number: u64, command: &str) -> Drawn {
    let dice = Dice(Stream::new(seed).purpose("validate.draw.scx").number(number));
    let (shape, kernel) = (Shape::draw(dice.of("machine"), SMALL_CPUS), Chosen::newest());
    drawn(dice, &format!("scx-{seed}-{number:03}"), &shape, &kernel, Some(command))
}

fn drawn(dice: Dice, name: &str, shape: &Shape, kernel: &Chosen, scx: Option<&str>) -> Drawn {
    let program = &PROGRAMS[dice.within("program", 0, PROGRAMS.len() as u32 - 1) as usize];
    let workload = (program.draw)(dice.of(program.name), shape.cpus(), kernel);
    let under = scx.map(words_of);
    let name = [Some(name), Some(program.name), under.as_ref().map(|u| u.0.as_str())];
    let name = name.into_iter().flatten().collect::<Vec<_>>().join("-");
    let under = under.map_or(String::new(), |u| format!(", {}", u.1));
    let (machine, by, load) = (shape.words(), kernel.words(), workload.words());
    let about = format!("{} on {machine} under {by}{under}: {load}", program.name);
    Drawn { text: text(&name, &about, shape, (kernel, scx), &workload.lines), name }
}

/// A scheduler for a case's name, and for people: without the folder of its program.
fn words_of(command: &str) -> (String, String) {
    let (program, arguments) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let words = format!("{} {}", program.rsplit('/').next().unwrap_or(program), arguments.trim());
    let words = words.trim().to_owned();
    let label = words.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "-");
    (label, words)
}

fn text(
    name: &str,
    about: &str,
    shape: &Shape,
    (kernel, scx): (&Chosen, Option<&str>),
    workload: &[(String, String)],
) -> String {
    let runs = if shape.cpus() > SMALL_CPUS { 2 } else { 3 };
    let mut out = format!("name = \"{name}\"\nabout = \"{about}\"\nbackend = \"vm\"\n");
    let _ =
        writeln!(out, "machine = \"{}\"\nmode = \"deterministic\"\nruns = {runs}\nseed = 1", shape.name());
    let _ = writeln!(out, "\n[kernel]\nsimulated = \"{}\"\nimage = \"{}\"", kernel.simulated, kernel.image);
    if !kernel.features.is_empty() {
        let quoted: Vec<String> = kernel.features.iter().map(|f| format!("\"{f}\"")).collect();
        let _ = writeln!(out, "features = [{}]", quoted.join(", "));
    }
    scx.iter().for_each(|command| _ = writeln!(out, "scx = {command:?}"));
    out.push_str("\n[workload]\n");
    workload.iter().for_each(|(key, value)| _ = writeln!(out, "{key} = {value}"));
    out.push_str("\n[tolerance] # per cent, those of the cases that ship\n");
    CLASSES.iter().for_each(|c| _ = writeln!(out, "{} = {}", c.name, c.vm_pct));
    out
}

#[cfg(test)]
mod tests;
