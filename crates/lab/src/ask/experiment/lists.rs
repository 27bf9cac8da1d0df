//! Values of experiment files that are lists of strings, or numbers.

use schedlab_base::Result;
use schedlab_machine::reader::{Table, Value};

/// A number that may be whole.
pub(crate) fn number(value: &Value<'_>) -> Option<f64> {
    let v = value.get_ref();
    let whole = v.as_integer().filter(|i| i.radix() == 10).and_then(|i| i.as_str().parse().ok());
    whole.or_else(|| v.as_float().and_then(|f| f.as_str().parse().ok())).filter(|n: &f64| n.is_finite())
}

/// A list of strings, or a single one, each with its place; empty when the key is absent.
pub(crate) fn strings<'t>(t: &Table<'t>, key: &str) -> Result<Vec<(&'t str, &'t Value<'t>)>> {
    let Some(value) = t.get(key) else { return Ok(Vec::new()) };
    if let Some(one) = value.get_ref().as_str() {
        return Ok(vec![(one, value)]);
    }
    let wrong = || t.error_at(key, format!("{key} is a list of strings")).help(format!("{key} = [\"...\"]"));
    let items = value.get_ref().as_array().ok_or_else(wrong)?;
    items.iter().map(|v| v.get_ref().as_str().map(|s| (s, v)).ok_or_else(wrong)).collect()
}

/// A list of names.
pub(super) fn strings_of(table: &Table<'_>, key: &str) -> Result<Vec<String>> {
    Ok(strings(table, key)?.into_iter().map(|(name, _)| name.to_owned()).collect())
}
