//! Reads an rt-app file into plain structs. Names, numbers and ranges are checked here; `check` checks their
//! combination. Places are byte offsets into the text.

use super::event::{self, Event};
use super::json::{Kind, Member, Source, Value};
use super::keys::{self, Fate, Level};
use super::read;
use crate::build::MAX_TASKS;
use crate::group::{self, GroupDecl};
use schedlab_base::{CpuSet, Ns, Ns32, Result, printable};
use schedlab_kernel::{Attr, Policy};

/// A file's content.
#[derive(Debug)]
pub struct File {
    /// `None`: until every task has ended.
    pub duration: Option<Ns>,
    /// Bytes of each thread's buffer.
    pub buffer: u64,
    /// In the order of the file.
    pub tasks: Vec<Task>,
}

#[derive(Debug)]
pub struct Task {
    pub name: String,
    /// Place of its name.
    pub at: usize,
    /// Number of threads that start with the run.
    pub instances: usize,
    pub delay: Ns,
    /// Number of repetitions of its phases; `None`: endless.
    pub loops: Option<u32>,
    pub attr: Attr,
    /// CPUs of phases without `cpus`.
    pub cpus: Option<Cpus>,
    /// Path of its task group, if any.
    pub group: Option<String>,
    /// In the order of the file.
    pub phases: Vec<Phase>,
}

#[derive(Debug)]
pub struct Cpus {
    pub set: CpuSet,
    pub at: usize,
}

#[derive(Clone, Debug)]
pub struct Group {
    /// The root's path if the group is disabled.
    path: String,
    at: usize,
}

#[derive(Debug)]
pub struct Phase {
    /// Place in the text.
    pub at: usize,
    /// Number of repetitions; `None`: endless.
    pub loops: Option<u32>,
    /// Attributes set at its beginning.
    pub attr: Option<Attr>,
    pub cpus: Option<Cpus>,
    pub group: Option<Group>,
    /// In the order of the file.
    pub events: Vec<Event>,
}

/// rt-app's priority for a real-time policy without one.
const DEFAULT_RT_PRIORITY: u8 = 10;

/// Bytes of a thread's buffer if the file has no value.
const DEFAULT_BUFFER: u64 = 4 << 20;

/// Reads the outermost value of a file.
///
/// # Errors
/// When keys are unknown, rejected or missing, or values have a wrong kind or are out of range.
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
    let global = read_global(source, global.unwrap_or_default())?;
    let Some(tasks) = tasks else {
        return Err(source.error(root.at, "the file has no 'tasks'"));
    };
    let tasks: Vec<Task> =
        read::object(source, tasks)?.iter().map(|m| read_task(source, m, &global)).collect::<Result<_>>()?;
    match tasks.iter().any(|t| t.instances > 0) {
        true => Ok(File { duration: global.duration, buffer: global.buffer, tasks }),
        false => Err(source
            .error(root.at, "no task starts with the run")
            .help("give one an instance of at least 1")),
    }
}

struct Global {
    duration: Option<Ns>,
    buffer: u64,
    /// Policy of tasks without one.
    policy: Policy,
}

fn read_global(source: Source<'_>, members: &[Member]) -> Result<Global> {
    let mut global = Global { duration: None, buffer: DEFAULT_BUFFER, policy: Policy::Other };
    for member in members {
        let row = keys::find(source, &[Level::Global], "global", member)?;
        match row.name {
            "duration" => global.duration = read_duration(source, member)?,
            "default_policy" => {
                global.policy = read::policy(source, member)?;
            }
            "mem_buffer_size" => global.buffer = read::bytes(source, member, 1)?,
            "calibration" => check_calibration(source, member)?,
            _ => debug_assert_ne!(row.fate, Fate::Done, "{} is not read", row.name),
        }
    }
    Ok(global)
}

/// A duration in seconds, up to a day; `None` for -1.
fn read_duration(source: Source<'_>, member: &Member) -> Result<Option<Ns>> {
    match read::whole(source, member, -1, 86_400)? {
        -1 => Ok(None),
        0 => Err(source
            .error(member.value.at, "a duration of 0 measures nothing")
            .help("give seconds, or -1 to run until every task has ended")),
        seconds => Ok(Some(Ns::secs(seconds.unsigned_abs()))),
    }
}

/// Checks "CPU<n>" or nanoseconds per loop. Both are ignored, but a wrong value is an error.
fn check_calibration(source: Source<'_>, member: &Member) -> Result<()> {
    let Kind::Text(cpu) = &member.value.kind else {
        return read::whole(source, member, 0, i64::from(i32::MAX)).map(|_| ());
    };
    match cpu.strip_prefix("CPU").map(str::parse::<u32>) {
        Some(Ok(_)) => Ok(()),
        _ => Err(source.error(member.value.at, format!("'{cpu}' is not a CPU")).help("write \"CPU0\"")),
    }
}

/// Keys that tasks and phases share.
#[derive(Default)]
struct Common<'a> {
    loops: Option<&'a Member>,
    policy: Option<&'a Member>,
    priority: Option<&'a Member>,
    /// `dl-runtime`, `dl-deadline` and `dl-period`.
    slice: Option<&'a Member>,
    deadline: Option<&'a Member>,
    period: Option<&'a Member>,
    cpus: Option<Cpus>,
    group: Option<Group>,
    events: Vec<Event>,
}

impl<'a> Common<'a> {
    fn take(&mut self, source: Source<'_>, row: &keys::Key, member: &'a Member, task: &str) -> Result<()> {
        match (row.level, row.name) {
            (Level::Event, kind) => self.events.push(event::read(source, kind, member, task)?),
            (_, "loop") => self.loops = Some(member),
            (_, "policy") => self.policy = Some(member),
            (_, "priority") => self.priority = Some(member),
            (_, "dl-runtime") => self.slice = Some(member),
            (_, "dl-deadline") => self.deadline = Some(member),
            (_, "dl-period") => self.period = Some(member),
            (_, "cpus") => self.cpus = Some(Cpus { set: read::cpus(source, member)?, at: member.value.at }),
            (_, "taskgroup") => self.group = Some(read_group(source, member)?),
            (_, other) => debug_assert_ne!(row.fate, Fate::Done, "{other} is not read"),
        }
        Ok(())
    }

    /// Attributes after this object, from those before it; `None` if it has none. A new policy resets the others:
    /// without a priority it has the policy's default, without a slice the kernel's. A priority or slice alone changes
    /// nothing else.
    fn attr(&self, source: Source<'_>, before: Attr) -> Result<Option<Attr>> {
        let stated = [self.policy, self.priority, self.slice, self.deadline, self.period];
        if stated.iter().all(Option::is_none) {
            return Ok(None);
        }
        let named = self.policy.map(|m| read::policy(source, m)).transpose()?;
        let mut attr = named.map_or(before, plain);
        if attr.policy == Policy::Deadline {
            return self.budget(source, attr).map(Some);
        }
        if let Some(member) = self.deadline.or(self.period) {
            let text = format!("'{}' is of SCHED_DEADLINE, and the policy is {}", member.key, attr.policy);
            return Err(source.error(member.at, text).help("policy = SCHED_DEADLINE beside it"));
        }
        let (low, high) = if attr.policy.is_fair() { (-20, 19) } else { (1, 99) };
        match self.priority.map(|m| read::whole(source, m, low, high)).transpose()? {
            Some(nice) if attr.policy.is_fair() => attr.nice = nice as i8,
            Some(priority) => attr.rt_priority = priority as u8,
            None => {}
        }
        if let Some(slice) = self.slice {
            attr.slice = read::slice(source, slice, attr.policy)?.into();
        }
        Ok(Some(attr))
    }

    /// The attributes of a deadline task: runtime <= deadline <= period; the default of the last two is the one before.
    /// A priority has no effect, as in rt-app.
    fn budget(&self, source: Source<'_>, before: Attr) -> Result<Attr> {
        // Kernels accept periods up to `sched_deadline_period_max_us`, 2^22 us.
        let time = |member: Option<&'a Member>| {
            member.map(|m| read::whole(source, m, 1, 1 << 22).map(|us| Ns::us(us.unsigned_abs()))).transpose()
        };
        let wrong = |member: Option<&Member>, text: &str| {
            let at = member.or(self.policy).map_or(0, |m| m.at);
            Err(source.error(at, text).help("dl-runtime <= dl-deadline <= dl-period, in us"))
        };
        let (asked, due, every) = (time(self.slice)?, time(self.deadline)?, time(self.period)?);
        let slice = asked.unwrap_or(before.slice.into());
        let kept =
            |old: Ns, default: Ns| if self.policy.is_none() && old != Ns::ZERO { old } else { default };
        let period = every.unwrap_or(kept(before.period.into(), slice));
        let deadline = due.unwrap_or(kept(before.deadline.into(), period));
        if slice == Ns::ZERO {
            return wrong(None, "a SCHED_DEADLINE task needs 'dl-runtime'");
        }
        if !(slice <= deadline && deadline <= period) {
            let text = format!("a runtime of {slice}, due after {deadline}, in a period of {period}");
            return wrong(self.slice.or(self.period).or(self.deadline), &text);
        }
        let [slice, deadline, period] = [slice, deadline, period].map(Ns32::from);
        Ok(Attr { slice, deadline, period, rt_priority: 0, ..before })
    }
}

fn read_task(source: Source<'_>, task: &Member, global: &Global) -> Result<Task> {
    let (name, what) = (task.name(), format!("task '{}'", task.name()));
    let (mut common, mut phases, mut instances, mut delay) = (Common::default(), None, 1, Ns::ZERO);
    for member in read::object(source, task)? {
        let row = keys::find(source, &[Level::Task, Level::Phase, Level::Event], &what, member)?;
        match row.name {
            "instance" => instances = read::whole(source, member, 0, MAX_TASKS as i64)? as usize,
            "delay" => delay = read::time_us(source, member, 0)?,
            "phases" => phases = Some(member),
            _ => common.take(source, row, member, &name)?,
        }
    }
    if task.key.contains(printable::acts) {
        return Err(source.error(task.at, "the task's name has control characters or more than one line"));
    }
    let before = plain(global.policy);
    let attr = common.attr(source, before)?.unwrap_or(before);
    if attr.policy == Policy::Deadline {
        // A policy that comes only from 'default_policy' has no runtime.
        common.budget(source, attr)?;
    }
    let given = common.loops.map(|m| read::loops(source, m)).transpose()?;
    let loops = given.unwrap_or(None);
    let (loops, phases) = match phases {
        Some(phases) => (loops, read_phases(source, phases, &common, &name, attr)?),
        None => (loops, vec![only_phase(source, task, std::mem::take(&mut common.events))?]),
    };
    let group = one_group(source, &name, common.group, &phases)?;
    Ok(Task { name, at: task.at, instances, delay, loops, attr, cpus: common.cpus, group, phases })
}

/// The path of a task group; an empty one means the root.
fn read_group(source: Source<'_>, member: &Member) -> Result<Group> {
    let path = match &member.value.kind {
        Kind::Bool(false) => "/",
        _ => read::text(source, member)?,
    };
    let path = if path.is_empty() { "/" } else { path };
    group::find_or_declare(&mut vec![GroupDecl::root()], path)
        .map_err(|e| e.at(source.spot(member.value.at)))?;
    Ok(Group { path: path.to_owned(), at: member.value.at })
}

/// The group of a task: all its phases must have the same one.
fn one_group(source: Source<'_>, name: &str, own: Option<Group>, phases: &[Phase]) -> Result<Option<String>> {
    let of = |phase: &Phase| phase.group.as_ref().or(own.as_ref()).map(|g| g.path.clone());
    let group = phases.first().and_then(of);
    let differs = phases.iter().any(|p| of(p) != group);
    match phases.iter().filter(|_| differs).find_map(|p| p.group.as_ref()) {
        None => Ok(group.filter(|path| path != "/")),
        Some(stated) => Err(source
            .error(
                stated.at,
                format!("phases of task '{name}' are in different task groups, which is not supported"),
            )
            .help("give all phases of a task the same taskgroup, or split the task")),
    }
}

/// The attributes of a task with nothing but a policy.
fn plain(policy: Policy) -> Attr {
    let rt_priority = if policy.is_fair() { 0 } else { DEFAULT_RT_PRIORITY };
    Attr { policy, rt_priority, ..Attr::default() }
}

/// The phase of a task that lists events directly.
fn only_phase(source: Source<'_>, task: &Member, events: Vec<Event>) -> Result<Phase> {
    if events.is_empty() {
        return Err(source.error(task.at, format!("task '{}' has no events", task.name())));
    }
    Ok(Phase { at: task.at, loops: Some(1), attr: None, cpus: None, group: None, events })
}

fn read_phases(
    source: Source<'_>,
    phases: &Member,
    task: &Common<'_>,
    name: &str,
    mut attr: Attr,
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
        let phase = read_phase(source, member, name, attr)?;
        attr = phase.attr.unwrap_or(attr);
        all.push(phase);
    }
    Ok(all)
}

fn read_phase(source: Source<'_>, phase: &Member, task: &str, before: Attr) -> Result<Phase> {
    let what = format!("phase '{}'", phase.name());
    let mut common = Common::default();
    for member in read::object(source, phase)? {
        let row = keys::find(source, &[Level::Phase, Level::Event], &what, member)?;
        common.take(source, row, member, task)?;
    }
    if common.events.is_empty() {
        return Err(
            source.error(phase.at, format!("phase '{}' of task '{task}' has no events", phase.name()))
        );
    }
    let loops = common.loops.map_or(Ok(Some(1)), |m| read::loops(source, m))?;
    let attr = common.attr(source, before)?;
    let (cpus, group, events) = (common.cpus, common.group, common.events);
    Ok(Phase { at: phase.at, loops, attr, cpus, group, events })
}
