//! Single decisions: states that are asked about, questions and answers. Our rules (`sim`) and a kernel's own code
//! (`transplant`) take the same ones, so that their answers can be compared.
//!
//! A state is of one runqueue ([`queue`]), of a CPU whose tasks are in groups ([`tree`]) or of a whole machine
//! ([`fleet`]). What begins with `Asked` is a state or a
//! part of one.

mod fleet;
mod queue;
mod tree;

pub use fleet::{
    AskedAverages, AskedCpu, AskedFleet, AskedGroup, AskedLevel, AskedPlace, AskedTask, FleetAnswer,
    FleetQuestion,
};
pub use queue::{AskedEntity, AskedQueue, QueueAnswer, QueueQuestion};
pub use tree::{
    After, AskedBranch, AskedLeaf, AskedTree, Buddy, Presence, TREE_GROUPS, TREE_TASKS, TreeAnswer,
    TreeQuestion,
};

/// When all questions are asked, ns.
pub const NOW: u64 = 10_000_000_000;
