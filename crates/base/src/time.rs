//! Time in nanoseconds, and the notation of people ("30ms", "2us", "1.5s").

use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time or a duration, in nanoseconds. A run starts at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ns(pub u64);

impl Ns {
    /// A timer at this time never fires.
    pub const MAX: Ns = Ns(u64::MAX);
    pub const ZERO: Ns = Ns(0);

    pub const fn us(us: u64) -> Ns {
        Ns(us * 1_000)
    }
    pub const fn ms(ms: u64) -> Ns {
        Ns(ms * 1_000_000)
    }
    pub const fn secs(s: u64) -> Ns {
        Ns(s * 1_000_000_000)
    }
    /// `self - other`, or zero when `other` is later.
    #[inline]
    pub const fn since(self, other: Ns) -> Ns {
        Ns(self.0.saturating_sub(other.0))
    }
    /// `self + other`, at most [`Ns::MAX`].
    #[inline]
    pub const fn plus(self, other: Ns) -> Ns {
        Ns(self.0.saturating_add(other.0))
    }
    /// Seconds, for people and statistics only: the simulator decides nothing by floats.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Reads "250", "250ns", "30us", "30µs", "1.5ms", "2s", "1m". A bare number takes `unit` (e.g. "us").
    ///
    /// # Errors
    /// When the text is not a number with a known unit, or the time doesn't fit 64 bits of nanoseconds.
    pub fn parse(text: &str, unit: &str) -> Result<Ns> {
        let t = text.trim();
        let digits = t.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(t.len());
        let (number, suffix) = t.split_at(digits);
        let suffix = if suffix.trim().is_empty() { unit } else { suffix.trim() };
        let no_time =
            || Error::input(format!("'{text}' is not a time")).help("write it as 250ns, 30us, 1.5ms or 2s");
        if number.is_empty() {
            return Err(no_time());
        }
        if suffix.is_empty() {
            let units = "units are ns, us, ms, s, m; as in 30us or 1.5ms";
            return Err(Error::input(format!("the time '{text}' has no unit")).help(units));
        }
        let scale: u64 = match suffix {
            "ns" => 1,
            "us" | "µs" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            other => {
                return Err(Error::input(format!("unknown time unit '{other}' in '{text}'"))
                    .help("units are ns, us, ms, s, m; as in 30us or 1.5ms"));
            }
        };
        Self::scaled(&number.replace('_', ""), scale).ok_or_else(no_time)
    }

    /// Decimal arithmetic without floats, so that no time is rounded.
    fn scaled(number: &str, scale: u64) -> Option<Ns> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut ns = whole.checked_mul(scale)?;
        let mut place = scale;
        for c in fraction.chars() {
            place /= 10;
            ns = ns.checked_add(u64::from(c.to_digit(10)?).checked_mul(place)?)?;
        }
        Some(Ns(ns))
    }
}

/// A time of at most 4.29 s, in ns, for tables with many times; longer times saturate. Periods of deadline tasks are
/// not longer (`sched_deadline_period_max_us`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Ns", into = "Ns")]
pub struct Ns32(u32);

impl Ns32 {
    pub const ZERO: Ns32 = Ns32(0);
    pub fn ns(self) -> u64 {
        self.0.into()
    }
}

impl From<Ns> for Ns32 {
    fn from(time: Ns) -> Ns32 {
        Ns32(u32::try_from(time.0).unwrap_or(u32::MAX))
    }
}

impl From<Ns32> for Ns {
    fn from(time: Ns32) -> Ns {
        Ns(time.ns())
    }
}

impl Add for Ns {
    type Output = Ns;
    #[inline]
    fn add(self, o: Ns) -> Ns {
        Ns(self.0 + o.0)
    }
}
impl AddAssign for Ns {
    #[inline]
    fn add_assign(&mut self, o: Ns) {
        self.0 += o.0;
    }
}
impl Sub for Ns {
    type Output = Ns;
    #[inline]
    fn sub(self, o: Ns) -> Ns {
        Ns(self.0 - o.0)
    }
}

impl fmt::Display for Ns {
    /// Three or four significant digits in the largest fitting unit: "4.68ms", "50us", "999ns".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = match self.0 {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("us", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let v = self.0 as f64 / scale as f64;
        let text = if self.0.is_multiple_of(scale) || v >= 1000.0 {
            format!("{v:.0}")
        } else if v >= 100.0 {
            format!("{v:.1}")
        } else {
            format!("{v:.2}")
        };
        f.pad(&format!("{text}{unit}"))
    }
}

impl Serialize for Ns {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Ns {
    /// An integer is nanoseconds; a string carries its unit.
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Ns, D::Error> {
        struct V;
        impl serde::de::Visitor<'_> for V {
            type Value = Ns;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"30us\", or an integer of nanoseconds")
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> std::result::Result<Ns, E> {
                Ok(Ns(v))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> std::result::Result<Ns, E> {
                u64::try_from(v).map(Ns).map_err(|_| E::custom("a time can't be negative"))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> std::result::Result<Ns, E> {
                Ns::parse(v, "ns").map_err(|e| E::custom(e.message()))
            }
        }
        d.deserialize_any(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_people_are_read() {
        for (text, ns) in
            [("250", 250), ("30us", 30_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000), ("0.7 ms", 700_000)]
        {
            assert_eq!(Ns::parse(text, "ns").unwrap(), Ns(ns), "{text}");
        }
        assert_eq!(Ns::parse("30000", "us").unwrap(), Ns::ms(30));
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in ["", "ms", "3 parsecs", "-1ms", "1e9", "99999999999s", "1.2.3ms"] {
            assert!(Ns::parse(text, "ns").is_err(), "{text}");
        }
        let said = |text: &str| Ns::parse(text, "").unwrap_err().to_string();
        assert!(said("3").contains("'3' has no unit"), "{}", said("3"));
        assert!(said("3 parsecs").contains("unknown time unit 'parsecs'"));
        assert!(["", "-1s", "soon"].iter().all(|t| said(t).contains("is not a time")), "{}", said("-1s"));
    }

    #[test]
    fn prints_in_the_largest_fitting_unit() {
        for (ns, text) in [(999, "999ns"), (50_000, "50us"), (4_680_000, "4.68ms"), (1_500_000_000, "1.50s")]
        {
            assert_eq!(Ns(ns).to_string(), text);
        }
    }
}
