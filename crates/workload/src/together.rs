//! A workload with others beside it, and with its tasks in task groups.
//!
//! The first workload gives the name, the length and the results; the others run as long as it does. Tasks go into
//! groups by the names of their programs (`hog` of `hog/3`), or by the name that a workload beside was given.

use crate::build::{Builder, TaskDecl};
use crate::group::{self, ROOT_GROUP, shares_of_weight};
use crate::nested::{self, NestedSpec};
use crate::param::Params;
use crate::place::{self, Place};
use crate::remote::{self, RemoteSpec};
use crate::spec::{Spec, find};
use schedlab_base::{CpuSet, Error, GroupId, Ns, Result};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use serde::{Deserialize, Serialize};

/// A group, and the tasks that it has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Its path.
    pub path: String,
    /// Its shares.
    pub shares: u64,
    /// CPU time that it may use in a period, over all CPUs; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Ns>,
    /// The period of its quota.
    #[serde(default = "usual_period", skip_serializing_if = "is_usual_period")]
    pub period: Ns,
    /// CPU time that it may save up beyond its quota.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub burst: Ns,
    /// Its tasks give way to those of other groups; its shares play no part then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// CPUs that tasks in it, and in groups below it, may use; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Names of tasks; "*" for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
}

impl GroupSpec {
    /// A group at that path, with the usual values and without tasks.
    pub fn at(path: &str) -> GroupSpec {
        GroupSpec {
            path: path.to_owned(),
            shares: group::DEFAULT_SHARES,
            quota: None,
            period: group::DEFAULT_PERIOD,
            burst: Ns::ZERO,
            idle: false,
            cpus: None,
            tasks: Vec::new(),
        }
    }
}

fn usual_period() -> Ns {
    group::DEFAULT_PERIOD
}
fn is_usual_period(period: &Ns) -> bool {
    *period == group::DEFAULT_PERIOD
}
fn is_zero(burst: &Ns) -> bool {
    *burst == Ns::ZERO
}

/// A benchmark beside the workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Its name among [`crate::BENCHMARKS`].
    pub name: String,
    /// Its parameters; times in ns.
    pub params: Params,
    /// The name of its tasks instead of their own, numbers apart.
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
    (nested, remotes): (&[NestedSpec], &[RemoteSpec]),
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
    remote::build(remotes, b)?;
    place::settle(b)?;
    for (n, spec) in groups.iter().enumerate() {
        if groups[..n].iter().any(|other| other.path == spec.path) {
            return Err(Error::input(format!("group '{}' is there twice", spec.path)));
        }
        let id = b.group(&spec.path)?;
        if id == ROOT_GROUP && (spec.quota.is_some() || spec.idle || spec.shares != group::DEFAULT_SHARES) {
            return Err(Error::input("the root group '/' has neither shares nor a quota"));
        }
        let decl = b.edit_group(id);
        (decl.shares, decl.idle) = (spec.shares, spec.idle);
        (decl.quota, decl.period, decl.burst) = (spec.quota, spec.period, spec.burst);
    }
    join_all(groups, b)?;
    for spec in groups {
        spec.cpus.iter().try_for_each(|cpus| confine(&spec.path, cpus, b))?;
    }
    Ok(())
}

/// Leaves the tasks of a group, and of those below it, only these CPUs. CPUs that a task moves to by itself are its own
/// business.
fn confine(path: &str, cpus: &CpuSet, b: &mut Builder) -> Result<()> {
    let below =
        |other: &str| other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let inside: Vec<bool> = b.groups().iter().map(|g| path == "/" || below(&g.path)).collect();
    for task in b.tasks_from(0).iter_mut().filter(|t| t.place == Place::Host && inside[t.group.index()]) {
        let left = task.affinity.as_ref().map_or_else(|| cpus.clone(), |own| own.and(cpus));
        if left.is_empty() {
            let text = format!("task '{}' may use none of the CPUs {cpus} of group '{path}'", task.name);
            return Err(Error::input(text));
        }
        task.affinity = Some(left);
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
    b.settle(settings);
    if let Some(called) = &other.called {
        for (n, task) in b.tasks_from(first).iter_mut().enumerate() {
            task.name = format!("{called}/{n}");
        }
    }
    Ok(())
}

/// How closely a name of `[[group]]` tasks names a task; the closest name decides.
fn closeness(name: &str, task: &str) -> Option<u8> {
    match () {
        () if task == name => Some(2),
        () if group_of(task) == name => Some(1),
        () if name == EVERY_TASK => Some(0),
        () => None,
    }
}

/// Puts tasks into the groups that name them: by "*", by their program's name, or by their own, which decides.
fn join_all(groups: &[GroupSpec], b: &mut Builder) -> Result<()> {
    let ids: Vec<GroupId> = groups.iter().map(|spec| b.group(&spec.path)).collect::<Result<_>>()?;
    let named =
        || groups.iter().zip(&ids).flat_map(|(spec, id)| spec.tasks.iter().map(move |n| (n, spec, *id)));
    for task in b.tasks_from(0).iter_mut().filter(|t| t.place == Place::Host) {
        let mut best: Option<(u8, &GroupSpec)> = None;
        for (name, spec, id) in named() {
            let Some(close) = closeness(name, &task.name) else { continue };
            match best {
                Some((found, other)) if found == close && other.path != spec.path => {
                    let text = format!(
                        "task '{}' is in two groups, '{}' and '{}'",
                        task.name, other.path, spec.path
                    );
                    return Err(Error::input(text).help("name it in one of them"));
                }
                Some((found, _)) if found >= close => {}
                _ => {
                    best = Some((close, spec));
                    task.group = id;
                }
            }
        }
    }
    named().try_for_each(|(name, ..)| is_there(name, b.tasks_from(0)))
}

/// Refuses a name that no task of this machine has.
fn is_there(name: &str, tasks: &[TaskDecl]) -> Result<()> {
    let has_name = |t: &&TaskDecl| closeness(name, &t.name).is_some();
    let here = |t: &&TaskDecl| t.place == Place::Host;
    if tasks.iter().filter(here).any(|t| has_name(&t)) {
        return Ok(());
    }
    if tasks.iter().any(|t| has_name(&t)) {
        let text = format!("task '{name}' runs on another machine, where [[nested]] or [[remote]] put it");
        return Err(Error::input(text)
            .help("[[group]] is for tasks of this machine; 'NAME' of a [[nested]] names its vCPUs"));
    }
    let mut known: Vec<&str> = tasks.iter().filter(here).map(|t| group_of(&t.name)).collect();
    known.dedup();
    Err(Error::unknown("task", name, known))
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
        Spec::Together { base, beside, groups, nested: vec![], remotes: vec![] }
    }
    fn hogs(called: &str) -> Beside {
        let Spec::Bench { name, params } = Spec::bench("hogs", &Params::default()).unwrap() else { panic!() };
        Beside { name, params, called: Some(called.to_owned()) }
    }
    fn group(path: &str, tasks: &[&str]) -> GroupSpec {
        let tasks = tasks.iter().map(|t| (*t).to_owned()).collect();
        GroupSpec { shares: 2048, tasks, ..GroupSpec::at(path) }
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
    fn cpus_of_a_group_hold_for_the_groups_below_it() {
        let cpus = |path, tasks: &[&str], cpus| GroupSpec {
            cpus: Some(CpuSet::parse(cpus).unwrap()),
            ..group(path, tasks)
        };
        let groups = |inner| vec![cpus("/x", &[], "0-1"), cpus("/x/a", &["a"], inner), group("/xy", &["b"])];
        let built = spec(vec![hogs("a"), hogs("b")], groups("1-2")).build(1).unwrap();
        let of = |name: &str| {
            let task = built.tasks.iter().find(|t| group_of(&t.name) == name).unwrap();
            task.affinity.as_ref().map(ToString::to_string)
        };
        assert_eq!((of("a").as_deref(), of("b"), of("sleeper")), (Some("1"), None, None));
        let none = spec(vec![hogs("a"), hogs("b")], groups("2-3")).build(1).err().unwrap().to_string();
        assert!(none.contains("'a/0' may use none of the CPUs"), "{none}");
    }

    #[test]
    fn the_closest_name_decides_and_two_groups_are_refused() {
        let groups = |other: &[&str]| vec![group("/rest", &["*"]), group("/x", &["a"]), group("/y", other)];
        let built = spec(vec![hogs("a"), hogs("b")], groups(&["b/0", "a/0"])).build(1).unwrap();
        let of = |name: &str| {
            let task = built.tasks.iter().find(|t| t.name == name || group_of(&t.name) == name).unwrap();
            built.groups[task.group.index()].path.as_str()
        };
        assert_eq!([of("a/0"), of("b/0"), of("sleeper")], ["/y", "/y", "/rest"]);
        let error = spec(vec![hogs("a")], groups(&["a"])).build(1).err().unwrap().to_string();
        assert!(error.contains("'a/0' is in two groups, '/x' and '/y'"), "{error}");
    }

    #[test]
    fn unknown_tasks_and_workloads_that_end_are_refused() {
        let error = spec(vec![hogs("a")], vec![group("/x", &["hog"])]).build(1).err().unwrap().to_string();
        assert!(error.contains("unknown task 'hog'"), "{error}");
        let pipe = Spec::bench("pipe", &Params::default()).unwrap();
        let ends = Spec::Together {
            base: Box::new(pipe),
            beside: vec![hogs("a")],
            groups: vec![],
            nested: vec![],
            remotes: vec![],
        };
        assert!(ends.build(1).err().unwrap().to_string().contains("ends by itself"));
    }

    #[test]
    fn shares_or_a_weight() {
        assert_eq!(shares(None, None).unwrap(), 1024);
        assert_eq!(shares(None, Some(200)).unwrap(), 2048);
        assert!(shares(Some(1), None).is_err() && shares(Some(2), Some(3)).is_err());
    }
}
