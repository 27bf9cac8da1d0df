//! The fields of the scheduler's tracepoints, by the layouts that a file holds.

use super::format::{Format, Place};
use crate::sched_record::{CLONE_THREAD, Comm, IN_INTERRUPT, MAX_CPUS, MAX_THREADS, RecordKind, Thread};
use crate::states::States;
use schedlab_base::{Error, Result};
use schedlab_trace::SwitchReason;

/// The places of a thread's number, name and priority.
struct Who {
    tid: Place,
    comm: Option<Place>,
    prio: Option<Place>,
}

impl Who {
    fn of(f: &Format, tid: &str, comm: &str, prio: &str) -> Result<Who> {
        Ok(Who { tid: f.number(tid)?, comm: f.any(comm).ok(), prio: f.number(prio).ok() })
    }
    #[inline]
    fn read(&self, record: &[u8]) -> Option<Thread> {
        let tid = self.tid.small(record).filter(|tid| *tid < MAX_THREADS)?;
        let comm = self.comm.and_then(|c| c.text(record)).map_or(Comm::default(), Comm::of);
        let prio = self.prio.and_then(|p| p.small(record)).map(|p| p as i32);
        Some(Thread { tid, comm, prio })
    }
}

/// How a tracepoint's record is read.
enum Reader {
    Switch { prev: Who, state: Place, states: States, next: Who },
    Waking { who: Who, cpu: Option<Place> },
    Wakeup { who: Who, cpu: Place, new: bool },
    Migrate { who: Who, from: Place, to: Place },
    Fork { parent: Who, child: Who },
    NewTask { child: Who, flags: Place },
    Exit { who: Who },
    Rename { who: Who },
}

impl Reader {
    fn of(name: &str, f: &Format) -> Result<Option<Reader>> {
        Ok(Some(match name {
            "sched_switch" => Reader::Switch {
                prev: Who::of(f, "prev_pid", "prev_comm", "prev_prio")?,
                state: f.number("prev_state")?,
                states: f.states,
                next: Who::of(f, "next_pid", "next_comm", "next_prio")?,
            },
            "sched_waking" => {
                Reader::Waking { who: Who::of(f, "pid", "comm", "prio")?, cpu: f.number("target_cpu").ok() }
            }
            "sched_wakeup" | "sched_wakeup_new" => Reader::Wakeup {
                who: Who::of(f, "pid", "comm", "prio")?,
                cpu: f.number("target_cpu")?,
                new: name == "sched_wakeup_new",
            },
            "sched_migrate_task" => Reader::Migrate {
                who: Who::of(f, "pid", "comm", "prio")?,
                from: f.number("orig_cpu")?,
                to: f.number("dest_cpu")?,
            },
            "sched_process_fork" => Reader::Fork {
                parent: Who::of(f, "parent_pid", "parent_comm", "")?,
                child: Who::of(f, "child_pid", "child_comm", "")?,
            },
            "task_newtask" => {
                Reader::NewTask { child: Who::of(f, "pid", "comm", "")?, flags: f.number("clone_flags")? }
            }
            "sched_process_exit" => Reader::Exit { who: Who::of(f, "pid", "comm", "prio")? },
            // Since 6.14 it does not report which thread was renamed.
            "task_rename" if f.number("pid").is_ok() => {
                Reader::Rename { who: Who::of(f, "pid", "newcomm", "")? }
            }
            _ => return Ok(None),
        }))
    }
}

pub struct Tracepoints {
    kind: Place,
    flags: Place,
    current: Place,
    /// Readers, by the tracepoint's number.
    readers: Vec<Option<Reader>>,
}

pub enum Record {
    /// A record of the scheduler: the thread that ran, and the content.
    Event(u32, RecordKind),
    /// A record of another tracepoint.
    Other,
    /// A record of the scheduler that can't be read.
    Unreadable,
}

impl Tracepoints {
    /// The readers for these formats.
    ///
    /// # Errors
    /// When sched_switch or a needed field is missing.
    pub fn of(formats: &[Format]) -> Result<Tracepoints> {
        let switch = formats.iter().find(|f| f.name() == "sched_switch").ok_or_else(|| {
            Error::input("the recording has no sched_switch")
                .help("record it: perf sched record, or trace-cmd record -e sched")
        })?;
        let mut readers: Vec<Option<Reader>> = Vec::new();
        for f in formats {
            let at = usize::from(f.id);
            if at >= readers.len() {
                readers.resize_with(at + 1, || None);
            }
            readers[at] = Reader::of(f.name(), f)?;
        }
        Ok(Tracepoints {
            kind: switch.number("common_type")?,
            flags: switch.number("common_flags")?,
            current: switch.number("common_pid")?,
            readers,
        })
    }

    #[inline]
    pub fn read(&self, record: &[u8]) -> Record {
        let Some(kind) = self.kind.number(record) else { return Record::Unreadable };
        let Some(reader) = self.readers.get(kind as usize).and_then(Option::as_ref) else {
            return Record::Other;
        };
        let current = self.current.small(record).filter(|tid| *tid < MAX_THREADS).unwrap_or(0);
        self.content(reader, record, current).map_or(Record::Unreadable, |what| Record::Event(current, what))
    }

    #[inline]
    fn content(&self, reader: &Reader, record: &[u8], current: u32) -> Option<RecordKind> {
        let cpu = |place: &Place| place.small(record).filter(|cpu| *cpu < MAX_CPUS);
        let nameless = |tid| Thread { tid, comm: Comm::default(), prio: None };
        let waker = || {
            let interrupt = self.flags.number(record)? & IN_INTERRUPT != 0;
            Some(nameless(if interrupt { 0 } else { current }))
        };
        Some(match reader {
            Reader::Switch { prev, state, states, next } => {
                let (prev, next) = (prev.read(record)?, next.read(record)?);
                let bits = state.number(record)?;
                let why = if prev.tid == 0 { SwitchReason::FromIdle } else { states.reason(bits) };
                RecordKind::Switch { prev, next, why }
            }
            Reader::Waking { who, cpu: target } => {
                let waker = waker()?;
                let cpu = target.as_ref().and_then(cpu)?;
                RecordKind::Waking { thread: who.read(record)?, waker, cpu }
            }
            Reader::Wakeup { who, cpu: target, new } => RecordKind::Queued {
                thread: who.read(record)?,
                waker: waker()?,
                cpu: cpu(target)?,
                new: *new,
            },
            Reader::Migrate { who, from, to } => {
                RecordKind::Migrate { thread: who.read(record)?, from: cpu(from)?, to: cpu(to)? }
            }
            Reader::Fork { parent, child } => RecordKind::Fork {
                parent: parent.read(record)?,
                child: child.read(record)?,
                own_process: None,
            },
            Reader::NewTask { child, flags } => RecordKind::Fork {
                parent: nameless(current),
                child: child.read(record)?,
                own_process: Some(flags.number(record)? & CLONE_THREAD == 0),
            },
            Reader::Exit { who } => RecordKind::Exit { thread: who.read(record)? },
            Reader::Rename { who } => RecordKind::Rename { thread: who.read(record)? },
        })
    }
}
