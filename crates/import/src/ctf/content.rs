//! Reads the content of an event by the names of LTTng's kernel tracer. Its fields may come from the bits of a packet,
//! or from babeltrace's text.

use super::bits::{Scope, Value};
use crate::sched_record::{Comm, MAX_CPUS, MAX_THREADS, RecordKind, SchedRecord, Thread, UNKNOWN_PROCESS};
use crate::states::States;
use crate::{Importer, KnownThread};
use schedlab_trace::SwitchReason;

pub(crate) trait EventFields {
    fn number(&self, name: &str) -> Option<i64>;
    fn text(&self, name: &str) -> Option<&[u8]>;
}

impl EventFields for Scope<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        Scope::number(self, name)
    }
    fn text(&self, name: &str) -> Option<&[u8]> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }
}

/// State from earlier events that is needed to read the next one.
pub(crate) struct Content {
    states: States,
    /// The thread that runs on each CPU, by its last switch.
    running: Vec<u32>,
}

impl Content {
    pub fn new(states: States) -> Content {
        Content { states, running: Vec::new() }
    }

    pub fn give(
        &mut self,
        name: &str,
        fields: &impl EventFields,
        (at_ns, cpu): (u64, u32),
        importer: &mut Importer<'_>,
    ) {
        let at = cpu as usize;
        if at >= self.running.len() {
            self.running.resize(at + 1, 0);
        }
        let current = self.running[at];
        let Some(what) = content(name, fields, current, &mut self.states) else {
            let at = importer.records() + 1;
            return importer.losses.unreadable(at);
        };
        match &what {
            RecordKind::Switch { next, .. } => self.running[at] = next.tid,
            RecordKind::Fork { child, .. } => {
                if let Some(process) = fields.number("child_pid").and_then(thread) {
                    importer.introduce(child.tid, KnownThread { process, ..KnownThread::default() });
                }
            }
            _ => {}
        }
        let current = match &what {
            RecordKind::Switch { prev, .. } => prev.tid,
            _ => current,
        };
        importer.record(SchedRecord { at_ns, cpu, current, process: UNKNOWN_PROCESS, what });
    }
}

fn thread(number: i64) -> Option<u32> {
    u32::try_from(number).ok().filter(|n| *n < MAX_THREADS)
}

/// The content of an event; `None` if fields are missing or malformed.
fn content(name: &str, scope: &impl EventFields, current: u32, states: &mut States) -> Option<RecordKind> {
    let who = |comm: &str, tid: &str, prio: &str| -> Option<Thread> {
        let comm = scope.text(comm).map_or(Comm::default(), Comm::of);
        let prio = scope.number(prio).and_then(|n| i32::try_from(n).ok());
        Some(Thread { tid: thread(scope.number(tid)?)?, comm, prio })
    };
    let cpu = |name: &str| u32::try_from(scope.number(name)?).ok().filter(|cpu| *cpu < MAX_CPUS);
    let waker = Thread { tid: current, ..Thread::default() };
    let woken = || who("comm", "tid", "prio");
    Some(match name {
        "sched_switch" => {
            let prev = who("prev_comm", "prev_tid", "prev_prio")?;
            let why = match prev.tid {
                0 => SwitchReason::FromIdle,
                _ => states.ended_by(scope.number("prev_state")? as u64),
            };
            RecordKind::Switch { prev, next: who("next_comm", "next_tid", "next_prio")?, why }
        }
        "sched_waking" => RecordKind::Waking { thread: woken()?, waker, cpu: cpu("target_cpu")? },
        "sched_wakeup" | "sched_wakeup_new" => {
            // Kernels before 4.3 also report wakeups that woke nobody.
            let new = name == "sched_wakeup_new";
            RecordKind::Queued { thread: woken()?, waker, cpu: cpu("target_cpu")?, new }
        }
        "sched_migrate_task" => {
            RecordKind::Migrate { thread: woken()?, from: cpu("orig_cpu")?, to: cpu("dest_cpu")? }
        }
        "sched_process_fork" => RecordKind::Fork {
            parent: who("parent_comm", "parent_tid", "")?,
            child: who("child_comm", "child_tid", "")?,
            own_process: None,
        },
        _ => RecordKind::Exit { thread: woken()? },
    })
}
