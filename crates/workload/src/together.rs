//! A workload with others in parallel (`beside`), and with its tasks in task groups.
//!
//! The first workload gives the name, the length and the results; the others begin with it and are cut off at its end.
//! A parallel one that ends by itself runs once, however early it ends. Tasks join groups by the names of their
//! programs (`hog` of `hog/3`), or by the name that a parallel workload was given.

use crate::bench::MODE;
use crate::build::{Builder, TaskDecl};
use crate::group::{self, GroupSpec, ROOT_GROUP, shares_of_weight};
use crate::nested::{self, NestedSpec};
use crate::param::Params;
use crate::place::{self, Place};
use crate::remote::{self, RemoteSpec};
use crate::rtapp;
use crate::spec::{Spec, find};
use schedlab_base::{CpuSet, Error, GroupId, Ns, Result};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use serde::{Deserialize, Serialize};

/// A benchmark or an rt-app text in parallel with the workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Its name in [`crate::BENCHMARKS`], or the name of the text's file for messages.
    pub name: String,
    /// Times in ns.
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtapp: Option<String>,
    /// The name that replaces its tasks' names, except for their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
}

/// Builds the workloads in turn, and puts the tasks into their groups.
///
/// # Errors
/// Those of the workloads; also when the modes differ, or a group names no task.
pub fn build(
    base: &Spec,
    beside: &[Beside],
    groups: &[GroupSpec],
    (nested, remotes): (&[NestedSpec], &[RemoteSpec]),
    b: &mut Builder,
) -> Result<()> {
    base.build_into(b)?;
    beside.iter().try_for_each(|other| build_beside(other, base, b))?;
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

/// Restricts the tasks of a group, and of groups below it, to these CPUs. CPUs that a task moves to by itself are not
/// checked.
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

/// Builds a parallel workload: its length is the first one's. One that ends by itself runs once.
fn build_beside(other: &Beside, base: &Spec, b: &mut Builder) -> Result<()> {
    let (first, settings, length) = (b.next_task().index(), b.settings(), b.whole_length());
    b.begin_beside(&other.name, other.called.as_deref());
    match &other.rtapp {
        Some(text) => rtapp::build(&other.name, text, Some(length), b)?,
        None => {
            let bench = find(&other.name)?;
            let mut params = other.params.clone();
            for (key, length) in [("runtime", length), ("warmup", Ns::ZERO)] {
                if bench.params.iter().any(|p| p.name == key) {
                    params.0.insert(key.to_owned(), length.0);
                }
            }
            (bench.build)(&params, b)?;
        }
    }
    b.end_beside();
    if b.settings().processes != settings.processes {
        return Err(unlike(other, base));
    }
    b.settle(settings);
    if let Some(called) = &other.called {
        for (n, task) in b.tasks_from(first).iter_mut().enumerate() {
            task.name = format!("{called}/{n}");
        }
    }
    Ok(())
}

/// The error about a benchmark of processes in parallel with a workload of threads. Either may have a choice. In the
/// opposite case the threads become processes, too.
fn unlike(other: &Beside, base: &Spec) -> Error {
    let (own, other) = (base.name(), &other.name);
    let text = format!(
        "the tasks of {own} are threads of one process, and those of {other} beside it are processes: in one run all \
         are the same"
    );
    let chooses = |name: &str| find(name).is_ok_and(|bench| bench.params.iter().any(|p| p.name == MODE));
    let help = match base.bare() {
        _ if chooses(other) => "mode = \"thread\" in [[beside]]".to_owned(),
        Spec::Bench { name, .. } if chooses(name) => "mode = \"process\" in [workload]".to_owned(),
        _ => format!("make {other} the workload, with {own} in [[beside]]"),
    };
    Error::input(text).help(help)
}

/// How closely a name in `[[group]]` tasks matches a task; the closest name decides. A virtual machine's name matches
/// all its threads: the one that handles its packets joins its groups, too (`cgroup_attach_task_all`, 2.6.35).
fn closeness(name: &str, task: &TaskDecl) -> Option<u8> {
    match () {
        () if task.name == name => Some(2),
        () if place::machine_of(task).unwrap_or_else(|| group_of(&task.name)) == name => Some(1),
        () if name == EVERY_TASK => Some(0),
        () => None,
    }
}

/// Puts tasks into the groups that name them: by "*", by their program's name, or by their own, which has priority.
fn join_all(groups: &[GroupSpec], b: &mut Builder) -> Result<()> {
    let ids: Vec<GroupId> = groups.iter().map(|spec| b.group(&spec.path)).collect::<Result<_>>()?;
    let named =
        || groups.iter().zip(&ids).flat_map(|(spec, id)| spec.tasks.iter().map(move |n| (n, spec, *id)));
    for task in b.tasks_from(0).iter_mut().filter(|t| t.place == Place::Host) {
        let mut best: Option<(u8, &GroupSpec)> = None;
        for (name, spec, id) in named() {
            let Some(close) = closeness(name, task) else { continue };
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

/// Rejects a name that no task of this machine has.
fn is_there(name: &str, tasks: &[TaskDecl]) -> Result<()> {
    let has_name = |t: &&TaskDecl| closeness(name, t).is_some();
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

/// Shares from one of the two ways to state them.
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
        Beside { name, params, rtapp: None, called: Some(called.to_owned()) }
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
    fn unknown_tasks_are_refused() {
        let error = spec(vec![hogs("a")], vec![group("/x", &["hog"])]).build(1).err().unwrap().to_string();
        assert!(error.contains("unknown task 'hog'"), "{error}");
    }

    #[test]
    fn the_run_lasts_as_long_as_the_workload_not_its_parallel_parts() {
        let beside = |name: &str| {
            let Spec::Bench { name, params } = Spec::bench(name, &Params::default()).unwrap() else {
                panic!()
            };
            Beside { name, params, rtapp: None, called: None }
        };
        let counting = |built: &crate::Built| built.tasks.iter().filter(|t| t.counts()).count();
        let built = spec(vec![beside("pipe"), beside("forks")], vec![]).build(1).unwrap();
        assert_eq!((built.to_the_end, built.duration, counting(&built)), (false, Ns::ms(500), 1));
        let base = Box::new(Spec::bench("pipe", &Params::default()).unwrap());
        let none = (vec![], vec![], vec![]);
        let ends =
            Spec::Together { base, beside: vec![hogs("a")], groups: none.0, nested: none.1, remotes: none.2 };
        let built = ends.build(1).unwrap();
        assert_eq!((built.to_the_end, built.duration, counting(&built)), (true, Ns::secs(600), 2));
    }

    #[test]
    fn the_same_benchmark_in_parallel_has_its_own_series() {
        let names = |called: Option<&str>| {
            let Spec::Bench { name, params } = Spec::bench("pipe", &Params::default()).unwrap() else {
                panic!()
            };
            let beside = vec![Beside { name, params, rtapp: None, called: called.map(str::to_owned) }];
            let pipe = Spec::bench("pipe", &Params::default()).unwrap();
            let built = pipe.together(beside, vec![], (vec![], vec![])).unwrap().build(1).unwrap();
            built.series.into_iter().map(|s| s.name).collect::<Vec<_>>()
        };
        let own = ["pipe.round_trip", "pipe.elapsed"];
        assert_eq!(names(None), [own[0], own[1], "beside.pipe.round_trip", "beside.pipe.elapsed"]);
        assert_eq!(names(Some("x")), [own[0], own[1], "x.pipe.round_trip", "x.pipe.elapsed"]);
    }

    #[test]
    fn processes_and_threads_don_t_mix_and_the_one_that_can_change_is_named() {
        let refused = |base: &str, mode: Option<u64>, other: &str, others: Option<u64>| {
            let params = |mode: Option<u64>| Params(mode.map(|m| (MODE.to_owned(), m)).into_iter().collect());
            let Spec::Bench { name, params: own } = Spec::bench(other, &params(others)).unwrap() else {
                panic!()
            };
            let beside = vec![Beside { name, params: own, rtapp: None, called: None }];
            let base = Spec::bench(base, &params(mode)).unwrap();
            let error = base.together(beside, vec![], (vec![], vec![])).unwrap_err();
            (error.message().to_owned(), error.remedy().unwrap_or_default().to_owned())
        };
        let (text, help) = refused("schbench", None, "embedded-db", None);
        assert!(
            text.contains("schbench are threads") && text.contains("embedded-db beside it are processes"),
            "{text}"
        );
        assert_eq!(help, "make embedded-db the workload, with schbench in [[beside]]");
        let (_, help) = refused("nanosleep", Some(1), "embedded-db", None);
        assert_eq!(help, "mode = \"process\" in [workload]");
        let (_, help) = refused("schbench", None, "nanosleep", Some(0));
        assert_eq!(help, "mode = \"thread\" in [[beside]]");
    }

    #[test]
    fn rtapp_texts_run_in_parallel_under_their_names() {
        let text =
            r#"{ "tasks": { "a": { "loop": -1, "run": 10, "sleep": 10 } }, "global": { "duration": 1 } }"#;
        let rtapp = |called: Option<&str>| Beside {
            name: "two.json".into(),
            params: Params::default(),
            rtapp: Some(text.into()),
            called: called.map(str::to_owned),
        };
        let built = spec(vec![rtapp(None), rtapp(Some("x"))], vec![]).build(1).unwrap();
        let names: Vec<&str> = built.tasks.iter().map(|t| t.name.as_str()).collect();
        assert_eq!((names, built.duration), (vec!["sleeper-0", "a-0", "x/0"], Ns::ms(500)));
        assert_eq!(
            built.tasks.iter().map(|t| t.part).collect::<Vec<_>>(),
            [0, 1, 2],
            "sessions of their own"
        );
    }

    #[test]
    fn shares_or_a_weight() {
        assert_eq!(shares(None, None).unwrap(), 1024);
        assert_eq!(shares(None, Some(200)).unwrap(), 2048);
        assert!(shares(Some(1), None).is_err() && shares(Some(2), Some(3)).is_err());
    }
}
