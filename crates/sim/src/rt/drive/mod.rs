//! Drivers of the real-time class: each applies the rule file of its name to the machine; `push` has no rule file.

mod capacity;
mod push;
mod select;
mod server;
mod throttle;
