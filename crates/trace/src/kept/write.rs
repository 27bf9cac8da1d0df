//! Writes a file of events during a run, in constant memory.

use super::code::Encoder;
use super::names::Names;
use super::{BLOCK, Close, END_MAGIC, Head, MAGIC, MAX_SECTION, SCHEMA};
use crate::{Cast, Event, Sink};
use schedlab_base::{Ns, TaskId};
use std::io::{self, BufWriter, Write};

/// A sink can't return errors, so after a failure nothing more is written, and [`Writer::finish`] returns the error.
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    written: u64,
    block: Encoder,
    close: Close,
    details: bool,
    failed: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When the beginning can't be written.
    pub fn new(out: W) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out: BufWriter::new(out),
            written: MAGIC.len() as u64,
            block: Encoder::default(),
            close: Close::default(),
            details: false,
            failed: None,
        };
        writer.out.write_all(&MAGIC)?;
        let head = Head { schema: SCHEMA.to_owned(), names: Names::of_this_build() };
        writer.section(b'H', &serde_json::to_vec(&head)?)?;
        Ok(writer)
    }
    /// Asks the simulator for details ([`Sink::wants_details`]).
    #[must_use]
    pub fn detailed(mut self) -> Writer<W> {
        self.details = true;
        self
    }
    /// Sets the start of the measured time.
    pub fn measured_from(&mut self, at: Ns) {
        self.close.measured_from = at;
    }
    /// Sets the number of events that the source lost.
    pub fn lost(&mut self, events: u64) {
        self.close.lost = events;
    }
    pub fn events(&self) -> u64 {
        self.close.events
    }
    /// Number of bytes so far, including the unfinished block.
    pub fn bytes(&self) -> u64 {
        self.written + self.block.bytes.len() as u64
    }

    /// Ends the file and returns the writer below.
    ///
    /// # Errors
    /// The first failure to write.
    pub fn finish(mut self, cast: Cast) -> io::Result<W> {
        self.flush_block();
        if let Some(e) = self.failed {
            return Err(e);
        }
        self.close.cast = cast;
        let start = self.written;
        let json = serde_json::to_vec(&self.close)?;
        let mut rest = json.as_slice();
        // A full section continues in the next one.
        loop {
            let (content, more) = rest.split_at(rest.len().min(MAX_SECTION));
            self.section(b'C', content)?;
            if content.len() < MAX_SECTION {
                break;
            }
            rest = more;
        }
        self.out.write_all(&start.to_le_bytes())?;
        self.out.write_all(&END_MAGIC)?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn section(&mut self, letter: u8, content: &[u8]) -> io::Result<()> {
        self.written += section(&mut self.out, letter, content)?;
        Ok(())
    }
    fn flush_block(&mut self) {
        if !self.block.bytes.is_empty() && self.failed.is_none() {
            match section(&mut self.out, b'B', &self.block.bytes) {
                Ok(bytes) => self.written += bytes,
                Err(e) => self.failed = Some(e),
            }
        }
        self.block.clear();
    }
    #[inline]
    fn flush_if_full(&mut self) {
        if self.block.bytes.len() >= BLOCK {
            self.flush_block();
        }
    }
}

/// Writes a section; returns its length including the head, bytes.
pub(super) fn section<W: Write>(out: &mut W, letter: u8, content: &[u8]) -> io::Result<u64> {
    let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= MAX_SECTION);
    let length = length.ok_or_else(|| io::Error::other("a part of a file of events is too long"))?;
    out.write_all(&[letter])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&crc32fast::hash(content).to_le_bytes())?;
    out.write_all(content)?;
    Ok(9 + u64::from(length))
}

impl<W: Write> Sink for Writer<W> {
    fn event(&mut self, event: &Event) {
        self.close.events += 1;
        self.block.event(event);
        self.flush_if_full();
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.close.samples += 1;
        self.block.sample(at, task, series, value);
        self.flush_if_full();
    }
    fn wants_details(&self) -> bool {
        self.details
    }
}
