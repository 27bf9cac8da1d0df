//! State of a system whose CPUs take turns. Times are ns.

use schedlab_base::CpuId;
use schedlab_machine::Turns;

/// State of a system whose CPUs take turns.
pub struct Sharing {
    /// The machine's parameters of its turns.
    pub spec: Turns,
    /// The CPU that has the turn.
    pub holder: Option<CpuId>,
    /// The CPU that has the turn waits for another one: the turn ends.
    pub gives_way: bool,
    /// Since when each CPU has been without the turn, ns.
    pub(super) since: Vec<u64>,
    /// Time left of each CPU's round of waiting in user mode, ns.
    pub(super) round_left: Vec<u64>,
}

impl Sharing {
    /// The state of a machine with this `spec`, before its first turn.
    pub fn new(spec: Turns, cpus: usize) -> Sharing {
        let (since, round_left) = (vec![0; cpus], vec![spec.spin_ns; cpus]);
        Sharing { spec, holder: None, gives_way: false, since, round_left }
    }
}
