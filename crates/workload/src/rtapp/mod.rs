//! Reads rt-app's JSON workload descriptions, and turns them into schedlab's programs.
//!
//! The path of a file: `json` (keeps order and places) -> `schema` and `event` (names, kinds, ranges; `keys` is the
//! table of all keys) -> `check` (rejects files that would hang or never end) -> `script` (turns names into futex
//! words) -> `lower` (declares the threads) -> `program` and `sync` (run them). Times are us in the file and ns here.
//!
//! Follows rt-app as of 2026, with these intended differences:
//! - A file must be correct: where rt-app skips, guesses or hangs, schedlab gives an error with its place.
//! - The reader itself repairs what the script `workgen` repairs for rt-app: repeated keys, and `suspend` without a
//!   value.
//! - `run` is work of a CPU at full speed, so there is no calibration.
//! - `mem` touches the thread's own memory; `iorun` sleeps, since no device is written.
//! - Each signal ends exactly one wait, and barriers are truly cyclic (see `sync`).
//! - `sync` takes its mutex itself unless the task holds it.
//! - A run without `duration` ends with its tasks, at the latest after an hour ([`LONGEST`]).
//! - At the end of the run tasks stop wherever they are; rt-app lets critical sections finish.
//!
//! An rt-app file has no load parameter: `knee` raises the number of copies of its tasks (`copies`).

mod check;
mod copies;
mod event;
mod json;
mod keys;
mod lower;
mod program;
mod read;
mod schema;
mod script;
mod sync;

#[cfg(test)]
mod error_tests;
#[cfg(test)]
pub(crate) mod example_tests;
#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod sync_tests;
#[cfg(test)]
mod tests;

pub use copies::copies;
pub use keys::{Fate, KEYS, Key, Level};
pub use lower::LONGEST;

use crate::build::Builder;
use crate::param::{Param, ParamKind};
use schedlab_base::{Error, Ns, Result, Spot, printable};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The only parameter of an rt-app file: a runtime that replaces the file's duration.
pub const RUNTIME: Param = Param {
    name: "runtime",
    short: Some('r'),
    kind: ParamKind::Time("s"),
    default: None,
    range: (1_000_000, 3_600_000_000_000),
    about: "how long to run, whatever the file's duration",
};

/// A file that was read and checked.
struct Checked {
    file: String,
    text: String,
    runtime: Option<Ns>,
    content: schema::File,
    modes: check::Modes,
}

/// The last file that was read: a command builds the tasks of its file several times.
static LAST: Mutex<Option<Arc<Checked>>> = Mutex::new(None);

fn checked(file: &str, text: &str, runtime: Option<Ns>) -> Result<Arc<Checked>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |c: &&Arc<Checked>| c.runtime == runtime && c.file == file && c.text == text;
    if let Some(same) = last.as_ref().filter(same) {
        return Ok(Arc::clone(same));
    }
    let source = json::Source::new(file, text);
    let mut content = schema::read(source, &json::parse(source)?)?;
    content.duration = runtime.or(content.duration);
    let modes = check::check(source, &content)?;
    let read = Arc::new(Checked { file: file.to_owned(), text: text.to_owned(), runtime, content, modes });
    *last = Some(Arc::clone(&read));
    Ok(read)
}

/// Builds the tasks of an rt-app text. Series: `rtapp.wakeup_latency`, `rtapp.slack`, `rtapp.lateness`, `rtapp.run`,
/// `rtapp.period`, all in ns. A `runtime` replaces the file's duration.
///
/// # Errors
/// When the JSON is malformed, or a part is unknown or can't work. The error has line and column.
pub fn build(file: &str, text: &str, runtime: Option<Ns>, b: &mut Builder) -> Result<()> {
    if file.contains(printable::acts) {
        return Err(Error::input("the file's name has control characters; results would carry them")
            .help("rename it")
            .at(Spot::file(Path::new(file))));
    }
    let read = checked(file, text, runtime)?;
    lower::lower(json::Source::new(file, text), &read.content, &read.modes, b)
}
