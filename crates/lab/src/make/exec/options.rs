//! How runs are made.

use schedlab_base::Ns;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// How runs are made, in addition to their cells.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Whether the simulator's expensive invariants are checked.
    pub check: bool,
    /// Steps between two walks over a simulation's invariants; `None`: they are not walked. Records stay the same.
    pub walk_every: Option<u64>,
    /// The folder for files of the runs' events ([`super::Made::events`]): the store's, so that they can be moved.
    /// `None`: events are not kept. Simulations whose invariants are walked keep none.
    pub keep_events_in: Option<PathBuf>,
    /// Whether these files also have details ([`schedlab_trace::Sink::wants_details`]).
    pub keep_details: bool,
    /// Whether our rules are asked about the decisions of a kernel's own code.
    pub explains: bool,
    /// Runs of a kernel's own code end then, if their workloads last longer.
    pub until: Option<Ns>,
    /// Whether nobody wants more of a simulated run than its events, where these are kept.
    pub events_alone: bool,
    /// Gets a simulation's progress, simulated ns; useful if one run is made at a time.
    pub clock: Option<&'static AtomicU64>,
    /// Addresses in the object of a kernel's own code whose visits are counted ([`super::code::VISITS`]).
    pub watched: Vec<u64>,
}
