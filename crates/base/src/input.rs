//! The only way to read files that a user names: regular files and pipes, up to a limit.
//!
//! A device may give bytes without end, and opening it may have effects. So devices are refused before they are opened.
//! The limit keeps a wrong file (a trace, a disk image) from filling the memory; [`LIMIT_VARIABLE`] changes it. Sizes
//! are in MiB.

use crate::{Error, Result, Spot};
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The usual limit of an input's length, MiB. The functions `*_up_to` take another.
pub const LIMIT_MB: u64 = 64;
/// The environment variable that sets the limit of all inputs, MiB.
pub const LIMIT_VARIABLE: &str = "SCHEDLAB_MAX_INPUT_MB";

/// Reads a file or a pipe to its end.
///
/// # Errors
/// When the path is missing, unreadable, neither a file nor a pipe, or when the input is longer than the limit.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    bytes_up_to(path, LIMIT_MB)
}

/// As [`bytes`], with another usual limit.
pub fn bytes_up_to(path: &Path, usual_mb: u64) -> Result<Vec<u8>> {
    let limit = limit_mb(usual_mb)?;
    read(path, limit).map_err(|e| Error::io(path, "read", &e))?
}

/// Reads a file or a pipe of UTF-8 text.
///
/// # Errors
/// As [`bytes`], and when the text is not UTF-8, with the place.
pub fn text(path: &Path) -> Result<String> {
    text_up_to(path, LIMIT_MB)
}

/// As [`text`], with another usual limit.
pub fn text_up_to(path: &Path, usual_mb: u64) -> Result<String> {
    utf8(path, bytes_up_to(path, usual_mb)?)
}

/// As [`text`], but `None` if the file does not exist.
///
/// # Errors
/// As [`text`], except that a missing file is not an error.
pub fn text_if_there(path: &Path) -> Result<Option<String>> {
    let limit = limit_mb(LIMIT_MB)?;
    match read(path, limit) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, "read", &e)),
        Ok(read) => utf8(path, read?).map(Some),
    }
}

/// Opens a file or a pipe. Its kind is checked before and after opening, because another file may take the path in
/// between.
///
/// # Errors
/// When the path is missing, unreadable, or neither a file nor a pipe.
pub fn open(path: &Path) -> Result<File> {
    opened(path).map_err(|e| Error::io(path, "read", &e))?
}

fn opened(path: &Path) -> io::Result<Result<File>> {
    if let Some(kind) = refused(fs::metadata(path)?.file_type()) {
        return Ok(Err(no_file(path, kind)));
    }
    let file = File::open(path)?;
    Ok(match refused(file.metadata()?.file_type()) {
        Some(kind) => Err(no_file(path, kind)),
        None => Ok(file),
    })
}

fn read(path: &Path, limit_mb: u64) -> io::Result<Result<Vec<u8>>> {
    let file = match opened(path)? {
        Ok(file) => file,
        Err(refused) => return Ok(Err(refused)),
    };
    let most = limit_mb << 20;
    if file.metadata()?.len() > most {
        return Ok(Err(too_long(path, limit_mb)));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > most { Err(too_long(path, limit_mb)) } else { Ok(bytes) })
}

/// The word for a kind of file that is refused; `None` for files and pipes.
fn refused(kind: FileType) -> Option<&'static str> {
    match kind {
        k if k.is_file() || k.is_fifo() => None,
        k if k.is_dir() => Some("a folder"),
        k if k.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

fn no_file(path: &Path, kind: &str) -> Error {
    Error::input(format!("can't read {}: it is {kind}", path.display())).help("give a regular file or a pipe")
}

/// The error of an input that is longer than its limit.
pub fn too_long(path: &Path, limit_mb: u64) -> Error {
    Error::input(format!("longer than {limit_mb} MB"))
        .help(format!("{LIMIT_VARIABLE} sets another limit, as in {LIMIT_VARIABLE}={}", limit_mb * 4))
        .at(Spot::file(path))
}

fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(e.as_bytes()).into_owned();
        Error::input(format!("not UTF-8 text (byte {good})")).at(Spot::at_offset(path, &text, good))
    })
}

/// The limit in force, MiB: from the environment variable, else `usual`.
///
/// # Errors
/// When the variable is not a number.
pub fn limit_mb(usual: u64) -> Result<u64> {
    std::env::var_os(LIMIT_VARIABLE).map_or(Ok(usual), |given| stated(&given.to_string_lossy()))
}

fn stated(text: &str) -> Result<u64> {
    // A limit beyond any address space could overflow when it is counted in bytes.
    text.trim().parse().ok().filter(|mb| (1..1 << 40).contains(mb)).ok_or_else(|| {
        Error::input(format!("{LIMIT_VARIABLE} is '{text}', not a number of MB"))
            .help(format!("{LIMIT_VARIABLE}=256"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    fn said(path: &str) -> String {
        let e = bytes(Path::new(path)).unwrap_err();
        assert_eq!(e.kind().exit_code(), 2, "{e}");
        e.to_string()
    }

    #[test]
    fn devices_and_folders_are_refused() {
        assert!(said("/dev/zero").starts_with("can't read /dev/zero: it is a device\n  help: "));
        assert!(said("/dev").contains("/dev: it is a folder\n"));
        assert!(said("/nowhere/at/all").contains("can't read /nowhere/at/all"));
        assert_eq!(text_if_there(Path::new("/nowhere/at/all")).unwrap(), None);
    }

    #[test]
    fn files_and_pipes_end_at_the_limit() {
        let folder = std::env::temp_dir().join(format!("schedlab-input-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let long = folder.join("long");
        File::create(&long).unwrap().set_len((1 << 20) + 1).unwrap();
        let e = read(&long, 1).unwrap().unwrap_err().to_string();
        assert!(e.contains("long: longer than 1 MB\n") && e.contains(LIMIT_VARIABLE), "{e}");
        assert_eq!(read(&long, 2).unwrap().unwrap().len(), (1 << 20) + 1);

        // An endless pipe: its writer learns that nobody reads any more.
        let (reader, mut writer) = io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&reader);
        let endless = std::thread::spawn(move || {
            let mut written = 0_u64;
            while written < 16 << 20 && writer.write_all(&[b'x'; 4096]).is_ok() {
                written += 4096;
            }
            written
        });
        let e = read(Path::new(&format!("/proc/self/fd/{fd}")), 1).unwrap().unwrap_err().to_string();
        assert!(e.contains("longer than 1 MB"), "{e}");
        std::thread::sleep(Duration::from_millis(1));
        drop(reader);
        assert!(endless.join().unwrap() <= 2 << 20, "no more is read than the limit and the pipe's buffer");

        fs::write(&long, b"a\nb\xff").unwrap();
        let e = text(&long).unwrap_err().to_string();
        assert!(e.ends_with("long:2:2: not UTF-8 text (byte 3)"), "{e}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_limit_is_a_number_of_megabytes() {
        assert_eq!(stated(" 256 ").unwrap(), 256);
        for bad in ["", "0", "-1", "1G", "99999999999999999999"] {
            assert!(stated(bad).unwrap_err().to_string().contains(LIMIT_VARIABLE), "{bad}");
        }
    }
}
