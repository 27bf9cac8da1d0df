//! Values that may be several: `{ sweep = [1, 2, 4] }` and `{ range = [1, 8], step = 1 }`, for numbers and times.

use super::expand::range;
use schedlab_base::{Error, Ns, Result};
use schedlab_machine::reader::{Table, Value};

/// A value as text, with its place.
pub type Item<'t> = (String, &'t Value<'t>);

/// The values a key takes: one, or a sweep's.
pub fn values<'t>(table: &Table<'t>, name: &str, value: &'t Value<'t>) -> Result<Vec<Item<'t>>> {
    if let Some(text) = scalar(value) {
        return Ok(vec![(text, value)]);
    }
    let wrong = || {
        let e =
            Error::input(format!("{name} takes a number, a string with a unit, true or false, or a sweep"))
                .help("sweeps are { sweep = [1, 2, 4] } and { range = [1, 8], step = 1 }");
        table.error_on(value, e)
    };
    let inner = value.get_ref().as_table().ok_or_else(wrong)?;
    let get = |key: &str| inner.get(key);
    let keys: Vec<&str> = inner.keys().map(|k| &**k.get_ref()).collect();
    match keys.as_slice() {
        ["sweep"] => {
            let items = get("sweep").and_then(|v| v.get_ref().as_array());
            let items = items.filter(|a| !a.is_empty()).ok_or_else(wrong)?;
            items.iter().map(|v| scalar(v).map(|text| (text, v)).ok_or_else(wrong)).collect()
        }
        ["range"] | ["range", "step"] => {
            let ends = get("range").and_then(|v| v.get_ref().as_array());
            let ends = ends.filter(|a| a.len() == 2).ok_or_else(wrong)?;
            let text = |v: &Value<'_>| scalar(v).ok_or_else(wrong);
            let step = get("step").map(text).transpose()?;
            let all = between(&text(&ends[0])?, &text(&ends[1])?, step.as_deref()).ok_or_else(wrong)?;
            let all = all.map_err(|e| table.error_on(value, e))?;
            Ok(all.into_iter().map(|text| (text, value)).collect())
        }
        _ => Err(wrong()),
    }
}

/// As [`values`], without the places.
pub fn texts<'t>(table: &Table<'t>, name: &str, value: &'t Value<'t>) -> Result<Vec<String>> {
    Ok(values(table, name, value)?.into_iter().map(|(text, _)| text).collect())
}

/// The values of a range: whole numbers, or times with a step of their own; `None` if its ends are neither.
fn between(first: &str, last: &str, step: Option<&str>) -> Option<Result<Vec<String>>> {
    let number = |text: &str| text.parse::<i64>().ok();
    if let (Some(first), Some(last)) = (number(first), number(last)) {
        let step = step.map_or(Some(1), number)?;
        return Some(range(first, last, step).map(|all| all.iter().map(i64::to_string).collect()));
    }
    let time = |text: &str| Ns::parse(text, "").ok().and_then(|t| i64::try_from(t.0).ok());
    let (first, last, step) = (time(first)?, time(last)?, time(step?)?);
    Some(range(first, last, step).map(|all| all.iter().map(|t| exact(*t)).collect()))
}

/// A time in the largest unit that gives a whole number.
fn exact(ns: i64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (size, unit) = units.into_iter().find(|(size, _)| ns % size == 0).unwrap_or((1, "ns"));
    format!("{}{unit}", ns / size)
}

/// A value that is neither a list nor a table, as it is written.
pub fn scalar(value: &Value<'_>) -> Option<String> {
    let v = value.get_ref();
    v.as_str()
        .map(str::to_owned)
        .or_else(|| v.as_bool().map(|b| b.to_string()))
        .or_else(|| v.as_integer().filter(|i| i.radix() == 10).map(|i| i.as_str().replace('_', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_numbers_or_of_times() {
        let all = |first, last, step| between(first, last, step).map(|r| r.unwrap().join(" "));
        assert_eq!(all("-1", "1", None).unwrap(), "-1 0 1");
        assert_eq!(all("1ms", "2ms", Some("500us")).unwrap(), "1ms 1500us 2ms");
        assert!(all("1ms", "2ms", None).is_none() && all("a", "b", Some("1")).is_none());
        assert!(between("2", "1", None).unwrap().is_err());
    }
}
