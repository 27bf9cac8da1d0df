//! Kernel versions and their order: "v4.5" < "v4.9" < "v6.5".

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// A kernel release, as precise as mechanisms need it: v2.6.30, v4.5, v6.12.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// Third number; 0 when absent. It matters for 2.6.x kernels only.
    pub patch: u16,
    pub minor: u16,
    pub major: u16,
}

impl Version {
    pub const fn new(major: u16, minor: u16) -> Version {
        Version { major, minor, patch: 0 }
    }
    /// One number for fast comparison: the simulator compares versions several times per event.
    #[inline]
    const fn rank(self) -> u64 {
        (self.major as u64) << 32 | (self.minor as u64) << 16 | self.patch as u64
    }
    /// `v2.6.patch`.
    pub const fn v2_6(patch: u16) -> Version {
        Version { major: 2, minor: 6, patch }
    }
    /// Reads "v4.5", "4.5", "v2.6.30", "6.18.44-fc" (the rest after the numbers is ignored).
    ///
    /// # Errors
    /// When the text does not start with at least two numbers.
    pub fn parse(text: &str) -> Result<Version> {
        let t = text.trim().trim_start_matches('v');
        let end = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(t.len());
        let mut n = t[..end].split('.').map(|p| p.parse::<u16>().ok());
        match (n.next().flatten(), n.next().flatten()) {
            (Some(major), Some(minor)) => {
                Ok(Version { major, minor, patch: n.next().flatten().unwrap_or(0) })
            }
            _ => {
                Err(Error::input(format!("'{text}' is not a kernel version"))
                    .help("write it as v4.5 or v2.6.30"))
            }
        }
    }
}

impl PartialOrd for Version {
    #[inline]
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
    #[inline]
    fn lt(&self, other: &Version) -> bool {
        self.rank() < other.rank()
    }
    #[inline]
    fn ge(&self, other: &Version) -> bool {
        self.rank() >= other.rank()
    }
}

impl Ord for Version {
    #[inline]
    fn cmp(&self, other: &Version) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.patch == 0 {
            format!("v{}.{}", self.major, self.minor)
        } else {
            format!("v{}.{}.{}", self.major, self.minor, self.patch)
        };
        f.pad(&text)
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Version, D::Error> {
        let text = String::deserialize(d)?;
        Version::parse(&text).map_err(|e| serde::de::Error::custom(e.message()))
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn eras_are_ordered() {
        let v: Vec<Version> = ["v2.6.12", "2.6.30", "v3.4", "v4.5", "v4.13", "v6.5", "6.18.44-x"]
            .iter()
            .map(|t| Version::parse(t).unwrap())
            .collect();
        assert!(v.is_sorted());
        assert_eq!(v[1].to_string(), "v2.6.30");
        assert!(Version::parse("four").is_err());
    }
}
