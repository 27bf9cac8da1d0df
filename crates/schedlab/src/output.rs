//! Output: results go to standard output, everything else to standard error; and the exit code.
//!
//! A result is made whole in memory and written at once. A reader that has gone (`| head`) is no error; a full disk is
//! one. A message that can't be written to standard error is lost: there is nowhere left to report it.

use schedlab_base::{Error, Result, printable};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

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
///
/// # Errors
/// As [`result`].
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

fn unwritable(e: &io::Error) -> Error {
    Error::machine(format!("can't write to standard output: {e}"))
}

/// Writes a value as indented JSON to standard output.
///
/// # Errors
/// As [`result`].
pub fn json(value: &impl serde::Serialize) -> Result<()> {
    result(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

/// Prints a result as JSON under its schema's name (docs/formats.md).
///
/// # Errors
/// As [`result`].
pub fn json_as(schema: &'static str, value: &impl serde::Serialize) -> Result<()> {
    #[derive(serde::Serialize)]
    struct Tagged<'a, T> {
        schema: &'static str,
        #[serde(flatten)]
        value: &'a T,
    }
    json(&Tagged { schema, value })
}

/// Writes a note to standard error, beside the result.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "schedlab: {}", printable::lines(text));
}

/// Reports the error, if there is one, and returns the exit code.
pub fn conclude(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "schedlab: error: {e}");
            ExitCode::from(e.kind().exit_code())
        }
    }
}

/// Prints clap's help or version, or its error for a wrong command line; returns the exit code.
pub fn usage(e: &clap::Error) -> ExitCode {
    match e.print() {
        Err(io) if e.exit_code() == 0 && io.kind() != ErrorKind::BrokenPipe => conclude(Err(unwritable(&io))),
        _ => ExitCode::from(if e.exit_code() == 0 { 0 } else { 2 }),
    }
}

/// Reports a panic of any thread in one line with its place, since it is a fault of schedlab. Later panics are
/// consequences of the first, and are not reported.
pub fn tell_panics_in_one_line() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    std::panic::set_hook(Box::new(|panic| {
        if TOLD.swap(true, Ordering::SeqCst) {
            return;
        }
        let words = panic.payload();
        let words = words.downcast_ref::<&str>().copied().map(str::to_owned);
        let words = words.or_else(|| panic.payload().downcast_ref::<String>().cloned());
        let words = words.unwrap_or_else(|| "no words".to_owned()).replace('\n', " ");
        let words = printable::name(&words);
        let place = panic.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        let _ = writeln!(io::stderr(), "schedlab: error: a fault of schedlab{place}: {words}");
    }));
}
