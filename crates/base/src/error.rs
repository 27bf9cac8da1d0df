//! Errors that name the object, the place and the remedy, and warnings as data.
//!
//! One error type serves all crates: a kind (which fixes the exit code), a message, an optional place in a file, and
//! an optional remedy. Libraries return it; only the command line prints it.

use crate::printable;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// The class of an error. It decides the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A check that the user asked for failed (exit code 1).
    CheckFailed,
    /// The input is wrong (exit code 2).
    Input,
    /// This machine can't do that (exit code 3).
    Machine,
    /// A guest's kernel did not start, or died (exit code 3).
    Guest,
    /// A fault of schedlab itself (exit code 4).
    Internal,
    /// The command of `exec`, `stat` or `profile` exists but can't be executed (exit code 126, as in shells).
    NotExecutable,
    /// The command of `exec`, `stat` or `profile` does not exist (exit code 127, as in shells).
    NoCommand,
}

impl ErrorKind {
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::CheckFailed => 1,
            ErrorKind::Input => 2,
            ErrorKind::Machine | ErrorKind::Guest => 3,
            ErrorKind::Internal => 4,
            ErrorKind::NotExecutable => 126,
            ErrorKind::NoCommand => 127,
        }
    }
}

/// How a sched_ext scheduler failed a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerFailure {
    /// It did not get the tasks: the loader, the kernel or the machine does not take it.
    Refused,
    /// The kernel's watchdog threw it out: a task waited too long (`SCX_EXIT_ERROR_STALL`).
    Stalled,
    /// The kernel threw it out for another reason: its `enum scx_exit_kind`.
    ThrownOut(i32),
    /// It ended by itself before the run was over.
    Left,
    /// A program of BPF did what no program may.
    Fault,
    /// No simulated time passes under it.
    StandsStill,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Line from 1, column from 1, when known.
    pub line_column: Option<(usize, usize)>,
}

impl Spot {
    pub fn at_offset(file: &Path, text: &str, offset: usize) -> Spot {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        Spot { file: file.to_owned(), line_column: Some((line, column)) }
    }
    pub fn file(file: &Path) -> Spot {
        Spot { file: file.to_owned(), line_column: None }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line_column.map_or(Ok(()), |(l, c)| write!(f, ":{l}:{c}"))
    }
}

/// An error lists all known names if they fit in this many characters; otherwise only the most similar ones.
const MOST_LISTED: usize = 600;
/// Number of similar names that an error offers.
const LIKEST: usize = 8;

/// All known names, or the ones most similar to `name` when the list is long.
fn listed(name: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    if all.len() <= MOST_LISTED {
        return format!("known: {all}");
    }
    let likest = crate::nearest::likest(name, known.iter().copied(), LIKEST);
    format!("{} are known, among them {}", known.len(), likest.join(", "))
}

#[derive(Debug)]
struct Detail {
    kind: ErrorKind,
    message: String,
    spot: Option<Spot>,
    help: Option<String>,
    scheduler: Option<SchedulerFailure>,
}

/// An error with its place and its remedy.
#[derive(Debug)]
pub struct Error(Box<Detail>);

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let (spot, help, scheduler) = (None, None, None);
        Error(Box::new(Detail { kind, message: message.into(), spot, help, scheduler }))
    }
    pub fn input(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Input, message)
    }
    /// This machine can't do the request.
    pub fn machine(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Machine, message)
    }
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }
    /// Reading or writing `path` failed. A missing or unreadable file is bad input; any other failure is a limit of
    /// the machine.
    pub fn io(path: &Path, doing: &str, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::NotFound | Io::PermissionDenied | Io::IsADirectory | Io::InvalidData => ErrorKind::Input,
            _ => ErrorKind::Machine,
        };
        let failed = Error::new(kind, format!("can't {doing} {}: {error}", path.display()));
        match error.kind() {
            Io::StorageFull | Io::QuotaExceeded => failed.help("make room there, then give the same command"),
            _ => failed,
        }
    }
    /// No `what` is called `name`. The help offers the nearest of `known`, or lists them.
    pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        let mut seen = std::collections::BTreeSet::new();
        let known: Vec<&str> = known.into_iter().filter(|k| seen.insert(*k)).collect();
        let help = match crate::nearest::nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => listed(name, &known),
        };
        Error::input(format!("unknown {what} '{}'", printable::name(name))).help(help)
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Error {
        self.0.help = Some(help.into());
        self
    }
    /// Adds a place, unless the error has one.
    #[must_use]
    pub fn at(mut self, spot: Spot) -> Error {
        self.0.spot.get_or_insert(spot);
        self
    }
    /// Says how a sched_ext scheduler failed, unless the error does. A fault of this machine, or of ours, is not its.
    #[must_use]
    pub fn of_scheduler(mut self, failure: SchedulerFailure) -> Error {
        if self.0.kind == ErrorKind::Input {
            self.0.scheduler.get_or_insert(failure);
        }
        self
    }
    /// Puts words before the message.
    #[must_use]
    pub fn context(mut self, words: impl fmt::Display) -> Error {
        self.0.message = format!("{words}: {}", self.0.message);
        self
    }
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// How a sched_ext scheduler failed, if that is the error.
    pub fn scheduler(&self) -> Option<SchedulerFailure> {
        self.0.scheduler
    }
    pub fn message(&self) -> &str {
        &self.0.message
    }
    pub fn spot(&self) -> Option<&Spot> {
        self.0.spot.as_ref()
    }
    pub fn remedy(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A message may quote text from a file or another program.
        if let Some(spot) = &self.0.spot {
            write!(f, "{}: ", printable::name(&spot.to_string()))?;
        }
        f.write_str(&printable::lines(&self.0.message))?;
        self.0.help.as_ref().map_or(Ok(()), |h| write!(f, "\n  help: {}", printable::lines(h)))
    }
}

impl std::error::Error for Error {}

/// A fact that the reader of a result must know. It is stored in the record and printed with the result.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Warning {
    /// A stable dotted code ("samples.few", "host.steal").
    pub code: String,
    /// The sentence for people.
    pub message: String,
}

impl Warning {
    pub fn new(code: &str, message: impl Into<String>) -> Warning {
        Warning { code: code.to_owned(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_place_object_and_remedy() {
        let text = "a = 1\nkernal = 2\n";
        let e = Error::unknown("key", "kernal", ["kernel", "machine"]).at(Spot::at_offset(
            Path::new("x.toml"),
            text,
            text.find("kernal").unwrap(),
        ));
        assert_eq!(e.to_string(), "x.toml:2:1: unknown key 'kernal'\n  help: did you mean 'kernel'?");
        assert_eq!(e.kind().exit_code(), 2);
    }

    #[test]
    fn quoted_text_in_errors_can_not_control_the_terminal() {
        let spot = Spot::file(Path::new("a\u{1b}[2J\n.toml"));
        let e = Error::unknown("key", "k\ne\u{9b}y", ["x"]).context("in \u{202e}b").at(spot);
        let shown = "a\\u001b[2J\\u000a.toml: in \\u202eb: unknown key 'k\\u000ae\\u009by'\n  help: known: x";
        assert_eq!(e.to_string(), shown);
    }
}
