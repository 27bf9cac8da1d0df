//! Task policies, nice values and weights (the weight table is the same since 2.6.23).

use crate::{History, history};
use schedlab_base::{Error, Ns, Ns32, Result, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    #[default]
    Other,
    /// SCHED_BATCH: does not preempt at wakeup.
    Batch,
    /// SCHED_IDLE: weight 3.
    Idle,
    /// SCHED_FIFO: runs before fair tasks until it sleeps, yields, or a task of higher priority comes.
    Fifo,
    /// SCHED_RR: SCHED_FIFO with turns among tasks of equal priority.
    Rr,
    /// SCHED_DEADLINE: a runtime in each period, earliest deadline first; before all others.
    Deadline,
    /// SCHED_EXT: of a sched_ext scheduler, if one is there; as SCHED_OTHER else. A scheduler that takes all tasks
    /// treats both alike; a partial one takes these tasks only.
    Ext,
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Policy::Other => "other",
            Policy::Batch => "batch",
            Policy::Idle => "idle",
            Policy::Fifo => "fifo",
            Policy::Rr => "rr",
            Policy::Deadline => "deadline",
            Policy::Ext => "ext",
        })
    }
}

impl Policy {
    /// Reads "SCHED_OTHER", "other", "normal", "batch", "idle", "fifo", "rr", "deadline", "ext".
    ///
    /// # Errors
    /// For any other name.
    pub fn parse(text: &str) -> Result<Policy> {
        let name = text.to_ascii_lowercase();
        match name.strip_prefix("sched_").unwrap_or(&name) {
            "other" | "normal" => Ok(Policy::Other),
            "batch" => Ok(Policy::Batch),
            "idle" => Ok(Policy::Idle),
            "fifo" => Ok(Policy::Fifo),
            "rr" => Ok(Policy::Rr),
            "deadline" => Ok(Policy::Deadline),
            "ext" => Ok(Policy::Ext),
            _ => {
                let known = ["other", "batch", "idle", "fifo", "rr", "deadline", "ext"];
                Err(Error::unknown("scheduling policy", text, known))
            }
        }
    }
    /// The first kernel with the policy; `None`: all have it.
    pub fn since(self) -> Option<Version> {
        match self {
            Policy::Batch => Some(history::came("o1-batch")),
            Policy::Idle => Some(history::went("o1")),
            Policy::Deadline => Some(Version::new(3, 14)),
            Policy::Ext => Some(Version::new(6, 12)),
            Policy::Other | Policy::Fifo | Policy::Rr => None,
        }
    }
    /// Whether its tasks have a nice value: those of the fair class, and of sched_ext.
    pub fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch | Policy::Idle | Policy::Ext)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Attr {
    pub policy: Policy,
    /// -20 to 19, for fair policies.
    pub nice: i8,
    /// 1 to 99 for FIFO and RR; else 0.
    pub rt_priority: u8,
    /// The requested slice (`sched_attr.sched_runtime` of a fair task, 6.12 and later); 0: the kernel's default. For a
    /// deadline task, the runtime in each period.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub slice: Ns32,
    /// For a deadline task: time from the period's start to its deadline.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub deadline: Ns32,
    /// For a deadline task.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub period: Ns32,
}

/// The shortest and the longest slice; kernels clamp requests to them (6.12).
pub const SLICES: std::ops::RangeInclusive<Ns> = Ns(100_000)..=Ns(100_000_000);

/// A variant's changes to a task's attributes. Absent attributes stay as in the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AttrChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Ns>,
}

impl AttrChange {
    /// Applies the changes to `attr`. A task that becomes real-time without a priority gets the lowest one.
    pub fn over(self, attr: Attr) -> Attr {
        let policy = self.policy.unwrap_or(attr.policy);
        let was_deadline = attr.policy == Policy::Deadline;
        let of_policy = if was_deadline && policy != attr.policy { Attr::default() } else { attr };
        let ranked = matches!(policy, Policy::Fifo | Policy::Rr);
        Attr {
            policy,
            nice: self.nice.unwrap_or(attr.nice),
            slice: self.slice.map_or(of_policy.slice, Ns32::from),
            rt_priority: if ranked { attr.rt_priority.max(1) } else { 0 },
            deadline: of_policy.deadline,
            period: of_policy.period,
        }
    }
    pub fn is_empty(self) -> bool {
        self == AttrChange::default()
    }
    /// Checks that a task can have these attributes.
    ///
    /// # Errors
    /// For a nice value or slice out of range, and a policy that needs values besides those stated.
    pub fn check(self) -> Result<()> {
        if self.policy == Some(Policy::Deadline) {
            let text =
                "policy deadline needs a runtime, a deadline and a period, which a change does not state";
            return Err(Error::input(text)
                .help("tasks of an rt-app file have them: dl-runtime, dl-deadline, dl-period"));
        }
        if let Some(nice) = self.nice.filter(|n| !(-20..=19).contains(n)) {
            return Err(Error::input(format!("nice {nice} is not -20 to 19")));
        }
        if let Some(slice) = self.slice.filter(|s| !SLICES.contains(s)) {
            let (lo, hi) = (SLICES.start(), SLICES.end());
            return Err(Error::input(format!("a slice of {slice} is out of range"))
                .help(format!("a task can ask for {lo} to {hi}")));
        }
        if let (Some(policy), Some(slice)) =
            (self.policy.filter(|p| !p.is_fair() || *p == Policy::Ext), self.slice)
        {
            let text = format!("policy {policy} has no slice to ask for ({slice})");
            return Err(Error::input(text).help("slices are of the policies other, batch and idle"));
        }
        Ok(())
    }
}

/// The attributes of task `name` after the changes: first those for every task, then those for its group. `own`: its
/// attributes before.
pub fn changed(tasks: &BTreeMap<String, AttrChange>, name: &str, own: Attr) -> Attr {
    let changes = [EVERY_TASK, group_of(name)].map(|group| tasks.get(group));
    changes.into_iter().flatten().fold(own, |attr, change| change.over(attr))
}

/// The group of a task: its name without the number at the end (`hog` of `hog/3`, `worker` of `worker12`). Variants
/// name groups, and CPU time is summed over them.
#[inline]
pub fn group_of(name: &str) -> &str {
    let bare =
        name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '/' | '-' | '.' | ':' | '#'));
    if bare.is_empty() { name } else { bare }
}

/// The name for all tasks.
pub const EVERY_TASK: &str = "*";

/// Load weight of nice 0.
pub const NICE_0_WEIGHT: u64 = 1024;

/// Weights of nice -20 to 19, in steps of about 25 %.
#[rustfmt::skip]
const NICE_TO_WEIGHT: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
     9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
     1024,   820,   655,   526,   423,   335,   272,   215,   172,   137,
      110,    87,    70,    56,    45,    36,    29,    23,    18,    15,
];

impl Attr {
    pub fn nice(nice: i8) -> Attr {
        Attr { nice, ..Attr::default() }
    }
    /// The load weight of a fair task. SCHED_IDLE weighs 3, in the oldest kernels 2.
    pub fn weight(self, history: &History) -> u64 {
        match self.policy {
            Policy::Idle if history.idle_weighs_three => 3,
            Policy::Idle => 2,
            _ => NICE_TO_WEIGHT[(self.nice.clamp(-20, 19) + 20) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    #[test]
    fn tasks_of_one_kind_are_one_group() {
        let names = ["hog/3", "worker12", "waker", "hog-a/0", "m0:w11", "7"];
        assert_eq!(names.map(group_of), ["hog", "worker", "waker", "hog-a", "m0:w", "7"]);
    }

    #[test]
    fn a_change_leaves_the_rest_alone() {
        let batch = AttrChange { policy: Some(Policy::Batch), ..AttrChange::default() };
        assert_eq!(batch.over(Attr::nice(5)), Attr { policy: Policy::Batch, ..Attr::nice(5) });
        let fifo = AttrChange { policy: Some(Policy::Fifo), ..AttrChange::default() };
        assert_eq!(
            (fifo.over(Attr::nice(5)).rt_priority, batch.over(fifo.over(Attr::nice(5))).rt_priority),
            (1, 0)
        );
        let deadline = Attr {
            policy: Policy::Deadline,
            slice: Ns::ms(1).into(),
            deadline: Ns::ms(5).into(),
            period: Ns::ms(10).into(),
            ..Attr::default()
        };
        assert_eq!(batch.over(deadline), Attr { policy: Policy::Batch, ..Attr::default() });
        assert!(!batch.is_empty() && AttrChange::default().is_empty());
    }

    #[test]
    fn impossible_attributes_are_refused() {
        let nice = AttrChange { nice: Some(20), ..AttrChange::default() };
        assert!(nice.check().unwrap_err().to_string().contains("-20 to 19"));
        let deadline = AttrChange { policy: Some(Policy::Deadline), ..AttrChange::default() };
        assert!(deadline.check().unwrap_err().to_string().contains("dl-period"));
        let slice = |policy, slice| AttrChange { policy, slice: Some(slice), nice: None }.check();
        assert!(slice(None, Ns::us(99)).unwrap_err().to_string().contains("100us to 100ms"));
        assert!(
            slice(Some(Policy::Fifo), Ns::ms(3)).is_err() && slice(Some(Policy::Batch), Ns::ms(3)).is_ok()
        );
    }

    #[test]
    fn weights_step_by_a_quarter() {
        let of = |nice| Attr::nice(nice).weight(&History::of(Version::new(6, 5)));
        assert_eq!((of(0), of(-20), of(19)), (1024, 88761, 15));
        for n in -20..19i8 {
            let (a, b) = (of(n) * 100, of(n + 1));
            assert!((115..=136).contains(&(a / b)), "nice {n}: {a}/{b}");
        }
        let idle = |v| Attr { policy: Policy::Idle, ..Attr::nice(-20) }.weight(&History::of(v));
        assert_eq!([idle(Version::v2_6(27)), idle(Version::v2_6(30)), idle(Version::new(6, 5))], [2, 3, 3]);
    }
}
