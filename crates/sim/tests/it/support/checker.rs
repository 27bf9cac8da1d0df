//! A sink that follows every task through a run and notices impossible events.
//!
//! It knows only events, nothing of the simulator's insides. Rules: time never runs backward. A task is forked once,
//! and queued before it is switched to. It is on one CPU at a time, the CPU of its queue, and only on allowed ones. The
//! task that leaves a CPU is the one that was on it. A halted CPU does not keep queued tasks. CPU time from switches
//! equals the report's, except for the lag of a runqueue's clock behind the switch.

use schedlab_base::{CpuId, CpuSet, GroupId, Ns, TaskId, Version};
use schedlab_machine::Machine;
use schedlab_sim::SimReport;
use schedlab_trace::{Event, EventKind, Sink, SwitchReason};
use schedlab_workload::{Built, Later};
use std::collections::BTreeSet;

/// The place of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Unborn,
    Asleep,
    Queued(CpuId),
    /// Switched out to be moved; its arrival follows.
    Carried,
    Running(CpuId),
    Dead,
}

struct Task {
    place: Place,
    /// Since when it is in its place, ns.
    since: u64,
    allowed: Option<CpuSet>,
    cpu_ns: u64,
    /// Time that may have been charged to the task before it came, and time that may not have been charged before it
    /// left, ns.
    early_ns: u64,
    late_ns: u64,
}

/// The idle exit, an interrupt and a nohz pass may come first. After this time, ns, a halted CPU has forgotten a task.
const FORGOTTEN_NS: u64 = 3_000_000;

/// Follows a run.
pub struct Checker {
    tasks: Vec<Task>,
    running: Vec<Option<TaskId>>,
    idle_since: Vec<u64>,
    now: u64,
    measure_from: u64,
    /// The longest time of a wakeup, an interrupt, the way out of an idle state and `schedule()` together, ns: a switch
    /// is charged by the clock of the wakeup.
    behind_ns: u64,
    /// A runnable task that waits longer than this while a CPU it may use is idle throughout breaks work conservation.
    pub longest_wait_ns: u64,
    /// Tasks that are ever in a group with a quota: events do not show whether they wait for quota or for a CPU.
    limited: BTreeSet<TaskId>,
    events: u64,
    error: Option<String>,
}

impl Checker {
    /// A checker for runs on this machine.
    pub fn new(machine: &Machine) -> Checker {
        let n = machine.topology.nr_cpus();
        Checker {
            tasks: Vec::new(),
            running: vec![None; n],
            idle_since: vec![0; n],
            now: 0,
            measure_from: 0,
            behind_ns: {
                let costs = machine.under(Version::new(99, 0)).costs;
                let exit = machine.idle_states.iter().map(|s| s.typical.0).max().unwrap_or(0);
                let schedule = [
                    costs.schedule_idle_ns,
                    costs.schedule_sleep_ns,
                    costs.schedule_empty_ns,
                    costs.schedule_preempt_ns,
                ];
                let schedule = schedule.into_iter().max().unwrap_or(0);
                let signal = costs.ipi_send_ns + costs.ipi_far_ns + costs.ipi_irq_ns;
                let others = costs.tick_restart_ns
                    + costs.timer_exit_ns
                    + 3 * (costs.tick_ns + costs.enqueue_ns + costs.trace_event_ns);
                // A clock that stops at a wakeup does so to the end of the running task's call.
                let call = costs.usage_read_ns + costs.pipe_io_ns;
                // On CPUs that take turns a CPU may have to wait for a turn of each other CPU.
                let turns = machine.turns.as_ref().map_or(0, |_| n as u64 * 1_000_000);
                exit + turns + call + 20_000 + schedule + signal + others
            },
            longest_wait_ns: u64::MAX,
            limited: BTreeSet::new(),
            events: 0,
            error: None,
        }
    }
    /// CPU time counts from `at`.
    pub fn measure_from(mut self, at: Ns) -> Checker {
        self.measure_from = at.0;
        self
    }
    /// The task may run on these CPUs only.
    pub fn restrict(&mut self, task: TaskId, allowed: CpuSet) {
        self.task(task).allowed = Some(allowed);
    }

    /// Notes which tasks of a workload may have to wait for quota, now or after a change.
    pub fn limit(&mut self, built: &Built) {
        let mut groups: BTreeSet<GroupId> = (0..built.groups.len())
            .map(GroupId::from)
            .filter(|g| built.groups[g.index()].quota.is_some())
            .collect();
        groups.extend(built.later.iter().filter_map(|(_, later)| match later {
            Later::Limited(group, limit) if limit.quota.is_some() => Some(*group),
            _ => None,
        }));
        let is_limited = |group: GroupId| {
            let mut level = Some(group);
            while let Some(at) = level {
                if groups.contains(&at) {
                    return true;
                }
                level = built.groups[at.index()].parent;
            }
            false
        };
        let mut of_tasks: Vec<bool> = built.tasks.iter().map(|task| is_limited(task.group)).collect();
        for (_, later) in &built.later {
            if let Later::Moved(task, group) = later {
                of_tasks[task.index()] |= is_limited(*group);
            }
        }
        // A child begins in its parent's group.
        for (id, task) in built.tasks.iter().enumerate() {
            of_tasks[id] |= task.spawned_by.is_some_and(|parent| of_tasks[parent.index()]);
        }
        let ids = of_tasks.iter().enumerate().filter(|(_, limited)| **limited);
        self.limited.extend(ids.map(|(id, _)| TaskId::from(id)));
    }

    fn task(&mut self, id: TaskId) -> &mut Task {
        while self.tasks.len() <= id.index() {
            self.tasks.push(Task {
                place: Place::Unborn,
                since: 0,
                allowed: None,
                cpu_ns: 0,
                early_ns: 0,
                late_ns: 0,
            });
        }
        &mut self.tasks[id.index()]
    }
    fn fail(&mut self, what: String) {
        let at = self.now;
        self.error.get_or_insert(format!("at {at} ns, event {}: {what}", self.events));
    }
    fn put(&mut self, id: TaskId, place: Place) {
        let now = self.now;
        let task = self.task(id);
        (task.place, task.since) = (place, now);
    }

    fn leaves(&mut self, cpu: CpuId, prev: Option<TaskId>, why: SwitchReason) {
        if self.running[cpu.index()] != prev {
            self.fail(format!("{prev:?} leaves {cpu}, where {:?} was", self.running[cpu.index()]));
        }
        let Some(prev) = prev else { return };
        let from = self.tasks[prev.index()].since.max(self.measure_from);
        let stayed = self.now.saturating_sub(from);
        self.tasks[prev.index()].cpu_ns += stayed;
        self.tasks[prev.index()].late_ns += stayed.min(self.behind_ns);
        let to = match why {
            SwitchReason::Blocked => Place::Asleep,
            SwitchReason::Exited => Place::Dead,
            SwitchReason::Moved => Place::Carried,
            _ => Place::Queued(cpu),
        };
        self.put(prev, to);
    }

    fn comes(&mut self, cpu: CpuId, next: TaskId) {
        let (now, idle_since) = (self.now, self.idle_since[cpu.index()]);
        let task = self.task(next);
        let (place, waited) = (task.place, now - task.since);
        let forbidden = task.allowed.as_ref().is_some_and(|a| !a.contains(cpu));
        // A task that was to be moved stays in its place if it had lost the CPU before.
        if place != Place::Queued(cpu) && place != Place::Carried {
            self.fail(format!("{cpu} switches to {next:?}, which is {place:?}"));
        }
        if forbidden {
            self.fail(format!("{cpu} runs {next:?}, which may not run there"));
        }
        let limited = self.limited.contains(&next);
        if !limited && self.running[cpu.index()].is_none() && waited.min(now - idle_since) > FORGOTTEN_NS {
            self.fail(format!("{cpu} was idle while {next:?} waited on it for {waited} ns"));
        }
        let most = self.behind_ns;
        self.task(next).early_ns += most;
        self.put(next, Place::Running(cpu));
    }

    /// Checks whether a task waited too long although a CPU that it may use was idle all the time.
    fn check_conservation(&mut self) {
        if self.longest_wait_ns == u64::MAX {
            return;
        }
        let waits: Vec<String> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, t)| matches!(t.place, Place::Queued(_)) && self.now - t.since > self.longest_wait_ns)
            .filter_map(|(id, t)| {
                let free = (0..self.running.len()).find(|c| {
                    self.running[*c].is_none()
                        && self.now - self.idle_since[*c] > self.longest_wait_ns
                        && t.allowed.as_ref().is_none_or(|a| a.contains(CpuId::from(*c)))
                })?;
                Some(format!("task {id} is {:?} since {} ns, cpu{free} is idle", t.place, t.since))
            })
            .collect();
        waits.into_iter().for_each(|w| self.fail(w));
    }

    /// The faults found by the end of the run, if any.
    pub fn verdict(mut self, report: &SimReport) -> Result<(), String> {
        self.now = report.end.0;
        self.check_conservation();
        for c in 0..self.running.len() {
            let cpu = CpuId::from(c);
            if let Some(t) = self.running[c] {
                let from = self.tasks[t.index()].since.max(self.measure_from);
                let stayed = self.now.saturating_sub(from);
                self.tasks[t.index()].cpu_ns += stayed;
                self.tasks[t.index()].late_ns += stayed.min(self.behind_ns);
            } else if let Some(at) = self.tasks.iter().enumerate().position(|(id, t)| {
                !self.limited.contains(&TaskId::from(id))
                    && t.place == Place::Queued(cpu)
                    && self.now - t.since.max(self.idle_since[c]) > FORGOTTEN_NS
            }) {
                self.fail(format!("{cpu} is idle at the end although task {at} is queued there"));
            }
        }
        // A balance on the way to idle may be charged to no task.
        let newidle = report.found.counters.get("balance.newidle_time").copied().unwrap_or(0);
        for (at, account) in report.tasks.iter().enumerate() {
            let task = self.task(TaskId::from(at));
            let (seen, early, late) = (task.cpu_ns, task.early_ns, task.late_ns);
            let charged = account.cpu_time_ns;
            if charged > seen + early || charged + late + newidle < seen || account.work_ns > charged + late {
                self.fail(format!("task {at} ran for {seen} ns by its switches, but {account:?}"));
            }
        }
        self.error.map_or(Ok(()), Err)
    }
}

impl Sink for Checker {
    fn event(&mut self, e: &Event) {
        self.events += 1;
        if e.at.0 < self.now {
            self.fail(format!("time runs backward to {}: {:?}", e.at.0, e.kind));
        }
        self.now = self.now.max(e.at.0);
        match e.kind {
            EventKind::Lost { .. } => self.fail("a simulation loses no events".to_owned()),
            EventKind::Forked { task, .. } => {
                if self.task(task).place != Place::Unborn {
                    self.fail(format!("{task:?} is forked twice"));
                }
                self.put(task, Place::Asleep);
            }
            EventKind::Enqueued { task, nr_running, .. } => {
                // The machine's own tasks exist without being forked.
                let place = self.task(task).place;
                if !matches!(place, Place::Asleep | Place::Unborn | Place::Carried) {
                    self.fail(format!("{task:?} is enqueued while {place:?}"));
                }
                self.put(task, Place::Queued(e.cpu));
                let here = [Place::Queued(e.cpu), Place::Running(e.cpu)];
                let (mut most, mut throttled) = (0, 0);
                for (id, _) in self.tasks.iter().enumerate().filter(|(_, t)| here.contains(&t.place)) {
                    most += 1;
                    throttled += usize::from(self.limited.contains(&TaskId::from(id)));
                }
                // A task that goes to sleep no longer counts while its CPU looks for other work.
                let few = usize::from(nr_running) + 1 + throttled < most;
                if usize::from(nr_running) > most || few {
                    self.fail(format!("{nr_running} are runnable on {}, but {most} were seen", e.cpu));
                }
            }
            EventKind::Migrate { task, from, .. } => {
                if from == e.cpu {
                    self.fail(format!("{task:?} moves from {from} to itself"));
                }
                match self.task(task).place {
                    Place::Queued(on) if on == from => self.put(task, Place::Queued(e.cpu)),
                    Place::Asleep | Place::Unborn | Place::Carried => {}
                    place => self.fail(format!("{task:?} moves from {from} while {place:?}")),
                }
            }
            EventKind::Switch { prev, next, why } => {
                self.leaves(e.cpu, prev, why);
                match next {
                    Some(next) => self.comes(e.cpu, next),
                    None => self.idle_since[e.cpu.index()] = e.at.0,
                }
                self.running[e.cpu.index()] = next;
                self.check_conservation();
            }
            EventKind::IdleEnter { .. } => {
                if let Some(t) = self.running[e.cpu.index()] {
                    self.fail(format!("{} halts under {t:?}", e.cpu));
                }
            }
            EventKind::Exited { task } => {
                if self.running[e.cpu.index()] != Some(task) {
                    self.fail(format!("{task:?} ends on {}, where it does not run", e.cpu));
                }
            }
            EventKind::Waking { .. }
            | EventKind::Placed { .. }
            | EventKind::IdleExit { .. }
            | EventKind::Balance { .. } => {}
            EventKind::Skip { .. }
            | EventKind::Kick { .. }
            | EventKind::Decided { .. }
            | EventKind::Schedule { .. }
            | EventKind::Stay
            | EventKind::Allowed { .. } => self.fail(format!("{:?} came without a request", e.kind)),
        }
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
}
