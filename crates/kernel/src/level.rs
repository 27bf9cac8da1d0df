//! How the time of the kernel's own code is charged, on backend code.

use schedlab_base::{Error, Result};
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
