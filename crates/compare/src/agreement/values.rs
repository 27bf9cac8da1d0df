//! The values of one side of a case: a row of the list, read from its runs' records.

use super::rows::ValueFrom;
use crate::metrics;
use crate::stats::describe::{mean, std};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use schedlab_record::accounts::{groups, of_group};
use schedlab_record::schedstat::{BALANCE_ROWS, IdleType};
use schedlab_record::{Record, Series, Value};
use schedlab_workload::Spec;

/// One value per run, or the reason why there is none.
pub type RunValues = Result<Vec<f64>, String>;

/// The values of a row that is a number, in the order of the records.
pub fn numbers(how: ValueFrom, records: &[Record]) -> RunValues {
    if records.is_empty() {
        return Err("no run was made".to_owned());
    }
    records.iter().map(|record| number(how, record)).collect()
}

fn number(how: ValueFrom, record: &Record) -> Result<f64, String> {
    match how {
        ValueFrom::Metric(name) => metric(record, name),
        ValueFrom::Share(part, of) => match (metric(record, part)?, metric(record, of)?) {
            (_, 0.0) => Err(format!("{of} is 0")),
            (part, of) => Ok(100.0 * part / of),
        },
        ValueFrom::Attempts(idle) => balancing(record, |lb| lb[idle as usize].lb_count),
        ValueFrom::Balancing(idle, counter) => counted(record, idle, counter),
        ValueFrom::GroupsPerScan(idle) => {
            match (counted(record, idle, "lb_sg_scan")?, counted(record, idle, "lb_count")?) {
                (_, 0.0) => Err(format!("there was no {} pass", idle.name())),
                (groups, passes) => Ok(groups / passes),
            }
        }
        ValueFrom::Pulled => balancing(record, |lb| lb.iter().map(|b| b.lb_gained).sum()),
        ValueFrom::Uneven => uneven(record).ok_or_else(|| "no group of tasks has two that ran".to_owned()),
        ValueFrom::OfGroup(n) => part_of_group(record, n),
        ValueFrom::Distribution(series, _) => metric(record, &format!("{series}.count")),
    }
}

fn metric(record: &Record, name: &str) -> Result<f64, String> {
    match metrics::evaluate(record, name).value {
        Value::Number(n) => Ok(n),
        Value::Missing(why) => Err(why),
    }
}

/// A counter of balancing, summed over all domains of all CPUs.
fn balancing(
    record: &Record,
    of: impl Fn(&[schedlab_record::schedstat::Balance; 3]) -> u64,
) -> Result<f64, String> {
    let stat = record.found.schedstat.as_ref().ok_or("this kernel keeps no schedstat")?;
    let mut domains = stat.cpus.iter().flat_map(|cpu| &cpu.domains).peekable();
    if domains.peek().is_none() {
        return Err("schedstat has no domains".to_owned());
    }
    Ok(domains.map(|d| of(&d.lb)).sum::<u64>() as f64)
}

/// A counter of balancing of an idle type by the kernel's name, summed over all domains of all CPUs.
fn counted(record: &Record, idle: IdleType, name: &str) -> Result<f64, String> {
    let none = || format!("this kernel does not count {name}");
    let row = BALANCE_ROWS.iter().find(|row| row.name == name).ok_or_else(none)?;
    // The field of a column that the layout lacks is 0, which would read as "no groups".
    if record.found.schedstat.as_ref().is_some_and(|stat| !stat.layout.has(row.since)) {
        return Err(none());
    }
    balancing(record, |lb| (row.get)(&lb[idle as usize]))
}

/// The spread of CPU time within groups of tasks, per cent; groups are weighted by their CPU time.
fn uneven(record: &Record) -> Option<f64> {
    let (mut weighed, mut weight) = (0.0, 0.0);
    for group in groups(&record.found.tasks) {
        let times: Vec<f64> = of_group(&record.found.tasks, group).map(|t| t.cpu_time.0 as f64).collect();
        let all: f64 = times.iter().sum();
        if let Some(std) = std(&times).filter(|_| all > 0.0) {
            weighed += all * 100.0 * std / mean(&times);
            weight += all;
        }
    }
    (weight > 0.0).then(|| weighed / weight)
}

/// The CPU time of the workload's n-th group, per cent of all tasks' CPU time.
fn part_of_group(record: &Record, n: usize) -> Result<f64, String> {
    let none = || format!("the workload has no group {}", n + 1);
    let spec = Spec::from_json(&record.spec).map_err(|_| none())?;
    let Spec::Together { groups, .. } = spec else { return Err(none()) };
    let names = &groups.get(n).ok_or_else(none)?.tasks;
    let inside =
        |task: &str| names.iter().any(|name| name == EVERY_TASK || name == task || name == group_of(task));
    let time = |wanted: &dyn Fn(&str) -> bool| -> f64 {
        record.found.tasks.iter().filter(|t| wanted(&t.name)).map(|t| t.cpu_time.0 as f64).sum()
    };
    let all = time(&|_| true);
    if all > 0.0 { Ok(100.0 * time(&inside) / all) } else { Err("no task ran".to_owned()) }
}

/// A series of all runs, merged, or the reason why a run does not have it.
pub type Pooled = Result<Series, String>;

/// A series of all runs.
pub fn pooled(name: &str, records: &[Record]) -> Pooled {
    let mut all: Option<Series> = None;
    for record in records {
        let Some(series) = record.found.series.get(name) else {
            metric(record, &format!("{name}.count"))?;
            return Err(format!("the record has no series {name}"));
        };
        match &mut all {
            Some(all) => all.merge(series),
            None => all = Some(series.clone()),
        }
    }
    all.ok_or_else(|| "no run was made".to_owned())
}

/// The part of one distribution's values that has no partner in the other within `tolerance` (0.2: a fifth more or
/// less) and `slack`: the largest distance between their cumulative shares once one of them is moved by both. It is 0
/// to 1. Without tolerance it is the Kolmogorov distance, which is 1 even for two sharp peaks a thousandth apart.
pub fn apart(a: &Series, b: &Series, tolerance: f64, slack: f64) -> f64 {
    ahead(a, b, tolerance, slack).max(ahead(b, a, tolerance, slack))
}

/// The most by which `a` is ahead of `b`: the share of `a` at or below a value, minus the share of `b` below
/// the value that is larger by tolerance and slack.
fn ahead(a: &Series, b: &Series, tolerance: f64, slack: f64) -> f64 {
    let total = |s: &Series| s.count().max(1) as f64;
    let mut behind = b.values().peekable();
    let (mut of_a, mut of_b, mut most) = (0u64, 0u64, 0.0f64);
    for (value, n) in a.values() {
        of_a += n;
        let reach = value as f64 * (1.0 + tolerance) + slack;
        while let Some((_, n)) = behind.next_if(|(v, _)| *v as f64 <= reach) {
            of_b += n;
        }
        most = most.max(of_a as f64 / total(a) - of_b as f64 / total(b));
    }
    most
}

/// The series with every value three times as large.
pub fn tripled(series: &Series) -> Series {
    let mut all = Series::new(series.unit(), series.better());
    series.values().for_each(|(value, n)| all.record_n(value.saturating_mul(3), n));
    all
}

/// A hundred values that stand for a series: the value in the middle of each per cent.
pub fn hundred(series: &Series) -> Vec<u64> {
    let (total, mut below) = (u128::from(series.count()), 0u128);
    let mut all = Vec::new();
    for (value, n) in series.values() {
        below += u128::from(n);
        // The middle of the next per cent lies at (2 * len + 1) / 200 of the series.
        while all.len() < 100 && (2 * all.len() as u128 + 1) * total <= 200 * below {
            all.push(value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;
    use proptest::prelude::*;
    use schedlab_base::CpuSet;
    use schedlab_record::Better;
    use schedlab_record::schedstat::Schedstat;

    fn of(values: &[u64]) -> Series {
        let mut s = Series::new("ns", Better::Neither);
        values.iter().for_each(|v| s.record(*v));
        s
    }

    #[test]
    fn values_within_the_tolerance_are_not_apart() {
        let (a, b) = (of(&[100, 200, 300]), of(&[110, 190, 330]));
        assert_eq!(apart(&a, &b, 0.2, 0.0), 0.0);
        assert!((apart(&a, &b, 0.0, 0.0) - 1.0 / 3.0).abs() < 1e-9, "Kolmogorov's distance");
        assert!((apart(&a, &tripled(&of(&[100, 101])), 0.0, 0.0) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(apart(&of(&[1000]), &of(&[3000]), 0.35, 0.0), 1.0);
        assert_eq!(apart(&of(&[1000]), &of(&[1400]), 0.35, 100.0), 0.0, "the slack is added");
    }

    #[test]
    fn a_tenth_that_is_elsewhere_is_a_tenth_apart() {
        let mut a = vec![1000; 90];
        a.extend([50_000; 10]);
        assert!((apart(&of(&a), &of(&[1000; 40]), 0.2, 0.0) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_hundred_values_stand_for_a_series() {
        assert_eq!(hundred(&of(&(1..=100).collect::<Vec<_>>())), (1..=100).collect::<Vec<_>>());
        assert_eq!(hundred(&of(&[5])), vec![5; 100]);
        let halves = hundred(&of(&[vec![10; 300], vec![900; 300]].concat()));
        assert_eq!((halves.len(), halves[49], halves[50]), (100, 10, 900));
        assert_eq!(hundred(&of(&[])), vec![0u64; 0]);
    }

    #[test]
    fn groups_per_scan_are_of_all_domains_and_only_of_kernels_that_count_them() {
        let domains = vec![("MC".to_owned(), CpuSet::default()), ("NUMA".to_owned(), CpuSet::default())];
        let mut stat = Schedstat::new([domains.clone(), domains]);
        stat.layout.sg_scan = true;
        for (cpu, domain, passes, groups) in [(0, 0, 3, 9), (1, 0, 1, 3), (1, 1, 4, 4)] {
            let lb = &mut stat.cpus[cpu].domains[domain].lb;
            (lb[2].lb_count, lb[2].lb_sg_scan, lb[0].lb_sg_scan) = (passes, groups, 1000);
        }
        let mut record = record(&[]);
        let read = |record: &Record| number(ValueFrom::GroupsPerScan(IdleType::Newidle), record);
        assert!(read(&record).is_err_and(|why| why.contains("no schedstat")));
        record.found.schedstat = Some(stat.clone());
        assert_eq!(read(&record), Ok(2.0));
        assert_eq!(number(ValueFrom::Balancing(IdleType::Newidle, "lb_count"), &record), Ok(8.0));
        stat.layout.sg_scan = false;
        record.found.schedstat = Some(stat);
        assert!(read(&record).is_err_and(|why| why.contains("does not count lb_sg_scan")));
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_falls_with_the_tolerance(
            a in prop::collection::vec(1u64..1_000_000, 1..40), b in prop::collection::vec(1u64..1_000_000, 1..40)
        ) {
            let (a, b) = (of(&a), of(&b));
            let at = |t| apart(&a, &b, t, 0.0);
            prop_assert_eq!(at(0.2), apart(&b, &a, 0.2, 0.0));
            prop_assert!(at(0.5) <= at(0.2) && at(0.2) <= at(0.0) && at(0.0) <= 1.0);
            prop_assert_eq!(apart(&a, &a, 0.0, 0.0), 0.0);
        }
    }
}
