//! The tasks of a run: programs as threads or processes, the memory that they share, and what each measures.

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
