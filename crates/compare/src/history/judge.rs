//! From the lines of a history to its changes.

use super::Row;
use super::dates;
use super::model::{At, Cause, Change, Drift, Judged, MachineChange, Mean, Series, Unit};
use crate::comparison::DEFAULT_MIN_EFFECT_PCT;
use crate::stats::course::{Course, Day, FEWEST_DAYS, Rules, Step, course};
use crate::stats::intervals::{TEstimate, group_t};
use crate::stats::looks::weights;
use crate::stats::pooled::pooled;
use crate::stats::{ALPHA, Verdict};
use libm::{expm1, log, log1p};
use schedlab_base::{Error, Result, parallel, printable};
use schedlab_record::Better;
use std::collections::BTreeMap;

/// Days of a year.
const YEAR: f64 = 365.0;
/// One run in so many is cut from each end of a unit's runs.
const TRIM_ONE_IN: usize = 5;

/// What is asked of a history.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The smallest change that is reported, percent.
    pub min_effect_pct: f64,
    /// Only changes that were beyond chance on this date or later.
    pub since: Option<String>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { min_effect_pct: DEFAULT_MIN_EFFECT_PCT, since: None }
    }
}

/// The scale on which a series' changes are shifts.
#[derive(Clone, Copy)]
enum Scale {
    Log,
    /// Multiples of this number.
    Relative(f64),
}

impl Scale {
    fn of(values: &[f64]) -> Scale {
        if values.iter().all(|v| *v > 0.0) {
            return Scale::Log;
        }
        let mut sizes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let middle = sizes[sizes.len() / 2];
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        Scale::Relative([middle, mean, 1.0].into_iter().find(|v| *v > 0.0).unwrap_or(1.0))
    }
    fn to(self, value: f64) -> f64 {
        match self {
            Scale::Log => log(value),
            Scale::Relative(unit) => value / unit,
        }
    }
    fn back(self, value: f64) -> f64 {
        match self {
            Scale::Log => libm::exp(value),
            Scale::Relative(unit) => value * unit,
        }
    }
    fn pct(self, shift: f64) -> f64 {
        match self {
            Scale::Log => 100.0 * expm1(shift),
            Scale::Relative(_) => 100.0 * shift,
        }
    }
    fn shift_of_pct(self, pct: f64) -> f64 {
        match self {
            Scale::Log => log1p(pct / 100.0),
            Scale::Relative(_) => pct / 100.0,
        }
    }
    fn interval(self, t: &TEstimate) -> [f64; 2] {
        t.shift(ALPHA).interval.map(|end| self.pct(end))
    }
}

/// A series with what its course shows.
struct Coursed {
    series: Series,
    scale: Scale,
    days: Vec<Day>,
    /// The place of each unit on the axis that all machines share.
    places: Vec<usize>,
    course: Course,
}

/// Workload, load and metric: what machines are compared in.
type Subject = (String, String, String);

/// Judges a history.
///
/// # Errors
/// When `since` is not a date, or the history has none.
pub fn judge(rows: &[Row], asked: &Asked) -> Result<Judged> {
    let since = match &asked.since {
        None => None,
        Some(text) if rows.iter().all(|r| r.day.is_none()) => {
            return Err(Error::input(format!("--since {text}: the history has no dates")));
        }
        Some(text) => Some(dates::day(text).map(|d| dates::name(d.0)).ok_or_else(|| {
            Error::input(format!("--since {}: not a date", printable::name(text))).help("write 2026-11-30")
        })?),
    };
    let mut all = series(rows);
    let own: Vec<bool> = all.iter().map(|s| s.series.own).collect();
    let shares = weights(&own);
    let sum: f64 = shares.iter().sum();
    all.iter_mut().zip(&shares).for_each(|(s, share)| s.series.alpha = ALPHA * share / sum);
    let courses = parallel::map(parallel::cpus(), &all, |s| {
        let rules = Rules { alpha: s.series.alpha, matters: s.scale.shift_of_pct(asked.min_effect_pct) };
        course(&s.days, rules)
    });
    all.iter_mut().zip(courses).for_each(|(s, course)| s.take(course));
    let mut subjects: BTreeMap<Subject, Vec<&Coursed>> = BTreeMap::new();
    for s in &all {
        subjects.entry(s.subject()).or_default().push(s);
    }
    let is_new = |change: &Change| since.as_ref().is_none_or(|date| change.seen.date >= *date);
    let mut changes: Vec<Change> = subjects.values().flat_map(|machines| changes(machines, asked)).collect();
    changes.retain(is_new);
    changes.sort_by(|a, b| b.first.date.cmp(&a.first.date));
    let drifts = all.iter().flat_map(|s| s.drifts(asked)).collect();
    let mut series: Vec<Series> = all.into_iter().map(|s| s.series).collect();
    series.iter_mut().for_each(|s| s.verdict = verdict_of(s, &changes));
    Ok(Judged { min_effect_pct: asked.min_effect_pct, alpha: ALPHA, since, changes, drifts, series })
}

/// The verdict on a series: that of its newest change.
fn verdict_of(s: &Series, changes: &[Change]) -> Verdict {
    let is_of = |c: &&Change| {
        let on_it = |m: &MachineChange| m.shown && m.machine == s.machine;
        (&c.workload, &c.load, &c.metric) == (&s.workload, &s.load, &s.metric) && c.machines.iter().any(on_it)
    };
    let calm = if s.units.len() < FEWEST_DAYS { Verdict::Unclear } else { Verdict::Same };
    changes.iter().filter(|c| c.cause != Cause::Machine).find(is_of).map_or(calm, |c| c.verdict)
}

/// The lines as series, in the order of their first lines.
fn series(rows: &[Row]) -> Vec<Coursed> {
    let mut keys: Vec<[&str; 4]> = Vec::new();
    let mut of: BTreeMap<[&str; 4], Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = [row.workload.as_str(), &row.load, &row.metric, &row.machine];
        of.entry(key).or_insert_with(|| {
            keys.push(key);
            Vec::new()
        });
        of.entry(key).and_modify(|rows| rows.push(row));
    }
    let axis = axis(rows);
    keys.iter().map(|key| Coursed::of(&of[key], &axis)).collect()
}

/// The place of each commit on the axis that machines share: the order of the days on which commits were first
/// measured.
/// Units without a commit have the place of their day.
fn axis(rows: &[Row]) -> BTreeMap<String, usize> {
    let mut first: Vec<(Option<u64>, &str, usize, String)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (line, row) in rows.iter().enumerate() {
        let name = place_of(row);
        match known.get(&name) {
            Some(at) => {
                let one = &mut first[*at];
                if (row.day, row.time.as_str()) < (one.0, one.1) {
                    (one.0, one.1) = (row.day, &row.time);
                }
            }
            None => {
                known.insert(name.clone(), first.len());
                first.push((row.day, &row.time, line, name));
            }
        }
    }
    first.sort();
    first.into_iter().enumerate().map(|(at, (.., name))| (name, at)).collect()
}

fn place_of(row: &Row) -> String {
    if row.commit.is_empty() {
        row.day.map_or_else(String::new, |d| format!("day {d}"))
    } else {
        row.commit.clone()
    }
}

impl Coursed {
    fn of(rows: &[&Row], axis: &BTreeMap<String, usize>) -> Coursed {
        let last = rows[rows.len() - 1];
        // The same commit on one day is one unit, in the order of time, else of lines.
        let mut units: Vec<(Option<u64>, &str, Vec<&Row>)> = Vec::new();
        let mut known: BTreeMap<(Option<u64>, &str), usize> = BTreeMap::new();
        for row in rows {
            let at = *known.entry((row.day, &row.commit)).or_insert(units.len());
            match units.get_mut(at) {
                Some(unit) => unit.2.push(row),
                None => units.push((row.day, &row.time, vec![row])),
            }
        }
        units.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let values: Vec<f64> = rows.iter().map(|r| r.figure.value).collect();
        let scale = Scale::of(&values);
        let own = schedlab_workload::spec::find(&last.workload)
            .is_ok_and(|b| b.own.contains(&last.metric.as_str()));
        let value = |rows: &[&Row]| trimmed(rows.iter().map(|r| scale.to(r.figure.value)).collect());
        let days: Vec<u64> = units.iter().map(|u| u.0.unwrap_or(0)).collect();
        let series = Series {
            machine: last.machine.clone(),
            workload: last.workload.clone(),
            load: last.load.clone(),
            metric: last.metric.clone(),
            unit: last.figure.unit.clone(),
            better: last.figure.better,
            own,
            alpha: 0.0,
            verdict: Verdict::Unclear,
            units: units
                .iter()
                .map(|(day, _, rows)| Unit {
                    at: At {
                        date: day.map_or_else(String::new, dates::name),
                        commit: rows[0].commit.clone(),
                    },
                    runs: rows.len(),
                    mean: scale.back(value(rows)),
                })
                .collect(),
            levels: Vec::new(),
        };
        Coursed {
            series,
            scale,
            days: units
                .iter()
                .enumerate()
                .map(|(at, (_, _, rows))| Day { value: value(rows), year: part_of_year(&days, at) })
                .collect(),
            places: units.iter().map(|(_, _, rows)| axis[&place_of(rows[0])]).collect(),
            course: Course::default(),
        }
    }

    fn subject(&self) -> Subject {
        (self.series.workload.clone(), self.series.load.clone(), self.series.metric.clone())
    }

    fn take(&mut self, course: Course) {
        let bounds: Vec<usize> = std::iter::once(0).chain(course.steps.iter().map(|s| s.at)).collect();
        let level = |(i, from): (usize, &usize)| {
            let to = bounds.get(i + 1).copied().unwrap_or(self.days.len());
            let values: Vec<f64> = self.days[*from..to].iter().map(|d| d.value).collect();
            Mean { from: *from, mean: self.scale.back(values.iter().sum::<f64>() / values.len() as f64) }
        };
        self.series.levels = bounds.iter().enumerate().map(level).collect();
        self.course = course;
    }

    fn at(&self, unit: usize) -> At {
        self.series.units[unit].at.clone()
    }

    fn drifts(&self, asked: &Asked) -> Vec<Drift> {
        let counts = |shift: f64| self.scale.pct(shift).abs() >= asked.min_effect_pct;
        let all = self.course.drifts.iter().filter(|d| counts(d.shift));
        all.map(|d| Drift {
            machine: self.series.machine.clone(),
            workload: self.series.workload.clone(),
            load: self.series.load.clone(),
            metric: self.series.metric.clone(),
            from: self.at(d.days[0]),
            to: self.at(d.days[1]),
            change_pct: self.scale.pct(d.shift),
        })
        .collect()
    }

    /// The first and the last place that may be the first after a step.
    fn span(&self, step: &Step) -> [usize; 2] {
        step.range.map(|unit| self.places[unit])
    }

    /// How this machine saw a change at a place: units before and after it, up to its own other changes. `own` is the
    /// first unit after its own change there; one commit may have many units, all at one place.
    fn about(&self, place: usize, own: Option<usize>) -> Option<(TEstimate, [usize; 2])> {
        let at = own.or_else(|| self.places.iter().position(|p| *p >= place))?;
        let others = || self.course.steps.iter().filter(|s| Some(s.at) != own).map(|s| s.at);
        let from = others().filter(|s| *s <= at).max().unwrap_or(0);
        let to = others().filter(|s| *s > at).min().unwrap_or(self.days.len());
        let values = |part: &[Day]| part.iter().map(|d| d.value).collect::<Vec<f64>>();
        let (before, after) = (values(&self.days[from..at]), values(&self.days[at..to]));
        Some((group_t(&before, &after)?, [before.len(), after.len()]))
    }
}

/// The part of a year for which a unit stands: the days since the one before, shared by the units of its day.
fn part_of_year(days: &[u64], at: usize) -> f64 {
    let same = days.iter().filter(|d| **d == days[at]).count();
    let before = days[..at].iter().rev().find(|d| **d != days[at]);
    let gap = before.map_or(1, |before| days[at] - before);
    // Without dates each unit is a day.
    if days.iter().all(|d| *d == days[0]) { 1.0 / YEAR } else { gap as f64 / YEAR / same as f64 }
}

/// The mean without the highest and the lowest of five, two of ten.
fn trimmed(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / TRIM_ONE_IN;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// A change that one machine shows.
#[derive(Clone, Copy)]
struct Shown<'a> {
    of: &'a Coursed,
    step: &'a Step,
}

/// The changes of the machines of one subject.
fn changes(machines: &[&Coursed], asked: &Asked) -> Vec<Change> {
    let counts = |s: &Shown<'_>| s.of.scale.pct(s.step.size.estimate).abs() >= asked.min_effect_pct;
    let mut shown: Vec<Shown<'_>> = machines
        .iter()
        .flat_map(|of| of.course.steps.iter().map(|step| Shown { of, step }))
        .filter(counts)
        .collect();
    shown.sort_by_key(|s| s.of.span(s.step));
    // Changes in one direction whose ranges meet are one, of several machines.
    let mut groups: Vec<Vec<Shown<'_>>> = Vec::new();
    for s in shown {
        let meets = |group: &&mut Vec<Shown<'_>>| {
            let end = group.iter().map(|g| g.of.span(g.step)[1]).max().unwrap_or(0);
            let alike = group[0].step.size.estimate * s.step.size.estimate > 0.0;
            alike
                && s.of.span(s.step)[0] <= end
                && group.iter().all(|g| g.of.series.machine != s.of.series.machine)
        };
        match groups.iter_mut().find(meets) {
            Some(group) => group.push(s),
            None => groups.push(vec![s]),
        }
    }
    groups.iter().map(|group| change(group, machines)).collect()
}

fn change(group: &[Shown<'_>], machines: &[&Coursed]) -> Change {
    let first = group.iter().min_by_key(|s| s.of.places[s.step.at]).unwrap_or(&group[0]);
    let (of, step) = (first.of, first.step);
    let place = of.places[step.at];
    let mut all: Vec<(MachineChange, TEstimate)> = Vec::new();
    for machine in machines {
        let own = group.iter().find(|s| s.of.series.machine == machine.series.machine);
        let Some((near, units)) = machine.about(place, own.map(|s| s.step.at)) else { continue };
        let size = own.map_or(near, |s| s.step.size);
        let row = MachineChange {
            machine: machine.series.machine.clone(),
            shown: own.is_some(),
            change_pct: machine.scale.pct(size.estimate),
            ci95_pct: machine.scale.interval(&size),
            units,
        };
        all.push((row, size));
    }
    let sizes: Vec<TEstimate> = all.iter().map(|(_, size)| *size).collect();
    let together = pooled(&sizes);
    let size = together.map_or(step.size, |p| p.mean);
    let range = |end: usize| {
        let ends = group.iter().map(|s| (s.of.span(s.step)[end], s.of.at(s.step.range[end])));
        let place = |e: &(usize, At)| e.0;
        let one = if end == 0 { ends.min_by_key(place) } else { ends.max_by_key(place) };
        one.map_or_else(At::default, |e| e.1)
    };
    let seen = group.iter().map(|s| s.of.at(s.step.seen)).min_by(|a, b| a.date.cmp(&b.date));
    Change {
        workload: of.series.workload.clone(),
        load: of.series.load.clone(),
        metric: of.series.metric.clone(),
        verdict: direction(step.size.estimate, of.series.better),
        cause: cause(of, step),
        before: of.at(step.at - 1),
        first: of.at(step.at),
        bisect: bisect(group),
        range: [range(0), range(1)],
        seen: seen.unwrap_or_default(),
        change_pct: of.scale.pct(size.estimate),
        ci95_pct: of.scale.interval(&size),
        between_machines_pct: together.map(|p| of.scale.pct(p.between)),
        on: group.len(),
        machines: all.into_iter().map(|(row, _)| row).collect(),
    }
}

/// The commits between which a change lies, over the machines that show it: the last one before it and the first after.
fn bisect(group: &[Shown<'_>]) -> Option<[String; 2]> {
    let unit = |s: &Shown<'_>, unit: usize| (s.of.places[unit], s.of.at(unit).commit);
    let before = group.iter().map(|s| unit(s, s.step.range[0].saturating_sub(1))).min()?.1;
    let after = group.iter().map(|s| unit(s, s.step.range[1])).max()?.1;
    (!before.is_empty() && !after.is_empty() && before != after).then_some([before, after])
}

fn direction(shift: f64, better: Better) -> Verdict {
    match (better, shift > 0.0) {
        (Better::Neither, _) => Verdict::Changed,
        (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
        _ => Verdict::Better,
    }
}

/// Whether another commit came with the change. Where the day is not certain, one commit over all days that it may be
/// rules commits out.
fn cause(of: &Coursed, step: &Step) -> Cause {
    let commits: Vec<&str> = of.series.units[step.range[0].saturating_sub(1)..=step.range[1]]
        .iter()
        .map(|u| u.at.commit.as_str())
        .collect();
    match () {
        () if commits.iter().all(|c| c.is_empty()) => Cause::Day,
        () if commits.iter().all(|c| c == &commits[0]) => Cause::Machine,
        () => Cause::Commit,
    }
}
