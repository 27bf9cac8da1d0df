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

const SCHEMA: &str = "schedlab/published-values/1";

/// Values of a metric under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadValues {
    pub machine: String,
    pub load: String,
    pub metric: String,
    /// By variant, a value for each seed; none where a run lacks it.
    pub values: BTreeMap<String, Vec<f64>>,
}

impl LoadValues {
    pub fn is_of(&self, machine: &str, load: &str, metric: &str) -> bool {
        self.machine == machine && self.load == load && self.metric == metric
    }
}

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
    pub fn of(name: &str, posted: &[PostedFigures], baseline: &str, runs: &Comparison) -> FoundSeries {
        let level = runs.cells.iter().find_map(|cell| cell.level).unwrap_or_default();
        let loads = values_of(posted, baseline, runs);
        FoundSeries { name: name.to_owned(), engine: ENGINE, level, loads }
    }
    /// Adds values of loads that this lacks, if the same engine at the same level has made them.
    pub fn complete(&mut self, earlier: &FoundSeries) {
        if (self.engine, self.level) != (earlier.engine, earlier.level) {
            return;
        }
        for more in &earlier.loads {
            if !self.loads.iter().any(|ours| ours.is_of(&more.machine, &more.load, &more.metric)) {
                self.loads.push(more.clone());
            }
        }
        self.loads.sort_by(|a, b| (&a.machine, &a.load, &a.metric).cmp(&(&b.machine, &b.load, &b.metric)));
    }
}

/// The values of every modelled row whose load was run, under baseline and variant.
fn values_of(posted: &[PostedFigures], baseline: &str, runs: &Comparison) -> Vec<LoadValues> {
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
    let one = |([machine, load, metric], values): ([&str; 3], _)| LoadValues {
        machine: machine.to_owned(),
        load: load.to_owned(),
        metric: metric.to_owned(),
        values,
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
        LoadValues { machine: machine.into(), load: "UDP_RR 100 %".into(), metric: "rr.rate".into(), values }
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
        assert!(read(&write(&[]).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn loads_that_were_not_run_are_taken_from_the_same_engine_only() {
        let mut ours = found(11, vec![values("b", 1.0)]);
        ours.complete(&found(10, vec![values("a", 9.0)]));
        assert_eq!(ours.loads.len(), 1);
        ours.complete(&found(11, vec![values("b", 9.0), values("a", 9.0)]));
        assert_eq!(ours.loads, [values("a", 9.0), values("b", 1.0)]);
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
        let all = values_of(&posted, "off", &runs);
        assert_eq!(all.len(), 1, "{all:?}");
        let (name, values) = all[0].values.last_key_value().unwrap();
        assert_eq!((name.as_str(), &values[..]), ("on", &[5.0, 6.0, 7.0, 8.0][..]));
        assert_eq!(all[0].values.len(), 2);
    }
}
