//! Reads `perf sched latency`: a row for each task, with its run time, switches and delays.
//!
//! Tasks with the same name count together, because the number of processes varies between runs: times and switches add
//! up, mean delays are weighted by switches. Figures without a name cover all tasks.

use super::text::{count, missing, number, scaled};
use super::tool::{FigureRow, FigureValues, PERF, Reading, Tool};
use super::units::canonical;
use schedlab_base::Result;
use schedlab_record::Better::{Lower, Neither};
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "perf-sched-latency",
    about: "how long tasks waited in what 'perf sched record' recorded",
    before: &["sched", "latency"],
    figures: &[
        FigureRow("runtime", "ns", Neither, "CPU time of all tasks"),
        FigureRow("switches", "", Neither, "switches of all tasks"),
        FigureRow("delay.avg", "ns", Lower, "mean time from wakeup to running, over all switches"),
        FigureRow("delay.max", "ns", Lower, "longest time from wakeup to running"),
        FigureRow("<task>.runtime", "ns", Neither, "CPU time of the tasks of that name"),
        FigureRow("<task>.switches", "", Neither, "their switches"),
        FigureRow("<task>.delay.avg", "ns", Lower, "their mean time from wakeup to running"),
        FigureRow("<task>.delay.max", "ns", Lower, "their longest time from wakeup to running"),
    ],
    headline: &["delay.avg", "delay.max", "runtime", "switches"],
    knows: |text| text.lines().any(is_head),
    read,
    ..PERF
};

fn is_head(line: &str) -> bool {
    let mut cells = line.split('|').map(str::trim);
    cells.next() == Some("Task") && cells.next().is_some_and(|c| c.starts_with("Runtime"))
}

/// The figures of the tasks with one name.
#[derive(Default)]
struct Task {
    runtime_ns: f64,
    switches: f64,
    /// Sum over the switches.
    delay_ns: f64,
    longest_ns: f64,
}

impl Task {
    fn add(&mut self, other: &Task) {
        self.runtime_ns += other.runtime_ns;
        self.switches += other.switches;
        self.delay_ns += other.delay_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
    fn write_to(&self, prefix: &str, values: &mut FigureValues) {
        let mean = if self.switches > 0.0 { self.delay_ns / self.switches } else { 0.0 };
        let all = [
            ("runtime", self.runtime_ns),
            ("switches", self.switches),
            ("delay.avg", mean),
            ("delay.max", self.longest_ns),
        ];
        values.extend(all.map(|(name, v)| (format!("{prefix}{name}"), scaled(v, 1.0))));
    }
}

/// The runs of a text; each table is a run.
fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<BTreeMap<String, Task>> = Vec::new();
    for line in text.lines() {
        if is_head(line) {
            all.push(BTreeMap::new());
        } else if let Some(tasks) = all.last_mut()
            && let Some((name, task)) = row(line)?
        {
            tasks.entry(name).or_default().add(&task);
        }
    }
    all.retain(|tasks| !tasks.is_empty());
    if all.is_empty() {
        return Err(missing(
            "perf sched latency",
            "row 'TASK:PID | RUNTIME ms | SWITCHES | avg: DELAY ms | max: DELAY ms'",
        ));
    }
    Ok(all.iter().map(reading).collect())
}

fn reading(tasks: &BTreeMap<String, Task>) -> Reading {
    let (mut values, mut whole) = (FigureValues::new(), Task::default());
    for (name, task) in tasks {
        whole.add(task);
        task.write_to(&format!("{name}."), &mut values);
    }
    whole.write_to("", &mut values);
    Reading { values, ..Reading::default() }
}

/// `name:pid` or `name:(number of tasks)`, run time in ms, switches, mean and longest delay in ms.
fn row(line: &str) -> Result<Option<(String, Task)>> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, runtime, switches, avg, max, ..] = cells[..] else { return Ok(None) };
    let Some((name, id)) = name.rsplit_once(':') else { return Ok(None) };
    let id = id.trim_matches(['(', ')']);
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    // Before 7.x all times are in ms, and those of delays have a word before them.
    let time = |cell: &str, before: &str| -> Result<Option<f64>> {
        let cell = cell.strip_prefix(before).unwrap_or(cell).trim();
        let Some((value, unit)) = cell.split_once(' ') else { return Ok(None) };
        match canonical(unit.trim()) {
            ("ns", factor) => Ok(number(value)?.map(|v| v * factor)),
            _ => Ok(None),
        }
    };
    let all = (time(runtime, "")?, count(switches)?, time(avg, "avg:")?, time(max, "max:")?);
    let (Some(runtime_ns), Some(switches), Some(avg_ns), Some(longest_ns)) = all else { return Ok(None) };
    let task = Task { runtime_ns, switches, delay_ns: switches * avg_ns, longest_ns };
    let clean = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
    let name: String = name.trim().chars().map(clean).collect();
    // perf prints ":PID" if it does not know the name.
    let nameless = name.trim_start_matches(':').bytes().all(|b| b.is_ascii_digit());
    Ok(Some((if nameless { "unnamed".to_owned() } else { name }, task)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_of_7_has_a_unit_for_each_time() {
        let text = "  Task  |  Runtime  |  Count  |  Avg delay  |  Max delay  |  Max delay start  |\n\
                    \x20 a:(41) |  47.673 s  | 707 | 198.640 ms | 1.428 s | 157.656216 s |\n\
                    \x20 b:62   | 548.944 us |   4 | 173.449 us | 900.000 ns | 158.583998 s |\n";
        let v = &read(text).unwrap()[0].values;
        assert_eq!(
            (v["a.runtime"], v["a.switches"], v["a.delay.avg"], v["a.delay.max"]),
            (47_673e6, 707.0, 198_640e3, 1_428e6)
        );
        assert_eq!((v["b.runtime"], v["b.delay.avg"], v["b.delay.max"]), (548_944.0, 173_449.0, 900.0));
    }

    #[test]
    fn tasks_of_one_name_count_together() {
        let text = "  Task  |   Runtime ms  | Switches | Avg delay ms | Max delay ms |\n\
                    \x20 a b:1 | 1.000 ms | 1 | avg: 4.000 ms | max: 4.000 ms | x\n\
                    \x20 a b:2 | 2.000 ms | 3 | avg: 0.000 ms | max: 0.001 ms | x\n\
                    \x20 c:(7) | 5.000 ms | 4 | avg: 2.000 ms | max: 9.000 ms | x\n  TOTAL: | 8.0 ms | 8 |\n";
        let v = &read(text).unwrap()[0].values;
        assert_eq!((v["a_b.runtime"], v["a_b.switches"], v["a_b.delay.avg"]), (3e6, 4.0, 1e6));
        assert_eq!((v["delay.avg"], v["delay.max"], v["runtime"], v["switches"]), (1.5e6, 9e6, 8e6, 8.0));
    }
}
