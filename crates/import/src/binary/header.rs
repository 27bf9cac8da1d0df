//! The head that trace.dat files begin with and that perf.data files hold (`HEADER_TRACING_DATA`): the layout of the
//! ring
//! buffer's pages, and the format of each tracepoint. trace-cmd's file format 6, and perf's 0.5 and 0.6.

use super::fields::Tracepoints;
use super::format::Format;
use super::page::Head;
use super::{Fields, byte_order};
use schedlab_base::{Error, Result};

/// The bytes with which it begins.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The head.
pub struct Header {
    /// The layout of pages.
    pub page: Head,
    /// The scheduler's tracepoints.
    pub tracepoints: Tracepoints,
    /// Number of bytes it takes.
    pub length: usize,
}

impl Header {
    /// Reads it.
    ///
    /// # Errors
    /// When it is cut, of another version or byte order, or lacks the scheduler's tracepoints.
    pub fn read(bytes: &[u8]) -> Result<Header> {
        let mut at = Fields(bytes);
        let known = at.bytes(MAGIC.len()) == Some(MAGIC);
        let version = at.text().filter(|_| known).ok_or_else(damaged)?;
        if !matches!(version, b"6" | b"0.6" | b"0.5") {
            let version = String::from_utf8_lossy(version).into_owned();
            return Err(Error::input(format!("the file is of version {version}, and version 6 is read"))
                .help("trace-cmd convert --file-version 6 -i OLD -o NEW, or: trace-cmd report -t -i FILE | schedlab import -"));
        }
        if at.u8().ok_or_else(damaged)? != u8::from(cfg!(target_endian = "big")) {
            return Err(byte_order());
        }
        let (page, formats) = layouts(&mut at).ok_or_else(damaged)?;
        // Symbols and printk formats; names of tasks.
        let mut skip = || {
            let n = at.u32()? as usize;
            at.bytes(n)?;
            let n = at.u32()? as usize;
            at.bytes(n)?;
            if version != b"0.5" {
                at.long()?;
            }
            Some(())
        };
        skip().ok_or_else(damaged)?;
        let page = Head::parse(&String::from_utf8_lossy(page))?;
        Ok(Header { page, tracepoints: Tracepoints::of(&formats)?, length: bytes.len() - at.0.len() })
    }
}

fn damaged() -> Error {
    Error::input("the layouts of the tracepoints in the file are cut or damaged").help("record it anew")
}

/// The text of header_page, and the formats of the tracepoints that are read.
fn layouts<'a>(at: &mut Fields<'a>) -> Option<(&'a [u8], Vec<Format>)> {
    at.bytes(1 + 4)?; // size of a long, of a page
    at.text().filter(|name| *name == b"header_page")?;
    let page = at.long()?;
    at.text().filter(|name| *name == b"header_event")?;
    at.long()?;
    for _ in 0..at.u32()? {
        at.long()?; // formats of tracers' own records
    }
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
    Some((page, formats))
}
