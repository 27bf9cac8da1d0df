//! Single questions about a whole machine: CPUs with their queues and averages in a given state, one function, its
//! answer. The machine has no time: what a function costs is set to nothing, so that no gate sees it.
//!
//! Groups are part of a state only where their shares are asked for. Real-time tasks, quotas, delayed entities and CPUs
//! that differ in capacity are not.

use super::{NOW, Nothing};
use crate::balance::spare::imbalance::{Amount, AmountRule, MigrationType};
use crate::class::Dequeue;
use crate::fair::{Cfs, Eevdf, EntityId, Fair};
use crate::pelt::Pelt;
use crate::run::{NewTask, add};
use crate::system::System;
use crate::task::{Class, TaskState};
use crate::util_est::UtilEst;
use schedlab_base::{CpuId, CpuSet, GroupId, Ns, TaskId};
use schedlab_kernel::{Attr, Kernel, Policy};
use schedlab_machine::{Costs, Machine};
use schedlab_trace::{BalanceTrigger, Event, EventKind, Sink};
use schedlab_workload::{GroupDecl, ROOT_GROUP};
use std::cell::Cell;

/// Time into a period of load averages, in its units; the same for all.
const INTO_PERIOD: u64 = 512;
/// The CPU on which tasks are born. It is not asked about before they are all where they belong.
const BIRTH: CpuId = CpuId(0);

/// Averages of a queue or a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Averages {
    pub load: u64,
    pub runnable: u64,
    pub util: u64,
    pub util_est: u64,
}

/// A CPU of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedCpu {
    /// Of its queue.
    pub avg: Averages,
    pub avg_idle_ns: u64,
    /// Hints of its cache; those of the cache's first CPU count.
    pub nr_idle_scan: u32,
    pub has_idle_cores: bool,
    /// A wakeup is on its way to it.
    pub wakeup_pending: bool,
}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It is its CPU's current task.
    Runs,
    Waits,
    /// It sleeps.
    Absent,
    /// It is its CPU's current task, and has left its queue.
    Leaves,
}

/// A task of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedTask {
    pub place: Place,
    /// The CPU on whose queue it is, or was last.
    pub cpu: CpuId,
    pub avg: Averages,
    /// Time since its time was last accounted.
    pub ran_ago_ns: u64,
    /// Bits by CPU.
    pub allowed: u64,
    pub policy: Policy,
    pub nice: i8,
    /// How often it has woken another task than the last time.
    pub flips: u32,
    pub recent: CpuId,
    /// Its queue's next buddy.
    pub next: bool,
    /// Virtual ns; queues begin at 0.
    pub vruntime: i64,
}

/// A domain of the CPU that is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedLevel {
    pub newidle_cost_ns: u64,
    pub failed: u32,
    /// The group that has the CPU is marked as one that affinity hinders.
    pub imbalanced: bool,
}

/// A group, and its queue of the CPU that is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedGroup {
    pub shares: u64,
    pub load: u64,
    pub runnable: u64,
    pub queue_weight: u64,
    pub queue_load: u64,
    pub contribution: u64,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Where `about` goes when it is woken by the CPU.
    Select,
    /// From which group the CPU pulls in a domain.
    Busiest,
    /// Which tasks leave `src` for the CPU.
    Detach,
    /// Which domains the CPU searches before it goes idle, and what comes.
    Newidle,
    /// The weight of a group's entity.
    Shares,
}

/// A machine's state, and what is asked about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// All of the machine's.
    pub cpus: Vec<AskedCpu>,
    /// In the order in which they were queued.
    pub tasks: Vec<AskedTask>,
    /// Domains of `cpu`, the lowest first.
    pub levels: Vec<AskedLevel>,
    pub group: AskedGroup,
    /// That wakes, or that tasks are to come to.
    pub cpu: CpuId,
    pub src: CpuId,
    pub level: usize,
    /// The task that is woken.
    pub about: usize,
    pub trigger: BalanceTrigger,
    pub sync: bool,
    pub overload: bool,
    pub migration: MigrationType,
    pub imbalance: u64,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    At(CpuId),
    /// The group by its first CPU, and what is to move.
    Group(Option<(CpuId, MigrationType, u64)>),
    /// Tasks, in the order in which they left.
    Moved(Vec<usize>),
    /// The levels that were searched, and the tasks that came.
    Searched {
        levels: Vec<usize>,
        came: Vec<usize>,
    },
    Weight(u64),
}

/// What the rules report while they are asked.
struct Reasons<'a> {
    /// The state is complete; what happened before is not of the answer.
    asking: &'a Cell<bool>,
    moved: Vec<TaskId>,
    words: Vec<String>,
}

impl Sink for Reasons<'_> {
    fn event(&mut self, event: &Event) {
        if !self.asking.get() {
            return;
        }
        match event.kind {
            EventKind::Migrate { task, .. } => self.moved.push(task),
            EventKind::Placed { reason, .. } => self.words = vec![format!("{reason:?}")],
            EventKind::Balance { level, why, .. } => self.words.push(format!("level {level}: {why:?}")),
            EventKind::Skip { level, why, .. } => self.words.push(format!("level {level}: {why:?}")),
            _ => {}
        }
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
    fn wants_details(&self) -> bool {
        true
    }
}

/// The machine without costs, as all states have it.
pub fn timeless(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    for row in Costs::TABLE {
        machine.costs.set(row.name, 0);
    }
    // The way to the next task is not part of a question: it stays ahead.
    let ahead = ["schedule_idle_ns", "schedule_sleep_ns", "schedule_preempt_ns"];
    ahead.iter().for_each(|name| _ = machine.costs.set(name, 1_000));
    machine
}

/// The answer of our rules, and why. The machine is one of [`timeless`].
pub fn answer(machine: &Machine, kernel: &Kernel, state: &State, question: Question) -> (Answer, String) {
    let asking = Cell::new(false);
    let mut reasons = Reasons { asking: &asking, moved: Vec::new(), words: Vec::new() };
    let mut sys = System::new(machine, *kernel, 1, &mut reasons);
    let group = match question {
        Question::Shares => Some(sys.declare(&state.group, state.cpu)),
        _ => None,
    };
    let tasks = sys.write_fleet(state);
    asking.set(true);
    let mut moves = None;
    let (answer, why) = match question {
        Question::Select => {
            let chosen = sys.ask_select(state.cpu, tasks[state.about], state.sync);
            (Answer::At(chosen.cpu), chosen.affine.map(|why| format!("{why:?}, ")).unwrap_or_default())
        }
        Question::Busiest => {
            let pull = sys.ask_busiest(state.cpu, state.level, state.trigger);
            let why = pull.map(|(_, amount)| format!("{:?}", amount.how)).unwrap_or_default();
            (Answer::Group(pull.map(|(cpu, amount)| (cpu, amount.migration, amount.amount))), why)
        }
        Question::Detach => {
            let amount =
                Amount { migration: state.migration, amount: state.imbalance, how: AmountRule::ToAverage };
            sys.ask_detach(state.cpu, state.level, state.trigger, state.src, amount);
            moves = Some(Vec::new());
            (Answer::Moved(Vec::new()), String::new())
        }
        Question::Newidle => {
            let levels = sys.ask_newidle(state.cpu);
            moves = Some(levels);
            (Answer::Moved(Vec::new()), String::new())
        }
        Question::Shares => (Answer::Weight(sys.ask_shares(group, state.cpu)), String::new()),
    };
    let why = format!("{why}{}", reasons.words.join(", "));
    let name = |t: &TaskId| tasks.iter().position(|own| own == t);
    let answer = match (question, moves) {
        (Question::Detach, Some(_)) => Answer::Moved(reasons.moved.iter().filter_map(name).collect()),
        (Question::Newidle, Some(levels)) => {
            let mut came: Vec<usize> = reasons.moved.iter().filter_map(name).collect();
            came.sort_unstable();
            Answer::Searched { levels, came }
        }
        _ => answer,
    };
    (answer, why)
}

impl System<'_> {
    /// Declares the group of a state, before any task.
    fn declare(&mut self, group: &AskedGroup, cpu: CpuId) -> GroupId {
        let decl = GroupDecl {
            path: "/asked".to_owned(),
            parent: Some(ROOT_GROUP),
            shares: group.shares,
            ..GroupDecl::root()
        };
        self.declare_groups(&[GroupDecl::root(), decl]);
        let id = GroupId::from(1);
        let all = &mut self.fair.groups[id];
        (all.load, all.runnable) = (group.load, group.runnable);
        let queue = self.group_queue(id, cpu);
        self.fair.group_rqs[queue].contribution = group.contribution;
        let q = &mut self.fair.queues[queue];
        (q.load_weight, q.avg.load_avg) = (group.queue_weight, group.queue_load);
        id
    }

    fn ask_shares(&mut self, group: Option<GroupId>, cpu: CpuId) -> u64 {
        let Some(owner) = group.and_then(|g| self.owner_of(g, cpu)) else { return 0 };
        match self.fixed.fair {
            Class::Eevdf => Fair::<Eevdf>::update_group(self, owner),
            _ => Fair::<Cfs>::update_group(self, owner),
        }
        self.fair.entities[owner].fine_weight
    }

    /// Writes a state; returns its tasks in their order.
    fn write_fleet(&mut self, state: &State) -> Vec<TaskId> {
        self.now = NOW;
        self.stepping.horizon = u64::MAX;
        let mut tasks = vec![TaskId(0); state.tasks.len()];
        // A queue that is empty is left without delay.
        let off = |t: &AskedTask| matches!(t.place, Place::Absent | Place::Leaves);
        for (i, t) in state.tasks.iter().enumerate().filter(|(_, t)| off(t)) {
            tasks[i] = self.asked_task(t);
            self.deactivate_task(tasks[i], Dequeue::Sleep);
            self.tasks[tasks[i]].state = TaskState::Sleeping;
        }
        for (i, t) in state.tasks.iter().enumerate().filter(|(_, t)| !off(t)) {
            tasks[i] = self.asked_task(t);
        }
        self.order(&tasks, state);
        for (task, t) in tasks.iter().zip(&state.tasks) {
            match t.place {
                Place::Runs => {
                    self.set_next_task(t.cpu, *task);
                    self.note_picked(t.cpu, *task);
                }
                Place::Leaves => {}
                Place::Waits | Place::Absent => continue,
            }
            self.cpus[t.cpu].curr = Some(*task);
            self.tasks[*task].on_cpu = true;
        }
        for (task, t) in tasks.iter().zip(&state.tasks) {
            self.overwrite_task(*task, t);
        }
        for (i, c) in state.cpus.iter().enumerate() {
            self.overwrite_cpu(CpuId::from(i), c);
        }
        for (at, level) in state.levels.iter().enumerate() {
            let own = &mut self.cpus[state.cpu].levels[at];
            own.state.nr_balance_failed = level.failed;
            own.cost = crate::balance::newidle_gate::DomainCost::known(level.newidle_cost_ns);
            let group = self.fixed.domains.of_cpu[state.cpu][at].groups[0];
            self.mark_imbalanced(group, level.imbalanced);
        }
        self.balance.overload = state.overload;
        tasks
    }

    /// Puts the queued tasks in order by their vruntimes.
    fn order(&mut self, tasks: &[TaskId], state: &State) {
        let queued = |t: &&AskedTask| matches!(t.place, Place::Runs | Place::Waits);
        let all: Vec<(EntityId, i64)> = tasks
            .iter()
            .zip(&state.tasks)
            .filter(|(_, t)| queued(t))
            .map(|(task, t)| (self.tasks[*task].entity, t.vruntime))
            .collect();
        all.iter().for_each(|(e, _)| self.off_line(*e));
        for (entity, vruntime) in &all {
            let e = &mut self.fair.entities[*entity];
            (e.vruntime, e.deadline) = (*vruntime, vruntime + e.slice_ns as i64);
        }
        for cpu in (0..state.cpus.len()).map(CpuId::from) {
            let queue = self.root(cpu);
            let q = &mut self.fair.queues[queue];
            q.min_vruntime = 0;
            q.timeline.rebase(0);
        }
        all.iter().for_each(|(e, _)| self.on_line(*e));
    }

    fn asked_task(&mut self, t: &AskedTask) -> TaskId {
        let allowed: CpuSet = (0..64).filter(|c| t.allowed >> c & 1 == 1).map(CpuId).collect();
        let task = add(
            self,
            NewTask {
                name: String::new(),
                background: false,
                waits_at_end: false,
                counts: true,
                program: Box::new(Nothing),
                attr: Attr { policy: t.policy, nice: t.nice, ..Attr::default() },
                allowed: Some(allowed),
                footprint_kb: 0,
                slack_ns: None,
                mm: None,
                cpu: BIRTH,
                group: ROOT_GROUP,
            },
        );
        self.new_task(BIRTH, task, t.cpu);
        task
    }

    fn overwrite_task(&mut self, task: TaskId, t: &AskedTask) {
        let now = self.pelt_clock(self.entity(task).cfs_rq);
        let own = &mut self.tasks[task];
        own.recent = t.recent;
        own.flips.count = t.flips;
        let entity = own.entity;
        let e = &mut self.fair.entities[entity];
        e.avg = pelt(&t.avg, now);
        e.est = UtilEst { enqueued: t.avg.util_est, ewma: t.avg.util_est, unchanged: false };
        e.exec_start = NOW - t.ran_ago_ns;
        if t.next {
            let queue = e.cfs_rq;
            self.fair.queues[queue].next = Some(entity);
        }
    }

    fn overwrite_cpu(&mut self, cpu: CpuId, c: &AskedCpu) {
        let queue = self.root(cpu);
        let now = self.pelt_clock(queue);
        let q = &mut self.fair.queues[queue];
        q.avg = pelt(&c.avg, now);
        q.util_est = c.avg.util_est;
        let llc = self.llc_of(cpu);
        let first = self.fixed.machine.topology.cpus.iter().position(|t| t.llc as usize == llc);
        if first == Some(cpu.index()) {
            self.llc[llc].nr_idle_scan = c.nr_idle_scan;
            self.llc[llc].has_idle_cores = c.has_idle_cores;
        }
        let own = &mut self.cpus[cpu];
        own.avg_idle_ns = c.avg_idle_ns;
        (own.need_resched, own.lazy) = (None, false);
        own.wake_list.clear();
        if c.wakeup_pending {
            own.wake_list.push(TaskId(0));
        }
        self.refresh_idle(cpu);
    }
}

fn pelt(to: &Averages, now: u64) -> Pelt {
    let mut avg = Pelt {
        last_update_ns: now,
        period_contrib: INTO_PERIOD,
        load_avg: to.load,
        runnable_avg: to.runnable,
        util_avg: to.util,
        ..Pelt::default()
    };
    avg.sums_from_averages();
    avg
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
