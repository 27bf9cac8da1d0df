//! Wakeup placement: which CPU a woken task goes to (`select_task_rq_fair` and `select_idle_sibling`).
//!
//! Two choices in a row. First (`target`) between the waker's CPU and the task's previous one ([`affine`],
//! gated by [`wide`]): that CPU is the *target*. Then an idle CPU near the target: the tests of [`prelude`],
//! then one of the searches of [`search`], by kernel version or by feature. Searches read the idle state of
//! one CPU at a time, each at its own instant of simulated time: they are small state machines that ask for a
//! probe and are told its answer.

pub mod affine;
pub mod core_scan;
mod drive;
pub mod first_idle;
pub mod group_scan;
mod idle_core;
pub mod llc;
pub mod prelude;
pub mod search;
pub mod state;
mod target;
pub mod wake_idle;
pub mod wide;

#[cfg(test)]
mod testing;
