//! Parameters as users write them. Records store a choice as its number, and a nice value as its distance from the
//! lowest. Times stay in ns.

use schedlab_kernel::Variant;
use schedlab_kernel::policy::EVERY_TASK;
use schedlab_record::Record;
use schedlab_workload::{ParamKind, spec};
use serde_json::Value;

/// The parameters of a benchmark in a record's workload, with words and nice values as users write them; none for other
/// workloads. Cells of a comparison have these, whatever their variants change.
pub fn params_in_words(workload: &str, spec: &Value) -> Value {
    if spec.get("kind").is_some_and(|kind| kind == crate::tools::saved::KIND) {
        // Parameters of saved outputs already have words.
        return spec.get("params").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    }
    let table = spec::find(workload).map_or(&[][..], |b| b.params);
    let mut shown = spec.get("params").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    for (name, value) in shown.as_object_mut().into_iter().flatten() {
        let kind = table.iter().find(|p| p.name == name).map(|p| p.kind);
        *value = match (kind, value.as_u64()) {
            (Some(kind @ ParamKind::Choice(_)), Some(n)) => kind.show(n).into(),
            (Some(kind @ ParamKind::Nice), Some(n)) => {
                kind.show(n).parse::<i64>().map_or(n.into(), Into::into)
            }
            _ => continue,
        };
    }
    shown
}

/// The parameters of a run. A group's policy, nice value and slice (`hog_policy`) are the variant's if it sets them.
pub fn params_of_run(record: &Record) -> Value {
    let mut shown = params_in_words(&record.workload, &record.spec);
    for (name, value) in shown.as_object_mut().into_iter().flatten() {
        if let Some(changed) = changed(&record.variant, name) {
            *value = changed;
        }
    }
    shown
}

/// The value that the variant sets for a parameter such as `hog_policy`: for the group, else for all tasks.
fn changed(variant: &Variant, param: &str) -> Option<Value> {
    let (group, attribute) = param.rsplit_once('_')?;
    let changes = [group, EVERY_TASK].into_iter().filter_map(|name| variant.tasks.get(name));
    changes
        .filter_map(|change| match attribute {
            "policy" => change.policy.map(|policy| policy.to_string().into()),
            "nice" => change.nice.map(Into::into),
            "slice" => change.slice.map(|slice| slice.0.into()),
            _ => None,
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use schedlab_kernel::{AttrChange, Policy};
    use schedlab_workload::{Params, Spec};

    fn slice_test() -> Value {
        let given = [("waker_policy", 1), ("hog_nice", 25), ("tasks", 3)].map(|(n, v)| (n.to_owned(), v));
        serde_json::to_value(Spec::bench("slice", &Params(given.into())).unwrap()).unwrap()
    }

    #[test]
    fn words_and_nice_values_are_shown_and_times_stay() {
        let shown = params_in_words("slice", &slice_test());
        assert_eq!((&shown["waker_policy"], &shown["hog_nice"]), (&"batch".into(), &5.into()));
        assert_eq!((shown["tasks"].as_u64(), shown["runtime"].as_u64()), (Some(3), Some(20_000_000_000)));
        assert_eq!(params_in_words("no-benchmark", &Value::Null), serde_json::json!({}));
    }

    #[test]
    fn a_run_shows_the_attributes_that_its_variant_gives() {
        let mut record = testing::record(&[]);
        record.spec = slice_test();
        let change = |policy, nice| AttrChange { policy, nice, slice: None };
        record.variant.tasks.insert(EVERY_TASK.into(), change(Some(Policy::Fifo), Some(3)));
        record.variant.tasks.insert("waker".into(), change(Some(Policy::Rr), None));
        let shown = params_of_run(&record);
        assert_eq!((&shown["hog_policy"], &shown["hog_nice"]), (&"fifo".into(), &3.into()));
        assert_eq!((&shown["waker_policy"], &shown["waker_nice"]), (&"rr".into(), &3.into()));
        assert_eq!((&shown["hog_slice"], &shown["tasks"]), (&0.into(), &3.into()), "these stay");
    }
}
