//! The side of a run in a file that has two.

use crate::Cast;
use std::collections::BTreeMap;

/// What distinguishes a run's CPUs and threads from those of another run in the file.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// 0 for the first run of a file, 1 for the second.
    pub number: u8,
    /// What stands before its names, such as "A: "; empty for a file with one run.
    pub label: String,
    /// Added to the numbers of its CPUs.
    pub first_cpu: u32,
    /// Added to the numbers of its threads and processes.
    pub first_tid: u32,
    /// Names of its processes, for those whose name is not that of their first thread.
    pub processes: BTreeMap<u32, String>,
}

impl Side {
    /// The side of a run beside another one in the same file.
    pub fn behind(other: &Cast) -> Side {
        let last = other.tasks.iter().map(|a| a.tid.max(a.process)).max().unwrap_or(0);
        // A round number, so that the same thread is easily found in both.
        let first_tid = (last + 1).next_multiple_of(10_000);
        Side { number: 1, first_cpu: other.cpus as u32, first_tid, ..Side::default() }
    }
}
