//! Output: results go to standard output, everything else to standard error; and the exit code.
//!
//! A result is made whole in memory and written at once. A reader that has gone (`| head`) is not an error; a full disk
//! is one. A message that can't be written to standard error is lost: there is nowhere left to report it.

use crate::fault;
use clap::builder::TypedValueParser;
use schedlab_base::{Error, Result, printable};
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// This version: "0.2.0 (model 11, release)". The build is the cargo profile's name, with ", profile-guided" if it is.
pub fn version() -> String {
    format!("{} (model {}, {})", env!("CARGO_PKG_VERSION"), schedlab_record::MODEL, env!("SCHEDLAB_BUILD"))
}

/// The exit code of a fault of schedlab itself.
pub const FAULT: u8 = 4;

/// Makes a result and writes it to standard output. Names in it may come from other people's files, so characters that
/// a terminal would obey are escaped. JSON with these escapes means the same.
///
/// # Errors
/// When standard output can't be written, unless its reader has gone.
pub fn result(make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    painted(make, |text| text)
}

/// As [`result`]; `paint` adds colours to the text, after names have been escaped.
pub fn painted(
    make: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    paint: impl FnOnce(String) -> String,
) -> Result<()> {
    let mut text = Vec::new();
    make(&mut text).map_err(|e| Error::internal(format!("the result can't be written as text: {e}")))?;
    let text = String::from_utf8_lossy(&text);
    let text = paint(printable::lines(&text).into_owned());
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(unwritable(&e)),
        _ => Ok(()),
    }
}

/// A file's text on standard output. For a terminal, terminal codes are escaped; a file or another program gets each
/// byte.
pub struct Shown<W: Write> {
    to: W,
    line: Vec<u8>,
    escape: bool,
}

/// Standard output for a file's text.
pub fn shown() -> Shown<io::StdoutLock<'static>> {
    let escape = io::stdout().is_terminal();
    Shown { to: io::stdout().lock(), line: Vec::new(), escape }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.escape {
            return self.to.write(bytes);
        }
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|b| *b == b'\n') {
            let rest = self.line.split_off(end + 1);
            let whole = std::mem::replace(&mut self.line, rest);
            self.to.write_all(printable::lines(&String::from_utf8_lossy(&whole)).as_bytes())?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.line);
        self.to.write_all(printable::lines(&String::from_utf8_lossy(&rest)).as_bytes())?;
        self.to.flush()
    }
}

fn unwritable(e: &io::Error) -> Error {
    Error::machine(format!("can't write to standard output: {e}"))
}

/// Writes a value as indented JSON to standard output.
pub fn json(value: &impl serde::Serialize) -> Result<()> {
    result(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

/// Prints a result as JSON under its schema's name (docs/formats.md).
pub fn json_as(schema: &'static str, value: &impl serde::Serialize) -> Result<()> {
    #[derive(serde::Serialize)]
    struct Tagged<'a, T> {
        schema: &'static str,
        #[serde(flatten)]
        value: &'a T,
    }
    json(&Tagged { schema, value })
}

/// Writes a note to standard error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "schedlab: {}", printable::lines(text));
}

/// Reports the error, if there is one, and returns the exit code.
pub fn conclude(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => failed(&e),
    }
}

fn failed(e: &Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "schedlab: error: {e}");
    fault::more_about(e);
    ExitCode::from(e.kind().exit_code())
}

/// The error of an option's word that says by itself what is wrong: it is reported without clap's words around it.
#[derive(Debug)]
struct Unknown(Error);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Unknown {}

/// The parser of an option whose values are the words of a table.
pub fn word<T: Clone + Send + Sync + 'static>(
    parse: fn(&str) -> Result<T>,
) -> impl TypedValueParser<Value = T> {
    move |text: &str| parse(text).map_err(Unknown)
}

/// Prints clap's help or version, or its error for a wrong command line; returns the exit code.
pub fn usage(e: &clap::Error) -> ExitCode {
    if let Some(Unknown(e)) = e.source().and_then(<dyn StdError>::downcast_ref) {
        return failed(e);
    }
    // clap passes the words of the command line on as they are, and these may be names of files.
    let acts = std::env::args_os().any(|word| word.to_string_lossy().contains(printable::acts));
    let printed = if acts {
        io::stderr().write_all(printable::lines(&e.render().to_string()).as_bytes())
    } else {
        e.print()
    };
    match printed {
        Err(io) if e.exit_code() == 0 && io.kind() != ErrorKind::BrokenPipe => conclude(Err(unwritable(&io))),
        _ => ExitCode::from(if e.exit_code() == 0 { 0 } else { 2 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_text_is_escaped_line_by_line_for_a_terminal_and_whole_otherwise() {
        const TEXT: &str = "one \u{1b}[31m\u{e9}\ntwo\u{7}";
        let through = |escape: bool| {
            let mut out = Vec::new();
            let mut to = Shown { to: &mut out, line: Vec::new(), escape };
            // A character may come in two parts.
            TEXT.as_bytes().chunks(3).for_each(|part| to.write_all(part).unwrap());
            to.flush().unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(through(false), TEXT);
        assert_eq!(through(true), "one \\u001b[31m\u{e9}\ntwo\\u0007");
    }
}
