//! Load balancing as in 2.6.30, 3.4, 4.5 and 6.5 (`load_balance` and its callers).
//!
//! Rules are pure functions in files named by nouns. There are two families: [`average`] (before 5.5) compares loads
//! with an average, [`spare`] (since 5.5) looks for spare capacity. The other files here hold facts and rules that both
//! share. State: [`state`] is a CPU's own, [`shared`] belongs to the CPUs of a domain. `drive` applies the rules to the
//! state over time: `pass` over one domain, `newidle`, `periodic` and `nohz` decide when and how far up, `idlest_walk`
//! is the slow path of fork. Loads are weights (1024 at nice 0) or their averages; ticks are jiffies.

mod active;
pub mod average;
pub mod can_migrate;
pub mod capacity;
mod decision;
mod drive;
pub mod era;
pub mod first_places;
pub mod fits;
pub mod idlest;
pub mod idlest_cpu;
pub mod interval;
pub mod members;
pub mod newidle_dice;
pub mod newidle_gate;
pub mod nohz;
mod reasons;
pub mod settle;
pub mod shared;
pub mod spare;
pub mod state;
#[cfg(test)]
mod testing;
mod walk;
