//! Drivers of the O(1) scheduler: each applies the rules of its name to the machine.

mod pass;
mod rebalance;
mod wake;

pub(crate) use rebalance::cpu_offset;
