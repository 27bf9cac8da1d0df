//! Runs on kernels in guests. Deterministic guests have a time of their own and run side by side, as far as
//! memory allows; real-time guests run one at a time.

use super::{Executor, Made, keep, live};
use crate::cell::Cell;
use crate::costs;
use crate::guests::caveat;
use schedlab_base::{Error, Result};
use schedlab_guest::Mode;
use schedlab_kernel::Variant;
use schedlab_kernel::variant::RUNNING;
use schedlab_native::live::Request;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The log of a guest's kernel, beside the record.
pub const KERNEL_LOG: &str = schedlab_record::holdings::KERNEL_LOG_FILE;

/// Instructions by function, beside the record.
pub const INSTRUCTIONS: &str = schedlab_record::holdings::INSTRUCTIONS_FILE;

/// The run of a cell as its guest is asked for it.
fn request(cell: &Cell, seed: u64) -> Request {
    // Within the guest its kernel is the running one.
    let variant = Variant { kernel: RUNNING.to_owned(), ..cell.variant.clone() };
    Request { spec: cell.spec.clone(), variant, seed, observe: cell.observe }
}

/// The executor of guests.
#[derive(Debug)]
pub struct Vm {
    /// Memory of the guests under way, MiB.
    taken: Mutex<u64>,
    freed: Condvar,
}

impl Vm {
    /// An executor without a guest under way.
    pub const fn new() -> Vm {
        Vm { taken: Mutex::new(0), freed: Condvar::new() }
    }
    fn taken(&self) -> MutexGuard<'_, u64> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits until there is room for a guest. All guests together may have half of this machine's memory; a
    /// single guest always fits.
    fn room(&self, memory_mb: u64) -> Room<'_> {
        let half = total_mb().map_or(u64::MAX, |all| all / 2);
        let mut taken = self.taken();
        while *taken > 0 && *taken + memory_mb > half {
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += memory_mb;
        Room { of: self, memory_mb }
    }
}

impl Default for Vm {
    fn default() -> Vm {
        Vm::new()
    }
}

/// The memory of a guest under way.
struct Room<'a> {
    of: &'a Vm,
    memory_mb: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        *self.of.taken() -= self.memory_mb;
        self.of.freed.notify_all();
    }
}

/// This machine's memory, MiB.
fn total_mb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kb / 1024)
}

impl Executor for Vm {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        Ok(self.sit(&[(cell, seed)], stop)?.and_then(|made| made.into_iter().next()))
    }
    fn sit(&self, runs: &[(&Cell, u64)], stop: &AtomicBool) -> Result<Option<Vec<Made>>> {
        self.sit_kept(runs, stop, None)
    }
    fn parallel(&self, cell: &Cell) -> bool {
        cell.guest.as_ref().is_some_and(|g| g.mode == Mode::Deterministic)
    }
}

impl Vm {
    /// A run whose events are written to a file in that folder.
    ///
    /// # Errors
    /// As [`Executor::run`], and when the file can't be written.
    pub fn run_kept(
        &self,
        cell: &Cell,
        seed: u64,
        stop: &AtomicBool,
        folder: Option<&Path>,
    ) -> Result<Option<Made>> {
        Ok(self.sit_kept(&[(cell, seed)], stop, folder)?.and_then(|made| made.into_iter().next()))
    }
    fn sit_kept(
        &self,
        runs: &[(&Cell, u64)],
        stop: &AtomicBool,
        keep_in: Option<&Path>,
    ) -> Result<Option<Vec<Made>>> {
        let no_guest = || Error::internal("a sitting without a guest");
        let (first, _) = runs.first().ok_or_else(no_guest)?;
        let guest = first.guest.as_ref().ok_or_else(no_guest)?;
        let requests: Vec<Request> = runs.iter().map(|(cell, seed)| request(cell, *seed)).collect();
        let _room = self.room(u64::from(guest.memory_mb));
        let Some(visits) =
            schedlab_guest::run_all(guest, &first.machine, &requests, keep_in.is_some(), stop)?
        else {
            return Ok(None);
        };
        let mut all = Vec::new();
        for ((cell, seed), visit) in runs.iter().zip(visits) {
            let Some(mut record) = live::record(cell, *seed, visit.outcome)? else { return Ok(None) };
            record.found.warnings.extend(caveat(guest));
            record.found.counters.extend(costs::counters(&visit.counts));
            let mut files = vec![(KERNEL_LOG, visit.log.into_bytes())];
            if !visit.counts.is_empty() {
                files.push((INSTRUCTIONS, costs::as_text(&visit.counts).into_bytes()));
            }
            let keeps = keep_in.filter(|_| !visit.events.is_empty());
            let events = keeps.map(|folder| keep::whole(folder, &visit.events)).transpose()?;
            all.push(Made { record, files, events });
        }
        Ok(Some(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn guests_wait_for_memory_but_one_always_fits() {
        let vm = Vm::new();
        let half = total_mb().unwrap() / 2;
        let most = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let room = vm.room(half * 2 / 3);
                    most.fetch_max(*vm.taken(), Ordering::SeqCst);
                    drop(room);
                });
            }
        });
        assert_eq!((most.load(Ordering::SeqCst), *vm.taken()), (half * 2 / 3, 0), "two of them do not fit");
        drop(vm.room(half * 5));
    }
}
