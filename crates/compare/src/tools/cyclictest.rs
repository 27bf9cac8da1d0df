//! Reads cyclictest of rt-tests: a line for each thread, or the comments under its histogram, or its JSON. Values are
//! in us, or in ns with `-N`: JSON says so, and threads' lines show it by their width. Histograms look the same with
//! both.

use super::text::{after, jsons, lines, missing, number, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::Lower;
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "cyclictest",
    about: "how late timers wake threads (10 s without -D)",
    program: "cyclictest",
    package: "rt-tests",
    before: &["-q", "-D", "10"],
    load: &["-t", "{load}"],
    load_about: "threads",
    figures: &[
        FigureRow("latency.min", "ns", Lower, "least delay of a wakeup, of any thread"),
        FigureRow("latency.avg", "ns", Lower, "mean delay of all wakeups"),
        FigureRow("latency.max", "ns", Lower, "longest delay of a wakeup, of any thread"),
    ],
    headline: &["latency.avg", "latency.max"],
    knows: |text| {
        lines(text).any(|l| !matches!(thread(l), Ok(None)) || l.starts_with("# Max Latencies:"))
            || is_json(text)
    },
    read,
    ..BLANK
};

/// The figures of a thread: samples, min, avg, max.
type Thread = [f64; 4];

/// The identity of a thread: its index in the run, and the kernel's id, which is 0 (unknown) before it starts.
type Id = (u64, Option<u64>);

fn is_json(text: &str) -> bool {
    text.contains("\"rt_test_version") && text.contains("\"thread\"")
}

/// "T: 0 (15281) P: 0 I:1000 C:    300 Min:     53 Act:   82 Avg:  278 Max:   17900"
fn thread(line: &str) -> Result<Option<(Id, Thread)>> {
    let Some(rest) = line.strip_prefix("T:") else { return Ok(None) };
    let mut of = [0.0; 4];
    for (value, word) in of.iter_mut().zip([" C:", "Min:", "Avg:", "Max:"]) {
        let Some(found) = after(rest, word)? else { return Ok(None) };
        *value = found;
    }
    let tid = after(rest, "(")?.map(|tid| tid as u64).filter(|tid| *tid > 0);
    Ok(number(rest)?.map(|id| ((id as u64, tid), of)))
}

/// Whether a thread's line was printed with `-N`: then "Avg" has eight columns, otherwise five. A mean of 10 s has
/// eight columns, too, but does not occur in us.
fn is_in_ns(line: &str) -> bool {
    let avg = line.split_once("Avg:").and_then(|(_, rest)| rest.split_once(" Max:"));
    line.starts_with("T:") && avg.is_some_and(|(field, _)| field.len() >= 8)
}

/// Every run in a text.
fn read(text: &str) -> Result<Vec<Reading>> {
    let runs: Vec<(Vec<Thread>, f64)> = if is_json(text) {
        jsons("cyclictest", text)?.iter().map(of_json).collect()
    } else {
        let runs = of_lines(text)?;
        let in_us = |threads| (threads, 1e3);
        if runs.is_empty() { of_histograms(text)?.into_iter().map(in_us).collect() } else { runs }
    };
    let all: Vec<Reading> = runs.iter().filter_map(|(threads, factor)| reading(threads, *factor)).collect();
    if all.is_empty() { Err(missing("cyclictest", "thread with its Min, Avg and Max")) } else { Ok(all) }
}

fn reading(threads: &[Thread], factor: f64) -> Option<Reading> {
    let samples: f64 = threads.iter().map(|t| t[0]).sum();
    if threads.is_empty() || samples <= 0.0 {
        return None;
    }
    let min = threads.iter().map(|t| t[1]).fold(f64::INFINITY, f64::min);
    let avg = threads.iter().map(|t| t[0] * t[2]).sum::<f64>() / samples;
    let max = threads.iter().map(|t| t[3]).fold(0.0, f64::max);
    let all = [("latency.min", min), ("latency.avg", avg), ("latency.max", max)];
    let values: FigureValues = all.into_iter().map(|(n, v)| (n.to_owned(), scaled(v, factor))).collect();
    let load = Some(format!("{} threads", threads.len()));
    Some(Reading { load, values, ..Reading::default() })
}

/// The runs in threads' lines. Without -q a run's lines are printed again and again with growing counts; the last line
/// of each thread counts. Another run begins when a count does not grow, when other kernel threads have the same
/// indices, or with the line that cyclictest prints at its start. Each run comes with its unit, ns.
fn of_lines(text: &str) -> Result<Vec<(Vec<Thread>, f64)>> {
    let mut runs: Vec<BTreeMap<u64, (Option<u64>, Thread)>> = Vec::new();
    let mut units: Vec<f64> = Vec::new();
    let mut begins = true;
    for line in lines(text) {
        begins |= line.starts_with("# /dev/cpu_dma_latency");
        let Some(((id, tid), thread)) = thread(line)? else { continue };
        let is_same = |(before, of): &(Option<u64>, Thread)| {
            let other = before.zip(tid).is_some_and(|(before, tid)| before != tid);
            // A thread that has not started has count 0 in every report; one that has not woken since the last report
            // has the same figures.
            !other && (thread[0] > of[0] || of[0] == 0.0 || thread == *of)
        };
        let continues = !begins && runs.last().is_some_and(|run| run.get(&id).is_none_or(is_same));
        begins = false;
        match runs.last_mut().filter(|_| continues) {
            Some(run) => run.extend([(id, (tid, thread))]),
            None => {
                runs.push([(id, (tid, thread))].into());
                units.push(if is_in_ns(line) { 1.0 } else { 1e3 });
            }
        }
    }
    let threads = runs.into_iter().map(|run| run.into_values().map(|(_, thread)| thread).collect());
    Ok(threads.zip(units).collect())
}

/// The comments under histograms: "# Total: 300 300", "# Min Latencies: 00053 00046". The total lacks samples beyond
/// the histogram's end; min, avg and max include them.
fn of_histograms(text: &str) -> Result<Vec<Vec<Thread>>> {
    let column = |name: &str| -> Result<Vec<Vec<f64>>> {
        let found = lines(text).filter_map(|l| l.strip_prefix(name));
        found.map(|line| line.split_whitespace().map(whole).collect()).collect()
    };
    let (total, min) = (column("# Total:")?, column("# Min Latencies:")?);
    let (avg, max) = (column("# Avg Latencies:")?, column("# Max Latencies:")?);
    let beyond = column("# Histogram Overflows:")?;
    let runs = [total.len(), min.len(), avg.len(), max.len()].into_iter().min().unwrap_or(0);
    let threads = |run: usize| -> Vec<Thread> {
        let beyond = |thread: usize| beyond.get(run).and_then(|row| row.get(thread)).copied().unwrap_or(0.0);
        let rows = total[run].iter().zip(&min[run]).zip(avg[run].iter().zip(&max[run])).enumerate();
        rows.map(|(at, ((total, min), (avg, max)))| [total + beyond(at), *min, *avg, *max]).collect()
    };
    Ok((0..runs).map(threads).collect())
}

/// The threads, and the factor to ns by `resolution_in_ns`.
fn of_json(value: &serde_json::Value) -> (Vec<Thread>, f64) {
    let in_ns = value.get("resolution_in_ns").and_then(serde_json::Value::as_u64) == Some(1);
    let threads = value.get("thread").and_then(|t| t.as_object()).into_iter().flatten();
    let one = |(_, t): (&String, &serde_json::Value)| {
        let of = |key: &str| t.get(key)?.as_f64();
        Some([of("cycles")?, of("min")?, of("avg")?, of("max")?])
    };
    (threads.filter_map(one).collect(), if in_ns { 1.0 } else { 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, tid: u32, count: u32, max: u32) -> String {
        format!("T: {id} ({tid:>5}) P: 0 I:1000 C: {count:>6} Min:  1 Act:  2 Avg:  3 Max: {max:>7}\n")
    }

    /// The longest delay of each run, us.
    fn longest(text: &str) -> Vec<f64> {
        read(text).unwrap().iter().map(|r| r.values["latency.max"] / 1e3).collect()
    }

    #[test]
    fn repeated_lines_are_one_run_and_quiet_runs_are_separate() {
        let run = |first: u32, count: u32, max: u32| {
            line(0, first, count, max) + &line(1, first + 1, count + 5, max + 1)
        };
        assert_eq!(longest(&(run(100, 10, 7) + &run(200, 50, 9))), [8.0, 10.0], "other threads");
        let start = "# /dev/cpu_dma_latency set to 0us\n";
        let text = format!("{start}{}{start}{}", run(100, 10, 7), run(100, 50, 9));
        assert_eq!(longest(&text), [8.0, 10.0], "a start");
        assert_eq!(longest(&(run(100, 10, 7) + &run(100, 50, 9))), [10.0], "one run without -q");
        assert_eq!(longest(&(run(100, 50, 7) + &run(100, 10, 9))), [8.0, 10.0], "counts that begin anew");
    }

    #[test]
    fn a_thread_that_did_not_wake_does_not_begin_a_run() {
        let late = line(0, 100, 855, 9) + &line(1, 101, 563, 19_975);
        let again = line(0, 100, 865, 9) + &line(1, 101, 563, 19_975);
        assert_eq!(longest(&(late + &again)), [19_975.0]);
    }

    #[test]
    fn nanoseconds_are_recognised_by_the_width_of_lines() {
        let ns = "T: 0 (16561) P: 0 I:1000 C:    896 Min:  21124 Act:   85672 Avg:  250926 Max:12129298\n";
        let long = ns.replace("Act:   85672 Avg:  250926", "Act:231559650 Avg:32083655");
        let us = "T: 0 (16376) P: 0 I:1000 C:    928 Min:     40 Act:   88 Avg:250926 Max:12129298\n";
        assert_eq!([ns, &long, us].map(|text| longest(text)[0]), [12_129.298, 12_129.298, 12_129_298.0]);
    }

    #[test]
    fn samples_beyond_the_histograms_end_count() {
        let text = |total: &str, beyond: &str| {
            format!(
                "# Histogram\n# Total: {total}\n# Min Latencies: 00055 00048\n# Avg Latencies: 00064 00144\n\
                 # Max Latencies: 00485 06005 06005\n# Histogram Overflows: {beyond}\n"
            )
        };
        let all = |text: String| {
            let v = &read(&text).unwrap()[0].values;
            (v["latency.min"], v["latency.avg"], v["latency.max"])
        };
        assert_eq!(all(text("000000000 000000000", "00200 00200")), (48e3, 104e3, 6005e3));
        assert_eq!(all(text("000000300 000000000", "00000 00100")), (48e3, 84e3, 6005e3));
        assert!(read(&text("000000000 000000000", "00000 00000")).is_err(), "no sample at all");
    }

    #[test]
    fn threads_that_have_not_started_do_not_begin_a_run() {
        let late = line(0, 100, 3, 7) + &line(1, 0, 0, 0);
        let none = line(0, 0, 0, 0) + &line(1, 0, 0, 0);
        let whole = line(0, 100, 100, 9) + &line(1, 101, 70, 20);
        let again = line(0, 100, 5, 8) + &line(1, 0, 0, 0);
        for begun in [late.clone(), none.clone() + &none, late + &again] {
            assert_eq!(longest(&format!("{begun}{whole}")), [20.0], "{begun}");
        }
        assert_eq!(longest(&(whole.clone() + &line(0, 200, 5, 8))), [20.0, 8.0], "another run");
        assert_eq!(
            longest(&(whole + &none + &line(0, 200, 5, 8))),
            [20.0, 8.0],
            "another run, not yet begun"
        );
    }
}
