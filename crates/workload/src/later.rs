//! Changes of task groups and tasks during a run. In a built workload they name groups and tasks by id.

use crate::build::{Built, TaskDecl};
pub use crate::decl::Later;
use crate::decl::Place;
use crate::group::ROOT_GROUP;
use schedlab_base::{CpuSet, Error, GroupId, Result, TaskId};
use schedlab_kernel::policy::group_of;
use schedlab_kernel::{Change, GroupChange, TaskChange};

/// Adds a variant's changes of groups and tasks to a workload. Times count from the end of the warm-up.
///
/// # Errors
/// When the workload has no such group or task.
pub fn note(built: &mut Built, changes: &[Change]) -> Result<()> {
    for change in changes {
        let mut later = Vec::new();
        if let Some(group) = &change.group {
            of_group(built, group, &mut later)?;
        }
        if let Some(task) = &change.task {
            of_tasks(built, task, &mut later)?;
        }
        built.later.extend(later.into_iter().map(|one| (change.time, one)));
    }
    Ok(())
}

fn of_group(built: &mut Built, change: &GroupChange, later: &mut Vec<Later>) -> Result<()> {
    let group = group(built, &change.path)?;
    let own = change.shares.is_some() || change.limit.is_some();
    if group == ROOT_GROUP && own {
        return Err(Error::input("the root group '/' has neither shares nor a quota"));
    }
    if change.shares.is_some() && built.groups[group.index()].idle {
        let text = format!("group '{}' is idle: it has no shares, and the kernel takes none", change.path);
        return Err(Error::input(text).help("an idle group gives way to all others; leave idle out"));
    }
    later.extend(change.shares.map(|shares| Later::Shares(group, shares)));
    later.extend(change.limit.map(|limit| Later::Limited(group, limit)));
    if let Some(cpus) = &change.cpus {
        later.push(Later::Confined(group, mask(built, cpus)));
    }
    Ok(())
}

fn of_tasks(built: &mut Built, change: &TaskChange, later: &mut Vec<Later>) -> Result<()> {
    let here = |t: &TaskDecl| t.place == Place::Host && !t.background;
    let meant = built.tasks.iter().enumerate().filter(|(_, t)| here(t) && change.means(&t.name));
    let tasks: Vec<TaskId> = meant.map(|(id, _)| TaskId::from(id)).collect();
    if tasks.is_empty() {
        let mut known: Vec<&str> =
            built.tasks.iter().filter(|t| here(t)).map(|t| group_of(&t.name)).collect();
        known.dedup();
        return Err(Error::unknown("task", &change.name, known));
    }
    if let Some(path) = &change.group {
        let group = group(built, path)?;
        later.extend(tasks.iter().map(|task| Later::Moved(*task, group)));
    }
    if let Some(cpus) = &change.cpus {
        let mask = mask(built, cpus);
        later.extend(tasks.iter().map(|task| Later::Allowed(*task, mask)));
    }
    Ok(())
}

fn group(built: &Built, path: &str) -> Result<GroupId> {
    match built.groups.iter().position(|g| g.path == path) {
        Some(known) => Ok(GroupId::from(known)),
        None => {
            let known = built.groups.iter().map(|g| g.path.as_str());
            let error = Error::unknown("group", path, known);
            let near = error.remedy().unwrap_or_default().to_owned();
            Err(error.help(format!("{near}; [[group]] with path = \"{path}\" makes it")))
        }
    }
}

fn mask(built: &mut Built, cpus: &CpuSet) -> u32 {
    let known = built.masks.iter().position(|mask| mask == cpus);
    known.unwrap_or_else(|| {
        built.masks.push(cpus.clone());
        built.masks.len() - 1
    }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupSpec, Params, Spec};
    use schedlab_base::Ns;
    use schedlab_kernel::Limit;

    fn built() -> Built {
        let hogs = Spec::bench("hogs", &Params([("tasks".to_owned(), 2)].into())).unwrap();
        let groups = vec![GroupSpec::at("/a"), GroupSpec::at("/b/c")];
        hogs.together(vec![], groups, (vec![], vec![])).unwrap().build(1).unwrap()
    }
    fn at(group: Option<GroupChange>, task: Option<TaskChange>) -> Change {
        Change { time: Ns::secs(1), group, task, ..Change::default() }
    }

    #[test]
    fn groups_and_tasks_are_found_by_name() {
        let mut built = built();
        let limit = Limit { quota: Some(Ns::ms(20)), ..Limit::default() };
        let cpus = Some(CpuSet::parse("1").unwrap());
        let group =
            GroupChange { path: "/b".into(), shares: Some(7), limit: Some(limit), cpus: cpus.clone() };
        let all = TaskChange { name: "hog".into(), group: Some("/b/c".into()), cpus: None };
        let one = TaskChange { name: "hog/1".into(), group: Some("/".into()), cpus };
        note(&mut built, &[at(Some(group), None), at(None, Some(all)), at(None, Some(one))]).unwrap();
        let (b, c) = (GroupId(2), GroupId(3));
        let changes: Vec<Later> = built.later.iter().map(|(_, later)| *later).collect();
        let wanted = [
            Later::Shares(b, 7),
            Later::Limited(b, limit),
            Later::Confined(b, 0),
            Later::Moved(TaskId(0), c),
            Later::Moved(TaskId(1), c),
            Later::Moved(TaskId(1), ROOT_GROUP),
            Later::Allowed(TaskId(1), 0),
        ];
        assert_eq!(changes, wanted);
        assert_eq!(built.masks.len(), 1, "a mask is kept once");
    }

    #[test]
    fn missing_tasks_and_groups_are_named() {
        let wrong = |change| note(&mut built(), &[change]).unwrap_err().to_string();
        let group = |path: &str| GroupChange { path: path.into(), shares: Some(2), ..GroupChange::default() };
        assert!(wrong(at(Some(group("/d")), None)).contains("unknown group '/d'"));
        assert!(wrong(at(Some(group("/d")), None)).contains("[[group]] with path = \"/d\" makes it"));
        assert!(wrong(at(Some(group("/")), None)).contains("root group"));
        let mut idle = built();
        idle.groups[1].idle = true;
        let refused = note(&mut idle, &[at(Some(group("/a")), None)]).unwrap_err().to_string();
        assert!(refused.contains("group '/a' is idle"), "{refused}");
        note(&mut idle, &[at(Some(group("/b")), None)]).unwrap();
        let task = TaskChange { name: "hgo".into(), group: Some("/a".into()), cpus: None };
        let text = wrong(at(None, Some(task)));
        assert!(text.contains("unknown task 'hgo'") && text.contains("'hog'"), "{text}");
    }
}
