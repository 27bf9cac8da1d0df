//! `schedlab timehist`: the stays of a recording's tasks, one row each, as they are read.

use super::heard::Heard;
use super::timehist_row::{NAME, RowText};
use crate::cli::Entry;
use crate::common;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{CpuId, CpuSet, Error, Ns, Result, printable};
use schedlab_import::timehist::{Row, Timehist};
use schedlab_import::to_run::ChosenTasks;
use schedlab_trace::Actor;
use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct TimehistArgs {
    #[command(flatten)]
    heard: Heard,
    /// Only these CPUs (0-3,8)
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Only the sums of each task, and the idle time of each CPU
    #[arg(long)]
    summary: bool,
}

fn command() -> Command {
    TimehistArgs::augment_args(Command::new("timehist"))
        .about("Show each stay of the tasks of a recording, or of a stored run, on a CPU: its length, and the wait before it")
        .after_help(
            "wait time: off the CPU before the stay. sch delay: the part of it since the wakeup. run time: the stay. \
             A dash: the recording does not show it.",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = TimehistArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let cpus = args.cpu.as_deref().map(CpuSet::parse).transpose().map_err(|e| e.context("--cpu"))?;
    let chosen = args.heard.source.chosen();
    let on = |cpu: CpuId| cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
    let mut out = Out::new();
    if args.summary {
        let mut hist = Timehist::new(|_| {}).only(&on);
        let warnings = args.heard.feed(&mut hist)?;
        summary(&hist, &chosen, &on, &mut out);
        common::warn(&warnings);
        return out.finish();
    }
    out.heading = heading();
    let mut text = RowText::default();
    let mut hist = Timehist::new(|row: Row<'_>| {
        if chosen.has(row.task) {
            line(&row, &mut text, &mut out);
        }
    })
    .only(&on);
    let warnings = args.heard.feed(&mut hist)?;
    common::warn(&warnings);
    out.finish()
}

/// The titles of the columns, their units, and a rule.
fn heading() -> String {
    let row = |[time, cpu, task, wait, delay, run]: [&str; 6]| {
        format!("{time:>15} {cpu:>6}  {task:<NAME$}  {wait:>10} {delay:>10} {run:>10}\n")
    };
    let rule = [15, 6, NAME, 10, 10, 10].map(|n| "-".repeat(n));
    row(["time", "cpu", "task name", "wait time", "sch delay", "run time"])
        + &row(["", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"])
        + &row(rule.each_ref().map(String::as_str))
}

fn line(row: &Row<'_>, text: &mut RowText, out: &mut Out) {
    let (s, us) = (row.at_ns / 1_000_000_000, row.at_ns / 1_000 % 1_000_000);
    text.row.clear();
    text.row.right(8, s).text(b".").zeros::<6>(us).text(b" [").zeros::<4>(row.cpu.0).text(b"]  ");
    text.task(row.task.tid, &row.task.name, row.task.process, || who(row.task));
    for (time, before) in [(row.wait, &b"  "[..]), (row.delay, b" "), (row.run, b" ")] {
        text.row.text(before);
        text.ms(time);
    }
    text.row.text(b"\n");
    out.bytes(text.row.bytes());
}

/// A task as perf names it: `bash[12]`, `java[13/12]`.
fn who(task: &Actor) -> String {
    let name = printable::name(&task.name);
    match task.process {
        0 => format!("{name}[{}]", task.tid),
        process if process == task.tid => format!("{name}[{process}]"),
        process => format!("{name}[{}/{process}]", task.tid),
    }
}

/// Milliseconds with three digits, or a dash.
struct Ms(Option<Ns>);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Ns(ns)) => {
                let us = (ns + 500) / 1000;
                f.pad(&format!("{}.{:03}", us / 1000, us % 1000))
            }
            None => f.pad("-"),
        }
    }
}

fn summary<F: FnMut(Row<'_>)>(
    hist: &Timehist<'_, F>,
    chosen: &ChosenTasks,
    on: &dyn Fn(CpuId) -> bool,
    out: &mut Out,
) {
    out.line(format_args!(
        "{:<NAME$}  {:>9} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "task name", "stays", "run time", "shortest", "mean", "longest", "std dev", "migrations"
    ));
    out.line(format_args!(
        "{:<NAME$}  {:>9} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "[tid/pid]", "", "(msec)", "(msec)", "(msec)", "(msec)", "(msec)", ""
    ));
    for (task, sums) in hist.sums().filter(|(task, sums)| sums.stays > 0 && chosen.has(task)) {
        let who = who(task);
        out.line(format_args!(
            "{who:<NAME$}  {:>9} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
            sums.stays,
            Ms(Some(sums.run)),
            Ms(Some(sums.least)),
            Ms(sums.mean()),
            Ms(Some(sums.most)),
            Ms(sums.deviation()),
            sums.migrations
        ));
    }
    for (cpu, idle) in hist.idle().filter(|(cpu, _)| on(*cpu)) {
        let idle = Ms(Some(idle));
        out.line(format_args!("cpu {:>4} was idle for {idle} msec", cpu.0));
    }
}

/// Standard output, written as rows come. A reader that has gone is not an error.
pub struct Out {
    to: BufWriter<io::Stdout>,
    /// Written before the first row, or at the end: a recording that can't be read has no heading.
    heading: String,
    failed: Option<io::Error>,
}

impl Out {
    pub fn new() -> Out {
        Out { to: BufWriter::with_capacity(1 << 16, io::stdout()), heading: String::new(), failed: None }
    }
    /// Writes a line, unless writing has failed before.
    pub fn line(&mut self, text: fmt::Arguments<'_>) {
        self.bytes(format!("{text}\n").as_bytes());
    }
    /// Writes bytes, unless writing has failed before.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if !self.heading.is_empty() {
            let heading = std::mem::take(&mut self.heading);
            self.bytes(heading.as_bytes());
        }
        if self.failed.is_none()
            && let Err(e) = self.to.write_all(bytes)
        {
            self.failed = Some(e);
        }
    }
    /// Writes the rest.
    ///
    /// # Errors
    /// When something could not be written, unless the reader had gone.
    pub fn finish(mut self) -> Result<()> {
        self.bytes(&[]);
        let outcome = self.failed.take().map_or_else(|| self.to.flush(), Err);
        match outcome {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                Err(Error::machine(format!("can't write to standard output: {e}")))
            }
            _ => Ok(()),
        }
    }
}
