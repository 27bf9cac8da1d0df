//! The sink that turns a run's events into tracks and into counts over time.

use super::steps::Steps;
use super::track::Track;
use super::{BesideIdle, Strips, who};
use schedlab_analyse::TaskName;
use schedlab_analyse::conserve::{Stretches, World};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Event, EventKind, Sink};

/// How the states of CPUs, tasks and queues are known.
pub enum Follows {
    /// From all events of the simulator. They also give the time in which a task waited while a CPU was idle.
    Stretches(Box<Stretches>),
    /// From a kernel's tracepoints, which do not say which CPUs a task may use.
    Points(World),
}

impl Follows {
    fn world(&self) -> &World {
        match self {
            Follows::Stretches(stretches) => stretches.world(),
            Follows::Points(world) => world,
        }
    }
    fn event(&mut self, e: &Event) {
        match self {
            Follows::Stretches(stretches) => stretches.event(e),
            Follows::Points(world) => {
                let changes = world.apply(e);
                world.recycle(changes);
            }
        }
    }
}

/// Collects the strips of a run.
pub struct Gather {
    names: Vec<TaskName>,
    follows: Follows,
    /// Events that were lost by a recording.
    lost: u64,
    who: Vec<Track>,
    depth: Vec<Track>,
    /// By CPU: tasks queued there that do not run.
    queued: Vec<u32>,
    /// By CPU: whether a task of the workload runs.
    busy: Vec<bool>,
    running: Steps,
    waiting: Steps,
}

impl Gather {
    /// For a run on `nr_cpus` CPUs, with counts in bins of `width` ns; stretches have the same bins.
    pub fn new(nr_cpus: usize, names: Vec<TaskName>, follows: Follows, width: u64) -> Gather {
        Gather {
            names,
            follows,
            lost: 0,
            who: vec![Track::default(); nr_cpus],
            depth: vec![Track::default(); nr_cpus],
            queued: vec![0; nr_cpus],
            busy: vec![false; nr_cpus],
            running: Steps::new(width),
            waiting: Steps::new(width),
        }
    }

    /// The strips at the end of the run, whose measured time began at `measured_from`.
    pub fn finish(mut self, measured_from: Ns, end: Ns) -> Strips {
        self.who.iter_mut().chain(&mut self.depth).for_each(|t| t.close(end.0));
        let (width, running) = self.running.finish(end.0);
        let (_, waiting) = self.waiting.finish(end.0);
        let beside_idle = match self.follows {
            Follows::Stretches(stretches) => {
                let mut found = stretches.finish(end);
                found.by_bin.resize(running.len(), 0);
                Some(BesideIdle { by_bin: found.by_bin, covered: Ns(found.covered_ns) })
            }
            Follows::Points(_) => None,
        };
        Strips {
            end,
            measured_from,
            names: self.names,
            who: self.who,
            depth: self.depth,
            width: Ns(width),
            running,
            waiting,
            beside_idle,
            lost: self.lost,
            bin: None,
            exact: Vec::new(),
            pieces: 0,
        }
    }

    fn of_workload(&self, task: Option<TaskId>) -> bool {
        task.and_then(|t| self.names.get(t.index())).is_some_and(|n| !n.background)
    }
    fn switch(&mut self, e: &Event, next: Option<TaskId>, why: schedlab_trace::SwitchReason) {
        let busy = self.of_workload(next);
        let Some(track) = self.who.get_mut(e.cpu.index()) else { return };
        track.amend(|value| who::ended(value, why));
        track.set(e.at.0, who::runs(next));
        let before = std::mem::replace(&mut self.busy[e.cpu.index()], busy);
        self.running.add(e.at.0, i64::from(busy) - i64::from(before));
    }
    /// Counts the CPU's queue again, which may have changed.
    fn recount(&mut self, cpu: CpuId, at: Ns) {
        let now = self.follows.world().queue(cpu).len() as u32;
        let Some(queued) = self.queued.get_mut(cpu.index()) else { return };
        let before = std::mem::replace(queued, now);
        if before != now {
            self.depth[cpu.index()].set(at.0, now);
            self.waiting.add(at.0, i64::from(now) - i64::from(before));
        }
    }
}

impl Sink for Gather {
    fn event(&mut self, e: &Event) {
        let elsewhere = match e.kind {
            EventKind::Migrate { from, .. } => Some(from),
            EventKind::Enqueued { task, .. } | EventKind::Switch { next: Some(task), .. } => {
                self.follows.world().queued_on(task)
            }
            _ => None,
        };
        self.follows.event(e);
        match e.kind {
            EventKind::Switch { prev, next, .. } if prev == next => {}
            EventKind::Switch { next, why, .. } => self.switch(e, next, why),
            EventKind::Enqueued { .. } | EventKind::Migrate { .. } => {}
            EventKind::Lost { count } => {
                self.lost += u64::from(count);
                return;
            }
            _ => return,
        }
        self.recount(e.cpu, e.at);
        if let Some(cpu) = elsewhere.filter(|cpu| *cpu != e.cpu) {
            self.recount(cpu, e.at);
        }
    }
    fn wants_details(&self) -> bool {
        true
    }
}
