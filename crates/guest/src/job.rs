//! A guest's job and its reply, as plain data.

use schedlab_base::Ns;
use schedlab_machine::Topology;
use schedlab_native::live::Request;
use schedlab_native::{Fault, Outcome};
use serde::{Deserialize, Serialize};

/// The job of a guest's init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The run.
    pub request: Request,
    /// Further runs in the same boot, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Request>,
    /// Whether the begin and the end of each run are marked for a counter of instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// How long init lets the kernel come to rest after boot, in the guest's time.
    pub settle: Ns,
    /// Whether the loopback interface is switched on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// Whether balancing by last-level caches is switched off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub llc_balancing_off: bool,
}

/// The reply of a guest's init.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The run was made.
    Done(Box<Answer>),
    /// It could not be made.
    Failed(Fault),
}

/// The result of a run in a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The run's outcome.
    pub outcome: Outcome,
    /// The outcomes of further runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Outcome>,
    /// The CPUs as the guest's kernel sees them.
    pub topology: Topology,
}
