//! The rules of the real-time class applied to the machine: each file drives the rule file of its name.

mod capacity;
mod push;
mod select;
mod server;
mod throttle;
