//! Applies a plan's changes, and undoes them in any case.

use super::expand::refused;
use super::files::Files;
use super::form::{Form, Write};
use super::journal::{Entry, Journal, Lock, Moment, Recovered, Whose, recover};
use super::plan::{Later, Plan};
use super::reach;
use super::system::System;
use crate::settings::cgroups;
use crate::watch::tracepoints::instance;
use schedlab_base::{Error, Result, Warning};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

/// Applied changes. They are undone when this is dropped, or before.
pub struct Applied {
    system: System,
    journal: Journal,
    entries: Vec<Entry>,
    /// Settings that killed processes had left changed, each with the result of restoring it.
    pub recovered: Vec<Recovered>,
    /// The changes by setting: the value read back, and the old value.
    pub told: BTreeMap<String, String>,
    /// Changes still to be made during the run; the journal has their old values already.
    pub later: Vec<Later>,
    lock: Option<Lock>,
}

impl Plan {
    /// Restores settings that killed processes left, writes the old values to the journal, and makes the changes before
    /// the run.
    ///
    /// # Errors
    /// When another schedlab is changing settings, the journal can't be written, or the kernel refuses a value. Nothing
    /// is changed then.
    pub fn apply(&self) -> Result<Applied> {
        self.apply_on(System::live(), Journal::own()?)
    }

    /// Makes the changes permanent until [`put_back_left`]; returns the settings in the form of [`Applied::told`].
    pub fn keep(&self) -> Result<BTreeMap<String, String>> {
        self.keep_on(System::live(), Journal::own()?)
    }

    /// As [`Plan::keep`], on another system and journal.
    pub fn keep_on(&self, system: System, journal: Journal) -> Result<BTreeMap<String, String>> {
        let mut applied = self.change(system, journal, true)?;
        // Without the lock, the drop restores nothing.
        applied.lock = None;
        Ok(std::mem::take(&mut applied.told))
    }

    /// As [`Plan::apply`], on another system and journal.
    pub fn apply_on(&self, system: System, journal: Journal) -> Result<Applied> {
        self.change(system, journal, false)
    }

    fn change(&self, system: System, journal: Journal, stays: bool) -> Result<Applied> {
        let lock = Some(Lock::take(&system.lock_folder())?);
        let now = Moment::now()?;
        let recovered = recover(&journal, &system, &now, Whose::Gone);
        let mut entries = entries(self, &system, &now)?;
        entries.iter_mut().for_each(|entry| entry.stays = stays);
        journal.keep(&entries)?;
        let later = self.later.clone();
        // From here on dropping it restores everything.
        let mut applied = Applied { system, journal, entries, recovered, told: BTreeMap::new(), later, lock };
        for write in self.writes.iter().chain(&self.within) {
            make(&applied.system, write)?;
        }
        applied.told = applied.values_in_words();
        Ok(applied)
    }
}

/// An entry for each item that a plan changes, with its current value.
fn entries(plan: &Plan, files: &dyn Files, now: &Moment<'_>) -> Result<Vec<Entry>> {
    let mut knobs: Vec<Vec<&Write>> = Vec::new();
    for write in plan.all() {
        match knobs.iter_mut().find(|k| k[0].same_knob(write)) {
            Some(knob) => knob.push(write),
            None => knobs.push(vec![write]),
        }
    }
    let entry = |knob: &Vec<&Write>| {
        let first = knob[0];
        let text = reach::text(files, first.form, &first.path)
            .map_err(|e| refused(&first.setting, &first.path, "read", &e))?;
        let old = first.form.old(&text, &first.value).ok_or_else(|| {
            let text =
                format!("setting '{}': {} does not show its value", first.setting, first.path.display());
            Error::machine(text)
        })?;
        Ok(Entry::new(now, knob, old))
    };
    knobs.iter().map(entry).collect()
}

/// Writes a value and checks that it reads back.
///
/// # Errors
/// When it does not.
pub fn make(files: &dyn Files, write: &Write) -> Result<()> {
    let fault = |doing: &str, e: &std::io::Error| refused(&write.setting, &write.path, doing, e);
    let text = if write.form == Form::Plain { format!("{}\n", write.value) } else { write.value.clone() };
    let doing = if write.form == Form::Folder { "make" } else { "change" };
    reach::put(files, write.form, &write.path, &text).map_err(|e| fault(doing, &e))?;
    let text = reach::text(files, write.form, &write.path).map_err(|e| fault("read", &e))?;
    let now = write.form.current(&text, &write.value).unwrap_or_default();
    if Form::same(&now, &write.value) {
        return Ok(());
    }
    let (setting, path) = (&write.setting, write.path.display());
    Err(Error::machine(format!("setting '{setting}': {path} was given '{}' and keeps '{now}'", write.value)))
}

impl Applied {
    /// By setting: the current value, the number of files if there are several, and the old value.
    fn values_in_words(&self) -> BTreeMap<String, String> {
        let mut tallies: BTreeMap<&str, [BTreeMap<String, usize>; 2]> = BTreeMap::new();
        // Control groups belong to the workload, not to the variant.
        for entry in self.entries.iter().filter(|e| e.setting != cgroups::SETTING) {
            let now = entry.current(&self.system).map_or_else(|e| e.to_string(), |c| c.shown().to_owned());
            let [after, before] = tallies.entry(&entry.setting).or_default();
            *after.entry(now).or_default() += 1;
            *before.entry(entry.old.trim().to_owned()).or_default() += 1;
        }
        let told = |[after, before]: &[BTreeMap<String, usize>; 2]| {
            format!("{} (was {})", tally(after), tally(before))
        };
        tallies.iter().map(|(setting, both)| (format!("setting.{setting}"), told(both))).collect()
    }

    /// Restores everything now; returns warnings for the reader of the result.
    pub fn put_back(mut self) -> Vec<Warning> {
        self.restore()
    }

    fn restore(&mut self) -> Vec<Warning> {
        let Some(lock) = self.lock.take() else { return Vec::new() };
        let warning = |said| Warning::new("settings.restore", said);
        let done = match Moment::now() {
            Ok(now) => recover(&self.journal, &self.system, &now, Whose::Mine),
            Err(e) => return vec![warning(e.to_string())],
        };
        drop(lock);
        done.into_iter().filter(|r| !r.restored).map(|r| warning(r.said)).collect()
    }
}

impl Drop for Applied {
    /// Restores everything after an error or a panic. Settings that can't be restored stay in the journal, and the next
    /// start reports them.
    fn drop(&mut self) {
        self.restore();
    }
}

fn tally(values: &BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    let files = values.values().sum::<usize>();
    for (value, n) in values {
        let before = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{before}{value}");
        if files > values.len() {
            let _ = write!(text, " in {n}");
        }
    }
    text
}

/// Restores all changes of this process without its [`Applied`], and stops its recording; for an exit without
/// unwinding.
pub fn put_back_mine() {
    instance::stop_mine();
    if let (Ok(journal), Ok(now)) = (Journal::own(), Moment::now()) {
        recover(&journal, &System::live(), &now, Whose::Mine);
    }
}

/// The result of removing a tracing instance that a killed run left.
fn removed((path, done): (PathBuf, io::Result<()>)) -> Recovered {
    let said = match &done {
        Ok(()) => format!("{}, in which a killed run recorded events, is removed", path.display()),
        Err(e) => format!("{} can't be removed: {e}", path.display()),
    };
    let setting = instance::SETTING.to_owned();
    let remedy = (done.is_err() && !crate::sys::is_root()).then(|| "run it as root".to_owned());
    Recovered { setting, path, restored: done.is_ok(), pending: done.is_err(), said, remedy }
}

/// Restores the changes of dead processes, including permanent ones, and removes their tracing instances.
///
/// # Errors
/// When another schedlab is changing settings.
pub fn put_back_left() -> Result<Vec<Recovered>> {
    let system = System::live();
    let _lock = Lock::take(&system.lock_folder())?;
    let now = Moment::now()?;
    let mut done: Vec<Recovered> =
        Journal::all()?.iter().flat_map(|j| recover(j, &system, &now, Whose::Asked)).collect();
    done.extend(instance::clear_left().into_iter().map(removed));
    Ok(done)
}
