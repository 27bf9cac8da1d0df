//! Makes a fresh kernel start the workers that exist on a machine after some time.
//!
//! A thread that joins a control group leaves an object behind, which the kernel frees after a grace period
//! (`kfree_rcu`). The first time this happens on a CPU, the kernel fills that CPU's store of pages through a worker of
//! high priority, and the pool starts a second worker. A new task counts as one that always ran, and this one has nice
//! -20. So the CPU's load rises by 88,761 and takes 300 ms to decay. That would decide wakeups and balancing in a run's
//! first milliseconds, so each CPU does it before the rest.

use crate::sys;
use std::fs;
use std::path::Path;

/// The mount point of the unified control group hierarchy.
pub const CGROUPS: &str = "/sys/fs/cgroup";
/// The group that init joins, leaves and removes.
const GROUP: &str = "schedlab-warm";

/// Frees an object on each CPU. Does nothing if the unified hierarchy is not mounted.
pub fn warm_up(cpus: usize) {
    let on = |cpu| sys::run_on(|other| other == cpu).is_ok();
    through(Path::new(CGROUPS), cpus, on);
    let _ = sys::run_on(|_| true);
}

/// Joins and leaves a group on each CPU to which `on` can move this thread.
fn through(top: &Path, cpus: usize, mut on: impl FnMut(usize) -> bool) {
    let group = top.join(GROUP);
    if fs::create_dir(&group).is_err() {
        return;
    }
    let join = |group: &Path| fs::write(group.join("cgroup.procs"), "0");
    for cpu in 0..cpus {
        // The group's set of controllers is freed when its last process leaves, on the CPU where this happens.
        if on(cpu) && join(&group).is_ok() {
            let _ = join(top);
        }
    }
    let _ = fs::remove_dir(&group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_joins_the_group_and_leaves_it() {
        let top = tempfile::tempdir().unwrap();
        let (group, list) = (top.path().join(GROUP), top.path().join("cgroup.procs"));
        let mut visited = Vec::new();
        through(top.path(), 4, |cpu| {
            let left = fs::remove_file(&list).is_ok();
            let joined = fs::remove_file(group.join("cgroup.procs")).is_ok();
            visited.push((cpu, joined, left));
            cpu != 2
        });
        assert_eq!(visited, [(0, false, false), (1, true, true), (2, true, true), (3, false, false)]);
        assert_eq!(fs::read_to_string(&list).unwrap(), "0", "init ends at the top");
    }

    #[test]
    fn a_kernel_without_control_groups_is_left_alone() {
        let top = tempfile::tempdir().unwrap();
        through(&top.path().join("none"), 2, |_| panic!("there is nothing to join"));
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 0);
    }
}
