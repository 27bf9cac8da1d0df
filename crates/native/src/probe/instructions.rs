//! The time of a kernel instruction (`instruction_ps`), by the CPU's own counters.
//!
//! Bytes go through a pipe and back on one CPU; the counter and the clock measure these calls. The calls are warm: code
//! that a CPU has not executed recently takes longer. Without counters, as on most virtual machines, or without
//! permission to count the kernel, the table's figure stays.

use super::batches::{Batches, KnownCosts};
use super::channels::{fault, open};
use crate::sys;
use crate::watch::counters::{Counts, Set, Whom, Width};
use schedlab_base::Result;
use schedlab_workload::ChannelKind;
use std::os::fd::AsFd;

const BATCHES: usize = 101;
/// Number of times per batch that a byte is written and read.
const CALLS: usize = 500;
const INSTRUCTIONS: &str = "perf.instructions";
const CLOCK: &str = "perf.task_clock";

/// Measures on the caller's CPU, if instructions can be counted.
pub(super) fn measure(known: &mut KnownCosts) -> Result<()> {
    let mut set = Set::open(&Whom::Myself, Width::Usual);
    if set.counts_user_only() || [INSTRUCTIONS, CLOCK].iter().any(|name| set.why(name).is_some()) {
        return Ok(());
    }
    let [from, to] = open(ChannelKind::Pipe)?;
    if set.enable().is_err() {
        return Ok(());
    }
    let (mut all, mut before) = (Vec::new(), set.read());
    for _ in 0..BATCHES {
        for _ in 0..CALLS {
            sys::write(to.as_fd(), &[0]).map_err(fault)?;
            sys::read(from.as_fd(), &mut [0]).map_err(fault)?;
        }
        let now = set.read();
        all.extend(instruction_ps(&now.clone().less(&before)));
        before = now;
    }
    if !all.is_empty() {
        let how = "a byte through a pipe and back, by the CPU's counters";
        known.add(Batches::new(all).cost("instruction_ps", 0, how));
    }
    Ok(())
}

/// ps per instruction; `None` if either was not counted.
fn instruction_ps(counts: &Counts) -> Option<u64> {
    let count = |name: &str| counts.counters.get(name).copied().filter(|n| *n > 0);
    Some(count(CLOCK)? * 1000 / count(INSTRUCTIONS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_divided_by_the_instructions_where_both_are_there() {
        let of = |list: &[(&str, u64)]| Counts {
            counters: list.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            ..Counts::default()
        };
        assert_eq!(instruction_ps(&of(&[(CLOCK, 300_000), (INSTRUCTIONS, 2_000_000)])), Some(150));
        assert_eq!(instruction_ps(&of(&[(CLOCK, 300_000)])), None);
        assert_eq!(instruction_ps(&of(&[(CLOCK, 300_000), (INSTRUCTIONS, 0)])), None);
    }
}
