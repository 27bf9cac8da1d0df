//! Converts events and samples to bytes and back, block by block.

use super::Item;
use super::names::ReasonTables;
use crate::{DsqId, Event, EventKind};
use schedlab_base::cpuset::MAX_CPUS;
use schedlab_base::{CpuId, Ns, TaskId};

/// Numbers of the kinds in files. A number never changes its meaning.
mod kind {
    pub const SAMPLE: u8 = 0;
    pub const SWITCH: u8 = 1;
    pub const WAKING: u8 = 2;
    pub const PLACED: u8 = 3;
    pub const ENQUEUED: u8 = 4;
    pub const MIGRATE: u8 = 5;
    pub const FORKED: u8 = 6;
    pub const EXITED: u8 = 7;
    pub const IDLE_ENTER: u8 = 8;
    pub const IDLE_EXIT: u8 = 9;
    pub const BALANCE: u8 = 10;
    pub const SKIP: u8 = 11;
    pub const KICK: u8 = 12;
    pub const SCHEDULE: u8 = 13;
    pub const STAY: u8 = 14;
    pub const ALLOWED: u8 = 15;
    pub const LOST: u8 = 16;
    pub const DECIDED: u8 = 17;
}

#[derive(Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
    last: u64,
}

impl Encoder {
    /// Empties the block; times count from 0 again.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }
    #[inline]
    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
    #[inline]
    fn start(&mut self, kind: u8, at: Ns) {
        self.bytes.push(kind);
        let delta = at.0.wrapping_sub(self.last) as i64;
        self.last = at.0;
        self.put(((delta << 1) ^ (delta >> 63)) as u64);
    }
    #[inline]
    fn task(&mut self, task: Option<TaskId>) {
        self.put(task.map_or(0, |t| u64::from(t.0) + 1));
    }
    fn cpu(&mut self, cpu: Option<CpuId>) {
        self.put(cpu.map_or(0, |c| u64::from(c.0) + 1));
    }

    pub(super) fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.start(kind::SAMPLE, at);
        [task.0.into(), series.into(), value].into_iter().for_each(|n| self.put(n));
    }

    pub(super) fn event(&mut self, event: &Event) {
        let begin = |e: &mut Encoder, kind: u8| {
            e.start(kind, event.at);
            e.put(event.cpu.0.into());
        };
        match event.kind {
            EventKind::Switch { prev, next, why } => {
                begin(self, kind::SWITCH);
                self.task(prev);
                self.task(next);
                self.put(why as u64);
            }
            EventKind::Waking { task, waker } => {
                begin(self, kind::WAKING);
                self.put(task.0.into());
                self.task(waker);
            }
            EventKind::Placed { task, target, reason, probes } => {
                begin(self, kind::PLACED);
                let numbers = [task.0.into(), target.0.into(), reason as u64, probes.into()];
                numbers.into_iter().for_each(|n| self.put(n));
            }
            EventKind::Enqueued { task, nr_running, new } => {
                begin(self, kind::ENQUEUED);
                [task.0.into(), nr_running.into(), new.into()].into_iter().for_each(|n| self.put(n));
            }
            EventKind::Migrate { task, from, why } => {
                begin(self, kind::MIGRATE);
                [task.0.into(), from.0.into(), why as u64].into_iter().for_each(|n| self.put(n));
            }
            EventKind::Forked { task, parent } => {
                begin(self, kind::FORKED);
                self.put(task.0.into());
                self.task(parent);
            }
            EventKind::Exited { task } => {
                begin(self, kind::EXITED);
                self.put(task.0.into());
            }
            EventKind::Lost { count } => {
                begin(self, kind::LOST);
                self.put(count.into());
            }
            EventKind::IdleEnter { state } => {
                begin(self, kind::IDLE_ENTER);
                self.put(state.into());
            }
            EventKind::IdleExit { exit_ns } => {
                begin(self, kind::IDLE_EXIT);
                self.put(exit_ns.into());
            }
            EventKind::Balance { level, trigger, why, moved, visited, took_ns, src } => {
                begin(self, kind::BALANCE);
                let numbers =
                    [level.into(), trigger as u64, why as u64, moved.into(), visited.into(), took_ns.into()];
                numbers.into_iter().for_each(|n| self.put(n));
                self.cpu(src);
            }
            EventKind::Skip { level, why, have_ns, need_ns } => {
                begin(self, kind::SKIP);
                let numbers = [level.into(), why as u64, have_ns.into(), need_ns.into()];
                numbers.into_iter().for_each(|n| self.put(n));
            }
            EventKind::Kick { why, to } => {
                begin(self, kind::KICK);
                self.put(why as u64);
                self.cpu(to);
            }
            EventKind::Schedule { carries } => {
                begin(self, kind::SCHEDULE);
                self.put(carries.into());
            }
            EventKind::Decided { task, by, to, dsq } => {
                begin(self, kind::DECIDED);
                // A queue that is not known is 0.
                let numbers = [task.0.into(), by as u64, to as u64, dsq.number().wrapping_add(1)];
                numbers.into_iter().for_each(|n| self.put(n));
            }
            EventKind::Stay => begin(self, kind::STAY),
            EventKind::Allowed { task, mask } => {
                begin(self, kind::ALLOWED);
                self.put(task.0.into());
                self.put(mask.into());
            }
        }
    }
}

/// The error in a block.
pub(super) type Fault = &'static str;
const CUT: Fault = "an event is cut off";
/// Linux can't number more tasks (PID_MAX_LIMIT).
const MOST_TASKS: u32 = 1 << 22;
const TOO_LARGE: Fault = "a number is too large";

#[derive(Default)]
pub(super) struct Decoder {
    pub(super) bytes: Vec<u8>,
    /// Number of bytes read.
    pub(super) read: usize,
    last: u64,
}

impl Decoder {
    /// Begins a block, after the caller has filled `bytes`.
    pub(super) fn begin(&mut self) {
        self.read = 0;
        self.last = 0;
    }
    #[inline]
    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.read).ok_or(CUT)?;
        self.read += 1;
        Ok(byte)
    }
    #[inline]
    fn get(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(TOO_LARGE);
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(TOO_LARGE)
    }
    #[inline]
    fn number<N: TryFrom<u64>>(&mut self) -> Result<N, Fault> {
        N::try_from(self.get()?).map_err(|_| TOO_LARGE)
    }
    fn flag(&mut self) -> Result<bool, Fault> {
        match self.get()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag is neither 0 nor 1"),
        }
    }
    #[inline]
    fn at(&mut self) -> Result<Ns, Fault> {
        let coded = self.get()?;
        let delta = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        self.last = self.last.wrapping_add(delta as u64);
        Ok(Ns(self.last))
    }
    #[inline]
    fn optional_number(&mut self) -> Result<Option<u32>, Fault> {
        let number = self.get()?;
        let less_one = number.checked_sub(1).map(u32::try_from).transpose();
        less_one.map_err(|_| TOO_LARGE)
    }
    #[inline]
    fn task(&mut self) -> Result<TaskId, Fault> {
        self.below(MOST_TASKS).map(TaskId)
    }
    #[inline]
    fn cpu(&mut self) -> Result<CpuId, Fault> {
        self.below(MAX_CPUS).map(CpuId)
    }
    /// A number below `limit`. Readers size lists by such numbers, so a wrong one must not allocate memory.
    #[inline]
    fn below(&mut self, limit: u32) -> Result<u32, Fault> {
        self.number().and_then(|n| if n < limit { Ok(n) } else { Err(TOO_LARGE) })
    }
    fn maybe_task(&mut self) -> Result<Option<TaskId>, Fault> {
        let task = self.optional_number()?.map(TaskId);
        if task.is_some_and(|t| t.0 >= MOST_TASKS) { Err(TOO_LARGE) } else { Ok(task) }
    }
    fn maybe_cpu(&mut self) -> Result<Option<CpuId>, Fault> {
        let cpu = self.optional_number()?.map(CpuId);
        if cpu.is_some_and(|c| c.0 >= MAX_CPUS) { Err(TOO_LARGE) } else { Ok(cpu) }
    }
    #[inline]
    fn reason<R: Copy>(&mut self, known: &[Option<R>]) -> Result<R, Fault> {
        let number: usize = self.number()?;
        match known.get(number) {
            Some(Some(reason)) => Ok(*reason),
            Some(None) => Err("a reason that this version does not know"),
            None => Err("a reason that the file's header does not name"),
        }
    }

    /// The next item in the block; `None` at its end.
    pub(super) fn next(&mut self, known: &ReasonTables) -> Result<Option<Item>, Fault> {
        if self.read == self.bytes.len() {
            return Ok(None);
        }
        let kind = self.byte()?;
        let at = self.at()?;
        if kind == kind::SAMPLE {
            let (task, series, value) = (self.task()?, self.number()?, self.get()?);
            return Ok(Some(Item::Sample { at, task, series, value }));
        }
        let cpu = self.cpu()?;
        let kind = self.fields(kind, known)?;
        Ok(Some(Item::Event(Event { at, cpu, kind })))
    }

    // Rust evaluates these expressions in order, so fields are read in the order of the text.
    fn fields(&mut self, kind: u8, known: &ReasonTables) -> Result<EventKind, Fault> {
        Ok(match kind {
            kind::SWITCH => EventKind::Switch {
                prev: self.maybe_task()?,
                next: self.maybe_task()?,
                why: self.reason(&known.switch)?,
            },
            kind::WAKING => EventKind::Waking { task: self.task()?, waker: self.maybe_task()? },
            kind::PLACED => EventKind::Placed {
                task: self.task()?,
                target: self.cpu()?,
                reason: self.reason(&known.place)?,
                probes: self.number()?,
            },
            kind::ENQUEUED => {
                EventKind::Enqueued { task: self.task()?, nr_running: self.number()?, new: self.flag()? }
            }
            kind::MIGRATE => EventKind::Migrate {
                task: self.task()?,
                from: self.cpu()?,
                why: self.reason(&known.migrate)?,
            },
            kind::FORKED => EventKind::Forked { task: self.task()?, parent: self.maybe_task()? },
            kind::EXITED => EventKind::Exited { task: self.task()? },
            kind::LOST => EventKind::Lost { count: self.number()? },
            kind::IDLE_ENTER => EventKind::IdleEnter { state: self.number()? },
            kind::IDLE_EXIT => EventKind::IdleExit { exit_ns: self.number()? },
            kind::BALANCE => EventKind::Balance {
                level: self.number()?,
                trigger: self.reason(&known.trigger)?,
                why: self.reason(&known.balance)?,
                moved: self.number()?,
                visited: self.number()?,
                took_ns: self.number()?,
                src: self.maybe_cpu()?,
            },
            kind::SKIP => EventKind::Skip {
                level: self.number()?,
                why: self.reason(&known.skip)?,
                have_ns: self.number()?,
                need_ns: self.number()?,
            },
            kind::KICK => EventKind::Kick { why: self.reason(&known.kick)?, to: self.maybe_cpu()? },
            kind::SCHEDULE => EventKind::Schedule { carries: self.flag()? },
            kind::DECIDED => EventKind::Decided {
                task: self.task()?,
                by: self.reason(&known.ext_op)?,
                to: self.reason(&known.ext_queue)?,
                dsq: DsqId::new(self.get()?.wrapping_sub(1)),
            },
            kind::STAY => EventKind::Stay,
            kind::ALLOWED => EventKind::Allowed { task: self.task()?, mask: self.number()? },
            _ => return Err("an event of a kind that this version does not know"),
        })
    }
}
