//! A task joins its control group: it writes 0, which stands for the writing thread, to the group's list of threads.

use schedlab_base::{Error, GroupId, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The lists of threads of a run's control groups, by the workload's group; the first is that of the group that
/// schedlab runs in. Empty if no groups were made.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Places(pub Vec<PathBuf>);

impl Places {
    /// Whether no groups were made.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Moves the calling thread into a group.
    ///
    /// # Errors
    /// When the kernel refuses, or the group was not made (a fault).
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
