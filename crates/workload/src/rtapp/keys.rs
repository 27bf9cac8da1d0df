//! The table of all keys in rt-app files, and how schedlab treats them. The reader and the table in docs/workloads.md
//! are both made from it, so that they can't differ.
//!
//! Mirrors the grammar of rt-app as of 2026 (its tutorial). Keys that schedlab ignores or rejects are here with the
//! reason; all other keys are unknown.

use super::json::{Kind, Member, Source};
use schedlab_base::{Error, Result};

/// The object that contains a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The file's outermost object.
    Root,
    Global,
    Task,
    /// A phase, or a task.
    Phase,
    /// An event in a phase, or in a task without `phases`.
    Event,
}

/// How schedlab treats a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The workload follows it.
    Done,
    /// Accepted, without effect on scheduling here.
    NoEffect,
    /// Accepted only with the value that disables it.
    OnlyOff,
    /// An error with a reason.
    Refused,
}

#[derive(Debug)]
pub struct Key {
    pub level: Level,
    /// Names of events may have a suffix ("run0").
    pub name: &'static str,
    pub fate: Fate,
    /// The meaning, or the reason why it is not implemented.
    pub about: &'static str,
}

const fn row(level: Level, name: &'static str, fate: Fate, about: &'static str) -> Key {
    Key { level, name, fate, about }
}

const OLD_DEADLINE: &str = "a key of rt-app before 2014; today's are dl-period and dl-deadline";
const CLAMP: &str = "utilisation clamps are not modelled";
const BEFORE_2014: &str =
    "a key of rt-app before 2014, which had no events; today's rt-app refuses such tasks";
const LOGGING: &str = "rt-app's own logging";

#[rustfmt::skip]
pub const KEYS: &[Key] = {
    use {Fate::*, Level::*};
    &[
        row(Root, "tasks", Done, "the tasks by name"),
        row(Root, "global", Done, "settings of the whole file"),
        row(Root, "resources", NoEffect, "resources are made where they are used"),
        row(Global, "duration", Done, "length of the run, seconds; -1 or none: until every task has ended"),
        row(Global, "default_policy", Done, "policy of tasks that name none (SCHED_OTHER)"),
        row(Global, "calibration", NoEffect, "a run's microseconds are those of a CPU at full speed, which calibration aims at"),
        row(Global, "pi_enabled", OnlyOff, "mutexes without priority inheritance"),
        row(Global, "cumulative_slack", OnlyOff, "each timer's slack is recorded by itself"),
        row(Global, "lock_pages", NoEffect, "programs touch no memory that could be paged out"),
        row(Global, "logdir", NoEffect, LOGGING),
        row(Global, "log_basename", NoEffect, LOGGING),
        row(Global, "log_size", NoEffect, LOGGING),
        row(Global, "ftrace", NoEffect, LOGGING),
        row(Global, "gnuplot", NoEffect, LOGGING),
        row(Global, "frag", NoEffect, "a key of rt-app before 2014; today's rt-app ignores it"),
        row(Global, "io_device", NoEffect, "nothing is written; iorun is a sleep whatever the device"),
        row(Global, "mem_buffer_size", Done, "size of each thread's buffer in bytes (4194304), which mem goes over"),
        row(Task, "instance", Done, "threads of this kind (1); 0: only by fork"),
        row(Task, "delay", Done, "start this many us after the run's start"),
        row(Task, "phases", Done, "phases by name, in the order of the file"),
        row(Task, "period", Refused, OLD_DEADLINE),
        row(Task, "deadline", Refused, OLD_DEADLINE),
        row(Task, "exec", Refused, BEFORE_2014),
        row(Task, "lock_order", Refused, BEFORE_2014),
        row(Task, "resources", Refused, BEFORE_2014),
        row(Phase, "loop", Done, "repetitions; -1: for ever. Default: a phase once, a task for ever"),
        row(Phase, "policy", Done, "SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO or SCHED_RR; from this phase on"),
        row(Phase, "priority", Done, "nice value (0), or real-time priority (10); from this phase on"),
        row(Phase, "cpus", Done, "CPUs of this phase; else the task's; else all. CPUs that the machine lacks are ignored"),
        row(Phase, "dl-runtime", Done, "slice in us that a SCHED_OTHER or SCHED_BATCH task asks for (kernels from 6.12 on), limited to 100 us to 100 ms as kernels do; runtime in us of a SCHED_DEADLINE task in each period"),
        row(Phase, "dl-period", Done, "period in us of a SCHED_DEADLINE task; default its runtime"),
        row(Phase, "dl-deadline", Done, "deadline in us of a SCHED_DEADLINE task; default its period"),
        row(Phase, "util_min", Refused, CLAMP),
        row(Phase, "util_max", Refused, CLAMP),
        row(Phase, "nodes_membind", Refused, "memory placement is not modelled; use cpus"),
        row(Phase, "membind_nodes", Refused, "memory placement is not modelled; use cpus"),
        row(Phase, "taskgroup", Done, "path of its task group (\"/g\"), of all phases of a task the same; [[group]] sets the group's shares and quota"),
        row(Event, "run", Done, "us of work of a CPU at full speed"),
        row(Event, "runtime", Done, "spin until this many us of wall time have passed"),
        row(Event, "sleep", Done, "sleep this many us"),
        row(Event, "timer", Done, "sleep to the next activation: { ref, period (us), mode: relative or absolute }"),
        row(Event, "lock", Done, "take a mutex"),
        row(Event, "unlock", Done, "release a mutex"),
        row(Event, "wait", Done, "wait on a condition with its mutex held: { ref, mutex }"),
        row(Event, "signal", Done, "wake one waiter of a condition"),
        row(Event, "broad", Done, "wake all waiters of a condition"),
        row(Event, "sync", Done, "signal a condition, then wait on it; takes the mutex unless held: { ref, mutex }"),
        row(Event, "suspend", Done, "wait for a resume of this name; empty: the task's own name"),
        row(Event, "resume", Done, "wake all that are suspended under this name; lost if there are none"),
        row(Event, "barrier", Done, "wait until all threads of all tasks that name it have come"),
        row(Event, "yield", Done, "sched_yield"),
        row(Event, "fork", Done, "start one more thread of the named task"),
        row(Event, "mem", Done, "go over this many bytes of the thread's buffer, from its start, again and again if there are more"),
        row(Event, "iorun", Done, "sleep 1 ns for each byte, as if waiting for a device of 1 GB/s"),
    ]
};

/// The row of a member, in an object that may have keys of `levels`.
///
/// # Errors
/// When the key is unknown (the error offers the nearest), rejected, not disabled though it must be, or repeated
/// without being an event.
pub fn find(source: Source<'_>, levels: &[Level], what: &str, member: &Member) -> Result<&'static Key> {
    let fits = |k: &&Key| levels.contains(&k.level) && names(k, &member.key);
    let row = KEYS.iter().find(fits).ok_or_else(|| {
        let known = KEYS
            .iter()
            .filter(|k| levels.contains(&k.level) && matches!(k.fate, Fate::Done | Fate::NoEffect));
        Error::unknown(&format!("key in {what}"), &member.key, known.map(|k| k.name))
            .at(source.spot(member.at))
    })?;
    if row.level != Level::Event {
        once(source, member)?;
    }
    let off = match &member.value.kind {
        Kind::Bool(b) => !b,
        Kind::Text(t) => t.is_empty(),
        _ => false,
    };
    match row.fate {
        Fate::Refused => Err(source
            .error(member.at, format!("{what} has '{}', which is not supported", member.key))
            .help(row.about)),
        Fate::OnlyOff if !off => Err(source
            .error(member.value.at, format!("'{}' is supported only if it is off", row.name))
            .help(format!("remove it ({})", row.about))),
        _ => Ok(row),
    }
}

/// Checks that a key is not repeated.
///
/// # Errors
/// When it is repeated: `workgen` would number it, and rt-app would then ignore it.
pub fn once(source: Source<'_>, member: &Member) -> Result<()> {
    let Some(repeat) = member.repeats else { return Ok(()) };
    let (key, line) = (&member.key, source.spot(repeat.first).line_column.map_or(0, |(line, _)| line));
    let help = format!("remove one: only events may be repeated, and rt-app would ignore the second '{key}'");
    Err(source.error(member.at, format!("key '{key}' is there twice (first on line {line})")).help(help))
}

/// Whether `key` names the row. An event's suffix must not begin with a small letter: "run0" and "timerA" are events,
/// while "runs" is a typing error. (rt-app accepts any suffix.)
fn names(row: &Key, key: &str) -> bool {
    match key.strip_prefix(row.name) {
        Some("") => true,
        Some(suffix) => row.level == Level::Event && !suffix.starts_with(|c: char| c.is_lowercase()),
        None => false,
    }
}

impl Level {
    /// The heading of the level's rows in the documentation.
    pub fn title(self) -> &'static str {
        match self {
            Level::Root => "file",
            Level::Global => "global",
            Level::Task => "task",
            Level::Phase => "task or phase",
            Level::Event => "event",
        }
    }
}

impl Fate {
    /// The word in the documentation.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Done => "yes",
            Fate::NoEffect => "accepted, no effect",
            Fate::OnlyOff => "only switched off",
            Fate::Refused => "refused",
        }
    }
}
