//! The CPU of a task that wakes up or is pushed (`select_task_rq_rt`, `find_lowest_rq`, `cpupri_find`).

use super::Rank;
use schedlab_base::{CpuId, CpuSet};

/// The facts that decide whether a waking task looks for another CPU than its previous one.
#[derive(Clone, Copy, Debug)]
pub struct RtWaking {
    /// The rank of the task that runs on that CPU; `None` if it is not a real-time task.
    pub curr: Option<Rank>,
    /// Whether the running task may run only on its CPU.
    pub curr_is_pinned: bool,
    pub own: Rank,
    /// Whether the kernel leaves the CPU to the more important of the two.
    pub compares: bool,
}

/// Whether a waking task looks for another CPU. If the kernel compares the two tasks, a more important waking one stays
/// and has the running one pushed away, to avoid bouncing between CPUs; an equal one looks for another CPU.
pub fn looks_elsewhere(w: RtWaking) -> bool {
    w.curr.is_some_and(|curr| !w.compares || w.curr_is_pinned || curr <= w.own)
}

/// The CPUs with the least important work of all, if that is less important than `own` (`cpupri_find`). CPUs without a
/// real-time task are all equal, idle or not.
pub fn lowest(own: Rank, cpus: impl Iterator<Item = (CpuId, Rank)> + Clone) -> CpuSet {
    let least = cpus.clone().map(|(_, rank)| rank).max().filter(|least| *least > own);
    let mut set = CpuSet::new();
    cpus.filter(|(_, rank)| Some(*rank) == least).for_each(|(cpu, _)| set.insert(cpu));
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowest_of(own: u8, ranks: &[u8]) -> Vec<u32> {
        let cpus = ranks.iter().enumerate().map(|(c, r)| (CpuId::from(c), Rank(*r)));
        lowest(Rank(own), cpus).iter().map(|c| c.0).collect()
    }

    #[test]
    fn the_least_important_work_gives_way() {
        assert_eq!(lowest_of(50, &[100, 60, 100, 40]), [0, 2], "CPUs without real-time tasks come first");
        assert_eq!(lowest_of(50, &[60, 70, 70, 40]), [1, 2]);
        assert_eq!(lowest_of(50, &[50, 40]), [] as [u32; 0], "an equal does not give way");
    }

    #[test]
    fn a_more_important_wakee_stays() {
        let on = |curr: Option<u8>| RtWaking {
            curr: curr.map(Rank),
            curr_is_pinned: false,
            own: Rank(50),
            compares: true,
        };
        assert!(!looks_elsewhere(on(None)), "a fair task gives way");
        assert!(!looks_elsewhere(on(Some(60))), "the running one will be pushed");
        assert!(looks_elsewhere(RtWaking { curr_is_pinned: true, ..on(Some(60)) }), "it cannot be");
        assert!(looks_elsewhere(on(Some(50))) && looks_elsewhere(on(Some(40))));
        assert!(looks_elsewhere(RtWaking { compares: false, ..on(Some(60)) }), "before 2.6.37");
    }
}
