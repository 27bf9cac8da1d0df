//! Experiments: reading them, planning their runs, running them, and saying what the runs show.

pub mod stats;
