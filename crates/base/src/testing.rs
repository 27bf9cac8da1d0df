//! Helpers for tests of all crates.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

/// Reports that the calling test did not run because this machine lacks `needs` ("root"). Only the first line of
/// `needs` is printed, so that an error may be passed.
///
/// The line bypasses the harness, which hides the output of passing tests. `.ci/run` counts these lines.
pub fn skipped(needs: impl Display) {
    let needs = needs.to_string();
    let thread = std::thread::current();
    let line = line(&needs, thread.name().unwrap_or("main"));
    // A test without a standard error can't report this.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn line(needs: &str, test: &str) -> String {
    format!("skipped: needs {} ({test})\n", needs.lines().next().unwrap_or("nothing"))
}

/// Tries up to five times, because other work on this machine may delay a try. `attempt` gets the factor by which times
/// are longer than on an idle machine ([`stretch`]); the first try gets 1.
///
/// # Panics
/// When every try is late. The message has the reason of each.
pub fn in_time(mut attempt: impl FnMut(u64) -> Result<(), String>) {
    let mut late = Vec::new();
    while late.len() < 5 {
        let factor = if late.is_empty() { 1 } else { stretch() };
        match attempt(factor) {
            Ok(()) => return,
            Err(why) => late.push(format!("{why}, times stretched by {factor}")),
        }
    }
    panic!("{late:?}");
}

/// The factor by which a test's times must be longer than on an idle machine. It is 1 if the calling thread gets a
/// quarter of a CPU or more. A thread gets that next to other work, unless it has a low priority (`nice -n 19`).
pub fn stretch() -> u64 {
    let (begun, before) = (Instant::now(), own_cpu_time());
    while let (Some(before), Some(now)) = (before, own_cpu_time()) {
        let (cpu, wall) = (now.saturating_sub(before), begun.elapsed());
        if cpu >= Duration::from_millis(50) || wall >= Duration::from_secs(1) {
            return factor(cpu, wall);
        }
    }
    1
}

/// The inverse of the thread's share of a CPU, at most 16. That suffices for the smallest share, 1.4 % (nice 19 against
/// nice 0), because times allow for less than a whole CPU.
fn factor(cpu: Duration, wall: Duration) -> u64 {
    let times = wall.as_nanos() / cpu.as_nanos().max(1);
    if times < 4 { 1 } else { times.min(16) as u64 }
}

/// CPU time of the calling thread; `None` on a kernel without accounting.
fn own_cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::{factor, in_time};
    use std::time::Duration;

    #[test]
    fn a_skipped_test_is_one_line() {
        let line = super::line("root: not permitted\n  help: sudo", "rooms::a_test");
        assert_eq!(line, "skipped: needs root: not permitted (rooms::a_test)\n");
    }
    #[test]
    fn times_are_stretched_where_little_of_a_cpu_is_left() {
        let of = |cpu, wall| factor(Duration::from_millis(cpu), Duration::from_millis(wall));
        assert_eq!((of(50, 50), of(50, 190), of(50, 250), of(15, 1000), of(0, 1000)), (1, 1, 5, 16, 16));
    }

    #[test]
    fn one_try_of_five_must_be_in_time() {
        let (mut tries, mut first) = (0, None);
        in_time(|factor| {
            tries += 1;
            first.get_or_insert(factor);
            if tries == 5 { Ok(()) } else { Err("late".into()) }
        });
        assert_eq!((tries, first), (5, Some(1)));
        assert!(std::panic::catch_unwind(|| in_time(|_| Err("late".into()))).is_err());
    }
}
