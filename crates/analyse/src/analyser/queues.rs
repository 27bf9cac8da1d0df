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
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
    /// The queue in which it is, by its place among all, and since when.
    within: Option<(usize, Ns)>,
    steps: Steps,
}

struct Queue {
    kind: ExtQueue,
    dsq: DsqId,
    nr: u64,
}

/// Numbers of queues are a CPU's, a node's or have their kind in upper bits. One is looked up with each decision.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The queues of one kind.
struct Kind {
    /// Places among all queues, by number.
    places: HashMap<u64, usize, BuildHasherDefault<Spread>>,
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
    queues: Vec<Queue>,
    kinds: [Kind; KINDS],
}

impl Queues {
    pub fn new() -> Queues {
        let kind = || Kind {
            places: HashMap::default(),
            used: false,
            nr: 0,
            changed: Ns::ZERO,
            area_ns: 0,
            longest: 0,
            waits: Tally::new(Series::new("ns", Better::Lower)),
        };
        let kinds = std::array::from_fn(|_| kind());
        Queues { tasks: Vec::new(), queues: Vec::new(), kinds }
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
        let queue = self.place(step.to, step.dsq);
        self.enter(id, queue, step.at, from);
    }
    /// It is queued on a CPU, to which an operation may have sent it before: its time there begins now.
    pub fn queued(&mut self, id: TaskId, cpu: CpuId, at: Ns, from: Ns) {
        let Some((place, _)) = self.task(id).within else { return };
        let Queue { kind, dsq, .. } = self.queues[place];
        if dsq == DsqId::UNKNOWN {
            self.left(id, at, false, from);
            let place = self.place(kind, DsqId::new(cpu.0.into()));
            self.enter(id, place, at, from);
        } else {
            self.tasks[id.index()].within = Some((place, at));
            self.counts(place, at, from);
        }
    }
    fn place(&mut self, kind: ExtQueue, dsq: DsqId) -> usize {
        let all = &mut self.queues;
        *self.kinds[kind as usize].places.entry(dsq.number()).or_insert_with(|| {
            all.push(Queue { kind, dsq, nr: 0 });
            all.len() - 1
        })
    }
    fn enter(&mut self, id: TaskId, place: usize, at: Ns, from: Ns) {
        self.task(id).within = Some((place, at));
        let Queue { kind, nr, .. } = &mut self.queues[place];
        *nr += 1;
        let kind = *kind;
        let kind = self.changes(kind, at, from);
        kind.used = true;
        kind.nr += 1;
        self.counts(place, at, from);
    }
    /// So many are in a queue in the measured time.
    fn counts(&mut self, place: usize, at: Ns, from: Ns) {
        let Queue { kind, nr, .. } = self.queues[place];
        if at >= from {
            let longest = &mut self.kinds[kind as usize].longest;
            *longest = nr.max(*longest);
        }
    }
    /// It runs, sleeps or has another queue.
    pub fn left(&mut self, id: TaskId, at: Ns, counts: bool, from: Ns) {
        let Some((queue, since)) = self.task(id).within.take() else { return };
        let queue = &mut self.queues[queue];
        queue.nr -= 1;
        let kind = queue.kind;
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
    fn a_queue_that_is_known_counts_from_the_enqueue_too() {
        let (mut queues, from) = (Queues::new(), Ns(30));
        queues.decided(A, step(10, ExtQueue::User, 1 << 40), true, from);
        queues.decided(B, step(20, ExtQueue::User, 1 << 50), true, from);
        queues.queued(A, CpuId(3), Ns(40), from);
        queues.left(A, Ns(100), true, from);
        queues.left(B, Ns(100), true, from);
        let (counters, series) = queues.finish(Ns(200), from);
        assert_eq!(counters, [("scx.dsq.time.user".to_owned(), 140), ("scx.dsq.max.user".to_owned(), 1)]);
        assert_eq!((series[0].1.count(), series[0].1.sum()), (2, 60 + 80));
    }

    #[test]
    fn the_first_decisions_and_the_last_one_are_kept() {
        let mut steps = Steps::default();
        (0..9).for_each(|at| steps.push(step(at, ExtQueue::User, at)));
        let kept: Vec<u64> = steps.iter().map(|s| s.at.0).collect();
        assert_eq!((kept, steps.nr), (vec![0, 1, 2, 3, 8], 9));
    }
}
