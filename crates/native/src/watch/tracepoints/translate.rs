//! Translates the kernel's records into the analyser's events: threads become tasks, and CPUs get the machine's
//! numbers.
//!
//! Tasks of the workload are known by their thread ids, which they report themselves. Every other thread becomes a task
//! of the machine when it first appears, and a new task when its id is reused.

use super::layout::TracepointKind;
use super::ring::TimedRecord;
use schedlab_analyse::background::Activity;
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Event, EventKind, MoveReason, Sink};
use std::collections::{BTreeMap, BTreeSet};

/// Receives the events, and assigns ids to undeclared tasks.
pub trait Audience: Sink {
    fn meet(&mut self, task: TaskName) -> TaskId;
}

impl Audience for Activity {
    fn meet(&mut self, task: TaskName) -> TaskId {
        Activity::meet(self, task)
    }
}

impl Audience for Analyser {
    fn meet(&mut self, task: TaskName) -> TaskId {
        Analyser::meet(self, task)
    }
}

/// Why a task changes its CPU now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coming {
    Woken,
    New,
}

/// The known threads and tasks.
#[derive(Default)]
pub struct Translator {
    /// Beginning of the recording, ns of the monotonic clock.
    pub opened_ns: u64,
    /// The machine's number of each of the kernel's CPUs; empty if they are the same.
    pub cpus: BTreeMap<u32, CpuId>,
    /// Tasks of the workload by thread.
    pub workload: BTreeMap<u32, TaskId>,
    /// Threads that make tasks of the workload.
    pub makers: BTreeSet<u32>,
    /// The last known name of each thread.
    pub names: BTreeMap<u32, Vec<u8>>,
    tasks: BTreeMap<u32, TaskId>,
    coming: BTreeMap<TaskId, Coming>,
}

impl Translator {
    /// A translator without threads; `cpus` as in the field.
    pub fn new(opened_ns: u64, cpus: BTreeMap<u32, CpuId>) -> Translator {
        Translator { opened_ns, cpus, ..Translator::default() }
    }

    fn cpu(&self, number: u32) -> CpuId {
        self.cpus.get(&number).copied().unwrap_or(CpuId(number))
    }

    /// Whether the thread belongs to the workload, or makes its tasks.
    fn is_ours(&self, thread: u32) -> bool {
        self.makers.contains(&thread) || self.workload.contains_key(&thread)
    }

    /// Whether the record is a fork by a thread of the run, whose child has not yet reported which task it is. The
    /// child does so when it runs.
    pub fn is_unknown_child(&self, held: &TimedRecord) -> bool {
        let TracepointKind::Fork { parent, child } = held.what else { return false };
        self.is_ours(parent) && !self.workload.contains_key(&child)
    }

    /// The task of every thread that still has its own id.
    pub fn threads(&self) -> impl Iterator<Item = (u32, TaskId)> + '_ {
        self.tasks.iter().map(|(thread, task)| (*thread, *task))
    }

    fn task(&mut self, thread: u32, audience: &mut impl Audience) -> Option<TaskId> {
        if thread == 0 {
            return None;
        }
        if let Some(known) = self.tasks.get(&thread) {
            return Some(*known);
        }
        let task = match self.workload.get(&thread) {
            Some(own) => *own,
            None => audience.meet(TaskName { name: self.name(thread), background: true }),
        };
        self.tasks.insert(thread, task);
        Some(task)
    }

    fn name(&self, thread: u32) -> String {
        let known = self.names.get(&thread).map(|bytes| {
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        });
        known.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("thread {thread}"))
    }

    /// Passes a record's event to the audience.
    pub fn translate(&mut self, held: &TimedRecord, audience: &mut impl Audience) {
        let cpu = self.cpu(held.cpu);
        let (cpu, kind) = match held.what {
            TracepointKind::Switch { prev, next, why } => {
                let (prev, next) = (self.task(prev, audience), self.task(next, audience));
                (cpu, EventKind::Switch { prev, next, why })
            }
            TracepointKind::Waking { thread, waker } => {
                let waker = self.task(waker, audience);
                let Some(task) = self.task(thread, audience) else { return };
                self.coming.insert(task, Coming::Woken);
                (cpu, EventKind::Waking { task, waker })
            }
            TracepointKind::Queued { thread, cpu, new } => {
                let Some(task) = self.task(thread, audience) else { return };
                self.coming.remove(&task);
                (self.cpu(cpu), EventKind::Enqueued { task, nr_running: 0, new })
            }
            TracepointKind::Migrate { thread, from, to } => {
                let Some(task) = self.task(thread, audience) else { return };
                let why = match self.coming.get(&task) {
                    Some(Coming::Woken) => MoveReason::Wakeup,
                    Some(Coming::New) => MoveReason::Fork,
                    None => MoveReason::Moved,
                };
                (self.cpu(to), EventKind::Migrate { task, from: self.cpu(from), why })
            }
            TracepointKind::Fork { parent, child } => {
                let parent_task = self.task(parent, audience);
                // The id may have belonged to another thread before.
                self.tasks.remove(&child);
                if !self.is_ours(parent) {
                    self.workload.remove(&child);
                }
                let Some(task) = self.task(child, audience) else { return };
                self.coming.insert(task, Coming::New);
                (cpu, EventKind::Forked { task, parent: parent_task })
            }
            TracepointKind::Exit { thread } => {
                let Some(task) = self.task(thread, audience) else { return };
                (cpu, EventKind::Exited { task })
            }
        };
        let at = Ns(held.at_ns.saturating_sub(self.opened_ns));
        audience.event(&Event { at, cpu, kind });
    }
}
