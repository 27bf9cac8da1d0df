//! A note of the image, decoded: the fields of `struct img_note` mean other things in each kind, and nobody behind this
//! file reads them. What no image writes is a [`Malformed`] note.
//!
//! Pointers stay closed: only the image's methods follow them, and only this file makes them.

use crate::abi::{NEVER, RawChoice, RawJudged, RawNote, finding, kind, wakee};
use crate::verbs::Verb;
use schedlab_base::{CpuId, Error};
use schedlab_trace::{DsqId, ExtOp, ExtQueue};
use std::ffi::c_char;

/// One thing that kernel code did. `on` is the CPU that it concerns, not always the one that was entered; tasks are
/// named by pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The CPU's clock event device is to fire at that time of the kernel's clock; `None`: it is off.
    Timer { on: CpuId, at: Option<u64> },
    /// A reschedule interrupt was sent.
    Resched { on: CpuId },
    /// A call-function interrupt was sent.
    Call { on: CpuId },
    /// `sched_switch`.
    Switch(Switched),
    /// `sched_waking`; `by`: the waker, or none where an interrupt wakes.
    Waking { pid: i32, by: Option<i32>, was: Wakee },
    /// `sched_wakeup` and `sched_wakeup_new`: it is queued.
    Wakeup(Queued),
    /// `sched_migrate_task`; `ext`: the task is of sched_ext.
    Migrate { pid: i32, from: CpuId, to: CpuId, ext: bool },
    /// `sched_process_fork`.
    Fork { pid: i32, parent: i32 },
    /// The task is gone.
    Exit { pid: i32 },
    /// Passes of `load_balance()` of one kind and domain.
    Balance(Balanced),
    /// The CPU enters an idle state; `polls_until`: it looks at its flag, so long at most.
    Idle { on: CpuId, state: u8, polls_until: Option<u64> },
    /// `sched_wake_idle_without_ipi`: the CPU, which polls, is to look at its flag.
    NoIpi { on: CpuId },
    /// A message.
    Printk(Message),
    /// A tick was handled.
    Tick { on: CpuId },
    /// What no kernel may do.
    Found(Found),
    /// A class chose a CPU for a task; `ext`: that of sched_ext, with whether the CPU is idle.
    Chose { pid: i32, cpu: CpuId, state: ChoiceAt, ext: Option<bool> },
    /// A sched_ext scheduler, or the kernel for it, has decided about a task.
    Step(Step),
    /// A current task is to give way, or not.
    Judged(Judged),
    /// The CPU, which has waited for a lock, gets it at that time of the kernel's clock.
    Grant { on: CpuId, at: u64 },
    /// An entity of a queue was picked, on the way to task `pid`.
    Picked { on: CpuId, pid: i32, queue: QueueAt },
}

/// A CPU has another current task; pid 0 is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switched {
    pub on: CpuId,
    pub prev: i32,
    pub next: i32,
    /// `prev_state` as the tracepoint has it.
    pub state: u64,
    pub preempted: bool,
    /// It is in `sched_yield()`.
    pub yields: bool,
    /// Its group is throttled.
    pub throttled: bool,
    /// It is of sched_ext, and had nothing left of its slice.
    pub slice_over: bool,
}

/// A decision of a sched_ext scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub on: CpuId,
    /// `None`: it is about no task, but for the one whose CPU it takes.
    pub pid: Option<i32>,
    pub by: ExtOp,
    pub to: ExtQueue,
    pub dsq: DsqId,
    /// The CPU whose current task is to give way.
    pub preempts: Option<CpuId>,
}

/// What a task was when it was about to be woken (`enum img_wakee`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wakee {
    pub queued: bool,
    /// It is not off its CPU yet.
    pub on_cpu: bool,
    /// It may run on one CPU only, so that no class is asked.
    pub pinned: bool,
}

/// A task was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    pub on: CpuId,
    pub pid: i32,
    pub nr_running: u16,
    pub is_new: bool,
    /// The CPU's current task is to give way now.
    pub gives_way: bool,
}

/// Passes of balancing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balanced {
    pub on: CpuId,
    pub idle: BalanceIdle,
    /// The domain's level, and its CPUs.
    pub level: u64,
    pub cpus: u64,
    pub passes: u64,
    /// Tasks that came.
    pub gained: u64,
}

/// What a CPU was as it balanced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalanceIdle {
    Idle,
    Busy,
    NewlyIdle,
}

/// A message of the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// WARN or an error's message.
    pub is_warning: bool,
    pub text: TextAt,
    pub calls: CallsAt,
}

/// What `shim/image/audit.c` has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// [`finding`].
    pub kind: u16,
    pub on: CpuId,
    pub pid: i32,
    /// As `enum img_finding` says it.
    pub value: u64,
    /// The verb that ran; `None`: another one than those that may be left.
    pub verb: Option<Verb>,
    pub calls: CallsAt,
}

/// A preemption check, or a tick that has asked for the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    pub on: CpuId,
    /// The task that was queued; `None`: a tick.
    pub arrived: Option<i32>,
    pub current: i32,
    /// The current task was to give way before; it is to afterwards.
    pub before: bool,
    pub after: bool,
    pub queue: QueueAt,
}

/// Declares closed pointers into the image. The image alone makes them, and says how long they hold.
macro_rules! pointers {
    ($($(#[$doc:meta])* $name:ident($type:ty);)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(*const $type);
        impl $name {
            fn of(word: u64) -> $name {
                $name(word as *const $type)
            }
            /// Null where nothing was kept.
            pub(crate) fn pointer(self) -> *const $type {
                self.0
            }
        })*
    };
}

pointers! {
    /// A text that ends with a zero and is not freed.
    TextAt(c_char);
    /// Addresses of calls, innermost first, with a zero behind them. They are not freed.
    CallsAt(usize);
    /// The state of a choice, until the notes are forgotten.
    ChoiceAt(RawChoice);
    /// The queue of a check or a pick, until the notes are forgotten.
    QueueAt(RawJudged);
}

/// A note that no image of this interface writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    Kind(u16),
    /// A field of a kind has a value that it can't have.
    Field {
        kind: u16,
        name: &'static str,
        value: u64,
    },
}

impl From<Malformed> for Error {
    fn from(wrong: Malformed) -> Error {
        Error::internal(match wrong {
            Malformed::Kind(kind) => format!("the image wrote a note of kind {kind}, which is not known"),
            Malformed::Field { kind, name, value } => {
                format!("the image wrote a note of kind {kind} with {name} {value}, which can't be")
            }
        })
    }
}

/// A note's fields, with their bounds.
struct Fields<'n> {
    raw: &'n RawNote,
    nr_cpus: usize,
}

impl Fields<'_> {
    fn wrong(&self, name: &'static str, value: u64) -> Malformed {
        Malformed::Field { kind: self.raw.kind, name, value }
    }
    fn flag(&self, bit: u16) -> bool {
        self.raw.flags & bit != 0
    }
    fn cpu(&self, name: &'static str, number: u64) -> Result<CpuId, Malformed> {
        let cpu = usize::try_from(number).ok().filter(|cpu| *cpu < self.nr_cpus);
        cpu.map(CpuId::from).ok_or_else(|| self.wrong(name, number))
    }
    fn on(&self) -> Result<CpuId, Malformed> {
        self.cpu("CPU", self.raw.cpu.into())
    }
    /// A number that is not negative, in a field that is signed.
    fn number(&self, name: &'static str, value: i32) -> Result<u64, Malformed> {
        u64::try_from(value).map_err(|_| self.wrong(name, value as u64))
    }
    fn pid(&self, name: &'static str, value: i32) -> Result<i32, Malformed> {
        self.number(name, value).map(|_| value)
    }
    fn pointer(&self, name: &'static str, word: u64) -> Result<u64, Malformed> {
        if word == 0 { Err(self.wrong(name, word)) } else { Ok(word) }
    }
    fn verb(&self) -> Result<Option<Verb>, Malformed> {
        let known = |n| Verb::numbered(n).ok_or_else(|| self.wrong("verb", self.raw.other as u64));
        usize::try_from(self.raw.other).ok().map(known).transpose()
    }
    fn balance(&self) -> Result<Balanced, Malformed> {
        let idle = match self.raw.flags {
            0 => BalanceIdle::Idle,
            1 => BalanceIdle::Busy,
            2 => BalanceIdle::NewlyIdle,
            other => return Err(self.wrong("idleness", other.into())),
        };
        Ok(Balanced {
            on: self.on()?,
            idle,
            level: self.raw.value,
            cpus: self.number("CPUs", self.raw.other)?,
            passes: self.raw.at,
            gained: self.number("tasks", self.raw.pid)?,
        })
    }
    fn found(&self) -> Result<Found, Malformed> {
        let kind = self.raw.flags;
        if !(finding::LOST_TASK..=finding::NOT_ON_CPU).contains(&kind) {
            return Err(self.wrong("finding", kind.into()));
        }
        let (pid, value) = (self.pid("task", self.raw.pid)?, self.raw.value);
        let calls = CallsAt::of(self.raw.at);
        Ok(Found { kind, on: self.on()?, pid, value, verb: self.verb()?, calls })
    }
    fn switch(&self) -> Result<Switched, Malformed> {
        Ok(Switched {
            on: self.on()?,
            prev: self.pid("task", self.raw.pid)?,
            next: self.pid("next task", self.raw.other)?,
            state: self.raw.value,
            preempted: self.flag(1),
            yields: self.flag(2),
            throttled: self.flag(4),
            slice_over: self.flag(8),
        })
    }
    fn step(&self) -> Result<Step, Malformed> {
        let (by, to) = (usize::from(self.raw.flags & 15), usize::from(self.raw.flags >> 4 & 15));
        let wrong = || self.wrong("decision", self.raw.flags.into());
        let (by, to) = (ExtOp::ALL.get(by).ok_or_else(wrong)?, ExtQueue::ALL.get(to).ok_or_else(wrong)?);
        let is_of_cpu = matches!(to, ExtQueue::Local | ExtQueue::Kicked);
        let of =
            if self.raw.other < 0 { None } else { Some(self.cpu("queue's CPU", self.raw.other as u64)?) };
        Ok(Step {
            on: self.on()?,
            pid: Some(self.pid("task", self.raw.pid)?).filter(|pid| *pid != 0),
            by: *by,
            to: *to,
            dsq: match of {
                Some(cpu) => DsqId::new(cpu.0.into()),
                None if is_of_cpu => DsqId::UNKNOWN,
                None => DsqId::new(self.raw.value),
            },
            preempts: of.filter(|_| self.flag(1 << 8)),
        })
    }
    fn judged(&self) -> Result<Judged, Malformed> {
        Ok(Judged {
            on: self.on()?,
            arrived: Some(self.pid("task", self.raw.pid)?).filter(|pid| *pid != 0),
            current: self.pid("current task", self.raw.other)?,
            before: self.flag(1),
            after: self.flag(2),
            queue: QueueAt::of(self.raw.at),
        })
    }
}

impl Note {
    /// A note of a machine with so many CPUs.
    ///
    /// # Errors
    /// A kind that is not known, and a field beyond its bounds.
    pub fn decode(raw: &RawNote, nr_cpus: usize) -> Result<Note, Malformed> {
        let of = Fields { raw, nr_cpus };
        let wakee = |bit| raw.value & bit != 0;
        let pid = || of.pid("task", raw.pid);
        Ok(match raw.kind {
            kind::TIMER => Note::Timer { on: of.on()?, at: Some(raw.at).filter(|at| *at != NEVER) },
            kind::IPI_RESCHED => Note::Resched { on: of.on()? },
            kind::IPI_CALL => Note::Call { on: of.on()? },
            kind::SWITCH => Note::Switch(of.switch()?),
            kind::WAKING => Note::Waking {
                pid: pid()?,
                by: if of.flag(1) { None } else { Some(of.pid("waker", raw.other)?) },
                was: Wakee {
                    queued: wakee(wakee::QUEUED),
                    on_cpu: wakee(wakee::ON_CPU),
                    pinned: wakee(wakee::PINNED),
                },
            },
            kind::WAKEUP => Note::Wakeup(Queued {
                on: of.on()?,
                pid: pid()?,
                nr_running: u16::try_from(raw.value).unwrap_or(u16::MAX),
                is_new: of.flag(1),
                gives_way: of.flag(2),
            }),
            kind::MIGRATE => {
                let from = of.cpu("first CPU", raw.value)?;
                Note::Migrate { pid: pid()?, from, to: of.on()?, ext: of.flag(1) }
            }
            kind::FORK => Note::Fork { pid: pid()?, parent: of.pid("parent", raw.other)? },
            kind::EXIT => Note::Exit { pid: pid()? },
            kind::BALANCE => Note::Balance(of.balance()?),
            kind::IDLE => Note::Idle {
                on: of.on()?,
                state: u8::try_from(raw.value).map_err(|_| of.wrong("state", raw.value))?,
                polls_until: Some(raw.at).filter(|_| of.flag(2)),
            },
            kind::NO_IPI => Note::NoIpi { on: of.on()? },
            kind::PRINTK => Note::Printk(Message {
                is_warning: of.flag(1),
                text: TextAt::of(of.pointer("text", raw.value)?),
                calls: CallsAt::of(raw.at),
            }),
            kind::TICK => Note::Tick { on: of.on()? },
            kind::FOUND => Note::Found(of.found()?),
            kind::CHOSE => Note::Chose {
                pid: pid()?,
                cpu: of.cpu("chosen CPU", raw.other as u64)?,
                state: ChoiceAt::of(of.pointer("state", raw.at)?),
                ext: of.flag(1).then(|| of.flag(2)),
            },
            kind::STEP => Note::Step(of.step()?),
            kind::JUDGED => Note::Judged(of.judged()?),
            kind::GRANT => Note::Grant { on: of.on()?, at: raw.at },
            kind::PICKED => {
                let queue = QueueAt::of(of.pointer("queue", raw.at)?);
                Note::Picked { on: of.on()?, pid: pid()?, queue }
            }
            other => return Err(Malformed::Kind(other)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: RawNote =
        RawNote { kind: 0, flags: 0, cpu: 3, pid: 7, other: 0, at: 0, value: 0, after_ns: 0 };

    #[test]
    fn a_field_means_what_its_kind_says() {
        let of = |raw: RawNote| Note::decode(&raw, 4).unwrap();
        let on = CpuId(3);
        assert_eq!(of(RawNote { kind: kind::TIMER, at: NEVER, ..RAW }), Note::Timer { on, at: None });
        let passes = RawNote { kind: kind::BALANCE, flags: 2, at: 5, value: 1, other: 4, ..RAW };
        let newly = Balanced { on, idle: BalanceIdle::NewlyIdle, level: 1, cpus: 4, passes: 5, gained: 7 };
        assert_eq!(of(passes), Note::Balance(newly));
        let by_irq = RawNote { kind: kind::WAKING, flags: 1, value: wakee::PINNED, ..RAW };
        let was = Wakee { queued: false, on_cpu: false, pinned: true };
        assert_eq!(of(by_irq), Note::Waking { pid: 7, by: None, was });
        let taken = RawNote { kind: kind::STEP, flags: 3 | 1 << 8, other: 2, value: 9, ..RAW };
        let step = Step {
            on,
            pid: Some(7),
            by: ExtOp::Dispatch,
            to: ExtQueue::Local,
            dsq: DsqId::new(2),
            preempts: Some(CpuId(2)),
        };
        assert_eq!(of(taken), Note::Step(step));
        let user = RawNote { flags: 2 | 2 << 4, other: -1, ..taken };
        assert!(matches!(of(user), Note::Step(Step { to: ExtQueue::User, dsq, .. }) if dsq.number() == 9));
        let tick = RawNote { kind: kind::JUDGED, flags: 2, pid: 0, other: 7, ..RAW };
        assert!(matches!(of(tick), Note::Judged(Judged { arrived: None, before: false, after: true, .. })));
    }

    #[test]
    fn what_no_image_writes_is_refused_with_its_field() {
        let wrong = |raw: RawNote| Error::from(Note::decode(&raw, 4).unwrap_err()).to_string();
        assert!(wrong(RAW).contains("kind 0, which is not known"), "{}", wrong(RAW));
        for (raw, field) in [
            (RawNote { kind: kind::NO_IPI, cpu: 4, ..RAW }, "CPU 4"),
            (RawNote { kind: kind::MIGRATE, value: 9, ..RAW }, "first CPU 9"),
            (RawNote { kind: kind::BALANCE, flags: 3, ..RAW }, "idleness 3"),
            (RawNote { kind: kind::FOUND, flags: 12, ..RAW }, "finding 12"),
            (RawNote { kind: kind::FOUND, flags: 1, other: 99, ..RAW }, "verb 99"),
            (RawNote { kind: kind::PRINTK, ..RAW }, "text 0"),
            (RawNote { kind: kind::CHOSE, other: -1, at: 8, ..RAW }, "chosen CPU"),
            (RawNote { kind: kind::EXIT, pid: -2, ..RAW }, "task"),
            (RawNote { kind: kind::IDLE, value: 256, ..RAW }, "state 256"),
            (RawNote { kind: kind::STEP, flags: 7, ..RAW }, "decision 7"),
            (RawNote { kind: kind::STEP, other: 4, ..RAW }, "queue's CPU 4"),
        ] {
            assert!(wrong(raw).contains(field), "{}: {field}", wrong(raw));
        }
    }
}
