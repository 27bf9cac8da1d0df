//! A task joins its control group by writing 0 (the writing thread) to the group's list of threads.

use schedlab_base::{Error, GroupId, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The thread lists of a run's control groups, by the workload's group; the first is that of schedlab's own group.
/// Empty if no groups were made.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Places(pub Vec<PathBuf>);

impl Places {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Moves the calling thread into a group.
    ///
    /// # Errors
    /// When the kernel refuses, or the group was not made (a bug).
    pub fn join(&self, group: GroupId) -> Result<()> {
        let list = self.0.get(group.index()).ok_or_else(|| {
            Error::internal(format!("control group {} was not made ({} were)", group.index(), self.0.len()))
        })?;
        fs::write(list, "0").map_err(|e| {
            let text = format!("can't join a control group through {}: {e}", list.display());
            Error::machine(text).help(match e.raw_os_error() {
                Some(libc::EINVAL) => {
                    "a kernel with CONFIG_RT_GROUP_SCHED takes no real-time task into a group without a share of \
                     real-time (cpu.rt_runtime_us)"
                }
                _ => super::words::DELEGATE,
            })
        })
    }
}
