//! Helpers for tests of all crates.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
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

/// Checks a file that is made from tables, and writes it anew under `SCHEDLAB_BLESS`. `page` is relative to the
/// repository.
///
/// # Panics
/// When the file is stale. The message has its first stale line, and the command that writes it.
pub fn page_is(page: &str, wanted: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&file, wanted).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some(line) = first_stale(&stored, wanted) {
        let of = std::env::var("CARGO_PKG_NAME").map_or_else(|_| String::new(), |name| format!(" -p {name}"));
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        panic!("{page} is stale: SCHEDLAB_BLESS=1 cargo test{of} {test}\n{line}");
    }
}

/// As [`page_is`], for the text between two marks of a page; the rest of the page is prose.
///
/// # Panics
/// When the page lacks a mark, or its text is stale.
pub fn page_has(page: &str, marks: [&str; 2], made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(file).unwrap();
    page_is(page, &with_part(&text, marks, made).unwrap_or_else(|| panic!("{page} lacks one of {marks:?}")));
}

/// A text with another part between two marks; `None`: it lacks one.
pub fn with_part(text: &str, [begin, end]: [&str; 2], made: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{made}{end}{after}"))
}

/// The first line that differs, as stored and as wanted.
fn first_stale(stored: &str, wanted: &str) -> Option<String> {
    let at = |text: &str, n: usize| text.lines().nth(n).unwrap_or("(none)").to_owned();
    let n = stored.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count();
    (stored != wanted).then(|| format!("line {}: {}\nwanted: {}", n + 1, at(stored, n), at(wanted, n)))
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
    use super::{factor, first_stale, in_time, with_part};
    use std::time::Duration;

    #[test]
    fn a_skipped_test_is_one_line() {
        let line = super::line("root: not permitted\n  help: sudo", "rooms::a_test");
        assert_eq!(line, "skipped: needs root: not permitted (rooms::a_test)\n");
    }
    #[test]
    fn a_page_has_a_part_between_marks_and_its_first_stale_line_is_shown() {
        let part = |marks| with_part("a\n<x>\nold\n</x>\nb\n", marks, "new\n");
        assert_eq!(part(["<x>\n", "</x>"]).unwrap(), "a\n<x>\nnew\n</x>\nb\n");
        assert_eq!((part(["<y>", "</x>"]), part(["</x>", "<x>"])), (None, None));
        assert_eq!(first_stale("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_stale("a\nb\n", "a\nc\n").unwrap(), "line 2: b\nwanted: c");
        assert_eq!(first_stale("a\n", "a\nc\n").unwrap(), "line 2: (none)\nwanted: c");
        assert!(first_stale("a", "a\n").is_some(), "a line's end");
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
