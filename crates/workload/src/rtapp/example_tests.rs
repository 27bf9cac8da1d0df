//! rt-app's own examples (its `doc/examples`) and their outcomes here: the table in docs/workloads.md.
//!
//! We can't copy the examples. For each there is a small file with the same syntax in `tests/rtapp`, named after its
//! special feature. A row has the outcome of reading the small file. The end-to-end tests of the `schedlab` crate run
//! the same files, as the page says.

use super::build;
use crate::{Builder, Built};
use schedlab_base::{CpuSet, Error, Ns};

enum Becomes {
    /// Runs everywhere, on machines with at least this many CPUs.
    Runs(usize),
    /// Runs everywhere if given a runtime.
    RunsWithRuntime,
    /// Runs everywhere, on machines with at least this many CPUs; live kernels require a right for this policy.
    RealTime(usize, &'static str),
    /// Runs on live kernels that grant the right, and on backend code; our rules do not have this class.
    Deadline,
    /// Runs where task groups exist, with its tasks in the group with this path.
    InGroup(&'static str),
    /// An error at this line and column, with these words.
    Refused(usize, usize, &'static str),
}

use Becomes::*;

/// rt-app's example, our file of the same syntax, the outcome.
#[rustfmt::skip]
const EXAMPLES: &[(&str, &str, Becomes)] = &[
    ("browser-long.json", "repeated-events", Runs(1)),
    ("browser-short.json", "repeated-events", Runs(1)),
    ("cpufreq_governor_efficiency/calibration.json", "fifo-by-default", RealTime(1, "SCHED_FIFO")),
    ("cpufreq_governor_efficiency/dvfs.json", "fifo-task", RealTime(2, "SCHED_FIFO")),
    ("custom-slice.json", "slice-beside-deadline", Deadline),
    ("merge/global.json", "global-alone", Refused(1, 1, "the file has no 'tasks'")),
    ("merge/resources.json", "resources-alone", Refused(1, 1, "the file has no 'tasks'")),
    ("merge/thread0.json", "before-2014", Refused(4, 4, "task 't' has 'exec', which is not supported")),
    ("merge/thread1.json", "before-2014", Refused(4, 4, "task 't' has 'exec', which is not supported")),
    ("merge/thread2.json", "before-2014", Refused(4, 4, "task 't' has 'exec', which is not supported")),
    ("merge/thread3.json", "before-2014", Refused(4, 4, "task 't' has 'exec', which is not supported")),
    ("mp3-long.json", "repeated-locks", Runs(1)),
    ("mp3-short.json", "repeated-locks", Runs(1)),
    ("spreading-tasks.json", "repeated-phases", Runs(1)),
    ("template.json", "sleep-of-nothing", Runs(1)),
    ("tutorial/example1.json", "run-and-sleep", Runs(1)),
    ("tutorial/example2.json", "own-timer", Runs(1)),
    ("tutorial/example3.json", "instances", Runs(1)),
    ("tutorial/example4.json", "endless", RunsWithRuntime),
    ("tutorial/example5.json", "two-cpus", Runs(2)),
    ("tutorial/example6.json", "memory-and-io", Runs(1)),
    ("tutorial/example7.json", "barriers", Runs(1)),
    ("tutorial/example8.json", "cpus-of-phases", Runs(3)),
    ("tutorial/example9.json", "fork", Runs(1)),
    ("tutorial/example10.json", "taskgroup", InGroup("/g")),
    ("tutorial/example11.json", "taskgroups-of-phases", Refused(6, 57, "phases of task 't' are in different task groups, which is not supported")),
    ("video-long.json", "suspend-alone", Runs(1)),
    ("video-short.json", "suspend-alone", Runs(1)),
];

fn read(name: &str, runtime: Option<Ns>) -> Result<Built, Error> {
    let path = format!("{}/tests/rtapp/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut b = Builder::new(1);
    build(&format!("{name}.json"), &text, runtime, &mut b)?;
    b.finish()
}

/// The real-time policy that the workload asks for, if any.
fn real_time(built: &Built) -> Option<String> {
    let at_start = built.tasks.iter().map(|t| t.attr.policy);
    let all = at_start.chain(built.later_attrs.iter().map(|attr| attr.policy));
    all.into_iter().find(|p| !p.is_fair()).map(|p| format!("SCHED_{}", p.to_string().to_uppercase()))
}

/// The fewest CPUs of a machine on which every mask has a CPU.
fn fewest_cpus(name: &str) -> usize {
    let fits = |cpus: &usize| {
        let here = CpuSet::first(*cpus);
        let left = |mask: &CpuSet| match mask.and(&here) {
            none if none.is_empty() => Err(Error::input("none")),
            some => Ok(some),
        };
        read(name, Some(Ns::secs(1))).unwrap().confine(left).is_ok()
    };
    (1..).find(fits).unwrap()
}

#[test]
fn each_syntax_of_the_examples_has_the_outcome_in_the_table() {
    assert_eq!(EXAMPLES.len(), 28, "of rt-app as of 2026");
    for (_, name, becomes) in EXAMPLES {
        let plain = read(name, None);
        match becomes {
            Runs(cpus) => {
                let built = plain.unwrap_or_else(|e| panic!("{e}"));
                assert_eq!((real_time(&built), fewest_cpus(name)), (None, *cpus), "{name}");
            }
            RunsWithRuntime => {
                let told = plain.err().unwrap_or_else(|| panic!("{name} needs no runtime")).to_string();
                assert!(told.contains("-r TIME"), "{told}");
                let built = read(name, Some(Ns::secs(2))).unwrap();
                assert_eq!((built.duration, real_time(&built), fewest_cpus(name)), (Ns::secs(2), None, 1));
            }
            RealTime(cpus, policy) => {
                let built = plain.unwrap_or_else(|e| panic!("{e}"));
                assert_eq!((real_time(&built).as_deref(), fewest_cpus(name)), (Some(*policy), *cpus));
            }
            Deadline => {
                let built = plain.unwrap_or_else(|e| panic!("{e}"));
                assert_eq!((real_time(&built).as_deref(), fewest_cpus(name)), (Some("SCHED_DEADLINE"), 1));
            }
            InGroup(path) => {
                let built = plain.unwrap_or_else(|e| panic!("{e}"));
                let of = |t: &crate::build::TaskDecl| built.groups[t.group.index()].path.as_str();
                assert!(built.tasks.iter().all(|t| of(t) == *path));
            }
            Refused(line, column, words) => {
                let told = plain.err().unwrap_or_else(|| panic!("{name} is not refused")).to_string();
                let wanted = format!("{name}.json:{line}:{column}: {words}");
                assert_eq!(told.lines().next(), Some(wanted.as_str()));
            }
        }
    }
}

#[test]
fn every_file_of_the_folder_belongs_to_an_example() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rtapp");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = EXAMPLES.iter().any(|(_, ours, _)| format!("{ours}.json") == name);
        assert!(known, "{name} stands for no example");
    }
}

/// The table of the page; `doc_tests` compares it with the page.
pub fn table() -> String {
    let mut text =
        "| rt-app's example | syntax | sim | live | what it needs, or why not |\n|---|---|---|---|---|\n"
            .to_owned();
    for (file, ours, becomes) in EXAMPLES {
        let cpus = |n: usize| if n == 1 { String::new() } else { format!("a machine of {n} CPUs or more") };
        let (sim, live, about) = match becomes {
            Runs(n) => ("yes", "yes", cpus(*n)),
            RunsWithRuntime => ("yes", "yes", "a runtime: `-r TIME`".to_owned()),
            RealTime(n, policy) => {
                let right = format!("live, {policy} takes the right (root, CAP_SYS_NICE)");
                (
                    "yes",
                    "yes",
                    [right, cpus(*n)].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; "),
                )
            }
            Deadline => {
                let about = "backend code runs it; live, SCHED_DEADLINE takes the right (root, CAP_SYS_NICE)";
                ("no", "yes", about.to_owned())
            }
            InGroup(_) => ("yes", "yes", "needs the right to make control groups".to_owned()),
            Refused(_, _, words) => ("no", "no", (*words).replace("'t'", "'thread'")),
        };
        text += &format!("| `{file}` | {ours} | {sim} | {live} | {about} |\n");
    }
    text
}
