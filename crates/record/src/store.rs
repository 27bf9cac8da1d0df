//! Run folders: `ROOT/<cell-hash>/<seed>/record.json`, written once.
//!
//! A run is written to a temporary folder next to its place, which is then renamed. So a run folder is complete or
//! absent, even after a full disk or a kill. The next writer in a cell removes a killed writer's files. There is one
//! run for a cell and a seed: a second writer finds the first one's run and keeps it. Processes that share a root need
//! no lock.
//!
//! The record in `<cell-hash>/<seed>` has that seed; a record with another seed is an error ([`load`]).

use crate::record_wire;
use crate::store_listing::{is_cell, remove_unfinished};
use crate::{RECORD_SCHEMA, Record, cell_hash};
use schedlab_base::temp::{self, TempFolder};
use schedlab_base::{Error, Result, Spot, input, printable};
use schedlab_trace::kept::{self, EVENTS_FILE, RunId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The record's file in a run folder.
pub const RECORD_FILE: &str = "record.json";
/// The longest record that is read unless `SCHEDLAB_MAX_INPUT_MB` says otherwise, MiB. A task takes about 200 bytes.
pub const MAX_RECORD_MB: u64 = 1024;
/// Prefix of run folders that are still being written; they do not count as runs.
pub(crate) const TEMP_PREFIX: &str = ".run.";
/// How deep below a folder runs are searched; a store itself has two levels.
const MAX_DEPTH: usize = 6;

/// A folder that holds one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunDir {
    pub path: PathBuf,
}

impl RunDir {
    pub fn record(&self) -> Result<Record> {
        load(&self.path)
    }
    /// Reads the run's record without waits and intervals, which are most of a record and not needed for tables.
    pub fn outline(&self) -> Result<Record> {
        load_as(&self.path, record_wire::outline)
    }
    /// Reads the run's record, which must be of this cell.
    ///
    /// # Errors
    /// When the record can't be read, or belongs to another cell: it would count as a run that was never made.
    pub fn record_of(&self, cell: &str) -> Result<Record> {
        self.only_of(cell, self.record()?)
    }
    /// Reads the run's outline, which must be of this cell.
    pub fn outline_of(&self, cell: &str) -> Result<Record> {
        self.only_of(cell, self.outline()?)
    }
    fn only_of(&self, cell: &str, record: Record) -> Result<Record> {
        let own = cell_hash(&record);
        if own == cell {
            return Ok(record);
        }
        let text = format!("the folder is cell {cell}'s, and the record in it is cell {own}'s");
        let seed = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let root = self.path.ancestors().nth(2).unwrap_or(Path::new(""));
        Err(Error::input(text)
            .help(removal(&format!("{cell}/{seed}"), root))
            .at(Spot::file(&self.path.join(RECORD_FILE))))
    }
    /// The key to sort by: seeds as numbers, everything else as text.
    fn order(&self) -> (PathBuf, u64, PathBuf) {
        let seed = self.path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
        let parent = self.path.parent().unwrap_or(Path::new("")).to_owned();
        (parent, seed.unwrap_or(u64::MAX), self.path.clone())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stored {
    Written(RunDir),
    /// A run was already there and is kept.
    Kept(RunDir),
}

impl Stored {
    /// The run's folder, in either case.
    pub fn run(&self) -> &RunDir {
        match self {
            Stored::Written(run) | Stored::Kept(run) => run,
        }
    }
}

/// A root folder with runs.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// A store in `root`, which is created if it does not exist.
    ///
    /// # Errors
    /// When the folder can't be created.
    pub fn create(root: &Path) -> Result<Store> {
        fs::create_dir_all(root).map_err(|e| {
            Error::io(root, "create the folder", &e).help("runs are kept there; --out names another folder")
        })?;
        Ok(Store { root: root.to_owned() })
    }
    /// The store in an existing folder.
    ///
    /// # Errors
    /// When it is not a folder.
    pub fn open(root: &Path) -> Result<Store> {
        let about = fs::metadata(root).map_err(|e| Error::io(root, "read", &e));
        let help = "--out names the folder with the runs";
        if !about.map_err(|e| e.help(help))?.is_dir() {
            return Err(Error::input(format!("{} is not a folder", root.display())).help(help));
        }
        Ok(Store { root: root.to_owned() })
    }
    pub fn root(&self) -> &Path {
        &self.root
    }
    fn place(&self, cell_hash: &str, seed: u64) -> PathBuf {
        self.root.join(cell_hash).join(seed.to_string())
    }
    /// The stored run of a cell and seed, if there is one.
    pub fn get(&self, cell_hash: &str, seed: u64) -> Option<RunDir> {
        let path = self.place(cell_hash, seed);
        path.join(RECORD_FILE).is_file().then_some(RunDir { path })
    }
    /// Stores a run with further files (name, content) next to its record. An existing run is kept.
    ///
    /// # Errors
    /// When it can't be written; then nothing of it is left.
    pub fn put(
        &self,
        cell_hash: &str,
        seed: u64,
        record: &Record,
        extra: &[(&str, &[u8])],
    ) -> Result<Stored> {
        self.put_with(cell_hash, seed, (record, None), extra, None)
    }
    /// As [`Store::put`], with the file of the run's events, which is moved and gets the run's identity. It may be too
    /// large for memory, so it must have been written in the store's folder. If the run is not stored, the file stays
    /// where it is.
    pub fn put_with(
        &self,
        cell_hash: &str,
        seed: u64,
        (record, json): (&Record, Option<&[u8]>),
        extra: &[(&str, &[u8])],
        events: Option<&Path>,
    ) -> Result<Stored> {
        if let Some(run) = self.get(cell_hash, seed) {
            return Ok(Stored::Kept(run));
        }
        if let Some((name, figure)) = record.found.figures.iter().find(|(_, f)| !f.is_fit()) {
            // The record would be stored, but could not be read or compared.
            let text = format!("figure '{name}' is {:e}, which no record holds", figure.value);
            return Err(Error::internal(text));
        }
        if let Some((name, _)) = extra.iter().find(|(name, _)| !is_name(name)) {
            return Err(Error::internal(format!("'{name}' can't be a file's name in a run's folder")));
        }
        let place = self.place(cell_hash, seed);
        let cell = self.root.join(cell_hash);
        let _emptied = Emptied(&cell);
        let temp = folder_in(&cell)?;
        let written = json.map_or_else(|| record.to_json().map(Cow::Owned), |json| Ok(Cow::Borrowed(json)));
        let json =
            written.map_err(|e| Error::internal(format!("the record can't be written as JSON: {e}")))?;
        for (name, content) in extra.iter().copied().chain([(RECORD_FILE, &*json)]) {
            write_synced(&temp.path.join(name), content)?;
        }
        if let Some(path) = events {
            kept::assign(path, &RunId { cell: cell_hash.to_owned(), seed })?;
            fs::rename(path, temp.path.join(EVENTS_FILE)).map_err(|e| Error::io(path, "move", &e))?;
        }
        if place.is_dir() {
            clear_place(&cell, &place)?;
        }
        match temp.rename_to(&place) {
            Ok(()) => Ok(Stored::Written(RunDir { path: place })),
            // Another process was faster.
            Err(_) if place.join(RECORD_FILE).is_file() => Ok(Stored::Kept(RunDir { path: place })),
            Err(e) => Err(Error::io(&place, "put the run in", &e)),
        }
    }
}

/// Whether a file of this name would lie directly in its folder.
fn is_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|last| last == name)
}

/// A new run's temporary folder in its cell's folder, which is created if needed. Another writer that fails may remove
/// the empty cell at any instant; then we start again.
fn folder_in(cell: &Path) -> Result<TempFolder> {
    let is_there = || fs::symlink_metadata(cell).is_ok();
    loop {
        match fs::create_dir_all(cell) {
            // The cell existed a moment ago and was removed since.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !is_there() => continue,
            made => made.map_err(|e| Error::io(cell, "create the folder", &e))?,
        }
        match TempFolder::attempt(cell, TEMP_PREFIX, 0o777) {
            // A folder that is being removed: its name is still found, but nothing can be created in it.
            Err((_, e)) if e.kind() == io::ErrorKind::NotFound || !is_there() => {}
            made => return made.map_err(|(path, e)| Error::io(&path, "create the folder", &e)),
        }
    }
}

/// A cell's folder, which is removed on drop if it is empty.
struct Emptied<'a>(&'a Path);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        // This fails, as it should, if the cell has a run.
        let _ = fs::remove_dir(self.0);
    }
}

/// Removes a run's folder that has no record; threads of older versions could leave one. A folder with files that
/// schedlab did not write stays. It is renamed first: if another process has stored its run there meanwhile, that is
/// put back.
fn clear_place(cell: &Path, place: &Path) -> Result<()> {
    if place.join(RECORD_FILE).exists() {
        return Ok(());
    }
    let aside = temp::new_name(cell, TEMP_PREFIX);
    if fs::rename(place, &aside).is_err() {
        // Another process has removed it.
        return Ok(());
    }
    let cleared = if aside.join(RECORD_FILE).exists() { Ok(()) } else { remove_unfinished(&aside) };
    if aside.exists() {
        fs::rename(&aside, place).map_err(|e| Error::io(place, "put back", &e))?;
    }
    cleared
}

fn write_synced(path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, "write", &e))
}

/// Reads a record from its run folder or its file.
///
/// # Errors
/// When it does not exist or can't be read, is not complete JSON (with line and column), has another schema, or is in a
/// store under another seed than its own.
pub fn load(path: &Path) -> Result<Record> {
    load_as(path, |text| serde_json::from_str(text))
}

/// As [`load`], with a reader for a part of the record.
fn load_as(path: &Path, reader: fn(&str) -> serde_json::Result<Record>) -> Result<Record> {
    let file = if path.is_dir() { path.join(RECORD_FILE) } else { path.to_owned() };
    if path.is_dir() && !file.is_file() {
        return Err(Error::input(format!("{} is not a run: it has no {RECORD_FILE}", path.display()))
            .help("name a run's folder, ROOT/<cell>/<seed>"));
    }
    let text = input::text_up_to(&file, MAX_RECORD_MB)?;
    let record = match reader(&text) {
        Ok(record) if record.schema == RECORD_SCHEMA => on_one_line(record),
        read => return Err(unreadable(&file, &text, read.err())),
    };
    match seed_of_place(&file) {
        Some((name, seed)) if seed != record.seed => {
            let text = format!("the folder is seed {seed}'s, and the record in it is seed {}'s", record.seed);
            let root = file.ancestors().nth(3).unwrap_or(Path::new(""));
            Err(Error::input(text).help(removal(&name, root)).at(Spot::file(&file)))
        }
        _ => Ok(record),
    }
}

/// The remedy for a run in the wrong place.
fn removal(name: &str, root: &Path) -> String {
    let root = root.display().to_string();
    let root = if root.is_empty() { "." } else { &root };
    format!("'schedlab runs rm {name} --out {root} --yes' takes the run away; then make it again")
}

/// The seed in the name of a run's folder in a store, and `CELL/SEED`; `None` for a record elsewhere.
fn seed_of_place(file: &Path) -> Option<(String, u64)> {
    let file = std::path::absolute(file).ok().filter(|f| f.ends_with(RECORD_FILE))?;
    let folder = file.parent()?;
    let (name, cell) = (folder.file_name()?.to_str()?, folder.parent()?.file_name()?.to_str()?);
    is_cell(cell).then_some(())?;
    Some((format!("{cell}/{name}"), name.parse().ok()?))
}

/// Replaces line breaks in names, so that tables stay intact. schedlab writes no such names, but a record may be
/// foreign. Texts are escaped where they are printed.
fn on_one_line(mut record: Record) -> Record {
    let task_names = record.found.tasks.iter_mut().map(|t| &mut t.name);
    let names = [
        &mut record.kernel,
        &mut record.workload,
        &mut record.load,
        &mut record.variant.name,
        &mut record.variant.kernel,
        &mut record.machine.name,
    ];
    for name in names.into_iter().chain(task_names) {
        if let Cow::Owned(escaped) = printable::name(name) {
            *name = escaped;
        }
    }
    record.found.series = on_one_line_each(record.found.series);
    record.found.counters = on_one_line_each(record.found.counters);
    record.found.figures = on_one_line_each(record.found.figures);
    record
}

fn on_one_line_each<T>(named: BTreeMap<String, T>) -> BTreeMap<String, T> {
    if !named.keys().any(|name| name.contains(printable::acts)) {
        return named;
    }
    named.into_iter().map(|(name, value)| (printable::name(&name).into_owned(), value)).collect()
}

/// The message of a JSON error, without the place, and without the names of our types.
pub fn words(e: &serde_json::Error) -> String {
    let words = e.to_string();
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(w, _)| w);
    match [", expected struct ", ", expected enum "].iter().find_map(|named| words.split_once(named)) {
        Some((found, _)) if found.starts_with("invalid length") => "a list, expected an object".to_owned(),
        Some((found, _)) => format!("{found}, expected an object"),
        None => words.to_owned(),
    }
}

/// Describes why a text is not a record of this version: its schema first, on which all other fields depend.
fn unreadable(file: &Path, text: &str, wrong: Option<serde_json::Error>) -> Error {
    let malformed = |e: &serde_json::Error| {
        let spot = Spot { file: file.to_owned(), line_column: Some((e.line(), e.column())) };
        let help = if file.file_name().is_some_and(|name| name == RECORD_FILE) {
            "the file is damaged; take the run's folder away and run it again"
        } else {
            "name a run's folder, ROOT/<cell>/<seed>; 'schedlab import FILE' makes a run of a recording, and 'schedlab \
                 compare' reads other tools' output"
        };
        Error::input(format!("not a whole record: {}", words(e))).help(help).at(spot)
    };
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let schema = match serde_json::from_str::<Head>(text) {
        Ok(head) => head.schema,
        Err(e) => return malformed(&e),
    };
    match (schema, wrong) {
        (Some(schema), Some(e)) if schema == RECORD_SCHEMA => malformed(&e),
        (Some(other), _) => Error::input(format!("schema is '{other}', and '{RECORD_SCHEMA}' was expected"))
            .help("the run is another version's; make it again with this one")
            .at(Spot::file(file)),
        (None, _) => Error::input("not a record: it has no schema").at(Spot::file(file)),
    }
}

/// All runs in a run folder, a store, or any folder above, sorted by folder; seeds sort as numbers.
///
/// # Errors
/// When the path does not exist or can't be read, or holds no run.
pub fn list(path: &Path) -> Result<Vec<RunDir>> {
    fs::metadata(path).map_err(|e| Error::io(path, "read", &e))?;
    let mut found = Vec::new();
    if path.is_file() {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        collect(parent, 0, &mut found)?;
    } else {
        collect(path, MAX_DEPTH, &mut found)?;
    }
    if found.is_empty() {
        return Err(Error::input(format!("no runs in {}", path.display()))
            .help(format!("a run is a folder with a {RECORD_FILE}")));
    }
    found.sort_by_key(RunDir::order);
    Ok(found)
}

fn collect(dir: &Path, depth: usize, found: &mut Vec<RunDir>) -> Result<()> {
    if dir.join(RECORD_FILE).is_file() {
        found.push(RunDir { path: dir.to_owned() });
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let entries = fs::read_dir(dir).map_err(|e| Error::io(dir, "read", &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(dir, "read", &e))?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Links are not followed: a store has none, and they could form a cycle.
        if !hidden && entry.file_type().is_ok_and(|t| t.is_dir()) {
            collect(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
