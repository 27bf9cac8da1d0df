//! Reads stress-ng with `--metrics-brief`: a line for each kind of stressor, then lines of its own measures; or the
//! file of `--yaml`. That is read line by line: readers of YAML 1.1 would take its times of day for numbers of base 60.

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
    knows: |text| lines(text).any(|l| message(l).is_some()) || is_yaml(text),
    read,
    ..BLANK
};

/// The level and the text of "stress-ng: metrc: [15334] switch ..."; with `--timestamp` a time of day precedes the
/// level.
fn message(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("stress-ng: ")?.trim_start();
    let is_time = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b":.".contains(&b));
    let rest = match rest.split_once(' ') {
        Some((time, rest)) if is_time(time) => rest,
        _ => rest,
    };
    let (level, rest) = rest.split_once(':')?;
    let rest = rest.trim_start();
    let text = match rest.strip_prefix('[') {
        Some(numbered) => numbered.split_once(']')?.1,
        None => rest,
    };
    Some((level, text.trim())).filter(|_| level.bytes().all(|b| b.is_ascii_lowercase()))
}

/// The words of a line that may hold metrics: "metrc", in older versions "info". The latter also reports how many
/// stressors passed, after a word with a colon.
fn words(line: &str) -> Option<Vec<&str>> {
    let (_, text) = message(line).filter(|(level, _)| ["metrc", "info"].contains(level))?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(words).filter(|words| words.first().is_some_and(|name| !name.ends_with(':')))
}

/// The runs of a text while it is read.
struct Runs(Vec<FigureValues>);

impl Runs {
    fn put(&mut self, name: &str, value: f64) {
        // A stressor's figure that occurs again belongs to another run.
        if self.0.last().is_none_or(|run| run.contains_key(name)) {
            self.0.push(FigureValues::new());
        }
        self.0.last_mut().into_iter().for_each(|run| _ = run.insert(name.to_owned(), value));
    }
    /// Keeps the first of several own measures: that is the one after which the stressor is named.
    fn put_first(&mut self, name: String, value: f64) {
        self.0.last_mut().into_iter().for_each(|run| _ = run.entry(name.clone()).or_insert(value));
    }
}

/// The runs in a text. A repeated line of a stressor's operations begins another run.
fn read(text: &str) -> Result<Vec<Reading>> {
    let mut runs = Runs(Vec::new());
    if is_yaml(text) {
        of_yaml(text, &mut runs)?;
    } else {
        lines(text).filter_map(words).try_for_each(|words| of_words(&words, &mut runs))?;
    }
    if runs.0.is_empty() {
        return Err(missing("stress-ng", "line of metrics").help(
            "run it with --metrics or --metrics-brief, or --yaml FILE; --metric-regex 'NAME[UNIT]=REGEX' reads a figure \
             out of any text",
        ));
    }
    Ok(runs.0.into_iter().map(|values| Reading { values, ..Reading::default() }).collect())
}

fn of_words(words: &[&str], runs: &mut Runs) -> Result<()> {
    let Some((name, rest)) = words.split_first() else { return Ok(()) };
    let begins = |w: &&&str| w.starts_with(|c: char| c.is_ascii_digit()) || ["nan", "-nan"].contains(w);
    let numbers: Vec<&&str> = rest.iter().take_while(begins).collect();
    match (&numbers[..], rest.get(1), rest.get(2)) {
        ([ops, _real, _user, _system, rate, cpu_rate, ..], ..) => {
            for (what, word) in [("ops", ops), ("rate", rate), ("cpu_rate", cpu_rate)] {
                runs.put(&format!("{name}.{what}"), whole(word)?);
            }
        }
        ([ns], Some(&"nanosecs" | &"nanoseconds"), Some(&"per")) => {
            runs.put_first(format!("{name}.per_op"), whole(ns)?);
        }
        _ => {}
    }
    Ok(())
}

/// Whether a text comes from `--yaml`.
fn is_yaml(text: &str) -> bool {
    lines(text).any(|l| l.starts_with("- stressor:")) && text.contains("bogo-ops-per-second-real-time:")
}

/// "- stressor: switch" and the lines "bogo-ops: 201961" below it.
fn of_yaml(text: &str, runs: &mut Runs) -> Result<()> {
    let mut stressor = None;
    for line in lines(text) {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim().trim_matches('\'');
        if key == "- stressor" {
            stressor = Some(value.replace(|c: char| c.is_whitespace() || c.is_control(), "_"));
        }
        let Some(name) = &stressor else { continue };
        match key {
            "bogo-ops" => runs.put(&format!("{name}.ops"), whole(value)?),
            "bogo-ops-per-second-real-time" => runs.put(&format!("{name}.rate"), whole(value)?),
            "bogo-ops-per-second-usr-sys-time" => runs.put(&format!("{name}.cpu_rate"), whole(value)?),
            key if key.starts_with("nanosecs-per-") || key.starts_with("nanoseconds-per-") => {
                runs.put_first(format!("{name}.per_op"), whole(value)?);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "stress-ng: 23:08:09.32 info:  [7] dispatching hogs: 1 switch, 1 cpu\n\
        stress-ng: 23:08:11.39 metrc: [7] stressor  bogo ops real time  usr time  sys time   bogo ops/s   bogo ops/s\n\
        stress-ng: 23:08:11.39 metrc: [7] switch    201961      2.00      0.16      0.58    100871.40    274986.01\n\
        stress-ng: 23:08:11.39 metrc: [7] cpu          298      2.03      0.22      0.00       147.14      1312.86\n\
        stress-ng: 23:08:11.39 metrc: [7] switch   9909.28 nanosecs per context switch (pipe method)\n\
        stress-ng: 23:08:11.39 info:  [7] passed: 8: switch (4) cpu (4)\n\
        stress-ng: 23:08:11.39 info:  [7] for a 1.03s run time:\n\
        stress-ng: 23:08:11.39 info:  [7]       2.05s available CPU time\n";

    #[test]
    fn a_whole_log_and_its_yaml_give_the_same() {
        let log = &read(LOG).unwrap()[0].values;
        assert_eq!((log["switch.rate"], log["switch.per_op"], log["cpu.ops"]), (100_871.40, 9909.28, 298.0));
        let yaml = "---\nsystem-info:\n  time-hh-mm-ss: 23:08:15\n  uptime: 1518\nmetrics:\n\
            \x20   - stressor: switch\n      bogo-ops: 201961\n      bogo-ops-per-second-usr-sys-time: 274986.01\n\
            \x20     bogo-ops-per-second-real-time: 100871.40\n\
            \x20     nanosecs-per-context-switch-pipe-method: 9909.28\n\n\
            \x20   - stressor: cpu\n      bogo-ops: 298\n      bogo-ops-per-second-usr-sys-time: 1312.86\n\
            \x20     bogo-ops-per-second-real-time: 147.14\n...\n";
        assert!((TOOL.knows)(yaml) && (TOOL.knows)(LOG));
        assert_eq!(&read(yaml).unwrap()[0].values, log);
        assert_eq!(read(&format!("{yaml}{yaml}")).unwrap().len(), 2, "two runs in one file");
        assert_eq!(read(&format!("{LOG}{LOG}")).unwrap().len(), 2);
    }

    #[test]
    fn a_log_without_metrics_and_numbers_of_another_locale_are_refused() {
        let e = read("stress-ng: info:  [7] dispatching hogs: 1 switch\n").unwrap_err();
        assert!(e.remedy().unwrap().contains("--metrics") && e.remedy().unwrap().contains("--metric-regex"));
        assert!(read(&LOG.replace("100871.40", "100871,40")).is_err());
        assert!(read(&LOG.replace("100871.40", "nan")).is_err(), "a figure that is not one is not dropped");
    }
}
