//! One run of a file: its ftrace events, by CPU.

use super::messages::{
    CpuIdle, Ftrace, FtraceEvent, FtraceEventBundle, Process, ProcessTree, SchedMigrateTask,
    SchedProcessExit, SchedSwitch, SchedWakeup, TaskNewtask, Thread, TracePacket,
};
use super::tracks::Tracks;
use super::write::Perfetto;
use crate::points::{Point, Points, Tracepoint};
use crate::{Cast, Event, EventKind, Sink};
use schedlab_base::{CpuId, Ns, TaskId};
use std::collections::BTreeMap;
use std::io::Write;

/// Events of all CPUs that wait for their bundles to be written.
const BUNDLED: usize = 8192;
/// The sequence of packets that are no track's.
const SEQUENCE: u32 = 1;
/// `common_flags`: in a hardware interrupt.
const HARDIRQ: u32 = 0x08;
/// `clone_flags`: a thread of its parent's process.
const CLONE_THREAD: u64 = 0x10000;
/// `cpu_idle.state` of a CPU that leaves its idle state.
const LEAVES: u32 = u32::MAX;
/// Priority of the idle task.
const IDLE_PRIO: i32 = 120;
/// Threads that the cast does not have get numbers from here on; the kernel's go up to 2^22.
const STRANGERS: u32 = 1 << 23;

/// What tells a run's CPUs and threads from those of another run in the file.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// 0 for the first run of a file, 1 for the second.
    pub number: u8,
    /// What stands before its names, such as "A: "; empty for a file with one run.
    pub label: String,
    /// Added to the numbers of its CPUs.
    pub first_cpu: u32,
    /// Added to the numbers of its threads and processes.
    pub first_tid: u32,
    /// Names of its processes, for those whose name is not that of their first thread.
    pub processes: BTreeMap<u32, String>,
}

impl Side {
    /// The side of a run beside another one in the same file.
    pub fn behind(other: &Cast) -> Side {
        let last = other.tasks.iter().map(|a| a.tid.max(a.process)).max().unwrap_or(0);
        // A round number, so that the same thread is easily found in both.
        let first_tid = (last + 1).next_multiple_of(10_000);
        Side { number: 1, first_cpu: other.cpus as u32, first_tid, ..Side::default() }
    }
}

/// A run that is being written.
pub struct Run<'a, W: Write> {
    pub(super) file: &'a mut Perfetto<W>,
    pub(super) cast: &'a Cast,
    pub(super) side: Side,
    points: Points,
    tracks: Tracks,
    /// Events by CPU.
    bundles: Vec<Vec<FtraceEvent>>,
    bundled: usize,
    /// Whether a task's thread has been told, by task.
    met: Vec<bool>,
    /// Processes that have been told.
    processes: Vec<u32>,
    details: bool,
}

impl<'a, W: Write> Run<'a, W> {
    /// Begins a run whose measured time begins at `measured_from`.
    pub fn new(file: &'a mut Perfetto<W>, cast: &'a Cast, side: Side, measured_from: Ns) -> Run<'a, W> {
        let mut run = Run {
            file,
            cast,
            side,
            points: Points::default(),
            tracks: Tracks::default(),
            bundles: Vec::new(),
            bundled: 0,
            met: Vec::new(),
            processes: Vec::new(),
            details: false,
        };
        run.phases(measured_from);
        run
    }
    /// The same, asking the simulator for details ([`Sink::wants_details`]).
    #[must_use]
    pub fn detailed(mut self) -> Run<'a, W> {
        self.details = true;
        self
    }
    /// Writes what is still to be written.
    pub fn finish(mut self) {
        self.flush();
    }

    pub(super) fn cpu(&self, cpu: CpuId) -> u32 {
        self.side.first_cpu + cpu.0
    }
    pub(super) fn tid(&self, task: TaskId) -> i32 {
        let tid = self.cast.of(task).map_or(STRANGERS + task.0, |a| a.tid);
        (self.side.first_tid + tid) as i32
    }
    /// The process, if it is known.
    pub(super) fn process(&self, task: TaskId) -> Option<i32> {
        let process = self.cast.of(task).map_or(0, |a| a.process);
        (process != 0).then(|| (self.side.first_tid + process) as i32)
    }
    fn prio(&self, task: TaskId) -> i32 {
        self.cast.of(task).map_or(IDLE_PRIO, |a| a.prio)
    }
    /// Number, name and priority; those of the CPU's idle task for `None`.
    fn who(&self, task: Option<TaskId>, cpu: CpuId) -> (i32, String, i32) {
        match task {
            Some(task) => (self.tid(task), self.cast.name(task), self.prio(task)),
            None => (0, format!("swapper/{}", self.cpu(cpu)), IDLE_PRIO),
        }
    }

    fn ftrace(&mut self, p: Tracepoint) {
        let (point, irq) = match p.point {
            Point::Switch { prev, state, next } => {
                self.meet(p.at, prev);
                self.meet(p.at, next);
                let (prev_pid, prev_comm, prev_prio) = self.who(prev, p.cpu);
                let (next_pid, next_comm, next_prio) = self.who(next, p.cpu);
                let switch = SchedSwitch {
                    prev_comm: Some(prev_comm),
                    prev_pid: Some(prev_pid),
                    prev_prio: Some(prev_prio),
                    prev_state: Some(if prev.is_some() { state.bits() } else { 0 }),
                    next_comm: Some(next_comm),
                    next_pid: Some(next_pid),
                    next_prio: Some(next_prio),
                };
                (Ftrace::SchedSwitch(switch), false)
            }
            Point::Waking { task, target, irq } => {
                self.meet(p.at, Some(task));
                (Ftrace::SchedWaking(self.wakeup(task, target)), irq)
            }
            Point::Wakeup { task, target, new } => {
                self.meet(p.at, Some(task));
                let wakeup = self.wakeup(task, target);
                (if new { Ftrace::SchedWakeupNew(wakeup) } else { Ftrace::SchedWakeup(wakeup) }, false)
            }
            Point::Migrate { task, from, to } => {
                let (pid, comm, prio) = self.who(Some(task), p.cpu);
                let migrate = SchedMigrateTask {
                    comm: Some(comm),
                    pid: Some(pid),
                    prio: Some(prio),
                    orig_cpu: Some(self.cpu(from) as i32),
                    dest_cpu: Some(self.cpu(to) as i32),
                };
                (Ftrace::SchedMigrateTask(migrate), false)
            }
            Point::NewTask { task } => (self.new_task(p.at, task), false),
            Point::Exit { task } => {
                let (pid, comm, prio) = self.who(Some(task), p.cpu);
                let tgid = self.process(task);
                let exit = SchedProcessExit { comm: Some(comm), pid: Some(pid), tgid, prio: Some(prio) };
                (Ftrace::SchedProcessExit(exit), false)
            }
            Point::Idle { state } => {
                let state = state.map_or(LEAVES, u32::from);
                (Ftrace::CpuIdle(CpuIdle { state: Some(state), cpu_id: Some(self.cpu(p.cpu)) }), false)
            }
        };
        let event = FtraceEvent {
            timestamp: Some(p.at.0),
            pid: Some(p.current.map_or(0, |t| self.tid(t) as u32)),
            common_flags: irq.then_some(HARDIRQ),
            event: Some(point),
        };
        self.bundle(p.cpu, event);
    }

    fn wakeup(&self, task: TaskId, target: CpuId) -> SchedWakeup {
        let (pid, comm, prio) = self.who(Some(task), target);
        let target_cpu = Some(self.cpu(target) as i32);
        SchedWakeup { comm: Some(comm), pid: Some(pid), prio: Some(prio), success: Some(1), target_cpu }
    }

    /// A task that another one makes. Readers give a thread its parent's process, so a thread of another process is
    /// told its own afterwards.
    fn new_task(&mut self, at: Ns, task: TaskId) -> Ftrace {
        let (pid, comm, _) = self.who(Some(task), CpuId(0));
        let thread = self.process(task).is_some_and(|process| process != pid);
        if !thread {
            self.see(task);
        }
        self.meet(at.plus(Ns(2)), Some(task));
        let clone_flags = Some(if thread { CLONE_THREAD } else { 0 });
        Ftrace::TaskNewtask(TaskNewtask { pid: Some(pid), comm: Some(comm), clone_flags })
    }

    fn bundle(&mut self, cpu: CpuId, event: FtraceEvent) {
        if cpu.index() >= self.bundles.len() {
            self.bundles.resize(cpu.index() + 1, Vec::new());
        }
        self.bundles[cpu.index()].push(event);
        self.bundled += 1;
        if self.bundled >= BUNDLED {
            self.flush();
        }
    }
    fn flush(&mut self) {
        self.bundled = 0;
        for at in 0..self.bundles.len() {
            if self.bundles[at].is_empty() {
                continue;
            }
            let cpu = Some(self.cpu(CpuId::from(at)));
            let bundle = FtraceEventBundle { cpu, event: std::mem::take(&mut self.bundles[at]) };
            let mut packet = TracePacket {
                ftrace_events: Some(bundle),
                trusted_packet_sequence_id: Some(SEQUENCE),
                ..TracePacket::default()
            };
            self.file.packet(&packet);
            // The room is used again.
            if let Some(bundle) = packet.ftrace_events.take() {
                self.bundles[at] = bundle.event;
                self.bundles[at].clear();
            }
        }
    }

    /// Notes that a thread has been told; whether it had been before.
    fn see(&mut self, task: TaskId) -> bool {
        if task.index() >= self.met.len() {
            self.met.resize(task.index() + 1, false);
        }
        std::mem::replace(&mut self.met[task.index()], true)
    }

    /// Tells a thread and its process before their first event.
    fn meet(&mut self, at: Ns, task: Option<TaskId>) {
        let Some(task) = task else { return };
        if self.see(task) {
            return;
        }
        let Some(tgid) = self.process(task) else { return };
        let thread = Thread { tid: Some(self.tid(task)), name: Some(self.cast.name(task)), tgid: Some(tgid) };
        let number = self.cast.of(task).map_or(0, |a| a.process);
        let mut tree = ProcessTree { processes: Vec::new(), threads: vec![thread] };
        if let Err(place) = self.processes.binary_search(&number) {
            self.processes.insert(place, number);
            let name = match self.side.processes.get(&number) {
                Some(name) => name.clone(),
                None => {
                    let leader = self.cast.tasks.iter().find(|a| a.tid == number);
                    leader.map_or_else(|| self.cast.name(task), |a| a.name.clone())
                }
            };
            let cmdline = vec![format!("{}{name}", self.side.label)];
            tree.processes.push(Process { pid: Some(tgid), ppid: Some(0), cmdline });
        }
        self.file.packet(&TracePacket {
            timestamp: Some(at.0.saturating_sub(1)),
            trusted_packet_sequence_id: Some(SEQUENCE),
            process_tree: Some(tree),
            ..TracePacket::default()
        });
    }
}

impl<W: Write> Sink for Run<'_, W> {
    fn event(&mut self, event: &Event) {
        let left_for = match event.kind {
            EventKind::Switch { next, .. } => next,
            _ => None,
        };
        for point in self.points.of(event) {
            self.ftrace(point);
        }
        let mut tracks = std::mem::take(&mut self.tracks);
        tracks.tell(self, event, left_for);
        self.tracks = tracks;
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
    fn wants_details(&self) -> bool {
        self.details
    }
}
