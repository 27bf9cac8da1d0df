//! What a patch adds that can be switched or counted: features of the scheduler, counters, tunables.
//!
//! Features are lines `SCHED_FEAT(NAME, true)` of kernel/sched/features.h. Counters are fields of
//! `struct sched_domain`, `struct rq` or `struct sched_statistics` that schedstat prints; they are known by the
//! calls that bump them.

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

/// A counter that a patch adds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Counter(pub String);

/// The features and counters that patches add, each once.
pub fn adds(patches: &[Patch]) -> (Vec<Added>, Vec<Counter>) {
    let (mut features, mut removed): (Vec<Added>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    let (mut counters, mut known) = (BTreeSet::new(), BTreeSet::new());
    let hunks = patches.iter().flat_map(|p| &p.files).flat_map(|f| &f.hunks);
    for line in hunks.flat_map(|h| &h.lines) {
        let text = |t: &[u8]| String::from_utf8_lossy(t).trim().to_owned();
        match line {
            Line::Added(bytes) => {
                let text = text(bytes);
                features.extend(feature(&text));
                counters.extend(counter(&text));
            }
            Line::Removed(bytes) | Line::Context(bytes) => {
                let text = text(bytes);
                removed.extend(feature(&text).map(|f| f.name));
                known.extend(counter(&text));
            }
        }
    }
    // A changed default is a removed and an added line: the feature was there.
    features.retain(|f| !removed.contains(&f.name));
    features.dedup_by(|a, b| a.name == b.name);
    let counters = counters.difference(&known).cloned().map(Counter).collect();
    (features, counters)
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
}
