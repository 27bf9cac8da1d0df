//! What a built workload declares beside its tasks: places, machines, and changes in mid-run.

use schedlab_base::{GroupId, Ns, TaskId};
use schedlab_kernel::{Kernel, Limit};

/// The part that the threads of virtual machines belong to; they are always on the machine itself.
pub(crate) const MACHINES: u64 = u64::MAX;

/// The place where a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The machine itself.
    #[default]
    Host,
    /// The virtual machine of that number.
    Inside(u32),
    /// The machine of that number behind a link.
    Remote(u32),
}

/// A virtual machine, resolved.
#[derive(Clone, Debug)]
pub struct NestedDecl {
    pub name: String,
    /// The threads of its vCPUs.
    pub vcpus: Vec<TaskId>,
    /// The thread that moves its packets (vhost-net).
    pub vhost: TaskId,
    pub kernel: Kernel,
    /// Whether its tick continues while a vCPU is idle.
    pub periodic_tick: bool,
    /// `halt_poll_ns` of the host.
    pub halt_poll: Ns,
}

/// A machine behind a link, resolved.
#[derive(Clone, Debug)]
pub struct RemoteDecl {
    pub name: String,
    pub cpus: u32,
    pub kernel: Kernel,
    /// The link's delay, one way.
    pub delay: Ns,
    /// Queues of the network interface at this end.
    pub queues: u32,
}

/// A change of a task group or of a task in the middle of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Later {
    /// A group has these shares.
    Shares(GroupId, u64),
    /// A group has this quota, or none.
    Limited(GroupId, Limit),
    /// The tasks that are in the group, or in one below it, may use the CPUs of the mask.
    Confined(GroupId, u32),
    /// A task moves to a group.
    Moved(TaskId, GroupId),
    /// A task may use the CPUs of the mask.
    Allowed(TaskId, u32),
}
