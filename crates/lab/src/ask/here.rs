//! This computer, for plans and defaults: its number of CPUs, and its running kernel.

use schedlab_base::{Version, parallel};

/// CPUs that this process may use.
pub fn cpus() -> u64 {
    parallel::cpus() as u64
}

/// The version of the running kernel.
pub fn running_kernel() -> Option<Version> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Version::parse(&text).ok()
}
