//! Reads an rt-app file into plain structs: names, numbers and ranges are checked here, what they mean together in
//! `check`. Places are byte offsets into the text.

use super::event::{self, Event};
use super::json::{Kind, Member, Source, Value};
use super::keys::{self, Fate, Level};
use super::read;
use crate::build::MAX_TASKS;
use schedlab_base::{CpuSet, Ns, Result, printable};
use schedlab_kernel::{Attr, Policy};

/// A file's content.
#[derive(Debug)]
pub struct File {
    /// How long it runs; `None`: until every task has ended.
    pub duration: Option<Ns>,
    /// Its tasks, in the order of the file.
    pub tasks: Vec<Task>,
}

/// A kind of task.
#[derive(Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Where its name stands.
    pub at: usize,
    /// How many threads start with the run.
    pub instances: usize,
    /// When it starts.
    pub delay: Ns,
    /// How often its phases are run; `None`: for ever.
    pub loops: Option<u32>,
    /// Attributes it starts with.
    pub attr: Attr,
    /// CPUs of phases that name none.
    pub cpus: Option<CpuSet>,
    /// What it does.
    pub phases: Vec<Phase>,
}

/// A phase of a task.
#[derive(Debug)]
pub struct Phase {
    /// Where it stands.
    pub at: usize,
    /// How often it is repeated; `None`: for ever.
    pub loops: Option<u32>,
    /// Attributes to set at its beginning.
    pub attr: Option<Attr>,
    /// CPUs it is confined to, if it says so.
    pub cpus: Option<CpuSet>,
    /// What it does.
    pub events: Vec<Event>,
}

/// Priorities that rt-app gives to a policy named without one.
const DEFAULT_RT_PRIORITY: u8 = 10;

/// Reads the file's outermost value.
///
/// # Errors
/// Unknown, refused and missing keys; values of a wrong kind or out of range.
pub fn read(source: Source<'_>, root: &Value) -> Result<File> {
    let Kind::Object(members) = &root.kind else {
        let error = source.error(root.at, format!("an rt-app file is an object, not {}", root.kind.noun()));
        return Err(error.help("write { \"tasks\": { ... }, \"global\": { ... } }"));
    };
    let (mut tasks, mut global) = (None, None);
    for member in members {
        match keys::find(source, &[Level::Root], "the file", member)?.name {
            "tasks" => tasks = Some(member),
            "global" => global = Some(read::object(source, member)?),
            _ => _ = read::object(source, member)?,
        }
    }
    let (duration, policy) = read_global(source, global.unwrap_or_default())?;
    let Some(tasks) = tasks else {
        return Err(source.error(root.at, "the file has no 'tasks'"));
    };
    let tasks: Vec<Task> =
        read::object(source, tasks)?.iter().map(|m| read_task(source, m, policy)).collect::<Result<_>>()?;
    match tasks.iter().any(|t| t.instances > 0) {
        true => Ok(File { duration, tasks }),
        false => Err(source
            .error(root.at, "no task starts with the run")
            .help("give one an instance of at least 1")),
    }
}

fn read_global(source: Source<'_>, members: &[Member]) -> Result<(Option<Ns>, Policy)> {
    let (mut duration, mut policy) = (None, Policy::Other);
    for member in members {
        let row = keys::find(source, &[Level::Global], "global", member)?;
        match row.name {
            "duration" => duration = read_duration(source, member)?,
            "default_policy" => policy = read::policy(source, member)?,
            "calibration" => check_calibration(source, member)?,
            _ => debug_assert_ne!(row.fate, Fate::Done, "{} is not read", row.name),
        }
    }
    Ok((duration, policy))
}

/// Seconds, up to a day; -1 is none.
fn read_duration(source: Source<'_>, member: &Member) -> Result<Option<Ns>> {
    match read::whole(source, member, -1, 86_400)? {
        -1 => Ok(None),
        0 => Err(source
            .error(member.value.at, "a duration of 0 measures nothing")
            .help("give seconds, or -1 to run until every task has ended")),
        seconds => Ok(Some(Ns::secs(seconds.unsigned_abs()))),
    }
}

/// "CPU<n>" or nanoseconds per loop; neither is used, but a wrong one is a mistake worth telling.
fn check_calibration(source: Source<'_>, member: &Member) -> Result<()> {
    let Kind::Text(cpu) = &member.value.kind else {
        return read::whole(source, member, 0, i64::from(i32::MAX)).map(|_| ());
    };
    match cpu.strip_prefix("CPU").map(str::parse::<u32>) {
        Some(Ok(_)) => Ok(()),
        _ => Err(source.error(member.value.at, format!("'{cpu}' is not a CPU")).help("write \"CPU0\"")),
    }
}

/// What a task and a phase may both say.
#[derive(Default)]
struct Common<'a> {
    loops: Option<&'a Member>,
    policy: Option<&'a Member>,
    priority: Option<&'a Member>,
    cpus: Option<CpuSet>,
    events: Vec<Event>,
}

impl<'a> Common<'a> {
    fn take(&mut self, source: Source<'_>, row: &keys::Key, member: &'a Member, task: &str) -> Result<()> {
        match (row.level, row.name) {
            (Level::Event, kind) => self.events.push(event::read(source, kind, member, task)?),
            (_, "loop") => self.loops = Some(member),
            (_, "policy") => self.policy = Some(member),
            (_, "priority") => self.priority = Some(member),
            (_, "cpus") => self.cpus = Some(read::cpus(source, member)?),
            (_, other) => debug_assert_ne!(row.fate, Fate::Done, "{other} is not read"),
        }
        Ok(())
    }

    /// Attributes after this object, given those before it; `None` when it says nothing of them. A policy without a
    /// priority takes the policy's default one, a priority without a policy keeps the policy.
    fn attr(&self, source: Source<'_>, before: Policy) -> Result<Option<Attr>> {
        let policy = self.policy.map(|m| read::policy(source, m)).transpose()?;
        if policy.is_none() && self.priority.is_none() {
            return Ok(None);
        }
        let policy = policy.unwrap_or(before);
        let real_time = !policy.is_fair();
        let (low, high) = if real_time { (1, 99) } else { (-20, 19) };
        let priority = self.priority.map(|m| read::whole(source, m, low, high)).transpose()?;
        Ok(Some(if real_time {
            let rt_priority = priority.map_or(DEFAULT_RT_PRIORITY, |p| p as u8);
            Attr { policy, rt_priority, ..Attr::default() }
        } else {
            Attr { policy, nice: priority.map_or(0, |p| p as i8), ..Attr::default() }
        }))
    }
}

fn read_task(source: Source<'_>, task: &Member, default: Policy) -> Result<Task> {
    let what = format!("task '{}'", task.key);
    let (mut common, mut phases, mut instances, mut delay) = (Common::default(), None, 1, Ns::ZERO);
    for member in read::object(source, task)? {
        let row = keys::find(source, &[Level::Task, Level::Phase, Level::Event], &what, member)?;
        match row.name {
            "instance" => instances = read::whole(source, member, 0, MAX_TASKS as i64)? as usize,
            "delay" => delay = read::time_us(source, member, 0)?,
            "phases" => phases = Some(member),
            _ => common.take(source, row, member, &task.key)?,
        }
    }
    if task.key.contains(printable::acts) {
        return Err(source.error(task.at, "the task's name has control characters or more than one line"));
    }
    let attr = common.attr(source, default)?.unwrap_or_else(|| plain(default));
    let given = common.loops.map(|m| read::loops(source, m)).transpose()?;
    let loops = given.unwrap_or(None);
    let (loops, phases) = match phases {
        Some(phases) => (loops, read_phases(source, phases, &common, &task.key, attr.policy)?),
        None => (loops, vec![only_phase(source, task, std::mem::take(&mut common.events))?]),
    };
    Ok(Task { name: task.key.clone(), at: task.at, instances, delay, loops, attr, cpus: common.cpus, phases })
}

/// The attributes of a task that says nothing of them.
fn plain(policy: Policy) -> Attr {
    let rt_priority = if policy.is_fair() { 0 } else { DEFAULT_RT_PRIORITY };
    Attr { policy, rt_priority, ..Attr::default() }
}

/// The phase of a task that lists its events itself.
fn only_phase(source: Source<'_>, task: &Member, events: Vec<Event>) -> Result<Phase> {
    if events.is_empty() {
        return Err(source.error(task.at, format!("task '{}' has no events", task.key)));
    }
    Ok(Phase { at: task.at, loops: Some(1), attr: None, cpus: None, events })
}

fn read_phases(
    source: Source<'_>,
    phases: &Member,
    task: &Common<'_>,
    name: &str,
    mut policy: Policy,
) -> Result<Vec<Phase>> {
    if let Some(event) = task.events.first() {
        return Err(source
            .error(event.at, format!("task '{name}' has 'phases', so rt-app would ignore this event"))
            .help("move it into a phase"));
    }
    let members = read::object(source, phases)?;
    if members.is_empty() {
        return Err(source.error(phases.at, format!("task '{name}' has no phases")));
    }
    let mut all = Vec::new();
    for member in members {
        let phase = read_phase(source, member, name, policy)?;
        policy = phase.attr.map_or(policy, |a| a.policy);
        all.push(phase);
    }
    Ok(all)
}

fn read_phase(source: Source<'_>, phase: &Member, task: &str, before: Policy) -> Result<Phase> {
    let what = format!("phase '{}'", phase.key);
    let mut common = Common::default();
    for member in read::object(source, phase)? {
        let row = keys::find(source, &[Level::Phase, Level::Event], &what, member)?;
        common.take(source, row, member, task)?;
    }
    if common.events.is_empty() {
        return Err(source.error(phase.at, format!("phase '{}' of task '{task}' has no events", phase.key)));
    }
    let loops = common.loops.map_or(Ok(Some(1)), |m| read::loops(source, m))?;
    let attr = common.attr(source, before)?;
    Ok(Phase { at: phase.at, loops, attr, cpus: common.cpus, events: common.events })
}
