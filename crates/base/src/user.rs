//! The user of this process.

use std::os::unix::fs::MetadataExt;

/// The user id with which this process acts; `None` without /proc.
pub fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|about| about.uid())
}
