//! Estimates how long the rest of a build takes, from what it has made so far.
//!
//! Objects differ by a factor of 50: `fair.c` takes longer than 20 files of `lib`. What an object costs is about its
//! source's size and that of the sources that it includes, and the same again for all. The build's own time for what it
//! has made then gives the time for the rest.

use super::objects::{self, FOLDERS};
use crate::make::Step;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// What each object costs besides its source's bytes, in bytes: headers and the start of programs.
const EACH: u64 = 11_000;
/// A build says nothing about the rest before it has made this many objects.
const FEWEST: usize = 6;

/// The objects of a build and how far it is.
pub(super) struct Pace {
    /// What objects cost, by their paths.
    costs: BTreeMap<String, u64>,
    /// Of the objects that were begun, in their order.
    begun: Vec<u64>,
    since: Option<Instant>,
    jobs: usize,
}

impl Pace {
    /// For all objects of an image.
    pub(super) fn of(tree: &Path, files: &[String], jobs: usize) -> Pace {
        let mut all: Vec<String> = files.to_vec();
        for folder in FOLDERS {
            let makefile = fs::read_to_string(tree.join(folder).join("Makefile")).unwrap_or_default();
            all.extend(objects::named(&makefile).map(|name| format!("{folder}{name}")));
        }
        let cost = |object: String| {
            let source = format!("{}.c", object.strip_suffix(".o")?);
            source_bytes(tree, &source).map(|bytes| (object, EACH + bytes))
        };
        Pace { costs: all.into_iter().filter_map(cost).collect(), begun: Vec::new(), since: None, jobs }
    }

    /// A step of make as one of this build: its objects alone count. `None`: it is none of them.
    pub(super) fn step(&mut self, step: &Step, now: Instant) -> Option<Step> {
        self.begun.push(*self.costs.get(&step.file)?);
        let since = *self.since.get_or_insert(now);
        // make names an object when it begins it: on the average the last ones are half made.
        let sum = |of: &[u64]| of.iter().sum::<u64>() as f64;
        let made = sum(&self.begun) - sum(&self.begun[self.begun.len().saturating_sub(self.jobs)..]) / 2.0;
        let all = self.costs.values().sum::<u64>() as f64;
        let left = (now - since).mul_f64((all - made).max(0.0) / made);
        let done = self.begun.len();
        // Without a pace of its own the build has no number that one could go by.
        let (of, left) = match done >= FEWEST {
            true => (self.costs.len().max(done), Some(left)),
            false => (0, None),
        };
        Some(Step { done: done as u64, of: of as u64, file: step.file.clone(), left })
    }
}

/// The bytes of a source, with those that it includes from its folder and from the tree's root.
fn source_bytes(tree: &Path, path: &str) -> Option<u64> {
    let text = fs::read_to_string(tree.join(path)).ok()?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let included = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split_once(".c\""));
    let size = |stem: &str| {
        let of = |path: String| tree.join(path).metadata().ok().map(|about| about.len());
        of(format!("{folder}/{stem}.c")).or_else(|| of(format!("{stem}.c")))
    };
    Some(text.len() as u64 + included.filter_map(|(stem, _)| size(stem)).sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_rest_takes_what_its_sources_size_is_to_that_of_the_made_ones() {
        let costs = (0..10).map(|n| (format!("lib/{n}.o"), 10)).chain([("kernel/sched/fair.o".into(), 100)]);
        let began = Instant::now();
        let mut pace = Pace { costs: costs.collect(), begun: Vec::new(), since: None, jobs: 2 };
        let mut at = |s, file: &str| {
            let step = Step { done: 0, of: 0, file: file.to_owned(), left: None };
            pace.step(&step, began + Duration::from_secs(s)).map(|step| (step.done, step.of, step.left))
        };
        assert_eq!(at(0, "scripts/mod/modpost.o"), None);
        for n in 0..5 {
            assert_eq!(at(n, &format!("lib/{n}.o")), Some((n + 1, 0, None)));
        }
        // Four are made, and two are half made: 50 of 200 in 5 s.
        assert_eq!(at(5, "lib/5.o"), Some((6, 11, Some(Duration::from_secs(15)))));
    }

    #[test]
    fn a_source_has_the_size_of_those_that_it_includes() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("kernel/sched")).unwrap();
        fs::write(tree.path().join("kernel/sched/a.c"), "#include \"b.c\"\n#include \"a.h\"\n").unwrap();
        fs::write(tree.path().join("kernel/sched/b.c"), "12345").unwrap();
        assert_eq!(source_bytes(tree.path(), "kernel/sched/a.c"), Some(15 + 15 + 5));
        assert_eq!(source_bytes(tree.path(), "kernel/sched/none.c"), None);
    }
}
