//! The tail of a series that the workload's programs record: the activity of tasks during each long sample.
//!
//! A sample is a time that ends when its task records it: a request, or a wakeup as the program sees it. It is split by
//! the task's activity: computing, waiting for a CPU after a wakeup (by cause), waiting after losing its CPU, or
//! sleeping. Only a run made again shows that. Times are ns.

use crate::Analyser;
use crate::words::{count, with_notes, wrap};
use schedlab_base::{Ns, TaskId};
use schedlab_record::wait::WaitCause;
use schedlab_trace::{Event, EventKind, Sink, SwitchReason};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The most waits kept with their causes: all waits of a run of sensible length.
pub const KEPT_WAITS: usize = 1 << 20;
const MOST: usize = 1 << 16;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SampleTail {
    pub run: String,
    /// The metric at which the tail begins.
    pub metric: String,
    /// Samples longer than this are in the tail.
    pub cut_ns: u64,
    pub samples: u64,
    /// The sum of their lengths.
    pub time_ns: u64,
    /// The tasks' activities in that time, longest first.
    pub parts: Vec<TailPart>,
    pub worst: Vec<LongSample>,
    pub notes: Vec<String>,
}

/// An activity of tasks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TailPart {
    /// `computing`, `lost_cpu`, `started`, `asleep`, `not_known`, or the name of a wait's cause.
    pub what: &'static str,
    /// A sentence on the activity.
    pub about: &'static str,
    /// Number of samples that contain it.
    pub samples: u64,
    pub time_ns: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LongSample {
    pub task: String,
    pub ended_at: Ns,
    pub length_ns: u64,
    /// The task's activities in it, ns by name.
    pub did: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskActivity {
    Computing,
    /// Waits for a CPU after a wakeup.
    Woken,
    /// Waits for a CPU after its creation.
    Started,
    LostCpu,
    Asleep,
}

/// A task's past activities, each with its begin.
#[derive(Clone, Default)]
struct TaskPast {
    from: VecDeque<(u64, Option<TaskActivity>)>,
}

impl TaskPast {
    fn does(&mut self, at: u64, what: TaskActivity) {
        if self.from.back().is_none_or(|(_, last)| *last != Some(what)) {
            self.from.push_back((at, Some(what)));
        }
    }
    fn is_doing(&self, what: TaskActivity) -> bool {
        self.from.back().is_some_and(|(_, last)| *last == Some(what))
    }
    /// Forgets activities that ended before.
    fn forget(&mut self, before: u64) {
        while self.from.get(1).is_some_and(|(next, _)| *next <= before) {
            self.from.pop_front();
        }
    }
}

/// A long sample and its parts: begin, end, activity.
struct LongTime {
    task: TaskId,
    from: u64,
    until: u64,
    did: Vec<(u64, u64, Option<TaskActivity>)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TailSource {
    /// A program's series, by its number.
    Series(u16),
    /// Waits for a CPU of the tasks whose entry is true: those of the workload, by task id.
    RunDelay(Vec<bool>),
}

pub struct Samples {
    watched: TailSource,
    cut_ns: u64,
    /// No sample is longer.
    longest_ns: u64,
    measured_from: Ns,
    tasks: Vec<TaskPast>,
    found: Vec<LongTime>,
    counted: u64,
    time_ns: u64,
}

impl Samples {
    /// Collects samples longer than `cut_ns` (and at most `longest_ns`).
    pub fn of(watched: TailSource, cut_ns: u64, longest_ns: u64, measured_from: Ns) -> Samples {
        let (tasks, found) = (Vec::new(), Vec::new());
        Samples { watched, cut_ns, longest_ns, measured_from, tasks, found, counted: 0, time_ns: 0 }
    }
    fn task(&mut self, task: TaskId, at: Ns) -> &mut TaskPast {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, TaskPast::default);
        }
        let longest_ns = self.longest_ns;
        let past = &mut self.tasks[task.index()];
        past.forget(at.0.saturating_sub(longest_ns));
        past
    }

    /// The tail and its `worst` longest samples. `analyser` must have kept all waits of the run with their causes.
    pub fn finish(self, run: String, metric: &str, analyser: Analyser, end: Ns, worst: usize) -> SampleTail {
        let names: Vec<String> = analyser.names().iter().map(|n| n.name.clone()).collect();
        let mut waits: BTreeMap<String, Vec<(u64, u64, WaitCause)>> = BTreeMap::new();
        for wait in analyser.finish(end).waits {
            let (from, cause) = (wait.woken_at.0, wait.cause());
            waits.entry(wait.task).or_default().push((from, from + wait.length_ns, cause));
        }
        waits.values_mut().for_each(|all| all.sort_by_key(|w| w.0));
        let name =
            |task: TaskId| names.get(task.index()).cloned().unwrap_or_else(|| format!("task {}", task.0));
        let mut parts: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        let mut all: Vec<LongSample> = Vec::new();
        for found in &self.found {
            let task = name(found.task);
            let did = found.did(waits.get(&task).map_or(&[], Vec::as_slice));
            for (what, time_ns) in &did {
                let part = parts.entry(what).or_default();
                *part = (part.0 + 1, part.1.saturating_add(*time_ns));
            }
            let length_ns = found.until - found.from;
            all.push(LongSample { task, ended_at: Ns(found.until), length_ns, did });
        }
        all.sort_by_key(|s| (std::cmp::Reverse(s.length_ns), s.ended_at));
        all.truncate(worst);
        let did = |(what, (samples, time_ns)): (&'static str, (u64, u64))| TailPart {
            what,
            about: about(what),
            samples,
            time_ns,
        };
        let mut parts: Vec<TailPart> = parts.into_iter().map(did).collect();
        parts.sort_by_key(|p| std::cmp::Reverse(p.time_ns));
        let kept = self.found.len() as u64;
        let notes = (kept < self.counted).then(|| {
            format!(
                "the parts are those of the first {kept} of {}",
                schedlab_base::counted(self.counted, "sample")
            )
        });
        SampleTail {
            run,
            metric: metric.to_owned(),
            cut_ns: self.cut_ns,
            samples: self.counted,
            time_ns: self.time_ns,
            parts,
            worst: all,
            notes: notes.into_iter().collect(),
        }
    }
}

/// Names of activities other than waits after a wakeup, with a sentence on each.
const DID: [(&str, &str); 5] = [
    ("computing", "it was on a CPU"),
    ("lost_cpu", "it had lost its CPU and waited for one"),
    ("asleep", "it slept: it waited for another task, a lock or a timer"),
    ("started", "it had just been made and waited for a CPU"),
    ("not_known", "before the task's first event"),
];

fn about(what: &str) -> &'static str {
    let cause = WaitCause::ALL.iter().find(|c| c.name() == what).map(|c| c.about());
    cause.or_else(|| DID.iter().find(|(name, _)| *name == what).map(|(_, about)| *about)).unwrap_or_default()
}

impl LongTime {
    /// Time by activity. A wait after a wakeup appears under its cause's name.
    fn did(&self, waits: &[(u64, u64, WaitCause)]) -> BTreeMap<&'static str, u64> {
        let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (from, until, doing) in &self.did {
            let what = match doing {
                Some(TaskActivity::Computing) => "computing",
                Some(TaskActivity::LostCpu) => "lost_cpu",
                Some(TaskActivity::Asleep) => "asleep",
                Some(TaskActivity::Started) => "started",
                Some(TaskActivity::Woken) => {
                    let at = waits.partition_point(|w| w.1 <= *from);
                    waits.get(at).filter(|w| w.0 < *until).map_or("not_known", |w| w.2.name())
                }
                None => "not_known",
            };
            *all.entry(what).or_default() += until - from;
        }
        all
    }
}

impl Sink for Samples {
    fn event(&mut self, e: &Event) {
        let at = e.at;
        match e.kind {
            EventKind::Switch { prev, next, why } if prev != next => {
                if let Some(prev) = prev {
                    let what = match why {
                        SwitchReason::Blocked | SwitchReason::Exited => TaskActivity::Asleep,
                        _ => TaskActivity::LostCpu,
                    };
                    self.task(prev, at).does(at.0, what);
                }
                if let Some(next) = next {
                    self.ran(at, next);
                    self.task(next, at).does(at.0, TaskActivity::Computing);
                }
            }
            EventKind::Waking { task, .. } => {
                let past = self.task(task, at);
                if past.from.is_empty() || past.is_doing(TaskActivity::Asleep) {
                    past.does(at.0, TaskActivity::Woken);
                }
            }
            EventKind::Enqueued { task, new: true, .. } => {
                self.task(task, at).does(at.0, TaskActivity::Started)
            }
            _ => {}
        }
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        if self.watched == TailSource::Series(series) {
            self.take(at, task, value);
        }
    }
}

impl Samples {
    /// A task gets a CPU; it may have waited for one.
    fn ran(&mut self, at: Ns, task: TaskId) {
        let TailSource::RunDelay(counts) = &self.watched else { return };
        if !counts.get(task.index()).copied().unwrap_or(false) {
            return;
        }
        let past = self.task(task, at);
        let waited = [TaskActivity::Woken, TaskActivity::Started, TaskActivity::LostCpu]
            .iter()
            .any(|doing| past.is_doing(*doing));
        if let Some((since, _)) = past.from.back().copied().filter(|_| waited) {
            self.take(at, task, at.0 - since);
        }
    }

    fn take(&mut self, at: Ns, task: TaskId, value: u64) {
        if value <= self.cut_ns || at < self.measured_from {
            return;
        }
        self.counted += 1;
        self.time_ns = self.time_ns.saturating_add(value);
        if self.found.len() >= MOST {
            return;
        }
        let (from, until) = (at.0.saturating_sub(value), at.0);
        let past = self.task(task, at);
        let ends = past.from.iter().skip(1).map(|(next, _)| *next).chain([until]);
        let first = past.from.front().map_or(until, |(first, _)| *first);
        let before = (from < first).then_some((from, first.min(until), None));
        let each =
            past.from.iter().zip(ends).map(|((since, what), to)| ((*since).max(from), to.min(until), *what));
        let did = before.into_iter().chain(each).filter(|(from, to, _)| from < to).collect();
        self.found.push(LongTime { task, from, until, did });
    }
}

pub fn samples_text(tail: &SampleTail) -> String {
    let mut out = Vec::new();
    wrap(&mut out, "", 2, &tail.run);
    let head = format!(
        "{} beyond {} ({}); {} in all. What the tasks that recorded them did in that time:",
        count(tail.samples, "sample"),
        tail.metric,
        Ns(tail.cut_ns),
        Ns(tail.time_ns)
    );
    wrap(&mut out, "", 2, &head);
    let split_ns: u64 = tail.parts.iter().map(|p| p.time_ns).sum();
    if !tail.parts.is_empty() {
        out.extend([String::new(), " samples    time  what".to_owned()]);
    }
    for part in &tail.parts {
        let pct = 100.0 * part.time_ns as f64 / split_ns.max(1) as f64;
        let front = format!("{:>8}  {pct:>5.1}%  ", part.samples);
        wrap(&mut out, &front, front.len(), &format!("{}: {}", part.what, part.about));
    }
    crate::words::longest(&mut out, ["sample", "samples"], &tail.worst, |n, s, out| {
        let front = format!("{n:>3}. {:>8} ", Ns(s.length_ns).to_string());
        let at = s.ended_at.0;
        let mut did: Vec<_> = s.did.iter().collect();
        did.sort_by_key(|(_, time_ns)| std::cmp::Reverse(**time_ns));
        let did: Vec<String> = did.iter().map(|(what, ns)| format!("{what} {}", Ns(**ns))).collect();
        let ended = format!("{}.{:06} s", at / 1_000_000_000, at % 1_000_000_000 / 1_000);
        wrap(out, &front, crate::words::STORY, &format!("{}, until {ended}: {}", s.task, did.join(", ")));
    });
    with_notes(out, &tail.notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskName;
    use schedlab_base::CpuId;

    #[test]
    fn the_time_of_a_long_sample_is_split_by_activity() {
        let (a, b) = (TaskId(0), TaskId(1));
        let names = ["a", "b"].map(|n| TaskName { name: n.into(), background: false }).to_vec();
        let mut analyser = Analyser::new(1, names, Vec::new(), Ns::ZERO).keeping(KEPT_WAITS);
        let mut samples = Samples::of(TailSource::Series(1), 50, 1000, Ns::ZERO);
        let mut waits = Samples::of(TailSource::RunDelay(vec![true, false]), 40, 1000, Ns::ZERO);
        let switch = |prev, next, why| EventKind::Switch { prev, next, why };
        for (at, kind) in [
            (0, switch(None, Some(b), SwitchReason::FromIdle)),
            (100, EventKind::Waking { task: a, waker: None }),
            (110, EventKind::Enqueued { task: a, nr_running: 2, new: false }),
            (150, switch(Some(b), Some(a), SwitchReason::WakeupPreempt)),
            (170, switch(Some(a), Some(b), SwitchReason::TickSlice)),
            (200, switch(Some(b), Some(a), SwitchReason::TickSlice)),
        ] {
            let event = Event { at: Ns(at), cpu: CpuId(0), kind };
            analyser.event(&event);
            samples.event(&event);
            waits.event(&event);
        }
        assert_eq!((waits.counted, waits.time_ns), (1, 50), "the wait of the workload's task beyond the cut");
        samples.sample(Ns(210), a, 1, 110);
        samples.sample(Ns(210), a, 1, 40);
        samples.sample(Ns(210), a, 0, 110);
        let tail = samples.finish("run".into(), "x.p99", analyser, Ns(300), 5);
        assert_eq!((tail.samples, tail.time_ns, tail.worst.len()), (1, 110, 1));
        let want = BTreeMap::from([("computing", 30), ("lost_cpu", 30), ("preempted", 50)]);
        let parts: BTreeMap<&str, u64> = tail.parts.iter().map(|p| (p.what, p.time_ns)).collect();
        assert_eq!(parts, want);
        let text = samples_text(&tail);
        assert!(text.contains("1 sample beyond x.p99 (50ns)") && text.contains("preempted 50ns"), "{text}");
    }
}
