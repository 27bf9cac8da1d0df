//! Reads hackbench of rt-tests: one line "Time: s.mmm" for each run, after a head that names the groups.

use super::text::{lines, missing, number, scaled};
use super::tool::{BLANK, FigureRow, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::Lower;

pub const TOOL: Tool = Tool {
    name: "hackbench",
    about: "groups of senders and receivers that flood each other with messages",
    program: "hackbench",
    package: "rt-tests",
    load: &["-g", "{load}"],
    load_about: "groups",
    figures: &[FigureRow("time", "ns", Lower, "from the start signal until the last task is gone")],
    headline: &["time"],
    knows: |text| lines(text).any(|l| !matches!(time(l), Ok(None))),
    read,
    ..BLANK
};

fn time(line: &str) -> Result<Option<f64>> {
    line.strip_prefix("Time:").map_or(Ok(None), number)
}

/// "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)"
fn groups(line: &str) -> Option<String> {
    let words = line.strip_prefix("Running in ")?.split_once(" mode with ")?.1;
    let groups = number(words).ok()??;
    Some(format!("{groups} groups"))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let (mut load, mut all) = (None, Vec::new());
    for line in lines(text) {
        if let Some(groups) = groups(line) {
            load = Some(groups);
        } else if let Some(time) = time(line)? {
            let values = [("time".to_owned(), scaled(time, 1e9))].into();
            all.push(Reading { load: load.clone(), values, ..Reading::default() });
        }
    }
    if all.is_empty() { Err(missing("hackbench", "line 'Time: SECONDS'")) } else { Ok(all) }
}
