//! Declarations of a built workload in addition to its tasks: places, machines, and changes during a run.

use schedlab_base::{GroupId, Ns, TaskId};
use schedlab_kernel::{Kernel, Limit};

/// The part of virtual machines' threads, which are always on the machine itself.
pub(crate) const MACHINES: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The machine itself.
    #[default]
    Host,
    /// The virtual machine with this number.
    Inside(u32),
    /// The machine with this number behind a link.
    Remote(u32),
}

/// A virtual machine, resolved.
#[derive(Clone, Debug)]
pub struct NestedDecl {
    pub name: String,
    /// The threads of its vCPUs.
    pub vcpus: Vec<TaskId>,
    /// The thread that handles its packets (vhost-net).
    pub vhost: TaskId,
    pub kernel: Kernel,
    /// Whether its tick continues while a vCPU is idle.
    pub periodic_tick: bool,
    /// The host's `halt_poll_ns`.
    pub halt_poll: Ns,
}

/// A machine behind a link, resolved.
#[derive(Clone, Debug)]
pub struct RemoteDecl {
    pub name: String,
    pub cpus: u32,
    pub kernel: Kernel,
    /// One-way delay of the link.
    pub delay: Ns,
    /// Number of queues of the network interface at this end.
    pub queues: u32,
}

/// A change of a task group or of a task during a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Later {
    /// The group's new shares.
    Shares(GroupId, u64),
    /// The group's new quota, or none.
    Limited(GroupId, Limit),
    /// The tasks in the group, and in groups below it, may use the CPUs of the mask.
    Confined(GroupId, u32),
    Moved(TaskId, GroupId),
    /// The task may use the CPUs of the mask.
    Allowed(TaskId, u32),
}
