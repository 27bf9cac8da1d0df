//! Idle CPUs: which idle state they enter, how they leave it, and what their idle time is worth to the scheduler.

pub mod governor;
pub mod haltpoll;
mod idle_loop;
mod nap;
