//! What a system whose CPUs take turns keeps of it. Times are ns.

use schedlab_base::CpuId;
use schedlab_machine::Turns;

/// What a system whose CPUs take turns keeps of it.
pub struct Sharing {
    /// What the machine says of its turns.
    pub spec: Turns,
    /// Whose turn it is.
    pub holder: Option<CpuId>,
    /// The CPU whose turn it is waits for another: its turn ends.
    pub gives_way: bool,
    /// Since when each CPU has been without the turn, ns.
    pub(super) since: Vec<u64>,
    /// What is left of each CPU's round of waiting in user mode, ns.
    pub(super) round_left: Vec<u64>,
}

impl Sharing {
    /// Of a machine that has said so.
    pub fn new(spec: Turns, cpus: usize) -> Sharing {
        let (since, round_left) = (vec![0; cpus], vec![spec.spin_ns; cpus]);
        Sharing { spec, holder: None, gives_way: false, since, round_left }
    }
}
