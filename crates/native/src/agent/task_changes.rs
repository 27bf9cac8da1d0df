//! Changes of task groups and tasks during a run; the controller makes them when due.
//!
//! Groups are the run's own control groups, so nothing must be restored. A group's new values are computed before the
//! run, so that a value that this version of control groups lacks is an early error. Tasks that have ended, or not
//! begun, are skipped.

use crate::settings::cgroups::{Places, Version, later_writes, refused};
use crate::sys;
use crate::tasks::shared::Shared;
use schedlab_base::{CpuSet, Error, GroupId, Ns, Result, TaskId, Warning};
use schedlab_workload::{Built, GroupDecl, Later};
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Debug)]
enum Act {
    Write(Vec<(PathBuf, String)>),
    Move(TaskId, GroupId),
    Allow(TaskId, CpuSet),
    Confine(GroupId, CpuSet),
}

/// The changes of one run, and the number made so far.
#[derive(Debug, Default)]
pub struct Laters {
    acts: Vec<(Ns, Act)>,
    made: Cell<usize>,
    places: Places,
    parents: Vec<Option<GroupId>>,
    of_tasks: RefCell<Vec<GroupId>>,
}

impl Laters {
    /// The changes of a workload with control groups at these places.
    ///
    /// # Errors
    /// When a value has no counterpart in this version of control groups.
    pub fn of(built: &Built, places: &Places) -> Result<Laters> {
        let mask = |number: u32| built.masks.get(number as usize).cloned().unwrap_or_default();
        let act = |later: &Later| -> Result<Act> {
            Ok(match *later {
                Later::Moved(task, group) => Act::Move(task, group),
                Later::Allowed(task, number) => Act::Allow(task, mask(number)),
                Later::Confined(group, number) => Act::Confine(group, mask(number)),
                Later::Shares(group, _) | Later::Limited(group, _) => {
                    Act::Write(writes(built, places, group, later)?)
                }
            })
        };
        Ok(Laters {
            acts: built.later.iter().map(|(at, later)| Ok((*at, act(later)?))).collect::<Result<_>>()?,
            made: Cell::new(0),
            places: places.clone(),
            parents: built.groups.iter().map(|g| g.parent).collect(),
            of_tasks: RefCell::new(built.tasks.iter().map(|t| t.group).collect()),
        })
    }
    /// Makes due changes, with times counted from `from_ns`; returns the time of the next one.
    ///
    /// # Errors
    /// When the kernel refuses a change.
    pub fn make_due(&self, from_ns: u64, now_ns: u64, shared: &Shared) -> Result<Option<u64>> {
        while let Some((at, act)) = self.acts.get(self.made.get()) {
            let due = from_ns.saturating_add(at.0);
            if due > now_ns {
                return Ok(Some(due));
            }
            self.make(act, shared)?;
            self.made.set(self.made.get() + 1);
        }
        Ok(None)
    }
    /// A warning if the run ended before all changes were made.
    pub fn missed(&self) -> Option<Warning> {
        let (at, _) = self.acts.get(self.made.get())?;
        let text = format!("the run was over before its change at {at} was made");
        Some(Warning::new("settings.missed", text))
    }

    fn make(&self, act: &Act, shared: &Shared) -> Result<()> {
        let thread = |task: usize| shared.arena.thread(task).load(SeqCst);
        match act {
            Act::Write(files) => files.iter().try_for_each(|(path, value)| {
                fs::write(path, value)
                    .map_err(|e| refused(&path.display().to_string(), &format!("write '{value}' to"), &e))
            }),
            Act::Move(task, group) => {
                let (id, list) = (thread(task.index()), self.places.0.get(group.index()));
                let Some(list) = list.filter(|_| id != 0) else { return Ok(()) };
                let moved = fs::write(list, id.to_string());
                if moved.is_ok() {
                    self.of_tasks.borrow_mut()[task.index()] = *group;
                }
                unless_gone(moved, "move it to another control group", task.index(), shared)
            }
            Act::Allow(task, cpus) => self.allow(task.index(), cpus, shared),
            Act::Confine(group, cpus) => {
                let inside: Vec<usize> = {
                    let of_tasks = self.of_tasks.borrow();
                    (0..of_tasks.len()).filter(|t| self.is_within(of_tasks[*t], *group)).collect()
                };
                inside.into_iter().try_for_each(|task| self.allow(task, cpus, shared))
            }
        }
    }
    fn allow(&self, task: usize, cpus: &CpuSet, shared: &Shared) -> Result<()> {
        match shared.arena.thread(task).load(SeqCst) {
            0 => Ok(()),
            id => unless_gone(
                sys::set_affinity_of(id, cpus),
                &format!("restrict it to CPUs {cpus}"),
                task,
                shared,
            ),
        }
    }
    fn is_within(&self, group: GroupId, top: GroupId) -> bool {
        let mut level = Some(group);
        while let Some(at) = level.filter(|at| *at != top) {
            level = self.parents.get(at.index()).copied().flatten();
        }
        level.is_some()
    }
}

/// The writes for a group's new values; empty if no control groups were made.
fn writes(built: &Built, places: &Places, group: GroupId, later: &Later) -> Result<Vec<(PathBuf, String)>> {
    let Some(list) = places.0.get(group.index()) else { return Ok(Vec::new()) };
    let is_v1 = list.ends_with(Version::V1.threads());
    let version = if is_v1 { Version::V1 } else { Version::V2 };
    let folder = list.parent().unwrap_or(list);
    let saves = |of: &(Ns, Later)| matches!(&of.1, Later::Limited(_, limit) if limit.burst > Ns::ZERO);
    let bursts = built.groups.iter().any(|g: &GroupDecl| g.burst > Ns::ZERO) || built.later.iter().any(saves);
    later_writes(version, folder, &built.groups[group.index()].path, later, bursts)
}

/// The result of changing a task, which may have ended.
fn unless_gone(made: std::io::Result<()>, what: &str, task: usize, shared: &Shared) -> Result<()> {
    match made {
        Err(e) if e.raw_os_error() != Some(libc::ESRCH) => {
            let text = format!("task '{}': can't {what}: {e}", shared.names[task]);
            Err(Error::machine(text).help(format!("this run may use CPUs {}", shared.cpus)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::{Params, ROOT_GROUP, Spec};

    #[test]
    fn a_task_that_has_not_begun_is_not_moved() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("cgroup.threads");
        let hogs = Spec::bench("hogs", &Params([("tasks".to_owned(), 2)].into())).unwrap();
        let group = schedlab_workload::GroupSpec::at("/a");
        let built = hogs.together(vec![], vec![group], (vec![], vec![])).unwrap().build(1).unwrap();
        let places = Places(vec![folder.path().join("root/cgroup.threads"), list.clone()]);
        let laters = Laters::of(&built, &places).unwrap();
        let shared = Shared::new(built, &places).unwrap();
        shared.arena.thread(1).store(7, SeqCst);
        for task in [TaskId(0), TaskId(1)] {
            laters.make(&Act::Move(task, GroupId(1)), &shared).unwrap();
        }
        assert_eq!(*laters.of_tasks.borrow(), [ROOT_GROUP, GroupId(1)]);
        assert_eq!(fs::read_to_string(list).unwrap(), "7");
    }
}
