//! Says how stored cells differ that have the same names in a list: in a parameter, a change of the variant, how they
//! were watched, and so on. An experiment that was edited between its runs leaves such cells.

use super::ListedCell;
use schedlab_record::cell::{CodeSetup, compiler_in_short};
use schedlab_record::store_listing::Identity;
use schedlab_workload::spec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Shown for a figure that a cell lacks.
const NONE: &str = "-";

/// Whether two cells look alike in a list except for digits, seeds and times.
pub fn alike(a: &ListedCell, b: &ListedCell) -> bool {
    a.of.is_some() && a.of == b.of && a.experiments == b.experiments
}

/// Fills in `differs` of cells that look like their neighbours. The cells must be sorted as in the list.
pub fn fill_in(cells: &mut [ListedCell]) {
    for group in cells.chunk_by_mut(alike).filter(|group| group.len() > 1) {
        let figures: Vec<BTreeMap<String, String>> = group.iter().map(figures).collect();
        let mut keys = differing(&figures, |key| !key.starts_with("kernel."));
        if keys.is_empty() {
            // Figures derived from others differ only between versions.
            keys = differing(&figures, |_| true);
        }
        for (cell, own) in group.iter_mut().zip(&figures) {
            let value = |key: &String| own.get(key).cloned().unwrap_or_else(|| NONE.to_owned());
            cell.differs = keys.iter().map(|key| (key.clone(), value(key))).collect();
        }
    }
}

fn differing(all: &[BTreeMap<String, String>], wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let keys = all.iter().flat_map(BTreeMap::keys).filter(|key| wanted(key));
    keys.filter(|key| all.windows(2).any(|w| w[0].get(*key) != w[1].get(*key))).cloned().collect()
}

/// All figures of a cell, by name; none if its record can't be read.
fn figures(cell: &ListedCell) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let Some(id) = cell.held.runs.first().and_then(|r| Identity::of(&r.run)) else { return all };
    let workload = cell.of.as_ref().map_or("", |of| &of.workload);
    parameters(workload, &id.spec, &mut all);
    leaves("variant", &id.variant, &mut all);
    leaves("watched", &id.observe, &mut all);
    leaves("guest", &id.guest, &mut all);
    if let Ok(code) = serde_json::from_value::<CodeSetup>(id.code.clone()) {
        all.insert("compiler".to_owned(), compiler_in_short(&code.compiler));
        all.insert("image".to_owned(), code.image_in_short().to_owned());
    }
    leaves("machine", &id.machine, &mut all);
    leaves("version", &id.model, &mut all);
    leaves("kernel", &id.resolved, &mut all);
    let costs = if id.drawn.is_empty() { "stated" } else { "drawn" };
    all.insert("costs".to_owned(), costs.to_owned());
    all
}

/// The parameters of a workload; those of a benchmark as users write them.
fn parameters(workload: &str, spec: &Value, all: &mut BTreeMap<String, String>) {
    let table = spec::find(workload).map_or(&[][..], |b| b.params);
    let Some(params) = spec.get("params").and_then(Value::as_object) else {
        return leaves("workload", spec, all);
    };
    for (name, value) in params {
        let row = table.iter().find(|p| p.name == name);
        match row.and_then(|p| Some(p.kind.show(value.as_u64()?))) {
            Some(text) => _ = all.insert(name.clone(), text),
            None => leaves(name, value, all),
        }
    }
}

/// Every number and word in a tree, named by its path from the root.
fn leaves(name: &str, value: &Value, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(inner) => inner.iter().for_each(|(k, v)| leaves(&format!("{name}.{k}"), v, all)),
        Value::String(text) => _ = all.insert(name.to_owned(), text.clone()),
        other => _ = all.insert(name.to_owned(), other.to_string()),
    }
}
