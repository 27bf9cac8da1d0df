//! The builder: hands out ids for tasks, words, cells, series and CPU masks. Building is pure: same spec and seed, same
//! result, in the simulator and in the live agent.

use crate::decl::{Later, MACHINES, NestedDecl, Place, RemoteDecl};
use crate::group::{self, GroupDecl, ROOT_GROUP};
use crate::op::{PortId, Program, SeriesId, SetId, SlotId, WordId};
use schedlab_base::{CpuSet, Error, GroupId, Ns, Result, Spot, Stream, TaskId, Warning};
use schedlab_kernel::Attr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most tasks that a workload may have; a larger number is taken for a slip of the pen.
pub const MAX_TASKS: usize = 100_000;

/// A series of recorded values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeriesDecl {
    /// Dotted metric name ("schbench.latency").
    pub name: String,
    /// Unit of the values ("ns").
    pub unit: String,
    /// "lower", "higher" or "neither" is better.
    pub better: String,
}

pub struct TaskDecl {
    /// Name; a live kernel shows 15 bytes of it at most.
    pub name: String,
    pub program: Box<dyn Program>,
    /// Scheduling attributes it starts with.
    pub attr: Attr,
    /// CPUs it may use; `None` for all.
    pub affinity: Option<CpuSet>,
    /// The task that starts it by `Op::Spawn`; `None`: it is there from the start.
    pub spawned_by: Option<TaskId>,
    /// Its warm working set, KB: what a move to another cache must refill.
    pub footprint_kb: u32,
    /// Its timer slack (prctl PR_SET_TIMERSLACK); `None` for the kernel's default.
    pub timer_slack: Option<Ns>,
    /// Whether it only serves the workload and is not part of it; simulated only.
    pub background: bool,
    /// Whether it goes to sleep when its program ends and exits after the run, as live tasks do; simulated only.
    pub waits_at_end: bool,
    /// Its task group.
    pub group: GroupId,
    pub place: Place,
    /// The part of the workload that it belongs to: 0, or the number of a benchmark beside.
    pub part: u64,
}

/// The part of tasks that are threads of virtual machines' processes.
pub(crate) const OF_MACHINE: u64 = MACHINES;

impl TaskDecl {
    /// Whether the run lasts as long as it: what runs beside a workload ends with it.
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
    /// pipe(2): one direction, from its second end to its first.
    Pipe,
    /// socketpair(2), AF_UNIX SOCK_STREAM.
    Unix,
    /// Two TCP sockets connected over loopback, without delay (TCP_NODELAY).
    Tcp,
    /// Two UDP sockets connected over loopback.
    Udp,
}

/// A workload, ready to run.
pub struct Built {
    /// Tasks by id.
    pub tasks: Vec<TaskDecl>,
    /// Number of futex words, all 0 at the start.
    pub words: usize,
    /// Number of cells, all 0 at the start.
    pub slots: usize,
    /// Series by id.
    pub series: Vec<SeriesDecl>,
    /// Channels by number; end 2n and 2n + 1 belong to channel n.
    pub channels: Vec<ChannelKind>,
    /// The ends of each set that `Op::Poll` names. An end is in one set at most.
    pub sets: Vec<Vec<PortId>>,
    /// CPU masks that `Op::SetAffinity` names.
    pub masks: Vec<CpuSet>,
    /// The places where a file names CPUs, by the list notation of the mask.
    pub cpus_at: BTreeMap<String, Spot>,
    /// Attributes that tasks take within the run.
    pub later_attrs: Vec<Attr>,
    /// Changes of groups and tasks, with their times since the end of the warm-up, in order.
    pub later: Vec<(Ns, Later)>,
    /// The length of the measured time, after the warm-up.
    pub duration: Ns,
    /// The length of the warm-up; its values and events are not measured.
    pub warmup: Ns,
    /// Whether the tasks end by themselves and the result is the time until then. A run that is cut off has no result.
    pub to_the_end: bool,
    /// Whether live tasks are processes instead of threads of one. Words and cells are shared either way.
    pub processes: bool,
    /// The names of the parts that run beside the workload; part 1 is the first.
    pub beside: Vec<String>,
    /// Task groups by id; the first is the root. Parents come before their children.
    pub groups: Vec<GroupDecl>,
    /// Virtual machines that tasks run in; simulated only.
    pub nested: Vec<NestedDecl>,
    /// Machines behind a link that tasks run on; simulated only.
    pub remotes: Vec<RemoteDecl>,
    /// The place of each end of each channel; empty if all tasks are on the machine itself.
    pub ends: Vec<Place>,
}

impl Built {
    /// The attributes of its tasks: those at the start, and those that tasks give themselves later.
    pub fn attrs(&self) -> impl Iterator<Item = Attr> {
        self.tasks.iter().map(|t| t.attr).chain(self.later_attrs.iter().copied())
    }
    /// Replaces every CPU mask by what `usable` makes of it.
    ///
    /// # Errors
    /// Those of `usable`, such as a mask of which no CPU is left. They name the task and the place in a file.
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

/// The warning about a workload that should have run to its end but was cut off after `longest`.
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
    /// In front of the part's series that the workload itself has, too.
    prefix: String,
    /// By series, the part that declared it.
    series_of: Vec<u64>,
    /// By end of a channel: the part of the workload that uses it, and whether that is the part's client side.
    pub(crate) ends: Vec<(u64, bool)>,
    /// The client side of each part that has one.
    pub(crate) sides: BTreeMap<u64, &'static [&'static str]>,
}

/// Settings of a workload as a whole: length, warm-up, processes or threads.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    duration: Ns,
    warmup: Ns,
    to_the_end: bool,
    pub(crate) processes: bool,
}

/// Working set of a task that states none, KB: half of a small L2.
pub const DEFAULT_FOOTPRINT_KB: u32 = 64;

impl Builder {
    /// A builder whose draws are keyed by `seed`.
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
        }
    }
    /// Declares a task. Its id is its place in the order of declaration.
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
    /// The id the next declared task will have.
    pub fn next_task(&self) -> TaskId {
        TaskId::from(self.built.tasks.len())
    }
    /// A declared task, to set its attributes.
    pub fn edit(&mut self, task: TaskId) -> &mut TaskDecl {
        &mut self.built.tasks[task.index()]
    }
    /// The task group of that path, such as "/vm/small". Groups that are missing are declared on the way, with the
    /// usual shares.
    ///
    /// # Errors
    /// When the path is not one.
    pub fn group(&mut self, path: &str) -> Result<GroupId> {
        group::find_or_declare(&mut self.built.groups, path)
    }
    /// The groups that are declared, the root first.
    pub(crate) fn groups(&self) -> &[GroupDecl] {
        &self.built.groups
    }
    /// A declared group, to set its shares.
    pub fn edit_group(&mut self, group: GroupId) -> &mut GroupDecl {
        &mut self.built.groups[group.index()]
    }
    /// A futex word, 0 at the start.
    pub fn word(&mut self) -> WordId {
        self.built.words += 1;
        WordId(self.built.words as u32 - 1)
    }
    /// A shared cell, 0 at the start.
    pub fn slot(&mut self) -> SlotId {
        self.built.slots += 1;
        SlotId(self.built.slots as u32 - 1)
    }
    /// Makes a channel and gives its two ends. A pipe's first end is read and its second written; sockets go both ways.
    pub fn channel(&mut self, kind: ChannelKind) -> (PortId, PortId) {
        let first = 2 * self.built.channels.len() as u32;
        self.built.channels.push(kind);
        self.ends.extend([(self.part, false); 2]);
        (PortId(first), PortId(first + 1))
    }
    /// Makes a channel whose first end is used by the client side ([`Builder::client_side`]), the second by the others.
    pub fn link(&mut self, kind: ChannelKind) -> (PortId, PortId) {
        let ports = self.channel(kind);
        self.ends[ports.0.0 as usize].1 = true;
        ports
    }
    /// Says that the tasks of these names share no futex words and cells with the others of this benchmark, and meet
    /// them at [`Builder::link`]s alone. So they may run on another machine.
    pub fn client_side(&mut self, names: &'static [&'static str]) {
        self.sides.insert(self.part, names);
    }
    /// A set of ends for `Op::Poll`. Each end may be in one set only.
    pub fn set(&mut self, ends: Vec<PortId>) -> SetId {
        self.built.sets.push(ends);
        SetId(self.built.sets.len() as u32 - 1)
    }
    /// A series of values; the same name gives the same series. A part beside the workload does not add to the
    /// workload's own results: its series of such a name has the part's name in front.
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
    /// A CPU mask for `Op::SetAffinity`.
    pub fn mask(&mut self, cpus: CpuSet) -> u32 {
        self.built.masks.push(cpus);
        self.built.masks.len() as u32 - 1
    }
    /// Notes the place where a file names these CPUs.
    pub fn cpus_at(&mut self, cpus: &CpuSet, at: Spot) {
        self.built.cpus_at.entry(cpus.to_string()).or_insert(at);
    }
    /// Notes that a task takes attributes within the run.
    pub fn later_attr(&mut self, attr: Attr) {
        self.built.later_attrs.push(attr);
    }
    /// Draws for a purpose. They are keyed by the purpose and by the caller's ordinal, such as the task's number (never
    /// by a global order).
    pub fn stream(&self, purpose: &str, ordinal: u64) -> Stream {
        self.stream.purpose(purpose).number(ordinal)
    }
    /// Sets the length of the measured time and of the warm-up before it.
    pub fn lasts(&mut self, duration: Ns, warmup: Ns) {
        self.built.duration = duration;
        self.built.warmup = warmup;
    }
    /// Says that the tasks end by themselves and that this time is the result. After `longest` the run is cut off and
    /// has no result.
    pub fn ends_within(&mut self, longest: Ns) {
        self.lasts(longest, Ns::ZERO);
        self.built.to_the_end = true;
    }
    /// Makes live tasks processes instead of threads.
    pub fn as_processes(&mut self) {
        self.built.processes = true;
    }
    /// Its length, warm-up included.
    pub fn whole_length(&self) -> Ns {
        self.built.warmup + self.built.duration
    }
    /// Settings of the workload as a whole.
    pub(crate) fn settings(&self) -> Settings {
        let b = &self.built;
        let Built { duration, warmup, to_the_end, processes, .. } = *b;
        Settings { duration, warmup, to_the_end, processes }
    }
    /// Gives the workload these settings.
    pub(crate) fn settle(&mut self, settings: Settings) {
        let b = &mut self.built;
        let Settings { duration, warmup, to_the_end, processes } = settings;
        (b.duration, b.warmup, b.to_the_end, b.processes) = (duration, warmup, to_the_end, processes);
    }
    /// What follows is a part beside the workload; its tasks may be `called` by a name of their own.
    pub(crate) fn begin_beside(&mut self, name: &str, called: Option<&str>) {
        self.built.beside.push(called.unwrap_or(name).to_owned());
        self.prefix = called.unwrap_or("beside").to_owned();
        self.draws_as(self.built.beside.len() as u64);
    }
    /// What follows is the workload itself again.
    pub(crate) fn end_beside(&mut self) {
        self.draws_as(0);
    }
    /// Draws from here on are those of the workload's part of that number; 0 is the workload itself.
    fn draws_as(&mut self, part: u64) {
        self.part = part;
        let whole = Stream::new(self.seed);
        self.stream = match part {
            0 => whole.purpose("workload"),
            part => whole.purpose("beside").number(part),
        };
    }
    /// Adds a virtual machine.
    pub(crate) fn nest(&mut self, machine: NestedDecl) {
        self.built.nested.push(machine);
    }
    /// Adds a machine behind a link.
    pub(crate) fn link_to(&mut self, machine: RemoteDecl) {
        self.built.remotes.push(machine);
    }
    /// Tasks declared so far, from the given one on.
    pub(crate) fn tasks_from(&mut self, first: usize) -> &mut [TaskDecl] {
        &mut self.built.tasks[first..]
    }
    /// The kinds of the channels so far.
    pub(crate) fn kinds(&self) -> &[ChannelKind] {
        &self.built.channels
    }
    /// Notes the place of each end of each channel.
    pub(crate) fn ends_are(&mut self, places: Vec<Place>) {
        self.built.ends = places;
    }
    /// The finished workload.
    ///
    /// # Errors
    /// When there is no task that starts by itself.
    pub fn finish(self) -> Result<Built> {
        if !self.built.tasks.iter().any(|t| t.spawned_by.is_none()) {
            return Err(Error::input("the workload has no task that starts by itself"));
        }
        Ok(self.built)
    }
}
