//! stress-ng with `--metrics-brief`: a line for each kind of stressor, then lines of its own measures.

use super::text::{lines, missing, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

pub const TOOL: Tool = Tool {
    name: "stress-ng",
    about: "stressors (--switch unless args say another: args = \"--nanosleep {load}\"; 10 s without -t)",
    program: "stress-ng",
    package: "stress-ng",
    before: &["--metrics-brief", "-t", "10"],
    load: &["--switch", "{load}"],
    load_about: "stressors",
    default_load: "1",
    figures: &[
        FigureRow("<stressor>.rate", "1/s", Higher, "operations per second of real time"),
        FigureRow("<stressor>.cpu_rate", "1/s", Higher, "operations per second of CPU time"),
        FigureRow("<stressor>.ops", "", Neither, "operations"),
        FigureRow(
            "<stressor>.per_op",
            "ns",
            Lower,
            "time of one of the stressor's own operations, as it measures itself",
        ),
    ],
    headline: &["switch.rate", "switch.per_op"],
    knows: |text| lines(text).any(|l| l.starts_with("stress-ng: ") && l.contains("bogo ops/s")),
    read,
    ..BLANK
};

/// The words after "stress-ng: metrc: [15334]"; in older versions after "info:".
fn words(line: &str) -> Option<Vec<&str>> {
    let rest = line.strip_prefix("stress-ng: ")?;
    let rest = rest.strip_prefix("metrc:").or_else(|| rest.strip_prefix("info:"))?.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(numbered) => numbered.split_once(']')?.1,
        None => rest,
    };
    Some(rest.split_whitespace().collect())
}

/// Every run in a text. A repeated line of a stressor's operations begins another run.
fn read(text: &str) -> Result<Vec<Reading>> {
    let mut runs = vec![FigureValues::new()];
    for words in lines(text).filter_map(words) {
        let Some((name, rest)) = words.split_first() else { continue };
        let begins = |w: &&&str| w.starts_with(|c: char| c.is_ascii_digit()) || ["nan", "-nan"].contains(w);
        let numbers: Vec<f64> = rest.iter().take_while(begins).map(|w| whole(w)).collect::<Result<_>>()?;
        match (&numbers[..], rest.get(1), rest.get(2)) {
            ([ops, _real, _user, _system, rate, cpu_rate, ..], ..) => {
                let all = [("ops", *ops), ("rate", *rate), ("cpu_rate", *cpu_rate)];
                if runs.last().is_some_and(|run| run.contains_key(&format!("{name}.ops"))) {
                    runs.push(FigureValues::new());
                }
                let all = all.map(|(what, v)| (format!("{name}.{what}"), v));
                runs.last_mut().into_iter().for_each(|run| run.extend(all.clone()));
            }
            // Of several, the first is the one that the stressor is named after.
            ([ns], Some(&"nanosecs" | &"nanoseconds"), Some(&"per")) => {
                let last = runs.last_mut().into_iter();
                last.for_each(|run| _ = run.entry(format!("{name}.per_op")).or_insert(*ns));
            }
            _ => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    if runs.is_empty() {
        return Err(missing("stress-ng", "line of metrics (--metrics-brief)"));
    }
    Ok(runs.into_iter().map(|values| Reading { values, ..Reading::default() }).collect())
}
