//! The result of a knee search as plain text, and as a comparison to plot: the metric at every load tried.

use crate::number::{count, value};
use crate::text::wrap;
use crate::uncertainty::of_one;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{COMPARISON_SCHEMA, Cell, CellStat, Measured};
use schedlab_compare::knees::{Knees, TriedLoad};
use schedlab_record::{Better, MODEL};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub fn export(k: &Knees, out: &mut dyn Write) -> io::Result<()> {
    let limit = format!("{} {}", k.limit.metric, bound(k));
    let head =
        format!("largest {} of {} with {limit}, on {} ({})", k.parameter, k.workload, k.machine, k.backend);
    write!(out, "{}", wrap("", &head))?;
    writeln!(out, "{:<24}{:>10}  {:<20}by seed", "variant", "knee", "95% interval")?;
    for v in &k.variants {
        let interval = v.ci95.map_or_else(String::new, |[a, b]| format!("[{}, {}]", count(a), count(b)));
        let knees: Vec<String> = v.knees.iter().map(u64::to_string).collect();
        let mean = if v.knees.is_empty() { "-".to_owned() } else { format!("{:.1}", v.mean) };
        let first = format!("{:<24}{mean:>10}  {interval:<20}", v.variant);
        write!(out, "{}", wrap(&first, &knees.join(" ")))?;
        if v.unknown > 0 {
            let text = format!(
                "{} can't tell: {} is missing at loads that matter, because there are too few samples; run longer",
                schedlab_base::counted(v.unknown, "seed"),
                k.limit.metric
            );
            write!(out, "{}", wrap("  ", &text))?;
        }
        if v.unjudged > 0 {
            let text = format!(
                "{} could not be judged ({} missing): the knee may lie above",
                schedlab_base::counted(v.unjudged, "larger load"),
                k.limit.metric
            );
            write!(out, "{}", wrap("  ", &text))?;
        }
        if let Some(sway) = &v.uncertainty {
            write!(out, "{}", wrap("  ", &of_one(sway, "")))?;
        }
        if v.at_cap > 0 {
            let text = format!(
                "{} of {} reached the cap of {}: the knee may lie above",
                v.at_cap,
                schedlab_base::counted(v.knees.len(), "seed"),
                k.cap
            );
            write!(out, "{}", wrap("  ", &text))?;
        }
    }
    if k.interrupted {
        writeln!(out, "interrupted: seeds that were not finished are left out")?;
    }
    k.warnings.iter().try_for_each(|w| write!(out, "{}", wrap("warning: ", &w.message)))
}

/// "< 2.00ms".
fn bound(k: &Knees) -> String {
    let sign = if k.limit.below { "<" } else { ">" };
    // An interrupted search may have measured nothing. Then the unit is ns, as for nearly all limits.
    let unit = if k.unit.is_empty() && k.tried.is_empty() { "ns" } else { &k.unit };
    format!("{sign} {}", value(k.limit.value, unit))
}

/// The loads tried, as a comparison without verdicts, to be plotted: a line for each variant, and a horizontal line at
/// the limit.
pub fn curve(k: &Knees) -> Comparison {
    let tried = k.tried.iter().filter(|t| !t.values.is_empty());
    let mut cells: Vec<Cell> =
        tried.map(|t| point(k, &t.variant, format!("{}={}", k.parameter, t.load), t)).collect();
    if !cells.is_empty() {
        let values = vec![k.limit.value];
        let limit = TriedLoad { variant: String::new(), load: 0, values, missing: 0 };
        cells.push(point(k, &format!("limit {}", bound(k)), String::new(), &limit));
    }
    Comparison {
        schema: COMPARISON_SCHEMA.to_owned(),
        experiment: format!("{} on {} ({}): loads tried", k.workload, k.machine, k.backend),
        model: MODEL,
        metrics: vec![k.limit.metric.clone()],
        baseline_is: Default::default(),
        min_effect_pct: 0.0,
        cells,
        comparisons: Vec::new(),
        stalled: Vec::new(),
        disagreements: Vec::new(),
        published: Vec::new(),
        fits: Vec::new(),
        uncertainty: Vec::new(),
        looks: Vec::new(),
        runs_needed: None,
        answers: Vec::new(),
        warnings: Vec::new(),
    }
}

fn point(k: &Knees, variant: &str, load: String, tried: &TriedLoad) -> Cell {
    let values = tried.values.clone();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let measured = Measured {
        unit: k.unit.clone(),
        better: Better::Neither,
        mean,
        std_pct: None,
        missing_runs: tried.missing,
        values,
    };
    Cell {
        backend: k.backend.clone(),
        mode: None,
        level: None,
        free_ns: 0,
        machine: k.machine.clone(),
        kernel: String::new(),
        workload: k.workload.clone(),
        load,
        params: serde_json::Value::Null,
        variant: variant.to_owned(),
        runs: tried.values.len(),
        seeds: Vec::new(),
        folders: Vec::new(),
        watched: None,
        computer: None,
        metrics: BTreeMap::from([(k.limit.metric.clone(), CellStat::Measured(measured))]),
    }
}
