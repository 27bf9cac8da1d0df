//! Reads a file of events, block by block, in constant memory.

use super::code::Decoder;
use super::names::ReasonTables;
use super::{Close, END_MAGIC, FOOT, Head, Item, MAGIC, MAX_SECTION, RunId, SCHEMA};
use crate::{Cast, Sink};
use schedlab_base::{Error, Result, Spot};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a section's head: letter, length, checksum.
const SECTION_HEAD: usize = 9;

/// Reads a file of events. [`Reader::items`] gives the events, any number of times.
pub struct Reader<R = File> {
    from: Source<R>,
    known: ReasonTables,
    close: Close,
    /// Offset of the cast's first section.
    close_at: u64,
    run: Option<RunId>,
    /// Offset of the first block.
    first: u64,
}

/// The bytes of a file, with its path for errors.
struct Source<R> {
    bytes: BufReader<R>,
    file: PathBuf,
    /// Offset of the next byte.
    offset: u64,
}

impl Reader {
    /// Opens a complete file.
    ///
    /// # Errors
    /// When the file can't be read, is not a file of events, has another version, or lacks an undamaged end.
    pub fn open(path: &Path) -> Result<Reader> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", &e))?;
        Reader::of(file, path)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Reads a complete file; `path` is for errors.
    pub fn of(bytes: R, path: &Path) -> Result<Reader<R>> {
        let mut reader = Reader::begin(bytes, path)?;
        let foot_at = reader.from.seek_close()?;
        reader.close_at = reader.from.offset;
        reader.close = reader.from.close()?;
        if reader.from.offset < foot_at {
            reader.run = Some(reader.from.json(b'R')?);
        }
        Ok(reader)
    }
    fn begin(bytes: R, path: &Path) -> Result<Reader<R>> {
        let mut from = Source { bytes: BufReader::new(bytes), file: path.to_owned(), offset: 0 };
        let mut magic = [0; MAGIC.len()];
        let is_ours = from.bytes.read_exact(&mut magic).is_ok();
        match is_ours && magic[..6] == MAGIC[..6] {
            true if magic == MAGIC => from.offset = MAGIC.len() as u64,
            true => {
                return Err(Error::input("a file of events of another version of schedlab")
                    .help("make the run anew with this version")
                    .at(Spot::file(path)));
            }
            false => return Err(Error::input("no file of events").at(Spot::file(path))),
        }
        let head: Head = from.json(b'H')?;
        if head.schema != SCHEMA {
            return Err(from.wrong(from.offset, &format!("its schema is '{}', not '{SCHEMA}'", head.schema)));
        }
        let first = from.offset;
        let known = ReasonTables::of(&head.names);
        Ok(Reader { from, known, close: Close::default(), close_at: 0, run: None, first })
    }

    pub fn cast(&self) -> &Cast {
        &self.close.cast
    }
    pub fn close(&self) -> &Close {
        &self.close
    }
    pub(super) fn close_at(&self) -> u64 {
        self.close_at
    }
    /// The run to which the events belong; `None` if the file does not say it.
    pub fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }
    /// The events and samples from the beginning, in the order of writing. An error is the last item.
    pub fn items(&mut self) -> Items<'_, R> {
        let failed = self.from.seek(SeekFrom::Start(self.first)).err();
        Items { reader: self, block: Decoder::default(), block_at: 0, ended: false, failed }
    }
    /// Replays everything into a sink. Details go only to sinks that want them.
    ///
    /// # Errors
    /// For damage; the sink has received everything before it.
    pub fn replay<S: Sink + ?Sized>(&mut self, sink: &mut S) -> Result<()> {
        let details = sink.wants_details();
        for item in self.items() {
            match item? {
                Item::Event(event) if event.kind.is_detail() && !details => {}
                Item::Event(event) => sink.event(&event),
                Item::Sample { at, task, series, value } => sink.sample(at, task, series, value),
            }
        }
        Ok(())
    }
}

impl Reader {
    /// As [`Reader::replay`], until `stop` becomes true; `false` if it did.
    ///
    /// # Errors
    /// For damage; the sink has received everything before it.
    pub fn replay_unless(&mut self, stop: &AtomicBool, sink: &mut dyn Sink) -> Result<bool> {
        let details = sink.wants_details();
        for item in self.items() {
            if stop.load(Relaxed) {
                return Ok(false);
            }
            match item? {
                Item::Event(event) if event.kind.is_detail() && !details => {}
                Item::Event(event) => sink.event(&event),
                Item::Sample { at, task, series, value } => sink.sample(at, task, series, value),
            }
        }
        Ok(true)
    }
}

pub struct Items<'a, R> {
    reader: &'a mut Reader<R>,
    block: Decoder,
    /// Offset of the block's content in the file.
    block_at: u64,
    ended: bool,
    failed: Option<Error>,
}

impl<R: Read + Seek> Iterator for Items<'_, R> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        if let Some(e) = self.failed.take() {
            self.ended = true;
            return Some(Err(e));
        }
        while !self.ended {
            match self.block.next(&self.reader.known) {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => {}
                Err(fault) => {
                    self.ended = true;
                    let at = self.block_at + self.block.read as u64;
                    return Some(Err(self.reader.from.wrong(at, fault)));
                }
            }
            if let Err(e) = self.next_block() {
                self.ended = true;
                return Some(Err(e));
            }
        }
        None
    }
}

impl<R: Read + Seek> Items<'_, R> {
    /// Continues to the next block, or to the end.
    fn next_block(&mut self) -> Result<()> {
        let from = &mut self.reader.from;
        self.block.bytes.clear();
        self.block.begin();
        let letter = from.section(&mut self.block.bytes)?;
        match letter {
            b'B' => self.block_at = from.offset - self.block.bytes.len() as u64,
            b'C' => {
                self.block.bytes.clear();
                self.ended = true;
            }
            _ => return Err(from.wrong(from.offset, "a section of a kind that this version does not know")),
        }
        Ok(())
    }
}

impl<R: Read + Seek> Source<R> {
    fn wrong(&self, offset: u64, fault: &str) -> Error {
        Error::input(format!("damaged at byte {offset}: {fault}"))
            .help("the run's record is another file and not touched by this; without kept events, a simulated run is simulated again")
            .at(Spot::file(&self.file))
    }
    fn exactly(&mut self, into: &mut [u8]) -> Result<()> {
        match self.bytes.read_exact(into) {
            Ok(()) => {
                self.offset += into.len() as u64;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                Err(self.wrong(self.offset, "the file is cut off"))
            }
            Err(e) => Err(Error::io(&self.file, "read", &e)),
        }
    }
    fn seek(&mut self, to: SeekFrom) -> Result<()> {
        self.offset = self.bytes.seek(to).map_err(|e| Error::io(&self.file, "read", &e))?;
        Ok(())
    }
    /// Appends a section's content to `into`, and returns its letter.
    fn section(&mut self, into: &mut Vec<u8>) -> Result<u8> {
        let start = self.offset;
        let mut head = [0; SECTION_HEAD];
        self.exactly(&mut head)?;
        let [letter, a, b, c, d, crc @ ..] = head;
        let (length, crc) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes(crc));
        if length > MAX_SECTION {
            return Err(self.wrong(start, "a section is too long"));
        }
        into.clear();
        // The buffer grows with the data, so that a wrong length does not allocate memory.
        let read = self.bytes.by_ref().take(length as u64).read_to_end(into);
        self.offset += read.map_err(|e| Error::io(&self.file, "read", &e))? as u64;
        match into.len() {
            read if read < length => Err(self.wrong(self.offset, "the file is cut off")),
            _ if crc32fast::hash(into) != crc => Err(self.wrong(start, "a checksum is wrong")),
            _ => Ok(letter),
        }
    }
    fn of_json<T: DeserializeOwned>(&self, content: &[u8]) -> Result<T> {
        serde_json::from_slice(content)
            .map_err(|e| self.wrong(self.offset.saturating_sub(content.len() as u64), &e.to_string()))
    }
    fn json<T: DeserializeOwned>(&mut self, letter: u8) -> Result<T> {
        let (start, mut content) = (self.offset, Vec::new());
        if self.section(&mut content)? != letter {
            return Err(self.wrong(start, "another section was expected"));
        }
        self.of_json(&content)
    }
    /// Goes to the cast's first section; returns the offset of the file's last bytes.
    fn seek_close(&mut self) -> Result<u64> {
        let length = self.bytes.seek(SeekFrom::End(0)).map_err(|e| Error::io(&self.file, "read", &e))?;
        let no_end = |from: &Source<R>| from.wrong(length, "the file has no end: its writer was stopped");
        let Some(foot_at) = length.checked_sub(FOOT) else { return Err(no_end(self)) };
        self.seek(SeekFrom::Start(foot_at))?;
        let mut foot = [0; FOOT as usize];
        self.exactly(&mut foot)?;
        let [o0, o1, o2, o3, o4, o5, o6, o7, magic @ ..] = foot;
        let start = u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
        if magic != END_MAGIC || start >= foot_at {
            return Err(no_end(self));
        }
        self.seek(SeekFrom::Start(start))?;
        Ok(foot_at)
    }
    fn close(&mut self) -> Result<Close> {
        let (start, mut content) = (self.offset, Vec::new());
        match self.section(&mut content)? {
            b'C' => self.rest_of_close(content),
            _ => Err(self.wrong(start, "another section was expected")),
        }
    }
    /// Reads the rest of the file's end, after its first section. A full section continues in the next one.
    fn rest_of_close(&mut self, mut content: Vec<u8>) -> Result<Close> {
        let (mut last, mut next) = (content.len(), Vec::new());
        while last == MAX_SECTION {
            let start = self.offset;
            if self.section(&mut next)? != b'C' {
                return Err(self.wrong(start, "another section was expected"));
            }
            last = next.len();
            content.append(&mut next);
        }
        self.of_json(&content)
    }
}
