//! What the tests of all crates share.

use std::fmt::Display;
use std::io::Write;

/// Reports that the calling test did not run, because it needs something that this machine lacks ("root"). Only the
/// first line of `needs` is printed, so that an error may be given.
///
/// The line goes around the harness, which hides the output of tests that pass. `.ci/run` counts these lines.
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_skipped_test_is_one_line() {
        let line = super::line("root: not permitted\n  help: sudo", "rooms::a_test");
        assert_eq!(line, "skipped: needs root: not permitted (rooms::a_test)\n");
    }
}
