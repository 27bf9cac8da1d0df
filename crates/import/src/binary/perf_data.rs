//! perf.data of `perf sched record` or of `perf record -e sched:...`.
//!
//! The file's head names the attributes of the events, the records, and features, one of which is the tracepoints'
//! layouts. Records stand in the order in which perf emptied its buffers; a record FINISHED_ROUND says that all records
//! up to the newest time of the round before have been written. So two rounds are held and sorted, as perf does.

use super::fields::{Record, Tracepoints};
use super::header;
use super::rounds::Rounds;
use super::{Fields, byte_order, cut, part};
use crate::sched_record::{Comm, MAX_CPUS, MAX_THREADS, SchedRecord, UNKNOWN_PROCESS};
use crate::task_table::Audience;
use crate::task_table::KnownThread;
use crate::{Imported, text};
use schedlab_base::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The head's length (16 bytes in a file that perf wrote to a pipe).
const HEAD: u64 = 104;
/// Numbers of the features that are read.
const TRACING_DATA: usize = 1;
const OS_RELEASE: usize = 4;
/// Types of records.
const LOST: u32 = 2;
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;
/// Bits of `sample_type`.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// A tracepoint, as `type` of an attribute.
const TRACEPOINT: u32 = 2;

/// The parts of the head that are needed.
struct Head {
    data: (u64, u64),
    /// `sample_type` of the tracepoints.
    sample_type: u64,
    /// `sample_type` by the event's id.
    by_id: BTreeMap<u64, u64>,
    tracepoints: Tracepoints,
    release: Option<String>,
}

/// Reads a perf.data file.
///
/// # Errors
/// When it is cut, compressed, of another byte order, or has no records of the scheduler.
pub fn read(mut file: File, path: &Path, audience: &mut dyn Audience) -> Result<Imported> {
    let head = head(&file)?;
    file.seek(SeekFrom::Start(head.data.0)).map_err(|e| Error::io(path, "read", &e))?;
    let data = file.take(head.data.1);
    let mut rounds = Rounds::new(audience);
    let others = records(BufReader::with_capacity(1 << 20, data), &head, &mut rounds)?;
    let importer = rounds.finish();
    if importer.records() == 0 {
        return Err(
            Error::input("the recording has no events of the scheduler").help("record it: perf sched record")
        );
    }
    Ok(Imported { others, ..importer.finish(None, head.release) })
}

fn head(file: &File) -> Result<Head> {
    let bytes = part(file, 0, 16)?;
    if !bytes.starts_with(b"PERFILE2") {
        return Err(if bytes.starts_with(b"2ELIFREP") { byte_order() } else { cut() });
    }
    if Fields(&bytes[8..]).u64() != Some(HEAD) {
        return Err(Error::input("perf wrote the file to a pipe")
            .help("perf script -i FILE --ns | schedlab import -"));
    }
    let bytes = part(file, 16, HEAD as usize - 16)?;
    let mut at = Fields(&bytes);
    let mut section = || Some((at.u64()?, at.u64()?));
    let mut whole = || {
        let (attr_size, attrs_at) = section()?;
        let (attrs_size, data_at) = section()?;
        let (data_size, _) = section()?;
        let (_, low) = section()?;
        Some((attr_size, (attrs_at, attrs_size), (data_at, data_size), low))
    };
    let (attr_size, attrs, data, features) = whole().ok_or_else(cut)?;
    if data.1 == 0 {
        return Err(Error::input("the recording was not finished: perf was killed").help("record it anew"));
    }
    let mut release = None;
    let mut layouts = None;
    let sections_at = data.0.checked_add(data.1).ok_or_else(cut)?;
    for (nth, bit) in (0..64).filter(|bit| features >> bit & 1 == 1).enumerate() {
        if bit != TRACING_DATA && bit != OS_RELEASE {
            continue;
        }
        let section = part(file, sections_at.saturating_add(16 * nth as u64), 16)?;
        let mut section = Fields(&section);
        let (Some(at), Some(size)) = (section.u64(), section.u64()) else { return Err(cut()) };
        let bytes = part(file, at, usize::try_from(size).map_err(|_| cut())?)?;
        match bit {
            TRACING_DATA => layouts = Some(header::read(&bytes)?.0),
            _ => {
                let text = bytes.get(4..).unwrap_or(&[]);
                let end = memchr::memchr(0, text).unwrap_or(text.len());
                release = Some(String::from_utf8_lossy(&text[..end]).into_owned());
            }
        }
    }
    let layouts = layouts.ok_or_else(|| without_tracepoints(file, data))?;
    let (sample_type, by_id) = attributes(file, attr_size, attrs)?;
    Ok(Head { data, sample_type, by_id, tracepoints: layouts.tracepoints, release })
}

/// `sample_type` of the tracepoints, and `sample_type` by event id.
fn attributes(file: &File, size: u64, attrs: (u64, u64)) -> Result<(u64, BTreeMap<u64, u64>)> {
    let bytes = part(file, attrs.0, usize::try_from(attrs.1).map_err(|_| cut())?)?;
    let size = usize::try_from(size).ok().filter(|s| *s >= 64 + 16).ok_or_else(cut)?;
    let (mut tracepoints, mut by_id) = (None, BTreeMap::new());
    for attr in bytes.chunks_exact(size) {
        let kind = Fields(attr).u32().ok_or_else(cut)?;
        let sample_type = Fields(&attr[24..]).u64().ok_or_else(cut)?;
        if kind == TRACEPOINT {
            tracepoints.get_or_insert(sample_type);
        }
        let mut ids = Fields(&attr[size - 16..]);
        let (Some(at), Some(length)) = (ids.u64(), ids.u64()) else { return Err(cut()) };
        let ids = part(file, at, usize::try_from(length).map_err(|_| cut())?)?;
        let mut ids = Fields(&ids);
        while let Some(id) = ids.u64() {
            by_id.insert(id, sample_type);
        }
    }
    let sample_type = tracepoints.ok_or_else(|| {
        Error::input("the recording has no tracepoints").help("record them: perf sched record")
    })?;
    if sample_type & RAW == 0 || sample_type & TIME == 0 || sample_type & CPU == 0 {
        return Err(Error::input("the recording's events lack their time, CPU or fields")
            .help("record with -a -R -T, as perf sched record does"));
    }
    if sample_type & READ != 0 {
        return Err(Error::input("the recording's events hold counts of other events")
            .help("perf script -i FILE --ns | schedlab import -"));
    }
    Ok((sample_type, by_id))
}

/// The error for a file without tracepoints. `perf sched stats record` writes such files, too: they hold snapshots of
/// /proc/schedstat.
fn without_tracepoints(file: &File, (at, size): (u64, u64)) -> Error {
    let begin = part(file, at, usize::try_from(size.min(1 << 16)).unwrap_or(0)).unwrap_or_default();
    let mut rest = begin.as_slice();
    while let Some((kind, length)) = rest.first_chunk().and_then(start) {
        let Some(body) = rest.get(START..START + length) else { break };
        // A snapshot of a CPU: time, CPU, and the version of the counters' layout.
        let version = body.get(12..14).and_then(|v| Fields(v).u16());
        if kind > COMPRESSED && version.is_some_and(|v| (15..=17).contains(&v)) {
            return Error::input(
                "the file is of 'perf sched stats record': it holds counters of /proc/schedstat, and no events",
            )
            .help("'perf sched stats report -i FILE' shows them; 'schedlab schedstat BEFORE AFTER' compares two saved copies of /proc/schedstat");
        }
        rest = &rest[START + length..];
    }
    Error::input("the recording has no tracepoints").help("record them: perf sched record")
}

/// Takes all records; returns the number of those of other events.
fn records(mut data: impl BufRead, head: &Head, rounds: &mut Rounds<'_>) -> Result<u64> {
    let (mut others, mut number) = (0, 0);
    let mut record = vec![0; 1 << 16];
    loop {
        number += 1;
        // A record that is complete in the buffer is read in place.
        let whole = data.fill_buf().ok().and_then(|held| {
            let start = held.first_chunk().and_then(start)?;
            Some((start, held.get(START..START + start.1)?))
        });
        if let Some(((kind, length), body)) = whole
            && kind != AUXTRACE
        {
            others += take(kind, body, number, head, rounds)?;
            data.consume(START + length);
            continue;
        }
        let mut bytes = [0; START];
        match read_all(&mut data, &mut bytes) {
            0 => return Ok(others),
            START => {}
            _ => break,
        }
        let Some((kind, length)) = start(&bytes) else { break };
        let body = &mut record[..length];
        if read_all(&mut data, body) < length {
            break;
        }
        if kind == AUXTRACE {
            let length = Fields(body).u64().unwrap_or(0);
            let skipped = std::io::copy(&mut data.by_ref().take(length), &mut std::io::sink());
            if skipped.ok() != Some(length) {
                break;
            }
        } else {
            others += take(kind, body, number, head, rounds)?;
        }
    }
    rounds.importer.losses.cut = true;
    Ok(others)
}

/// Bytes of a record's header.
const START: usize = 8;

/// A record's type and the length of its body; `None` if the length is shorter than the header.
#[inline]
fn start(bytes: &[u8; START]) -> Option<(u32, usize)> {
    let mut at = Fields(bytes);
    let (kind, _, size) = (at.u32()?, at.u16()?, at.u16()?);
    Some((kind, usize::from(size).checked_sub(START)?))
}

/// Takes a record; returns 1 if it is of another event.
#[inline]
fn take(kind: u32, body: &[u8], number: u64, head: &Head, rounds: &mut Rounds<'_>) -> Result<u64> {
    match kind {
        SAMPLE => match sample(body, head) {
            Some((at_ns, cpu, process, raw)) => match head.tracepoints.read(raw) {
                Record::Event(current, what) => {
                    rounds.take(SchedRecord { at_ns, cpu, current, process, what })
                }
                Record::Other => return Ok(1),
                Record::Unreadable => rounds.importer.losses.unreadable(number),
            },
            None => rounds.importer.losses.unreadable(number),
        },
        LOST => lost(body, head, rounds),
        COMM => comm(body, rounds),
        FINISHED_ROUND => rounds.finished(),
        COMPRESSED | COMPRESSED2 => {
            return Err(Error::input("the recording is compressed (perf record -z)")
                .help("perf script -i FILE --ns | schedlab import -"));
        }
        _ => {}
    }
    Ok(0)
}

/// Fills the buffer until it is full or the input ends.
fn read_all(from: &mut impl BufRead, buffer: &mut [u8]) -> usize {
    let mut held = 0;
    while held < buffer.len() {
        match from.read(&mut buffer[held..]) {
            Ok(0) => break,
            Ok(n) => held += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    held
}

/// Time, CPU, process and the tracepoint's own bytes of a sample.
#[inline]
fn sample<'a>(body: &'a [u8], head: &Head) -> Option<(u64, u32, u32, &'a [u8])> {
    let mut at = Fields(body);
    let mut kind = head.sample_type;
    if kind & IDENTIFIER != 0 {
        let id = at.u64()?;
        if head.by_id.len() > 1 {
            kind = head.by_id.get(&id).copied().unwrap_or(kind);
        }
    }
    let skip = |at: &mut Fields<'a>, bit: u64| if kind & bit != 0 { at.u64().map(drop) } else { Some(()) };
    skip(&mut at, IP)?;
    let process = if kind & TID != 0 { (at.u32()?, at.u32()?).0 } else { UNKNOWN_PROCESS };
    let at_ns = if kind & TIME != 0 { at.u64()? } else { return None };
    skip(&mut at, ADDR)?;
    skip(&mut at, ID)?;
    skip(&mut at, STREAM_ID)?;
    let cpu = if kind & CPU != 0 { (at.u32()?, at.u32()?).0 } else { return None };
    skip(&mut at, PERIOD)?;
    if kind & CALLCHAIN != 0 {
        let n = usize::try_from(at.u64()?).ok()?;
        at.bytes(n.checked_mul(8)?)?;
    }
    if kind & RAW == 0 {
        return None;
    }
    let length = at.u32()? as usize;
    let process = if process < MAX_THREADS { process } else { UNKNOWN_PROCESS };
    Some((at_ns, cpu, process, at.bytes(length)?)).filter(|(_, cpu, ..)| *cpu < MAX_CPUS)
}

/// Records of a CPU were lost. The CPU stands at the end, before the identifier.
fn lost(body: &[u8], head: &Head, rounds: &mut Rounds<'_>) {
    let count = body.get(8..16).and_then(|b| Fields(b).u64()).unwrap_or(0);
    let after = if head.sample_type & IDENTIFIER != 0 { 8 } else { 0 };
    let cpu = body.len().checked_sub(after + 8).and_then(|at| Fields(&body[at..]).u32());
    text::note(&mut rounds.importer.losses, count);
    if let Some(cpu) = cpu.filter(|cpu| *cpu < MAX_CPUS) {
        // The loss happened after the CPU's records that precede it in the file.
        rounds.take_lost(cpu, count);
    }
}

/// A thread's name and process, at perf's start or when they changed.
fn comm(body: &[u8], rounds: &mut Rounds<'_>) {
    let mut at = Fields(body);
    let (Some(process), Some(tid), Some(name)) = (at.u32(), at.u32(), at.text()) else { return };
    if tid > 0 && tid < MAX_THREADS && process < MAX_THREADS {
        rounds
            .importer
            .introduce(tid, KnownThread { comm: Comm::of(name), process, ..KnownThread::default() });
    }
}
