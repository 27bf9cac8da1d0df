//! Reads httperf 0.9, run against an nginx that is started for it. It prints times in ms or s, and sums up the whole
//! test.

use super::text::{after, lines, missing, number, scaled};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, ServerSetup, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

pub const TOOL: Tool = Tool {
    name: "httperf",
    about: "httperf on an nginx of its own: 1000 connections without --num-conns and --wsess",
    program: "httperf",
    package: "httperf",
    before: &[
        "--hog",
        "--server",
        "127.0.0.1",
        "--port",
        "{port}",
        "--uri",
        "/index.html",
        "--num-conns",
        "1000",
    ],
    load: &["--rate", "{load}"],
    load_about: "connections or sessions a second",
    default_load: "200",
    server: &["nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf"],
    stage: Some(ServerSetup {
        package: "nginx-light",
        setup: &[],
        files: &[("nginx.conf", NGINX_CONF), ("www/index.html", PAGE), ("tmp/empty", "")],
    }),
    figures: &[
        FigureRow("rate", "1/s", Higher, "replies per second, over the whole test"),
        FigureRow("session_rate", "1/s", Higher, "sessions done per second (--wsess)"),
        FigureRow(
            "response",
            "ns",
            Lower,
            "mean time from the end of a request to the beginning of its reply",
        ),
        FigureRow("connection.min", "ns", Lower, "shortest connection"),
        FigureRow("connection.avg", "ns", Lower, "mean length of a connection"),
        FigureRow("connection.median", "ns", Lower, "median length of a connection"),
        FigureRow("connection.max", "ns", Lower, "longest connection"),
        FigureRow("throughput", "B/s", Higher, "bytes moved per second"),
        FigureRow("errors", "", Lower, "errors of any kind"),
        FigureRow("time", "ns", Neither, "length of the test"),
    ],
    headline: &["rate", "response", "connection.median"],
    knows: |text| lines(text).any(|l| !matches!(total(l), Ok(None))),
    read,
    ..BLANK
};

/// The server's settings: one worker per CPU, as in distributions' packages.
const NGINX_CONF: &str = include_str!("files/nginx.conf");

/// Repeats a text eight times.
macro_rules! eight {
    ($text:expr) => {
        concat!($text, $text, $text, $text, $text, $text, $text, $text)
    };
}

/// A page of 2 KB: lines of 32 bytes.
const PAGE: &str = eight!(eight!("0123456789abcdefghijklmnopqrstu\n"));

/// "Total: connections 20 requests 1000 replies 1000 test-duration 2.002 s": replies and seconds.
fn total(line: &str) -> Result<Option<(f64, f64)>> {
    let Some(rest) = line.strip_prefix("Total: connections ") else { return Ok(None) };
    Ok(after(rest, "replies ")?.zip(after(rest, "test-duration ")?))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    // The command line is printed before its results.
    let mut load = None;
    for line in lines(text) {
        if line.starts_with("httperf ") {
            load = after(line, "--rate=")?.map(|n| format!("{n} a second"));
        } else if let Some((replies, seconds)) = total(line)? {
            let rate = (seconds > 0.0).then(|| ("rate".to_owned(), replies / seconds));
            let mut values = FigureValues::from([("time".to_owned(), scaled(seconds, 1e9))]);
            values.extend(rate);
            all.push(Reading { load: load.take(), values, ..Reading::default() });
        } else if let Some(reading) = all.last_mut() {
            for (name, value) in figures(line) {
                reading.values.extend(value?.map(|v| (name.to_owned(), v)));
            }
        }
    }
    if all.is_empty() {
        Err(missing("httperf", "line 'Total: connections N requests N replies N'"))
    } else {
        Ok(all)
    }
}

fn figures(line: &str) -> Vec<(&'static str, Result<Option<f64>>)> {
    let ms = |word: &str| after(line, word).map(|v| v.map(|v| scaled(v, 1e6)));
    if line.starts_with("Connection time [ms]: min") {
        return vec![
            ("connection.min", ms("min ")),
            ("connection.avg", ms("avg ")),
            ("connection.max", ms("max ")),
            ("connection.median", ms("median ")),
        ];
    }
    if line.starts_with("Reply time [ms]:") {
        return vec![("response", ms("response "))];
    }
    if line.starts_with("Session rate [sess/s]:") {
        return vec![("session_rate", after(line, "avg "))];
    }
    if let Some(rest) = line.strip_prefix("Net I/O:") {
        return vec![("throughput", number(rest).map(|v| v.map(|kb| scaled(kb, 1024.0))))];
    }
    if line.starts_with("Errors: total") {
        return vec![("errors", after(line, "total "))];
    }
    Vec::new()
}
