//! What the hardware is: topology, the sched domains and groups a kernel derives from it, and what each step costs.
//!
//! A machine comes from a preset (`machines/*.toml`, compiled in), from a file of the same form, from a size of no make
//! (`smp-N`, `smt-N`), or from this host's sysfs (`host`). Domains are derived per kernel era (facts, section 5).

pub mod costs;
pub mod domains;
pub mod topology;

pub use costs::{Background, Costs, IdleState};
pub use domains::{Domain, DomainParams, Domains, Group, Level};
pub use topology::{Cpu, Distance, Topology};

use serde::{Deserialize, Serialize};

/// A machine: what a simulation runs on, or what a live run ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The name it is asked for by ("fb-2x12-smt").
    pub name: String,
    /// One line for people.
    pub about: String,
    /// CPUs, caches, nodes.
    pub topology: Topology,
    /// What each step costs, with source and range in [`Costs::TABLE`] or the machine's file.
    pub costs: Costs,
    /// Idle states, shallowest first; empty means an idle CPU polls.
    pub idle_states: Vec<IdleState>,
    /// Tasks the machine runs by itself (kworkers and the like).
    pub background: Vec<Background>,
}
