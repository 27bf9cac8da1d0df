//! The chronology: one row for each mechanism that only some versions have.
//!
//! A row of [`HISTORY`] has the mechanism's name, its releases, the kernel's functions, the trees in which the change
//! was read, and the kernel's behaviour with and without it. [`History`] is made from the same list and has a flag for
//! each mechanism. A run resolves the flags once from its version: the simulator asks flags and compares no versions. A
//! mechanism that can be switched in the kernel's `sched/features` is a row of [`crate::feature`]; releases that are in
//! both tables are taken from here ([`came`], [`went`]). Parameters of sched domains by version are in the `machine`
//! crate.
//!
//! Releases are kernel.org's. `schedlab kernel history` and docs/chronology.md are made from the table.

mod docs;
mod table;
mod unmodelled;

pub use docs::page;
pub use table::{HISTORY, History};
pub use unmodelled::{UNMODELLED, Unmodelled};

use crate::origin::Span;
use schedlab_base::{Error, Result, Version};
use serde::Serialize;
use std::fmt;

/// A row of the table.
#[derive(Debug, Serialize)]
pub struct Mechanism {
    /// The flag in [`History`], with hyphens.
    pub name: &'static str,
    pub subject: Subject,
    /// The mechanism that contains it, if any: without that one it has no meaning.
    pub within: Option<&'static str>,
    /// The releases with it, in order of time; at least one span.
    pub spans: &'static [Span],
    /// The kernel's functions that contain it.
    pub function: &'static str,
    /// The trees in which the change was read.
    pub read: Read,
    /// The kernel's behaviour with it, one sentence.
    pub with: &'static str,
    /// The kernel's behaviour without it, one sentence.
    pub without: &'static str,
}

/// SIS_CORE gives kernels older than `core-search` the search of this version.
pub const SIS_CORE_IS_OF: Version = version("6.5");

/// The source of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Read {
    /// Read in these trees: "3.19 to 4.9" means that the change lies between these two.
    Source(&'static str),
    /// The release is from memory. The text says what trees of other releases show; "": nothing.
    Memory(&'static str),
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Read::Source(trees) => f.write_str(trees),
            Read::Memory("") => f.write_str("from memory"),
            Read::Memory(trees) => write!(f, "from memory; {trees}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    O1,
    /// Shared by CFS and EEVDF.
    Fair,
    /// CFS only.
    Cfs,
    Eevdf,
    /// Task groups.
    Groups,
    /// Load averages and capacities.
    Load,
    Clock,
    /// The choice between the waker's and the task's previous CPU.
    Affine,
    /// The search for an idle CPU, and the path to its queue.
    Wakeup,
    /// The CPU of a new task.
    Fork,
    /// Periodic and tickless-idle balancing.
    Balance,
    /// Newidle balancing.
    Newidle,
    /// SCHED_FIFO and SCHED_RR.
    RealTime,
    /// The idle loop.
    Idle,
    Pipe,
    /// Points at which a task in the kernel gives way.
    Preempt,
}

impl Subject {
    pub fn title(self) -> &'static str {
        match self {
            Subject::O1 => "The O(1) scheduler",
            Subject::Fair => "The fair class",
            Subject::Cfs => "CFS",
            Subject::Eevdf => "EEVDF",
            Subject::Groups => "Task groups",
            Subject::Load => "Load averages and capacity",
            Subject::Clock => "The runqueue's clock",
            Subject::Affine => "Wakeups: the waker's CPU or the previous one",
            Subject::Wakeup => "Wakeups: the search for an idle CPU, and the way to it",
            Subject::Fork => "New tasks",
            Subject::Balance => "Periodic balancing",
            Subject::Newidle => "Newidle balancing",
            Subject::RealTime => "The real-time class",
            Subject::Idle => "The idle loop",
            Subject::Pipe => "Pipes",
            Subject::Preempt => "Preemption models",
        }
    }
}

impl Mechanism {
    pub fn is_in(&self, version: Version) -> bool {
        any(self.spans, version)
    }
    /// Whether it has a meaning in kernels of that version: they have its fair class, and the mechanism that contains
    /// it.
    pub fn concerns(&self, version: Version) -> bool {
        let of_class = match self.subject {
            Subject::Fair => !span("o1").has(version),
            Subject::Cfs => !span("eevdf").has(version) && !span("o1").has(version),
            Subject::Eevdf => span("eevdf").has(version),
            _ => true,
        };
        let whole = HISTORY.iter().find(|m| self.within == Some(m.name));
        of_class && whole.is_none_or(|m| m.is_in(version))
    }
    /// The releases that have it, in words: "from v3.8, before v5.0".
    pub fn releases(&self) -> String {
        let spans: Vec<String> = self.spans.iter().map(ToString::to_string).collect();
        spans.join("; ")
    }
    /// Why that version has it or not: "since v3.8", "until v4.9", "comes with v6.6", "gone since v5.0".
    pub fn because(&self, version: Version) -> String {
        if let Some(span) = self.spans.iter().find(|s| s.has(version)) {
            return match (span.since, span.until) {
                (Some(since), _) => format!("since {since}"),
                (None, Some(until)) => format!("until {until}"),
                (None, None) => "always".to_owned(),
            };
        }
        let gone = self.spans.iter().filter_map(|s| s.until).rfind(|until| *until <= version);
        let comes = self.spans.iter().filter_map(|s| s.since).find(|since| *since > version);
        match (gone, comes) {
            (Some(gone), Some(comes)) => format!("gone since {gone}, comes back with {comes}"),
            (Some(gone), None) => format!("gone since {gone}"),
            (None, Some(comes)) => format!("comes with {comes}"),
            (None, None) => String::new(),
        }
    }
}

/// The mechanism with that name, in any case, with hyphens or underscores.
///
/// # Errors
/// When there is none; the error offers the nearest name.
pub fn find(name: &str) -> Result<&'static Mechanism> {
    let wanted = name.trim().replace('_', "-");
    HISTORY
        .iter()
        .find(|m| m.name.eq_ignore_ascii_case(&wanted))
        .ok_or_else(|| Error::unknown("mechanism", &wanted, HISTORY.iter().map(|m| m.name)))
}

/// The mechanisms with all these words in name, part, function or text, in any case.
pub fn search(words: &str) -> Vec<&'static Mechanism> {
    let wanted: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let has_all = |m: &&Mechanism| {
        let text = [m.name, m.subject.title(), m.function, m.with, m.without].join("\n").to_lowercase();
        !wanted.is_empty() && wanted.iter().all(|word| text.contains(word.as_str()))
    };
    HISTORY.iter().filter(has_all).collect()
}

const fn any(spans: &[Span], version: Version) -> bool {
    let mut at = 0;
    while at < spans.len() {
        if spans[at].has(version) {
            return true;
        }
        at += 1;
    }
    false
}

/// The releases with a mechanism of one span, for tables of this crate. A wrong name does not compile.
pub(crate) const fn span(name: &str) -> Span {
    let spans = spans(name);
    assert!(spans.len() == 1, "the mechanism has several spans");
    spans[0]
}

/// The releases from the first to the last with a mechanism, including gaps between its spans.
pub(crate) const fn hull(name: &str) -> Span {
    let spans = spans(name);
    Span { since: spans[0].since, until: spans[spans.len() - 1].until }
}

const fn spans(name: &str) -> &'static [Span] {
    let mut at = 0;
    while at < HISTORY.len() {
        if same(HISTORY[at].name.as_bytes(), name.as_bytes()) {
            return HISTORY[at].spans;
        }
        at += 1;
    }
    panic!("no mechanism has this name")
}

/// The first release with a mechanism of one span.
pub(crate) const fn came(name: &str) -> Version {
    match span(name).since {
        Some(version) => version,
        None => panic!("the mechanism is as old as the oldest profile"),
    }
}

/// The first release after a mechanism of one span.
pub(crate) const fn went(name: &str) -> Version {
    match span(name).until {
        Some(version) => version,
        None => panic!("the newest release still has the mechanism"),
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A version from the table's form: "3.8", "2.6.32".
const fn version(text: &str) -> Version {
    let bytes = text.as_bytes();
    let (mut parts, mut part, mut at) = ([0u16; 3], 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'.' => part += 1,
            digit => parts[part] = parts[part] * 10 + (digit - b'0') as u16,
        }
        at += 1;
    }
    Version { major: parts[0], minor: parts[1], patch: parts[2] }
}

const fn since(first: &str) -> Span {
    Span::since(version(first))
}
const fn until(end: &str) -> Span {
    Span::until(version(end))
}
const fn between(first: &str, end: &str) -> Span {
    Span::between(version(first), version(end))
}

/// A flag's name with hyphens for underscores.
const fn kebab<const N: usize>(field: &str) -> [u8; N] {
    let (bytes, mut name, mut at) = (field.as_bytes(), [0; N], 0);
    while at < N {
        name[at] = if bytes[at] == b'_' { b'-' } else { bytes[at] };
        at += 1;
    }
    name
}

const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a flag's name is ASCII"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROFILES;

    /// Results of `validate --rules` for 5.10.262 and 6.12.117.
    #[test]
    fn stable_series_have_the_mechanisms_of_their_trees() {
        let of = |major, minor| History::of(Version::new(major, minor));
        assert!(of(5, 10).util_shrinks && !of(5, 15).util_shrinks && of(6, 1).util_shrinks);
        assert!(of(6, 12).pick_buddy && !of(6, 13).pick_buddy);
        assert!(!of(5, 10).idle_credit_small && of(6, 1).idle_credit_small);
    }

    #[test]
    fn a_word_finds_the_mechanisms_that_speak_of_it() {
        let names = |words: &str| search(words).iter().map(|m| m.name).collect::<Vec<_>>();
        assert!(names("Newidle").contains(&"newidle-costs"), "{:?}", names("newidle"));
        assert!(names("select_idle_core").contains(&"core-search"), "the kernel's function finds it, too");
        assert!(names("newidle cost").len() < names("newidle").len());
        assert!(names("bananas").is_empty() && names(" ").is_empty());
    }

    #[test]
    fn names_are_unique_and_spans_are_in_order() {
        for (i, m) in HISTORY.iter().enumerate() {
            assert!(HISTORY[..i].iter().all(|other| other.name != m.name), "{} twice", m.name);
            assert!(!m.name.contains('_') && find(&m.name.to_uppercase()).unwrap().name == m.name);
            let ends: Vec<Version> = m.spans.iter().flat_map(|s| [s.since, s.until]).flatten().collect();
            assert!(!ends.is_empty() && ends.is_sorted_by(|a, b| a < b), "{}: {ends:?}", m.name);
        }
    }

    #[test]
    fn subjects_stand_together_and_each_in_order_of_time() {
        assert!(HISTORY.is_sorted_by_key(|m| m.subject));
        let first = |m: &Mechanism| m.spans.iter().flat_map(|s| [s.since, s.until]).flatten().next();
        for pair in HISTORY.windows(2).filter(|p| p[0].subject == p[1].subject) {
            assert!(first(&pair[0]) <= first(&pair[1]), "{} is older than {}", pair[1].name, pair[0].name);
        }
    }

    #[test]
    fn each_row_is_sentences_with_a_function() {
        for m in HISTORY {
            assert!(m.function.contains("()") || m.function.contains('.'), "{}: {}", m.name, m.function);
            for text in [m.with, m.without] {
                let first = text.split(' ').next().unwrap_or_default();
                let identifier = first.contains(['_', '(']);
                let starts = identifier || first.starts_with(|c: char| c.is_uppercase());
                assert!(starts && text.ends_with('.'), "{}: {text}", m.name);
            }
            assert!(!m.read.to_string().is_empty(), "{}", m.name);
        }
    }

    #[test]
    fn some_profile_has_each_mechanism_and_it_concerns_all_that_have_it() {
        for m in HISTORY {
            let has = PROFILES.iter().filter(|p| m.is_in(p.version)).count();
            assert!(0 < has && has < PROFILES.len(), "{}: {has} profiles", m.name);
            assert!(
                m.within.is_none_or(|name| find(name).is_ok_and(|whole| whole.name == name)),
                "{}",
                m.name
            );
            let class = matches!(m.subject, Subject::Cfs | Subject::Eevdf);
            for p in PROFILES.iter().filter(|p| m.is_in(p.version) && !class) {
                assert!(m.concerns(p.version), "{} in {}", m.name, p.version);
            }
        }
        let concerns = |name: &str, v: &str| find(name).unwrap().concerns(Version::parse(v).unwrap());
        assert!(!concerns("merged-search", "4.5") && concerns("merged-search", "5.4"));
        assert!(!concerns("custom-slices", "6.5") && !concerns("slice-only-tick", "6.6"));
        assert!(!concerns("credits-sleepers", "2.6.18") && !concerns("o1-batch", "2.6.27"));
    }

    #[test]
    fn a_mechanism_explains_why_a_version_has_it_or_not() {
        let told = |name: &str, v: &str| find(name).unwrap().because(Version::parse(v).unwrap());
        assert_eq!(told("per-entity-load", "3.4"), "comes with v3.8");
        assert_eq!(told("per-entity-load", "3.8"), "since v3.8");
        assert_eq!(told("runnable-load", "5.4"), "since v3.8");
        assert_eq!(told("runnable-load", "5.5"), "gone since v5.5");
        assert_eq!(told("early-cfs", "2.6.30"), "since v2.6.23");
        assert_eq!(told("o1", "2.6.12"), "until v2.6.23");
        assert_eq!(told("first-halt-keeps-tick", "6.5"), "gone since v6.2, comes back with v6.6");
        assert_eq!(
            find("first-halt-keeps-tick").unwrap().releases(),
            "from v6.1, before v6.2; from v6.6, before v6.7; from v6.12, before v6.13; from v6.18"
        );
        assert!(find("per_entity_laod").unwrap_err().to_string().contains("'per-entity-load'"));
    }

    #[test]
    fn the_early_rules_are_those_of_the_early_profiles() {
        let of = |v| (History::of(v).early_cfs, History::of(v).next_buddy_only);
        assert_eq!(of(Version::v2_6(18)), (false, false));
        assert_eq!(of(Version::v2_6(27)), (true, true));
        assert_eq!(of(Version::v2_6(30)), (true, false));
        assert_eq!(of(Version::v2_6(32)), (false, false));
        assert_eq!(of(Version::new(3, 4)), (false, false));
    }

    #[test]
    fn flags_match_the_rows() {
        let (v34, v45, v65) = (Version::new(3, 4), Version::new(4, 5), Version::new(6, 5));
        assert!(!History::of(v34).per_entity_load && History::of(v45).per_entity_load);
        assert!(History::of(v45).runnable_load && !History::of(v65).runnable_load);
        assert!(!History::of(v65).eevdf && History::of(Version::new(6, 6)).eevdf);
        assert_eq!((came("eevdf"), went("early-cfs")), (Version::new(6, 6), Version::v2_6(32)));
    }
}
