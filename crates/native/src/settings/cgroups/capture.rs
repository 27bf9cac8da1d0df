//! What a control group of this system is limited to, and how often it was throttled meanwhile.

use super::hierarchy::top_folders;
use super::stat::counters;
use crate::settings::Files;
use schedlab_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a group that say what it gets, of both versions.
const STATED: &[&str] = &[
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.idle",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.shares",
];
const STAT: &str = "cpu.stat";

/// What a group's files say.
fn stated(files: &dyn Files, folder: &Path) -> BTreeMap<&'static str, String> {
    let read = |name: &&'static str| Some((*name, files.read(&folder.join(name)).ok()?.trim().to_owned()));
    STATED.iter().filter_map(read).collect()
}

/// A group whose counters are being watched.
pub struct WatchedGroup {
    /// Its path in its hierarchy.
    path: String,
    folder: PathBuf,
    /// Its counters at the beginning.
    before: BTreeMap<String, u64>,
    /// What its files said at the beginning.
    said: BTreeMap<&'static str, String>,
}

impl WatchedGroup {
    /// Begins to watch a group: a folder of a mounted hierarchy, or a path in the one with the cpu controller.
    ///
    /// # Errors
    /// When it does not exist or has no cpu controller.
    pub fn begin(files: &dyn Files, wanted: &str) -> Result<WatchedGroup> {
        let of_root = || {
            Error::input(format!("'{wanted}' is the root group, which has no limit"))
                .help("name a group below it; /proc/PID/cgroup has that of a process")
        };
        if wanted.trim_matches('/').is_empty() {
            return Err(of_root());
        }
        let tops = top_folders(files);
        let below = |top: &PathBuf| top.join(wanted.trim_start_matches('/'));
        let as_it_is = Path::new(wanted).to_owned();
        let all = std::iter::once(as_it_is).chain(tops.iter().map(below));
        let found = all.into_iter().find_map(|folder| Some((files.read(&folder.join(STAT)).ok()?, folder)));
        let Some((text, folder)) = found else {
            return Err(Error::input(format!("'{wanted}' is not a control group with the cpu controller"))
                .help("name its folder below /sys/fs/cgroup; /proc/PID/cgroup has that of a process"));
        };
        let path = tops.iter().find_map(|top| folder.strip_prefix(top).ok()).unwrap_or(&folder);
        let path = format!("/{}", path.display().to_string().trim_start_matches('/'));
        if path == "/" {
            return Err(of_root());
        }
        let said = stated(files, &folder);
        Ok(WatchedGroup { before: counters(&text), path, folder, said })
    }
    /// What the group is limited to, by the name of the file: `cgroup./web.cpu.max`. Of a group that is gone, what it
    /// was limited to at the beginning.
    pub fn stated(&self, files: &dyn Files) -> BTreeMap<String, String> {
        let now = stated(files, &self.folder);
        let all = if now.is_empty() { self.said.clone() } else { now };
        all.into_iter().map(|(name, text)| (format!("cgroup.{}.{name}", self.path), text)).collect()
    }
    /// The files that say something else now than at the beginning, in words: "/web: cpu.max was 50000 100000 ...".
    pub fn changed(&self, files: &dyn Files) -> Option<String> {
        let now = stated(files, &self.folder);
        let other = |(name, was): (&&str, &String)| {
            let is = now.get(name).filter(|is| *is != was)?;
            Some(format!("{name} was {was} when the recording began, and {is} when it ended"))
        };
        let all: Vec<String> = self.said.iter().filter_map(other).collect();
        let gone = (now.is_empty() && !self.said.is_empty()).then(|| "it was removed meanwhile".to_owned());
        let words: Vec<String> = all.into_iter().chain(gone).collect();
        (!words.is_empty()).then(|| format!("{}: {}", self.path, words.join("; ")))
    }
    /// What its counters have risen by, as metrics: `group./web.nr_throttled`.
    pub fn counted(&self, files: &dyn Files) -> BTreeMap<String, u64> {
        let now = counters(&files.read(&self.folder.join(STAT)).unwrap_or_default());
        let since = |(name, value): (String, u64)| {
            let before = self.before.get(&name).copied().unwrap_or_default();
            (format!("group.{}.{name}", self.path), value.saturating_sub(before))
        };
        now.into_iter().map(since).collect()
    }
}
