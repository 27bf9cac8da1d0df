//! The tracks beside the scheduler's events: counters, passes of the balancer, reasons, flows.

use super::messages::{
    CounterDescriptor, DebugAnnotation, EventName, InternedData, ThreadDescriptor, TracePacket,
    TrackDescriptor, TrackEvent, TrackEventType,
};
use super::names::Name;
use super::run::Run;
use crate::{Event, EventKind, MoveReason, SwitchReason};
use schedlab_base::{CpuId, Ns, TaskId};
use std::collections::BTreeSet;
use std::io::Write;

/// The sequence of all tracks' packets.
const SEQUENCE: u32 = 2;
/// `sequence_flags`: names begin anew; the packet needs the names told before.
const CLEARED: u32 = 1;
const NEEDS_NAMES: u32 = 2;
/// `child_ordering`: by rank.
const EXPLICIT: i32 = 3;
/// `unit` of a counter: a count.
const COUNT: i32 = 2;

/// A track.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    /// The phases of the run.
    Phases,
    /// What holds the counters of all CPUs.
    Queues,
    Queue(CpuId),
    /// What holds the balancers of all CPUs.
    Balancers,
    Balancer(CpuId),
    Thread(TaskId),
}

impl Track {
    /// The file's number for it.
    fn uuid(self, side: u8) -> u64 {
        let (kind, number) = match self {
            Track::Phases => (1, 0),
            Track::Queues => (2, 0),
            Track::Queue(cpu) => (3, cpu.0),
            Track::Balancers => (4, 0),
            Track::Balancer(cpu) => (5, cpu.0),
            Track::Thread(task) => (6, task.0),
        };
        (u64::from(side) + 1) << 48 | kind << 40 | u64::from(number)
    }
}

/// What has to be remembered for the tracks.
#[derive(Default)]
pub(super) struct Tracks {
    told: BTreeSet<Track>,
    /// Runnable tasks by CPU.
    running: Vec<u16>,
    tasks: Vec<Task>,
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// The CPU on whose queue it is, or which runs it.
    on: Option<CpuId>,
    /// The flow from its waker, and when the wakeup began.
    flow: Option<(u64, Ns)>,
}

impl<W: Write> Run<'_, W> {
    /// Tells warm-up and measured time.
    pub(super) fn phases(&mut self, measured_from: Ns) {
        let end = self.cast.end.max(measured_from);
        let mut tracks = Tracks::default();
        let track = tracks.track(self, Track::Phases);
        for (name, from, until) in
            [(Name::Warmup, Ns::ZERO, measured_from), (Name::Measured, measured_from, end)]
        {
            if from < until {
                self.track_event(from, TrackEventType::SliceBegin, track, Some(name), Said::default());
                self.track_event(until, TrackEventType::SliceEnd, track, None, Said::default());
            }
        }
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) {
        self.file.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
    }
    fn track_event(&mut self, at: Ns, what: TrackEventType, track: u64, name: Option<Name>, said: Said) {
        let first = self.file.names.is_empty();
        let interned_data = name.filter(|n| self.file.names.is_new(n.iid())).map(|n| InternedData {
            event_names: vec![EventName { iid: Some(n.iid()), name: Some(n.text()) }],
        });
        let flags = if first { CLEARED | NEEDS_NAMES } else { NEEDS_NAMES };
        let event = TrackEvent {
            debug_annotations: said.notes,
            r#type: Some(what as i32),
            name_iid: name.map(Name::iid),
            track_uuid: Some(track),
            counter_value: said.count,
            flow_ids: said.flow.into_iter().collect(),
            terminating_flow_ids: said.flow_ends.into_iter().collect(),
        };
        self.file.packet(&TracePacket {
            timestamp: Some(at.0),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(flags),
            interned_data,
            track_event: Some(event),
            ..TracePacket::default()
        });
    }
}

/// What an event on a track says beside its name.
#[derive(Default)]
struct Said {
    notes: Vec<DebugAnnotation>,
    count: Option<i64>,
    flow: Option<u64>,
    flow_ends: Option<u64>,
}

impl Said {
    fn number(mut self, name: &str, value: impl Into<u64>) -> Said {
        let note = DebugAnnotation {
            uint_value: Some(value.into()),
            name: Some(name.to_owned()),
            string_value: None,
        };
        self.notes.push(note);
        self
    }
    fn text(mut self, name: &str, value: String) -> Said {
        let note =
            DebugAnnotation { string_value: Some(value), name: Some(name.to_owned()), uint_value: None };
        self.notes.push(note);
        self
    }
}

impl Tracks {
    /// The track's number in the file, which is told what it is when it is used first.
    fn track<W: Write>(&mut self, run: &mut Run<'_, W>, track: Track) -> u64 {
        let uuid = track.uuid(run.side.number);
        if self.told.insert(track) {
            let parent = match track {
                Track::Queue(_) => Some(self.track(run, Track::Queues)),
                Track::Balancer(_) => Some(self.track(run, Track::Balancers)),
                _ => None,
            };
            let descriptor = TrackDescriptor { uuid: Some(uuid), parent_uuid: parent, ..about(run, track) };
            run.descriptor(descriptor);
        }
        uuid
    }
    fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Task::default());
        }
        &mut self.tasks[task.index()]
    }

    /// Tells what an event means for the tracks; `next` is the task that a switch goes to.
    pub(super) fn tell<W: Write>(&mut self, run: &mut Run<'_, W>, event: &Event, next: Option<TaskId>) {
        let (at, cpu) = (event.at, event.cpu);
        let instant = TrackEventType::Instant;
        match event.kind {
            EventKind::Switch { prev, why, .. } if prev != next => self.switch(run, at, cpu, prev, next, why),
            EventKind::Waking { task, waker: Some(waker) } => {
                run.file.flows += 1;
                let flow = run.file.flows;
                self.task(task).flow = Some((flow, at));
                let track = self.track(run, Track::Thread(waker));
                let said = Said { flow: Some(flow), ..Said::default() }.text("task", run.cast.name(task));
                run.track_event(at, instant, track, Some(Name::Wakes), said);
            }
            EventKind::Placed { task, target, reason, probes } => {
                let track = self.track(run, Track::Thread(task));
                let said = Said::default().number("cpu", run.cpu(target)).number("probes", probes);
                run.track_event(at, instant, track, Some(Name::Placed(reason)), said);
            }
            EventKind::Enqueued { task, nr_running, .. } => {
                self.leave(run, at, task, Some(cpu));
                let told = (nr_running > 0).then_some(nr_running);
                self.arrive(run, at, cpu, task, told);
            }
            EventKind::Migrate { task, from, why } => {
                if self.task(task).on.is_some_and(|on| on != cpu) {
                    self.leave(run, at, task, None);
                }
                // A placement says it already.
                if !matches!(why, MoveReason::Wakeup | MoveReason::Fork) {
                    let track = self.track(run, Track::Thread(task));
                    let said = Said::default().number("from", run.cpu(from)).number("to", run.cpu(cpu));
                    run.track_event(at, instant, track, Some(Name::Moved(why)), said);
                }
            }
            EventKind::Balance { level, trigger, why, moved, visited, took_ns, src } => {
                let track = self.track(run, Track::Balancer(cpu));
                let mut said =
                    Said::default().number("level", level).number("moved", moved).number("visited", visited);
                if let Some(src) = src {
                    said = said.number("busiest_cpu", run.cpu(src));
                }
                let name = Some(Name::Balance(trigger, why));
                if took_ns == 0 {
                    return run.track_event(at, instant, track, name, said);
                }
                let from = at.since(Ns(took_ns.into()));
                run.track_event(from, TrackEventType::SliceBegin, track, name, said);
                run.track_event(at, TrackEventType::SliceEnd, track, None, Said::default());
            }
            EventKind::Skip { level, why, have_ns, need_ns } => {
                let track = self.track(run, Track::Balancer(cpu));
                let mut said = Said::default().number("level", level);
                if need_ns > 0 {
                    said = said.number("have_ns", have_ns).number("need_ns", need_ns);
                }
                run.track_event(at, instant, track, Some(Name::Skip(why)), said);
            }
            EventKind::Kick { why, to } => {
                let track = self.track(run, Track::Balancer(cpu));
                let said = to.map_or_else(Said::default, |to| Said::default().number("to", run.cpu(to)));
                run.track_event(at, instant, track, Some(Name::Kick(why)), said);
            }
            _ => {}
        }
    }

    fn switch<W: Write>(
        &mut self,
        run: &mut Run<'_, W>,
        at: Ns,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        why: SwitchReason,
    ) {
        if let Some(prev) = prev {
            match why {
                SwitchReason::Blocked | SwitchReason::Exited => self.leave(run, at, prev, None),
                SwitchReason::FromIdle => {}
                _ => {
                    let track = self.track(run, Track::Thread(prev));
                    let to = next.map_or_else(|| "idle".to_owned(), |n| run.cast.name(n));
                    let said = Said::default().text("to", to);
                    run.track_event(at, TrackEventType::Instant, track, Some(Name::GivesWay(why)), said);
                }
            }
        }
        let Some(next) = next else { return };
        if self.task(next).on != Some(cpu) {
            // A recording begins, or lost events, while it is on the queue.
            self.leave(run, at, next, None);
            self.arrive(run, at, cpu, next, None);
        }
        if let Some((flow, since)) = self.task(next).flow.take() {
            let track = self.track(run, Track::Thread(next));
            let said =
                Said { flow_ends: Some(flow), ..Said::default() }.number("delay_ns", at.since(since).0);
            run.track_event(at, TrackEventType::Instant, track, Some(Name::Woken), said);
        }
    }

    /// A task leaves the queue it is on, unless that is `but`'s.
    fn leave<W: Write>(&mut self, run: &mut Run<'_, W>, at: Ns, task: TaskId, but: Option<CpuId>) {
        let on = self.task(task).on;
        let Some(from) = on.filter(|on| Some(*on) != but) else { return };
        self.task(task).on = None;
        let left = self.running(from).saturating_sub(1);
        self.count(run, at, from, left);
    }
    /// A task comes to a queue, which has `told` tasks then, if the source tells it.
    fn arrive<W: Write>(
        &mut self,
        run: &mut Run<'_, W>,
        at: Ns,
        cpu: CpuId,
        task: TaskId,
        told: Option<u16>,
    ) {
        let new = self.task(task).on.replace(cpu) != Some(cpu);
        let count = told.unwrap_or_else(|| self.running(cpu).saturating_add(u16::from(new)));
        self.count(run, at, cpu, count);
    }
    fn running(&self, cpu: CpuId) -> u16 {
        self.running.get(cpu.index()).copied().unwrap_or(0)
    }
    fn count<W: Write>(&mut self, run: &mut Run<'_, W>, at: Ns, cpu: CpuId, count: u16) {
        if cpu.index() >= self.running.len() {
            self.running.resize(cpu.index() + 1, 0);
        }
        if std::mem::replace(&mut self.running[cpu.index()], count) == count {
            return;
        }
        let track = self.track(run, Track::Queue(cpu));
        let said = Said { count: Some(count.into()), ..Said::default() };
        run.track_event(at, TrackEventType::Counter, track, None, said);
    }
}

/// What a track is, without its number.
fn about<W: Write>(run: &Run<'_, W>, track: Track) -> TrackDescriptor {
    let named = |name: String| TrackDescriptor {
        name: Some(format!("{}{name}", run.side.label)),
        ..TrackDescriptor::default()
    };
    let rank = |cpu: CpuId| Some(cpu.0 as i32);
    match track {
        Track::Phases => named("run".to_owned()),
        Track::Queues => TrackDescriptor {
            child_ordering: Some(EXPLICIT),
            description: Some("tasks on each CPU's runqueue, the running one included".to_owned()),
            ..named("nr_running".to_owned())
        },
        Track::Queue(cpu) => TrackDescriptor {
            counter: Some(CounterDescriptor { unit: Some(COUNT) }),
            sibling_order_rank: rank(cpu),
            ..named(format!("nr_running {}", run.cpu(cpu)))
        },
        Track::Balancers => TrackDescriptor {
            child_ordering: Some(EXPLICIT),
            description: Some("passes of each CPU's balancer, by trigger and how they ended".to_owned()),
            ..named("balance".to_owned())
        },
        Track::Balancer(cpu) => {
            TrackDescriptor { sibling_order_rank: rank(cpu), ..named(format!("balance {}", run.cpu(cpu))) }
        }
        Track::Thread(task) => {
            let group = run.cast.of(task).and_then(|a| a.group.as_ref());
            let thread = ThreadDescriptor {
                // Without a known process a thread is one of its own.
                pid: Some(run.process(task).unwrap_or_else(|| run.tid(task))),
                tid: Some(run.tid(task).into()),
                thread_name: Some(run.cast.name(task)),
            };
            TrackDescriptor {
                thread: Some(thread),
                description: group.map(|group| format!("group {group}")),
                ..TrackDescriptor::default()
            }
        }
    }
}
