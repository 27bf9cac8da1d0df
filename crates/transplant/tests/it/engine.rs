//! A small engine: a few programs, no costs.
