//! Traces in the Common Trace Format (1.8): folders as LTTng's kernel tracer writes them, and `schedlab trace --format
//! ctf`.
//!
//! A folder has a description (`metadata`, [`tsdl`]) and a file for each stream of packets, usually one for each CPU. A
//! stream's events are in order; streams are merged by time. Events and fields have the names of LTTng's kernel tracer.
//! The waker is the thread that runs on the event's CPU, by its switches: CTF does not report interrupts.

mod bits;
pub(crate) mod content;
mod stream;
#[cfg(test)]
mod tests;
pub mod tsdl;

use crate::sched_record::{MAX_CPUS, TRACEPOINTS};
use crate::states::States;
use crate::task_table::Audience;
use crate::{Form, Imported, Importer, text};
use content::Content;
use schedlab_base::{Error, Result, input};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use stream::{Next, Stream};
use tsdl::Description;

/// The description's file.
pub const METADATA: &str = "metadata";
/// The folder of a trace lies at most this deep in the named one (`kernel/` of LTTng's).
const DEPTH: usize = 3;
const MOST_STREAMS: usize = 2 * MAX_CPUS as usize;

/// The folder of the trace: the named one, or the only trace in it.
///
/// # Errors
/// When there is none, or several.
fn find(folder: &Path) -> Result<PathBuf> {
    let mut found = find_all(folder, DEPTH, &is_description)?;
    if found.is_empty() {
        // A file named metadata that is not a description: its reader reports the error.
        found = find_all(folder, DEPTH, &Path::is_file)?;
    }
    match found.as_slice() {
        [] => Err(Error::input("the folder has no trace: there is no file 'metadata' in it").help(
            "name the folder of a CTF trace, such as lttng-traces/SESSION/kernel, or a recording's file",
        )),
        [one] => Ok(one.clone()),
        several => {
            let shown: Vec<String> = several.iter().map(|p| p.display().to_string()).collect();
            Err(Error::input(format!("the folder has {} traces", several.len()))
                .help(format!("name one: {}", shown.join(", "))))
        }
    }
}

/// Whether a file begins like a trace's description: other files have that name, too.
fn is_description(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut begin));
    path.is_file() && read.is_ok() && matches!(Form::of(&begin), Ok(Form::Ctf))
}

/// The folders with a description: this one, or those in it. An unreadable folder does not hide the others.
///
/// # Errors
/// When none is found and a folder can't be read.
fn find_all(folder: &Path, depth: usize, is_description: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    if is_description(&folder.join(METADATA)) {
        return Ok(vec![folder.to_owned()]);
    }
    if depth == 0 {
        return Ok(Vec::new());
    }
    let read = fs::read_dir(folder).map_err(|e| Error::io(folder, "read", &e))?;
    let mut inner: Vec<PathBuf> = read.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir()).collect();
    inner.sort();
    let (mut found, mut failed) = (Vec::new(), None);
    for path in inner.iter().take(64) {
        match find_all(path, depth - 1, is_description) {
            Ok(more) => found.extend(more),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    // LTTng puts a trace of user-space events next to the kernel's.
    found.retain(|path| found_alone(path, &inner));
    failed.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

/// Whether a folder holds a trace, or several.
pub fn is_trace(folder: &Path) -> bool {
    find_all(folder, DEPTH, &is_description).is_ok_and(|found| !found.is_empty())
}

/// Whether a folder counts: not user-space events of LTTng (`ust`) next to other traces.
fn found_alone(path: &Path, beside: &[PathBuf]) -> bool {
    beside.len() < 2 || !path.components().any(|c| c.as_os_str() == "ust")
}

/// Reads a trace; also returns its files, sorted by name.
///
/// # Errors
/// When the folder has no description, one that can't be read, or no events of the scheduler.
pub fn read(folder: &Path, audience: &mut dyn Audience) -> Result<(Imported, Vec<PathBuf>)> {
    let folder = find(folder)?;
    let description = Description::read(&input::bytes(&folder.join(METADATA))?)?;
    let mut streams = Vec::new();
    let mut files = files(&folder)?;
    for path in &files {
        let file = File::open(path).map_err(|e| Error::io(path, "read", &e))?;
        streams.push(Stream::of(file));
    }
    let mut reader = Reader {
        content: Content::new(States::of_release(description.release.as_deref().unwrap_or_default())),
        importer: Importer::new(audience),
        others: 0,
    };
    let mut next = BinaryHeap::new();
    for (at, stream) in streams.iter_mut().enumerate() {
        next.extend(reader.advance(stream, &description)?.map(|(at_ns, cpu)| Reverse((at_ns, at, cpu))));
    }
    while let Some(Reverse((at_ns, at, cpu))) = next.pop() {
        reader.event(&streams[at], &description, at_ns, cpu);
        let stream = &mut streams[at];
        next.extend(reader.advance(stream, &description)?.map(|(at_ns, cpu)| Reverse((at_ns, at, cpu))));
    }
    let Reader { importer, others, .. } = reader;
    if importer.records() == 0 {
        return Err(Error::input("the trace has no events of the scheduler")
            .help("lttng enable-event --kernel 'sched_*', or schedlab trace --format ctf"));
    }
    let foreign = files.iter().zip(&streams).filter(|(_, stream)| stream.is_foreign);
    let passed_over = foreign.map(|(path, _)| name(path)).collect();
    let cpus = streams.iter().filter_map(|s| s.cpu).map(|cpu| cpu + 1).max();
    files.push(folder.join(METADATA));
    Ok((Imported { others, passed_over, ..importer.finish(cpus, description.release) }, files))
}

fn name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The files of streams, sorted by name: all but the description and hidden ones (LTTng's index is a folder).
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).map_err(|e| Error::io(folder, "read", &e))?;
    let is_stream = |path: &PathBuf| {
        let name = name(path);
        path.is_file() && name != METADATA && !name.starts_with('.')
    };
    let mut all: Vec<PathBuf> = read.filter_map(|e| Some(e.ok()?.path())).filter(is_stream).collect();
    all.sort();
    if all.len() > MOST_STREAMS {
        return Err(Error::input(format!(
            "the trace has {} streams: at most {MOST_STREAMS} are read",
            all.len()
        )));
    }
    Ok(all)
}

struct Reader<'a> {
    importer: Importer<'a>,
    content: Content,
    others: u64,
}

impl Reader<'_> {
    /// Moves to the stream's next event of the scheduler; returns its time and CPU, `None` at the end.
    fn advance(&mut self, stream: &mut Stream, description: &Description) -> Result<Option<(u64, u32)>> {
        loop {
            match stream.advance(description)? {
                Next::Event { at_ns, cpu } => {
                    if TRACEPOINTS.contains(&stream.name(description)) {
                        return Ok(Some((at_ns, cpu)));
                    }
                    self.others += 1;
                }
                Next::Lost { cpu, count } => {
                    text::note(&mut self.importer.losses, count);
                    self.importer.lost(cpu, count);
                }
                Next::Unreadable => {
                    let at = self.importer.records() + 1;
                    self.importer.losses.unreadable(at);
                }
                Next::Cut => self.importer.losses.cut = true,
                Next::End => return Ok(None),
            }
        }
    }

    /// Passes on the current event of a stream.
    fn event(&mut self, stream: &Stream, description: &Description, at_ns: u64, cpu: u32) {
        let scope = stream.scope(description);
        self.content.give(stream.name(description), &scope, (at_ns, cpu), &mut self.importer);
    }
}
