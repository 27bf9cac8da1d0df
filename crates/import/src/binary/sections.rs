//! trace.dat, version 7: sections, which options point to.
//!
//! The head names the compression and the first section of options. A section has a head of 16 bytes: kind (16 bits),
//! flags (16), offset of its name (32), length (64). Options point to other sections, to each buffer's pages by CPU,
//! and to further options.

use super::header::{self, Layout};
use super::options;
use super::packed::{Packing, Stream};
use super::{Fields, cut, part};
use crate::sched_record::MAX_CPUS;
use schedlab_base::{Error, Result};
use std::fs::File;

const DONE: u16 = 0;
const BUFFER: u16 = 3;
const HEADER_INFO: u16 = 16;
const EVENT_FORMATS: u16 = 18;
/// The most sections of options; more mean that they point in a circle.
const MOST_OPTIONS: usize = 4096;
/// Bytes of a section's head.
const HEAD: u64 = 16;
/// A section's flag: it is compressed.
const PACKED: u16 = 1;
/// Page sizes that are accepted.
const PAGES: std::ops::RangeInclusive<u32> = 64..=1 << 24;

/// The pages of all CPUs in one buffer.
struct Buffer {
    at: u64,
    name: Vec<u8>,
    clock: String,
    page_bytes: u32,
    /// CPU, offset and size.
    cpus: Vec<(u32, u64, u64)>,
}

impl Buffer {
    fn read(mut at: Fields<'_>, clocked: bool) -> Option<Buffer> {
        let place = at.u64()?;
        let name = at.text()?.to_vec();
        let clock = if clocked { String::from_utf8_lossy(at.text()?).into_owned() } else { String::new() };
        let page_bytes = at.u32().filter(|n| PAGES.contains(n))?;
        let count = at.u32().filter(|n| *n <= MAX_CPUS)?;
        let one = |_| Some((at.u32().filter(|cpu| *cpu < MAX_CPUS)?, at.u64()?, at.u64()?));
        Some(Buffer { at: place, name, clock, page_bytes, cpus: (0..count).map(one).collect::<Option<_>>()? })
    }
    fn is_empty(&self) -> bool {
        self.cpus.iter().all(|(_, _, size)| *size == 0)
    }
}

pub struct Opened {
    /// The layouts of pages and tracepoints.
    pub layout: Layout,
    /// The pages by CPU.
    pub cpus: Vec<(u32, Stream)>,
    pub told: options::TraceOptions,
}

/// Opens a file. `at` is behind the size of a page in its head.
///
/// # Errors
/// When it is cut, compressed in an unknown way, or lacks a needed part.
pub fn open(file: &File, mut at: Fields<'_>) -> Result<Opened> {
    let name = at.text().ok_or_else(cut)?;
    let packing = Packing::parse(name)?;
    let _version = at.text().ok_or_else(cut)?;
    let mut next = at.u64().ok_or_else(cut)?;
    let mut told = options::TraceOptions::default();
    let (mut page, mut formats, mut buffers) = (None, None, Vec::new());
    for _ in 0..MOST_OPTIONS {
        let bytes = section(file, packing, next, DONE)?;
        let mut at = Fields(&bytes);
        loop {
            let option = (|| Some((at.u16()?, at.u32()? as usize)))();
            let (id, length) = option.ok_or_else(cut)?;
            let data = at.bytes(length).ok_or_else(cut)?;
            let place = || Fields(data).u64().ok_or_else(cut);
            match id {
                DONE => {
                    next = place()?;
                    break;
                }
                HEADER_INFO => {
                    page = Some(header::page(&mut Fields(&section(file, packing, place()?, id)?))?);
                }
                EVENT_FORMATS => {
                    let text = section(file, packing, place()?, id)?;
                    formats = Some(header::formats(&mut Fields(&text)).ok_or_else(cut)?);
                }
                BUFFER => buffers.push(Buffer::read(Fields(data), true).ok_or_else(cut)?),
                other => told.take(other, data),
            }
        }
        if next == 0 {
            break;
        }
    }
    let (Some(page), Some(formats)) = (page, formats) else { return Err(cut()) };
    // The buffer without a name is the main one; instances have names.
    buffers.sort_by_key(|b| (b.is_empty(), !b.name.is_empty()));
    let buffer = buffers.first().ok_or_else(|| {
        Error::input("the file has no records: the recording was not finished").help("record it anew")
    })?;
    told.check_clock(&buffer.clock)?;
    let head = section_head(file, buffer.at, BUFFER)?;
    let by = if head.flags & PACKED != 0 { packing } else { Packing::None };
    let one = |(cpu, at, size): &(u32, u64, u64)| Ok((*cpu, Stream::of(file, by, *at, *size)?));
    let cpus = buffer.cpus.iter().map(one).collect::<Result<_>>()?;
    let page = page.of_size(buffer.page_bytes as usize);
    Ok(Opened { layout: Layout::of(page, &formats)?, cpus, told })
}

struct SectionHead {
    flags: u16,
    size: u64,
}

fn section_head(file: &File, at: u64, id: u16) -> Result<SectionHead> {
    let bytes = part(file, at, HEAD as usize)?;
    let mut bytes = Fields(&bytes);
    let mut read = || {
        let is = bytes.u16()?;
        let flags = bytes.u16()?;
        bytes.u32()?;
        (is == id).then_some(SectionHead { flags, size: bytes.u64()? })
    };
    read().ok_or_else(cut)
}

/// The content of a section, unpacked.
fn section(file: &File, packing: Packing, at: u64, id: u16) -> Result<Vec<u8>> {
    let head = section_head(file, at, id)?;
    match head.flags & PACKED {
        0 => part(file, at + HEAD, usize::try_from(head.size).map_err(|_| cut())?),
        _ => packing.section(file, at + HEAD),
    }
}
