//! Conditions that can spoil a measurement: a hypervisor, a changing clock frequency, too little memory.

use crate::probe::place::as_batch;
use crate::sys;
use schedlab_base::{CpuId, Result};
use std::hint::black_box;

/// The most memory to use, bytes.
const MOST: u64 = 256 << 20;
/// The largest set is a third of the memory: twice as much is read to empty a cache.
const SHARE: u64 = 3;

/// The largest working set that memory allows, bytes: a third of an eighth of the free memory, at most of 256 MB.
pub(super) fn memory_limit() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kb = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    limit_of(kb)
}

/// As [`memory_limit`], for this many available KB; if not known, for an eighth of 512 MB.
fn limit_of(available_kb: Option<u64>) -> u64 {
    let eighth = available_kb.unwrap_or(512 << 10) * 1024 / 8;
    (eighth.min(MOST) / SHARE).max(128 << 10) & !0xfff
}

/// Whether this is a virtual machine, as far as the kernel shows.
pub(super) fn is_virtual() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|l| l.starts_with("flags"));
    let flagged = flags.is_some_and(|l| l.split_whitespace().any(|flag| flag == "hypervisor"));
    flagged || std::path::Path::new("/proc/device-tree/hypervisor").exists()
}

/// The kernel's clock source, or "unknown".
pub(super) fn clock_source() -> String {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(file).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

/// Time that the hypervisor has taken from all CPUs, in ticks of 10 ms.
pub(super) fn stolen_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let steal = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    steal.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The time of a loop that depends only on the clock frequency, ns: the least of many.
pub(super) fn spin_ns(cpu: CpuId) -> Result<u64> {
    const ROUNDS: u64 = 200_000;
    const TIMES: usize = 50;
    let one = |_| {
        let began = sys::monotonic_ns();
        let mut value = 1_u64;
        for at in 0..ROUNDS {
            value = black_box(value).rotate_left(5) ^ at;
        }
        black_box(value);
        sys::monotonic_ns() - began
    };
    as_batch(cpu, move || (0..TIMES).map(one).min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_on_any_machine() {
        assert_eq!(limit_of(Some(1 << 30)), ((256 << 20) / 3) & !0xfff, "a terabyte");
        assert_eq!(limit_of(Some(600 << 10)), (75 << 20) / 3, "600 MB");
        assert_eq!(limit_of(Some(0)), 128 << 10, "the smallest size can still be tried");
        assert!(memory_limit() <= 86 << 20);
    }
}
