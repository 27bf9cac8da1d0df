//! Control groups of a live run: the workload's task groups as groups of the kernel's cpu controller.
//!
//! The groups are made below schedlab's own group, which is the workload's root group `/`. Above it, nothing changes
//! except the list of controllers that it gives to its children (`cgroup.subtree_control`, v2). [`groups_of`] turns the
//! workload's groups into writes, and [`crate::settings::Plan::apply`] makes them. The journal has those that outlive
//! the run. Each task joins its group before it starts. Both versions of control groups are supported: v2 as threaded
//! groups (cpu controller in v2 since Linux 4.15, cgroup.type since 4.14), because a run's tasks may be threads of one
//! process; and v1, if the cpu controller is mounted so (since 2.6.24).

mod capture;
mod hierarchy;
mod join;
pub(super) mod remove;
mod stat;
pub(super) mod words;
mod writes;

#[cfg(test)]
mod tests;

pub use capture::WatchedGroup;
pub use hierarchy::{Hierarchy, Version, find};
pub use join::Places;
pub use remove::{is_ours, remove};
pub use words::{DELEGATE, SETTING};
pub use writes::{Groups, later_writes};

use crate::settings::Files;
use crate::settings::owner::Owner;
use schedlab_base::{Error, Ns, Result, Warning};
use schedlab_kernel::Change;
use schedlab_workload::{Built, ROOT_GROUP, Spec};
use std::io;
use std::path::Path;

/// The control groups of a workload on this system, some of which change during the run; `None` if all its tasks are in
/// the root group.
///
/// # Errors
/// When the workload can't be built, its groups have values that this version of control groups lacks, or control
/// groups are not available here.
pub fn groups_of(
    files: &dyn Files,
    spec: &Spec,
    later: &[Change],
    seed: u64,
    me: Owner,
) -> Result<Option<Groups>> {
    if !spec.has_groups() {
        return Ok(None);
    }
    let built = spec.build(seed)?;
    if built.groups.len() < 2 {
        return Ok(None);
    }
    let hierarchy = find(files)?;
    let mut groups = writes::groups(files, &hierarchy, me, &built.groups)?;
    for (n, group) in built.groups.iter().enumerate().filter(|(_, g)| g.quota.is_none()) {
        let limits = |c: &Change| c.group.as_ref().is_some_and(|g| g.path == group.path && g.limit.is_some());
        if later.iter().any(limits) {
            let folder = groups.places.0[n].parent().map(Path::to_owned);
            groups.limited.extend(folder.map(|folder| (group.path.clone(), folder)));
        }
    }
    if built.warmup > Ns::ZERO {
        groups.limited.clear();
    }
    groups.warnings.extend(writes::later_inexact(hierarchy.version, later)?);
    groups.warnings.extend(autogrouped(files, &hierarchy, &built));
    Ok(Some(groups))
}

/// The warning about tasks outside the workload's groups whose session is a group (autogroup, 2.6.38): they share its
/// weight, and do not compete individually with the groups, unlike the simulator's tasks.
fn autogrouped(files: &dyn Files, hierarchy: &Hierarchy, built: &Built) -> Option<Warning> {
    let session = files.read(&files.place("/proc/self/autogroup")).unwrap_or_default();
    let on = files.read(&files.place("/proc/sys/kernel/sched_autogroup_enabled")).unwrap_or_default();
    let stays = built.tasks.iter().find(|t| t.group == ROOT_GROUP)?;
    (hierarchy.is_top && on.trim() == "1" && session.contains("autogroup")).then(|| {
        let text = format!(
            "'{}' and other tasks of the root group share the weight of this session's autogroup: give them a \
             [[group]], or set autogroup = 0",
            stays.name
        );
        Warning::new("cgroup.autogroup", text)
    })
}

/// The error about a control group that can't be made, with the remedy.
pub(crate) fn refused(path: &str, doing: &str, e: &io::Error) -> Error {
    let error = Error::machine(format!("control groups: can't {doing} {path}: {e}"));
    match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => error.help(
            "this kernel lacks it: cpu.idle came with 5.15, cpu.max.burst with 5.14, cpu.max with 4.15 and \
             CONFIG_CFS_BANDWIDTH; --backend sim has all of them",
        ),
        // v2: a group with tasks gives its children only threaded controllers.
        (_, Some(libc::EBUSY | libc::EOPNOTSUPP)) => error.help(format!(
            "the group that schedlab runs in has other controllers or groups that threaded groups can't be beside; \
             {DELEGATE}"
        )),
        (_, Some(libc::EINVAL)) => {
            error.help("the kernel does not take this value; in v1 a group's quota is at most that of the group above")
        }
        _ => error.help(DELEGATE),
    }
}
