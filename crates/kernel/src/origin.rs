//! The origin of a feature or tunable: the owner of its name, and the releases that have it.
//!
//! Releases are kernel.org's. A row's text mentions backports of stable trees, and marks releases that were not read in
//! a tree as "from memory".

use schedlab_base::Version;
use serde::Serialize;
use std::fmt;

/// Releases from one up to, but not including, another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Span {
    /// The first release; `None`: since before the oldest profile.
    pub since: Option<Version>,
    /// The first release after the span; `None`: no end so far.
    pub until: Option<Version>,
}

impl Span {
    pub const ALL: Span = Span { since: None, until: None };

    pub const fn since(first: Version) -> Span {
        Span { since: Some(first), until: None }
    }
    pub const fn between(first: Version, until: Version) -> Span {
        Span { since: Some(first), until: Some(until) }
    }
    pub const fn until(until: Version) -> Span {
        Span { since: None, until: Some(until) }
    }
    pub const fn has(self, version: Version) -> bool {
        let begun = match self.since {
            Some(first) => !is_before(version, first),
            None => true,
        };
        let over = match self.until {
            Some(until) => !is_before(version, until),
            None => false,
        };
        begun && !over
    }
}

/// `a < b`, for tables evaluated at compile time.
const fn is_before(a: Version, b: Version) -> bool {
    const fn rank(v: Version) -> u64 {
        (v.major as u64) << 32 | (v.minor as u64) << 16 | v.patch as u64
    }
    rank(a) < rank(b)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.since, self.until) {
            (None, None) => f.write_str("all"),
            (Some(since), None) => write!(f, "from {since}"),
            (None, Some(until)) => write!(f, "before {until}"),
            (Some(since), Some(until)) => write!(f, "from {since}, before {until}"),
        }
    }
}

/// The owner of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The kernel: a word of its `sched/features`, or the named file or call.
    Kernel(&'static str),
    /// A posted patch that is in no release.
    Patch(&'static str),
    /// schedlab. The text names the kernel's code or the patch that it stands for; "": none.
    Ours(&'static str),
}

impl Source {
    /// Whether the name is schedlab's own, unknown to any kernel.
    pub fn is_ours(self) -> bool {
        matches!(self, Source::Ours(_))
    }
    pub fn word(self) -> &'static str {
        match self {
            Source::Kernel(_) => "kernel",
            Source::Patch(_) => "patch",
            Source::Ours(_) => "schedlab",
        }
    }
    /// The detail text.
    pub fn words(self) -> &'static str {
        match self {
            Source::Kernel(text) | Source::Patch(text) | Source::Ours(text) => text,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            "" => f.write_str(self.word()),
            words => write!(f, "{}: {words}", self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_first_release_and_not_its_last() {
        let v = |t: &str| Version::parse(t).unwrap();
        let span = Span::between(v("4.13"), v("6.7"));
        assert_eq!(["4.12", "4.13", "6.6", "6.7"].map(|t| span.has(v(t))), [false, true, true, false]);
        assert_eq!(span.to_string(), "from v4.13, before v6.7");
        assert!(Span::ALL.has(v("2.6.0")) && !Span::until(v("4.0")).has(v("4.0")));
    }
}
