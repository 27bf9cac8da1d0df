//! Stored runs: found by name, their events, and what is read from them or made again of them.

pub(crate) mod code_events;
pub mod events;
pub mod named;
pub mod replay;
pub mod rerun;
mod same;
pub mod strips;
