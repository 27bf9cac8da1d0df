//! Allowed CPUs of threads (sched_setaffinity(2)).

use super::raw::check;
use libc::c_int;
use schedlab_base::{CpuId, CpuSet, cpuset::MAX_CPUS};
use std::io;

type Mask = [u64; MAX_CPUS as usize / 64];

/// Restricts the calling thread to `cpus`. The kernel silently drops CPUs that are offline or outside the cpuset.
///
/// # Errors
/// EINVAL when no CPU is left.
pub fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    set_affinity_of(0, cpus)
}

/// Restricts another thread to `cpus`.
///
/// # Errors
/// As [`set_affinity`], and ESRCH when there is no such thread.
pub fn set_affinity_of(thread: u32, cpus: &CpuSet) -> io::Result<()> {
    let mut mask: Mask = [0; MAX_CPUS as usize / 64];
    cpus.iter().for_each(|c| mask[c.index() / 64] |= 1 << (c.index() % 64));
    // SAFETY: the kernel reads exactly the `size_of::<Mask>()` bytes that `mask` has; any bitmap is valid.
    check(unsafe { libc::sched_setaffinity(thread as c_int, size_of::<Mask>(), mask.as_ptr().cast()) })
        .map(drop)
}

/// CPUs that the calling thread may use.
///
/// # Errors
/// EINVAL when the kernel knows more than 4096 CPUs.
pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(0)
}

/// CPUs that a thread may use.
///
/// # Errors
/// As [`affinity`], and ESRCH when there is no such thread.
pub fn affinity_of(thread: u32) -> io::Result<CpuSet> {
    let mut mask: Mask = [0; MAX_CPUS as usize / 64];
    // SAFETY: the kernel writes at most `size_of::<Mask>()` bytes into `mask`.
    check(unsafe { libc::sched_getaffinity(thread as c_int, size_of::<Mask>(), mask.as_mut_ptr().cast()) })?;
    Ok((0..MAX_CPUS).filter(|c| mask[*c as usize / 64] >> (c % 64) & 1 == 1).map(CpuId).collect())
}
