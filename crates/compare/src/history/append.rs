//! Adds lines to the end of a history's file. Lines that are there are never written again, so a crash can't harm them,
//! and several processes may add to one file.

use super::csv::is_left_out;
use schedlab_base::{Error, Result, input};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The first line of a file that is begun here.
const HEAD: &str = "date,commit,machine,workload,load,run,metric,unit,better,value";

/// Adds those lines that the file does not have, and returns their number.
///
/// # Errors
/// When the file has another form, its last line does not end, or it can't be written: then it stays as it was.
pub(super) fn new_lines(path: &Path, lines: &[String]) -> Result<usize> {
    if lines.is_empty() {
        return Ok(0);
    }
    let failed = |what: &'static str| move |e| Error::io(path, what, &e);
    // Pipes, devices and other odd files are refused before they are opened.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(Error::input(format!("{}: not a regular file", path.display()))
            .help("values are added to a file, or to a folder with one for each machine"));
    }
    check_form(path, &input::text_if_there(path)?.unwrap_or_default())?;
    let mut file = File::options().create(true).append(true).open(path).map_err(failed("open"))?;
    file.lock().map_err(failed("lock"))?;
    let old = input::text(path)?;
    let has_head = check_form(path, &old)?;
    let known: BTreeSet<&str> = old.lines().collect();
    let new: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !known.contains(line)).collect();
    let head = if has_head { Vec::new() } else { vec![HEAD] };
    if !new.is_empty() {
        let text: String = head.iter().chain(&new).flat_map(|line| [*line, "\n"]).collect();
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|e| {
            // A full disk may have taken a part of the lines.
            let _ = file.set_len(old.len() as u64);
            Error::io(path, "write", &e)
        })?;
    }
    Ok(new.len())
}

/// Lines can be added to a file of this form only; whether it has its head, behind comments. A last line without an end
/// may be cut short, by a crash while it was added, with a wrong value.
fn check_form(path: &Path, text: &str) -> Result<bool> {
    let text = text.trim_start_matches('\u{feff}');
    let head = text.lines().find(|l| !is_left_out(l));
    if head.is_some_and(|head| head.trim_end() != HEAD) {
        return Err(Error::input(format!("{}: its first line is not '{HEAD}'", path.display()))
            .help("add to a file of its own, in the same folder: both are read as one history"));
    }
    if text.is_empty() || text.ends_with('\n') {
        return Ok(head.is_some());
    }
    let text = format!("{}: its last line does not end; it may be cut short", path.display());
    Err(Error::input(text).help("remove that line and add its runs again, or end it with a new line"))
}
