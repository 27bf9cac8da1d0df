//! Task groups as stated in experiments (control groups with the cpu controller), and changes of groups and their tasks
//! during a run.

use crate::policy::{EVERY_TASK, group_of};
use schedlab_base::{CpuSet, Error, Ns, Result};
use serde::{Deserialize, Serialize};

pub const DEFAULT_SHARES: u64 = 1024;
/// Default period of a quota (`default_cfs_period`; read in 6.1).
pub const DEFAULT_PERIOD: Ns = Ns::ms(100);

/// The shares for a cgroup v2 weight: 100 gives 1024, rounded (`cpu_weight_write_u64`, read in 6.1).
pub fn shares_of_weight(weight: u64) -> u64 {
    (weight * DEFAULT_SHARES + 50) / 100
}

/// The root group's path.
pub const ROOT: &str = "/";

/// A group and its tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupSpec {
    pub path: String,
    pub shares: u64,
    /// CPU time in each period, over all CPUs; `None`: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Ns>,
    #[serde(default = "usual_period", skip_serializing_if = "is_usual_period")]
    pub period: Ns,
    /// Unused CPU time that the group may save for later periods.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub burst: Ns,
    /// Whether its tasks give way to tasks of other groups; its shares do not matter then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// CPUs for tasks in it and in groups below it; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Names of tasks; "*": all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
}

impl GroupSpec {
    /// A group with default values and without tasks.
    pub fn at(path: &str) -> GroupSpec {
        GroupSpec {
            path: path.to_owned(),
            shares: DEFAULT_SHARES,
            quota: None,
            period: DEFAULT_PERIOD,
            burst: Ns::ZERO,
            idle: false,
            cpus: None,
            tasks: Vec::new(),
        }
    }
    /// The CPUs that it leaves to all tasks, if that is all that it is about.
    pub fn cpus_of_all(&self) -> Option<&CpuSet> {
        self.cpus.as_ref().filter(|_| GroupSpec { cpus: None, ..self.clone() } == GroupSpec::at(ROOT))
    }
}

/// A quota of CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// CPU time in each period; `None`: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Ns>,
    #[serde(default = "usual_period", skip_serializing_if = "is_usual_period")]
    pub period: Ns,
    /// Unused CPU time that the group may save for later periods.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub burst: Ns,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { quota: None, period: DEFAULT_PERIOD, burst: Ns::ZERO }
    }
}

/// A change of a group during a run. Absent values do not change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GroupChange {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u64>,
    /// The new quota, or no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// New CPUs for the tasks in it and in groups below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
}

/// A change of tasks during a run. Absent values do not change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskChange {
    /// The task's name, with or without its number; "*": all tasks.
    pub name: String,
    /// The path of the task's new group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
}

impl GroupChange {
    pub(crate) fn check(&self) -> Result<()> {
        if self.shares.is_none() && self.limit.is_none() && self.cpus.is_none() {
            let text = format!("nothing changes about group '{}'", self.path);
            return Err(Error::input(text).help("give it weight, shares, quota or cpus"));
        }
        no_empty(&format!("group '{}'", self.path), self.cpus.as_ref())
    }
}

impl TaskChange {
    /// Whether the change applies to a task with that name.
    pub fn means(&self, task: &str) -> bool {
        self.name == EVERY_TASK || self.name == task || self.name == group_of(task)
    }
    pub(crate) fn check(&self) -> Result<()> {
        if self.group.is_none() && self.cpus.is_none() {
            let text = format!("nothing changes about task '{}'", self.name);
            return Err(Error::input(text).help("give it a group or cpus"));
        }
        no_empty(&format!("task '{}'", self.name), self.cpus.as_ref())
    }
}

fn no_empty(who: &str, cpus: Option<&CpuSet>) -> Result<()> {
    if cpus.is_some_and(CpuSet::is_empty) {
        return Err(Error::input(format!("{who} is left no CPU")).help("write cpus like \"0-3\""));
    }
    Ok(())
}

fn usual_period() -> Ns {
    DEFAULT_PERIOD
}
fn is_usual_period(period: &Ns) -> bool {
    *period == DEFAULT_PERIOD
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_meant_by_its_name_or_its_program_s() {
        let change = |name: &str| TaskChange { name: name.into(), ..TaskChange::default() };
        assert!(change("hog").means("hog/3") && change("hog/3").means("hog/3") && change("*").means("a"));
        assert!(!change("hog/3").means("hog/4") && !change("ho").means("hog/4"));
    }

    #[test]
    fn a_change_changes_something() {
        let text = |e: Result<()>| e.unwrap_err().to_string();
        let group = GroupChange { path: "/g".into(), ..GroupChange::default() };
        assert!(text(group.check()).contains("nothing changes about group '/g'"));
        let task = TaskChange { name: "a".into(), cpus: Some(CpuSet::default()), group: None };
        assert!(text(task.check()).contains("task 'a' is left no CPU"));
        assert!(TaskChange { cpus: None, group: Some("/g".into()), ..task }.check().is_ok());
    }
}
