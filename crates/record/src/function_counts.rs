//! What each function of the kernel has executed in a run.

use std::collections::BTreeMap;

/// Calls and instructions of a function in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FunctionCount {
    /// Times its first instruction was executed. A function that was inlined has none.
    pub calls: u64,
    /// Instructions executed in it, without those of functions that it called.
    pub instructions: u64,
}

/// The counts of a run, by function.
pub type Counts = BTreeMap<String, FunctionCount>;
