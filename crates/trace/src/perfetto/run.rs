//! One run in a file: its ftrace events by CPU.

use super::bundle::{Bundle, Switched, Waked};
use super::message::put_message;
use super::messages::{
    Ftrace, FtraceEvent, Process, ProcessTree, SchedProcessExit, SchedSwitch, SchedWakeup, TaskNewtask,
    Thread, TracePacket,
};
use super::pen::Pen;
use super::side::Side;
use super::tracks::Tracks;
use super::wire::Wire;
use super::write::Perfetto;
use crate::points::{Point, Points, Tracepoint};
use crate::{Cast, Counter, Counters, Event, EventKind, Sink};
use schedlab_base::{CpuId, Ns, TaskId};
use std::io::Write;

/// The packet sequence for packets without a track.
const SEQUENCE: u32 = 1;
/// `common_flags`: in a hardware interrupt.
const HARDIRQ: u32 = 0x08;
/// `clone_flags`: a thread of its parent's process.
const CLONE_THREAD: u64 = 0x10000;
/// `cpu_idle.state` of a CPU that leaves its idle state.
const LEAVES: u32 = u32::MAX;
/// Fields of packets, bundles and events that are encoded by hand.
const PACKET_BUNDLE: u32 = 1;
const PACKET_SEQUENCE: u32 = 10;
const BUNDLE_EVENT: u32 = 2;
const EVENT_CPU_IDLE: u32 = 13;
const EVENT_MIGRATE: u32 = 491;

pub struct Run<'a, W: Write> {
    pen: Pen<'a, W>,
    points: Points,
    tracks: Tracks,
    /// By CPU.
    bundles: Vec<Bundle>,
    /// Whether a task's thread has been described, by task.
    met: Vec<bool>,
    /// Processes that have been described.
    processes: Vec<u32>,
    details: bool,
    counters: Counters,
}

impl<'a, W: Write> Run<'a, W> {
    /// Begins a run whose measured time begins at `measured_from`.
    pub fn new(file: &'a mut Perfetto<W>, cast: &'a Cast, side: Side, measured_from: Ns) -> Run<'a, W> {
        let mut pen = Pen::new(file, cast, side);
        let mut tracks = Tracks::default();
        tracks.phases(&mut pen, measured_from);
        Run {
            pen,
            points: Points::default(),
            tracks,
            bundles: Vec::new(),
            met: Vec::new(),
            processes: Vec::new(),
            details: false,
            counters: Counters::NONE,
        }
    }
    /// Asks the simulator for details ([`Sink::wants_details`]).
    #[must_use]
    pub fn detailed(mut self) -> Run<'a, W> {
        self.details = true;
        self
    }
    /// Adds tracks of these counters, and asks the simulator for them.
    #[must_use]
    pub fn counting(mut self, counters: Counters) -> Run<'a, W> {
        self.counters = counters;
        self
    }
    /// Writes the rest.
    pub fn finish(mut self) {
        for at in 0..self.bundles.len() {
            self.flush(CpuId::from(at));
        }
    }

    #[inline]
    fn ftrace(&mut self, p: &Tracepoint) {
        if p.cpu.index() >= self.bundles.len() {
            self.bundles.resize_with(p.cpu.index() + 1, Bundle::default);
        }
        match p.point {
            Point::Switch { prev, state, next } => {
                self.meet(p.at, prev);
                self.meet(p.at, next);
                let prev_state = if prev.is_some() { state.bits() } else { 0 };
                self.switch(p, prev, prev_state, next);
            }
            Point::Waking { task, target, irq } => {
                self.meet(p.at, Some(task));
                self.waking(p, task, target, irq);
            }
            // Readers ignore it: a task is runnable from its `sched_waking` on.
            Point::Wakeup { new: false, .. } => return,
            Point::Wakeup { task, target, new: true } => {
                self.meet(p.at, Some(task));
                let wakeup = Ftrace::SchedWakeupNew(self.wakeup(task, target));
                self.message(p, wakeup, false);
            }
            Point::Migrate { task, from, to } => {
                let (pid, prio, comm) = self.pen.who(Some(task), p.cpu);
                let (from, to) = (self.pen.cpu(from), self.pen.cpu(to));
                self.bundles[p.cpu.index()].event(p.at.0, tid_of(&self.pen, p), EVENT_MIGRATE, |out| {
                    out.bytes(1, comm.as_bytes());
                    out.int(2, pid.into());
                    out.int(3, prio.into());
                    out.uint(4, from.into());
                    out.uint(5, to.into());
                });
            }
            Point::NewTask { task } => {
                let new = self.new_task(p.at, task);
                self.message(p, new, false);
            }
            Point::Exit { task } => {
                let (pid, prio, comm) = self.pen.who(Some(task), p.cpu);
                let (comm, tgid) = (Some(comm.into_owned()), self.pen.process(task));
                let exit = SchedProcessExit { comm, pid: Some(pid), tgid, prio: Some(prio) };
                self.message(p, Ftrace::SchedProcessExit(exit), false);
            }
            Point::Idle { state } => {
                let (state, cpu) = (state.map_or(LEAVES, u32::from), self.pen.cpu(p.cpu));
                self.bundles[p.cpu.index()].event(p.at.0, tid_of(&self.pen, p), EVENT_CPU_IDLE, |out| {
                    out.uint(1, state.into());
                    out.uint(2, cpu.into());
                });
            }
        }
        if self.bundles[p.cpu.index()].is_full() {
            self.flush(p.cpu);
        }
    }

    #[inline]
    fn switch(&mut self, p: &Tracepoint, prev: Option<TaskId>, prev_state: i64, next: Option<TaskId>) {
        let (next_pid, next_prio, next_comm) = self.pen.who(next, p.cpu);
        let bundle = &mut self.bundles[p.cpu.index()];
        if bundle.takes_switch(p.at.0) {
            let told = Switched { at: p.at.0, prev_state, next_pid, next_prio };
            return bundle.switch(&told, next, &next_comm);
        }
        bundle.switched = true;
        let (prev_pid, prev_prio, prev_comm) = self.pen.who(prev, p.cpu);
        let switch = SchedSwitch {
            prev_comm: Some(prev_comm.into_owned()),
            prev_pid: Some(prev_pid),
            prev_prio: Some(prev_prio),
            prev_state: Some(prev_state),
            next_comm: Some(next_comm.into_owned()),
            next_pid: Some(next_pid),
            next_prio: Some(next_prio),
        };
        self.message(p, Ftrace::SchedSwitch(switch), false);
    }

    #[inline]
    fn waking(&mut self, p: &Tracepoint, task: TaskId, target: CpuId, irq: bool) {
        let bundle = &mut self.bundles[p.cpu.index()];
        // This wakeup waited for its task's switch; its waker may have left the CPU since.
        if bundle.takes_waking(p.at.0) && p.current == self.points.current(p.cpu) {
            let (pid, prio, comm) = self.pen.who(Some(task), target);
            let flags = if irq { HARDIRQ } else { 0 };
            let told = Waked { at: p.at.0, pid, target_cpu: self.pen.cpu(target), prio, flags };
            return bundle.waking(&told, task, &comm);
        }
        let waking = Ftrace::SchedWaking(self.wakeup(task, target));
        self.message(p, waking, irq);
    }

    fn wakeup(&self, task: TaskId, target: CpuId) -> SchedWakeup {
        let (pid, prio, comm) = self.pen.who(Some(task), target);
        let target_cpu = Some(self.pen.cpu(target) as i32);
        let (comm, success) = (Some(comm.into_owned()), Some(1));
        SchedWakeup { comm, pid: Some(pid), prio: Some(prio), success, target_cpu }
    }

    /// A task made by another. Readers put a thread into its parent's process, so a thread of another process is
    /// described afterwards.
    fn new_task(&mut self, at: Ns, task: TaskId) -> Ftrace {
        let pid = self.pen.tid(task);
        let comm = Some(self.pen.cast.name(task));
        let thread = self.pen.process(task).is_some_and(|process| process != pid);
        if !thread {
            self.see(task);
        }
        self.meet(at.plus(Ns(2)), Some(task));
        let clone_flags = Some(if thread { CLONE_THREAD } else { 0 });
        Ftrace::TaskNewtask(TaskNewtask { pid: Some(pid), comm, clone_flags })
    }

    /// Adds a rare event.
    fn message(&mut self, p: &Tracepoint, event: Ftrace, irq: bool) {
        let event = FtraceEvent {
            timestamp: Some(p.at.0),
            pid: Some(tid_of(&self.pen, p)),
            common_flags: irq.then_some(HARDIRQ),
            event: Some(event),
        };
        let bundle = &mut self.bundles[p.cpu.index()];
        put_message(&event, BUNDLE_EVENT, &mut bundle.events);
        bundle.counts();
    }

    fn flush(&mut self, cpu: CpuId) {
        let bundle = &mut self.bundles[cpu.index()];
        if bundle.is_empty() {
            return;
        }
        let number = self.pen.side.first_cpu + cpu.0;
        self.pen.file.encoded(|out| {
            let open = out.open(PACKET_BUNDLE);
            bundle.write(number, out);
            out.close(open);
            out.uint(PACKET_SEQUENCE, SEQUENCE.into());
        });
    }

    /// Marks a thread as described; returns whether it was before.
    #[inline]
    fn see(&mut self, task: TaskId) -> bool {
        if task.index() >= self.met.len() {
            self.met.resize(task.index() + 1, false);
        }
        std::mem::replace(&mut self.met[task.index()], true)
    }

    /// Describes a thread and its process before their first event.
    #[inline]
    fn meet(&mut self, at: Ns, task: Option<TaskId>) {
        match task {
            Some(task) if !self.see(task) => self.introduce(at, task),
            _ => {}
        }
    }
    fn introduce(&mut self, at: Ns, task: TaskId) {
        let Some(tgid) = self.pen.process(task) else { return };
        let (tid, name) = (self.pen.tid(task), self.pen.cast.name(task));
        let thread = Thread { tid: Some(tid), name: Some(name), tgid: Some(tgid) };
        let number = self.pen.cast.of(task).map_or(0, |a| a.process);
        let mut tree = ProcessTree { processes: Vec::new(), threads: vec![thread] };
        if let Err(place) = self.processes.binary_search(&number) {
            self.processes.insert(place, number);
            let name = match self.pen.side.processes.get(&number) {
                Some(name) => name.clone(),
                None => {
                    let leader = self.pen.cast.tasks.iter().find(|a| a.tid == number);
                    leader.map_or_else(|| self.pen.cast.name(task), |a| a.name.clone())
                }
            };
            let cmdline = vec![format!("{}{name}", self.pen.side.label)];
            tree.processes.push(Process { pid: Some(tgid), ppid: Some(0), cmdline });
        }
        self.pen.file.packet(&TracePacket {
            timestamp: Some(at.0.saturating_sub(1)),
            trusted_packet_sequence_id: Some(SEQUENCE),
            process_tree: Some(tree),
            ..TracePacket::default()
        });
    }
}

#[inline]
fn tid_of<W>(pen: &Pen<'_, W>, p: &Tracepoint) -> u32 {
    p.current.map_or(0, |t| pen.tid(t) as u32)
}

impl Bundle {
    /// Adds an event with fields that `fields` encodes.
    #[inline]
    fn event(&mut self, at: u64, pid: u32, what: u32, fields: impl FnOnce(&mut Vec<u8>)) {
        let out = &mut self.events;
        let event = out.open(BUNDLE_EVENT);
        out.uint(1, at);
        out.uint(2, pid.into());
        let inner = out.open(what);
        fields(out);
        out.close(inner);
        out.close(event);
        self.counts();
    }
}

impl<W: Write> Sink for Run<'_, W> {
    fn event(&mut self, event: &Event) {
        if let EventKind::Lost { .. } = event.kind
            && event.cpu.index() < self.bundles.len()
        {
            self.flush(event.cpu);
            self.bundles[event.cpu.index()].loses();
        }
        for point in self.points.of(event) {
            self.ftrace(&point);
        }
        self.tracks.write(&mut self.pen, event);
    }
    fn wants_details(&self) -> bool {
        self.details
    }
    fn counter(&mut self, at: Ns, counter: Counter, value: i64) {
        if self.counters.has(counter.kind()) {
            self.tracks.counter(&mut self.pen, at, counter, value);
        }
    }
    fn wants_counters(&self) -> Counters {
        self.counters
    }
}
