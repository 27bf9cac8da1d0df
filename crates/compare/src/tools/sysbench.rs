//! Reads sysbench 1.0: the tests cpu, threads, mutex, memory and oltp_read_write. Latencies are in ms; `--percentile`
//! chooses the percentile.

use super::text::{first, lines, missing, number, scaled};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, ServerSetup, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

const FIGURES: &[FigureRow] = &[
    FigureRow("rate", "1/s", Higher, "events per second"),
    FigureRow("events", "", Neither, "number of events"),
    FigureRow("time", "ns", Neither, "total time"),
    FigureRow("latency.min", "ns", Lower, "shortest event"),
    FigureRow("latency.avg", "ns", Lower, "mean length of an event"),
    FigureRow("latency.max", "ns", Lower, "longest event"),
    FigureRow(
        "latency.p<percentile>",
        "ns",
        Lower,
        "the percentile sysbench was asked for: 95 unless it says another",
    ),
    FigureRow("fairness.events_std", "", Lower, "standard deviation of the events of each thread"),
];

pub const CPU: Tool = Tool {
    name: "sysbench-cpu",
    about: "sysbench cpu: threads that look for prime numbers",
    program: "sysbench",
    package: "sysbench",
    before: &["cpu"],
    load: &["--threads={load}"],
    after: &["run"],
    load_about: "threads",
    figures: FIGURES,
    headline: &["rate", "latency.p95"],
    knows: |text| is_sysbench(text) && text.contains("Prime numbers limit"),
    read,
    ..BLANK
};

pub const THREADS: Tool = Tool {
    name: "sysbench-threads",
    about: "sysbench threads: threads that fight for mutexes and yield",
    before: &["threads"],
    knows: is_sysbench,
    ..CPU
};

/// `sysbench mutex`: threads that take mutexes from a large array. Its output looks like that of `threads`.
pub const MUTEX: Tool = Tool {
    name: "sysbench-mutex",
    about: "sysbench mutex: threads that take mutexes from a large array",
    before: &["mutex"],
    knows: |_| false,
    ..CPU
};

pub const MEMORY: Tool = Tool {
    name: "sysbench-memory",
    about: "sysbench memory: threads that go over blocks of memory",
    before: &["memory"],
    knows: |text| is_sysbench(text) && text.contains("memory speed test"),
    ..CPU
};

/// `sysbench oltp_read_write` on a MariaDB server that is started for it, with a table of 10,000 rows in a folder of
/// its own. Events are transactions.
pub const OLTP: Tool = Tool {
    name: "sysbench-oltp",
    about: "sysbench oltp_read_write on a MariaDB server of its own (one table; 10 s without --time)",
    before: &[
        "oltp_read_write",
        "--db-driver=mysql",
        "--mysql-socket={folder}/db.sock",
        "--mysql-user=root",
        "--table-size=10000",
    ],
    default_load: "8",
    server: &["mariadbd", "--defaults-file={folder}/my.cnf"],
    stage: Some(ServerSetup {
        package: "mariadb-server-core",
        setup: &["sh", "{folder}/prepare.sh"],
        files: &[("my.cnf", MY_CNF), ("prepare.sh", PREPARE)],
    }),
    knows: |text| is_sysbench(text) && text.contains("SQL statistics:"),
    ..CPU
};

/// The server's settings. Only a server run by root reads `user`.
const MY_CNF: &str = include_str!("files/my.cnf");

/// Makes the database, starts the server to fill the table, and stops it.
const PREPARE: &str = include_str!("files/prepare.sh");

fn is_sysbench(text: &str) -> bool {
    lines(text).any(|l| l.starts_with("sysbench 1.") || l.starts_with("sysbench 0."))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let head = |l: &&str| l.starts_with("sysbench ");
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for line in lines(text) {
        if head(&line) || runs.is_empty() {
            runs.push(Vec::new());
        }
        runs.last_mut().into_iter().for_each(|run| run.push(line));
    }
    let mut all = Vec::new();
    for run in &runs {
        all.extend(one_run(&run.join("\n"))?);
    }
    if all.is_empty() {
        Err(missing("sysbench", "'total number of events:' with 'total time:'"))
    } else {
        Ok(all)
    }
}

fn one_run(text: &str) -> Result<Option<Reading>> {
    let (events, time) = (first(text, "total number of events:")?, first(text, "total time:")?);
    let Some((events, time)) = events.zip(time) else { return Ok(None) };
    let rate = first(text, "events per second:")?.or((time > 0.0).then(|| events / time));
    let mut values =
        FigureValues::from([("events".to_owned(), events), ("time".to_owned(), scaled(time, 1e9))]);
    values.extend(rate.map(|r| ("rate".to_owned(), r)));
    let latencies = lines(text)
        .skip_while(|l| !l.starts_with("Latency (ms)"))
        .take_while(|l| !l.starts_with("Threads fairness"));
    for line in latencies {
        values.extend(latency(line)?);
    }
    if let Some((_, std)) = lines(text).find_map(|l| l.strip_prefix("events (avg/stddev):")?.split_once('/'))
    {
        values.extend(number(std)?.map(|std| ("fairness.events_std".to_owned(), std)));
    }
    let load = first(text, "Number of threads:")?.map(|n| format!("{n} threads"));
    Ok(Some(Reading { load, values, ..Reading::default() }))
}

/// "min: 0.20", "95th percentile: 19.29"
fn latency(line: &str) -> Result<Option<(String, f64)>> {
    let Some((title, value)) = line.split_once(':') else { return Ok(None) };
    let name = match title {
        "min" | "avg" | "max" => title.to_owned(),
        other => match other.strip_suffix("th percentile").and_then(|p| p.trim().parse::<f64>().ok()) {
            Some(percentile) => format!("p{percentile}"),
            None => return Ok(None),
        },
    };
    Ok(number(value)?.map(|ms| (format!("latency.{name}"), scaled(ms, 1e6))))
}
