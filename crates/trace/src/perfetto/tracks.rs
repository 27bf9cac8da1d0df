//! The tracks in addition to the scheduler's events: counters, passes of the balancer, reasons, flows.

use super::messages::TRACK_SEQUENCE;
use super::names::{ArgName, Name};
use super::pen::Pen;
use super::track::{Kinds, Track, describe};
use super::wire::Wire;
use crate::{Counter, Event, EventKind, ExtQueue, MoveReason, SwitchReason};
use schedlab_base::{CpuId, Ns, TaskId};
use std::io::Write;

/// `sequence_flags`: the packet needs names written before.
const NEEDS_NAMES: u32 = 2;
/// Fields of a packet.
const PACKET_TIMESTAMP: u32 = 8;
const PACKET_SEQUENCE: u32 = 10;
const PACKET_EVENT: u32 = 11;
const PACKET_INTERNED: u32 = 12;
const PACKET_FLAGS: u32 = 13;
/// Fields of a track's event.
const EVENT_NOTE: u32 = 4;
const EVENT_TYPE: u32 = 9;
const EVENT_NAME: u32 = 10;
const EVENT_TRACK: u32 = 11;
const EVENT_COUNTER: u32 = 30;
const EVENT_FLOW: u32 = 47;
const EVENT_FLOW_ENDS: u32 = 48;
/// Fields of a note: the number of its name, and its value.
const NOTE_NAME: u32 = 1;
const NOTE_UINT: u32 = 3;
const NOTE_TEXT: u32 = 6;
/// `type` of a track's event.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

#[derive(Default)]
pub(super) struct Tracks {
    told: Kinds,
    running: Vec<u16>,
    tasks: Vec<Task>,
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// The CPU that has it on its queue or runs it.
    on: Option<CpuId>,
    /// The flow from its waker, and the start of the wakeup.
    flow: Option<(u64, Ns)>,
}

#[inline]
fn number(out: &mut Vec<u8>, note: ArgName, value: impl Into<u64>) {
    let open = out.open(EVENT_NOTE);
    out.uint(NOTE_NAME, note.iid());
    out.uint(NOTE_UINT, value.into());
    out.close(open);
}
#[inline]
fn text(out: &mut Vec<u8>, note: ArgName, value: &str) {
    let open = out.open(EVENT_NOTE);
    out.uint(NOTE_NAME, note.iid());
    out.bytes(NOTE_TEXT, value.as_bytes());
    out.close(open);
}

impl<W: Write> Pen<'_, W> {
    /// Writes an event on a track; `more` adds further fields.
    #[inline]
    fn write_event(
        &mut self,
        at: Ns,
        what: u64,
        track: u64,
        name: Option<Name>,
        more: impl FnOnce(&mut Vec<u8>),
    ) {
        let new = name.filter(|n| self.file.names.is_new(n.iid()));
        self.file.encoded(|out| {
            out.uint(PACKET_TIMESTAMP, at.0);
            out.uint(PACKET_SEQUENCE, TRACK_SEQUENCE.into());
            out.uint(PACKET_FLAGS, NEEDS_NAMES.into());
            if let Some(name) = new {
                let interned = out.open(PACKET_INTERNED);
                let entry = out.open(2);
                out.uint(1, name.iid());
                out.bytes(2, name.text().as_bytes());
                out.close(entry);
                out.close(interned);
            }
            let event = out.open(PACKET_EVENT);
            out.uint(EVENT_TYPE, what);
            if let Some(name) = name {
                out.uint(EVENT_NAME, name.iid());
            }
            out.uint(EVENT_TRACK, track);
            more(out);
            out.close(event);
        });
    }
}

impl Tracks {
    /// The track's id in the file. At its first use the track is described.
    #[inline]
    fn track<W: Write>(&mut self, pen: &mut Pen<'_, W>, track: Track) -> u64 {
        if self.told.is_new(track) {
            self.introduce(pen, track);
        }
        track.uuid(pen.side.number)
    }
    #[cold]
    fn introduce<W: Write>(&mut self, pen: &mut Pen<'_, W>, track: Track) {
        let parent = track.parent().map(|parent| self.track(pen, parent));
        let packet = describe(pen, track, parent);
        pen.file.packet(&packet);
    }
    #[inline]
    fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Task::default());
        }
        &mut self.tasks[task.index()]
    }

    /// Writes warm-up and measured time.
    pub(super) fn phases<W: Write>(&mut self, pen: &mut Pen<'_, W>, measured_from: Ns) {
        let end = pen.cast.end.max(measured_from);
        let track = self.track(pen, Track::Phases);
        for (name, from, until) in
            [(Name::Warmup, Ns::ZERO, measured_from), (Name::Measured, measured_from, end)]
        {
            if from < until {
                pen.write_event(from, BEGIN, track, Some(name), |_| {});
                pen.write_event(until, END, track, None, |_| {});
            }
        }
    }
    /// Writes a counter that the simulator was asked for.
    pub(super) fn counter<W: Write>(&mut self, pen: &mut Pen<'_, W>, at: Ns, counter: Counter, value: i64) {
        let track = self.track(pen, Track::of(counter));
        pen.write_event(at, COUNTER, track, None, |out| out.int(EVENT_COUNTER, value));
    }

    /// Writes an event's effect on the tracks.
    #[inline]
    pub(super) fn write<W: Write>(&mut self, pen: &mut Pen<'_, W>, event: &Event) {
        let (at, cpu) = (event.at, event.cpu);
        match event.kind {
            EventKind::Switch { prev, why, next } if prev != next => {
                self.switch(pen, at, cpu, prev, next, why);
            }
            EventKind::Waking { task, waker: Some(waker) } => {
                pen.file.flows += 1;
                let flow = pen.file.flows;
                self.task(task).flow = Some((flow, at));
                let track = self.track(pen, Track::Thread(waker));
                let name = pen.cast.label(task);
                pen.write_event(at, INSTANT, track, Some(Name::Wakes), |out| {
                    text(out, ArgName::Task, &name);
                    out.fixed(EVENT_FLOW, flow);
                });
            }
            EventKind::Placed { task, target, reason, probes } => {
                let track = self.track(pen, Track::Thread(task));
                let target = pen.cpu(target);
                pen.write_event(at, INSTANT, track, Some(Name::Placed(reason)), |out| {
                    number(out, ArgName::Cpu, target);
                    number(out, ArgName::Probes, probes);
                });
            }
            EventKind::Enqueued { task, nr_running, .. } => {
                self.leave(pen, at, task, Some(cpu));
                let told = (nr_running > 0).then_some(nr_running);
                self.arrive(pen, at, cpu, task, told);
            }
            EventKind::Migrate { task, from, why } => {
                if self.task(task).on.is_some_and(|on| on != cpu) {
                    self.leave(pen, at, task, None);
                }
                // The placement has reported it.
                if !matches!(why, MoveReason::Wakeup | MoveReason::Fork) {
                    let track = self.track(pen, Track::Thread(task));
                    let (from, to) = (pen.cpu(from), pen.cpu(cpu));
                    pen.write_event(at, INSTANT, track, Some(Name::Moved(why)), |out| {
                        number(out, ArgName::From, from);
                        number(out, ArgName::To, to);
                    });
                }
            }
            EventKind::Decided { task, by, to, dsq } => {
                let track = self.track(pen, Track::Thread(task));
                let by_cpu = pen.cpu(cpu);
                let (of_cpu, number_of) = match to {
                    ExtQueue::Local | ExtQueue::Kicked => (dsq.cpu().map(|cpu| pen.cpu(cpu)), None),
                    ExtQueue::User | ExtQueue::Builtin => (None, Some(dsq.number())),
                    ExtQueue::Global | ExtQueue::Held => (None, None),
                };
                pen.write_event(at, INSTANT, track, Some(Name::Decided(by, to)), |out| {
                    number(out, ArgName::Cpu, by_cpu);
                    of_cpu.into_iter().for_each(|cpu| number(out, ArgName::To, cpu));
                    number_of.into_iter().for_each(|n| number(out, ArgName::Dsq, n));
                });
            }
            EventKind::Balance { .. } | EventKind::Skip { .. } | EventKind::Kick { .. } => {
                self.balancer(pen, event);
            }
            _ => {}
        }
    }

    fn balancer<W: Write>(&mut self, pen: &mut Pen<'_, W>, event: &Event) {
        let at = event.at;
        let track = self.track(pen, Track::Balancer(event.cpu));
        match event.kind {
            EventKind::Balance { level, trigger, why, moved, visited, took_ns, src } => {
                let src = src.map(|src| pen.cpu(src));
                let notes = |out: &mut Vec<u8>| {
                    number(out, ArgName::Level, level);
                    number(out, ArgName::Moved, moved);
                    number(out, ArgName::Visited, visited);
                    if let Some(src) = src {
                        number(out, ArgName::BusiestCpu, src);
                    }
                };
                let name = Some(Name::Balance(trigger, why));
                if took_ns == 0 {
                    return pen.write_event(at, INSTANT, track, name, notes);
                }
                pen.write_event(at.since(Ns(took_ns.into())), BEGIN, track, name, notes);
                pen.write_event(at, END, track, None, |_| {});
            }
            EventKind::Skip { level, why, have_ns, need_ns } => {
                pen.write_event(at, INSTANT, track, Some(Name::Skip(why)), |out| {
                    number(out, ArgName::Level, level);
                    if need_ns > 0 {
                        number(out, ArgName::HaveNs, have_ns);
                        number(out, ArgName::NeedNs, need_ns);
                    }
                });
            }
            EventKind::Kick { why, to } => {
                let to = to.map(|to| pen.cpu(to));
                pen.write_event(at, INSTANT, track, Some(Name::Kick(why)), |out| {
                    to.into_iter().for_each(|to| number(out, ArgName::To, to));
                });
            }
            _ => {}
        }
    }

    #[inline]
    fn switch<W: Write>(
        &mut self,
        pen: &mut Pen<'_, W>,
        at: Ns,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        why: SwitchReason,
    ) {
        if let Some(prev) = prev {
            match why {
                SwitchReason::Blocked | SwitchReason::Exited => self.leave(pen, at, prev, None),
                SwitchReason::FromIdle => {}
                _ => {
                    let track = self.track(pen, Track::Thread(prev));
                    let to = next.map_or("idle".into(), |n| pen.cast.label(n));
                    pen.write_event(at, INSTANT, track, Some(Name::GivesWay(why)), |out| {
                        text(out, ArgName::To, &to)
                    });
                }
            }
        }
        let Some(next) = next else { return };
        if self.task(next).on != Some(cpu) {
            // The recording began, or lost events, while the task was on the queue.
            self.leave(pen, at, next, None);
            self.arrive(pen, at, cpu, next, None);
        }
        if let Some((flow, since)) = self.task(next).flow.take() {
            let track = self.track(pen, Track::Thread(next));
            pen.write_event(at, INSTANT, track, Some(Name::Woken), |out| {
                number(out, ArgName::DelayNs, at.since(since).0);
                out.fixed(EVENT_FLOW_ENDS, flow);
            });
        }
    }

    /// A task leaves its queue, unless that is the queue of CPU `but`.
    fn leave<W: Write>(&mut self, pen: &mut Pen<'_, W>, at: Ns, task: TaskId, but: Option<CpuId>) {
        let on = self.task(task).on;
        let Some(from) = on.filter(|on| Some(*on) != but) else { return };
        self.task(task).on = None;
        let left = self.running(from).saturating_sub(1);
        self.count(pen, at, from, left);
    }
    /// A task joins a queue; `told` is the queue's new length, if the source reports it.
    fn arrive<W: Write>(
        &mut self,
        pen: &mut Pen<'_, W>,
        at: Ns,
        cpu: CpuId,
        task: TaskId,
        told: Option<u16>,
    ) {
        let new = self.task(task).on.replace(cpu) != Some(cpu);
        let count = told.unwrap_or_else(|| self.running(cpu).saturating_add(u16::from(new)));
        self.count(pen, at, cpu, count);
    }
    fn running(&self, cpu: CpuId) -> u16 {
        self.running.get(cpu.index()).copied().unwrap_or(0)
    }
    fn count<W: Write>(&mut self, pen: &mut Pen<'_, W>, at: Ns, cpu: CpuId, count: u16) {
        if cpu.index() >= self.running.len() {
            self.running.resize(cpu.index() + 1, 0);
        }
        if std::mem::replace(&mut self.running[cpu.index()], count) == count {
            return;
        }
        let track = self.track(pen, Track::Queue(cpu));
        pen.write_event(at, COUNTER, track, None, |out| out.uint(EVENT_COUNTER, count.into()));
    }
}
