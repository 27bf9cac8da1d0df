//! The builder: hands out ids for tasks, words, cells, series and CPU masks. Building is pure: the same spec and seed
//! give the same result, in the simulator and in the live agent.

use crate::decl::{Later, MACHINES, NestedDecl, Place, RemoteDecl};
use crate::group::{self, GroupDecl, ROOT_GROUP};
use crate::op::{PortId, Program, SeriesId, SetId, SlotId, WordId};
use schedlab_base::{CpuSet, Error, GroupId, Ns, Result, Spot, Stream, TaskId, Warning};
use schedlab_kernel::Attr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most tasks of a workload; a larger number counts as a typing error.
pub const MAX_TASKS: usize = 100_000;

/// A series of recorded values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeriesDecl {
    /// Dotted name of the metric ("schbench.latency").
    pub name: String,
    /// Unit ("ns").
    pub unit: String,
    /// Which values are better: "lower", "higher" or "neither".
    pub better: String,
}

pub struct TaskDecl {
    /// A live kernel shows at most 15 bytes of it.
    pub name: String,
    pub program: Box<dyn Program>,
    /// Attributes at the start.
    pub attr: Attr,
    /// Allowed CPUs; `None`: all.
    pub affinity: Option<CpuSet>,
    /// The task that starts it by `Op::Spawn`; `None`: it exists from the start.
    pub spawned_by: Option<TaskId>,
    /// Warm working set, KB: a move to another cache must refill it.
    pub footprint_kb: u32,
    /// Timer slack (prctl PR_SET_TIMERSLACK); `None`: the kernel's default.
    pub timer_slack: Option<Ns>,
    /// The task serves the workload but is not part of it (simulation only).
    pub background: bool,
    /// The task sleeps at its end instead of exiting, as live tasks do (simulation only).
    pub waits_at_end: bool,
    pub group: GroupId,
    pub place: Place,
    /// The part that it belongs to: 0 is the workload, other numbers are benchmarks in parallel with it.
    pub part: u64,
}

/// The part of virtual machines' threads.
pub(crate) const OF_MACHINE: u64 = MACHINES;

impl TaskDecl {
    /// Whether the run lasts until its end. Parts in parallel with the workload do not prolong the run.
    pub fn counts(&self) -> bool {
        !self.background && (self.part == 0 || self.part == OF_MACHINE)
    }
    /// The same task with another program.
    #[must_use]
    pub fn without_program(&self, program: Box<dyn Program>) -> TaskDecl {
        TaskDecl {
            name: self.name.clone(),
            program,
            attr: self.attr,
            affinity: self.affinity.clone(),
            spawned_by: self.spawned_by,
            footprint_kb: self.footprint_kb,
            timer_slack: self.timer_slack,
            background: self.background,
            waits_at_end: self.waits_at_end,
            group: ROOT_GROUP,
            place: self.place,
            part: self.part,
        }
    }
}

/// The kind of a channel. Buffers have the kernel's default sizes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ChannelKind {
    /// pipe(2): one direction, from the second end to the first.
    Pipe,
    /// socketpair(2), AF_UNIX SOCK_STREAM.
    Unix,
    /// Two TCP sockets connected over loopback, with TCP_NODELAY.
    Tcp,
    /// Two UDP sockets connected over loopback.
    Udp,
}

pub struct Built {
    pub tasks: Vec<TaskDecl>,
    /// Number of futex words; all begin as 0.
    pub words: usize,
    /// Number of cells; all begin as 0.
    pub slots: usize,
    pub series: Vec<SeriesDecl>,
    /// Channels by number; ends 2n and 2n + 1 belong to channel n.
    pub channels: Vec<ChannelKind>,
    /// The ends in each set for `Op::Poll`. An end is in at most one set.
    pub sets: Vec<Vec<PortId>>,
    /// CPU masks for `Op::SetAffinity`.
    pub masks: Vec<CpuSet>,
    /// The places where a file names CPUs, by the mask in list notation.
    pub cpus_at: BTreeMap<String, Spot>,
    /// Attributes that tasks take during the run.
    pub later_attrs: Vec<Attr>,
    /// Changes of groups and tasks in order, with times since the end of the warm-up.
    pub later: Vec<(Ns, Later)>,
    /// Measured time, after the warm-up.
    pub duration: Ns,
    /// Length of the warm-up; its values and events are not measured.
    pub warmup: Ns,
    /// Whether tasks end by themselves and their time is the result. A run that is cut off has no result.
    pub to_the_end: bool,
    /// Whether live tasks are processes instead of threads. Words and cells are shared in both cases.
    pub processes: bool,
    /// Names of the parts in parallel with the workload; part 1 is the first.
    pub beside: Vec<String>,
    /// Task groups by id; the first is the root. Parents precede children.
    pub groups: Vec<GroupDecl>,
    /// Virtual machines with tasks (simulation only).
    pub nested: Vec<NestedDecl>,
    /// Machines behind a link with tasks (simulation only).
    pub remotes: Vec<RemoteDecl>,
    /// The place of each channel end; empty if all tasks are on the machine itself.
    pub ends: Vec<Place>,
}

impl Built {
    /// All attributes of its tasks, at the start and later.
    pub fn attrs(&self) -> impl Iterator<Item = Attr> {
        self.tasks.iter().map(|t| t.attr).chain(self.later_attrs.iter().copied())
    }
    /// The paths of its tasks' groups, by task id; `None`: the root group.
    pub fn group_paths(&self) -> Vec<Option<String>> {
        let path = |t: &TaskDecl| self.groups.get(t.group.index()).filter(|_| t.group != ROOT_GROUP);
        self.tasks.iter().map(|t| path(t).map(|group| group.path.clone())).collect()
    }
    /// Replaces every CPU mask by `usable` of it.
    ///
    /// # Errors
    /// Those of `usable`, such as a mask without usable CPUs. They name the task and the place in a file.
    pub fn confine(&mut self, mut usable: impl FnMut(&CpuSet) -> Result<CpuSet>) -> Result<()> {
        let places = &self.cpus_at;
        let mut left = |who: &str, mask: &mut CpuSet| {
            *mask = usable(mask).map_err(|e| {
                let e = e.context(who);
                match places.get(&mask.to_string()) {
                    Some(place) => e.at(place.clone()),
                    None => e,
                }
            })?;
            Ok(())
        };
        for task in &mut self.tasks {
            if let Some(mask) = &mut task.affinity {
                left(&format!("task '{}'", task.name), mask)?;
            }
        }
        self.masks.iter_mut().try_for_each(|mask| left("a task", mask))
    }
}

/// The warning about a workload that was cut off after `longest` before its end.
pub fn cut_off(longest: Ns) -> Warning {
    let text = format!(
        "cut off after {longest}, before its tasks were done: it has no result; give it a longer runtime"
    );
    Warning::new("run.cut_off", text)
}

/// Collects a workload's parts.
pub struct Builder {
    built: Built,
    stream: Stream,
    seed: u64,
    part: u64,
    /// Prefix of a parallel part's series whose name the workload uses, too.
    prefix: String,
    /// By series, the part that declared it.
    series_of: Vec<u64>,
    /// By channel end: the part that uses it, and whether it is on the part's client side.
    pub(crate) ends: Vec<(u64, bool)>,
    /// The client side of each part that has one.
    pub(crate) sides: BTreeMap<u64, &'static [&'static str]>,
    /// The tasks of each part that ask and serve nobody, where they are not a side.
    pub(crate) callers: BTreeMap<u64, &'static [&'static str]>,
}

/// Settings of a whole workload: length, warm-up, processes or threads.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    duration: Ns,
    warmup: Ns,
    to_the_end: bool,
    pub(crate) processes: bool,
}

/// Default working set of a task, KB: half of a small L2.
pub const DEFAULT_FOOTPRINT_KB: u32 = 64;

impl Builder {
    /// A builder with random streams keyed by `seed`.
    pub fn new(seed: u64) -> Builder {
        let built = Built {
            tasks: Vec::new(),
            words: 0,
            slots: 0,
            series: Vec::new(),
            channels: Vec::new(),
            sets: Vec::new(),
            masks: Vec::new(),
            cpus_at: BTreeMap::new(),
            later_attrs: Vec::new(),
            later: Vec::new(),
            duration: Ns::secs(1),
            warmup: Ns::ZERO,
            to_the_end: false,
            processes: false,
            beside: Vec::new(),
            groups: vec![GroupDecl::root()],
            nested: Vec::new(),
            remotes: Vec::new(),
            ends: Vec::new(),
        };
        let stream = Stream::new(seed).purpose("workload");
        Builder {
            built,
            stream,
            seed,
            part: 0,
            prefix: String::new(),
            series_of: Vec::new(),
            ends: Vec::new(),
            sides: BTreeMap::new(),
            callers: BTreeMap::new(),
        }
    }
    /// Declares a task. Ids count in the order of declaration.
    ///
    /// # Errors
    /// When the workload would have more than [`MAX_TASKS`] tasks.
    pub fn task(&mut self, name: impl Into<String>, program: Box<dyn Program>) -> Result<TaskId> {
        if self.built.tasks.len() >= MAX_TASKS {
            return Err(Error::input(format!("more than {MAX_TASKS} tasks")).help("use fewer threads"));
        }
        self.built.tasks.push(TaskDecl {
            name: name.into(),
            program,
            attr: Attr::default(),
            affinity: None,
            spawned_by: None,
            footprint_kb: DEFAULT_FOOTPRINT_KB,
            timer_slack: None,
            background: false,
            waits_at_end: false,
            group: ROOT_GROUP,
            place: Place::Host,
            part: self.part,
        });
        Ok(TaskId::from(self.built.tasks.len() - 1))
    }
    pub fn next_task(&self) -> TaskId {
        TaskId::from(self.built.tasks.len())
    }
    /// A declared task, for changes of its attributes.
    pub fn edit(&mut self, task: TaskId) -> &mut TaskDecl {
        &mut self.built.tasks[task.index()]
    }
    /// The task group of a path, such as "/vm/small". Missing groups are declared with default shares.
    ///
    /// # Errors
    /// When the path is not valid.
    pub fn group(&mut self, path: &str) -> Result<GroupId> {
        group::find_or_declare(&mut self.built.groups, path)
    }
    /// The declared groups, the root first.
    pub(crate) fn groups(&self) -> &[GroupDecl] {
        &self.built.groups
    }
    /// A declared group, for changes of its shares.
    pub fn edit_group(&mut self, group: GroupId) -> &mut GroupDecl {
        &mut self.built.groups[group.index()]
    }
    /// A new futex word, initially 0.
    pub fn word(&mut self) -> WordId {
        self.built.words += 1;
        WordId(self.built.words as u32 - 1)
    }
    /// A new shared cell, initially 0.
    pub fn slot(&mut self) -> SlotId {
        self.built.slots += 1;
        SlotId(self.built.slots as u32 - 1)
    }
    /// Makes a channel and returns its ends. A pipe's first end is read and its second written; sockets go both ways.
    pub fn channel(&mut self, kind: ChannelKind) -> (PortId, PortId) {
        let first = 2 * self.built.channels.len() as u32;
        self.built.channels.push(kind);
        self.ends.extend([(self.part, false); 2]);
        (PortId(first), PortId(first + 1))
    }
    /// Makes a channel: the client side ([`Builder::client_side`]) uses the first end, the others the second.
    pub fn link(&mut self, kind: ChannelKind) -> (PortId, PortId) {
        let ports = self.channel(kind);
        self.ends[ports.0.0 as usize].1 = true;
        ports
    }
    /// Declares that the tasks with these names share no futex words or cells with the other tasks of this benchmark,
    /// and meet them only at [`Builder::link`]s. So they may run on another machine.
    pub fn client_side(&mut self, names: &'static [&'static str]) {
        self.sides.insert(self.part, names);
    }
    /// Declares that the tasks with these names only ask the others, although they share memory with them.
    pub fn callers(&mut self, names: &'static [&'static str]) {
        self.callers.insert(self.part, names);
    }
    /// A new set of ends for `Op::Poll`. An end may be in one set only.
    pub fn set(&mut self, ends: Vec<PortId>) -> SetId {
        self.built.sets.push(ends);
        SetId(self.built.sets.len() as u32 - 1)
    }
    /// A series of values; the same name gives the same series. A parallel part must not add to the workload's own
    /// results, so its series of the same name gets the part's name as a prefix.
    pub fn series(&mut self, name: &str, unit: &str, better: &str) -> SeriesId {
        let mut all = self.built.series.iter().zip(&self.series_of);
        let is_own = self.part != 0 && all.any(|(s, part)| *part == 0 && s.name == name);
        let name = if is_own { format!("{}.{name}", self.prefix) } else { name.to_owned() };
        let known = self.built.series.iter().position(|s| s.name == name);
        let at = known.unwrap_or_else(|| {
            self.series_of.push(self.part);
            self.built.series.push(SeriesDecl { name, unit: unit.into(), better: better.into() });
            self.built.series.len() - 1
        });
        SeriesId(at as u32)
    }
    /// A new CPU mask for `Op::SetAffinity`.
    pub fn mask(&mut self, cpus: CpuSet) -> u32 {
        self.built.masks.push(cpus);
        self.built.masks.len() as u32 - 1
    }
    /// Notes where a file names these CPUs.
    pub fn cpus_at(&mut self, cpus: &CpuSet, at: Spot) {
        self.built.cpus_at.entry(cpus.to_string()).or_insert(at);
    }
    /// Notes that a task takes attributes during the run.
    pub fn later_attr(&mut self, attr: Attr) {
        self.built.later_attrs.push(attr);
    }
    /// A random stream for a purpose, keyed by the purpose and by the caller's ordinal, such as the task's number
    /// (never by a global order).
    pub fn stream(&self, purpose: &str, ordinal: u64) -> Stream {
        self.stream.purpose(purpose).number(ordinal)
    }
    /// Sets the measured time and the warm-up before it.
    pub fn lasts(&mut self, duration: Ns, warmup: Ns) {
        self.built.duration = duration;
        self.built.warmup = warmup;
    }
    /// Declares that tasks end by themselves and that their time is the result. After `longest` the run is cut off
    /// without a result.
    pub fn ends_within(&mut self, longest: Ns) {
        self.lasts(longest, Ns::ZERO);
        self.built.to_the_end = true;
    }
    pub fn as_processes(&mut self) {
        self.built.processes = true;
    }
    /// Its length including the warm-up.
    pub fn whole_length(&self) -> Ns {
        self.built.warmup + self.built.duration
    }
    pub(crate) fn settings(&self) -> Settings {
        let b = &self.built;
        let Built { duration, warmup, to_the_end, processes, .. } = *b;
        Settings { duration, warmup, to_the_end, processes }
    }
    pub(crate) fn settle(&mut self, settings: Settings) {
        let b = &mut self.built;
        let Settings { duration, warmup, to_the_end, processes } = settings;
        (b.duration, b.warmup, b.to_the_end, b.processes) = (duration, warmup, to_the_end, processes);
    }
    /// Begins a parallel part; its tasks may be `called` by another name.
    pub(crate) fn begin_beside(&mut self, name: &str, called: Option<&str>) {
        self.built.beside.push(called.unwrap_or(name).to_owned());
        self.prefix = called.unwrap_or("beside").to_owned();
        self.draws_as(self.built.beside.len() as u64);
    }
    /// Ends the parallel part: the workload itself continues.
    pub(crate) fn end_beside(&mut self) {
        self.draws_as(0);
    }
    /// Makes later draws those of part number `part`; 0 is the workload itself.
    fn draws_as(&mut self, part: u64) {
        self.part = part;
        let whole = Stream::new(self.seed);
        self.stream = match part {
            0 => whole.purpose("workload"),
            part => whole.purpose("beside").number(part),
        };
    }
    pub(crate) fn nest(&mut self, machine: NestedDecl) {
        self.built.nested.push(machine);
    }
    pub(crate) fn link_to(&mut self, machine: RemoteDecl) {
        self.built.remotes.push(machine);
    }
    /// The declared tasks from the given one on.
    pub(crate) fn tasks_from(&mut self, first: usize) -> &mut [TaskDecl] {
        &mut self.built.tasks[first..]
    }
    pub(crate) fn kinds(&self) -> &[ChannelKind] {
        &self.built.channels
    }
    /// Sets the place of each channel end.
    pub(crate) fn ends_are(&mut self, places: Vec<Place>) {
        self.built.ends = places;
    }
    /// # Errors
    /// When no task starts by itself.
    pub fn finish(self) -> Result<Built> {
        if !self.built.tasks.iter().any(|t| t.spawned_by.is_none()) {
            return Err(Error::input("the workload has no task that starts by itself"));
        }
        Ok(self.built)
    }
}
