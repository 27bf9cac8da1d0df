//! Metrics of groups of tasks: `task.hog.cpu_time`, `task.hog.run_delay.p99`, `task.hog.cpu0.slice.mean`,
//! `cpu0.slice.mean`.
//!
//! A group's name may be any text and the statistic follows it, so metric names are parsed from their end. Only a
//! record shows which groups its run has.

use super::Value;
use super::stat::Stat;
use crate::Record;
use crate::accounts::{MAX_GROUPS, Stays, groups, of_group};
use schedlab_base::CpuId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GroupQuantity {
    CpuTime,
    Voluntary,
    Involuntary,
    Migrations,
    MeanSlice,
    MeanOfMeans,
    SliceOn(CpuId),
    /// A statistic of the waits after a wakeup.
    WakeupDelay(Stat),
    /// A statistic of all waits.
    RunDelay(Stat),
    /// The sum of all waits.
    RunDelayTotal,
}

/// A metric of a group of tasks or, without a group, of all tasks on a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupQuery {
    group: Option<String>,
    what: GroupQuantity,
}

const MEAN: &str = ".slice.mean";

/// Words that may follow a group's name.
const ENDS: &[(&str, GroupQuantity)] = &[
    (".cpu_time", GroupQuantity::CpuTime),
    (".switches.voluntary", GroupQuantity::Voluntary),
    (".switches.involuntary", GroupQuantity::Involuntary),
    (".migrations", GroupQuantity::Migrations),
    (MEAN, GroupQuantity::MeanSlice),
    (".slice.mean_of_means", GroupQuantity::MeanOfMeans),
];

/// A quantity that takes a statistic.
type QuantityOfStat = fn(Stat) -> GroupQuantity;

/// Series that may stand between a group's name and a statistic.
const DELAYS: &[(&str, QuantityOfStat)] =
    &[(".wakeup_delay.", GroupQuantity::WakeupDelay), (".run_delay.", GroupQuantity::RunDelay)];
const TOTAL: &str = ".run_delay.total";

/// Splits off a group's name and the statistic of its waits. The series' name alone does not name a statistic.
fn delay(rest: &str) -> Option<(&str, GroupQuantity)> {
    if let Some(group) = rest.strip_suffix(TOTAL) {
        return Some((group, GroupQuantity::RunDelayTotal));
    }
    DELAYS.iter().find_map(|(word, what)| {
        let (group, stat) = rest.rsplit_once(word)?;
        Some((group, what(Stat::parse(stat)?)))
    })
}

impl GroupQuery {
    /// Parses a metric's name; `None` if it does not belong to this family.
    pub fn parse(name: &str) -> Option<GroupQuery> {
        if let Some(cpu) = name.strip_suffix(MEAN).and_then(cpu) {
            return Some(GroupQuery { group: None, what: GroupQuantity::SliceOn(cpu) });
        }
        let rest = name.strip_prefix("task.")?;
        let end = || ENDS.iter().find_map(|(end, what)| Some((rest.strip_suffix(end)?, *what)));
        let (group, what) = end().or_else(|| delay(rest))?;
        let on = group.rsplit_once('.').and_then(|(group, last)| Some((group, cpu(last)?)));
        let (group, what) = match (on, what) {
            (Some((group, cpu)), GroupQuantity::MeanSlice) => (group, GroupQuantity::SliceOn(cpu)),
            _ => (group, what),
        };
        (!group.is_empty()).then(|| GroupQuery { group: Some(group.to_owned()), what })
    }
    pub fn pattern(&self) -> &'static str {
        match (&self.group, self.what) {
            (None, _) => "cpu<k>.slice.mean",
            (_, GroupQuantity::CpuTime) => "task.<group>.cpu_time",
            (_, GroupQuantity::Voluntary) => "task.<group>.switches.voluntary",
            (_, GroupQuantity::Involuntary) => "task.<group>.switches.involuntary",
            (_, GroupQuantity::Migrations) => "task.<group>.migrations",
            (_, GroupQuantity::MeanSlice) => "task.<group>.slice.mean",
            (_, GroupQuantity::MeanOfMeans) => "task.<group>.slice.mean_of_means",
            (_, GroupQuantity::SliceOn(_)) => "task.<group>.cpu<k>.slice.mean",
            (_, GroupQuantity::WakeupDelay(_)) => "task.<group>.wakeup_delay.<stat>",
            (_, GroupQuantity::RunDelay(_)) => "task.<group>.run_delay.<stat>",
            (_, GroupQuantity::RunDelayTotal) => "task.<group>.run_delay.total",
        }
    }
    /// Its statistic, if it asks for one.
    pub fn stat(&self) -> Option<Stat> {
        match self.what {
            GroupQuantity::WakeupDelay(stat) | GroupQuantity::RunDelay(stat) => Some(stat),
            _ => None,
        }
    }
    /// Whether it asks for waits of a run in which none were observed.
    pub fn unwatched(&self, record: &Record) -> bool {
        let waits = matches!(
            self.what,
            GroupQuantity::WakeupDelay(_) | GroupQuantity::RunDelay(_) | GroupQuantity::RunDelayTotal
        );
        waits && !record.found.series.contains_key("run_delay")
    }
    /// The value in a record.
    ///
    /// # Errors
    /// Says in words what the run lacks.
    pub fn value(&self, record: &Record) -> Result<f64, String> {
        if let GroupQuantity::SliceOn(cpu) = self.what {
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
        if matches!(
            self.what,
            GroupQuantity::WakeupDelay(_) | GroupQuantity::RunDelay(_) | GroupQuantity::RunDelayTotal
        ) {
            return self.delay(record, group);
        }
        let sum = |of: fn(&crate::TaskAccount) -> u64| tasks.clone().map(of).sum::<u64>() as f64;
        let none = || "no stay ended".to_owned();
        match self.what {
            GroupQuantity::CpuTime => Ok(sum(|t| t.cpu_time.0)),
            GroupQuantity::Voluntary => Ok(sum(|t| t.voluntary)),
            GroupQuantity::Involuntary => Ok(sum(|t| t.involuntary)),
            GroupQuantity::Migrations => {
                let all: Option<Vec<u64>> = tasks.map(|t| t.migrations).collect();
                all.map(|n| n.iter().sum::<u64>() as f64)
                    .ok_or_else(|| "this kernel does not count them".to_owned())
            }
            GroupQuantity::MeanSlice => {
                let slices = sum(crate::TaskAccount::slices);
                if slices > 0.0 { Ok(sum(|t| t.cpu_time.0) / slices) } else { Err(none()) }
            }
            GroupQuantity::MeanOfMeans => {
                let means: Vec<f64> = tasks.filter_map(crate::TaskAccount::mean_slice_ns).collect();
                if means.is_empty() {
                    Err(none())
                } else {
                    Ok(means.iter().sum::<f64>() / means.len() as f64)
                }
            }
            GroupQuantity::SliceOn(_)
            | GroupQuantity::WakeupDelay(_)
            | GroupQuantity::RunDelay(_)
            | GroupQuantity::RunDelayTotal => Err(none()),
        }
    }

    /// The value, if it asks for waits of a group that the run has. A single group's waits are the run's.
    fn delay(&self, record: &Record, group: &str) -> Result<f64, String> {
        let found = &record.found;
        let alone = groups(&found.tasks).len() == 1;
        let of_run = |name| found.series.get(name).filter(|_| alone);
        let own = found.delays.iter().find(|d| d.group == group);
        let woken = || own.map(|d| &d.wakeup_delay).or_else(|| of_run("wakeup_delay"));
        let all = || own.map(|d| &d.run_delay).or_else(|| of_run("run_delay"));
        let value = match self.what {
            GroupQuantity::WakeupDelay(stat) => woken().map(|series| stat.of(series)),
            GroupQuantity::RunDelay(stat) => all().map(|series| stat.of(series)),
            _ => all().map(|series| Value::Number(series.sum() as f64)),
        };
        match value {
            Some(Value::Number(n)) => Ok(n),
            Some(Value::Missing(why)) => Err(why),
            None if groups(&found.tasks).len() >= MAX_GROUPS => {
                Err(format!("no samples, or not one of the {MAX_GROUPS} groups that are distinguished"))
            }
            None if found.delays.is_empty()
                && found.series.get("run_delay").is_some_and(|s| s.count() > 0) =>
            {
                Err("the record is older than this metric: make the run again".to_owned())
            }
            None => Err("no samples".to_owned()),
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
    all.extend(record.found.delays.iter().flat_map(|d| delay_names(&d.group)));
    all
}

fn delay_names(group: &str) -> Vec<String> {
    let stats = DELAYS.iter().flat_map(|(word, _)| Stat::USUAL.iter().map(move |stat| (word, stat)));
    let mut all: Vec<String> = stats.map(|(word, stat)| format!("task.{group}{word}{stat}")).collect();
    all.push(format!("task.{group}{TOTAL}"));
    all
}

fn word(cpu: CpuId) -> String {
    format!("cpu{}", cpu.0)
}

/// The CPU of "cpu8".
fn cpu(text: &str) -> Option<CpuId> {
    let digits = text.strip_prefix("cpu")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain).map(CpuId)
}

/// The first few groups, for a message.
fn shown(groups: &[&str]) -> String {
    let more = if groups.len() > 8 { ", ..." } else { "" };
    format!("{}{more}", groups[..groups.len().min(8)].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, Delays, Metric, Series, TaskAccount, evaluate, tests::record};
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
    fn errors_name_groups_and_cpus_that_a_run_lacks() {
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

    fn waits(name: &str, of: impl IntoIterator<Item = u64>) -> Delays {
        let mut run_delay = Series::new("ns", Better::Lower);
        of.into_iter().for_each(|ns| run_delay.record(ns));
        let mut wakeup_delay = Series::new("ns", Better::Lower);
        wakeup_delay.record(7);
        Delays { group: name.into(), wakeup_delay, run_delay }
    }

    #[test]
    fn waits_of_a_group_have_the_run_s_statistics() {
        let mut r = run();
        r.found.series.insert("run_delay".into(), waits("all", 1..=200).run_delay);
        r.found.delays = vec![waits("hog", 1..=100), waits("m.x", [5])];
        for (name, value, unit) in [
            ("task.hog.run_delay.p50", 50.0, "ns"),
            ("task.hog.run_delay.p87.5", 88.0, "ns"),
            ("task.hog.run_delay.max", 100.0, "ns"),
            ("task.hog.run_delay.total", 5050.0, "ns"),
            ("task.hog.wakeup_delay.count", 1.0, ""),
            ("task.m.x.wakeup_delay.mean", 7.0, "ns"),
        ] {
            assert_eq!(evaluate(&r, name).number(), Some(value), "{name}");
            assert_eq!(Metric::find(name).unwrap().unit, unit, "{name}");
        }
        let found = Metric::find("task.hog.run_delay.p99").unwrap();
        assert_eq!((found.better, found.row.name), (Better::Lower, "task.<group>.run_delay.<stat>"));
        assert_eq!(found.about.split(" of a group").next(), Some("percentile 99 of: run_delay"));
        assert!(names(&r).contains(&"task.hog.wakeup_delay.p99.9".to_owned()));
        assert!(
            Metric::find("task.hog.run_delay.p101").is_err() && Metric::find("task.hog.run_delay").is_err()
        );
    }

    #[test]
    fn errors_name_waits_that_a_run_lacks() {
        let why = |r: &Record| match evaluate(r, "task.m.x.run_delay.max") {
            crate::Value::Missing(why) => why,
            value => panic!("{value:?}"),
        };
        let mut r = run();
        r.found.series.insert("run_delay".into(), waits("all", [1]).run_delay);
        r.found.delays = vec![waits("hog", [1])];
        assert_eq!(why(&r), "no samples");
        r.found.delays.clear();
        assert!(why(&r).contains("older than this metric"), "{}", why(&r));
        r.found.tasks.retain(|t| t.name == "m.x/0");
        assert_eq!(evaluate(&r, "task.m.x.run_delay.max").number(), Some(1.0), "the only group");
        r.found.series.remove("run_delay");
        r.backend = schedlab_base::Origin::Made(schedlab_base::Backend::Host);
        assert!(why(&r).contains("--events"), "{}", why(&r));
    }

    #[test]
    fn each_name_finds_its_row() {
        for name in
            ["task.a.cpu_time", "task.a.slice.mean", "task.a.slice.mean_of_means", "task.a.cpu3.slice.mean"]
                .into_iter()
                .chain(["task.a.wakeup_delay.p1", "task.a.run_delay.mean", "task.a.run_delay.total"])
        {
            let query = GroupQuery::parse(name).unwrap();
            assert!(crate::METRICS.iter().any(|m| m.name == query.pattern()), "{name}");
        }
        for name in ["task..cpu_time", "cpu01.slice.mean", "cpu.slice.mean", "slice.mean", "cpu0.slice.p50"] {
            assert_eq!(GroupQuery::parse(name), None, "{name}");
        }
    }
}
