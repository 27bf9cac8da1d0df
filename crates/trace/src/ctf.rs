//! A run as a CTF 1.8 trace for babeltrace2 and for viewers of LTTng's kernel traces: a folder with a description and
//! one file per CPU.
//!
//! Events and fields have the names of LTTng's kernel tracer; `prev_state` has the layout of 4.14 and later. Facts that
//! no tracepoint reports are our own events, such as `schedlab_placed`. Times are ns since the run began.
//!
//! A stream is a list of packets. Readers want its times in order. If [`points`](crate::points) has moved a tracepoint
//! by 1 ns, it is held back until its time comes, so that no switch is moved.

mod metadata;
#[cfg(test)]
mod tests;

use crate::points::{self, Left, Point, Points, Tracepoint};
use crate::{Cast, Event, EventKind, Sink};
use metadata::Id;
use schedlab_base::{CpuId, Ns, TaskId};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file with the description.
const METADATA: &str = "metadata";
/// The magic number of a packet.
const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of a packet's head: magic, stream, five numbers of 8 bytes, CPU.
const HEAD: usize = 4 + 4 + 5 * 8 + 4;
/// A packet with this much content is written, bytes.
const PACKET: usize = 128 << 10;

/// Writes a trace.
///
/// A sink can't return errors, so after a failure nothing more is written, and [`Ctf::finish`] returns the error.
pub struct Ctf<'a> {
    folder: PathBuf,
    cast: &'a Cast,
    points: Points,
    streams: Vec<Stream>,
    marks: bool,
    details: bool,
    failed: Option<io::Error>,
}

/// The open packet of a CPU.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    began: u64,
    last: u64,
    /// Events lost so far.
    lost: u64,
    /// Tracepoints that are held back, in order.
    held: Vec<Tracepoint>,
}

impl<'a> Ctf<'a> {
    /// Begins a trace in an empty folder.
    pub fn new(folder: &Path, cast: &'a Cast) -> Ctf<'a> {
        let failed = std::fs::write(folder.join(METADATA), metadata::text(cast)).err();
        Ctf {
            folder: folder.to_owned(),
            cast,
            points: Points::default(),
            streams: Vec::new(),
            marks: true,
            details: false,
            failed,
        }
    }
    /// Leaves out our own events.
    #[must_use]
    pub fn without_marks(mut self) -> Ctf<'a> {
        self.marks = false;
        self
    }
    /// Asks the simulator for details ([`Sink::wants_details`]).
    #[must_use]
    pub fn detailed(mut self) -> Ctf<'a> {
        self.details = true;
        self
    }
    /// # Errors
    /// The first failure to write.
    pub fn finish(mut self) -> io::Result<()> {
        for at in 0..self.streams.len() {
            let cpu = CpuId::from(at);
            self.release(cpu, u64::MAX);
            self.flush(cpu);
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn stream(&mut self, cpu: CpuId) -> &mut Stream {
        if cpu.index() >= self.streams.len() {
            self.streams.resize_with(cpu.index() + 1, Stream::default);
        }
        &mut self.streams[cpu.index()]
    }
    /// Begins an event, after writing held-back ones that are due.
    fn start(&mut self, at: Ns, cpu: CpuId, id: Id) -> Fields<'_> {
        self.release(cpu, at.0);
        self.begin(at, cpu, id)
    }
    fn begin(&mut self, at: Ns, cpu: CpuId, id: Id) -> Fields<'_> {
        let stream = self.stream(cpu);
        if stream.bytes.is_empty() {
            stream.bytes.resize(HEAD, 0);
            stream.began = at.0;
        }
        stream.last = at.0;
        let mut fields = Fields(&mut stream.bytes);
        fields.u16(id as u16);
        fields.i64(at.0 as i64);
        fields
    }
    /// Writes held-back tracepoints that are due before `at`.
    fn release(&mut self, cpu: CpuId, at: u64) {
        while self.stream(cpu).held.first().is_some_and(|p| p.at.0 <= at) {
            let p = self.stream(cpu).held.remove(0);
            self.write(&p);
        }
    }
    fn flush(&mut self, cpu: CpuId) {
        let path = self.folder.join(format!("channel0_{}", cpu.0));
        let stream = &mut self.streams[cpu.index()];
        if stream.bytes.is_empty() {
            return;
        }
        let bits = stream.bytes.len() as u64 * 8;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&0u32.to_le_bytes());
        for number in [stream.began, stream.last, bits, bits, stream.lost] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.extend_from_slice(&cpu.0.to_le_bytes());
        stream.bytes[..HEAD].copy_from_slice(&head);
        // Opened for each packet, since a machine may have more CPUs than a process may open files.
        let written = OpenOptions::new().create(true).append(true).open(path);
        let written = written.and_then(|mut file: File| file.write_all(&stream.bytes));
        stream.bytes.clear();
        if self.failed.is_none() {
            self.failed = written.err();
        }
    }

    fn tid(&self, task: Option<TaskId>) -> i32 {
        task.map_or(0, |t| self.cast.tid(t)) as i32
    }
    fn pid(&self, task: Option<TaskId>) -> i32 {
        let actor = task.and_then(|t| self.cast.of(t));
        actor.filter(|a| a.process != 0).map_or_else(|| self.tid(task), |a| a.process as i32)
    }
    fn prio(&self, task: Option<TaskId>) -> i32 {
        self.cast.prio(task)
    }
    fn comm(&self, task: Option<TaskId>, cpu: CpuId) -> String {
        task.map_or_else(|| format!("swapper/{}", cpu.0), |t| self.cast.name(t))
    }

    fn write(&mut self, p: &Tracepoint) {
        let who = |ctf: &Ctf<'_>, task| (ctf.comm(task, p.cpu), ctf.tid(task), ctf.prio(task));
        match p.point {
            Point::Switch { prev, state, next } => {
                let state = if prev.is_some() { state } else { Left::Runnable };
                let (leaves, comes) = (who(self, prev), who(self, next));
                let mut out = self.begin(p.at, p.cpu, Id::Switch);
                out.who(&leaves);
                out.i64(state.bits());
                out.who(&comes);
            }
            Point::Waking { task, target, .. } => self.woken(p, Id::Waking, task, target),
            Point::Wakeup { task, target, new: false } => self.woken(p, Id::Wakeup, task, target),
            Point::Wakeup { task, target, new: true } => self.woken(p, Id::WakeupNew, task, target),
            Point::Migrate { task, from, to } => {
                let told = who(self, Some(task));
                let mut out = self.begin(p.at, p.cpu, Id::Migrate);
                out.who(&told);
                out.i32(from.0 as i32);
                out.i32(to.0 as i32);
            }
            Point::NewTask { task } => {
                let of = |ctf: &Ctf<'_>, task| (ctf.comm(task, p.cpu), ctf.tid(task), ctf.pid(task));
                let (parent, child) = (of(self, p.current), of(self, Some(task)));
                let mut out = self.begin(p.at, p.cpu, Id::Fork);
                out.who(&parent);
                out.who(&child);
            }
            Point::Exit { task } => {
                let told = who(self, Some(task));
                self.begin(p.at, p.cpu, Id::Exit).who(&told);
            }
            Point::Idle { state } => {
                let mut out = self.begin(p.at, p.cpu, Id::Idle);
                out.u32(state.map_or(u32::MAX, u32::from));
                out.u32(p.cpu.0);
            }
        }
    }
    fn woken(&mut self, p: &Tracepoint, id: Id, task: TaskId, target: CpuId) {
        let told = (self.cast.name(task), self.tid(Some(task)), self.prio(Some(task)));
        let mut out = self.begin(p.at, p.cpu, id);
        out.who(&told);
        out.i32(target.0 as i32);
    }

    /// Writes facts that no tracepoint reports.
    fn mark(&mut self, event: &Event) {
        let (at, cpu) = (event.at, event.cpu);
        match event.kind {
            EventKind::Placed { task, target, reason, probes } => {
                let (name, tid) = (self.cast.name(task), self.tid(Some(task)));
                let mut out = self.start(at, cpu, Id::Placed);
                out.text(&name);
                out.i32(tid);
                out.i32(target.0 as i32);
                out.text(reason.name());
                out.u16(probes);
            }
            EventKind::Switch { prev: Some(prev), why, next }
                if points::is_untold(why) && next != Some(prev) =>
            {
                let (name, tid) = (self.cast.name(prev), self.tid(Some(prev)));
                let mut out = self.start(at, cpu, Id::GaveWay);
                out.text(&name);
                out.i32(tid);
                out.text(why.name());
            }
            EventKind::Balance { level, trigger, why, moved, visited, took_ns, src } => {
                let mut out = self.start(at, cpu, Id::Balance);
                out.text(trigger.name());
                out.text(why.name());
                [u16::from(level), moved, visited].into_iter().for_each(|n| out.u16(n));
                out.u32(took_ns);
                out.i32(src.map_or(-1, |src| src.0 as i32));
            }
            EventKind::Skip { level, why, .. } => {
                let mut out = self.start(at, cpu, Id::Skip);
                out.text(why.name());
                out.u16(level.into());
            }
            EventKind::Kick { why, to } => {
                let mut out = self.start(at, cpu, Id::Kick);
                out.text(why.name());
                out.i32(to.map_or(-1, |to| to.0 as i32));
            }
            _ => {}
        }
    }
}

struct Fields<'a>(&'a mut Vec<u8>);

impl Fields<'_> {
    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    /// A NUL ends a text, so the text must not contain one.
    fn text(&mut self, text: &str) {
        self.0.extend(text.bytes().filter(|b| *b != 0));
        self.0.push(0);
    }
    /// A name and two numbers.
    fn who(&mut self, (name, a, b): &(String, i32, i32)) {
        self.text(name);
        self.i32(*a);
        self.i32(*b);
    }
}

impl Sink for Ctf<'_> {
    fn event(&mut self, event: &Event) {
        if self.failed.is_some() {
            return;
        }
        if let EventKind::Lost { count } = event.kind {
            // Readers attribute lost events to the gap between two packets.
            self.stream(event.cpu);
            self.flush(event.cpu);
            self.streams[event.cpu.index()].lost += u64::from(count);
            return;
        }
        if self.marks {
            self.mark(event);
        }
        for point in self.points.of(event) {
            if point.at > event.at {
                let held = &mut self.stream(point.cpu).held;
                let place = held.partition_point(|p| p.at <= point.at);
                held.insert(place, point);
            } else {
                self.release(point.cpu, point.at.0);
                self.write(&point);
            }
        }
        if self.streams.get(event.cpu.index()).is_some_and(|s| s.bytes.len() >= PACKET) {
            self.flush(event.cpu);
        }
    }
    fn wants_details(&self) -> bool {
        self.details
    }
}
