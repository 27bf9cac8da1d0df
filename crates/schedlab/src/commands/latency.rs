//! `schedlab latency`: per task of a recording, its time on CPUs and its waits for one.

use super::heard::Heard;
use crate::cli::Entry;
use crate::{common, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::printable::name;
use schedlab_base::{CpuSet, Error, Ns, Result};
use schedlab_import::latency::{Latency, Row};
use schedlab_trace::Actor;
use std::cmp::Reverse;
use std::io::{self, Write};

pub const ENTRY: Entry = Entry { command, run };

/// The key of an order of rows; the largest comes first.
type Key = fn(&Row) -> u64;

/// The orders of rows.
const ORDERS: [(&str, Key); 4] = [
    ("avg", |r| r.mean().map_or(0, |m| m.0)),
    ("max", |r| r.longest.0),
    ("switch", |r| r.switches),
    ("runtime", |r| r.run.0),
];

#[derive(Args)]
struct LatencyArgs {
    #[command(flatten)]
    heard: Heard,
    /// Only these CPUs (0-3,8)
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// A row for each thread, also where several have one name
    #[arg(long)]
    threads: bool,
    /// The order of rows: avg, max, switch or runtime
    #[arg(long, value_name = "WORD", default_value = "avg")]
    sort: String,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    LatencyArgs::augment_args(Command::new("latency"))
        .about("Show each task of a recording or a stored run: its time on CPUs, and its waits for one")
        .after_help(
            "A delay is the time in which a task could run and waited for a CPU: since its wakeup, or since it was preempted.",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = LatencyArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let only = args.cpu.as_deref().map(CpuSet::parse).transpose().map_err(|e| e.context("--cpu"))?;
    let order = ORDERS.iter().find(|(word, _)| *word == args.sort);
    let (_, key) = order
        .ok_or_else(|| Error::unknown("order", &args.sort, ORDERS.map(|(word, _)| word)).context("--sort"))?;
    let chosen = args.heard.source.chosen();
    let mut latency = Latency::default();
    latency.only = only;
    let warnings = args.heard.feed(&mut latency)?;
    let wanted = |row: &&Row| {
        chosen.is_all()
            || chosen.has(&Actor {
                name: row.name.clone(),
                tid: row.tid,
                process: row.process,
                background: false,
                prio: 0,
                group: None,
            })
    };
    let rows = latency.rows().iter().filter(|r| r.switches > 0 || r.run > Ns::ZERO).filter(wanted);
    let mut rows = if args.threads { rows.cloned().collect() } else { Latency::by_name(rows) };
    rows.sort_by_key(|r| Reverse(key(r)));
    if args.json {
        let value = json(&rows, latency.opened_ns, &warnings);
        return output::json_as("schedlab/latency/1", &value);
    }
    common::warn(&warnings);
    output::result(|out| table(&rows, latency.opened_ns, out))
}

fn json(rows: &[Row], opened_ns: u64, warnings: &[schedlab_base::Warning]) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|r| {
            let at = |t: Ns| (r.waits > 0).then_some(opened_ns + t.0);
            serde_json::json!({
                "task": r.name, "tid": (r.tasks == 1).then_some(r.tid), "tasks": r.tasks, "runtime_ns": r.run.0,
                "switches": r.switches, "waits": r.waits, "delay_ns": r.delay.0, "max_delay_ns": r.longest.0,
                "max_delay_start_ns": at(r.from), "max_delay_end_ns": at(r.to),
            })
        })
        .collect();
    serde_json::json!({ "rows": rows, "warnings": warnings })
}

fn table(rows: &[Row], opened_ns: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<24} {:>14} {:>9} {:>14} {:>14} {:>16} {:>16}",
        "task", "runtime ms", "switches", "avg delay ms", "max delay ms", "max start s", "max end s"
    )?;
    for r in rows {
        let name = name(&r.name);
        let name = if r.tasks == 1 { format!("{name}:{}", r.tid) } else { format!("{name}:({})", r.tasks) };
        let at = |t: Ns| match r.waits {
            0 => "-".to_owned(),
            _ => {
                let ns = opened_ns + t.0;
                format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
            }
        };
        let mean = r.mean().map_or_else(|| "-".to_owned(), ms);
        let most = if r.waits == 0 { "-".to_owned() } else { ms(r.longest) };
        writeln!(
            out,
            "{name:<24} {:>14} {:>9} {mean:>14} {most:>14} {:>16} {:>16}",
            ms(r.run),
            r.switches,
            at(r.from),
            at(r.to)
        )?;
    }
    let (run, switches): (u64, u64) = rows.iter().fold((0, 0), |(run, n), r| (run + r.run.0, n + r.switches));
    writeln!(out, "{:<24} {:>14} {switches:>9}", "all", ms(Ns(run)))
}

fn ms(time: Ns) -> String {
    format!("{}.{:03}", time.0 / 1_000_000, time.0 / 1_000 % 1_000)
}
