//! The simulator held against real kernels: cases, the one list of metrics, and the rule by which they agree.
//!
//! A simulation is a claim (DESIGN.md, rule 9). A case says beforehand how far off each class of metrics may be; the
//! same list of metrics is compared in every case, and all of it is told.

pub mod case;
pub mod metrics;
