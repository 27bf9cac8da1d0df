//! The kernel's own scheduler code on simulated machines.
