//! trace.dat, trace-cmd's file, version 6: the head, options, and for each CPU the pages of its ring buffer.
//!
//! Each CPU's records are in order. They are merged by time, a page of each CPU at a time.

use super::fields::Record;
use super::header::Header;
use super::page::{self, Part};
use super::{Fields, cut, part};
use crate::people::Audience;
use crate::told::{MAX_CPUS, Told, UNTOLD};
use crate::{Imported, Importer, text};
use schedlab_base::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::path::Path;

/// The head, with its symbols, is not longer.
const MOST_HEAD: u64 = 256 << 20;

/// A CPU's pages.
struct Pages {
    at: u64,
    end: u64,
    held: VecDeque<Told>,
    /// Records that were lost before the next one.
    missed: Option<u64>,
}

/// Reads a file.
///
/// # Errors
/// When it is cut, of another version or byte order, or has no records of the scheduler.
pub fn read(path: &Path, audience: &mut impl Audience) -> Result<Imported> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", &e))?;
    let size = file.metadata().map_err(|e| Error::io(path, "read", &e))?.len();
    // The head ends somewhere; only that part is kept.
    let begin = part(&file, 0, size.min(MOST_HEAD) as usize)?;
    let header = Header::read(&begin)?;
    let mut pages = places(&begin[header.length..]).ok_or_else(cut)?;
    drop(begin);
    let mut importer = Importer::new(audience);
    let mut others = 0;
    let mut next = BinaryHeap::new();
    for (cpu, of_cpu) in pages.iter_mut().enumerate() {
        if let Some(at_ns) = of_cpu.fill(&file, cpu, &header, &mut importer, &mut others) {
            next.push(Reverse((at_ns, cpu)));
        }
    }
    while let Some(Reverse((_, cpu))) = next.pop() {
        let Some(told) = pages[cpu].held.pop_front() else { continue };
        importer.record(told);
        if let Some(at_ns) = pages[cpu].fill(&file, cpu, &header, &mut importer, &mut others) {
            next.push(Reverse((at_ns, cpu)));
        }
    }
    if importer.records() == 0 {
        return Err(
            Error::input("the recording has no events of the scheduler").help("trace-cmd record -e sched")
        );
    }
    let cpus = u32::try_from(pages.len()).ok();
    Ok(Imported { others, ..importer.finish(cpus, None) })
}

/// Where the pages of each CPU are.
fn places(bytes: &[u8]) -> Option<Vec<Pages>> {
    let mut at = Fields(bytes);
    let cpus = at.u32().filter(|n| *n <= MAX_CPUS)?;
    let mut word = at.bytes(10)?;
    if word.starts_with(b"options") {
        while at.u16()? != 0 {
            let length = at.u32()? as usize;
            at.bytes(length)?;
        }
        word = at.bytes(10)?;
    }
    word.starts_with(b"flyrecord").then_some(())?;
    let one = |_| {
        let (from, size) = (at.u64()?, at.u64()?);
        Some(Pages { at: from, end: from.checked_add(size)?, held: VecDeque::new(), missed: None })
    };
    (0..cpus).map(one).collect()
}

impl Pages {
    /// Reads on until a record is held; its time. `None` at the end.
    fn fill<A: Audience>(
        &mut self,
        file: &File,
        cpu: usize,
        header: &Header,
        importer: &mut Importer<'_, A>,
        others: &mut u64,
    ) -> Option<u64> {
        while self.held.is_empty() && self.at < self.end {
            let length = (header.page.bytes as u64).min(self.end - self.at);
            let Ok(bytes) = part(file, self.at, length as usize) else {
                importer.losses.cut = true;
                self.at = self.end;
                break;
            };
            self.at += length;
            let (held, missed) = (&mut self.held, &mut self.missed);
            page::read(&header.page, &bytes, |part| match part {
                Part::Missed(n) => *missed = Some(missed.unwrap_or(0).saturating_add(n)),
                Part::Record(at_ns, record) => match header.tracepoints.read(record) {
                    Record::Told(current, what) => {
                        held.push_back(Told { at_ns, cpu: cpu as u32, current, process: UNTOLD, what });
                    }
                    Record::Other => *others += 1,
                    Record::Unreadable => importer.losses.unreadable(importer.records() + 1),
                },
            });
            if let Some(n) = self.missed.take() {
                text::note(&mut importer.losses, n);
                importer.lost(cpu as u32, n);
            }
        }
        self.held.front().map(|t| t.at_ns)
    }
}
