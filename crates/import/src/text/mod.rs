//! Reads text as tracefs' `trace` and `trace_pipe`, `trace-cmd report` and `perf script` print it; babeltrace's text is
//! in [`babeltrace`].
//!
//! A line is a record: the thread that ran and its number, the CPU in brackets, the time in seconds, the event's name,
//! its fields. Names of tasks may hold any bytes, so lines are bytes, and fields are found by the text between them.
//! Nothing is allocated for a line.

pub mod babeltrace;
mod event;
mod head;
mod latency;
mod lines;
mod number;
#[cfg(test)]
mod tests;
pub mod tools;

pub use lines::Lines;

use crate::losses::Losses;
use crate::sched_record::{Comm, MAX_CPUS, RecordKind, SchedRecord, Thread, UNKNOWN_PROCESS};
use crate::states::States;
use head::Head;
use memchr::memmem;
use number::{Cursor, number};

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Record(SchedRecord),
    /// At least `count` records of the CPU before its next record were lost. 0: its buffer begins here.
    Lost {
        cpu: u32,
        count: u64,
    },
    /// A record of an event that is not read.
    Other,
    /// A record of a known event whose fields can't be read.
    Unreadable,
    /// A record from one of several files or buffers, each with its own CPUs.
    OfFile,
    /// Not a record: a heading, a comment, a line of a call chain.
    Foreign,
}

/// Reads a line, without its newline. `states` knows the meaning of `prev_state`'s bits, and learns from the line.
pub fn line(line: &[u8], states: &mut States) -> Line {
    let Some(head) = Head::of(line).or_else(|| latency::head(line)) else { return beside(line) };
    if head.file(line).is_some() {
        return Line::OfFile;
    }
    let rest = &line[head.rest..];
    let Some((name, fields)) = event_name(rest) else { return Line::Foreign };
    if name == b"PERF_RECORD_LOST" {
        return lost(head.cpu.into(), perf_lost(fields));
    }
    let current = || Thread { tid: head.tid, comm: Comm::of(head.comm(line)), prio: None };
    let what = match event::read(name, fields, head.in_interrupt, states, current) {
        event::Read::RecordKind(what) => what,
        event::Read::Other => return Line::Other,
        event::Read::Unreadable => return Line::Unreadable,
    };
    if head.cpu >= MAX_CPUS {
        return Line::Unreadable;
    }
    Line::Record(SchedRecord {
        at_ns: head.at_ns,
        cpu: head.cpu,
        current: head.tid,
        process: head.process,
        what,
    })
}

/// Whether a line without a newline may lack a part of its record. The end can only be seen where an event ends with a
/// number of known width (a priority of ordinary tasks, a padded CPU) or with a bracket.
pub fn is_cut(line: &[u8], told: &Line) -> bool {
    let line = line.trim_ascii_end();
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let before = &line[..line.len() - digits];
    let padded = [&b"prio="[..], b"target_cpu=", b"CPU:"].iter().any(|key| before.ends_with(key));
    match told {
        Line::Foreign => !line.is_empty() && !line.starts_with(b"#"),
        Line::Unreadable => true,
        Line::Record(_) => !(line.ends_with(b"]") || padded && digits >= 3),
        Line::Other | Line::Lost { .. } | Line::OfFile => false,
    }
}

/// Whether a line is perf's rather than ftrace's; `None` if it is not a record.
pub fn is_perf(line: &[u8]) -> Option<bool> {
    let with_bracket = Head::of(line);
    let head = with_bracket.or_else(|| latency::head(line))?;
    let (name, _) = event_name(&line[head.rest..])?;
    (!name.is_empty()).then(|| with_bracket.is_some() && head.is_apart(line))
}

/// The record's file or buffer, if the line names one.
pub fn file_of(line: &[u8]) -> Option<&[u8]> {
    Head::of(line).or_else(|| latency::head(line))?.file(line)
}

/// The event's name, without the system before it, and the text after its colon.
fn event_name(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = rest.trim_ascii_start();
    let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    let (name, fields) = rest.split_at(end);
    let name = name.strip_suffix(b":").unwrap_or(name);
    let name = memchr::memrchr(b':', name).map_or(name, |at| &name[at + 1..]);
    (!name.is_empty()).then(|| (name, fields.trim_ascii_start()))
}

/// `lost 123` of perf's own records.
fn perf_lost(fields: &[u8]) -> u64 {
    memmem::find(fields, b"lost ").and_then(|at| number(&fields[at + 5..])).map_or(1, |(n, _)| n)
}

/// Reads a line without a record's head: `CPU:3 [LOST 123 EVENTS]`, `CPU:3 [123 EVENTS DROPPED]`, or `##### CPU 3
/// buffer started ####`.
fn beside(line: &[u8]) -> Line {
    let mut at = Cursor(line.trim_ascii_start());
    if at.past(b"##### CPU ")
        && let Some(cpu) = at.number()
        && at.past(b" buffer started")
    {
        return lost(cpu, 0);
    }
    let Some(start) = memmem::find(line, b"CPU:") else { return Line::Foreign };
    let mut at = Cursor(&line[start + 4..]);
    let Some(cpu) = at.number() else { return Line::Foreign };
    if !(at.past(b" [LOST ") || at.past(b" [")) {
        return Line::Foreign;
    }
    let count = at.number().unwrap_or(1);
    if at.0.starts_with(b" EVENTS") || at.0.starts_with(b"EVENTS") { lost(cpu, count) } else { Line::Foreign }
}

fn lost(cpu: u64, count: u64) -> Line {
    match u32::try_from(cpu) {
        Ok(cpu) if cpu < MAX_CPUS => Line::Lost { cpu, count },
        _ => Line::Foreign,
    }
}

/// The content of a text's headings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Headings {
    pub release: Option<String>,
    /// The machine's number of CPUs.
    pub cpus: Option<u32>,
    pub overwritten: u64,
    /// The tracer, except "nop", which records nothing by itself.
    pub tracer: Option<String>,
    /// Whether there was a heading of tracefs.
    pub is_ftrace: bool,
    /// Whether the last line gave the release.
    is_new: bool,
}

impl Headings {
    /// The release, if the last line gave it.
    pub fn news(&self) -> Option<&str> {
        self.release.as_deref().filter(|_| self.is_new)
    }
    /// Reads a line that is not a record.
    pub fn read(&mut self, line: &[u8]) {
        let text = line.trim_ascii();
        self.is_new = false;
        let after = |words: &[u8]| text.strip_prefix(words).map(<[u8]>::trim_ascii);
        if let Some(counts) = after(b"# entries-in-buffer/entries-written:") {
            let mut at = Cursor(counts);
            if let (Some(held), true, Some(written)) = (at.number(), at.past(b"/"), at.number()) {
                self.overwritten = written.saturating_sub(held);
            }
            if let Some(p) = memmem::find(counts, b"#P:") {
                self.cpus = number(&counts[p + 3..]).and_then(|(n, _)| u32::try_from(n).ok());
            }
        } else if let Some(tracer) = after(b"# tracer:") {
            self.is_ftrace = true;
            self.tracer = Some(String::from_utf8_lossy(tracer).into_owned()).filter(|name| name != "nop");
        } else if text.starts_with(b"# nop latency trace ") {
            let release = memmem::rfind(text, b" on ").map(|at| &text[at + 4..]);
            self.release = release.map(|r| String::from_utf8_lossy(r).into_owned());
            self.is_new = true;
        } else if text.starts_with(b"# latency: ") {
            let p = memmem::find(text, b"#P:");
            self.cpus = p.and_then(|p| number(&text[p + 3..])).and_then(|(n, _)| u32::try_from(n).ok());
        } else if let Some(release) = after(b"# os release :") {
            self.release = Some(String::from_utf8_lossy(release).into_owned());
            self.is_new = true;
        } else if let Some(cpus) = after(b"# nrcpus online :").or_else(|| after(b"cpus=")) {
            self.cpus = number(cpus).and_then(|(n, _)| u32::try_from(n).ok());
        }
    }
}

/// Counts a loss that a line reports.
pub fn note(losses: &mut Losses, count: u64) {
    losses.events = losses.events.saturating_add(count);
    losses.places += u64::from(count > 0);
}

fn number_at(text: &[u8]) -> Option<u64> {
    number(text).map(|(n, _)| n)
}

/// A thread of which only the number is known.
fn bare(tid: u32) -> Thread {
    Thread { tid, comm: Comm::default(), prio: None }
}

const _: () = assert!(UNKNOWN_PROCESS == 0 && std::mem::size_of::<RecordKind>() <= 72);
