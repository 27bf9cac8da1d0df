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

/// A group whose counters are being watched.
pub struct WatchedGroup {
    /// Its path in its hierarchy.
    path: String,
    folder: PathBuf,
    /// Its counters at the beginning.
    before: BTreeMap<String, u64>,
}

impl WatchedGroup {
    /// Begins to watch a group: a folder of a mounted hierarchy, or a path in the one with the cpu controller.
    ///
    /// # Errors
    /// When it does not exist or has no cpu controller.
    pub fn begin(files: &dyn Files, wanted: &str) -> Result<WatchedGroup> {
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
        Ok(WatchedGroup { before: counters(&text), path, folder })
    }
    /// What the group is limited to, by the name of the file: `cgroup./web.cpu.max`.
    pub fn stated(&self, files: &dyn Files) -> BTreeMap<String, String> {
        let read = |name: &&str| {
            let text = files.read(&self.folder.join(name)).ok()?;
            Some((format!("cgroup.{}.{name}", self.path), text.trim().to_owned()))
        };
        STATED.iter().filter_map(read).collect()
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
