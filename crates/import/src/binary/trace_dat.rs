//! Reads trace.dat, trace-cmd's file, versions 6 and 7: the head, options, and for each CPU the pages of its ring
//! buffer.
//!
//! Each CPU's records are in order. They are merged by time; one page of each CPU is held.

use super::fields::Record;
use super::header::{self, Layout};
use super::options;
use super::packed::{Packing, Stream};
use super::page::{self, Part};
use super::sections::{self, Opened};
use super::{Fields, cut, part};
use crate::sched_record::{MAX_CPUS, SchedRecord, UNKNOWN_PROCESS};
use crate::task_table::Audience;
use crate::{Imported, Importer, text};
use schedlab_base::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::path::Path;

/// Bytes that are read first: they hold the head of version 6 with its symbols.
const HEAD: u64 = 16 << 20;
const MOST_HEAD: u64 = 256 << 20;
/// Bytes that hold the start of version 7: magic, version, sizes, compression.
const BEGIN: u64 = 256;

struct Pages {
    cpu: u32,
    stream: Stream,
    held: VecDeque<SchedRecord>,
    /// Records that were lost before the next one.
    missed: Option<u64>,
}

/// Reads a trace.dat file.
///
/// # Errors
/// When it is cut, of another version or byte order, or has no records of the scheduler.
pub fn read(file: File, path: &Path, audience: &mut dyn Audience) -> Result<Imported> {
    let size = file.metadata().map_err(|e| Error::io(path, "read", &e))?.len();
    let Opened { layout, cpus, told } = open(&file, size)?;
    let mut pages: Vec<Pages> = cpus
        .into_iter()
        .map(|(cpu, stream)| Pages { cpu, stream, held: VecDeque::new(), missed: None })
        .collect();
    let mut importer = Importer::new(audience);
    let mut others = 0;
    let mut next = BinaryHeap::new();
    for (at, of_cpu) in pages.iter_mut().enumerate() {
        if let Some(at_ns) = of_cpu.fill(&file, &layout, &mut importer, &mut others) {
            next.push(Reverse((at_ns, at)));
        }
    }
    while let Some(Reverse((_, at))) = next.pop() {
        let Some(told) = pages[at].held.pop_front() else { continue };
        importer.record(told);
        if let Some(at_ns) = pages[at].fill(&file, &layout, &mut importer, &mut others) {
            next.push(Reverse((at_ns, at)));
        }
    }
    if importer.records() == 0 {
        return Err(
            Error::input("the recording has no events of the scheduler").help("trace-cmd record -e sched")
        );
    }
    // These are the losses that the pages report, if they report any.
    if importer.losses.places == 0 {
        importer.losses.overwritten = told.overwritten;
    }
    let cpus = pages.iter().map(|p| p.cpu + 1).max();
    Ok(Imported { others, ..importer.finish(cpus, told.release) })
}

fn open(file: &File, size: u64) -> Result<Opened> {
    let begin = part(file, 0, size.min(BEGIN) as usize)?;
    let mut at = Fields(&begin);
    if header::version(&mut at)? == b"7" {
        at.bytes(1 + 4).ok_or_else(cut)?; // sizes of a long and of a page
        return sections::open(file, at);
    }
    let whole = |length: u64| -> Result<Opened> {
        let begin = part(file, 0, length as usize)?;
        let (layout, length) = header::read(&begin)?;
        let (places, told) = places(&begin[length..]).ok_or_else(cut)?;
        told.check_clock("")?;
        let one = |(cpu, (at, size))| Ok((cpu, Stream::of(file, Packing::None, at, size)?));
        let cpus = (0..).zip(places).map(one).collect::<Result<_>>()?;
        Ok(Opened { layout, cpus, told })
    };
    match whole(size.min(HEAD)) {
        Err(_) if size > HEAD => whole(size.min(MOST_HEAD)),
        done => done,
    }
}

/// Offset and size of each CPU's pages, and the options.
type Places = (Vec<(u64, u64)>, options::TraceOptions);

fn places(bytes: &[u8]) -> Option<Places> {
    let mut at = Fields(bytes);
    let mut told = options::TraceOptions::default();
    let cpus = at.u32().filter(|n| *n <= MAX_CPUS)?;
    let mut word = at.bytes(10)?;
    if word.starts_with(b"options") {
        loop {
            let id = at.u16()?;
            if id == 0 {
                break;
            }
            let length = at.u32()? as usize;
            told.take(id, at.bytes(length)?);
        }
        word = at.bytes(10)?;
    }
    word.starts_with(b"flyrecord").then_some(())?;
    let places = (0..cpus).map(|_| Some((at.u64()?, at.u64()?))).collect::<Option<_>>()?;
    Some((places, told))
}

impl Pages {
    /// Reads on until a record is held; returns its time, `None` at the end.
    fn fill(
        &mut self,
        file: &File,
        layout: &Layout,
        importer: &mut Importer<'_>,
        others: &mut u64,
    ) -> Option<u64> {
        let Pages { cpu, stream, held, missed } = self;
        while held.is_empty() {
            let more = stream.next(file, layout.page.bytes, |page| {
                page::read(&layout.page, page, |part| match part {
                    Part::Missed(n) => *missed = Some(missed.unwrap_or(0).saturating_add(n)),
                    Part::Record(at_ns, record) => match layout.tracepoints.read(record) {
                        Record::Event(current, what) => {
                            held.push_back(SchedRecord {
                                at_ns,
                                cpu: *cpu,
                                current,
                                process: UNKNOWN_PROCESS,
                                what,
                            });
                        }
                        Record::Other => *others += 1,
                        Record::Unreadable => importer.losses.unreadable(importer.records() + 1),
                    },
                });
            });
            if let Some(n) = missed.take() {
                text::note(&mut importer.losses, n);
                importer.lost(*cpu, n);
            }
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    importer.losses.cut = true;
                    break;
                }
            }
        }
        held.front().map(|t| t.at_ns)
    }
}
