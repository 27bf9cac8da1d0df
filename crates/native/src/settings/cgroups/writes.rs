//! The writes that make a workload's groups, for both versions of control groups.
//!
//! The first level is directly below schedlab's own group, so the workload's groups compete with each other and with
//! the tasks of its root group, as in the simulator. Their names contain the process that made them. In v2 a weight
//! represents shares: 100 is 1024 (`cpu_weight_write_u64`, read in 6.1), so some shares have no exact weight. Times are
//! whole microseconds there.

use super::hierarchy::{Hierarchy, Version};
use super::join::Places;
use super::remove::OURS;
use super::words::SETTING;
use crate::settings::owner::Owner;
use crate::settings::{Files, Form, MADE, Write};
use schedlab_base::{Error, Ns, Result, Warning};
use schedlab_kernel::Change;
use schedlab_workload::group::{DEFAULT_PERIOD, DEFAULT_SHARES, WEIGHTS, shares_of_weight};
use schedlab_workload::{GroupDecl, Later};
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    pub version: Version,
    /// Writes that outlive the run until they are undone.
    pub kept: Vec<Write>,
    /// Writes to files of the groups themselves, which disappear with them.
    pub within: Vec<Write>,
    /// Where tasks join.
    pub places: Places,
    /// Path and folder of the groups with a quota whose counters cover the measured time.
    pub limited: Vec<(String, PathBuf)>,
    /// Deviations from the workload's values.
    pub warnings: Vec<Warning>,
}

/// The writes that make `groups`; the first is the root.
///
/// # Errors
/// When a value has no counterpart in this version of control groups.
pub fn groups(files: &dyn Files, hierarchy: &Hierarchy, me: Owner, groups: &[GroupDecl]) -> Result<Groups> {
    let (version, base) = (hierarchy.version, &hierarchy.base);
    let folders = folders(base, me, groups);
    let mut made = Groups {
        version,
        kept: Vec::new(),
        within: Vec::new(),
        places: Places(folders.iter().map(|f| f.join(version.threads())).collect()),
        limited: Vec::new(),
        warnings: Vec::new(),
    };
    if groups.first().is_some_and(has_values) {
        let text =
            "group '/': the root group is the one that schedlab runs in, whose values stay as they are";
        return Err(Error::input(text).help("give its tasks a group of their own"));
    }
    if version == Version::V2 && !gives_cpu(files, base) {
        made.kept.push(controller(base));
    }
    for (n, group) in groups.iter().enumerate().skip(1) {
        let folder = &folders[n];
        made.limited.extend(group.quota.map(|_| (group.path.clone(), folder.clone())));
        made.kept.push(write(folder.clone(), Form::Folder, MADE.to_owned()));
        let has_children = groups.iter().any(|g| g.parent.is_some_and(|p| p.index() == n));
        if version == Version::V2 {
            made.within.push(write(folder.join("cgroup.type"), Form::Plain, "threaded".to_owned()));
            made.within.extend(has_children.then(|| controller(folder)));
        }
        values(version, folder, group, &mut made)?;
    }
    Ok(made)
}

/// The folder of each group. Parents are declared before children.
fn folders(base: &Path, me: Owner, groups: &[GroupDecl]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::with_capacity(groups.len());
    for group in groups {
        let name = group.path.rsplit('/').next().unwrap_or_default();
        let folder = match group.parent {
            None => base.to_owned(),
            Some(parent) if parent.index() == 0 => {
                base.join(format!("{OURS}{}-{}-{name}", me.pid, me.started))
            }
            Some(parent) => folders[parent.index()].join(name),
        };
        folders.push(folder);
    }
    folders
}

fn has_values(root: &GroupDecl) -> bool {
    root.shares != DEFAULT_SHARES || root.quota.is_some() || root.idle
}

fn gives_cpu(files: &dyn Files, base: &Path) -> bool {
    let list = files.read(&base.join("cgroup.subtree_control")).unwrap_or_default();
    list.split_whitespace().any(|name| name == "cpu")
}

fn controller(folder: &Path) -> Write {
    write(folder.join("cgroup.subtree_control"), Form::Controller, "+cpu".to_owned())
}

fn write(path: PathBuf, form: Form, value: String) -> Write {
    Write { setting: SETTING.to_owned(), path, form, value }
}

/// The group's shares, limit and idle flag, if they differ from a new group's.
fn values(version: Version, folder: &Path, group: &GroupDecl, made: &mut Groups) -> Result<()> {
    let mut put = |file: &str, value: String| made.within.push(write(folder.join(file), Form::Plain, value));
    let shares = group.shares;
    let us = |time: Ns| time.0 / 1_000;
    match version {
        _ if group.idle => put("cpu.idle", "1".to_owned()),
        Version::V1 => put("cpu.shares", shares.to_string()),
        Version::V2 => {
            let weight = weight_of(&group.path, shares)?;
            put("cpu.weight", weight.to_string());
            made.warnings.extend(inexact(&group.path, shares, weight));
        }
    }
    let mut put = |file: &str, value: String| made.within.push(write(folder.join(file), Form::Plain, value));
    let Some(quota) = group.quota else { return Ok(()) };
    let (quota, period, burst) = (us(quota), us(group.period), us(group.burst));
    match version {
        Version::V1 => {
            if group.period != DEFAULT_PERIOD {
                put("cpu.cfs_period_us", period.to_string());
            }
            put("cpu.cfs_quota_us", quota.to_string());
        }
        Version::V2 => put("cpu.max", format!("{quota} {period}")),
    }
    if burst > 0 {
        let file = if version == Version::V1 { "cpu.cfs_burst_us" } else { "cpu.max.burst" };
        put(file, burst.to_string());
    }
    Ok(())
}

/// The writes for new shares or a new limit of the group in `folder` during a run. `bursts`: a group of the run may
/// save quota; a quota can't be less than the amount that may be saved.
///
/// # Errors
/// When a value has no counterpart in this version of control groups.
pub fn later_writes(
    version: Version,
    folder: &Path,
    path: &str,
    later: &Later,
    bursts: bool,
) -> Result<Vec<(PathBuf, String)>> {
    let us = |time: Ns| time.0 / 1_000;
    let mut all = Vec::new();
    let mut put = |file: &str, value: String| all.push((folder.join(file), value));
    match (later, version) {
        (Later::Shares(_, shares), Version::V1) => put("cpu.shares", shares.to_string()),
        (Later::Shares(_, shares), Version::V2) => put("cpu.weight", weight_of(path, *shares)?.to_string()),
        (Later::Limited(_, limit), version) => {
            let burst = if version == Version::V1 { "cpu.cfs_burst_us" } else { "cpu.max.burst" };
            if bursts {
                put(burst, "0".to_owned());
            }
            let quota = limit.quota.map(|quota| us(quota).to_string());
            if version == Version::V1 {
                // The kernel refuses a new period alone while the old quota does not fit it.
                put("cpu.cfs_quota_us", "-1".to_owned());
                put("cpu.cfs_period_us", us(limit.period).to_string());
                if let Some(quota) = &quota {
                    put("cpu.cfs_quota_us", quota.clone());
                }
            } else {
                put("cpu.max", format!("{} {}", quota.as_deref().unwrap_or("max"), us(limit.period)));
            }
            if limit.burst > Ns::ZERO {
                put(burst, us(limit.burst).to_string());
            }
        }
        (Later::Confined(..) | Later::Moved(..) | Later::Allowed(..), _) => {}
    }
    Ok(all)
}

/// The warning about shares without an exact v2 weight.
fn inexact(path: &str, shares: u64, weight: u64) -> Option<Warning> {
    let exact = shares_of_weight(weight);
    (exact != shares).then(|| {
        let text = format!(
            "group '{path}': {shares} shares are not a whole weight of cgroup v2; it has weight {weight}, which is \
             {exact} shares"
        );
        Warning::new("cgroup.weight", text)
    })
}

/// The warnings about new shares during the run, like those for the beginning.
///
/// # Errors
/// For shares without a weight.
pub fn later_inexact(version: Version, later: &[Change]) -> Result<Vec<Warning>> {
    let all = later.iter().filter_map(|c| c.group.as_ref()).filter(|_| version == Version::V2);
    let one = |(path, shares): (&str, u64)| Ok(inexact(path, shares, weight_of(path, shares)?));
    let found = all.filter_map(|g| Some((g.path.as_str(), g.shares?))).map(one);
    found.filter_map(Result::transpose).collect()
}

/// The v2 weight nearest to that many shares.
fn weight_of(path: &str, shares: u64) -> Result<u64> {
    let weight = (shares * 100 + DEFAULT_SHARES / 2) / DEFAULT_SHARES;
    if WEIGHTS.contains(&weight) {
        return Ok(weight);
    }
    let text = format!("group '{path}': cgroup v2 has no weight for {shares} shares");
    Err(Error::machine(text).help("its weights 1 to 10000 are 10 to 102400 shares"))
}
