//! Wakeup placement: to which CPU a woken task goes (`select_task_rq_fair` and `select_idle_sibling`).
//!
//! A wakeup makes two choices. The first (`target`) is between the waker's CPU and the task's previous one ([`affine`],
//! unless [`wide`] forbids it); the chosen one is the *target*. The second is an idle CPU near the target: first the
//! tests of [`prelude`], then one of the searches of [`search`], by kernel version or by feature. Searches read the
//! idle state of one CPU at a time, each at its own instant of simulated time. So they are small state machines that
//! ask for a probe and receive its answer.
//!
//! Rules: [`affine`], [`wide`], [`prelude`], [`search`] and the searches it names. State: [`state`] (a wakeup in
//! progress) and [`llc`] (hints of a cache domain). `target` and `idle_core` apply rules to the machine; `drive` takes
//! a wakeup through time.

pub mod absent_group;
pub mod affine;
mod asked;
pub mod capacity_scan;
pub mod core_scan;
mod drive;
pub mod first_idle;
pub mod group_scan;
mod idle_core;
pub mod llc;
pub mod prelude;
pub mod scan_cost;
pub mod search;
pub mod state;
mod target;
pub mod wake_idle;
pub mod wide;

#[cfg(test)]
mod testing;
