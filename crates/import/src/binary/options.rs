//! Reads the options of a trace.dat, versions 6 and 7, that describe the recording.

use schedlab_base::{Error, Result};

const CPUSTAT: u16 = 2;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;

/// The options that are used.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    pub release: Option<String>,
    /// Number of events that newer ones overwrote.
    pub overwritten: u64,
    clock: String,
}

impl TraceOptions {
    /// Reads an option; unknown ones are skipped.
    pub fn take(&mut self, id: u16, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        match id {
            // Linux, the host's name, the release, the architecture.
            UNAME => self.release = text.split_whitespace().nth(2).map(str::to_owned),
            CPUSTAT => {
                let overrun = text.lines().find_map(|l| l.strip_prefix("overrun:"));
                let count = overrun.and_then(|n| n.trim_matches([' ', '\0']).parse().ok()).unwrap_or(0);
                self.overwritten = self.overwritten.saturating_add(count);
            }
            // The names of all clocks, the one in use in brackets.
            TRACECLOCK => {
                let used = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                self.clock = used.map_or_else(String::new, |(clock, _)| clock.to_owned());
            }
            _ => {}
        }
    }

    /// Refuses a clock that does not count nanoseconds; `other` is the clock that a buffer names for itself.
    ///
    /// # Errors
    /// When the clock is another one.
    pub fn check_clock(&self, other: &str) -> Result<()> {
        let clock = if other.is_empty() { self.clock.as_str() } else { other };
        match clock {
            "counter" | "uptime" | "x86-tsc" | "ppc-tb" => Err(Error::input(format!(
                "the recording's clock '{clock}' does not count nanoseconds"
            ))
            .help("record with -C mono; for x86-tsc: trace-cmd report -t -i FILE | schedlab import -")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_losses_and_clock_are_read() {
        let mut told = TraceOptions::default();
        told.take(UNAME, b"Linux host 6.18.44-x x86_64\0");
        told.take(CPUSTAT, b"CPU: 0\nentries: 1\noverrun: 7\ncommit overrun: 9\n\0");
        told.take(CPUSTAT, b"CPU: 1\noverrun: 5\n\0");
        told.take(TRACECLOCK, b"local global [mono] boot x86-tsc\n\0");
        told.take(99, b"\xff");
        assert_eq!((told.release.as_deref(), told.overwritten), (Some("6.18.44-x"), 12));
        assert!(told.check_clock("").is_ok() && told.check_clock("x86-tsc").is_err());
        told.take(TRACECLOCK, b"local [counter]\n\0");
        assert!(told.check_clock("").is_err() && told.check_clock("local").is_ok());
    }
}
