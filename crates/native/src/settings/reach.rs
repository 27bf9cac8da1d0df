//! Reads and changes a thing of the system, which is a file, or a folder that stands for a control group.

use super::files::Files;
use super::form::{ABSENT, Form, MADE};
use std::io;
use std::path::Path;

/// The text that a thing reads as: the file's content, or whether the folder is there.
pub fn text(files: &dyn Files, form: Form, path: &Path) -> io::Result<String> {
    match form {
        Form::Folder => Ok(if files.is_folder(path) { MADE } else { ABSENT }.to_owned()),
        _ => files.read(path),
    }
}

/// Gives a thing a value.
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
