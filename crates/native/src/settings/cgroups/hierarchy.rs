//! Finds the control group of this process in the hierarchy that has the cpu controller.
//!
//! /proc/self/mountinfo shows where hierarchies are mounted, and which part of each is visible there; /proc/self/cgroup
//! shows this process's group in each (cgroups(7)). v2 is used if the process's group has the cpu controller, else v1
//! if that has it: the kernel gives a controller only to one of the two.

use super::words::{DELEGATE, none_here};
use crate::settings::files::Files;
use schedlab_base::Result;
use std::path::{Path, PathBuf};

/// The version of control groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// One hierarchy per set of controllers.
    V1,
    /// One hierarchy for all.
    V2,
}

impl Version {
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }
    /// The file in a group's folder that lists its threads and accepts new ones.
    pub fn threads(self) -> &'static str {
        match self {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }
}

/// This process's group in the hierarchy with the cpu controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    pub version: Version,
    /// The folder of the process's group; groups are made below it.
    pub base: PathBuf,
    /// Whether that group is the top of its hierarchy.
    pub is_top: bool,
}

impl Hierarchy {
    /// The file that lists the threads of the process's group.
    pub fn threads(&self) -> PathBuf {
        self.base.join(self.version.threads())
    }
}

/// The hierarchy with the cpu controller, and this process's group in it.
///
/// # Errors
/// When none is mounted, or the process's group lacks the controller.
pub fn find(files: &dyn Files) -> Result<Hierarchy> {
    let read = |path: &str| files.read(&files.place(path)).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let here = |version, found: Option<(PathBuf, bool)>| {
        let (base, is_top) = found?;
        Some(Hierarchy { version, base: files.place(&base.to_string_lossy()), is_top })
    };
    let v2 = here(Version::V2, v2_group(&mounts, &own));
    if let Some(found) = &v2
        && let Ok(list) = files.read(&found.base.join("cgroup.controllers"))
        && list.split_whitespace().any(|name| name == "cpu")
    {
        return Ok(found.clone());
    }
    match (here(Version::V1, v1_group(&mounts, &own)), v2) {
        (Some(found), _) => Ok(found),
        (None, Some(found)) => {
            Err(none_here(&format!("{} has no cpu controller", found.base.display())).help(DELEGATE))
        }
        (None, None) => Err(none_here("no hierarchy with the cpu controller is mounted").help(
            "'mount -t cgroup2 none /sys/fs/cgroup' as root, on a kernel with CONFIG_FAIR_GROUP_SCHED; --backend sim \
             needs neither",
        )),
    }
}

/// The top folders of the mounted hierarchies that may have the cpu controller: of v2, and of v1.
pub fn top_folders(files: &dyn Files) -> Vec<PathBuf> {
    let mounts = files.read(&files.place("/proc/self/mountinfo")).unwrap_or_default();
    let has_cpu =
        |kind: &str, options: &str| kind == "cgroup" && options.split(',').any(|name| name == "cpu");
    let all = [mounted(&mounts, "/", |kind, _| kind == "cgroup2"), mounted(&mounts, "/", has_cpu)];
    all.into_iter().flatten().map(|(folder, _)| files.place(&folder.to_string_lossy())).collect()
}

fn v2_group(mounts: &str, own: &str) -> Option<(PathBuf, bool)> {
    let path = own.lines().find_map(|l| l.strip_prefix("0::"))?;
    mounted(mounts, path, |kind, _| kind == "cgroup2")
}

fn v1_group(mounts: &str, own: &str) -> Option<(PathBuf, bool)> {
    let has_cpu = |list: &str| list.split(',').any(|name| name == "cpu");
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().filter(|list| has_cpu(list)).and(parts.next())
    })?;
    mounted(mounts, path, |kind, options| kind == "cgroup" && has_cpu(options))
}

/// The folder that shows the group `path` of the wanted hierarchy, and whether it is the hierarchy's top. A mount may
/// show only a part of the hierarchy.
fn mounted(mounts: &str, path: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<(PathBuf, bool)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        if !wanted(kind, options) {
            return None;
        }
        let below = Path::new(path).strip_prefix(root).ok()?;
        // Joining an empty path would append a slash.
        let point = PathBuf::from(point.replace("\\040", " "));
        Some((if below.as_os_str().is_empty() { point } else { point.join(below) }, path == "/"))
    })
}
