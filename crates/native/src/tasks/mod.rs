//! The tasks of a run: programs as threads or processes, their shared memory, and their measurements.

pub mod arena;
pub mod channel;
pub mod column;
pub mod footprint;
pub mod intervals;
pub mod prepare;
pub mod recorder;
pub mod results;
pub mod shared;
pub mod task;
pub mod usage;
