//! The side of a run in a file with two runs.

use crate::Cast;
use std::collections::BTreeMap;

/// Offsets and labels that separate a run's CPUs and threads from another run's in the file.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// 0 for the first run of a file, 1 for the second.
    pub number: u8,
    /// Prefix of the run's names, such as "A: "; empty in a file with one run.
    pub label: String,
    /// Added to CPU numbers.
    pub first_cpu: u32,
    /// Added to thread and process ids.
    pub first_tid: u32,
    /// Names of processes that differ from their first thread's name.
    pub processes: BTreeMap<u32, String>,
}

impl Side {
    /// The side of a second run after the run `other` in the same file.
    pub fn behind(other: &Cast) -> Side {
        let last = other.tasks.iter().map(|a| a.tid.max(a.process)).max().unwrap_or(0);
        // A round number makes it easy to find the same thread in both runs.
        let first_tid = (last + 1).next_multiple_of(10_000);
        Side { number: 1, first_cpu: other.cpus as u32, first_tid, ..Side::default() }
    }
}
