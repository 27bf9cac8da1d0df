//! The journal of changed settings: the old values, stored on disk before the change.
//!
//! One file per changed item, in a folder of the state directory: boot id, owner with its start time, file, old value,
//! every value that this owner may write, and the form in which the file reads back. An entry is written under a
//! temporary name, synced, renamed, and its folder synced; only then the setting is written. An entry is removed when
//! its setting is restored. An unreadable entry stays pending; a readable but torn entry is set aside. `trust` decides
//! which entries count.
//!
//! Entries are made and removed only under the machine's lock ([`Lock`]), an flock(2) on a folder of /sys. All users
//! share that lock, unlike a user's state folder. It needs no file, and the kernel drops it with its holder.
//!
//! Root's folder is the machine's, even if HOME differs under sudo: only root changes the system, and every root shell
//! must find the entries of others. Only [`judge`] decides when an old value is restored.

use super::files::Files;
use super::form::{Form, Write};
use super::{reach, trust};
pub use crate::settings::owner::Owner;
use crate::watch::tracepoints::instance;
use schedlab_base::{Error, Result, Warning};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The environment variable for the state folder; the journal is its folder `journal`.
pub const STATE_VARIABLE: &str = "SCHEDLAB_STATE_DIR";
/// The state folder of root.
const MACHINE_STATE: &str = "/var/lib/schedlab";
const SCHEMA: &str = "schedlab/journal/1";
const ENDING: &str = ".json";
const UNFINISHED: &str = ".tmp";
const SET_ASIDE: &str = ".unreadable";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    schema: String,
    /// The boot that made it (/proc/sys/kernel/random/boot_id).
    pub boot: String,
    pub owner: Owner,
    pub setting: String,
    pub path: PathBuf,
    pub form: Form,
    /// The value whose write restores the setting.
    pub old: String,
    /// Every value its owner may have written.
    pub written: Vec<String>,
    /// Whether the change survives its owner, until its user asks for the old value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
}

impl Entry {
    /// An entry for an item that all of `writes` will change.
    pub fn new(now: &Moment<'_>, writes: &[&Write], old: String) -> Entry {
        let first = writes[0];
        Entry {
            schema: SCHEMA.to_owned(),
            boot: now.boot.clone(),
            owner: now.me,
            setting: first.setting.clone(),
            path: first.path.clone(),
            form: first.form,
            old,
            written: writes.iter().map(|w| w.value.clone()).collect(),
            stays: false,
        }
    }
    /// The current value of this entry's item.
    ///
    /// # Errors
    /// As read(2); [`io::ErrorKind::InvalidData`] if the file does not mention it; and when the path is not the
    /// setting's.
    pub fn current(&self, files: &dyn Files) -> io::Result<Current> {
        trust::leads_to(files, self)?;
        let text = reach::text(files, self.form, &self.path)?;
        if text.is_empty() && self.form == Form::Plain && !trust::is_kernels(&self.path) {
            return Ok(Current::Emptied);
        }
        let value = self.form.current(&text, &self.old);
        value.map(Current::Says).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The current content of an entry's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Current {
    /// A value, possibly empty.
    Says(String),
    /// An ordinary file without a byte. A write empties it first, and the writer may have been killed in between.
    Emptied,
}

impl Current {
    /// The value; empty for an emptied file.
    pub fn shown(&self) -> &str {
        match self {
            Current::Says(value) => value,
            Current::Emptied => "",
        }
    }
}

/// The facts for judging entries: the boot, the asking process, and live processes.
pub struct Moment<'a> {
    pub boot: String,
    /// The asking process.
    pub me: Owner,
    /// Whether a process is alive.
    pub alive: &'a dyn Fn(Owner) -> bool,
}

impl Moment<'_> {
    /// # Errors
    /// When /proc is not mounted.
    pub fn now() -> Result<Moment<'static>> {
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(path).map_err(|e| Error::io(path, "read", &e))?.trim().to_owned();
        let me = Owner::of(std::process::id()).ok_or_else(|| {
            Error::machine("/proc does not show this process, so no setting can be changed safely")
        })?;
        Ok(Moment { boot, me, alive: &|owner| Owner::of(owner.pid) == Some(owner) })
    }
}

/// The decision about an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The old value is restored.
    PutBack,
    /// The setting has its old value: the entry is removed.
    AsBefore,
    /// Somebody else has changed the setting since then: that value stays, and the entry is removed with a warning.
    Theirs(String),
    /// The entry is from an earlier boot, which the setting did not survive: the entry is removed.
    OtherBoot,
    /// Its owner is alive and will restore it.
    OwnerAlive,
    /// Permanent until its user asks for the old value.
    Stays,
    /// The file can't be read now: the entry stays.
    Unseen(String),
}

/// The owners whose entries are restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Dead processes' entries, except permanent ones.
    Gone,
    /// Dead processes' entries, including permanent ones: the user asks.
    Asked,
    /// This process's entries.
    Mine,
}

/// Decides about an entry, given the current value of its item.
pub fn judge(entry: &Entry, now: &Moment<'_>, whose: Whose, current: io::Result<Current>) -> Verdict {
    if entry.boot != now.boot {
        return Verdict::OtherBoot;
    }
    let mine = entry.owner == now.me;
    if (whose == Whose::Mine) != mine || (!mine && (now.alive)(entry.owner)) {
        return Verdict::OwnerAlive;
    }
    if entry.stays && whose == Whose::Gone {
        return Verdict::Stays;
    }
    match current {
        Err(e) => Verdict::Unseen(e.to_string()),
        Ok(Current::Emptied) if entry.old.is_empty() => Verdict::AsBefore,
        Ok(Current::Emptied) => Verdict::PutBack,
        Ok(Current::Says(value)) if Form::same(&value, &entry.old) => Verdict::AsBefore,
        Ok(Current::Says(value)) if entry.written.iter().any(|w| Form::same(&value, w)) => Verdict::PutBack,
        Ok(Current::Says(value)) => Verdict::Theirs(value),
    }
}

/// The right to change this machine's settings; one process at a time has it.
#[derive(Debug)]
pub struct Lock(pub(super) File);

impl Drop for Lock {
    /// Releases the lock. A child just forked by another thread has a copy of the file until it executes its program,
    /// so closing alone would release the lock a little later.
    fn drop(&mut self) {
        // The last copy releases it in any case.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// # Errors
    /// When another process holds the lock.
    pub fn take(folder: &Path) -> Result<Lock> {
        let file = File::open(folder).map_err(|e| Error::io(folder, "open", &e))?;
        match crate::sys::lock_now(&file) {
            Ok(true) => Ok(Lock(file)),
            Ok(false) => {
                let text = "another schedlab is changing settings of this machine";
                let help = format!("wait for its end; 'lslocks' shows who holds {}", folder.display());
                Err(Error::machine(text).help(help))
            }
            Err(e) => Err(Error::machine(format!("can't lock {}: {e}", folder.display()))),
        }
    }
}

/// This user's state folder, with the journal and other data about this machine.
///
/// # Errors
/// When the environment names none.
pub fn state_folder() -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = named(STATE_VARIABLE)
        .or_else(|| crate::sys::is_root().then(|| PathBuf::from(MACHINE_STATE)))
        .or_else(|| named("XDG_STATE_HOME").map(|d| d.join("schedlab")))
        .or_else(|| named("HOME").map(|d| d.join(".local/state/schedlab")));
    state.ok_or_else(|| {
        Error::input("there is no folder for the state of settings and machine: HOME is not set")
            .help(format!("{STATE_VARIABLE} names one"))
    })
}

/// A folder of entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journal {
    folder: PathBuf,
}

#[derive(Debug)]
pub enum Content {
    Whole(Entry),
    /// Not an entry: its writer was killed, or the file is not schedlab's.
    Torn,
    /// Unknown: the file can't be read now, for this reason.
    Unread(String),
}

pub type JournalFile = (PathBuf, Content);

impl Journal {
    /// This user's journal.
    ///
    /// # Errors
    /// When the environment has no folder for it.
    pub fn own() -> Result<Journal> {
        Ok(Journal { folder: state_folder()?.join("journal") })
    }
    /// This user's journal, and the machine's if it is another one and readable.
    pub fn all() -> Result<Vec<Journal>> {
        let own = Journal::own()?;
        let machine = Journal { folder: Path::new(MACHINE_STATE).join("journal") };
        let both = own != machine && std::env::var_os(STATE_VARIABLE).is_none() && machine.folder.is_dir();
        Ok(if both { vec![own, machine] } else { vec![own] })
    }
    pub fn at(folder: &Path) -> Journal {
        Journal { folder: folder.to_owned() }
    }
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes entries to disk in order; returns their paths.
    ///
    /// # Errors
    /// When the disk refuses; no entry is left then.
    pub fn keep(&self, entries: &[Entry]) -> Result<Vec<PathBuf>> {
        let begun = crate::sys::boottime_ns();
        let mut kept = Vec::new();
        let result = fs::create_dir_all(&self.folder)
            .and_then(|()| {
                entries.iter().enumerate().try_for_each(|(i, entry)| {
                    let name = format!("{begun:020}-{}-{i:05}{ENDING}", entry.owner.pid);
                    kept.push(self.folder.join(name));
                    write_synced(&kept[i], &serde_json::to_vec_pretty(entry)?)
                })
            })
            .and_then(|()| File::open(&self.folder)?.sync_all());
        match result {
            Ok(()) => Ok(kept),
            Err(e) => {
                kept.iter().for_each(|path| drop(fs::remove_file(path)));
                let text = format!("can't keep the journal of settings in {}: {e}", self.folder.display());
                Err(Error::machine(text)
                    .help(format!("nothing was changed; {STATE_VARIABLE} names another folder")))
            }
        }
    }

    /// Every entry, latest first, including torn and unreadable ones.
    pub fn entries(&self) -> Vec<JournalFile> {
        let listed = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = listed.map(|e| e.path()).filter(|p| has_ending(p, ENDING)).collect();
        paths.sort();
        paths.reverse();
        paths.into_iter().filter_map(|path| content(&path).map(|content| (path, content))).collect()
    }

    /// Removes unfinished files of writers that were killed before the rename: their settings were not written yet.
    /// Call it only under the lock.
    fn clear_unfinished(&self) {
        let listed = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        listed.map(|e| e.path()).filter(|p| has_ending(p, UNFINISHED)).for_each(|p| drop(fs::remove_file(p)));
    }
}

/// The content of an entry's file; `None` if another process has just removed it. The limit for inputs does not apply:
/// an entry is schedlab's own, and a wrong limit must not hide it.
fn content(path: &Path) -> Option<Content> {
    let bytes = match trust::entry_bytes(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => return Some(Content::Unread(e.to_string())),
        Ok(trust::Bytes::TooLong) => return Some(Content::Torn),
        Ok(trust::Bytes::Whole(bytes)) => bytes,
    };
    let entry = serde_json::from_slice::<Entry>(&bytes).ok();
    let entry = entry.filter(|e| e.schema == SCHEMA && !e.written.is_empty());
    Some(entry.map_or(Content::Torn, Content::Whole))
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().ends_with(ending))
}

fn write_synced(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    // Independent of the umask: an entry that others may write is ignored. Others may read it, to report leftovers.
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o644).open(&unfinished)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// The result of restoring an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Recovered {
    /// The setting; "?" for a torn entry.
    pub setting: String,
    /// The setting's file; for a torn entry, the entry's file.
    pub path: PathBuf,
    /// Whether the setting has its old value.
    pub restored: bool,
    /// Whether it must still be restored.
    pub pending: bool,
    /// What happened, in a sentence.
    pub said: String,
    /// What the user can do while it is pending.
    #[serde(skip)]
    pub remedy: Option<String>,
}

/// Restores the journal's settings, latest change first, and reports each. Call it under the lock.
pub fn recover(journal: &Journal, files: &dyn Files, now: &Moment<'_>, whose: Whose) -> Vec<Recovered> {
    if whose != Whose::Mine {
        journal.clear_unfinished();
    }
    let one = |(file, content): JournalFile| match content {
        Content::Torn => (whose != Whose::Mine).then(|| set_aside(&file)),
        Content::Unread(why) => Some(unread(file, &why)),
        Content::Whole(entry) => put_back(&file, &entry, files, now, whose),
    };
    journal.entries().into_iter().filter_map(one).collect()
}

fn unread(file: PathBuf, why: &str) -> Recovered {
    let said = format!("{}, an entry of the journal, can't be read and stays: {why}", file.display());
    let remedy = trust::remedy(&file);
    Recovered { setting: "?".to_owned(), path: file, restored: false, pending: true, said, remedy }
}

fn set_aside(file: &Path) -> Recovered {
    let mut aside = file.as_os_str().to_owned();
    aside.push(SET_ASIDE);
    let aside = PathBuf::from(aside);
    let moved = fs::rename(file, &aside).is_ok();
    let place = if moved { &aside } else { file }.display().to_string();
    let said = format!("an entry of the journal is torn, so its setting is not known; it is kept as {place}");
    Recovered {
        setting: "?".to_owned(),
        path: file.to_owned(),
        restored: false,
        pending: false,
        said,
        remedy: None,
    }
}

fn put_back(
    file: &Path,
    entry: &Entry,
    files: &dyn Files,
    now: &Moment<'_>,
    whose: Whose,
) -> Option<Recovered> {
    let (path, old) = (entry.path.display(), entry.old.trim());
    let told = |restored, pending: bool, said: String| {
        if !pending {
            // An entry that can't be removed is judged again at the next start, with the same result.
            let _ = fs::remove_file(file);
        }
        let (setting, path) = (entry.setting.clone(), entry.path.clone());
        let remedy = if pending { Some(by_hand(file, entry)) } else { None };
        Some(Recovered { setting, path, restored, pending, said, remedy })
    };
    match judge(entry, now, whose, entry.current(files)) {
        Verdict::OwnerAlive | Verdict::Stays => None,
        Verdict::AsBefore => told(true, false, format!("{path} is '{old}', as it was")),
        Verdict::OtherBoot => {
            told(true, false, format!("{path} was changed before this boot: nothing to do"))
        }
        Verdict::Theirs(current) => told(
            false,
            false,
            format!("{path} is '{current}', which schedlab did not write: it stays; it was '{old}' before"),
        ),
        Verdict::Unseen(why) => told(false, true, format!("{path} can't be put back to '{old}': {why}")),
        Verdict::PutBack => match write_back(entry, files) {
            Ok(()) => told(true, false, format!("{path} is '{old}' again")),
            Err(why) => told(false, true, format!("{path} can't be put back to '{old}': {why}")),
        },
    }
}

/// The remedy for an entry whose setting can't be written or read.
fn by_hand(file: &Path, entry: &Entry) -> String {
    if trust::is_roots(file) && !crate::sys::is_root() {
        return "run it as root, which made the entry".to_owned();
    }
    format!(
        "write '{}' into {} by hand and run it again, or remove {} if that file is gone for good",
        entry.old.trim(),
        entry.path.display(),
        file.display()
    )
}

fn write_back(entry: &Entry, files: &dyn Files) -> std::result::Result<(), String> {
    reach::put(files, entry.form, &entry.path, &entry.old).map_err(|e| e.to_string())?;
    let now = entry.current(files).map_err(|e| e.to_string())?;
    let now = now.shown();
    if Form::same(now, &entry.old) { Ok(()) } else { Err(format!("the kernel keeps '{now}'")) }
}

fn still_records(path: PathBuf) -> Recovered {
    let said = format!("{} still records events for a run that was killed", path.display());
    Recovered {
        setting: instance::SETTING.to_owned(),
        path,
        restored: false,
        pending: true,
        said,
        remedy: None,
    }
}

/// Everything that must still be restored: entries of dead processes, and their tracing instances, with a sentence
/// each.
pub fn pending(files: &dyn Files) -> Result<Vec<Recovered>> {
    let now = Moment::now()?;
    let left = instance::left(files.instances());
    let mut all: Vec<Recovered> = left.iter().map(|name| still_records(instance::shown(name))).collect();
    for (file, content) in Journal::all()?.iter().flat_map(Journal::entries) {
        let entry = match content {
            Content::Whole(entry) => entry,
            Content::Unread(why) => {
                all.push(unread(file, &why));
                continue;
            }
            Content::Torn => {
                let said = format!("{} is torn: 'schedlab restore' sets it aside", file.display());
                all.push(Recovered {
                    setting: "?".to_owned(),
                    path: file,
                    restored: false,
                    pending: true,
                    said,
                    remedy: None,
                });
                continue;
            }
        };
        let current = entry.current(files);
        let old = entry.old.trim();
        let shown = match &current {
            Ok(now) => format!("is '{}' and was '{old}'", now.shown()),
            Err(e) => format!("was '{old}', and can't be put back: {e}"),
        };
        if matches!(judge(&entry, &now, Whose::Gone, current), Verdict::PutBack | Verdict::Unseen(_)) {
            let (setting, path) = (entry.setting.clone(), entry.path.clone());
            let said = format!("{} {shown}", path.display());
            all.push(Recovered { setting, path, restored: false, pending: true, said, remedy: None });
        }
    }
    Ok(all)
}

/// A warning about pending entries for every live run: the machine is not in its usual state.
pub fn warning(files: &dyn Files) -> Option<Warning> {
    let left = pending(files).ok()?;
    let told: Vec<&str> = left.iter().map(|r| r.said.as_str()).collect();
    let text = format!(
        "a run that was killed left settings changed: {}; 'schedlab restore' puts them back",
        told.join("; ")
    );
    (!left.is_empty()).then(|| Warning::new("settings.left", text))
}
