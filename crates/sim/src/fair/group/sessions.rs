//! Autogroup (`kernel/sched/autogroup.c`, since 2.6.38): the tasks of a session that are in no other group form one.
//!
//! A session is what a shell starts with setsid: here a benchmark, or an rt-app file. So the workload is one session,
//! and each benchmark next to it another. A task that is in a group stays there; the machine's own tasks stay in the
//! root group. Such a group has the usual shares. Not modelled: the nice value of a session's group.

use schedlab_kernel::policy::group_of;
use schedlab_workload::{Built, GroupDecl, Place, ROOT_GROUP};

/// The beginning of the path of a session's group.
const SESSION: &str = "/autogroup-";

/// Whether a group belongs to a session. Its tasks start in it.
pub fn is_session(path: &str) -> bool {
    path.starts_with(SESSION)
}

/// Puts the tasks of the kernel `here` into their sessions' groups.
pub fn separate(workload: &mut Built, here: Place) {
    for task in
        workload.tasks.iter_mut().filter(|t| t.group == ROOT_GROUP && !t.background && t.place == here)
    {
        // The kernel's name for such a group.
        let path = match task.part.checked_add(1) {
            Some(session) => format!("{SESSION}{session}"),
            // A virtual machine's process is a session of its own.
            None => format!("{SESSION}{}", group_of(&task.name)),
        };
        let known = workload.groups.iter().position(|g| g.path == path);
        let number = known.unwrap_or_else(|| {
            workload.groups.push(GroupDecl { path, parent: Some(ROOT_GROUP), ..GroupDecl::root() });
            workload.groups.len() - 1
        });
        task.group = number.into();
    }
}
