//! Results in transit: a parcel's runs, made on a machine without the store, as one file.
//!
//! The file is lines of JSON. The first has the versions that made the runs and the number of runs. Each further line
//! is a run: cell, seed, and its files as base64 with a checksum each. [`unpack`] checks everything before it stores
//! anything: a truncated or changed file stores no run. The folder of a run is taken from its record, never from the
//! file's words, and a stored run is never replaced.

use super::{Maker, Parcel};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schedlab_base::content_hash;
use schedlab_base::temp::TempFile;
use schedlab_base::{Error, Result, Spot, input};
use schedlab_lab::judge::validate::case::CASE_FILE;
use schedlab_lab::make::plan::Run;
use schedlab_record::store::{MAX_RECORD_MB, RECORD_FILE, words};
use schedlab_record::store_listing::{CHAINS_FILE, EXPERIMENT_FILE, INSTRUCTIONS_FILE, KERNEL_LOG_FILE};
use schedlab_record::{Record, Store, Stored, cell_hash, version_of};
use schedlab_trace::kept::EVENTS_FILE;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

pub const SCHEMA: &str = "schedlab/results/1";
/// The longest first line, bytes. It has three versions and a number; this limit keeps a disk image out of memory.
const MAX_HEAD: u64 = 64 << 10;

/// The files that a run may have next to its record.
const BESIDE: &[&str] =
    &[EXPERIMENT_FILE, CASE_FILE, KERNEL_LOG_FILE, INSTRUCTIONS_FILE, CHAINS_FILE, EVENTS_FILE];

/// Whether a run may have a file of that name next to its record.
pub(super) fn is_beside(name: &str) -> bool {
    BESIDE.contains(&name)
}

fn is_file_of_run(name: &str) -> bool {
    name == RECORD_FILE || is_beside(name)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultsHead {
    schema: String,
    version: Maker,
    runs: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultsLine {
    cell: String,
    seed: u64,
    files: Vec<Content>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    name: String,
    sum: String,
    base64: String,
}

/// Writes a parcel's runs that a store has; returns how many.
///
/// # Errors
/// When a run can't be read, or the file can't be written.
pub fn write(parcel: &Parcel, store: &Store, file: &Path) -> Result<usize> {
    let runs: Vec<(&str, Run)> = parcel
        .tasks
        .iter()
        .flat_map(|t| t.runs())
        .map(|(cell, seed)| (parcel.cells[cell].hash.as_str(), Run { cell, seed }))
        .filter(|(hash, run)| store.get(hash, run.seed).is_some())
        .collect();
    let mut beside = TempFile::create(file)?;
    let failed = |e: std::io::Error| Error::io(file, "write", &e);
    let head = ResultsHead { schema: SCHEMA.to_owned(), version: parcel.version.clone(), runs: runs.len() };
    let mut out = BufWriter::new(&mut beside.file);
    line(&mut out, &head).map_err(failed)?;
    for (hash, run) in &runs {
        line(&mut out, &of_run(store, hash, run.seed)?).map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    drop(out);
    beside.put()?;
    Ok(runs.len())
}

fn line(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

fn of_run(store: &Store, hash: &str, seed: u64) -> Result<ResultsLine> {
    let gone = || Error::input(format!("run {hash}/{seed} has gone while it was read"));
    let run = store.get(hash, seed).ok_or_else(gone)?;
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&run.path).map_err(|e| Error::io(&run.path, "read", &e))? {
        let name = entry.map_err(|e| Error::io(&run.path, "read", &e))?.file_name();
        names.extend(name.to_str().filter(|n| is_file_of_run(n)).map(str::to_owned));
    }
    names.sort();
    let content = |name: String| -> Result<Content> {
        let path = run.path.join(&name);
        let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", &e))?;
        Ok(Content { name, sum: content_hash(&bytes), base64: BASE64_STANDARD.encode(&bytes) })
    };
    Ok(ResultsLine {
        cell: hash.to_owned(),
        seed,
        files: names.into_iter().map(content).collect::<Result<_>>()?,
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Unpacked {
    pub stored: usize,
    /// Runs that the store had already, which stay as they are.
    pub kept: usize,
    /// Kept runs whose record in the file differs.
    pub other: usize,
}

/// Puts the runs of a file of results into a store, after checking all of them.
///
/// # Errors
/// When the file is truncated or not a file of results, for results of another version, for a checksum, cell or seed
/// that differs from the record, and when the store can't take a run.
pub fn unpack(file: &Path, store: &Store) -> Result<Unpacked> {
    let mut source = opened(file)?;
    each(file, &source, &mut |_, _| Ok(()))?;
    source.rewind().map_err(|e| Error::io(file, "read", &e))?;
    let mut done = Unpacked::default();
    each(file, &source, &mut |line, Checked { record, json, files }| {
        let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
        match store.put(&line.cell, line.seed, record, &files)? {
            Stored::Written(_) => done.stored += 1,
            Stored::Kept(there) => {
                done.kept += 1;
                let path = there.path.join(RECORD_FILE);
                let own = std::fs::read(&path).map_err(|e| Error::io(&path, "read", &e))?;
                done.other += usize::from(*json != own);
            }
        }
        Ok(())
    })?;
    Ok(done)
}

/// A run whose parts fit together.
struct Checked {
    record: Record,
    /// The record's bytes.
    json: Vec<u8>,
    /// The other files.
    files: Vec<(String, Vec<u8>)>,
}

/// Opens a regular file.
fn opened(file: &Path) -> Result<File> {
    let is_pipe = |m: std::fs::Metadata| m.file_type().is_fifo();
    let pipe = || {
        Error::input(format!("can't read {}: it is a pipe, and it is read twice", file.display()))
            .help("write what it gives to a file, and name that")
    };
    // Opening a pipe waits for its writer. Its path may come to name another file in between.
    if std::fs::metadata(file).is_ok_and(is_pipe) {
        return Err(pipe());
    }
    let source = input::open(file)?;
    if source.metadata().is_ok_and(is_pipe) { Err(pipe()) } else { Ok(source) }
}

/// The lines of a file of results.
struct Lines<'a> {
    file: &'a Path,
    source: BufReader<&'a File>,
    /// Number of the next line, from 0.
    nr: usize,
}

impl Lines<'_> {
    /// The next line and its number; `None` at the end. A line of more than `most` bytes is the error `long`.
    fn next(&mut self, most: u64, long: impl FnOnce() -> Error) -> Result<Option<(usize, Vec<u8>)>> {
        let mut line = Vec::new();
        let read = self.source.by_ref().take(most + 1).read_until(b'\n', &mut line);
        let read = read.map_err(|e| Error::io(self.file, "read", &e))?;
        let nr = self.nr;
        self.nr += 1;
        if read as u64 > most {
            return Err(long().at(spot(self.file, nr)));
        }
        Ok((read > 0).then_some((nr, line)))
    }
}

fn spot(file: &Path, nr: usize) -> Spot {
    Spot { file: file.to_owned(), line_column: Some((nr + 1, 1)) }
}

/// Calls `take` for each run of a file, checked.
fn each(
    file: &Path,
    source: &File,
    take: &mut dyn FnMut(&ResultsLine, &Checked) -> Result<()>,
) -> Result<()> {
    let limit_mb = input::limit_mb(MAX_RECORD_MB)?;
    let mut lines = Lines { file, source: BufReader::new(source), nr: 0 };
    let at = |e: Error, nr: usize| e.at(spot(file, nr));
    let damaged = |text: String| {
        Error::input(text).help("the file is damaged or not whole: carry it again, or write it again")
    };
    let other = |why: String| {
        Error::input(format!("not a file of results: {why}"))
            .help("'schedlab work PARCEL --results FILE' writes one")
    };
    let long = || other(format!("its first line is longer than {MAX_HEAD} bytes"));
    let Some((_, first)) = lines.next(MAX_HEAD, long)? else {
        return Err(damaged("the file is empty".to_owned()).at(Spot::file(file)));
    };
    let head: ResultsHead = serde_json::from_slice(&first).map_err(|e| at(other(words(&e)), 0))?;
    if head.schema != SCHEMA {
        let text = format!("schema is '{}', and '{SCHEMA}' was expected", head.schema);
        return Err(at(Error::input(text).help("use the same schedlab on both sides"), 0));
    }
    head.version.check("the file").map_err(|e| at(e, 0))?;
    let long = || {
        let help =
            format!("{name} sets another limit, as in {name}={}", limit_mb * 4, name = input::LIMIT_VARIABLE);
        Error::input(format!("the run's line is longer than {limit_mb} MB")).help(help)
    };
    let mut runs = 0;
    while let Some((nr, text)) = lines.next(limit_mb << 20, long)? {
        let line: ResultsLine = serde_json::from_slice(&text)
            .map_err(|e| at(damaged(format!("not a whole run: {}", words(&e))), nr))?;
        let run = checked(&line).map_err(|text| at(damaged(text), nr))?;
        take(&line, &run)?;
        runs += 1;
    }
    if runs != head.runs {
        let text = format!(
            "{} {} in the file, and {} should be",
            schedlab_base::counted(runs, "run"),
            schedlab_base::one_or(runs, "is", "are"),
            head.runs
        );
        return Err(damaged(text).at(Spot::file(file)));
    }
    Ok(())
}

/// The run of a line, if its files match the line and its record.
fn checked(line: &ResultsLine) -> std::result::Result<Checked, String> {
    let name = format!("run {}/{}", line.cell, line.seed);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for content in &line.files {
        if !is_file_of_run(&content.name) || files.iter().any(|(n, _)| *n == content.name) {
            return Err(format!("{name} has a file '{}', which no run has", content.name));
        }
        let bytes = BASE64_STANDARD.decode(&content.base64).map_err(|e| format!("{name}: {e}"))?;
        if content_hash(&bytes) != content.sum {
            return Err(format!("{name}: the checksum of {} is wrong", content.name));
        }
        files.push((content.name.clone(), bytes));
    }
    let at = files.iter().position(|(n, _)| n == RECORD_FILE).ok_or(format!("{name} has no record"))?;
    let (_, json) = files.remove(at);
    let record = Record::from_json(&json).map_err(|e| format!("{name}: not a whole record: {e}"))?;
    if record.model != version_of(&record.backend) {
        return Err(format!("{name}: the record is of version {}", record.model));
    }
    if record.seed != line.seed || cell_hash(&record) != line.cell {
        return Err(format!("{name}: the record is that of run {}/{}", cell_hash(&record), record.seed));
    }
    // The store writes the record itself, so its text must equal the one that came.
    let own = record.to_json().map_err(|e| format!("{name}: {e}"))?;
    if own != json {
        return Err(format!("{name}: the record is not written as this version writes it"));
    }
    Ok(Checked { record, json, files })
}
