//! Estimates how many objects a build must make: next to each object, the last build left a list of the files it was
//! made of (`.fair.o.cmd`).
//!
//! As for make, an object is outdated if one of these files is newer. Files that the build itself will remake on its
//! way (after a changed configuration) are not known beforehand.

use crate::walk::Walk;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const BEFORE: &str = ".";
const BEHIND: &str = ".o.cmd";

/// Number of objects in a folder, and of the outdated ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Objects {
    pub there: u64,
    pub outdated: u64,
}

impl Objects {
    /// Counts an object, given the file that lists its parts.
    fn add(&mut self, cmd: &Path, folder: &Path, changed: &[&str], times: &mut Times) {
        let name = cmd.file_name().and_then(|name| name.to_str());
        let stem = name.and_then(|name| name.strip_prefix(BEFORE)).and_then(|name| name.strip_suffix(BEHIND));
        let (Some(stem), Ok(text)) = (stem, fs::read_to_string(cmd)) else { return };
        self.there += 1;
        let object = times.of(cmd.with_file_name(format!("{stem}.o")));
        let is_newer = |name: &str| {
            let is_changed =
                changed.iter().any(|path| name.strip_suffix(path).is_some_and(|p| p.ends_with('/')));
            is_changed || times.of(folder.join(name)) > object
        };
        // A missing object counts as outdated.
        self.outdated += u64::from(object.is_none() || made_of(&text).any(is_newer));
    }
}

/// Counts the objects of a folder. `changed` are paths of the source that count as newer.
pub fn objects(folder: &Path, changed: &[&str]) -> Objects {
    let mut times = Times::default();
    let mut all = Objects::default();
    let walked = Walk::new(folder).each(&mut |entry| {
        all.add(&entry.path, folder, changed, &mut times);
        Ok(())
    });
    // Unreadable folders are not counted: this is an estimate.
    drop(walked);
    all
}

/// The files that an object was made of, as paths from the folder of objects.
fn made_of(cmd: &str) -> impl Iterator<Item = &str> {
    cmd.lines().filter_map(|line| {
        if let Some((_, source)) = line.strip_prefix("source_").and_then(|l| l.split_once(":= ")) {
            return Some(source.trim());
        }
        let word = line.strip_prefix("  ")?.trim_end_matches('\\').trim();
        match word.strip_prefix("$(wildcard ").and_then(|w| w.strip_suffix(')')) {
            Some(option) => Some(option),
            None => (!word.is_empty() && !word.contains([' ', '$'])).then_some(word),
        }
    })
}

/// Times of modification, each looked up once: thousands of objects name the same headers.
#[derive(Default)]
struct Times(HashMap<PathBuf, Option<SystemTime>>);

impl Times {
    fn of(&mut self, path: PathBuf) -> Option<SystemTime> {
        if let Some(known) = self.0.get(&path) {
            return *known;
        }
        let time = fs::metadata(&path).and_then(|about| about.modified()).ok();
        self.0.insert(path, time);
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_object_is_outdated_by_a_newer_file_and_by_a_changed_path() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        let objects_in = dir.path().join("obj");
        let now = SystemTime::now();
        let put = |path: PathBuf, text: &str, age_s: u64| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(now - Duration::from_secs(age_s))
                .unwrap();
        };
        for name in ["fair.c", "core.c", "sched.h", "pelt.h"] {
            put(tree.join("kernel/sched").join(name), "", 100);
        }
        let cmd = |name: &str, header: &str| {
            let at = tree.join("kernel/sched");
            format!(
                "cmd_kernel/sched/{name}.o := gcc -c\n\nsource_kernel/sched/{name}.o := {0}/{name}.c\n\n\
                 deps_kernel/sched/{name}.o := \\\n    $(wildcard include/config/SMP) \\\n  {0}/{header} \\\n\n\
                 kernel/sched/{name}.o: $(deps_kernel/sched/{name}.o)\n",
                at.display()
            )
        };
        for (name, header) in [("fair", "sched.h"), ("core", "pelt.h"), ("gone", "pelt.h")] {
            put(objects_in.join(format!("kernel/sched/.{name}.o.cmd")), &cmd(name, header), 50);
            if name != "gone" {
                put(objects_in.join(format!("kernel/sched/{name}.o")), "", 50);
            }
        }
        let count = |changed: &[&str]| objects(&objects_in, changed);
        assert_eq!(count(&[]), Objects { there: 3, outdated: 1 });
        assert_eq!(count(&["kernel/sched/core.c"]).outdated, 2);
        put(tree.join("kernel/sched/sched.h"), "", 0);
        assert_eq!(count(&[]).outdated, 2);
        put(objects_in.join("include/config/SMP"), "", 0);
        assert_eq!(count(&[]).outdated, 3);
    }
}
