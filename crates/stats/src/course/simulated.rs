//! Simulated years.
