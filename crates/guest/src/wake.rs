//! The guest's side of rest: init makes QEMU stop the machine while everything sleeps. It reads its job when it wakes
//! up in another QEMU, which has loaded the machine's state.
//!
//! The stop must come at the same instant of the guest's time whenever a guest is brought to rest; otherwise two guests
//! of one image would differ. So not the host stops the machine, but a watchdog of the guest (QEMU's ib700): init sets
//! it and sleeps, and its timer stops the emulation while all CPUs are halted. A job from a serial port would arrive at
//! an instant of the host's time. Instead, init reads it from an item of fw_cfg, whose bytes are available as soon as
//! they are read. The item's content belongs to QEMU and is not part of the state.
//!
//! All runs continue from the same rest, so each run's seed changes the state first ([`scatter`]).
//!
//! Mirrors docs/specs/fw_cfg.rst and hw/watchdog/wdt_ib700.c of QEMU.

use crate::job::Job;
use crate::{ports, sys};
use schedlab_base::random::Stream;
use schedlab_base::{Error, Ns, Result};
use std::io;
use std::time::Duration;

/// The name of the item with the job.
pub const JOB_ITEM: &str = "opt/schedlab/job";
/// Wait after boot: deferred boot work takes about a second.
pub const SETTLE: Ns = Ns::secs(2);

/// The watchdog's port for its time.
const WATCHDOG: u16 = 0x443;
/// [`SETTLE`] for the watchdog: two seconds are its choice 14.
const TWO_SECONDS: u8 = 14;
/// Init wakes up this long after the stop.
const WAKES_AFTER: Duration = Duration::from_millis(1);

/// The port that selects an item of fw_cfg, and the next port, which returns its bytes.
const SELECTOR: u16 = 0x510;
const BYTES: u16 = 0x511;
/// The number of the item that lists all named items, big-endian: their count, and for each its size (4 bytes), its
/// number (2), two unused bytes, and its name (56).
const DIRECTORY: u16 = 0x19;
const ENTRY_BYTES: usize = 64;

/// The shortest time between a guest's wakeup and its run, and the largest addition to it. The balance intervals of a
/// guest's domains and the memory of its load averages are shorter.
const REST: Ns = Ns::ms(100);
const REST_MORE: Ns = Ns::ms(400);

/// Sets the watchdog, and sleeps until the machine has been stopped and continued.
///
/// # Errors
/// When the kernel does not allow init to use ports.
pub fn sleep_until_woken() -> Result<()> {
    with_ports(WATCHDOG, 1, || ports::write_port(WATCHDOG, TWO_SECONDS))?;
    std::thread::sleep(Duration::from_nanos(SETTLE.0) + WAKES_AFTER);
    Ok(())
}

/// Reads the job.
///
/// # Errors
/// When there is no job: the machine was not stopped.
pub fn read_job() -> Result<Job> {
    let item = with_ports(SELECTOR, 2, || item(JOB_ITEM))?;
    let unreadable = |e: String| Error::internal(format!("the guest's job can't be read: {e}"));
    let packed = item.ok_or_else(|| unreadable(format!("QEMU has no item {JOB_ITEM}")))?;
    let text =
        miniz_oxide::inflate::decompress_to_vec_zlib(&packed).map_err(|e| unreadable(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| unreadable(e.to_string()))
}

/// A job in the item's form. Compression pays off, because the guest traps for each byte.
pub fn packed(job: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(job, 6)
}

/// Turns the common rest into a state that depends on the seed: the kernel draws new random numbers, which QEMU seeds,
/// and init sleeps on one of the CPUs for a while. So the run begins on a CPU, and at a distance from ticks and balance
/// passes, that depend on the seed.
pub fn scatter(seed: u64, cpus: usize) {
    let draws = Stream::new(seed).purpose("rest");
    let cpu = draws.below(0, cpus as u64) as usize;
    // If the kernel refuses either, there is less scatter, but the same seed still gives the same run.
    let _ = sys::draw_anew();
    let moved = sys::run_on(|other| other == cpu);
    std::thread::sleep(Duration::from_nanos(REST.0 + draws.below(1, REST_MORE.0)));
    if moved.is_ok() {
        let _ = sys::run_on(|_| true);
    }
}

fn with_ports<T>(first: u16, many: u16, work: impl FnOnce() -> T) -> Result<T> {
    let fault = |e: io::Error| {
        Error::machine(format!("can't use I/O ports: {e}"))
            .help("the guest's kernel needs CONFIG_X86_IOPL_IOPERM")
    };
    ports::use_ports(first, many, true).map_err(fault)?;
    let result = work();
    ports::use_ports(first, many, false).map_err(fault)?;
    Ok(result)
}

fn bytes(many: usize) -> Vec<u8> {
    (0..many).map(|_| ports::read_port(BYTES)).collect()
}

fn item(name: &str) -> Option<Vec<u8>> {
    ports::write_port_wide(SELECTOR, DIRECTORY);
    let many = bytes(4).try_into().map_or(0, u32::from_be_bytes);
    let directory = bytes(many as usize * ENTRY_BYTES);
    let (number, size) = directory.chunks(ENTRY_BYTES).find_map(|entry| place(entry, name))?;
    ports::write_port_wide(SELECTOR, number);
    Some(bytes(size))
}

/// The number and size of the item called `name`, if this entry has it.
fn place(entry: &[u8], name: &str) -> Option<(u16, usize)> {
    let size = u32::from_be_bytes(entry.get(..4)?.try_into().ok()?);
    let number = u16::from_be_bytes(entry.get(4..6)?.try_into().ok()?);
    let named = entry.get(8..)?.split(|b| *b == 0).next()?;
    (named == name.as_bytes()).then_some((number, size as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_directory_is_read() {
        let mut entry = vec![0, 0, 1, 2, 0, 0x2a, 0, 0];
        entry.extend_from_slice(JOB_ITEM.as_bytes());
        entry.resize(ENTRY_BYTES, 0);
        assert_eq!(place(&entry, JOB_ITEM), Some((0x2a, 258)));
        assert_eq!(place(&entry, "opt/schedlab"), None, "a part of a name is another name");
        assert_eq!(place(&entry[..5], JOB_ITEM), None);
    }

    #[test]
    fn the_watchdog_ends_the_settling() {
        let choices: Vec<u64> = (0..16).map(|i| 30 - 2 * i).collect();
        assert_eq!(Ns::secs(choices[usize::from(TWO_SECONDS)]), SETTLE);
    }
}
