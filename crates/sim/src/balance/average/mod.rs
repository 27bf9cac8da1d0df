//! The rules of the balancers that compare loads with an average (2.6.30, 3.4 and 4.5); pure.
//!
//! Groups are judged by load and by the number of tasks that fit. Loads are weights or `cpu_load[]`, since 4.5 PELT
//! averages (1024: one nice-0 task that always runs). [`spare`](super::spare) replaces these rules from 5.5 on.

pub mod active;
pub mod busiest;
pub mod classify;
pub mod detach;
pub mod imbalance;
pub mod nohz;
pub mod queue;
pub mod stats;
