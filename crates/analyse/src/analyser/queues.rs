//! Dispatch queues (DSQs) of a sched_ext scheduler: which task is in which, for how long, and how a wait went through
//! them.
//!
//! A task enters a queue when an operation, or the kernel, puts it there ([`EventKind::Decided`]), or when it is queued
//! if that was decided before. It leaves with its next queue or when it runs. Lengths count all tasks, the machine's
//! own included; waits are those of the workload's. Times are nanoseconds.
//!
//! [`EventKind::Decided`]: schedlab_trace::EventKind::Decided

use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_record::{Better, Series, Tally};
use schedlab_trace::{DsqId, ExtOp, ExtQueue};
use std::collections::BTreeMap;

/// Decisions of a wait that are kept: the first ones, and the last one.
const KEPT: usize = 5;
const KINDS: usize = ExtQueue::ALL.len();

/// A decision about a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub at: Ns,
    pub cpu: CpuId,
    pub by: ExtOp,
    pub to: ExtQueue,
    pub dsq: DsqId,
}

/// The decisions of a wait, in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    all: [Option<Step>; KEPT],
    /// How many there were.
    pub nr: u32,
}

impl Steps {
    fn push(&mut self, step: Step) {
        let at = (self.nr as usize).min(KEPT - 1);
        self.all[at] = Some(step);
        self.nr += 1;
    }
    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        self.all.iter().flatten()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    within: Option<(ExtQueue, DsqId, Ns)>,
    steps: Steps,
}

/// The queues of one kind.
struct Kind {
    used: bool,
    nr: u64,
    changed: Ns,
    /// Lengths of all, summed over time.
    area_ns: u64,
    longest: u64,
    waits: Tally,
}

/// Counters and series by metric name.
pub(super) type Found = (Vec<(String, u64)>, Vec<(String, Series)>);

/// All queues, since the first decision.
pub(super) struct Queues {
    tasks: Vec<Task>,
    lengths: BTreeMap<(ExtQueue, DsqId), u64>,
    kinds: [Kind; KINDS],
}

impl Queues {
    pub fn new() -> Queues {
        let kind = || Kind {
            used: false,
            nr: 0,
            changed: Ns::ZERO,
            area_ns: 0,
            longest: 0,
            waits: Tally::new(Series::new("ns", Better::Lower)),
        };
        Queues { tasks: Vec::new(), lengths: BTreeMap::new(), kinds: std::array::from_fn(|_| kind()) }
    }
    fn task(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.tasks.resize(id.index() + 1, Task::default());
        }
        &mut self.tasks[id.index()]
    }
    /// A wait begins.
    pub fn begin(&mut self, id: TaskId) {
        self.task(id).steps = Steps::default();
    }
    pub fn steps(&self, id: TaskId) -> Steps {
        self.tasks.get(id.index()).map_or_else(Steps::default, |t| t.steps)
    }

    /// A decision about a task, which is the workload's if it `counts`.
    pub fn decided(&mut self, id: TaskId, step: Step, counts: bool, from: Ns) {
        self.task(id).steps.push(step);
        if step.to == ExtQueue::Kicked {
            return;
        }
        self.left(id, step.at, counts, from);
        self.enter(id, (step.to, step.dsq), step.at, from);
    }
    /// It is queued on a CPU, to which an operation may have sent it before.
    pub fn queued(&mut self, id: TaskId, cpu: CpuId, at: Ns, from: Ns) {
        let Some((kind, dsq, _)) = self.task(id).within else { return };
        self.left(id, at, false, from);
        let dsq = if dsq == DsqId::UNKNOWN { DsqId::new(cpu.0.into()) } else { dsq };
        self.enter(id, (kind, dsq), at, from);
    }
    fn enter(&mut self, id: TaskId, queue: (ExtQueue, DsqId), at: Ns, from: Ns) {
        self.task(id).within = Some((queue.0, queue.1, at));
        let length = self.lengths.entry(queue).or_default();
        *length += 1;
        let length = *length;
        let kind = self.changes(queue.0, at, from);
        kind.used = true;
        kind.nr += 1;
        if at >= from {
            kind.longest = kind.longest.max(length);
        }
    }
    /// It runs, sleeps or has another queue.
    pub fn left(&mut self, id: TaskId, at: Ns, counts: bool, from: Ns) {
        let Some((kind, dsq, since)) = self.task(id).within.take() else { return };
        if let Some(length) = self.lengths.get_mut(&(kind, dsq)) {
            *length -= 1;
        }
        let kind = self.changes(kind, at, from);
        kind.nr -= 1;
        if counts && at >= from {
            kind.waits.record(at.since(since).0);
        }
    }
    /// The length of a kind changes: it has had the old one up to now.
    fn changes(&mut self, kind: ExtQueue, at: Ns, from: Ns) -> &mut Kind {
        let kind = &mut self.kinds[kind as usize];
        kind.area_ns += kind.nr * at.since(kind.changed.max(from)).0;
        kind.changed = at.max(kind.changed);
        kind
    }

    /// Counters and series of the kinds that were used.
    pub fn finish(mut self, end: Ns, from: Ns) -> Found {
        let (mut counters, mut series) = (Vec::new(), Vec::new());
        ExtQueue::ALL.iter().for_each(|kind| _ = self.changes(*kind, end, from));
        for (what, kind) in ExtQueue::ALL.iter().zip(self.kinds).filter(|(_, kind)| kind.used) {
            let name = |of: &str| format!("scx.dsq.{of}.{}", what.name());
            counters.push((name("time"), kind.area_ns));
            counters.push((name("max"), kind.longest));
            series.push((name("wait"), kind.waits.into_series()));
        }
        (counters, series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    fn step(at: u64, to: ExtQueue, dsq: u64) -> Step {
        Step { at: Ns(at), cpu: CpuId(1), by: ExtOp::Enqueue, to, dsq: DsqId::new(dsq) }
    }

    #[test]
    fn a_task_is_in_one_queue_until_it_runs() {
        let mut queues = Queues::new();
        let from = Ns(100);
        queues.decided(A, step(50, ExtQueue::User, 7), true, from);
        queues.decided(B, step(120, ExtQueue::User, 7), true, from);
        queues.decided(A, step(150, ExtQueue::Local, 1), true, from);
        queues.left(A, Ns(160), true, from);
        queues.left(B, Ns(200), true, from);
        queues.left(B, Ns(900), true, from);
        let (counters, series) = queues.finish(Ns(1000), from);
        let of = |name: &str| counters.iter().find(|(n, _)| n == name).unwrap().1;
        // Of A the 50 ns from the begin of the measured time on, of B 80.
        assert_eq!((of("scx.dsq.time.user"), of("scx.dsq.max.user")), (50 + 80, 2));
        assert_eq!((of("scx.dsq.time.local"), of("scx.dsq.max.local")), (10, 1));
        assert!(!counters.iter().any(|(name, _)| name.contains("global")), "{counters:?}");
        let waits = |name: &str| &series.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!((waits("scx.dsq.wait.user").count(), waits("scx.dsq.wait.user").sum()), (2, 180));
        assert_eq!(waits("scx.dsq.wait.local").sum(), 10);
    }

    #[test]
    fn what_select_cpu_decides_counts_from_the_enqueue_on_that_cpu() {
        let mut queues = Queues::new();
        let unknown = Step { dsq: DsqId::UNKNOWN, ..step(10, ExtQueue::Local, 0) };
        queues.decided(A, unknown, true, Ns(0));
        queues.queued(A, CpuId(3), Ns(40), Ns(0));
        queues.decided(B, step(41, ExtQueue::Local, 3), true, Ns(0));
        queues.left(A, Ns(60), true, Ns(0));
        let (counters, series) = queues.finish(Ns(61), Ns(0));
        assert_eq!(counters[1], ("scx.dsq.max.local".to_owned(), 2), "both are in the queue of CPU 3");
        assert_eq!((series[0].1.count(), series[0].1.sum()), (1, 20));
    }

    #[test]
    fn the_first_decisions_and_the_last_one_are_kept() {
        let mut steps = Steps::default();
        (0..9).for_each(|at| steps.push(step(at, ExtQueue::User, at)));
        let kept: Vec<u64> = steps.iter().map(|s| s.at.0).collect();
        assert_eq!((kept, steps.nr), (vec![0, 1, 2, 3, 8], 9));
    }
}
