//! Reads dbench 4 and tbench, which print the same: a table of operations in ms, then the throughput.

use super::text::{after, lines, missing, number, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

const FIGURES: &[FigureRow] = &[
    FigureRow("throughput", "MB/s", Higher, "bytes moved per second, all clients together"),
    FigureRow("latency.max", "ns", Lower, "longest operation"),
    FigureRow("op.<operation>.count", "", Neither, "how often an operation was done"),
    FigureRow("op.<operation>.avg", "ns", Lower, "mean time of an operation"),
    FigureRow("op.<operation>.max", "ns", Lower, "longest time of an operation"),
];

pub const DBENCH: Tool = Tool {
    name: "dbench",
    about: "a file server's load on a file system (10 s without -t)",
    program: "dbench",
    package: "dbench",
    before: &["-t", "10"],
    load: &["{load}"],
    load_about: "clients",
    default_load: "1",
    figures: FIGURES,
    headline: &["throughput", "latency.max"],
    knows: |text| lines(text).any(|l| !matches!(throughput(l), Ok(None))),
    read,
    ..BLANK
};

pub const TBENCH: Tool = Tool {
    name: "tbench",
    about: "dbench's load over loopback TCP (10 s without -t); its server is started with it",
    program: "tbench",
    after: &["127.0.0.1"],
    server: &["tbench_srv"],
    ..DBENCH
};

/// "Throughput 416.231 MB/sec  2 clients  2 procs  max_latency=21.868 ms"
fn throughput(line: &str) -> Result<Option<f64>> {
    let rest = line.strip_prefix("Throughput ").filter(|rest| rest.contains(" MB/sec"));
    rest.map_or(Ok(None), number)
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let (mut all, mut values) = (Vec::new(), FigureValues::new());
    for line in lines(text) {
        if let Some(rate) = throughput(line)? {
            let mut values = std::mem::take(&mut values);
            values.insert("throughput".to_owned(), rate);
            values.extend(after(line, "max_latency=")?.map(|ms| ("latency.max".to_owned(), scaled(ms, 1e6))));
            let clients = after(line, " MB/sec")?;
            let load = clients.filter(|_| line.contains(" clients")).map(|n| format!("{n} clients"));
            all.push(Reading { load, values, ..Reading::default() });
        } else if line.starts_with("dbench version") {
            values.clear();
        } else {
            operation(line, &mut values)?;
        }
    }
    if all.is_empty() { Err(missing("dbench", "line 'Throughput N MB/sec'")) } else { Ok(all) }
}

/// " ReadX          35625     0.031    21.866"
fn operation(line: &str, values: &mut FigureValues) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, calls, avg, max] = words[..] else { return Ok(()) };
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'/');
    let digits = calls.bytes().all(|b| b.is_ascii_digit());
    let begins = |w: &str| w.starts_with(|c: char| c.is_ascii_digit());
    if word && digits && begins(avg) && begins(max) {
        let all = [("count", whole(calls)?, 1.0), ("avg", whole(avg)?, 1e6), ("max", whole(max)?, 1e6)];
        values.extend(all.map(|(what, v, factor)| (format!("op.{name}.{what}"), scaled(v, factor))));
    }
    Ok(())
}
