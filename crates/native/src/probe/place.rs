//! Runs a step on one CPU, or in a separate thread.

use super::peer::Peer;
use crate::sys;
use schedlab_base::{CpuId, CpuSet, Error, Result};
use schedlab_kernel::{Attr, Policy};

pub(super) fn on<T>(cpu: CpuId, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let mask: CpuSet = [cpu].into_iter().collect();
    sys::set_affinity(&mask).map_err(|e| Error::machine(format!("can't stay on CPU {}: {e}", cpu.0)))?;
    body()
}

/// Attributes of tasks that do not preempt their waker: the waker reaches its own wait.
pub(super) fn batch_class() -> Attr {
    Attr { policy: Policy::Batch, ..Attr::default() }
}

/// Calls `body` in a thread with these attributes on one CPU; the caller's thread does not use it at the same time.
pub(super) fn as_batch<T: Send + 'static>(
    cpu: CpuId,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (tell, told) = std::sync::mpsc::channel();
    // If the caller has gone, no answer is needed.
    let peer = Peer::start(cpu, batch_class(), move |_, _| _ = tell.send(body()))?;
    let answer = told.recv();
    peer.end();
    answer.map_err(|_| Error::internal("a thread of the probe ended without an answer"))
}
