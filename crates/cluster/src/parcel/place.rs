//! Where parcels and results may be written: a new file, or over an earlier file of the same kind.
//!
//! A user easily names an experiment, a machine file or a parcel as the output by mistake; it must not be overwritten.

use schedlab_base::{Error, Result, temp};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Checks that a file of a schema may be written for `input` to `place`, before the work that fills it. A device or a
/// pipe is written into.
///
/// # Errors
/// When it is the input's own place, when it holds another file, and as [`temp::check_place`].
pub fn check(place: &Path, schema: &str, input: &Path) -> Result<()> {
    temp::check_place(place)?;
    let shown = place.display();
    if fs::canonicalize(place).is_ok_and(|place| fs::canonicalize(input).is_ok_and(|input| input == place)) {
        return Err(Error::input(format!("{shown} is the file that is read")).help("name another file"));
    }
    if fs::metadata(place).is_ok_and(|about| about.is_file() && about.len() > 0) && !begins(place, schema)? {
        return Err(Error::input(format!("{shown} is there, and is not what would be written in its place"))
            .help("name another file, or move that one away"));
    }
    Ok(())
}

/// Whether a file begins like one of the schema, with any number.
fn begins(file: &Path, schema: &str) -> Result<bool> {
    let kind = schema.rsplit_once('/').map_or(schema, |(kind, _)| kind);
    let wanted = format!("{{\"schema\":\"{kind}/");
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(wanted.len() as u64).read_to_end(&mut bytes));
    read.map_err(|e| Error::io(file, "read", &e))?;
    Ok(bytes == wanted.as_bytes())
}
