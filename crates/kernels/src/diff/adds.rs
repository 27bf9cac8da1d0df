//! Finds the features, counters and tunables that a patch adds: things to be switched or counted.
//!
//! Features are lines `SCHED_FEAT(NAME, true)` of kernel/sched/features.h. Counters are fields of `struct
//! sched_domain`, `struct rq` or `struct sched_statistics` that schedstat prints; they are known by the calls that
//! increment them.

use super::{Line, Patch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A feature that a patch adds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Added {
    /// Its name in sched/features.
    pub name: String,
    /// Whether a kernel starts with it on.
    pub on: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Counter(pub String);

/// The features and counters that patches add, each once.
///
/// A context or removed line shows something that existed before, unless an earlier patch has added it.
pub fn adds(patches: &[Patch]) -> (Vec<Added>, Vec<Counter>) {
    let mut features: Vec<Added> = Vec::new();
    let (mut counters, mut old) = (BTreeSet::new(), BTreeSet::new());
    for patch in patches {
        let mentions = Mentions::of(patch);
        let there: Vec<String> =
            mentions.removed.iter().map(|f| f.name.clone()).chain(mentions.shown).collect();
        old.extend(there.into_iter().filter(|name| !features.iter().any(|f| f.name == *name)));
        // A changed default shows as a removed and an added line.
        features.retain(|f| !mentions.removed.iter().any(|r| r.name == f.name));
        for added in mentions.added {
            if !old.contains(&added.name) && !features.iter().any(|f| f.name == added.name) {
                features.push(added);
            }
        }
        let new = mentions.bumped.difference(&mentions.known).filter(|c| !old.contains(*c)).cloned();
        let new: Vec<String> = new.collect();
        old.extend(mentions.known.into_iter().filter(|c| !counters.contains(c)));
        counters.extend(new);
    }
    (features, counters.into_iter().map(Counter).collect())
}

/// The features and counters that a patch mentions, by the sign of the line.
#[derive(Default)]
struct Mentions {
    added: Vec<Added>,
    removed: Vec<Added>,
    shown: Vec<String>,
    bumped: BTreeSet<String>,
    /// Counters on context or removed lines.
    known: BTreeSet<String>,
}

impl Mentions {
    fn of(patch: &Patch) -> Mentions {
        let mut all = Mentions::default();
        for line in patch.files.iter().flat_map(|f| &f.hunks).flat_map(|h| &h.lines) {
            let (Line::Added(bytes) | Line::Removed(bytes) | Line::Context(bytes)) = line;
            let text = String::from_utf8_lossy(bytes).trim().to_owned();
            let (feature, counter) = (feature(&text), counter(&text));
            match line {
                Line::Added(_) => {
                    all.added.extend(feature);
                    all.bumped.extend(counter);
                }
                Line::Removed(_) => {
                    all.removed.extend(feature);
                    all.known.extend(counter);
                }
                Line::Context(_) => {
                    all.shown.extend(feature.map(|f| f.name));
                    all.known.extend(counter);
                }
            }
        }
        all
    }
}

/// `SCHED_FEAT(NAME, true)`.
fn feature(line: &str) -> Option<Added> {
    let (name, value) = line.strip_prefix("SCHED_FEAT(")?.split_once(')')?.0.split_once(',')?;
    let name = name.trim();
    let good = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    good.then(|| Added { name: name.to_owned(), on: matches!(value.trim(), "true" | "1") })
}

/// The field of `schedstat_inc(sd->lb_sg_scan[idle])`.
fn counter(line: &str) -> Option<String> {
    let at = ["schedstat_inc(", "schedstat_add(", "__schedstat_inc(", "__schedstat_add("]
        .iter()
        .find_map(|call| Some(line.find(call)? + call.len()))?;
    let inner = line[at..].split([')', ',']).next()?;
    let field = inner.rsplit(['>', '.']).next()?.split('[').next()?.trim();
    (!field.is_empty()).then(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn features_and_counters_are_found() {
        let diff = "--- a/kernel/sched/features.h\n+++ b/kernel/sched/features.h\n@@ -1,2 +1,4 @@\n+SCHED_FEAT(SIS_X, true)\n\
                    -SCHED_FEAT(OLD, true)\n+SCHED_FEAT(OLD, false)\n+SCHED_FEAT(Y, false)\n SCHED_FEAT(Z, true)\n\
                    --- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1 +1,3 @@\n\
                    +\tschedstat_inc(sd->lb_sg_scan[idle]);\n \
                    schedstat_inc(sd->lb_failed[idle]);\n+\t\tschedstat_add(sd->lb_failed[idle], 2);\n";
        let (features, counters) = adds(&parse("p", diff.as_bytes()).unwrap());
        let names: Vec<(&str, bool)> = features.iter().map(|f| (f.name.as_str(), f.on)).collect();
        assert_eq!(names, [("SIS_X", true), ("Y", false)], "a changed default adds nothing");
        assert_eq!(counters, [Counter("lb_sg_scan".into())], "one that was bumped before is not new");
    }
    #[test]
    fn features_stay_added_when_a_later_patch_shows_them() {
        let patch = |lines: &str| {
            let (old, new) = (lines.matches("\n ").count(), lines.lines().count());
            let head = "--- a/kernel/sched/features.h\n+++ b/kernel/sched/features.h\n";
            parse("p", format!("{head}@@ -1,{old} +1,{new} @@\n{lines}").as_bytes()).unwrap().remove(0)
        };
        let one = patch("+SCHED_FEAT(X, false)\n+schedstat_inc(sd->new);\n SCHED_FEAT(OLD, true)\n");
        let two = patch("+SCHED_FEAT(Y, true)\n SCHED_FEAT(X, false)\n schedstat_inc(sd->new);\n");
        let (features, counters) = adds(&[one, two]);
        assert_eq!(features.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["X", "Y"]);
        assert_eq!(counters, [Counter("new".into())]);
    }

    #[test]
    fn a_later_patch_takes_a_feature_back_or_changes_its_default() {
        let diff = |lines: &str| {
            parse("p", format!("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n{lines}").as_bytes()).unwrap().remove(0)
        };
        let one = diff("-x\n+SCHED_FEAT(X, false)\n");
        let on = diff("-SCHED_FEAT(X, false)\n+SCHED_FEAT(X, true)\n");
        let gone = diff("-SCHED_FEAT(X, false)\n+x\n");
        assert_eq!(adds(&[one.clone(), on]).0, [Added { name: "X".into(), on: true }]);
        assert!(adds(&[one, gone]).0.is_empty());
    }

    #[test]
    fn the_shipped_newidle_series_adds_all_its_features() {
        let names = ["newidle-1-sg-scan", "newidle-2-features", "newidle-3-snapshot", "newidle-4-util-fast"];
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../patches/6.1");
        let read = |name: &&str| super::super::read(&folder.join(format!("{name}.patch"))).unwrap();
        let (features, _) = adds(&names.iter().flat_map(read).collect::<Vec<_>>());
        let mut names: Vec<&str> = features.iter().map(|f| f.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["ILB_FAST", "ILB_SNAPSHOT", "ILB_UTIL", "LB_SG_SCAN", "SD_NR_GROUPS", "SD_SHARED_ALL"]
        );
    }
}
