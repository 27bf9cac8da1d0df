//! Compressed parts of a trace.dat: sections, and the pages of a CPU in chunks.
//!
//! A compressed part is two lengths (32 bits each, packed and unpacked) and the packed bytes. The file's head names the
//! algorithm for all of them: zstd or zlib.

use super::{Fields, cut, part};
use schedlab_base::{Error, Result};
use std::fs::File;
use std::io::Read;

/// The longest section, packed or unpacked.
const MOST: u32 = 256 << 20;
/// The longest chunk of pages. trace-cmd packs about ten pages at once.
const MOST_OF_CHUNK: u32 = 32 << 20;
/// Bytes of the two lengths.
const LENGTHS: u64 = 8;

/// A compression algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    None,
    Zstd,
    Zlib,
}

impl Packing {
    /// The algorithm of that name.
    ///
    /// # Errors
    /// Another name.
    pub fn parse(name: &[u8]) -> Result<Packing> {
        match name {
            b"none" => Ok(Packing::None),
            b"zstd" => Ok(Packing::Zstd),
            b"zlib" => Ok(Packing::Zlib),
            other => Err(Error::input(format!("the file is compressed by '{}'", other.escape_ascii()))
                .help("known are zstd and zlib: trace-cmd convert --compression none -i OLD -o NEW")),
        }
    }

    fn unpack(self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        let bytes = match self {
            Packing::None => packed.to_vec(),
            Packing::Zlib => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, length).ok()?,
            Packing::Zstd => {
                let mut bytes = Vec::with_capacity(length.min(4 * packed.len() + 4096));
                let from = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
                from.take(length as u64 + 1).read_to_end(&mut bytes).ok()?;
                bytes
            }
        };
        (bytes.len() == length).then_some(bytes)
    }

    pub fn section(self, file: &File, at: u64) -> Result<Vec<u8>> {
        self.at(file, at, MOST).map(|(bytes, _)| bytes)
    }

    /// The unpacked part at an offset of the file, and the offset behind it.
    fn at(self, file: &File, at: u64, most: u32) -> Result<(Vec<u8>, u64)> {
        let lengths = part(file, at, LENGTHS as usize)?;
        let mut lengths = Fields(&lengths);
        let (Some(packed), Some(unpacked)) = (lengths.u32(), lengths.u32()) else { return Err(cut()) };
        if packed > most || unpacked > most {
            return Err(cut());
        }
        let bytes = part(file, at + LENGTHS, packed as usize)?;
        let unpacked = self.unpack(&bytes, unpacked as usize).ok_or_else(|| {
            Error::input("a compressed part of the file is damaged").help("copy or record it anew")
        })?;
        Ok((unpacked, at + LENGTHS + u64::from(packed)))
    }
}

/// The pages of a CPU, one after the other.
pub enum Stream {
    Plain {
        at: u64,
        end: u64,
    },
    /// In packed chunks: `left` more of them from `at` on. `held` has the pages of the last chunk, read up to `used`.
    Packed {
        by: Packing,
        at: u64,
        left: u32,
        held: Vec<u8>,
        used: usize,
    },
}

impl Stream {
    /// The pages in a part of the file.
    ///
    /// # Errors
    /// When the file is cut.
    pub fn of(file: &File, by: Packing, at: u64, size: u64) -> Result<Stream> {
        if by == Packing::None || size == 0 {
            return Ok(Stream::Plain { at, end: at.checked_add(size).ok_or_else(cut)? });
        }
        let chunks = part(file, at, 4)?;
        let left = Fields(&chunks).u32().ok_or_else(cut)?;
        Ok(Stream::Packed { by, at: at + 4, left, held: Vec::new(), used: 0 })
    }

    /// Gives the next page to `read`; false at the end.
    ///
    /// # Errors
    /// When the file ends too early, or a chunk is damaged. No further page can be read then.
    pub fn next(&mut self, file: &File, bytes: usize, read: impl FnOnce(&[u8])) -> Result<bool> {
        match self {
            Stream::Plain { at, end } => {
                let length = (bytes as u64).min(end.saturating_sub(*at));
                if length == 0 {
                    return Ok(false);
                }
                let from = std::mem::replace(at, *end);
                let page = part(file, from, length as usize)?;
                *at = from + length;
                read(&page);
            }
            Stream::Packed { by, at, left, held, used } => {
                while *used >= held.len() {
                    if *left == 0 {
                        return Ok(false);
                    }
                    let chunks = std::mem::take(left);
                    (*held, *at) = by.at(file, *at, MOST_OF_CHUNK)?;
                    (*left, *used) = (chunks - 1, 0);
                }
                let page = &held[*used..held.len().min(*used + bytes)];
                *used += page.len();
                read(page);
            }
        }
        Ok(true)
    }
}
