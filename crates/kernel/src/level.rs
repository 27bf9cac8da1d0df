//! How the time of the kernel's own code is charged, on backend code.

use schedlab_base::{Error, Ns, Result, things};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// By constants: the machine's costs have a price for each call into the kernel; its code takes no time.
    #[default]
    Free,
    /// By executed instructions, and cache lines of other CPUs, charged at the end of each step.
    Counted,
    /// As `Counted`, and CPUs act while another is inside kernel code: that code pauses where it loses a line.
    Woven,
    /// As `Woven`, but kernel code may pause at each basic block. It checks `Woven`.
    Exact,
}

/// The end of a warm-up that has the run's own level, ns: three half-lives of the kernel's averages, in which CPUs also
/// get their cache lines, and loads settle that depend on the time of the kernel's code.
const LEAD_NS: u64 = 100_000_000;

impl Level {
    /// All, cheapest first.
    pub const ALL: [Level; 4] = [Level::Free, Level::Counted, Level::Woven, Level::Exact];

    /// The word in files and options.
    pub fn word(self) -> &'static str {
        match self {
            Level::Free => "free",
            Level::Counted => "counted",
            Level::Woven => "woven",
            Level::Exact => "exact",
        }
    }
    /// Whether the image reports its instructions and lines.
    pub fn counts(self) -> bool {
        self != Level::Free
    }
    /// Whether CPUs act while another is inside kernel code.
    pub fn weaves(self) -> bool {
        matches!(self, Level::Woven | Level::Exact)
    }
    /// Where it begins in a run that warms up for so long, ns. What comes before is free. CPUs that take turns gather
    /// their tasks in a warm-up of their own, which counts.
    pub fn begins_ns(self, warmup_ns: u64, take_turns: bool) -> u64 {
        if self.counts() && !take_turns { warmup_ns.saturating_sub(LEAD_NS) } else { 0 }
    }
    /// Levels of runs of one load, and how much of their warm-up is free: "level woven, the first 900ms of the warm-up
    /// free".
    pub fn words(levels: &[Level], free_ns: u64) -> String {
        let names: Vec<&str> = levels.iter().map(|level| level.word()).collect();
        let free = match free_ns {
            0 => String::new(),
            _ => format!(", the first {} of the warm-up free", Ns(free_ns)),
        };
        format!("{} {}{free}", things(levels.len(), "level"), names.join(", "))
    }
    /// Whether it is the default; files need not name it.
    pub fn is_free(&self) -> bool {
        *self == Level::Free
    }
    /// # Errors
    /// For an unknown word.
    pub fn parse(word: &str) -> Result<Level> {
        let found = Level::ALL.into_iter().find(|level| level.word() == word);
        found.ok_or_else(|| Error::unknown("level", word, Level::ALL.map(Level::word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_end_of_a_warm_up_is_free() {
        let words = |level: Level, warmup_ms: u64, turns| {
            Level::words(&[level], level.begins_ns(warmup_ms * 1_000_000, turns))
        };
        assert_eq!(words(Level::Woven, 0, false), "level woven");
        assert_eq!(words(Level::Woven, 100, false), "level woven", "too short");
        assert_eq!(words(Level::Counted, 1_000, false), "level counted, the first 900ms of the warm-up free");
        assert_eq!(words(Level::Counted, 1_000, true), "level counted");
        assert_eq!(words(Level::Free, 1_000, false), "level free");
    }
}
