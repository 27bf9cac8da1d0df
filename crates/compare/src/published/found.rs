//! Values of a posted series' loads: taken from runs, or from a file that keeps them (`cases/results/published.json`).
//!
//! Such a file has no verdicts, which follow from its values and the published figures. It is JSON with a line for each
//! machine, load and metric; numbers have six digits.

use crate::agreement::stored::{rounded, with_list};
use crate::comparison::{Cell, Comparison};
use schedlab_kernel::Level;
use schedlab_record::{ENGINE, PostedFigures};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

const SCHEMA: &str = "schedlab/published-values/2";

/// Hashes of what values are made of: values are stale where one has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeOf {
    /// The machine, with all costs.
    pub machine: String,
    /// The workload, with its parameters.
    pub load: String,
    /// By variant: kernel, patches, configuration and settings.
    pub variants: BTreeMap<String, String>,
}

impl MadeOf {
    /// What is another one now: "machine", "load", "variant on".
    pub fn changed(&self, now: &MadeOf) -> Vec<String> {
        let parts = [("machine", &self.machine, &now.machine), ("load", &self.load, &now.load)];
        let parts = parts.iter().filter(|(_, then, now)| then != now).map(|(name, ..)| (*name).to_owned());
        let other = self.variants.iter().filter(|(name, then)| now.variants.get(*name) != Some(*then));
        parts.chain(other.map(|(name, _)| format!("variant {name}"))).collect()
    }
}

/// Values of a metric under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadValues {
    pub machine: String,
    pub load: String,
    pub metric: String,
    pub made_of: MadeOf,
    /// By variant, a value for each seed; none where a run lacks it.
    pub values: BTreeMap<String, Vec<f64>>,
}

impl LoadValues {
    pub fn is_of(&self, machine: &str, load: &str, metric: &str) -> bool {
        self.machine == machine && self.load == load && self.metric == metric
    }
    /// What no runs can have given. All metrics are times, rates, counts or shares; a run has a value under both
    /// variants, since these have the same seeds, or under neither.
    fn fault(&self) -> Option<String> {
        let mut seeds = None;
        for (variant, values) in self.values.iter().filter(|(_, values)| !values.is_empty()) {
            if let Some(value) = values.iter().find(|value| !value.is_finite() || **value < 0.0) {
                return Some(format!("{value} under {variant}"));
            }
            let (first, of_first) = *seeds.get_or_insert((variant, values.len()));
            if of_first != values.len() {
                return Some(format!("{of_first} values under {first} and {} under {variant}", values.len()));
            }
        }
        None
    }
}

/// What values are made of, by machine and load.
pub type LoadsMadeOf = BTreeMap<[String; 2], MadeOf>;

/// The values of a series, by one engine and level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundSeries {
    pub name: String,
    pub engine: u32,
    pub level: Level,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadValues>,
}

impl FoundSeries {
    /// A series of which nothing was run.
    pub fn none(name: &str) -> FoundSeries {
        FoundSeries { name: name.to_owned(), engine: ENGINE, level: Level::default(), loads: Vec::new() }
    }
    /// The values that runs have of what was published.
    pub fn of(
        name: &str,
        (posted, made_of): (&[PostedFigures], &LoadsMadeOf),
        baseline: &str,
        runs: &Comparison,
    ) -> FoundSeries {
        let level = runs.cells.iter().find_map(|cell| cell.level).unwrap_or_default();
        let loads = values_of((posted, made_of), baseline, runs);
        FoundSeries { name: name.to_owned(), engine: ENGINE, level, loads }
    }
    /// Leaves out the values that would be made of something else now. Names each load, with the words of `--load`, and
    /// what has changed.
    pub fn leave_stale(&mut self, now: &LoadsMadeOf) -> Vec<String> {
        let mut stale = Vec::new();
        self.loads.retain(|values| {
            let LoadValues { machine, load, made_of, values, .. } = values;
            // A load that was taken out has no row.
            let Some(now) = now.get(&[machine.clone(), load.clone()]) else { return false };
            let mut changed = made_of.changed(now);
            let unknown = values.keys().filter(|name| !made_of.variants.contains_key(*name));
            changed.extend(unknown.map(|name| format!("variant {name}")));
            if !changed.is_empty() {
                stale.push(format!("{load}@{machine} ({})", changed.join(", ")));
            }
            changed.is_empty()
        });
        stale.dedup();
        stale
    }
    /// Adds values of loads that this lacks, if the same engine at the same level has made them; else says no.
    pub fn complete(&mut self, earlier: &FoundSeries) -> bool {
        if (self.engine, self.level) != (earlier.engine, earlier.level) {
            return false;
        }
        for more in &earlier.loads {
            if !self.loads.iter().any(|ours| ours.is_of(&more.machine, &more.load, &more.metric)) {
                self.loads.push(more.clone());
            }
        }
        self.loads.sort_by(|a, b| (&a.machine, &a.load, &a.metric).cmp(&(&b.machine, &b.load, &b.metric)));
        true
    }
}

/// The values of every modelled row whose load was run, under baseline and variant.
fn values_of(
    (posted, made_of): (&[PostedFigures], &LoadsMadeOf),
    baseline: &str,
    runs: &Comparison,
) -> Vec<LoadValues> {
    let mut all: BTreeMap<[&str; 3], BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for table in posted.iter().filter(|table| table.not_modelled.is_none()) {
        for variant in [baseline, &table.variant] {
            let places =
                table.machines.iter().flat_map(|m| table.figures.iter().map(move |(load, _)| (m, load)));
            for (machine, load) in places {
                let is_it = |c: &&Cell| c.variant == variant && c.load == *load && c.machine == *machine;
                let Some(stat) = runs.cells.iter().filter(is_it).find_map(|c| c.metrics.get(&table.metric))
                else {
                    continue;
                };
                let values = stat.of_each_run().unwrap_or_default().to_vec();
                all.entry([machine, load, &table.metric]).or_default().insert(variant.to_owned(), values);
            }
        }
    }
    let one = |([machine, load, metric], values): ([&str; 3], BTreeMap<String, Vec<f64>>)| {
        let [machine, load] = [machine, load].map(str::to_owned);
        let mut made_of = made_of.get(&[machine.clone(), load.clone()]).cloned().unwrap_or_default();
        made_of.variants.retain(|name, _| values.contains_key(name));
        LoadValues { machine, load, metric: metric.to_owned(), made_of, values }
    };
    all.into_iter().map(one).collect()
}

#[derive(Serialize, Deserialize)]
struct FoundFile<'a> {
    schema: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    series: Vec<FoundSeries>,
}

/// The text of a file that keeps values.
///
/// # Errors
/// None that is known: all is plain data.
pub fn write(all: &[FoundSeries]) -> serde_json::Result<String> {
    let line = |found: &LoadValues| {
        let mut found = found.clone();
        found.values.values_mut().flatten().for_each(|value| *value = rounded(*value));
        serde_json::to_string(&found)
    };
    let series = |found: &FoundSeries| {
        let lines = found.loads.iter().map(line).collect::<serde_json::Result<Vec<_>>>()?;
        with_list(&FoundSeries { loads: Vec::new(), ..found.clone() }, "loads", &lines)
    };
    let series = all.iter().map(series).collect::<serde_json::Result<Vec<_>>>()?;
    Ok(with_list(&FoundFile { schema: SCHEMA.into(), series: Vec::new() }, "series", &series)? + "\n")
}

/// The first row that no runs can have given, and why: values that were written by hand, or by a damaged file.
pub fn fault(all: &[FoundSeries]) -> Option<String> {
    for found in all {
        for (i, row) in found.loads.iter().enumerate() {
            let twice = found.loads[..i].iter().any(|r| r.is_of(&row.machine, &row.load, &row.metric));
            if let Some(fault) = row.fault().or_else(|| twice.then(|| "the row is there twice".to_owned())) {
                let LoadValues { machine, load, metric, .. } = row;
                return Some(format!("{}: {metric} of {load}@{machine}: {fault}", found.name));
            }
        }
    }
    None
}

/// Reads such a file.
///
/// # Errors
/// When it is another file.
pub fn read(text: &str) -> Result<Vec<FoundSeries>, String> {
    let file: FoundFile<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if file.schema != SCHEMA {
        return Err(format!("its schema is '{}', not {SCHEMA}", file.schema));
    }
    Ok(file.series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::switched;
    use crate::{Question, compare};
    use schedlab_base::Backend;
    use schedlab_record::PostedFigure;

    fn values(machine: &str, n: f64) -> LoadValues {
        let values = [("off".to_owned(), vec![n, 0.5]), ("on".to_owned(), Vec::new())].into();
        let [load, metric] = ["UDP_RR 100 %", "rr.rate"].map(str::to_owned);
        LoadValues { machine: machine.into(), load, metric, made_of: made_of("m"), values }
    }

    fn made_of(machine: &str) -> MadeOf {
        let variants = ["off", "on"].map(|name| (name.to_owned(), format!("{name}'s")));
        MadeOf { machine: machine.into(), load: "l".into(), variants: variants.into() }
    }

    fn again(mut made_of: MadeOf, name: &str) -> MadeOf {
        made_of.variants.insert(name.to_owned(), "another".into());
        made_of
    }

    fn found(engine: u32, loads: Vec<LoadValues>) -> FoundSeries {
        FoundSeries { name: "s".into(), engine, level: Level::Woven, loads }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_has_six_digits() {
        let all = vec![found(11, vec![values("a", 1_234_567.8), values("b", 2.0)]), found(10, Vec::new())];
        let text = write(&all).unwrap();
        let again = read(&text).unwrap();
        assert_eq!(again[0].loads[0].values["off"], [1_234_570.0, 0.5]);
        assert_eq!((&again[0].loads[1], &again[1]), (&all[0].loads[1], &all[1]));
        assert_eq!(write(&again).unwrap(), text);
        assert_eq!(text.lines().filter(|line| line.contains("UDP_RR")).count(), 2, "a line each: {text}");
        assert!(read(&text.replace("published-values", "agreement")).is_err());
        let unknown = text.replace("\"made_of\":", "\"made\":");
        assert!(read(&unknown).is_err(), "values of which it is not known what they are made of");
        assert!(read(&write(&[]).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn values_that_no_run_has_are_named() {
        let said = |changed: LoadValues| fault(&[found(11, vec![values("a", 1.0), changed])]);
        let with = |off: &[f64], on: &[f64]| {
            let all = [("off", off), ("on", on)].map(|(name, values)| (name.to_owned(), values.to_vec()));
            LoadValues { values: all.into(), ..values("b", 1.0) }
        };
        assert_eq!(said(values("b", 1.0)), None, "a variant may have none");
        assert_eq!(said(with(&[0.0, 2.0], &[3.0, 4.0])), None);
        let row = "s: rr.rate of UDP_RR 100 %@b: ";
        assert_eq!(said(with(&[1.0], &[-2.5])), Some(format!("{row}-2.5 under on")));
        assert_eq!(said(with(&[f64::NAN], &[])), Some(format!("{row}NaN under off")));
        let more = Some(format!("{row}1 values under off and 2 under on"));
        assert_eq!(said(with(&[1.0], &[1.0, 2.0])), more);
        let twice = "s: rr.rate of UDP_RR 100 %@a: the row is there twice";
        assert_eq!(said(values("a", 1.0)).as_deref(), Some(twice));
    }

    #[test]
    fn loads_that_were_not_run_are_taken_from_the_same_engine_only() {
        let mut ours = found(11, vec![values("b", 1.0)]);
        assert!(!ours.complete(&found(10, vec![values("a", 9.0)])));
        assert_eq!(ours.loads.len(), 1);
        assert!(ours.complete(&found(11, vec![values("b", 9.0), values("a", 9.0)])));
        assert_eq!(ours.loads, [values("a", 9.0), values("b", 1.0)]);
    }

    #[test]
    fn stale_values_are_left_out_by_name_and_by_what_has_changed() {
        let now = [
            ("a", made_of("m")),
            ("b", made_of("n")),
            ("c", again(MadeOf { load: "other".into(), ..made_of("m") }, "on")),
            ("d", again(made_of("m"), "a new one")),
        ];
        let now = now.map(|(machine, of)| ([machine.to_owned(), "UDP_RR 100 %".to_owned()], of)).into();
        let more = LoadValues { metric: "tasks".into(), ..values("b", 1.0) };
        let all = ["a", "b", "c", "d", "e"].map(|machine| values(machine, 1.0));
        let mut ours = found(11, all.into_iter().chain([more]).collect());
        ours.loads.sort_by(|a, b| (&a.machine, &a.load).cmp(&(&b.machine, &b.load)));
        assert_eq!(
            ours.leave_stale(&now),
            ["UDP_RR 100 %@b (machine)", "UDP_RR 100 %@c (load, variant on)"],
            "once each"
        );
        assert_eq!(ours.loads, [values("a", 1.0), values("d", 1.0)], "e was taken out");
    }

    #[test]
    fn values_are_those_of_published_rows() {
        let on = |variant, n| switched(Backend::Code, variant, "work", [n, n + 1, n + 2, n + 3]);
        let records: Vec<_> = on("off", 1).chain(on("on", 5)).chain(on("other", 7)).collect();
        let question =
            Question { metrics: vec!["work".into()], baseline: Some("off".into()), ..Question::default() };
        let runs = compare(&records, &question, &[]).unwrap();
        let table = |metric: &str, not_modelled: Option<&str>| PostedFigures {
            variant: "on".into(),
            metric: metric.into(),
            machines: vec!["tiny".into(), "huge".into()],
            source: String::new(),
            not_modelled: not_modelled.map(str::to_owned),
            figures: vec![("default".into(), PostedFigure::Value(1.0))],
        };
        let posted = [table("work", None), table("migrations", None), table("work", Some("no disk"))];
        let made_of = [(["tiny".to_owned(), "default".to_owned()], again(made_of("m"), "other"))].into();
        let all = values_of((&posted, &made_of), "off", &runs);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].made_of, self::made_of("m"), "of the variants that it has");
        let (name, values) = all[0].values.last_key_value().unwrap();
        assert_eq!((name.as_str(), &values[..]), ("on", &[5.0, 6.0, 7.0, 8.0][..]));
        assert_eq!(all[0].values.len(), 2);
    }
}
