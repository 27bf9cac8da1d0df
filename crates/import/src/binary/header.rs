//! The head at the start of trace.dat files, also contained in perf.data files (`HEADER_TRACING_DATA`): the layout of
//! the ring buffer's pages, and the format of each tracepoint. For trace-cmd's file format 6, and perf's 0.5 and 0.6.
//! trace-cmd's format 7 has the same parts in sections.

use super::fields::Tracepoints;
use super::format::Format;
use super::page::Head;
use super::{Fields, byte_order};
use schedlab_base::{Error, ErrorKind, Result};

/// The bytes with which the head begins.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

pub struct Layout {
    pub page: Head,
    pub tracepoints: Tracepoints,
}

impl Layout {
    /// The layout of a file with these formats.
    ///
    /// # Errors
    /// When they lack the scheduler's tracepoints.
    pub fn of(page: Head, formats: &[Format]) -> Result<Layout> {
        Ok(Layout { page, tracepoints: Tracepoints::of(formats).map_err(of_file)? })
    }
}

/// An unknown layout is an error of the file, not of this machine.
fn of_file(e: Error) -> Error {
    if e.kind() != ErrorKind::Machine {
        return e;
    }
    Error::input(format!("{}, as the file has it", e.message()))
        .help("let the tool that made it print text there: 'perf script' or 'trace-cmd report'")
}

/// Reads the file's magic, version and byte order; the size of a long follows. Returns the version.
///
/// # Errors
/// When the file is cut, is not a trace, or has another byte order.
pub fn version<'a>(at: &mut Fields<'a>) -> Result<&'a [u8]> {
    let known = at.bytes(MAGIC.len()) == Some(MAGIC);
    let version = at.text().filter(|_| known).ok_or_else(damaged)?;
    if at.u8().ok_or_else(damaged)? != u8::from(cfg!(target_endian = "big")) {
        return Err(byte_order());
    }
    Ok(version)
}

/// Reads a head that holds all parts (format 6); also returns its length.
///
/// # Errors
/// When it is cut, of another version or byte order, or lacks the scheduler's tracepoints.
pub fn read(bytes: &[u8]) -> Result<(Layout, usize)> {
    let mut at = Fields(bytes);
    let version = version(&mut at)?;
    if !matches!(version, b"6" | b"0.6" | b"0.5") {
        let version = String::from_utf8_lossy(version).into_owned();
        return Err(Error::input(format!("the file is of version {version}, and versions 6 and 7 are read"))
            .help("trace-cmd convert --file-version 7 -i OLD -o NEW, or: trace-cmd report -t -i FILE | schedlab import -"));
    }
    at.bytes(1 + 4).ok_or_else(damaged)?; // sizes of a long and of a page
    let page = page(&mut at)?;
    let mut rest = || {
        for _ in 0..at.u32()? {
            at.long()?; // formats of tracers' own records
        }
        let formats = formats(&mut at)?;
        // Symbols and printk formats; names of tasks.
        let n = at.u32()? as usize;
        at.bytes(n)?;
        let n = at.u32()? as usize;
        at.bytes(n)?;
        if version != b"0.5" {
            at.long()?;
        }
        Some(formats)
    };
    let formats = rest().ok_or_else(damaged)?;
    Ok((Layout::of(page, &formats)?, bytes.len() - at.0.len()))
}

fn damaged() -> Error {
    Error::input("the layouts of the tracepoints in the file are cut or damaged").help("record it anew")
}

/// Reads the layout of pages.
///
/// # Errors
/// When it is cut, or of an unknown kind.
pub fn page(at: &mut Fields<'_>) -> Result<Head> {
    let mut text = || {
        at.text().filter(|name| *name == b"header_page")?;
        let page = at.long()?;
        at.text().filter(|name| *name == b"header_event")?;
        at.long()?;
        Some(page)
    };
    Head::parse(&String::from_utf8_lossy(text().ok_or_else(damaged)?)).map_err(of_file)
}

/// Reads the formats of the tracepoints, and keeps those of the scheduler.
pub fn formats(at: &mut Fields<'_>) -> Option<Vec<Format>> {
    let mut formats = Vec::new();
    for _ in 0..at.u32()? {
        let system = at.text()?;
        for _ in 0..at.u32()? {
            let text = at.long()?;
            if matches!(system, b"sched" | b"task") {
                let text = String::from_utf8_lossy(text);
                let name = text.lines().find_map(|l| l.strip_prefix("name: ")).unwrap_or_default();
                formats.extend(Format::parse(name, &text));
            }
        }
    }
    Some(formats)
}
