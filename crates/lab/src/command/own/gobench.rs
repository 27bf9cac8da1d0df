//! Go benchmark text: schedlab's own, whose names tell load and variant, and any other.

use super::percent::unescaped;
use super::{Run, some, undirected};
use schedlab_base::Result;
use schedlab_record::{Better, Figure};
use std::collections::BTreeMap;

/// Units that stand behind a metric's name in schedlab's own text.
const UNITS: &[&str] = &["ns", "us", "ms", "s", "1/s", "%", "B", "KB", "MB", "KB/s", "MB/s", "J", "W", "Hz"];

/// Whether a text has a result line.
pub fn knows(text: &str) -> bool {
    text.lines().any(|line| result(line).is_some())
}

/// A result line's name, and its values with their units.
fn result(line: &str) -> Option<(&str, Vec<(f64, &str)>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("Benchmark")?;
    words.next()?.parse::<u64>().ok()?;
    let rest: Vec<&str> = words.collect();
    let pair = |p: &[&'_ str]| p[0].parse::<f64>().ok().filter(|v| v.is_finite());
    let values: Option<Vec<(f64, &str)>> = rest.chunks(2).map(|p| Some((pair(p)?, *p.get(1)?))).collect();
    let upper = name.chars().next().is_some_and(|c| !c.is_lowercase());
    values.filter(|v| upper && !v.is_empty()).map(|v| (name, v))
}

/// Every result line is a run.
pub fn read(text: &str) -> Result<Vec<Run>> {
    let (mut backend, mut machine) = (String::new(), String::new());
    let mut directions: BTreeMap<&str, Better> = BTreeMap::new();
    let mut all = Vec::new();
    for line in text.lines() {
        if let Some(value) = line.strip_prefix("backend: ") {
            backend = value.trim().to_owned();
        } else if let Some(value) = line.strip_prefix("machine: ") {
            machine = value.trim().to_owned();
        } else if let Some((unit, better)) = line.strip_prefix("Unit ").and_then(|l| l.split_once(" better="))
        {
            directions.extend(Better::parse(better.trim()).ok().map(|b| (unit.trim(), b)));
        } else if let Some((name, values)) = result(line) {
            let ours = !backend.is_empty();
            let one = |(value, unit): &(f64, &str)| figure(*value, unit, ours, directions.get(unit).copied());
            let figures = values.iter().map(one).collect();
            let run =
                Run { backend: backend.clone(), machine: machine.clone(), figures, ..named(name, ours) };
            all.push(run);
        }
    }
    some(all, "result line 'BenchmarkName 1 VALUE UNIT'")
}

/// A figure: in schedlab's text the unit is the metric with its unit behind it; in others the unit is all there is.
fn figure(value: f64, unit: &str, ours: bool, better: Option<Better>) -> (String, Figure) {
    if !ours {
        let (name, mut figure) = match unit.strip_suffix("/op") {
            Some(per) => undirected(&format!("{per}_per_op"), per, value),
            None => undirected(unit, unit, value),
        };
        figure.better = better.unwrap_or(figure.better);
        return (name, figure);
    }
    let (name, unit) = unit.rsplit_once('-').filter(|(_, u)| UNITS.contains(u)).unwrap_or((unit, ""));
    let (name, unit) = (unescaped(name), unescaped(unit));
    // Its Unit lines name every metric with a good direction.
    (name, Figure { value, unit, better: better.unwrap_or(Better::Neither) })
}

/// `Schbench/load=2x24/variant=v4.5`, escaped if it is ours; of others the path behind the first name is the load.
fn named(name: &str, ours: bool) -> Run {
    let plain = |text: &str| if ours { unescaped(text) } else { text.to_owned() };
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let mut workload = first.to_owned();
    if let Some(letter) = workload.get_mut(0..1) {
        letter.make_ascii_lowercase();
    }
    let mut run = Run { workload: plain(&workload), ..Run::default() };
    let mut rest: Vec<&str> = Vec::new();
    for part in parts {
        match part.split_once('=') {
            Some(("load", load)) => run.load = plain(load),
            Some(("variant", variant)) => run.variant = plain(variant),
            _ => rest.push(part),
        }
    }
    if run.load.is_empty() {
        run.load = rest.join("/");
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_run_of_its_load_and_variant() {
        let text = "backend: sim\nmachine: smp-4\nUnit x.time-ns better=lower\n\
                    BenchmarkSchbench/load=1x2/variant=v4.5 1 12 x.time-ns 3 context-switches 5 work\n";
        let all = read(text).unwrap();
        let r = &all[0];
        assert_eq!((r.workload.as_str(), r.load.as_str(), r.variant.as_str()), ("schbench", "1x2", "v4.5"));
        assert_eq!((r.figures["x.time"].unit.as_str(), r.figures["x.time"].better), ("ns", Better::Lower));
        assert_eq!((r.figures["context-switches"].value, r.figures["work"].value), (3.0, 5.0));
    }

    #[test]
    fn other_programs_text_is_read_by_its_units() {
        let all = read("goos: linux\nBenchmarkDecode/small-8   500   2156 ns/op  32 B/op\nPASS\n").unwrap();
        assert_eq!((all[0].workload.as_str(), all[0].load.as_str(), all.len()), ("decode", "small-8", 1));
        assert_eq!(
            (all[0].figures["ns_per_op"].value, all[0].figures["ns_per_op"].better),
            (2156.0, Better::Lower)
        );
        assert!(!knows("Benchmarking done in 3 s\nBenchmark 1: sleep\n"));
    }
}
