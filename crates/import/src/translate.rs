//! Translates records, in order of time, into the analyser's events. Mirrors what the live recorder does with its own
//! records.
//!
//! Recordings without sched_wakeup (`perf sched record` since 4.3) do not report when a task was queued. It then counts
//! as queued at its sched_waking: on the CPU to which the next sched_migrate_task on the waker's CPU takes it, else on
//! the CPU where it was.
//!
//! Recordings without sched_waking (kernels before 4.3, or recorders that leave it out) do not report when a wakeup
//! began. It then counts as begun at its sched_wakeup, by the thread that ran where that was recorded.

use crate::sched_record::{MAX_CPUS, RecordKind, SchedRecord, Thread};
use crate::task_table::{Arrival, Audience, TaskTable};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Event, EventKind, MoveReason, SwitchReason};
use std::collections::{BTreeMap, VecDeque};

/// Number of following records that are searched for a wakeup's migration.
const LOOK_AHEAD: usize = 64;
/// Two tracepoints within this time report the same fork: the parent may lose its CPU between them.
const SAME_FORK: Ns = Ns::ms(100);

/// The state of the translation.
#[derive(Default)]
pub struct Translator {
    pub tasks: TaskTable,
    /// Whether the recording has sched_wakeup.
    pub tells_queued: bool,
    /// The first record's time.
    opened_ns: Option<u64>,
    /// The time of the last event, since then.
    pub end: Ns,
    /// The highest number of a CPU, plus one.
    pub cpus: u32,
    /// The last fork of each task: the child's number, and the time.
    forks: BTreeMap<TaskId, (u32, Ns)>,
}

impl Translator {
    /// The time of a record, since the first one.
    fn at(&mut self, at_ns: u64, audience: &mut dyn Audience) -> Ns {
        let opened_ns = *self.opened_ns.get_or_insert_with(|| {
            audience.opens(at_ns);
            at_ns
        });
        let at = Ns(at_ns.saturating_sub(opened_ns));
        self.end = self.end.max(at);
        at
    }
    /// The first record's time by the recording's own clock; 0 if there was none.
    pub fn opened_ns(&self) -> u64 {
        self.opened_ns.unwrap_or(0)
    }
    fn sees(&mut self, cpu: u32) -> CpuId {
        self.cpus = self.cpus.max(cpu.min(MAX_CPUS - 1) + 1);
        CpuId(cpu)
    }

    /// Gives the audience a record's events; `later` are the records that follow.
    pub fn translate(
        &mut self,
        record: &SchedRecord,
        later: &mut VecDeque<SchedRecord>,
        audience: &mut dyn Audience,
    ) {
        let at = self.at(record.at_ns, audience);
        let cpu = self.sees(record.cpu);
        let say = |audience: &mut dyn Audience, cpu: CpuId, kind: EventKind| {
            audience.event(&Event { at, cpu, kind })
        };
        match &record.what {
            RecordKind::Switch { prev, next, why } => {
                let (from, to) = (self.tasks.task(prev, audience), self.tasks.task(next, audience));
                say(audience, cpu, EventKind::Switch { prev: from, next: to, why: *why });
                for (task, arrival) in [(from, Arrival::No), (to, Arrival::Here)] {
                    if let Some(task) = task {
                        *self.tasks.arrival(task) = arrival;
                    }
                }
                if *why == SwitchReason::Exited {
                    self.tasks.forget(prev.tid);
                }
            }
            RecordKind::Waking { thread, waker, cpu: last } => {
                let waker = self.tasks.task(waker, audience);
                let Some(task) = self.tasks.task(thread, audience) else { return };
                say(audience, cpu, EventKind::Waking { task, waker });
                let runs = *self.tasks.arrival(task) == Arrival::Here;
                if self.tells_queued || !runs {
                    *self.tasks.arrival(task) = Arrival::Woken;
                }
                let is_queued_later = self.tells_queued || (runs && is_about_to_sleep(thread.tid, later));
                if !is_queued_later {
                    self.queue(task, (record.cpu, *last), thread.tid, at, later, audience);
                }
            }
            RecordKind::Queued { thread, waker, cpu: target, new } => {
                let waker = self.tasks.task(waker, audience);
                let Some(task) = self.tasks.task(thread, audience) else { return };
                let arrival = std::mem::take(self.tasks.arrival(task));
                if !new && arrival != Arrival::Woken {
                    say(audience, cpu, EventKind::Waking { task, waker });
                }
                let cpu = self.sees(*target);
                say(audience, cpu, EventKind::Enqueued { task, nr_running: 0, new: *new });
            }
            RecordKind::Migrate { thread, from, to } => {
                let Some(task) = self.tasks.task(thread, audience) else { return };
                let why = match self.tasks.arrival(task) {
                    Arrival::Woken => MoveReason::Wakeup,
                    Arrival::New => MoveReason::Fork,
                    Arrival::No | Arrival::Here => MoveReason::Moved,
                };
                let (from, to) = (self.sees(*from), self.sees(*to));
                say(audience, to, EventKind::Migrate { task, from, why });
            }
            RecordKind::Fork { parent, child, own_process } => {
                let parent = self.tasks.task(parent, audience);
                if let Some(task) = self.forked(at, parent, child, *own_process, audience) {
                    say(audience, cpu, EventKind::Forked { task, parent });
                }
            }
            RecordKind::Exit { thread } => {
                let Some(task) = self.tasks.task(thread, audience) else { return };
                say(audience, cpu, EventKind::Exited { task });
            }
            RecordKind::Rename { thread } => drop(self.tasks.task(thread, audience)),
            RecordKind::Lost { count } => {
                say(audience, cpu, EventKind::Lost { count: u32::try_from(*count).unwrap_or(u32::MAX) });
            }
        }
        self.tasks.belongs(record.current, record.process, audience);
    }

    /// A task was made; `None` if another tracepoint has already reported it.
    fn forked(
        &mut self,
        at: Ns,
        parent: Option<TaskId>,
        child: &Thread,
        own_process: Option<bool>,
        audience: &mut dyn Audience,
    ) -> Option<TaskId> {
        let before = parent.and_then(|parent| self.forks.insert(parent, (child.tid, at)));
        let just_told = before.is_some_and(|(same, then)| same == child.tid && at.since(then) <= SAME_FORK);
        let known = self.tasks.known(child.tid).filter(|task| *self.tasks.arrival(*task) == Arrival::New);
        let twice = just_told && known.is_some();
        if !twice {
            self.tasks.forget(child.tid);
        }
        let task = self.tasks.task(child, audience)?;
        match own_process {
            Some(true) => self.tasks.belongs(child.tid, child.tid, audience),
            Some(false) => {
                let process = parent.map_or(0, |p| self.tasks.process(p));
                self.tasks.belongs(child.tid, process, audience);
            }
            None => {}
        }
        *self.tasks.arrival(task) = Arrival::New;
        (!twice).then_some(task)
    }

    /// Queues a task, where the recording does not report it.
    fn queue(
        &mut self,
        task: TaskId,
        (waker_cpu, last): (u32, u32),
        tid: u32,
        at: Ns,
        later: &mut VecDeque<SchedRecord>,
        audience: &mut dyn Audience,
    ) {
        let next = later.iter().take(LOOK_AHEAD).position(|t| t.cpu == waker_cpu);
        let moved = next.and_then(|i| match later[i].what {
            RecordKind::Migrate { thread, from, to } if thread.tid == tid => Some((i, from, to)),
            _ => None,
        });
        let mut target = self.sees(last);
        if let Some((i, from, to)) = moved {
            later.remove(i);
            let (from, to) = (self.sees(from), self.sees(to));
            audience.event(&Event {
                at,
                cpu: to,
                kind: EventKind::Migrate { task, from, why: MoveReason::Wakeup },
            });
            target = to;
        }
        if *self.tasks.arrival(task) == Arrival::Woken {
            *self.tasks.arrival(task) = Arrival::No;
        }
        audience.event(&Event {
            at,
            cpu: target,
            kind: EventKind::Enqueued { task, nr_running: 0, new: false },
        });
    }
}

/// Whether a running task that is woken was about to sleep: it leaves its CPU and comes back without another wakeup.
/// Otherwise the kernel found it still on its runqueue, and the wakeup only kept it from sleeping.
fn is_about_to_sleep(tid: u32, later: &VecDeque<SchedRecord>) -> bool {
    let mut left = false;
    for record in later {
        match record.what {
            RecordKind::Switch { prev, why, .. } if prev.tid == tid && !left => {
                if why != SwitchReason::Blocked {
                    return false;
                }
                left = true;
            }
            RecordKind::Switch { next, .. } if next.tid == tid => return left,
            RecordKind::Waking { thread, .. } if thread.tid == tid && left => return false,
            _ => {}
        }
    }
    false
}
