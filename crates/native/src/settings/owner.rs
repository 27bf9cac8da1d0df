//! Processes that own something that survives them: changed settings, tracing instances.
//!
//! A process id may be reused within a boot, but not with the same start time. So both together identify a process.

use serde::{Deserialize, Serialize};
use std::fs;

/// A process that owns changed settings or a tracing instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    /// Start time, ticks since boot (/proc/PID/stat field 22).
    pub started: u64,
}

impl Owner {
    /// The process with that id, if alive (a zombie is not).
    pub fn of(pid: u32) -> Option<Owner> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let started = fields.get(19)?.parse().ok()?;
        (!matches!(fields.first(), Some(&"Z" | &"X"))).then_some(Owner { pid, started })
    }
}
