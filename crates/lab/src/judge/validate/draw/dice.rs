//! The source of draws, and a drawn workload.

use schedlab_base::Stream;

/// A workload in a case: lines of TOML, key and value.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    pub lines: Vec<(String, String)>,
    /// Words that describe it instead of its lines.
    pub about: Option<String>,
}

impl Workload {
    /// A benchmark.
    pub fn bench(name: &str) -> Workload {
        Workload::default().word("name", name)
    }
    pub fn number(mut self, key: &str, value: impl ToString) -> Workload {
        self.lines.push((key.to_owned(), value.to_string()));
        self
    }
    /// A word, or a time with its unit.
    pub fn word(self, key: &str, value: &str) -> Workload {
        let quoted = format!("\"{value}\"");
        self.number(key, quoted)
    }
    /// The drawn workload, for people.
    pub fn words(&self) -> String {
        let line = |(key, value): &(String, String)| format!("{key} {}", value.trim_matches('"'));
        let all =
            || self.lines.iter().filter(|(key, _)| key != "name").map(line).collect::<Vec<_>>().join(", ");
        self.about.clone().unwrap_or_else(all)
    }
}

/// Draws, each by its purpose.
#[derive(Clone, Copy)]
pub struct Dice(pub Stream);

impl Dice {
    /// The draws of a part.
    pub fn of(self, part: &str) -> Dice {
        Dice(self.0.purpose(part))
    }
    /// A number from `low` to `high`, both included.
    pub fn within(self, what: &str, low: u32, high: u32) -> u32 {
        let many = u64::from(high.saturating_sub(low)) + 1;
        low + self.0.purpose(what).below(0, many) as u32
    }
    /// One of these, all equally likely.
    pub fn pick<T: Copy>(self, what: &str, of: &[T]) -> T {
        of[self.within(what, 0, of.len() as u32 - 1) as usize]
    }
}
