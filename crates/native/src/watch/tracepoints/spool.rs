//! Storage for a recording until it is analysed: an unnamed file per source of records.
//!
//! While the system is recorded, its records are only copied: reading them costs several times as much, and that time
//! would be part of the recording. The files have no names, so a killed recorder leaves none behind.
//!
//! A record is its time (64 bits), its CPU and its length (32 bits each), and that many bytes: a tracepoint's own, or
//! those of [`ARRIVED`] and [`LOST`]. Numbers have the machine's byte order.

use schedlab_base::temp::TempFile;
use schedlab_base::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// Set in the length of a record about a thread that came to its CPU after idle; its bytes are the thread id.
const ARRIVED: u32 = 1 << 31;
/// Set in the length of a record about a loss; its bytes are the number of lost records, 64 bits.
const LOST: u32 = 1 << 30;
const LENGTH: u32 = LOST - 1;
const HEAD: usize = 16;
/// Bytes written or read at once.
const BUFFER: usize = 256 << 10;

/// The content of a record.
#[derive(Debug, PartialEq, Eq)]
pub enum Spooled<'a> {
    /// A tracepoint's bytes.
    Raw(&'a [u8]),
    /// This thread came to the CPU after idle.
    Arrived(u32),
    /// This many records were lost before the next one.
    Lost(u64),
}

/// Writes a file.
pub struct Spool {
    out: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Spool {
    /// Makes a file in that folder.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(folder: &Path) -> Result<Spool> {
        let named = TempFile::create(&folder.join("recording"))?;
        let file = named.file.try_clone().map_err(|e| Error::io(folder, "write", &e))?;
        Ok(Spool { out: BufWriter::with_capacity(BUFFER, file), failed: None })
    }

    /// Adds a record. The first write error is returned at the end.
    #[inline]
    pub fn put(&mut self, at_ns: u64, cpu: u32, what: &Spooled<'_>) {
        if self.failed.is_some() {
            return;
        }
        let (small, long);
        let (bytes, flag): (&[u8], u32) = match what {
            Spooled::Raw(bytes) => (bytes, 0),
            Spooled::Arrived(thread) => {
                small = thread.to_ne_bytes();
                (&small, ARRIVED)
            }
            Spooled::Lost(count) => {
                long = count.to_ne_bytes();
                (&long, LOST)
            }
        };
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&at_ns.to_ne_bytes());
        head[8..12].copy_from_slice(&cpu.to_ne_bytes());
        head[12..].copy_from_slice(&(bytes.len() as u32 & LENGTH | flag).to_ne_bytes());
        self.failed = self.out.write_all(&head).and_then(|()| self.out.write_all(bytes)).err();
    }

    /// Reads the file from its beginning.
    ///
    /// # Errors
    /// A write error, such as a full disk.
    pub fn read(mut self) -> Result<Unspool> {
        let failed = |e: io::Error| {
            Error::machine(format!("the recording could not be written: {e}"))
                .help("name a folder on a disk with room: -o DIR")
        };
        if let Some(e) = self.failed {
            return Err(failed(e));
        }
        self.out.flush().map_err(failed)?;
        let (mut file, _) = self.out.into_parts();
        file.rewind().map_err(failed)?;
        Ok(Unspool { from: BufReader::with_capacity(BUFFER, file), head: [0; HEAD], bytes: Vec::new() })
    }
}

pub struct Unspool {
    from: BufReader<File>,
    head: [u8; HEAD],
    bytes: Vec<u8>,
}

impl Unspool {
    /// Goes to the next record and returns its time. `None` at the end.
    pub fn advance(&mut self) -> Option<u64> {
        self.from.read_exact(&mut self.head).ok()?;
        self.bytes.resize((self.word(12) & LENGTH) as usize, 0);
        self.from.read_exact(&mut self.bytes).ok()?;
        let [time, _] = self.head.as_chunks::<8>().0 else { return None };
        Some(u64::from_ne_bytes(*time))
    }
    fn word(&self, at: usize) -> u32 {
        self.head[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
    }
    /// The CPU and content of this record.
    pub fn record(&self) -> (u32, Spooled<'_>) {
        let flags = self.word(12) & !LENGTH;
        let what = match (flags, self.bytes.first_chunk(), self.bytes.first_chunk()) {
            (ARRIVED, Some(thread), _) => Spooled::Arrived(u32::from_ne_bytes(*thread)),
            (LOST, _, Some(count)) => Spooled::Lost(u64::from_ne_bytes(*count)),
            _ => Spooled::Raw(&self.bytes),
        };
        (self.word(8), what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_the_folder_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let all = [
            (7, 1, Spooled::Raw(&[1, 2, 3, 4, 5])),
            (8, 0, Spooled::Arrived(41)),
            (9, 4095, Spooled::Lost(1 << 40)),
            (9, 2, Spooled::Raw(&[])),
        ];
        all.iter().for_each(|(at, cpu, what)| spool.put(*at, *cpu, what));
        let mut read = spool.read().unwrap();
        for (at, cpu, what) in all {
            assert_eq!(read.advance(), Some(at));
            assert_eq!(read.record(), (cpu, what));
        }
        assert_eq!(read.advance(), None);
    }
}
