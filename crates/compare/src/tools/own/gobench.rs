//! Go benchmark text: schedlab's own, whose names tell load and variant, and any other.

use super::super::number::whole;
use super::percent::unescaped;
use super::{Run, some, undirected};
use schedlab_base::{Error, Result};
use schedlab_record::{Better, Figure};
use std::collections::BTreeMap;

/// Units that stand behind a metric's name in schedlab's own text.
const UNITS: &[&str] = &["ns", "us", "ms", "s", "1/s", "%", "B", "KB", "MB", "KB/s", "MB/s", "J", "W", "Hz"];

/// Whether a text has a result line, if only a wrong one.
pub fn knows(text: &str) -> bool {
    text.lines().any(|line| !is_nameless(line) && !matches!(result(line), Ok(None)))
}

/// A result line's name, and its values with their units.
type Line<'a> = (&'a str, Vec<(f64, &'a str)>);

/// The parts of a result line. A line that begins as a result does and holds anything else
/// than values with units is an error: a run that is left out changes the comparison.
fn result(line: &str) -> Result<Option<Line<'_>>> {
    if is_nameless(line) {
        let text =
            format!("the result line '{}' has no name: the benchmark printed text of its own", line.trim());
        return Err(Error::input(text).help("put 'BenchmarkName' before the line, or take it out"));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(name) = words.first().and_then(|name| name.strip_prefix("Benchmark")) else { return Ok(None) };
    let (iterations, rest) = words[1..].split_first().map_or(("", &[][..]), |(n, rest)| (*n, rest));
    let upper = name.chars().next().is_some_and(|c| !c.is_lowercase());
    // Such names only schedlab writes, and only before results.
    if !upper || !name.contains("/variant=") && !is_result(name, iterations, rest) {
        return Ok(None);
    }
    let wrong = |why: String| Error::input(format!("the result line '{}': {why}", line.trim()));
    if rest.is_empty() {
        return Err(wrong("it is cut: there is no value".to_owned()));
    }
    if is_unit(rest[0]) {
        return Err(wrong(format!("there is no number of iterations before '{iterations} {}'", rest[0])));
    }
    iterations.parse::<u64>().map_err(|_| wrong(format!("'{iterations}' is not a number of iterations")))?;
    let mut values: Vec<(f64, &str)> = Vec::new();
    for pair in rest.chunks(2) {
        let [value, unit] = pair else { return Err(wrong(format!("'{}' has no unit", pair[0]))) };
        let value = whole(value).map_err(|e| e.context(format!("the result line '{}'", line.trim())))?;
        if values.iter().any(|(_, known)| known == unit) {
            return Err(wrong(format!("it has '{unit}' twice")));
        }
        values.push((value, unit));
    }
    Ok(Some((name, values)))
}

/// Whether what stands behind a benchmark's name is a result, if only a wrong one: "BenchmarkX 3 is slow" is a
/// sentence.
fn is_result(name: &str, iterations: &str, rest: &[&str]) -> bool {
    // "BenchmarkX: x_test.go:12: read at 5 MB/s" is what a benchmark logs.
    if name.ends_with(':') && iterations.parse::<u64>().is_err() {
        return false;
    }
    let numeric = |w: &str| {
        let w = w.trim_start_matches(['+', '-']).to_ascii_lowercase();
        w.starts_with(|c: char| c.is_ascii_digit() || ".,".contains(c))
            || ["nan", "inf", "infinity"].contains(&w.as_str())
    };
    let has_digit = |w: &str| w.contains(|c: char| c.is_ascii_digit());
    // A value that is damaged shows by its unit, and so does a number of iterations.
    let has_unit = rest.iter().any(|word| is_unit(word));
    let whole = |part: &[&str]| is_whole(part);
    match rest {
        [] => !iterations.is_empty() && iterations.bytes().all(|b| b.is_ascii_digit()),
        [value, unit, ..] if numeric(value) && is_unit(unit) => true,
        [first, ..] => {
            numeric(iterations) && (numeric(first) || has_digit(first))
                || has_digit(iterations) && has_unit
                || rest.windows(3).any(whole)
        }
    }
}

/// Whether a word has the looks of a unit that stands behind a value: "ns/op", "MB/s", "wakeup.p99-ns".
fn is_unit(word: &str) -> bool {
    let ours = || word.rsplit_once('-').is_some_and(|(name, unit)| !name.is_empty() && UNITS.contains(&unit));
    word.ends_with("/op") || word.ends_with("/s") || ours()
}

/// Whether a line has the values of a result and not its name: what a benchmark prints stands behind its name.
fn is_nameless(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    is_whole(&words)
}

/// Whether words begin with iterations, a value and a unit.
fn is_whole(words: &[&str]) -> bool {
    matches!(words, [iterations, value, unit, ..]
        if is_unit(unit) && iterations.parse::<u64>().is_ok() && value.parse::<f64>().is_ok())
}

/// Directions by unit, of lines such as `Unit ns/op better=lower`; other keys of such lines are not ours.
#[derive(Default)]
struct Directions<'a>(BTreeMap<&'a str, Better>);

impl<'a> Directions<'a> {
    fn read(&mut self, line: &'a str) -> Result<()> {
        let mut words = line.split_whitespace();
        let (Some("Unit"), Some(unit)) = (words.next(), words.next()) else { return Ok(()) };
        for word in words.filter_map(|w| w.strip_prefix("better=")) {
            let better = Better::parse(word).map_err(|e| e.context(format!("the line '{line}'")))?;
            if self.0.insert(unit, better).is_some_and(|before| before != better) {
                let text = format!("two lines say that both higher and lower '{unit}' is better");
                return Err(Error::input(text).help("keep the right one of the lines 'Unit ... better='"));
            }
        }
        Ok(())
    }
}

/// Every result line is a run.
pub fn read(text: &str) -> Result<Vec<Run>> {
    let (mut backend, mut machine) = (String::new(), String::new());
    let mut directions = Directions::default();
    // A direction is of the whole text, wherever its line stands.
    text.lines().try_for_each(|line| directions.read(line))?;
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(value) = line.strip_prefix("backend: ") {
            backend = value.trim().to_owned();
        } else if let Some(value) = line.strip_prefix("machine: ") {
            machine = value.trim().to_owned();
        } else if let Some((name, values)) =
            result(line).map_err(|e| e.context(format!("line {}", at + 1)))?
        {
            let ours = !backend.is_empty();
            let one =
                |(value, unit): &(f64, &str)| figure(*value, unit, ours, directions.0.get(unit).copied());
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

    #[test]
    fn a_line_that_is_not_read_is_an_error() {
        let good = "BenchmarkX/a 1 2 ns/op\n";
        for (line, words) in [
            ("BenchmarkX/a 1 NaN ns/op", "'NaN' is not a number"),
            ("BenchmarkX/a 1 +Inf ns/op", "'Inf' is not a number"),
            ("BenchmarkX/a 1 2,002 ns/op", "may mean 2002 or 2.002"),
            ("BenchmarkX/a 1 2003x ns/op", "'2003x' is not a number"),
            (
                "BenchmarkX/a 1 x2003 ns/op",
                "line 2: the result line 'BenchmarkX/a 1 x2003 ns/op': 'x2003' is not",
            ),
            ("BenchmarkX/a 1 3 ns/op x4 B/op", "'x4' is not a number"),
            ("BenchmarkX/a x1 3 ns/op", "'x1' is not a number of iterations"),
            ("BenchmarkX/a 1 lots ns/op", "'lots' is not a number"),
            ("BenchmarkX/load=a/variant=b", "it is cut"),
            ("BenchmarkX/load=a/variant=b 1 x3 switches", "'x3' is not a number"),
            ("BenchmarkX/a 1 ,5 ns/op", "line 2: the result line 'BenchmarkX/a 1 ,5 ns/op'"),
            ("BenchmarkX/a 1", "line 2: the result line 'BenchmarkX/a 1': it is cut"),
            ("BenchmarkA-8 hello 500 900 ns/op", "'hello' is not a number of iterations"),
            ("BenchmarkA-8 hello big world 500 900 ns/op", "'hello' is not a number of iterations"),
            ("BenchmarkA-8 abc 100 ns/op", "'abc' is not a number of iterations"),
            (
                "BenchmarkA-8 12 MB/s",
                "line 2: the result line 'BenchmarkA-8 12 MB/s': there is no number of iterations before '12 MB/s'",
            ),
            ("BenchmarkA-8 1000 x5 things", "'x5' is not a number"),
            ("BenchmarkA: 1000 x5 ns/op", "'x5' is not a number"),
            ("500 12 MB/s", "line 2: the result line '500 12 MB/s' has no name"),
            ("500 2156 ns/op", "line 2: the result line '500 2156 ns/op' has no name"),
            ("BenchmarkX/a 1 3 ns/op 5", "'5' has no unit"),
            ("BenchmarkX/a 1,000 3 ns/op", "'1,000' is not a number of iterations"),
            ("BenchmarkX/a 1 3 ns/op 4 ns/op", "'ns/op' twice"),
            ("Unit ns/op better=lower\nUnit ns/op better=higher", "both higher and lower 'ns/op'"),
            ("Unit ns/op better=faster", "faster"),
        ] {
            let text = format!("{good}{line}\n{good}");
            assert!(knows(&text));
            let e = read(&text).unwrap_err().to_string();
            assert!(e.contains(words), "{line}: {e}");
        }
        let fine = format!(
            "BenchmarkX\nBenchmarkX-8\nUnit ns/op assume=exact better=higher\n{good}BenchmarkX 3 is a sentence\nBenchmarkY 2 of 3\n\
             BenchmarkX-8: bench_test.go:12: read 3 files at 5 MB/s\nBenchmarkX reads 3 files at 5 MB/s\n\
             Unit ns/op better=higher\n"
        );
        let all = read(&fine).unwrap();
        assert_eq!((all.len(), all[0].figures["ns_per_op"].better), (1, Better::Higher));
    }
}
