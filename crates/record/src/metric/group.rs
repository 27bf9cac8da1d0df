//! Metrics of groups of tasks: `task.hog.cpu_time`, `task.hog.cpu0.slice.mean`, `cpu0.slice.mean`.
//!
//! A group's name may be any text, and the statistic stands behind it, so names are read from their end. Only
//! a record knows the groups of its run.

use crate::Record;
use crate::accounts::{Stays, groups, of_group};
use schedlab_base::CpuId;

/// The quantity that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    CpuTime,
    Voluntary,
    Involuntary,
    Migrations,
    MeanSlice,
    MeanOfMeans,
    /// The mean slice on one CPU.
    SliceOn(CpuId),
}

/// A metric of a group of tasks, asked for by name. Without a group it is of all tasks on a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupQuery {
    group: Option<String>,
    what: What,
}

const MEAN: &str = ".slice.mean";

/// The words that may stand behind a group's name.
const ENDS: &[(&str, What)] = &[
    (".cpu_time", What::CpuTime),
    (".switches.voluntary", What::Voluntary),
    (".switches.involuntary", What::Involuntary),
    (".migrations", What::Migrations),
    (MEAN, What::MeanSlice),
    (".slice.mean_of_means", What::MeanOfMeans),
];

impl GroupQuery {
    /// Reads a metric's name; `None` if it is no name of this family.
    pub fn parse(name: &str) -> Option<GroupQuery> {
        if let Some(cpu) = name.strip_suffix(MEAN).and_then(cpu) {
            return Some(GroupQuery { group: None, what: What::SliceOn(cpu) });
        }
        let rest = name.strip_prefix("task.")?;
        let (group, what) = ENDS.iter().find_map(|(end, what)| Some((rest.strip_suffix(end)?, *what)))?;
        let on = group.rsplit_once('.').and_then(|(group, last)| Some((group, cpu(last)?)));
        let (group, what) = match (on, what) {
            (Some((group, cpu)), What::MeanSlice) => (group, What::SliceOn(cpu)),
            _ => (group, what),
        };
        (!group.is_empty()).then(|| GroupQuery { group: Some(group.to_owned()), what })
    }
    /// The name of its row in the table of metrics.
    pub fn pattern(&self) -> &'static str {
        match (&self.group, self.what) {
            (None, _) => "cpu<k>.slice.mean",
            (_, What::CpuTime) => "task.<group>.cpu_time",
            (_, What::Voluntary) => "task.<group>.switches.voluntary",
            (_, What::Involuntary) => "task.<group>.switches.involuntary",
            (_, What::Migrations) => "task.<group>.migrations",
            (_, What::MeanSlice) => "task.<group>.slice.mean",
            (_, What::MeanOfMeans) => "task.<group>.slice.mean_of_means",
            (_, What::SliceOn(_)) => "task.<group>.cpu<k>.slice.mean",
        }
    }
    /// Its value.
    ///
    /// # Errors
    /// In words, what the run does not have.
    pub fn value(&self, record: &Record) -> Result<f64, String> {
        if let What::SliceOn(cpu) = self.what {
            let here = |s: &&Stays| s.cpu == cpu && self.group.as_ref().is_none_or(|g| *g == s.group);
            let found = record.found.stays.iter().filter(here);
            let (n, ns) = found.fold((0, 0), |(n, ns), s| (n + s.count, ns + s.time.0));
            return if n > 0 { Ok(ns as f64 / n as f64) } else { Err("no stay ended there".to_owned()) };
        }
        let group = self.group.as_deref().unwrap_or_default();
        let tasks = of_group(&record.found.tasks, group);
        if tasks.clone().next().is_none() {
            return Err(match groups(&record.found.tasks) {
                none if none.is_empty() => "the run has no accounts of tasks".to_owned(),
                all => format!("the run has no group of tasks '{group}', but {}", shown(&all)),
            });
        }
        let sum = |of: fn(&crate::TaskAccount) -> u64| tasks.clone().map(of).sum::<u64>() as f64;
        let none = || "no stay ended".to_owned();
        match self.what {
            What::CpuTime => Ok(sum(|t| t.cpu_time.0)),
            What::Voluntary => Ok(sum(|t| t.voluntary)),
            What::Involuntary => Ok(sum(|t| t.involuntary)),
            What::Migrations => {
                let all: Option<Vec<u64>> = tasks.map(|t| t.migrations).collect();
                all.map(|n| n.iter().sum::<u64>() as f64)
                    .ok_or_else(|| "this kernel does not count them".to_owned())
            }
            What::MeanSlice | What::SliceOn(_) => {
                let slices = sum(crate::TaskAccount::slices);
                if slices > 0.0 { Ok(sum(|t| t.cpu_time.0) / slices) } else { Err(none()) }
            }
            What::MeanOfMeans => {
                let means: Vec<f64> = tasks.filter_map(crate::TaskAccount::mean_slice_ns).collect();
                if means.is_empty() {
                    Err(none())
                } else {
                    Ok(means.iter().sum::<f64>() / means.len() as f64)
                }
            }
        }
    }
}

/// Every metric of this family that a record holds, by group and CPU.
pub fn names(record: &Record) -> Vec<String> {
    let named = |group: &&str| ENDS.iter().map(|(end, _)| format!("task.{group}{end}")).collect::<Vec<_>>();
    let mut all: Vec<String> = groups(&record.found.tasks).iter().flat_map(named).collect();
    all.extend(record.found.stays.iter().map(|s| format!("task.{}.{}{MEAN}", s.group, word(s.cpu))));
    let cpus: std::collections::BTreeSet<CpuId> = record.found.stays.iter().map(|s| s.cpu).collect();
    all.extend(cpus.iter().map(|cpu| format!("{}{MEAN}", word(*cpu))));
    all
}

/// A CPU as names have it.
fn word(cpu: CpuId) -> String {
    format!("cpu{}", cpu.0)
}

/// The CPU of "cpu8".
fn cpu(text: &str) -> Option<CpuId> {
    let digits = text.strip_prefix("cpu")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain).map(CpuId)
}

/// The first few of them.
fn shown(groups: &[&str]) -> String {
    let more = if groups.len() > 8 { ", ..." } else { "" };
    format!("{}{more}", groups[..groups.len().min(8)].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, TaskAccount, evaluate, tests::record};
    use schedlab_base::Ns;

    fn account(name: &str, ms: u64, voluntary: u64, involuntary: u64) -> TaskAccount {
        TaskAccount { name: name.into(), cpu_time: Ns::ms(ms), voluntary, involuntary, migrations: Some(1) }
    }

    fn run() -> Record {
        let mut r = record(1);
        r.found.tasks =
            vec![account("hog/0", 300, 0, 100), account("hog/1", 100, 50, 50), account("hog/2", 8, 0, 0)];
        r.found.tasks.push(account("m.x/0", 5, 5, 0));
        let stays = |group: &str, cpu, count, ms| Stays {
            group: group.into(),
            cpu: CpuId(cpu),
            count,
            time: Ns::ms(ms),
        };
        r.found.stays = vec![stays("hog", 0, 100, 150), stays("hog", 1, 10, 80), stays("m.x", 1, 10, 1)];
        r
    }

    #[test]
    fn groups_are_summed_and_averaged() {
        let r = run();
        for (name, value) in [
            ("task.hog.cpu_time", 408e6),
            ("task.hog.switches.voluntary", 50.0),
            ("task.hog.switches.involuntary", 150.0),
            ("task.hog.migrations", 3.0),
            ("task.hog.slice.mean", 408e6 / 200.0),
            ("task.hog.slice.mean_of_means", 2e6),
            ("task.hog.cpu0.slice.mean", 1.5e6),
            ("task.m.x.cpu1.slice.mean", 1e5),
            ("task.m.x.slice.mean", 1e6),
            ("cpu1.slice.mean", 81e6 / 20.0),
        ] {
            assert_eq!(evaluate(&r, name).number(), Some(value), "{name}");
        }
        let named = Metric::find("task.hog.cpu_time").unwrap();
        assert_eq!((named.unit.as_str(), named.row.name), ("ns", "task.<group>.cpu_time"));
    }

    #[test]
    fn a_records_names_are_all_measured() {
        let r = run();
        let all = names(&r);
        assert!(
            all.contains(&"task.m.x.cpu1.slice.mean".to_owned())
                && all.contains(&"cpu0.slice.mean".to_owned())
        );
        assert_eq!(all.len(), 2 * ENDS.len() + 3 + 2);
        for name in all {
            assert!(evaluate(&r, &name).number().is_some(), "{name}");
        }
    }

    #[test]
    fn what_a_run_lacks_is_said() {
        let why = |r: &Record, name: &str| match evaluate(r, name) {
            crate::Value::Missing(why) => why,
            value => panic!("{value:?}"),
        };
        let mut r = run();
        assert_eq!(why(&r, "task.hogs.cpu_time"), "the run has no group of tasks 'hogs', but hog, m.x");
        assert_eq!(why(&r, "cpu7.slice.mean"), "no stay ended there");
        r.found.tasks[0].migrations = None;
        assert_eq!(why(&r, "task.hog.migrations"), "this kernel does not count them");
        r.found.tasks.clear();
        assert_eq!(why(&r, "task.hog.slice.mean"), "the run has no accounts of tasks");
        assert!(Metric::find("task.hog.cputime").unwrap_err().to_string().contains("task.<group>.cpu_time"));
        assert!(Metric::find("task.cpu_time").is_err() && Metric::find("cpu0.slice.p50").is_err());
    }

    #[test]
    fn names_and_rows_belong_together() {
        for name in
            ["task.a.cpu_time", "task.a.slice.mean", "task.a.slice.mean_of_means", "task.a.cpu3.slice.mean"]
        {
            let query = GroupQuery::parse(name).unwrap();
            assert!(crate::METRICS.iter().any(|m| m.name == query.pattern()), "{name}");
        }
        for name in ["task..cpu_time", "cpu01.slice.mean", "cpu.slice.mean", "slice.mean", "cpu0.slice.p50"] {
            assert_eq!(GroupQuery::parse(name), None, "{name}");
        }
    }
}
