//! The benchmarks: one file each, one row each.

use crate::param::Benchmark;

mod schbench;

/// Every benchmark.
pub const BENCHMARKS: &[&Benchmark] = &[&schbench::SCHBENCH];
