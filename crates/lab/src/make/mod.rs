//! Making runs: which, whether they fit, by whom, and how many more.

pub mod budget;
pub mod exec;
pub mod instruction_counts;
pub mod memory_estimate;
pub mod packed_cell;
pub mod plan;
pub mod profile;
pub mod request;
pub mod stat;
pub mod watch;
