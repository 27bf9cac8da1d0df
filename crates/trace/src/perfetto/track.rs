//! Tracks: numbers in the file, and descriptions for readers.

use super::messages::{CounterDescriptor, TRACK_SEQUENCE, ThreadDescriptor, TracePacket, TrackDescriptor};
use super::pen::Pen;
use crate::{Counter, CounterKind};
use schedlab_base::{CpuId, TaskId};

/// `child_ordering`: by rank.
const EXPLICIT: i32 = 3;
/// `unit` of a counter.
const NANOSECONDS: i32 = 1;
const COUNT: i32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Track {
    Phases,
    /// The parent of all CPUs' counters.
    Queues,
    Queue(CpuId),
    /// The parent of all CPUs' balancers.
    Balancers,
    Balancer(CpuId),
    Thread(TaskId),
    /// The parent of all counters of a kind.
    Counters(CounterKind),
    OfCpu(CpuId, CounterKind),
    OfTask(TaskId, CounterKind),
}

/// The maximal number of kinds of tracks; also the factor of a number in a kind.
const KINDS: u64 = 32;

impl Track {
    pub(super) fn of(counter: Counter) -> Track {
        match counter {
            Counter::Load(cpu) => Track::OfCpu(cpu, CounterKind::Load),
            Counter::Vruntime(task) => Track::OfTask(task, CounterKind::Vruntime),
            Counter::Lag(task) => Track::OfTask(task, CounterKind::Lag),
            Counter::Slice(task) => Track::OfTask(task, CounterKind::Slice),
        }
    }
    /// The number of the kind, never 0, and the track's number within the kind.
    #[inline]
    fn place(self) -> (u64, u32) {
        match self {
            Track::Phases => (1, 0),
            Track::Queues => (2, 0),
            Track::Queue(cpu) => (3, cpu.0),
            Track::Balancers => (4, 0),
            Track::Balancer(cpu) => (5, cpu.0),
            Track::Thread(task) => (6, task.0),
            Track::Counters(kind) => (7, kind as u32),
            Track::OfCpu(cpu, kind) => (8 + kind as u64, cpu.0),
            Track::OfTask(task, kind) => (16 + kind as u64, task.0),
        }
    }
    /// The track's id in the file, small because every event has it.
    #[inline]
    pub(super) fn uuid(self, side: u8) -> u64 {
        let (kind, number) = self.place();
        (u64::from(number) * KINDS + kind) << 1 | u64::from(side)
    }
    pub(super) fn parent(self) -> Option<Track> {
        match self {
            Track::Queue(_) => Some(Track::Queues),
            Track::Balancer(_) => Some(Track::Balancers),
            Track::OfCpu(_, kind) | Track::OfTask(_, kind) => Some(Track::Counters(kind)),
            _ => None,
        }
    }
}

/// The tracks described so far, by kind.
#[derive(Default)]
pub(super) struct Kinds([Vec<bool>; KINDS as usize]);

impl Kinds {
    /// Whether a track is not described yet; marks it as described.
    #[inline]
    pub(super) fn is_new(&mut self, track: Track) -> bool {
        let (kind, number) = track.place();
        let (told, at) = (&mut self.0[kind as usize], number as usize);
        if at >= told.len() {
            told.resize(at + 1, false);
        }
        !std::mem::replace(&mut told[at], true)
    }
}

pub(super) fn describe<W>(pen: &Pen<'_, W>, track: Track, parent: Option<u64>) -> TracePacket {
    let uuid = Some(track.uuid(pen.side.number));
    let descriptor = TrackDescriptor { uuid, parent_uuid: parent, ..about(pen, track) };
    TracePacket {
        trusted_packet_sequence_id: Some(TRACK_SEQUENCE),
        track_descriptor: Some(descriptor),
        ..TracePacket::default()
    }
}

/// A track's description without its id.
fn about<W>(pen: &Pen<'_, W>, track: Track) -> TrackDescriptor {
    let named = |name: String| TrackDescriptor {
        name: Some(format!("{}{name}", pen.side.label)),
        ..TrackDescriptor::default()
    };
    let holds = |name: &str, about: &str| TrackDescriptor {
        child_ordering: Some(EXPLICIT),
        description: Some(about.to_owned()),
        ..named(name.to_owned())
    };
    let counts = |name: String, rank: u32, unit| TrackDescriptor {
        counter: Some(CounterDescriptor { unit: Some(unit) }),
        sibling_order_rank: Some(rank as i32),
        ..named(name)
    };
    match track {
        Track::Phases => named("run".to_owned()),
        Track::Queues => holds("nr_running", "tasks on each CPU's runqueue, the running one included"),
        Track::Queue(cpu) => counts(format!("nr_running {}", pen.cpu(cpu)), cpu.0, COUNT),
        Track::Balancers => holds("balance", "passes of each CPU's balancer, by trigger and how they ended"),
        Track::Balancer(cpu) => TrackDescriptor {
            sibling_order_rank: Some(cpu.0 as i32),
            ..named(format!("balance {}", pen.cpu(cpu)))
        },
        Track::Counters(kind) => holds(kind.name(), kind.about()),
        Track::OfCpu(cpu, kind) => counts(format!("{} {}", kind.name(), pen.cpu(cpu)), cpu.0, COUNT),
        Track::OfTask(task, kind) => {
            let name = format!("{} {} {}", kind.name(), pen.cast.label(task), pen.tid(task));
            counts(name, task.0, NANOSECONDS)
        }
        Track::Thread(task) => {
            let group = pen.cast.of(task).and_then(|a| a.group.as_ref());
            let thread = ThreadDescriptor {
                // A thread without a known process is its own process.
                pid: Some(pen.process(task).unwrap_or_else(|| pen.tid(task))),
                tid: Some(pen.tid(task).into()),
                thread_name: Some(pen.cast.name(task)),
            };
            TrackDescriptor {
                thread: Some(thread),
                description: group.map(|group| format!("group {group}")),
                ..TrackDescriptor::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_tracks_have_one_number() {
        let mut all = vec![Track::Phases, Track::Queues, Track::Balancers];
        for n in 0..40 {
            all.extend([Track::Queue(CpuId(n)), Track::Balancer(CpuId(n)), Track::Thread(TaskId(n))]);
            all.push(Track::OfCpu(CpuId(n), CounterKind::Load));
            all.extend(CounterKind::ALL[1..].iter().map(|kind| Track::OfTask(TaskId(n), *kind)));
        }
        all.extend(CounterKind::ALL.map(Track::Counters));
        let mut told = Kinds::default();
        assert!(all.iter().all(|t| told.is_new(*t)) && !all.iter().any(|t| told.is_new(*t)));
        let numbers: BTreeSet<u64> = all.iter().flat_map(|t| [t.uuid(0), t.uuid(1)]).collect();
        assert!(numbers.len() == 2 * all.len() && !numbers.contains(&0));
    }
}
