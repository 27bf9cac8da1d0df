//! Parameters as people write them. Records keep a choice as its number, and a nice value as its distance
//! from the lowest. Times stay in ns.

use schedlab_workload::{ParamKind, spec};
use serde_json::Value;

/// The parameters of a benchmark in a record's workload, with words and nice values as they are written; none
/// if it is no benchmark.
pub fn params_in_words(workload: &str, spec: &Value) -> Value {
    if spec.get("kind").is_some_and(|kind| kind == crate::command::saved::KIND) {
        // Printed parameters are in words already.
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

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::{Params, Spec};

    #[test]
    fn words_and_nice_values_are_shown_and_times_stay() {
        let given = [("waker_policy", 1), ("hog_nice", 25), ("tasks", 3)].map(|(n, v)| (n.to_owned(), v));
        let spec = serde_json::to_value(Spec::bench("slice", &Params(given.into())).unwrap()).unwrap();
        let shown = params_in_words("slice", &spec);
        assert_eq!((&shown["waker_policy"], &shown["hog_nice"]), (&"batch".into(), &5.into()));
        assert_eq!((shown["tasks"].as_u64(), shown["runtime"].as_u64()), (Some(3), Some(20_000_000_000)));
        assert_eq!(params_in_words("no-benchmark", &Value::Null), serde_json::json!({}));
    }
}
