//! Idle CPUs: the idle states they enter, the way out, and whether they keep their tick.

pub mod governor;
pub mod haltpoll;
mod idle_loop;
mod nap;
