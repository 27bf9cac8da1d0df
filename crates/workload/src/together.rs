//! A workload with others beside it, and with its tasks in task groups.
//!
//! The first workload gives the name, the length and the results; the others run as long as it does. Tasks go into
//! groups by the names of their programs (`hog` of `hog/3`), or by the name that a workload beside was given.

use crate::build::Builder;
use crate::group::{self, shares_of_weight};
use crate::nested::{self, NestedSpec, Place};
use crate::param::Params;
use crate::spec::{Spec, find};
use schedlab_base::{Error, GroupId, Ns, Result};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use serde::{Deserialize, Serialize};

/// A group, and the tasks that it has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Its path.
    pub path: String,
    /// Its shares.
    pub shares: u64,
    /// Names of tasks; "*" for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
}

/// A benchmark beside the workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Its name among [`crate::BENCHMARKS`].
    pub name: String,
    /// Its parameters; times in ns.
    pub params: Params,
    /// What its tasks are called instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
}

/// Builds the workloads in turn, and puts the tasks into their groups.
///
/// # Errors
/// Those of the workloads; when one ends by itself or the modes differ; for a group without tasks of its name.
pub fn build(
    base: &Spec,
    beside: &[Beside],
    groups: &[GroupSpec],
    nested: &[NestedSpec],
    b: &mut Builder,
) -> Result<()> {
    base.build_into(b)?;
    if b.ends_by_itself() && !beside.is_empty() {
        let text = format!("{} ends by itself: nothing can run beside it yet", base.name());
        return Err(Error::input(text).help("beside goes with workloads that have a runtime"));
    }
    for (number, other) in beside.iter().enumerate() {
        one(other, number as u64 + 1, b)?;
    }
    nested::build(nested, b)?;
    for spec in groups {
        let id = b.group(&spec.path)?;
        b.edit_group(id).shares = spec.shares;
    }
    for spec in groups {
        let id = b.group(&spec.path)?;
        for name in &spec.tasks {
            join(name, id, b)?;
        }
    }
    Ok(())
}

/// Builds a workload beside the others: its length is theirs.
fn one(other: &Beside, number: u64, b: &mut Builder) -> Result<()> {
    let bench = find(&other.name)?;
    let (first, settings) = (b.next_task().index(), b.settings());
    let mut params = other.params.clone();
    for (key, length) in [("runtime", b.whole_length()), ("warmup", Ns::ZERO)] {
        if bench.params.iter().any(|p| p.name == key) {
            params.0.insert(key.to_owned(), length.0);
        }
    }
    b.draws_as(number);
    (bench.build)(&params, b)?;
    b.draws_as(0);
    if b.ends_by_itself() {
        return Err(Error::input(format!("{} ends by itself: it can't run beside another", other.name)));
    }
    if b.settings().processes != settings.processes {
        let text = format!("{} and the workload must both have processes, or both threads", other.name);
        return Err(Error::input(text).help("set the mode of one of them"));
    }
    b.set(settings);
    if let Some(called) = &other.called {
        for (n, task) in b.tasks_from(first).iter_mut().enumerate() {
            task.name = format!("{called}/{n}");
        }
    }
    Ok(())
}

/// Puts the tasks of that name into a group.
fn join(name: &str, group: GroupId, b: &mut Builder) -> Result<()> {
    let mut found = false;
    let mut known: Vec<String> = Vec::new();
    for task in b.tasks_from(0) {
        let own = group_of(&task.name);
        if task.place != Place::Host {
            // Control groups are the host's.
            continue;
        }
        if name == EVERY_TASK || own == name || task.name == name {
            task.group = group;
            found = true;
        } else if !known.iter().any(|k| k == own) {
            known.push(own.to_owned());
        }
    }
    if found {
        return Ok(());
    }
    Err(Error::unknown("task", name, known.iter().map(String::as_str)))
}

/// Shares from the two ways to state them.
///
/// # Errors
/// When both are given, or a value is out of the kernel's range.
pub fn shares(shares: Option<u64>, weight: Option<u64>) -> Result<u64> {
    match (shares, weight) {
        (Some(_), Some(_)) => Err(Error::input("a group has shares or a weight, not both")),
        (Some(s), None) if group::SHARES.contains(&s) => Ok(s),
        (None, Some(w)) if group::WEIGHTS.contains(&w) => Ok(shares_of_weight(w)),
        (None, None) => Ok(group::DEFAULT_SHARES),
        (Some(_), None) => Err(Error::input("shares are 2 to 262144; the default is 1024")),
        (None, Some(_)) => Err(Error::input("a weight is 1 to 10000; the default is 100")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(beside: Vec<Beside>, groups: Vec<GroupSpec>) -> Spec {
        let params = Params([("runtime".to_owned(), 500_000_000)].into());
        let base = Box::new(Spec::bench("nanosleep", &params).unwrap());
        Spec::Together { base, beside, groups, nested: vec![] }
    }
    fn hogs(called: &str) -> Beside {
        let Spec::Bench { name, params } = Spec::bench("hogs", &Params::default()).unwrap() else { panic!() };
        Beside { name, params, called: Some(called.to_owned()) }
    }
    fn group(path: &str, tasks: &[&str]) -> GroupSpec {
        let tasks = tasks.iter().map(|t| (*t).to_owned()).collect();
        GroupSpec { path: path.to_owned(), shares: 2048, tasks }
    }

    #[test]
    fn others_run_as_long_as_the_first_and_tasks_find_their_groups() {
        let built = spec(vec![hogs("a"), hogs("b")], vec![group("/x/a", &["a"]), group("/y", &["sleeper"])])
            .build(1)
            .unwrap();
        assert_eq!(built.duration, Ns::ms(500));
        let of = |name: &str| {
            let task = built.tasks.iter().find(|t| group_of(&t.name) == name).unwrap();
            built.groups[task.group.index()].path.as_str()
        };
        assert_eq!([of("a"), of("b"), of("sleeper")], ["/x/a", "/", "/y"]);
        assert_eq!(built.groups.len(), 4);
        assert_eq!(built.groups[2].shares, 2048);
        assert_eq!(built.groups[1].shares, 1024, "/x is declared on the way");
    }

    #[test]
    fn unknown_tasks_and_workloads_that_end_are_refused() {
        let error = spec(vec![hogs("a")], vec![group("/x", &["hog"])]).build(1).err().unwrap().to_string();
        assert!(error.contains("unknown task 'hog'"), "{error}");
        let pipe = Spec::bench("pipe", &Params::default()).unwrap();
        let ends =
            Spec::Together { base: Box::new(pipe), beside: vec![hogs("a")], groups: vec![], nested: vec![] };
        assert!(ends.build(1).err().unwrap().to_string().contains("ends by itself"));
    }

    #[test]
    fn shares_or_a_weight() {
        assert_eq!(shares(None, None).unwrap(), 1024);
        assert_eq!(shares(None, Some(200)).unwrap(), 2048);
        assert!(shares(Some(1), None).is_err() && shares(Some(2), Some(3)).is_err());
    }
}
