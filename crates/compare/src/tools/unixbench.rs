//! Reads UnixBench 4 and 5: the table of index values, for each number of parallel copies.
//!
//! A table is a result, and its number of copies is the load. The lines above it ("41254573.1 lps (10.0 s, 7 samples)")
//! repeat the results; they are read only if a run has no table.

use super::text::{lines, missing, number, whole};
use super::tool::{BLANK, FigureRow, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::Higher;

/// Only its saved outputs are read: it is built from source, in its own folder.
pub const TOOL: Tool = Tool {
    name: "unixbench",
    about: "the index tables of UnixBench; each number of parallel copies is a load",
    figures: &[
        FigureRow("score", "", Higher, "the index of all tests"),
        FigureRow("score.partial", "", Higher, "the index of some tests"),
        FigureRow("<test>.index", "", Higher, "a test's result by UnixBench's own baseline, times ten"),
        FigureRow(
            "<test>.result",
            "",
            Higher,
            "a test's result in UnixBench's unit: loops, KB or MWIPS per time",
        ),
    ],
    headline: &["score", "score.partial"],
    knows: |text| lines(text).any(is_table),
    read,
    ..BLANK
};

fn is_table(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    line.starts_with("System Benchmarks") && words.ends_with(&["BASELINE", "RESULT", "INDEX"])
        || words == ["TEST", "BASELINE", "RESULT", "INDEX"]
}

/// "8 CPUs in system; running 1 parallel copy of tests"
fn copies(line: &str) -> Result<Option<String>> {
    let rest =
        line.split_once("running ").map(|(_, rest)| rest).filter(|rest| rest.contains(" parallel cop"));
    let n = rest.map_or(Ok(None), number)?;
    Ok(n.map(|n| if n == 1.0 { "1 copy".to_owned() } else { format!("{n} copies") }))
}

/// "Dhrystone 2 using register variables" as one word.
fn slug(name: &str) -> String {
    let clean = |c: char| if c.is_alphanumeric() || "-.".contains(c) { c.to_ascii_lowercase() } else { '_' };
    let name: String = name.trim().chars().map(clean).collect();
    name.split('_').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let (mut load, mut within) = (None, false);
    for line in lines(text) {
        if let Some(copies) = copies(line)? {
            (load, within) = (Some(copies), false);
        } else if is_table(line) {
            within = true;
            all.push(Reading { load: load.clone(), ..Reading::default() });
        } else if let Some(reading) = all.last_mut().filter(|_| within) {
            if let Some((_, score)) = line.split_once("Index Score") {
                // If some tests are missing, it is another index.
                let partial = score.trim_start().strip_prefix("(Partial Only)");
                let name = if partial.is_some() { "score.partial" } else { "score" };
                let score = partial.unwrap_or(score).trim_start_matches(':');
                reading.values.extend(number(score)?.map(|v| (name.to_owned(), v)));
                within = false;
            } else if let Some((name, result, index)) = row(line) {
                reading.values.insert(format!("{name}.result"), whole(result)?);
                // "---" if the test is not part of the index.
                if index.starts_with(|c: char| c.is_ascii_digit()) {
                    reading.values.insert(format!("{name}.index"), whole(index)?);
                }
            }
        }
    }
    all.retain(|r| !r.values.is_empty());
    if all.is_empty() { Err(missing("UnixBench", "row of its table of index values")) } else { Ok(all) }
}

/// Name, result and index of "Execl Throughput      43.0     12739.1   2962.6".
fn row(line: &str) -> Option<(String, &str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name @ .., baseline, result, index] = &words[..] else { return None };
    let numeric = |w: &str| w.starts_with(|c: char| c.is_ascii_digit());
    let baseline = numeric(baseline) || *baseline == "---";
    let whole = baseline && numeric(result) && (numeric(index) || *index == "---") && !name.is_empty();
    whole.then(|| (slug(&name.join(" ")), *result, *index)).filter(|(name, ..)| !name.is_empty())
}
