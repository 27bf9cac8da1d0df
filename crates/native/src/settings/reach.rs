//! Reads and changes an item of the system: a file, or the folder of a control group.

use super::files::Files;
use super::form::{ABSENT, Form, MADE};
use std::io;
use std::path::Path;

/// The text of an item: the file's content, or whether the folder exists.
pub fn text(files: &dyn Files, form: Form, path: &Path) -> io::Result<String> {
    match form {
        Form::Folder => Ok(if files.is_folder(path) { MADE } else { ABSENT }.to_owned()),
        _ => files.read(path),
    }
}

/// Sets an item's value.
///
/// # Errors
/// As write(2), mkdir(2) and rmdir(2).
pub fn put(files: &dyn Files, form: Form, path: &Path, value: &str) -> io::Result<()> {
    match form {
        Form::Folder if value == MADE => files.make_group(path),
        Form::Folder => files.remove_group(path),
        _ => files.write(path, value),
    }
}
