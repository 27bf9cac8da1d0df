//! Single decisions: given states, questions and answers. Our rules (`sim`) and a kernel's own code (`transplant`) get
//! the same ones, so that their answers can be compared.
//!
//! A state is of one runqueue ([`queue`]), of a CPU whose tasks are in groups ([`tree`]), of a whole machine
//! ([`fleet`]), or of a wakeup in a run of a kernel's own code ([`choice`]). Names that begin with `Asked` are states
//! or parts of states.

mod choice;
mod fleet;
mod queue;
mod tree;

pub use choice::{AskedChoice, AskedChoiceCpu, Bearing, Choice, Rules};
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
