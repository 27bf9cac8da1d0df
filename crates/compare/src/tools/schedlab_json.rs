//! Reads schedlab's own output, a comparison or a run as JSON. It has every run with its seed, so pairs stay pairs.

use schedlab_base::{Error, Result};
use schedlab_record::{Better, Figure, Observe};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub struct SavedForm {
    /// The name for `--from`.
    pub name: &'static str,
    /// Whether a text has this form.
    pub knows: fn(&str) -> bool,
    pub read: fn(&str) -> Result<Vec<Run>>,
}

/// Every form, in the order in which a text is tried.
pub const FORMS: &[SavedForm] = &[
    SavedForm { name: "comparison", knows: |text| has_schema(text, COMPARISON), read: comparison },
    SavedForm { name: "run", knows: |text| has_schema(text, RUN), read: run },
];

const COMPARISON: &str = "schedlab/comparison/1";
const RUN: &str = "schedlab/run/1";

/// A run, as far as its form describes it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Run {
    /// "sim", "host", "vm"; "" if unknown.
    pub backend: String,
    /// "" if unknown.
    pub machine: String,
    /// "" if unknown.
    pub kernel: String,
    pub workload: String,
    /// "" if unknown.
    pub load: String,
    /// "" if unknown.
    pub variant: String,
    /// Its seed, which pairs runs of variants.
    pub seed: Option<u64>,
    /// The version of the code that made it.
    pub model: Option<u32>,
    /// How closely it was watched; `None` for simulated runs and if unknown.
    pub watched: Option<Observe>,
    /// Parameters of the workload, in words.
    pub params: Value,
    pub figures: BTreeMap<String, Figure>,
    /// If its figures are means: the number of runs; otherwise 0 or 1.
    pub mean_of: u64,
    /// Whether it has every metric that schedlab knows for the run, rather than a selection.
    pub everything: bool,
}

/// Whether a text's first JSON value begins with this schema.
fn has_schema(text: &str, schema: &str) -> bool {
    let start = text.trim_start();
    start.starts_with('{') && start.contains(schema) && parsed(text).is_ok_and(|v| v["schema"] == schema)
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::input(format!("its JSON is not whole: {e}")))
}

fn word(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().replace(char::is_control, " ")
}

fn non_empty(all: Vec<Run>, what: &str) -> Result<Vec<Run>> {
    if all.iter().all(|r| r.figures.is_empty()) {
        return Err(Error::input(format!("no {what} in it")));
    }
    Ok(all)
}

/// A run with the origin given in a cell or a run.
fn origin(cell: &Value, model: &Value) -> Run {
    let params = cell.get("params").cloned().unwrap_or_default();
    Run {
        backend: word(cell, "backend"),
        machine: word(cell, "machine"),
        kernel: word(cell, "kernel"),
        workload: word(cell, "workload"),
        load: word(cell, "load"),
        variant: word(cell, "variant"),
        model: model.as_u64().and_then(|m| m.try_into().ok()),
        watched: cell.get("watched").and_then(|w| Observe::deserialize(w).ok()),
        params,
        ..Run::default()
    }
}

fn figure(metric: &Value, value: f64) -> Figure {
    let better = Better::parse(&word(metric, "better")).unwrap_or(Better::Neither);
    Figure { value, unit: word(metric, "unit"), better }
}

fn comparison(text: &str) -> Result<Vec<Run>> {
    let whole = parsed(text)?;
    let cells = whole["cells"].as_array().map_or(&[][..], Vec::as_slice);
    // The first run becomes the baseline, so the old baseline is put first.
    let (bases, others): (Vec<&Value>, Vec<&Value>) =
        cells.iter().partition(|cell| is_baseline(&whole, cell));
    let cells = bases.into_iter().chain(others);
    let runs: Vec<Vec<Run>> = cells.map(|cell| cell_runs(cell, &whole["model"])).collect::<Result<_>>()?;
    non_empty(runs.into_iter().flatten().collect(), "cell with a measured metric")
}

/// Whether a comparison's rows name a cell as their baseline.
fn is_baseline(whole: &Value, cell: &Value) -> bool {
    let mut rows = whole["comparisons"].as_array().into_iter().flatten();
    let place = ["backend", "machine", "workload", "load"];
    rows.any(|row| row["baseline"] == cell["variant"] && place.iter().all(|key| row[key] == cell[key]))
}

/// The runs of a cell. If some runs lack a metric, the text does not say which ones, so none keeps its seed.
fn cell_runs(cell: &Value, model: &Value) -> Result<Vec<Run>> {
    let first = origin(cell, model);
    let metrics = cell["metrics"].as_object().into_iter().flatten();
    let values = |m: &Value| -> Result<Vec<f64>> {
        m["values"].as_array().into_iter().flatten().map(number).collect()
    };
    let all: Vec<(&String, &Value, Vec<f64>)> =
        metrics.map(|(name, m)| Ok((name, m, values(m)?))).collect::<Result<_>>()?;
    let seeds: Vec<u64> = cell["seeds"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let runs = all.iter().map(|(.., v)| v.len()).max().unwrap_or(0);
    let whole = seeds.len() == runs && all.iter().all(|(.., v)| v.is_empty() || v.len() == runs);
    let one = |i: usize| {
        let run_figures =
            all.iter().filter_map(|(name, m, v)| Some(((*name).clone(), figure(m, *v.get(i)?))));
        Run { seed: whole.then(|| seeds[i]), figures: run_figures.collect(), ..first.clone() }
    };
    Ok((0..runs).map(one).collect())
}

/// A number of a result. JSON has no "nan"; writers use `null` or words instead.
fn number(value: &Value) -> Result<f64> {
    value.as_f64().ok_or_else(|| Error::input(format!("{value} is where a result's number should be")))
}

fn run(text: &str) -> Result<Vec<Run>> {
    let whole = parsed(text)?;
    let metrics = whole["metrics"].as_object().into_iter().flatten();
    let missing = |m: &Value| m["value"].get("missing").is_some() || m.get("value").is_none();
    let measured = metrics.filter(|(_, m)| !missing(m));
    let figures = measured.map(|(name, m)| Ok((name.clone(), figure(m, number(&m["value"])?))));
    let figures = figures.collect::<Result<_>>()?;
    let run =
        Run { seed: whole["seed"].as_u64(), figures, everything: true, ..origin(&whole, &whole["model"]) };
    non_empty(vec![run], "measured metric")
}

/// The figures that tables show by default: all metrics of a comparison, because its maker chose them. A run with
/// `everything` shows all if they are few, else the workload's headline metrics.
pub fn headline(figures: &BTreeMap<String, Figure>, own: &[&str], everything: bool) -> Vec<String> {
    let firsts: Vec<String> =
        own.iter().filter(|n| figures.contains_key(**n)).map(|n| (*n).to_owned()).collect();
    if everything && figures.len() > FEW && !firsts.is_empty() {
        firsts
    } else {
        super::tool::firsts_first(figures, &firsts)
    }
}

/// Up to this many metrics of a run are all shown.
const FEW: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_their_seeds_unless_values_are_missing() {
        let text = |b: &str| {
            format!(
                "{{\"schema\": \"{COMPARISON}\", \"model\": 9, \"cells\": [{{\"backend\": \"sim\", \"workload\": \"pipe\", \
                 \"seeds\": [3, 4], \"metrics\": {{\"a\": {{\"unit\": \"ns\", \"better\": \"lower\", \"values\": [1, 2]}}, \
                 \"b\": {b}}}}}]}}"
            )
        };
        let all = comparison(&text("{\"missing\": \"why\"}")).unwrap();
        assert_eq!(
            all.iter().map(|r| (r.seed, r.figures["a"].value)).collect::<Vec<_>>(),
            [(Some(3), 1.0), (Some(4), 2.0)]
        );
        assert_eq!((all[0].model, all[0].figures["a"].better), (Some(9), Better::Lower));
        let holes = comparison(&text("{\"unit\": \"\", \"better\": \"neither\", \"values\": [7]}")).unwrap();
        assert_eq!(
            holes.iter().map(|r| (r.seed, r.figures.len())).collect::<Vec<_>>(),
            [(None, 2), (None, 1)]
        );
        assert!(comparison(&format!("{{\"schema\": \"{COMPARISON}\", \"cells\": []}}")).is_err());
    }
}
