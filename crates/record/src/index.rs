//! The index of a store: the parts of its records that lists and comparisons need, so that they need not read thousands
//! of files.
//!
//! A record is mostly waits and histograms. A row of the index has the rest: counters, figures, environment, warnings,
//! and for each series count, min, max, sum and the percentiles of [`KEPT`](schedlab_stats::series::KEPT). The parts
//! that all runs of a cell share are stored once. [`digest`] reduces a record to the content of its row.
//!
//! The index is a folder, `ROOT/.index`. Its files are written once and renamed into place under the hash of their
//! content. Writers of runs do not touch it, so job arrays on a shared folder need no lock. A reader that has read many
//! records adds a file of their rows; two concurrent readers add two. Many files are merged.
//!
//! The record decides, never the index. A row is valid only while its record has the same size and the same time of
//! change, to the nanosecond; else the record is read. A file of another version or with a wrong checksum is ignored.
//! Without a writable index everything still works.
//!
//! A file is text. Its first line is schema, version of schedlab and checksum (CRC-32) of the rest. A line `c JSON` is
//! a cell's part, numbered from 0; a line `r CELL/SEED SIZE SECONDS.NANOSECONDS NUMBER JSON` is a row.

use crate::store::{RECORD_FILE, RunDir};
use crate::store_listing::is_cell;
use crate::{CodeSetup, Figure, Findings, GuestSetup, Observe, RECORD_SCHEMA, Record};
use schedlab_base::content_hash;
use schedlab_base::{Error, Ns, Origin, Result, Warning, input, temp};
use schedlab_kernel::{Kernel, Variant};
use schedlab_machine::{Drawn, Machine};
use schedlab_stats::series::DigestWire;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The schema of the index's files. It must change with the content or meaning of rows, and with the way in which a
/// record is read.
pub const INDEX_SCHEMA: &str = "schedlab/index/1";
pub const INDEX_FOLDER: &str = ".index";
/// The next writer merges this many files or more.
const MOST_FILES: usize = 8;
/// The longest file of an index unless `SCHEDLAB_MAX_INPUT_MB` says otherwise, MiB.
const MAX_MB: u64 = 4096;

/// Shows whether a record was replaced. Ordered by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Stamp {
    seconds: i64,
    nanoseconds: i64,
    size: u64,
}

impl Stamp {
    fn of(run: &RunDir) -> Option<Stamp> {
        let file = fs::metadata(run.path.join(RECORD_FILE)).ok()?;
        Some(Stamp { size: file.size(), seconds: file.mtime(), nanoseconds: file.mtime_nsec() })
    }
}

pub struct ReadOutline {
    stamp: Option<Stamp>,
    pub record: Record,
}

impl ReadOutline {
    pub fn outline(run: &RunDir) -> Result<ReadOutline> {
        // Taken before reading: if another record takes its place meanwhile, the row must not count as that one's.
        let stamp = Stamp::of(run);
        Ok(ReadOutline { stamp, record: run.outline()? })
    }
    /// A record that has a row already.
    pub fn known(record: Record) -> ReadOutline {
        ReadOutline { stamp: None, record }
    }
}

/// The parts that all runs of a cell share.
#[derive(Serialize, Deserialize)]
struct CellPart {
    model: u32,
    backend: Origin,
    machine: Machine,
    kernel: String,
    resolved: Option<Kernel>,
    guest: Option<GuestSetup>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<CodeSetup>,
    variant: Variant,
    workload: String,
    spec: serde_json::Value,
    load: String,
    observe: Option<Observe>,
}

/// The parts that differ between runs.
#[derive(Serialize, Deserialize)]
struct RunPart {
    seed: u64,
    drawn: Vec<Drawn>,
    duration: Ns,
    counters: BTreeMap<String, u64>,
    figures: BTreeMap<String, Figure>,
    series: BTreeMap<String, DigestWire>,
    environment: BTreeMap<String, String>,
    warnings: Vec<Warning>,
}

/// Reduces a record to the content of its row: without waits, intervals, tasks, stays, delays, schedstat and cycles,
/// and with digests as series.
pub fn digest(record: Record) -> Record {
    let Findings { duration, series, counters, figures, environment, warnings, .. } = record.found;
    let series = series.into_iter().map(|(name, s)| (name, s.digest())).collect();
    let found =
        Findings { duration, series, counters, figures, environment, warnings, ..Findings::default() };
    Record { found, ..record }
}

/// A run's store and the name of its row, `CELL/SEED`; `None` for a folder that is not in a store.
pub fn place(run: &RunDir) -> Option<(&Path, String)> {
    let cell = run.path.parent()?;
    let name = cell.file_name()?.to_str().filter(|name| is_cell(name))?;
    let seed = run.path.file_name()?.to_str()?;
    Some((cell.parent()?, format!("{name}/{seed}")))
}

pub struct Index {
    root: PathBuf,
    files: Vec<Indexed>,
    rows: HashMap<String, RowPlace>,
}

struct Indexed {
    path: PathBuf,
    text: String,
    cells: Vec<(Range<usize>, OnceLock<Option<CellPart>>)>,
}

struct RowPlace {
    stamp: Stamp,
    file: usize,
    cell: usize,
    json: Range<usize>,
}

impl Index {
    /// Reads a store's index. Damaged files and those of another version are ignored.
    pub fn open(root: &Path) -> Index {
        let mut index = Index { root: root.to_owned(), files: Vec::new(), rows: HashMap::new() };
        let entries = fs::read_dir(root.join(INDEX_FOLDER)).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == "rows"));
        paths.sort();
        for path in paths {
            // Another process may have merged this file meanwhile. Only a regular file can be ours: reading a pipe
            // would wait, and a device may never end.
            if !fs::symlink_metadata(&path).is_ok_and(|about| about.is_file()) {
                continue;
            }
            let Ok(bytes) = input::bytes_up_to(&path, MAX_MB) else { continue };
            let text = String::from_utf8(bytes).unwrap_or_default();
            let file = index.files.len();
            index.files.push(Indexed { path, text, cells: Vec::new() });
            if index.take(file).is_none() {
                index.rows.retain(|_, row| row.file != file);
            }
        }
        index
    }
    /// Reads a file's rows; `None` if it is not a complete file of this version.
    fn take(&mut self, file: usize) -> Option<()> {
        let Index { files, rows, .. } = self;
        let Indexed { text, cells, .. } = &mut files[file];
        let (head, body) = text.split_once('\n')?;
        (head == self::head(body)).then_some(())?;
        let mut at = head.len() + 1;
        for line in body.split_inclusive('\n') {
            let (start, end) = (at, at + line.len() - 1);
            at += line.len();
            match line.strip_suffix('\n')?.split_once(' ')? {
                ("c", _) => cells.push((start + 2..end, OnceLock::new())),
                ("r", row) => {
                    let mut words = row.splitn(5, ' ');
                    let mut word = || words.next();
                    let (name, size, time, cell, json) = (word()?, word()?, word()?, word()?, word()?);
                    let (seconds, nanoseconds) = time.split_once('.')?;
                    let stamp = Stamp {
                        size: size.parse().ok()?,
                        seconds: seconds.parse().ok()?,
                        nanoseconds: nanoseconds.parse().ok()?,
                    };
                    let row = RowPlace { stamp, file, cell: cell.parse().ok()?, json: end - json.len()..end };
                    // Files are not sorted by time: of two rows, the one of the later record counts.
                    if rows.get(name).is_none_or(|other| other.stamp <= row.stamp) {
                        rows.insert(name.to_owned(), row);
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }
    /// The digest of a run's record; `None` if the record must be read.
    pub fn get(&self, run: &RunDir) -> Option<Record> {
        let row = self.fresh(run)?;
        let file = &self.files[row.file];
        let (cell, common) = file.cells.get(row.cell)?;
        let read = || serde_json::from_str(&file.text[cell.clone()]).ok();
        let common = common.get_or_init(read).as_ref()?;
        let own: RunPart = serde_json::from_str(&file.text[row.json.clone()]).ok()?;
        let series = own.series.into_iter().map(|(name, s)| Some((name, s.series()?)));
        Some(Record {
            schema: RECORD_SCHEMA.to_owned(),
            model: common.model,
            backend: common.backend.clone(),
            machine: common.machine.clone(),
            drawn: own.drawn,
            kernel: common.kernel.clone(),
            resolved: common.resolved,
            guest: common.guest.clone(),
            code: common.code.clone(),
            variant: common.variant.clone(),
            workload: common.workload.clone(),
            spec: common.spec.clone(),
            load: common.load.clone(),
            observe: common.observe,
            seed: own.seed,
            found: Findings {
                duration: own.duration,
                series: series.collect::<Option<_>>()?,
                counters: own.counters,
                figures: own.figures,
                environment: own.environment,
                warnings: own.warnings,
                ..Findings::default()
            },
        })
    }
    /// The row of a run, if the record has not changed since.
    fn fresh(&self, run: &RunDir) -> Option<&RowPlace> {
        let (_, name) = place(run)?;
        self.rows.get(&name).filter(|row| Stamp::of(run) == Some(row.stamp))
    }
    /// Number of rows, including those of changed and removed records.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Adds the rows of records that were read.
    ///
    /// # Errors
    /// When writing fails. The index is unchanged then.
    pub fn add(&self, read: &[(&RunDir, &ReadOutline)]) -> Result<()> {
        let mut text = IndexText::of(read)?;
        if self.files.len() < MOST_FILES {
            return text.write(&self.root).map(|_| ());
        }
        let mut rows: Vec<(&String, &RowPlace)> = self.rows.iter().collect();
        rows.sort_by_key(|(name, _)| *name);
        for (name, row) in rows {
            let run = RunDir { path: self.root.join(name) };
            if let Some(record) = self.get(&run) {
                text.row(&run, row.stamp, &record)?;
            }
        }
        self.replace(text)
    }
    /// Replaces all rows by those of these records.
    pub fn rebuild(&self, all: &[(&RunDir, &ReadOutline)]) -> Result<()> {
        self.replace(IndexText::of(all)?)
    }
    /// Writes a file and removes the old ones.
    fn replace(&self, text: IndexText) -> Result<()> {
        let written = text.write(&self.root)?;
        for file in self.files.iter().filter(|f| f.path != written) {
            // Another process may have removed it, and a file that stays does no harm.
            let _ = fs::remove_file(&file.path);
        }
        Ok(())
    }
}

fn head(body: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("{INDEX_SCHEMA} {version} {:08x}", crc32fast::hash(body.as_bytes()))
}

/// A new file of the index.
#[derive(Default)]
struct IndexText {
    body: String,
    cells: HashMap<String, usize>,
}

impl IndexText {
    fn of(read: &[(&RunDir, &ReadOutline)]) -> Result<IndexText> {
        let mut text = IndexText::default();
        for (run, ReadOutline { stamp, record }) in read {
            if let Some(stamp) = stamp {
                text.row(run, *stamp, record)?;
            }
        }
        Ok(text)
    }
    fn row(&mut self, run: &RunDir, stamp: Stamp, record: &Record) -> Result<()> {
        let Some((_, name)) = place(run) else { return Ok(()) };
        let r = record.clone();
        let common = CellPart {
            model: r.model,
            backend: r.backend,
            machine: r.machine,
            kernel: r.kernel,
            resolved: r.resolved,
            guest: r.guest,
            code: r.code,
            variant: r.variant,
            workload: r.workload,
            spec: r.spec,
            load: r.load,
            observe: r.observe,
        };
        let own = RunPart {
            seed: r.seed,
            drawn: r.drawn,
            duration: r.found.duration,
            counters: r.found.counters,
            figures: r.found.figures,
            series: record.found.series.iter().map(|(name, s)| (name.clone(), s.into())).collect(),
            environment: r.found.environment,
            warnings: r.found.warnings,
        };
        let (common, own) = (json(&common)?, json(&own)?);
        let next = self.cells.len();
        let cell = *self.cells.entry(common).or_insert_with_key(|common| {
            self.body += &format!("c {common}\n");
            next
        });
        let Stamp { size, seconds, nanoseconds } = stamp;
        self.body += &format!("r {name} {size} {seconds}.{nanoseconds} {cell} {own}\n");
        Ok(())
    }
    /// Writes the file into a store's index; returns its path.
    fn write(self, root: &Path) -> Result<PathBuf> {
        let text = head(&self.body) + "\n" + &self.body;
        let folder = root.join(INDEX_FOLDER);
        fs::create_dir_all(&folder)
            .map_err(|e| failed(&folder, Error::io(&folder, "create the folder", &e)))?;
        // A temporary file is named by its content, so no other writer uses the name of a killed writer's file.
        temp::clear_left(&folder, ".");
        let path = folder.join(content_hash(text.as_bytes()) + ".rows");
        let limit_mb = input::limit_mb(MAX_MB)?;
        if text.len() as u64 > limit_mb << 20 {
            // No reader would accept a longer file.
            return Err(input::too_long(&path, limit_mb));
        }
        temp::write_whole(&path, text.as_bytes()).map_err(|e| failed(&folder, e))?;
        Ok(path)
    }
}

/// The error of an index that can't be written, with its remedy.
fn failed(folder: &Path, e: Error) -> Error {
    if folder.exists() && !folder.is_dir() {
        return e.help("a file has the place of the index's folder: move it away");
    }
    if e.remedy().is_some() {
        return e;
    }
    e.help("the index is written into the store, which needs the right to; without an index all works, but slower")
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::internal(format!("a row of the index can't be written as JSON: {e}")))
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
