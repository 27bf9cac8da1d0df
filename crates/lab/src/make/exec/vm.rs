//! Runs on kernels in guests. Deterministic guests have their own time and run side by side, as far as memory allows;
//! real-time guests run one at a time. A deterministic guest is booted for its first run, and all later runs of this
//! process continue from its state at rest.

use super::executor::Made;
use super::options::RunOptions;
use super::{keep, live};
use crate::ask::cell::Cell;
use crate::ask::guests::caveat;
use crate::ask::verdict::{self, FACT, Verdict};
use crate::make::instruction_counts;
use schedlab_base::{Error, Result};
use schedlab_guest::{AtRest, Guest, Mode};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Scx, Variant};
use schedlab_native::live::Request;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The log of a guest's kernel, stored with the record.
pub const KERNEL_LOG: &str = schedlab_record::store_listing::KERNEL_LOG_FILE;

/// Instructions by function, stored with the record.
pub const INSTRUCTIONS: &str = schedlab_record::store_listing::INSTRUCTIONS_FILE;

/// A cell's run, as the request to its guest.
fn request(cell: &Cell, seed: u64) -> Request {
    // Within the guest its kernel is the running one.
    let variant = Variant { kernel: RUNNING.to_owned(), ..cell.variant.clone() };
    Request { spec: cell.spec.clone(), variant, seed, observe: cell.observe }
}

/// The guests of this process: those under way, and those at rest.
#[derive(Debug, Default)]
pub(super) struct Guests {
    /// Memory of the guests under way, MiB.
    taken: Mutex<u64>,
    freed: Condvar,
    at_rest: AtRest,
}

impl Guests {
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

/// The memory of a guest under way.
struct Room<'a> {
    of: &'a Guests,
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

/// Whether the cell's runs may be made side by side: deterministic guests have their own time.
pub(super) fn parallel(cell: &Cell) -> bool {
    cell.guest.as_ref().is_some_and(|g| g.mode == Mode::Deterministic)
}

/// A run in a guest; `None` if `stop` ended it early.
///
/// # Errors
/// When QEMU or the guest fails, and when the file of events can't be written.
pub(super) fn run(
    guests: &Guests,
    cell: &Cell,
    seed: u64,
    options: &RunOptions,
    stop: &AtomicBool,
) -> Result<Option<Made>> {
    let folder = options.keep_events_in.as_deref();
    let guest = cell.guest.as_ref().ok_or_else(|| Error::internal("a guest's run without a guest"))?;
    let _room = guests.room(u64::from(guest.memory_mb));
    let (request, keeps) = (request(cell, seed), folder.is_some());
    let visit = schedlab_guest::run(&guests.at_rest, guest, &cell.machine, &request, keeps, stop);
    let failed = visit.as_ref().err();
    let verdict = cell.variant.scx.as_ref().zip(Verdict::of(&guest.image, failed));
    let Some(visit) = visit.inspect_err(|_| keep_verdict(guest, verdict.as_ref()))? else { return Ok(None) };
    keep_verdict(guest, verdict.as_ref());
    let Some(mut record) = live::record(cell, seed, visit.outcome)? else { return Ok(None) };
    let fact = verdict.map(|(_, verdict)| (FACT.to_owned(), verdict.words()));
    record.found.environment.extend(fact);
    record.found.warnings.extend(caveat(guest));
    record.found.counters.extend(instruction_counts::counters(&visit.counts));
    let mut files = vec![(KERNEL_LOG, visit.log.into_bytes())];
    if !visit.counts.is_empty() {
        files.push((INSTRUCTIONS, instruction_counts::as_text(&visit.counts).into_bytes()));
    }
    let folder = folder.filter(|_| !visit.events.is_empty());
    let events = folder.map(|folder| keep::whole(folder, &visit.events)).transpose()?;
    Ok(Some(Made { record, json: None, files, events }))
}

fn keep_verdict(guest: &Guest, verdict: Option<&(&Scx, Verdict)>) {
    verdict.inspect(|(scx, verdict)| verdict::keep(scx, &guest.image, verdict));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn guests_wait_for_memory_but_one_always_fits() {
        let vm = Guests::default();
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
