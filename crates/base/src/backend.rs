//! Backends and origins of records: one word each on the command line, in files and in tables.

use crate::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// The engine that makes runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Backend {
    Sim,
    Host,
    Vm,
    /// The scheduler's own code from a kernel's tree, on simulated machines.
    Code,
}

impl Backend {
    pub const ALL: [Backend; 4] = [Backend::Sim, Backend::Host, Backend::Vm, Backend::Code];

    /// Reads "sim", "host", "vm" or "code".
    ///
    /// # Errors
    /// For any other word.
    pub fn parse(text: &str) -> Result<Backend> {
        Backend::among(&Backend::ALL, "backend", text)
    }
    /// The one of these, which are `what`, with that name.
    ///
    /// # Errors
    /// For any other word. Another backend is not a spelling mistake.
    pub fn among(known: &[Backend], what: &str, text: &str) -> Result<Backend> {
        let named = |all: &[Backend]| all.iter().copied().find(|b| b.name() == text);
        named(known).ok_or_else(|| {
            let names = || known.iter().map(|b| b.name());
            match named(&Backend::ALL) {
                Some(other) => Error::input(format!("'{other}' is not a {what}"))
                    .help(format!("there are: {}", names().collect::<Vec<_>>().join(", "))),
                None => Error::unknown(what, text, names()),
            }
        })
    }
    /// Whether machines are simulated, so that a run always gives the same result.
    pub const fn is_simulated(self) -> bool {
        matches!(self, Backend::Sim | Backend::Code)
    }
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Sim => "sim",
            Backend::Host => "host",
            Backend::Vm => "vm",
            Backend::Code => "code",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Backend {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

/// The unit of a guest's time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestMode {
    /// Instructions of all of the guest's CPUs, which take turns: the same run gives the same events.
    Deterministic,
    /// The host's time.
    RealTime,
}

impl GuestMode {
    /// The word in options, records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            GuestMode::Deterministic => "deterministic",
            GuestMode::RealTime => "real-time",
        }
    }
}

impl fmt::Display for GuestMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The origin of a record. Sorted by its word.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    Made(Backend),
    /// Read from another program's output. The word is that output's name of its backend, or [`Origin::FILE`].
    Read(Box<str>),
}

impl Origin {
    /// The word for an output that names no backend.
    pub const FILE: &str = "file";
    /// The word for a recording: another tool recorded a real kernel's events.
    pub const RECORDING: &str = "recording";

    /// The origin that an output names. Words of no backend are kept unchanged.
    pub fn from_word(word: &str) -> Origin {
        Backend::parse(word).map_or_else(|_| Origin::Read(word.into()), Origin::Made)
    }
    pub fn made_by(&self) -> Option<Backend> {
        match self {
            Origin::Made(backend) => Some(*backend),
            Origin::Read(_) => None,
        }
    }
    /// Whether the record was made on a simulated machine.
    pub fn is_simulated(&self) -> bool {
        self.made_by().is_some_and(Backend::is_simulated)
    }
    pub fn name(&self) -> &str {
        match self {
            Origin::Made(backend) => backend.name(),
            Origin::Read(word) => word,
        }
    }
}

impl From<Backend> for Origin {
    fn from(backend: Backend) -> Origin {
        Origin::Made(backend)
    }
}

impl PartialEq<Backend> for Origin {
    fn eq(&self, backend: &Backend) -> bool {
        self.made_by() == Some(*backend)
    }
}

impl Ord for Origin {
    fn cmp(&self, other: &Origin) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Origin {
    fn partial_cmp(&self, other: &Origin) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Origin {
    /// Reads stored words: a backend's, [`Origin::FILE`] or [`Origin::RECORDING`].
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Origin, D::Error> {
        let word = String::deserialize(d)?;
        if [Origin::FILE, Origin::RECORDING].contains(&word.as_str()) {
            return Ok(Origin::from_word(&word));
        }
        Backend::parse(&word).map(Origin::Made).map_err(|e| {
            let help = e.remedy().map_or_else(String::new, |help| format!(" ({help})"));
            serde::de::Error::custom(format!("{}{help}", e.message()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::Error as Refused;

    fn stored(word: &str) -> std::result::Result<Origin, Refused> {
        Origin::deserialize(word.into_deserializer())
    }

    #[test]
    fn words_are_read_back_and_others_get_the_nearest() {
        for backend in Backend::ALL {
            assert_eq!(Backend::parse(backend.name()).unwrap(), backend);
            assert_eq!(Origin::from_word(backend.name()), Origin::Made(backend));
            assert_eq!(stored(backend.name()).unwrap(), backend);
        }
        assert_eq!(Backend::parse("hots").unwrap_err().remedy(), Some("did you mean 'host'?"));
        assert_eq!(stored("hots").unwrap_err().to_string(), "unknown backend 'hots' (did you mean 'host'?)");
        for read in [Origin::FILE, Origin::RECORDING] {
            assert_eq!((stored(read).unwrap().made_by(), stored(read).unwrap().name()), (None, read));
        }
        assert!(Backend::parse(Origin::FILE).is_err(), "no run is made there");
    }

    #[test]
    fn another_programs_backend_name_is_kept() {
        let other = Origin::from_word("arm-model");
        assert_eq!((other.name(), other.made_by()), ("arm-model", None));
        let mut all =
            [Origin::from_word("vm"), Origin::from_word(Origin::FILE), Origin::from_word("sim"), other];
        all.sort();
        assert_eq!(all.map(|o| o.to_string()), ["arm-model", "file", "sim", "vm"]);
    }
}
