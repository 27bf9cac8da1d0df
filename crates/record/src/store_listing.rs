//! The contents of a store, cell by cell, and their removal.
//!
//! A cell is a folder named by 32 hexadecimal digits. A run is a folder in it, named by its seed, with a `record.json`.
//! A folder whose name begins with a dot and ends in `.tmp` is an unfinished run that is being written. Anything else
//! is not listed and never removed. A run with files that schedlab did not write is not removed either. Links are not
//! followed.
//!
//! Several processes may remove the same runs. A run that another process removed first counts as removed.

use crate::record_wire::without_waits;
use crate::store::{MAX_RECORD_MB, RECORD_FILE, RunDir, TEMP_PREFIX, words};
use crate::{RECORD_SCHEMA, version_of};
use schedlab_base::{Backend, Error, GuestMode, Origin, Result, Spot, input, temp};
use schedlab_trace::kept::EVENTS_FILE;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The experiment that made a run, in the run's folder.
pub const EXPERIMENT_FILE: &str = "experiment.toml";
/// The log of a guest's kernel, in the run's folder.
pub const KERNEL_LOG_FILE: &str = "kernel.log";
/// Instructions of the scheduler's functions, in the run's folder.
pub const INSTRUCTIONS_FILE: &str = "instructions.csv";
/// Sampled call chains of the scheduler's own code, in the run's folder: in each line the functions of a chain,
/// separated by ';', and the number of samples, as flame graph tools read them.
pub const CHAINS_FILE: &str = "stacks.folded";
/// Every file that schedlab writes in a run's folder.
const OURS: &[&str] =
    &[RECORD_FILE, EXPERIMENT_FILE, KERNEL_LOG_FILE, INSTRUCTIONS_FILE, CHAINS_FILE, EVENTS_FILE];
/// The schema of every record, without its number.
const RECORD_SCHEMA_OF: &str = "schedlab/record/";
/// Digits of a cell's name.
pub const CELL_DIGITS: usize = 32;

#[derive(Clone, Debug)]
pub struct HeldCell {
    pub folder: PathBuf,
    /// The folder's name, which is the cell's hash.
    pub name: String,
    /// Its runs, by seed.
    pub runs: Vec<HeldRun>,
    /// Folders of unfinished runs, whose writers were killed.
    pub abandoned: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct HeldRun {
    pub run: RunDir,
    pub seed: u64,
    pub bytes: u64,
    pub made: SystemTime,
}

/// The part of a record that describes its cell, read without the rest.
#[derive(Clone, Debug, Deserialize)]
pub struct RunHead {
    pub schema: String,
    /// The version of the code that made it.
    pub model: u32,
    pub backend: Origin,
    machine: Named,
    pub kernel: String,
    variant: Named,
    pub workload: String,
    pub load: String,
    guest: Option<GuestHead>,
}

#[derive(Clone, Debug, Deserialize)]
struct GuestHead {
    mode: GuestMode,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
}

impl RunHead {
    /// Reads the head of a run's record.
    ///
    /// # Errors
    /// When the record can't be read, or the file is not a record.
    pub fn of(run: &RunDir) -> Result<RunHead> {
        let file = run.path.join(RECORD_FILE);
        let text = input::text_up_to(&file, MAX_RECORD_MB)?;
        without_waits(&text).map_err(|e: serde_json::Error| {
            let spot = Spot { file, line_column: Some((e.line(), e.column())) };
            Error::input(format!("not a whole record: {}", words(&e))).at(spot)
        })
    }
    pub fn machine(&self) -> &str {
        &self.machine.name
    }
    pub fn variant(&self) -> &str {
        &self.variant.name
    }
    /// Why this version of schedlab would make the run again; `None` if it would use the stored run.
    pub fn outdated(&self) -> Option<String> {
        if self.schema != RECORD_SCHEMA {
            return Some(format!("its record is a {}, and {RECORD_SCHEMA} is written now", self.schema));
        }
        let (made, now) = (self.model, version_of(&self.backend));
        let what = match self.backend.made_by() {
            Some(Backend::Sim) => "simulated by model",
            Some(Backend::Code) => "driven by engine",
            Some(Backend::Host | Backend::Vm) | None => "watched by version",
        };
        let newer = if made > now { ", which is newer" } else { "" };
        (made != now).then(|| format!("{what} {made}{newer}, this is {now}"))
    }
    /// Whether a newer or unknown version made it. Another installed schedlab may be able to use the run.
    pub fn is_newer(&self) -> bool {
        let number = |schema: &str| schema.strip_prefix(RECORD_SCHEMA_OF)?.parse::<u32>().ok();
        match (number(&self.schema), number(RECORD_SCHEMA)) {
            (Some(made), Some(now)) if made < now => false,
            (Some(made), Some(now)) if made == now => self.model > version_of(&self.backend),
            _ => true,
        }
    }
    /// Whether it was measured in real time, on a host or in a guest. Such a run can't be made again.
    pub fn is_live(&self) -> bool {
        !self.backend.is_simulated() && self.guest.as_ref().is_none_or(|g| g.mode != GuestMode::Deterministic)
    }
}

/// The other parts of a record that describe its cell, as plain data. A missing part is null.
#[derive(Clone, Debug, Deserialize)]
pub struct Identity {
    /// The workload and its parameters.
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub variant: Value,
    /// How closely a live run was watched.
    #[serde(default)]
    pub observe: Value,
    #[serde(default)]
    pub guest: Value,
    /// The image of the kernel's own code.
    #[serde(default)]
    pub code: Value,
    #[serde(default)]
    pub machine: Value,
    /// Figures of the machine that were drawn from ranges.
    #[serde(default)]
    pub drawn: Vec<IgnoredAny>,
    #[serde(default)]
    pub model: Value,
    #[serde(default)]
    pub resolved: Value,
}

impl Identity {
    /// Reads the parts from a run's record; `None` if it can't be read.
    pub fn of(run: &RunDir) -> Option<Identity> {
        let text = input::text_up_to(&run.path.join(RECORD_FILE), MAX_RECORD_MB).ok()?;
        serde_json::from_str(&text).ok()
    }
}

impl HeldCell {
    /// Size of all its runs, bytes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.bytes).sum()
    }
}

/// The cells of a store, sorted by name. Cells without any run, finished or not, are left out.
///
/// # Errors
/// When the folder does not exist or can't be read.
pub fn holdings(root: &Path) -> Result<Vec<HeldCell>> {
    let mut cells = Vec::new();
    for entry in folders(root)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_cell(&name) {
            let cell = held(entry.path(), name)?;
            if !cell.runs.is_empty() || !cell.abandoned.is_empty() {
                cells.push(cell);
            }
        }
    }
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cells)
}

pub fn is_cell(name: &str) -> bool {
    name.len() == CELL_DIGITS && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The subfolders, without links.
fn folders(path: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(path).map_err(|e| Error::io(path, "read", &e))?;
    let entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(|e| Error::io(path, "read", &e))?;
    Ok(entries.into_iter().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).collect())
}

fn held(folder: PathBuf, name: String) -> Result<HeldCell> {
    let (mut runs, mut abandoned) = (Vec::new(), Vec::new());
    for entry in folders(&folder)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if is_unfinished(&name) {
            if temp::is_left(&path) && ours(&path).is_ok() {
                abandoned.push(path);
            }
        } else if let Some(run) = name.parse().ok().and_then(|seed| held_run(path, seed)) {
            runs.push(run);
        }
    }
    runs.sort_by_key(|r| r.seed);
    Ok(HeldCell { folder, name, runs, abandoned })
}

fn held_run(path: PathBuf, seed: u64) -> Option<HeldRun> {
    let record = fs::symlink_metadata(path.join(RECORD_FILE)).ok().filter(fs::Metadata::is_file)?;
    let made = record.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(HeldRun { bytes: bytes(&path), seed, made, run: RunDir { path } })
}

fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).filter(fs::Metadata::is_file).map(|m| m.len()).sum()
}

/// Whether a run is being written under this name: `.run.PID.NUMBER.tmp`; before 0.2.0 `.SEED.PID.tmp`.
fn is_unfinished(name: &str) -> bool {
    let numbers =
        |text: &str| text.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let ours = name.strip_prefix(TEMP_PREFIX).or_else(|| name.strip_prefix('.'));
    ours.and_then(|n| n.strip_suffix(temp::ENDING)).is_some_and(|n| n.contains('.') && numbers(n))
}

/// The files of a run's folder, if schedlab wrote them all; none if the folder does not exist.
fn ours(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| Error::io(folder, "read", &e))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(folder, "read", &e))?;
        let name = entry.file_name();
        let known = OURS.iter().any(|ours| name == *ours);
        if !known || !entry.file_type().is_ok_and(|t| t.is_file()) {
            let text = format!("{} holds {}, which schedlab did not write", folder.display(), name.display());
            return Err(Error::input(text).help("it stays; take that away first"));
        }
        files.push(entry.path());
    }
    Ok(files)
}

/// Removes a run, and its cell's folder if that becomes empty. The run is renamed first, so that no process reads half
/// of it. A kill leaves an unfinished run.
///
/// # Errors
/// A folder with files that are not ours, of which nothing is removed; a file that can't be removed.
pub fn remove_run(run: &HeldRun) -> Result<()> {
    ours(&run.run.path)?;
    let cell = run.run.path.parent().unwrap_or(Path::new("."));
    let aside = temp::new_name(cell, TEMP_PREFIX);
    gone(fs::rename(&run.run.path, &aside)).map_err(|e| Error::io(&run.run.path, "remove", &e))?;
    remove_unfinished(&aside)
}

/// Removes an unfinished run, and its cell's folder if that becomes empty.
pub fn remove_unfinished(folder: &Path) -> Result<()> {
    for file in ours(folder)? {
        gone(fs::remove_file(&file)).map_err(|e| Error::io(&file, "remove", &e))?;
    }
    gone(fs::remove_dir(folder)).map_err(|e| Error::io(folder, "remove", &e))?;
    // This fails, as it should, while the cell has other runs.
    let _ = folder.parent().map(fs::remove_dir);
    Ok(())
}

/// Treats "not found" as success: another process has removed it.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::cell_hash;
    use crate::store::Store;
    use crate::tests::record;

    struct Lab {
        _dir: tempfile::TempDir,
        store: Store,
        cell: String,
    }

    /// A store with one cell and two runs.
    fn lab() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("runs")).unwrap();
        let cell = cell_hash(&record(1));
        for seed in [10, 9] {
            store.put(&cell, seed, &record(seed), &[(EXPERIMENT_FILE, b"name = 'x'")]).unwrap();
        }
        Lab { _dir: dir, store, cell }
    }

    #[test]
    fn only_cells_are_listed_with_runs_sorted_by_seed() {
        let lab = lab();
        let root = lab.store.root();
        fs::create_dir_all(root.join("notes/3")).unwrap();
        fs::write(root.join("notes/3/record.json"), "{}").unwrap();
        fs::create_dir_all(root.join(&lab.cell).join("mine")).unwrap();
        std::os::unix::fs::symlink(root.join(&lab.cell), root.join("0".repeat(32))).unwrap();
        let held = holdings(root).unwrap();
        let seeds: Vec<u64> = held[0].runs.iter().map(|r| r.seed).collect();
        assert_eq!((held.len(), held[0].name.as_str(), seeds), (1, lab.cell.as_str(), vec![9, 10]));
        let files = fs::read_dir(&held[0].runs[0].run.path).unwrap().flatten();
        assert_eq!(held[0].runs[0].bytes, files.map(|f| f.metadata().unwrap().len()).sum::<u64>());
        let head = RunHead::of(&held[0].runs[0].run).unwrap();
        assert_eq!((head.machine(), head.variant(), head.load.as_str()), ("tiny", "v4.5", "2x24"));
        assert!(holdings(&root.join("nowhere")).is_err());
    }

    #[test]
    fn the_last_run_is_removed_with_its_cell() {
        let lab = lab();
        let held = holdings(lab.store.root()).unwrap();
        remove_run(&held[0].runs[0]).unwrap();
        assert_eq!(holdings(lab.store.root()).unwrap()[0].runs.len(), 1);
        remove_run(&held[0].runs[1]).unwrap();
        assert_eq!(fs::read_dir(lab.store.root()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_another_process_removed_counts_as_removed() {
        let lab = lab();
        let run = holdings(lab.store.root()).unwrap()[0].runs[0].clone();
        remove_run(&run).unwrap();
        remove_run(&run).unwrap();
        remove_unfinished(&lab.store.root().join(&lab.cell).join(".run.123.0.tmp")).unwrap();
        assert!(lab.store.get(&lab.cell, 10).is_some(), "the cell's other run stays");
        // Many at once: a file may disappear between the listing and its removal.
        let run = holdings(lab.store.root()).unwrap()[0].runs[0].clone();
        std::thread::scope(|scope| {
            let removed: Vec<_> = (0..8).map(|_| scope.spawn(|| remove_run(&run))).collect();
            removed.into_iter().for_each(|r| r.join().unwrap().unwrap());
        });
        assert_eq!(fs::read_dir(lab.store.root()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_with_foreign_files_is_kept() {
        let lab = lab();
        let run = holdings(lab.store.root()).unwrap()[0].runs[0].clone();
        fs::write(run.run.path.join("thesis.txt"), "years of work").unwrap();
        let e = remove_run(&run).unwrap_err();
        assert!(e.to_string().contains("thesis.txt"), "{e}");
        assert!(run.run.path.join(RECORD_FILE).is_file() && run.run.path.join("thesis.txt").is_file());
    }

    #[test]
    fn only_old_leftovers_are_abandoned() {
        let lab = lab();
        let left = lab.store.root().join(&lab.cell).join(".run.123.0.tmp");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(RECORD_FILE), "half").unwrap();
        assert!(holdings(lab.store.root()).unwrap()[0].abandoned.is_empty(), "it may be at work");
        let old = SystemTime::now() - std::time::Duration::from_secs(86_400);
        fs::File::open(&left).unwrap().set_modified(old).unwrap();
        assert_eq!(holdings(lab.store.root()).unwrap()[0].abandoned, std::slice::from_ref(&left));
        remove_unfinished(&left).unwrap();
        assert!(!left.exists() && lab.store.get(&lab.cell, 9).is_some());
    }

    #[test]
    fn runs_of_other_versions_say_which() {
        let lab = lab();
        let head = RunHead::of(&holdings(lab.store.root()).unwrap()[0].runs[0].run).unwrap();
        assert_eq!(head.outdated(), None);
        let differing = |backend: Backend, model: u32| {
            RunHead { backend: backend.into(), model, ..head.clone() }.outdated().unwrap_or_default()
        };
        assert!(differing(Backend::Sim, 3).contains("simulated by model 3"));
        assert!(differing(Backend::Host, crate::WATCHING - 1).contains("watched by version"));
        assert_eq!(differing(Backend::Vm, crate::WATCHING), "");
        let newer = |model: u32| RunHead { model, ..head.clone() }.is_newer();
        assert!(newer(head.model + 1) && !newer(head.model) && !newer(head.model - 1));
        let live = |backend: Backend, mode: Option<GuestMode>| {
            let guest = mode.map(|mode| GuestHead { mode });
            RunHead { backend: backend.into(), guest, ..head.clone() }.is_live()
        };
        assert!(
            live(Backend::Host, None)
                && live(Backend::Vm, Some(GuestMode::RealTime))
                && live(Backend::Vm, None)
        );
        assert!(!live(Backend::Sim, None) && !live(Backend::Vm, Some(GuestMode::Deterministic)));
        let other = RunHead { schema: "schedlab/record/0".into(), ..head };
        assert!(!other.is_newer());
        assert!(other.outdated().unwrap().contains("schedlab/record/0"));
    }
}
