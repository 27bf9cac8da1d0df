//! How the time of the kernel's own code is charged, on backend code.

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the time of the kernel's code is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// By constants: each verb has its price in the machine's costs, and the code itself takes no time.
    #[default]
    Free,
    /// By what it executes: instructions, and cache lines of other CPUs, at the end of each step.
    Counted,
    /// The same, and CPUs act while another one is in the middle of kernel code: it is left where a line is lost.
    Woven,
    /// The same, but kernel code may be left at each basic block: a check of `Woven`.
    Exact,
}

impl Level {
    /// All, from the cheapest on.
    pub const ALL: [Level; 4] = [Level::Free, Level::Counted, Level::Woven, Level::Exact];

    /// Its word in files and options.
    pub fn word(self) -> &'static str {
        match self {
            Level::Free => "free",
            Level::Counted => "counted",
            Level::Woven => "woven",
            Level::Exact => "exact",
        }
    }
    /// Whether the image reports what it executes.
    pub fn counts(self) -> bool {
        self != Level::Free
    }
    /// Whether CPUs act while another one is in the middle of kernel code.
    pub fn weaves(self) -> bool {
        matches!(self, Level::Woven | Level::Exact)
    }
    /// Whether it is the default, which files need not name.
    pub fn is_free(&self) -> bool {
        *self == Level::Free
    }
    /// The level of that word.
    ///
    /// # Errors
    /// An unknown word.
    pub fn parse(word: &str) -> Result<Level> {
        let found = Level::ALL.into_iter().find(|level| level.word() == word);
        found.ok_or_else(|| Error::unknown("level", word, Level::ALL.map(Level::word)))
    }
}
