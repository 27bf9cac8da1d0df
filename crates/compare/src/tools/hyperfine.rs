//! Reads hyperfine's JSON export: a result for each command, with the times of its runs in seconds.

use super::text::{jsons, missing, scaled};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::Lower;
use serde_json::Value;

pub const TOOL: Tool = Tool {
    name: "hyperfine",
    about: "times a command many times; args = \"'COMMAND'\"",
    program: "hyperfine",
    package: "hyperfine",
    // Older versions do not accept "-" for standard output.
    before: &["-N", "--style", "none", "--export-json", "/dev/stdout"],
    figures: &[
        FigureRow(
            "time",
            "ns",
            Lower,
            "elapsed time of the command: mean of hyperfine's runs, or of one of them",
        ),
        FigureRow("median", "ns", Lower, "median of hyperfine's runs"),
        FigureRow("min", "ns", Lower, "shortest of hyperfine's runs"),
        FigureRow("max", "ns", Lower, "longest of hyperfine's runs"),
        FigureRow("user", "ns", Lower, "mean CPU time in user mode"),
        FigureRow("system", "ns", Lower, "mean CPU time in the kernel"),
    ],
    headline: &["time"],
    knows: |text| text.contains("\"results\"") && text.contains("\"times\"") && results(text).is_ok(),
    read: results,
    ..BLANK
};

fn results(text: &str) -> Result<Vec<Reading>> {
    let values = jsons("hyperfine", text)?;
    let results = values.iter().filter_map(|v| v.get("results")?.as_array()).flatten();
    let all: Vec<Reading> = results.filter_map(one_result).collect();
    if all.is_empty() {
        Err(missing("hyperfine", "entry of 'results' with 'mean' and 'times'"))
    } else {
        Ok(all)
    }
}

fn one_result(result: &Value) -> Option<Reading> {
    let ns = |key: &str| Some(scaled(result.get(key)?.as_f64()?, 1e9));
    let mut values = FigureValues::from([("time".to_owned(), ns("mean")?)]);
    for key in ["median", "min", "max", "user", "system"] {
        values.extend(ns(key).map(|v| (key.to_owned(), v)));
    }
    let times = result.get("times").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64);
    let repeats = times.map(|t| FigureValues::from([("time".to_owned(), scaled(t, 1e9))])).collect();
    let load = result.get("command").and_then(Value::as_str).map(|c| c.trim().replace(char::is_control, " "));
    Some(Reading { load, values, repeats, ..Reading::default() })
}
