//! Replay: predicts how another scheduler would have run a recorded schedule.
//!
//! `lower` turns events into a schedule (`schedlab_workload::replay`), `fit` finds the prices of waking and sleeping on
//! the machine of the replay, and compares the replay under the recorded kernel with the recording: that error is
//! printed with every prediction.

pub mod fit;
pub mod kept_groups;
pub mod lower;
mod silent;

#[cfg(test)]
mod tests;
