//! Calls and instructions of each of the kernel's functions in a run.

use std::collections::BTreeMap;

/// Calls and instructions of a function in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FunctionCount {
    /// How often its first instruction was executed; 0 for a function that was inlined.
    pub calls: u64,
    /// Instructions executed in it, without those of functions that it called.
    pub instructions: u64,
}

pub type Counts = BTreeMap<String, FunctionCount>;
