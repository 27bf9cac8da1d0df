//! Reads `perf sched stats report` and `diff` (perf 7.0 and later): the counters of /proc/schedstat over a time, of all
//! CPUs together and of each domain's level; `diff` prints two recordings side by side.
//!
//! Only the summary over all CPUs is read. Percentages and mean times between events follow from it.

use super::text::{lines, missing, whole};
use super::tool::{FigureRow, FigureValues, PERF, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Lower, Neither};

/// Only its saved outputs are read.
pub const TOOL: Tool = Tool {
    name: "perf-sched-stats",
    about: "perf sched stats report and diff: counters of schedstat, of all CPUs",
    program: "",
    figures: &[
        FigureRow("elapsed", "jiffies", Neither, "the time that was counted"),
        FigureRow("run_delay", "ns", Lower, "time that tasks waited for a CPU"),
        FigureRow("rq_cpu_time", "ns", Neither, "CPU time of tasks"),
        FigureRow("<counter>", "", Neither, "a counter of schedstat; DOMAIN.COUNTER of a domain's level"),
    ],
    headline: &["run_delay", "rq_cpu_time", "sched_count", "ttwu_count", "elapsed"],
    knows: |text| lines(text).any(is_summary),
    read,
    ..PERF
};

fn is_summary(line: &str) -> bool {
    line.starts_with("CPU: <ALL CPUS SUMMARY>")
}

/// A name without blanks and punctuation.
fn slug(name: &str) -> String {
    let clean = |c: char| if c.is_alphanumeric() || "_-".contains(c) { c } else { '_' };
    name.trim().trim_start_matches('*').chars().map(clean).collect()
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut runs: Vec<[FigureValues; 2]> = Vec::new();
    let mut elapsed = [None, None];
    let mut section: Option<String> = None;
    for line in lines(text) {
        if line.starts_with("CPU:") {
            let domain = line.split_once("DOMAIN: ").map(|(_, name)| slug(name) + ".");
            section = is_summary(line).then(|| domain.clone().unwrap_or_default());
            if section.as_deref() == Some("") {
                runs.push(Default::default());
            }
            continue;
        }
        let Some((name, rest)) = line.rsplit_once(" : ").or_else(|| line.split_once(':')) else { continue };
        let values = numbers(rest)?;
        if name.trim().starts_with("Time elapsed") {
            elapsed = values;
        } else if let (Some(prefix), Some(run), [Some(_), _]) = (&section, runs.last_mut(), values) {
            if run.iter().all(FigureValues::is_empty) {
                put(run, "elapsed", elapsed);
            }
            put(run, &format!("{prefix}{}", slug(name)), values);
        }
    }
    let mut all = Vec::new();
    for [one, other] in runs {
        let has_two = !other.is_empty();
        let sides = [("first", one), ("second", other)].into_iter().filter(|(_, values)| !values.is_empty());
        all.extend(sides.map(|(side, values)| Reading {
            variant: has_two.then(|| side.to_owned()),
            values,
            ..Reading::default()
        }));
    }
    if all.is_empty() {
        Err(missing("perf sched stats", "counter below '<ALL CPUS SUMMARY>'"))
    } else {
        Ok(all)
    }
}

fn put(run: &mut [FigureValues; 2], name: &str, values: [Option<f64>; 2]) {
    for (side, value) in run.iter_mut().zip(values) {
        side.extend(value.map(|v| (name.to_owned(), v)));
    }
}

/// Digits of a count that fills its column in a diff.
const FULL_COLUMN: usize = 10;

/// The counts of "1225 ( 2.94% )", or of two recordings in "1225, 4107 | 235.27% |".
fn numbers(rest: &str) -> Result<[Option<f64>; 2]> {
    let counts = rest.split(['(', '|', '$']).next().unwrap_or_default().trim();
    if !counts.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok([None, None]);
    }
    match counts.split_once(',') {
        // The second count has its own column; one that fills it has no blank before it.
        Some((first, second)) if second.starts_with(' ') || second.len() >= FULL_COLUMN => {
            Ok([Some(whole(first)?), Some(whole(second.trim())?)])
        }
        _ => whole(counts).map(|v| [Some(v), None]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_and_both_sides_of_a_diff_are_read() {
        let one = "Time elapsed (in jiffies)          :        1443\nCPU: <ALL CPUS SUMMARY>\nDESC  COUNT  PCT_CHANGE\n\
            sched_count    :        1225\nrun_delay      : 31735775736  (   591.40% )\n\
            CPU: <ALL CPUS SUMMARY> | DOMAIN: MC\n\
            ------ <Category busy> -----\nbusy_lb_count  :          69  $       20.91 $\n*busy_lb_avg_pulled :  2.53\nCPU: 0\nsched_count : 7\n";
        let all = read(one).unwrap();
        let v = &all[0].values;
        assert_eq!(
            (all.len(), v["elapsed"], v["sched_count"], v["run_delay"]),
            (1, 1443.0, 1225.0, 31_735_775_736.0)
        );
        assert_eq!((v["MC.busy_lb_count"], v["MC.busy_lb_avg_pulled"], v.len()), (69.0, 2.53, 5));
        let two = "Time elapsed (in jiffies)  :   1443,       1512\nCPU: <ALL CPUS SUMMARY>\n\
            sched_count   :        1225,       4107  |   235.27% |\n\
            run_delay     : 17790557978,12848930586  |   -27.78% |  (   258.59%,    227.78% )\n";
        let all = read(two).unwrap();
        let of = |at: usize| {
            (all[at].variant.as_deref(), all[at].values["sched_count"], all[at].values["elapsed"])
        };
        assert_eq!((of(0), of(1)), ((Some("first"), 1225.0, 1443.0), (Some("second"), 4107.0, 1512.0)));
        assert_eq!(all[1].values["run_delay"], 12_848_930_586.0);
        assert!(read("CPU: <ALL CPUS SUMMARY>\n").is_err());
    }
}
