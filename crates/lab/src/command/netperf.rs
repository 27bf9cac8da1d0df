//! netperf 2: the classic tables (a heading for each test, numbers in columns) and the words of `-k`
//! (`THROUGHPUT=...`).
//!
//! A heading begins a result. Several results in a text count as runs one after the other; a text does not tell whether
//! they ran side by side. Bare numbers (`-P 0`) are not read.

use super::text::{lines, missing, scaled, whole};
use super::{Reading, Row, SAVED_ONLY, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower};

/// The row. Only its saved outputs are read: it needs a server, which may be elsewhere.
pub const TOOL: Tool = Tool {
    name: "netperf",
    about: "tables of netperf 2 (TCP_RR, TCP_STREAM, UDP_STREAM and so on), and its output with -k",
    package: "netperf",
    figures: &[
        Row("rate", "1/s", Higher, "transactions per second"),
        Row("throughput", "Mbit/s", Higher, "10^6 bits per second; of UDP_STREAM what arrived"),
        Row("sent", "Mbit/s", Higher, "UDP_STREAM: 10^6 bits per second that were sent"),
        Row("latency.<stat>", "ns", Lower, "latency of a transaction (-k)"),
    ],
    headline: &["rate", "throughput"],
    knows: |text| lines(text).any(|l| heading(l).is_some() || l.starts_with("THROUGHPUT=")),
    read,
    ..SAVED_ONLY
};

/// The test that a heading names, in the word of `-t`: "MIGRATED TCP REQUEST/RESPONSE TEST from ...".
fn heading(line: &str) -> Option<String> {
    let (title, _) = line.split_once(" TEST")?;
    let title = title.strip_prefix("MIGRATED ").unwrap_or(title).to_ascii_uppercase();
    let (protocol, what) = title.split_once(' ')?;
    if !["TCP", "UDP", "SCTP", "DCCP", "OMNI"].contains(&protocol) {
        return None;
    }
    let word = match what {
        "REQUEST/RESPONSE" => "RR",
        "CONNECT/REQUEST/RESPONSE" => "CRR",
        "CONNECT/CLOSE" => "CC",
        "UNIDIRECTIONAL SEND" => "STREAM",
        "STREAM" | "MAERTS" | "SENDFILE" => what,
        _ => return None,
    };
    Some(format!("{protocol}_{word}"))
}

/// A result as its lines come.
#[derive(Default)]
struct Open {
    /// Which column of the table's first line of numbers is the result.
    column: Option<usize>,
    /// Lines of numbers so far.
    rows: usize,
    unit: &'static str,
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let mut open = Open::default();
    for line in lines(text) {
        if let Some(test) = heading(line) {
            all.push(Reading { load: Some(test), ..Reading::default() });
            open = Open::default();
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            // Without a heading each line of the result's key begins a result.
            if key == "THROUGHPUT" && all.last().is_none_or(|r| !r.values.is_empty()) {
                all.push(Reading { load: all.last().and_then(|r| r.load.clone()), ..Reading::default() });
            }
            if let Some(last) = all.last_mut() {
                word(key, value, last)?;
            }
            continue;
        }
        let Some(last) = all.last_mut() else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        match open.column {
            // The last line of a table's head has the units.
            None => {
                let at = |unit: &str| words.iter().position(|w| *w == unit);
                // "secs. per sec": two words for a column.
                let rate = words.windows(2).position(|w| w == ["per", "sec"]);
                (open.column, open.unit) = match (rate, at("10^6bits/sec")) {
                    (Some(at), _) => (Some(at), "rate"),
                    (None, Some(at)) => (Some(at), "throughput"),
                    (None, None) => (None, ""),
                };
            }
            Some(column) if words.first().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit())) => {
                open.rows += 1;
                row(&words, (column, open.unit), open.rows, last)?;
            }
            Some(_) => {}
        }
    }
    all.retain(|r| !r.values.is_empty());
    if all.is_empty() { Err(missing("netperf", "line of numbers below its heading")) } else { Ok(all) }
}

/// A line of numbers. UDP_STREAM has a second one: what arrived, without the column of message sizes and of errors.
fn row(
    words: &[&str],
    (column, unit): (usize, &'static str),
    nth: usize,
    reading: &mut Reading,
) -> Result<()> {
    let datagrams = reading.load.as_deref().is_some_and(|l| l.starts_with("UDP_STREAM"));
    let (name, word) = match (nth, datagrams) {
        (1, true) => ("sent", words.get(column)),
        (2, true) => (unit, words.last().filter(|_| words.len() >= 4)),
        (1, false) => (unit, words.get(column)),
        _ => return Ok(()),
    };
    if let Some(word) = word {
        reading.values.insert(name.to_owned(), whole(word)?);
        // Sizes of requests or messages make another load of the same test.
        if nth == 1
            && unit == "rate"
            && let [_, _, request, response, ..] = words
            && let Some(load) = &mut reading.load
        {
            load.push_str(&format!(" {request}/{response}"));
        }
    }
    Ok(())
}

/// A word of `-k`. Latencies are in us.
fn word(key: &str, value: &str, reading: &mut Reading) -> Result<()> {
    let stat = match key {
        "THROUGHPUT" => {
            reading.values.insert("throughput".to_owned(), whole(value)?);
            return Ok(());
        }
        // The unit says what the throughput is; transactions without it.
        "THROUGHPUT_UNITS" => {
            if value.trim().starts_with("Trans") {
                rename(reading);
            }
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
    reading.values.insert(format!("latency.{stat}"), scaled(whole(value)?, 1e3));
    Ok(())
}

fn rename(reading: &mut Reading) {
    if let Some(value) = reading.values.remove("throughput") {
        reading.values.insert("rate".to_owned(), value);
    }
}
