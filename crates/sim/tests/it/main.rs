//! The simulator from outside: machines, kernels and workloads in, events and reports out.
//!
//! All tests are one executable, so that they share `support` and link once. `cargo test -p schedlab-sim --test it
//! MODULE::` runs the tests of one module.

mod support;

mod changes;
mod checker;
mod counters;
mod delayed;
mod determinism;
mod draws;
mod eevdf;
mod layers;
mod mechanisms;
mod merging;
mod properties;
mod rt;
mod turns;
