//! Reads netperf 2: the classic tables (a heading for each test, numbers in columns) and the words of `-k`
//! (`THROUGHPUT=...`).
//!
//! A heading begins a result, and so does a word that the open result already has: the words of `-k` are in the order
//! that the user gave. Several results in a text count as successive runs; a text does not show whether they ran at the
//! same time. Bare numbers (`-P 0`) are not read. A result whose numbers can't be read is an error: leaving out a run
//! would change the comparison.

use super::text::{missing, numbered, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::{Error, Result};
use schedlab_record::Better::{Higher, Lower};
use std::collections::BTreeSet;

/// Only its saved outputs are read: it needs a server, which may be elsewhere.
pub const TOOL: Tool = Tool {
    name: "netperf",
    about: "tables of netperf 2 (TCP_RR, TCP_STREAM, UDP_STREAM and so on), and its output with -k",
    package: "netperf",
    figures: &[
        FigureRow("rate", "1/s", Higher, "transactions per second"),
        FigureRow("throughput", "Mbit/s", Higher, "10^6 bits per second; of UDP_STREAM what arrived"),
        FigureRow("sent", "Mbit/s", Higher, "UDP_STREAM: 10^6 bits per second that were sent"),
        FigureRow("latency.<stat>", "ns", Lower, "latency of a transaction (-k)"),
    ],
    headline: &["rate", "throughput"],
    knows: |text| numbered(text).any(|(_, l)| heading(l).is_some() || l.starts_with("THROUGHPUT=")),
    read,
    ..BLANK
};

/// The test named by a heading, as for `-t`: "MIGRATED TCP REQUEST/RESPONSE TEST from ...".
fn heading(line: &str) -> Option<String> {
    let (title, rest) = line.split_once(" TEST")?;
    let title = title.strip_prefix("MIGRATED ").unwrap_or(title).to_ascii_uppercase();
    let (protocol, what) = title.split_once(' ')?;
    if !["TCP", "UDP", "SCTP", "DCCP", "OMNI"].contains(&protocol) {
        return None;
    }
    let word = match what {
        "REQUEST/RESPONSE" => "RR".to_owned(),
        "CONNECT/REQUEST/RESPONSE" => "CRR".to_owned(),
        "CONNECT/CLOSE" => "CC".to_owned(),
        "UNIDIRECTIONAL SEND" => "STREAM".to_owned(),
        "STREAM" | "MAERTS" | "SENDFILE" => what.to_owned(),
        // It is a heading of another test and not a sentence.
        _ if rest.starts_with(" from ") || rest.starts_with(" to ") => what.replace([' ', '/'], "_"),
        _ => return None,
    };
    Some(format!("{protocol}_{word}"))
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Rate,
    /// This many bits per second.
    Bits(f64),
}

impl Unit {
    /// Reads netperf's word for a unit. Its bytes have prefixes of powers of two, its bits of powers of ten.
    fn of(word: &str) -> Option<Unit> {
        let word = word.trim();
        if word.starts_with("Trans/s") {
            return Some(Unit::Rate);
        }
        let bits = match word.strip_suffix("/s").or_else(|| word.strip_suffix("/sec"))?.trim_end() {
            "bits" => 1.0,
            "10^3bits" => 1e3,
            "10^6bits" => 1e6,
            "10^9bits" => 1e9,
            "Bytes" => 8.0,
            "KBytes" => 8.0 * 1024.0,
            "MBytes" => 8.0 * 1024.0 * 1024.0,
            "GBytes" => 8.0 * 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        Some(Unit::Bits(bits))
    }

    /// Stores a figure under the name of its unit, or under `name` if it is a throughput.
    fn put(self, name: &str, value: f64, into: &mut FigureValues) {
        match self {
            Unit::Rate => into.insert("rate".to_owned(), value),
            // Divided in one step, so that 9412.34 of 10^6 bits stays exact.
            Unit::Bits(bits) if bits < 1e6 => into.insert(name.to_owned(), value / (1e6 / bits)),
            Unit::Bits(bits) => into.insert(name.to_owned(), value * (bits / 1e6)),
        };
    }
}

/// A result whose lines are being read.
#[derive(Default)]
struct Open {
    /// The number of its first line.
    line: usize,
    /// Whether figures must follow: after a heading, or after other words of `-k` under one.
    owed: bool,
    reading: Reading,
    /// The table's column of results, and its unit.
    column: Option<(usize, Unit)>,
    /// Number of lines of numbers so far.
    rows: usize,
    /// The words of `-k` so far.
    words: BTreeSet<String>,
    /// THROUGHPUT and its unit, which come in any order.
    throughput: Option<f64>,
    unit: Option<Unit>,
}

impl Open {
    /// The result, once its last line is read.
    fn close(mut self) -> Result<Option<Reading>> {
        let wrong = |text: &str| Error::input(format!("{}: {text}", unreadable(self.line)));
        let test = self.reading.load.clone();
        if let Some(value) = self.throughput {
            // Transactions have one unit; bits have the unit of -f.
            let counts = |t: &String| ["_RR", "_CRR", "_CC"].iter().any(|end| t.ends_with(end));
            let of_test = test.as_ref().filter(|t| counts(t)).map(|_| Unit::Rate);
            let of_table = self.column.map(|(_, unit)| unit);
            let unit = self.unit.or(of_table).or(of_test).ok_or_else(|| {
                wrong("THROUGHPUT has no THROUGHPUT_UNITS")
                    .help("give netperf -k THROUGHPUT,THROUGHPUT_UNITS,...")
            })?;
            unit.put("throughput", value, &mut self.reading.values);
        }
        if !self.reading.values.is_empty() {
            return Ok(Some(self.reading));
        }
        match test {
            Some(test) if self.owed && self.words.is_empty() => {
                Err(wrong(&format!("no line of numbers is below the heading of {test}")).help(
                    "a test that failed prints none: take its heading out; of tables, the classic ones and -k are read",
                ))
            }
            Some(test) if self.owed => {
                Err(wrong(&format!("the result of {test} has neither THROUGHPUT nor a latency"))
                    .help("give netperf -k THROUGHPUT,THROUGHPUT_UNITS,..., or take the result out"))
            }
            _ => Ok(None),
        }
    }

    /// Reads a word of `-k`. Latencies are in us.
    fn word(&mut self, key: &str, value: &str) -> Result<()> {
        self.words.insert(key.to_owned());
        let stat = match key {
            "THROUGHPUT" => {
                self.throughput = Some(whole(value)?);
                return Ok(());
            }
            "THROUGHPUT_UNITS" => {
                let unit = Unit::of(value).ok_or_else(|| unknown_unit(value))?;
                self.unit = Some(unit);
                return Ok(());
            }
            "MEAN_LATENCY" => "mean",
            "RT_LATENCY" => "round_trip",
            "MIN_LATENCY" => "min",
            "MAX_LATENCY" => "max",
            "P50_LATENCY" => "p50",
            "P90_LATENCY" => "p90",
            "P99_LATENCY" => "p99",
            _ => return Ok(()),
        };
        self.reading.values.insert(format!("latency.{stat}"), scaled(whole(value)?, 1e3));
        Ok(())
    }

    /// Reads a line of a table: numbers, or the last line of its head, which has the units.
    fn line(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (self.column, words.first()) {
            (None, Some(first)) if first.eq_ignore_ascii_case("bytes") => {
                self.column = Some(column(&words).ok_or_else(|| unknown_unit(line))?);
            }
            (Some(column), Some(first)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
                self.rows += 1;
                row(&words, column, self.rows, &mut self.reading)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The beginning of an error message.
fn unreadable(line: usize) -> String {
    format!("can't read netperf's output, line {line}")
}

fn unknown_unit(text: &str) -> Error {
    Error::input(format!("'{}' has no unit of throughput that is known", text.trim()))
        .help("known: Trans/s, and bits and Bytes per second as netperf -f g|m|k|G|M|K prints them")
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let mut open: Option<Open> = None;
    for (at, line) in numbered(text) {
        let begun = match (heading(line), keyed(line)) {
            (Some(test), _) => Some(Open { line: at, owed: true, ..of_load(Some(test)) }),
            // Without a heading, the first repeated word begins another result of the same test.
            (None, Some((key, _))) => match &open {
                None => Some(Open { line: at, ..Open::default() }),
                Some(o) if o.words.contains(key) || o.words.is_empty() && !o.reading.values.is_empty() => {
                    // Other programs may print such words below a table.
                    let owed = o.owed && !o.words.is_empty();
                    Some(Open { line: at, owed, ..of_load(test_of(o)) })
                }
                Some(_) => None,
            },
            (None, None) => None,
        };
        if let Some(next) = begun
            && let Some(last) = open.replace(next)
        {
            all.extend(last.close()?);
        }
        let Some(open) = &mut open else { continue };
        match keyed(line) {
            _ if heading(line).is_some() => Ok(()),
            Some((key, value)) => open.word(key, value),
            None => open.line(line),
        }
        .map_err(|e| e.context(unreadable(at)))?;
    }
    if let Some(last) = open {
        all.extend(last.close()?);
    }
    if all.is_empty() { Err(missing("netperf", "line of numbers below its heading")) } else { Ok(all) }
}

fn of_load(load: Option<String>) -> Open {
    Open { reading: Reading { load, ..Reading::default() }, ..Open::default() }
}

/// The test of a result, without the sizes after it.
fn test_of(open: &Open) -> Option<String> {
    open.reading.load.as_deref()?.split(' ').next().map(str::to_owned)
}

/// A word of `-k` and its value.
fn keyed(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let is_key = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (!key.is_empty() && key.chars().all(is_key)).then_some((key, value))
}

/// The column of results in a table's head, and its unit. With `-c` and `-C` others follow it.
fn column(units: &[&str]) -> Option<(usize, Unit)> {
    // Some units are two words for one column: "per sec", "KBytes /sec".
    let two = |pair: &[&str]| match pair {
        ["per", "sec"] => Some(Unit::Rate),
        [unit, per @ ("/s" | "/sec")] => Unit::of(&format!("{unit}{per}")),
        _ => None,
    };
    let one = |at: usize| Unit::of(units[at]).or_else(|| units.get(at..at + 2).and_then(two));
    (0..units.len()).find_map(|at| Some((at, one(at)?)))
}

/// Reads a line of numbers. UDP_STREAM has a second line for the data that arrived, without the columns of message
/// sizes and errors.
fn row(words: &[&str], (column, unit): (usize, Unit), nth: usize, reading: &mut Reading) -> Result<()> {
    let datagrams = reading.load.as_deref().is_some_and(|l| l.starts_with("UDP_STREAM"));
    let (name, at) = match (nth, datagrams) {
        (1, true) => ("sent", Some(column)),
        (2, true) => ("throughput", column.checked_sub(2)),
        (1, false) => ("throughput", Some(column)),
        _ => return Ok(()),
    };
    let word = at.and_then(|at| words.get(at));
    let word = word.ok_or_else(|| Error::input("the line of numbers is shorter than its head"))?;
    unit.put(name, whole(word)?, &mut reading.values);
    // Sizes of requests or messages make another load of the test.
    if nth == 1
        && unit == Unit::Rate
        && let [_, _, request, response, ..] = words
        && let Some(load) = &mut reading.load
    {
        load.push_str(&format!(" {request}/{response}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads, and values by name.
    fn readings_of(text: &str) -> Vec<(String, Vec<(String, f64)>)> {
        let all = read(text).unwrap_or_else(|e| panic!("{e}")).into_iter();
        all.map(|r| (r.load.unwrap_or_default(), r.values.into_iter().collect())).collect()
    }

    fn figures(text: &str) -> Vec<Vec<(String, f64)>> {
        readings_of(text).into_iter().map(|(_, values)| values).collect()
    }

    fn throughput(mbit: f64) -> Vec<(String, f64)> {
        vec![("throughput".to_owned(), mbit)]
    }

    #[test]
    fn a_throughput_is_converted_from_its_unit() {
        let of = |unit: &str| figures(&format!("THROUGHPUT_UNITS={unit}\nTHROUGHPUT=100.5\n"))[0][0].clone();
        for (unit, want) in [
            ("10^9bits/s", 100_500.0),
            ("10^6bits/s", 100.5),
            ("10^3bits/s", 0.1005),
            ("KBytes/s", 0.823_296),
            ("MBytes/s", 843.055_104),
        ] {
            let (name, value) = of(unit);
            assert!(name == "throughput" && (value - want).abs() < 1e-9, "{unit}: {name} {value}");
        }
        assert_eq!(of("Trans/s"), ("rate".to_owned(), 100.5));
        let e =
            read("LOCAL_CPU_UTIL=1\nTHROUGHPUT=3\nTHROUGHPUT_UNITS=furlongs/s\n").unwrap_err().to_string();
        assert!(e.contains("line 3") && e.contains("'furlongs/s'") && e.contains("Trans/s"), "{e}");
        let e = read("\nTHROUGHPUT=3\n").unwrap_err().to_string();
        assert!(e.contains("line 2") && e.contains("THROUGHPUT_UNITS"), "{e}");
    }

    #[test]
    fn a_repeated_word_begins_another_run() {
        let text = "P99_LATENCY=58\nTHROUGHPUT=10\nTHROUGHPUT_UNITS=Trans/s\nP99_LATENCY=60\nTHROUGHPUT=11\nTHROUGHPUT_UNITS=Trans/s\n";
        let p99 = |us: f64, rate| vec![("latency.p99".to_owned(), us * 1e3), ("rate".to_owned(), rate)];
        assert_eq!(figures(text), [p99(58.0, 10.0), p99(60.0, 11.0)]);
        let head = "MIGRATED TCP REQUEST/RESPONSE TEST from a to b\n";
        let all = readings_of(&format!("{head}{text}"));
        assert_eq!(all[1], ("TCP_RR".to_owned(), p99(60.0, 11.0)));
    }

    #[test]
    fn tables_of_other_units_and_with_cpu_use_are_read() {
        let table = |units: &str, numbers: &str| {
            format!(
                "MIGRATED TCP STREAM TEST from a to b : demo\nInterim result: 7.50 10^6bits/s over 1.000 seconds\n\
                 Recv   Send    Send\nSize   Size    Size     Time     Throughput\n{units}\n\n{numbers}\n"
            )
        };
        let plain = " 87380  16384  16384    10.00      9.41";
        let of = |units: &str| figures(&table(units, plain)).concat();
        assert_eq!(of("bytes  bytes   bytes    secs.    10^9bits/sec"), throughput(9410.0));
        assert_eq!(of("bytes  bytes   bytes    secs.    KBytes  /sec"), throughput(9.41 / (1e6 / 8192.0)));
        let cpu = "bytes  bytes   bytes    secs.    10^6bits/s  % S      % S      us/KB   us/KB";
        assert_eq!(
            figures(&table(cpu, &format!("{plain}   5.22  7.02  0.364  0.489"))).concat(),
            throughput(9.41)
        );
        let e =
            read(&table("bytes  bytes   bytes    secs.    10^6nibbles/s", plain)).unwrap_err().to_string();
        assert!(e.contains("line 5") && e.contains("nibbles"), "{e}");
        let datagrams = "UDP UNIDIRECTIONAL SEND TEST from a to b\nbytes bytes secs # # 10^6bits/sec % SS us/KB\n\
                         212992 65507 10.00 42962 0 2251.09 12.00 1.2\n212992 10.00 17866 936.13 11.00 1.1\n";
        let want = [("sent".to_owned(), 2251.09), ("throughput".to_owned(), 936.13)];
        assert_eq!(figures(datagrams).concat(), want);
    }

    #[test]
    fn words_without_a_figure_or_its_unit_are_an_error() {
        let head = "MIGRATED TCP STREAM TEST from a to b : demo\n";
        let good = format!("{head}THROUGHPUT=9\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=10.00\n");
        for (text, line, words) in [
            (format!("{head}ELAPSED_TIME=10.00\nLOCAL_CPU_UTIL=12\n{good}"), "line 1", "neither THROUGHPUT"),
            (format!("{good}ELAPSED_TIME=10.00\nLOCAL_CPU_UTIL=12\n"), "line 5", "neither THROUGHPUT"),
            (format!("{good}{head}THROUGHPUT=7\n"), "line 5", "THROUGHPUT has no THROUGHPUT_UNITS"),
        ] {
            let e = read(&text).unwrap_err().to_string();
            assert!(
                e.contains(&format!("can't read netperf's output, {line}: ")) && e.contains(words),
                "{e}"
            );
        }
        let of_table = format!("{head}bytes bytes bytes secs. 10^9bits/sec\nTHROUGHPUT=7\n");
        assert_eq!(figures(&of_table).concat(), throughput(7000.0));
        let rate = "MIGRATED TCP REQUEST/RESPONSE TEST from a\nTHROUGHPUT=7\n";
        assert_eq!(figures(rate).concat(), [("rate".to_owned(), 7.0)]);
        // Lines of other programs below a table or before a heading.
        let table = format!("{head}bytes bytes bytes secs. 10^6bits/sec\n1 2 3 10.00 5.5\n");
        let text = format!("SIZE=64\n{table}SIZE=128\nSIZE=256\n{table}");
        assert_eq!(figures(&text), [throughput(5.5), throughput(5.5)]);
    }

    #[test]
    fn a_heading_without_numbers_is_an_error() {
        let good = "TCP STREAM TEST from a\nbytes bytes bytes secs. 10^6bits/sec\n1 2 3 10.00 5.5\n";
        assert_eq!(figures(good).concat(), throughput(5.5));
        for text in [
            format!("MIGRATED TCP REQUEST/RESPONSE TEST from a\nestablish control: not there\n{good}"),
            format!(
                "{good}MIGRATED TCP STREAM TEST from a\nThroughput,Throughput Units\n9412.10,10^6bits/s\n"
            ),
            format!("{good}SCTP 1-TO-MANY STREAM TEST from a\n"),
        ] {
            let e = read(&text).unwrap_err().to_string();
            assert!(e.contains("no line of numbers is below the heading of"), "{e}");
            assert!(e.contains("line 1") || e.contains("line 4"), "{e}");
        }
    }
}
