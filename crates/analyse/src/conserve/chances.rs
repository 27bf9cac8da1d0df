//! Missed chances to end chosen waits: which CPUs were free that the task may use, the balancing done for those, and
//! the decisions of busy CPUs' ticks about balancing for tickless ones. It is the sink of a second run, made when the
//! waits are known.

use super::world::{Change, World};
use schedlab_base::{CpuId, TaskId};
use schedlab_machine::Domains;
use schedlab_trace::{Event, EventKind, KickReason, Sink, SkipReason};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A wait to watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub task: TaskId,
    /// Its begin, ns since the run began.
    pub from: u64,
    /// Its end, ns.
    pub until: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DecisionCount {
    pub reason: &'static str,
    pub about: &'static str,
    pub count: u64,
}

/// Balancing for a free CPU, or the reason why there was none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BalanceTry {
    /// The trigger of the pass (`BalanceTrigger` name); `null`: no pass was begun.
    pub pass: Option<&'static str>,
    /// The CPU's domain; 0 is the lowest.
    pub level: u8,
    /// Whether the domain holds the CPU where the task waited.
    pub reaches: bool,
    /// Why it took nothing or was not begun. `moved`: it took tasks, this one or others.
    pub reason: &'static str,
    /// The reason in a sentence.
    pub about: &'static str,
    pub count: u64,
    /// The available time, ns, if the decision compared two times; of the last comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub have_ns: Option<u32>,
    /// The time needed, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need_ns: Option<u32>,
}

/// A CPU that was free while a task waited that may use it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FreeCpu {
    pub cpu: CpuId,
    pub free_ns: u64,
    /// Whether it was free when the wait began.
    pub from_start: bool,
    /// Balancing done for it.
    pub tries: Vec<BalanceTry>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Chance {
    /// Time during which at least one CPU that the task may use was free, ns.
    pub free_ns: u64,
    /// Those CPUs, longest free first.
    pub cpus: Vec<FreeCpu>,
    /// Decisions of ticks meanwhile about balancing for tickless CPUs.
    pub ticks: Vec<DecisionCount>,
    /// Number of CPUs that balanced for tickless ones and stopped because they got work.
    pub helpers_busy: u64,
    /// Whether the source does not report balancing and its decisions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reasons_missing: bool,
}

/// The order of tries: pass (none is last), level, reason.
type TryKey = (Option<u8>, u8, &'static str);

#[derive(Clone, Debug, Default)]
struct FreeTime {
    since: Option<u64>,
    total_ns: u64,
    from_start: bool,
    tries: BTreeMap<TryKey, BalanceTry>,
}

/// Facts about a wait so far.
#[derive(Clone, Debug, Default)]
struct WaitSoFar {
    cpus: BTreeMap<CpuId, FreeTime>,
    any_since: Option<u64>,
    any_ns: u64,
    ticks: BTreeMap<KickReason, u64>,
    helpers_busy: u64,
}

impl WaitSoFar {
    fn start(&mut self, cpu: CpuId, at: u64, from_start: bool) {
        let free = self.cpus.entry(cpu).or_default();
        free.since.get_or_insert(at);
        free.from_start |= from_start;
        self.any_since.get_or_insert(at);
    }
    fn stop(&mut self, cpu: CpuId, at: u64) {
        let Some(free) = self.cpus.get_mut(&cpu) else { return };
        free.total_ns += free.since.take().map_or(0, |since| at - since);
        if self.cpus.values().all(|f| f.since.is_none()) {
            self.any_ns += self.any_since.take().map_or(0, |since| at - since);
        }
    }
    fn stop_all(&mut self, at: u64) {
        let cpus: Vec<CpuId> = self.cpus.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.stop(cpu, at));
    }
    fn into_chance(self, has_reasons: bool) -> Chance {
        let mut cpus: Vec<FreeCpu> = self
            .cpus
            .into_iter()
            .filter(|(_, f)| f.total_ns > 0)
            .map(|(cpu, f)| FreeCpu {
                cpu,
                free_ns: f.total_ns,
                from_start: f.from_start,
                tries: f.tries.into_values().collect(),
            })
            .collect();
        cpus.sort_by_key(|c| (std::cmp::Reverse(c.free_ns), c.cpu));
        let ticks = self.ticks.into_iter();
        Chance {
            free_ns: self.any_ns,
            cpus,
            ticks: ticks
                .map(|(r, count)| DecisionCount { reason: r.name(), about: r.about(), count })
                .collect(),
            helpers_busy: self.helpers_busy,
            reasons_missing: !has_reasons,
        }
    }
}

#[derive(Debug)]
struct Watch {
    window: Window,
    /// Its index among the given windows.
    place: usize,
    over: bool,
    /// Whether the task was switched to at the window's end. If not, this is a different run from the one with the
    /// window.
    met: bool,
    seen: WaitSoFar,
    /// The facts when the task's CPU entered `schedule()`.
    held: Option<Box<WaitSoFar>>,
}

pub struct Chances {
    world: World,
    domains: Domains,
    /// Sorted by begin.
    watches: Vec<Watch>,
    /// How many of them have begun.
    begun: usize,
    /// Those that have begun and not ended.
    active: Vec<usize>,
    /// Set when all windows are over.
    done: Arc<AtomicBool>,
    has_reasons: bool,
}

impl Chances {
    /// Watches windows of a run. `done` is set when the last one has ended: the rest of the run is not needed.
    pub fn new(world: World, domains: Domains, windows: &[Window], done: Arc<AtomicBool>) -> Chances {
        let watch = |(place, w): (usize, &Window)| Watch {
            window: *w,
            place,
            over: false,
            met: false,
            seen: WaitSoFar::default(),
            held: None,
        };
        let mut watches: Vec<Watch> = windows.iter().enumerate().map(watch).collect();
        watches.sort_by_key(|w| w.window.from);
        Chances { world, domains, watches, begun: 0, active: Vec::new(), done, has_reasons: true }
    }
    /// For a source that does not report balancing and its decisions.
    #[must_use]
    pub fn without_reasons(self) -> Chances {
        Chances { has_reasons: false, ..self }
    }

    /// The chances of each window, in the order given. `None` if the task was not switched to at the window's end
    /// although `runs_at_end` says that it was: this is another run.
    pub fn finish(mut self, runs_at_end: bool) -> Vec<Option<Chance>> {
        self.begin(u64::MAX);
        self.watches.sort_by_key(|w| w.place);
        let has_reasons = self.has_reasons;
        let one = |w: Watch| (w.met || !runs_at_end).then(|| w.seen.into_chance(has_reasons));
        self.watches.into_iter().map(one).collect()
    }

    fn change(&mut self, at: u64, change: Change) {
        let Chances { world, watches, active, .. } = self;
        for at_watch in active.iter() {
            let w = &mut watches[*at_watch];
            let task = w.window.task;
            match change {
                Change::Queued(queued, cpu, _) if queued == task => w.queue(world, cpu, at),
                Change::Ran(ran) if ran == task => {
                    w.met |= at == w.window.until;
                    w.close(at);
                    w.over = at >= w.window.until;
                }
                Change::Moved(moved, _) if moved == task => w.close(at),
                Change::Held(cpu) if world.queued_on(task) == Some(cpu) && world.shared(task).is_none() => {
                    w.hold(at);
                }
                Change::Released(_, Some(picked)) if picked == task => w.restore(),
                Change::Released(cpu, _) if world.queued_on(task) == Some(cpu) => w.held = None,
                Change::Freed(cpu, _) if world.queued_on(task).is_some() && world.may_use(task, cpu) => {
                    w.seen.start(cpu, at, false);
                }
                Change::Taken(cpu) => w.seen.stop(cpu, at),
                _ => {}
            }
        }
    }

    /// Adds decisions to the open waits that they concern.
    fn note(&mut self, e: &Event) {
        let Chances { world, domains, watches, active, .. } = self;
        for at_watch in active.iter() {
            let w = &mut watches[*at_watch];
            let Some(on) = world.queued_on(w.window.task) else { continue };
            let usable = world.may_use(w.window.task, e.cpu);
            let reaches = |level: u8| {
                let levels = domains.of_cpu.get(e.cpu.index());
                levels.and_then(|l| l.get(usize::from(level))).is_some_and(|d| d.span.contains(on))
            };
            match e.kind {
                EventKind::Kick { why, .. } => *w.seen.ticks.entry(why).or_default() += 1,
                EventKind::Skip { why: SkipReason::HelperBusy, .. } => w.seen.helpers_busy += 1,
                EventKind::Skip { level, why, have_ns, need_ns } if usable => {
                    let compared = need_ns > 0;
                    let a_try = BalanceTry {
                        pass: None,
                        level,
                        reaches: reaches(level),
                        reason: why.name(),
                        about: why.about(),
                        count: 0,
                        have_ns: compared.then_some(have_ns),
                        need_ns: compared.then_some(need_ns),
                    };
                    w.seen.tried(e.cpu, (None, level, why.name()), a_try);
                }
                EventKind::Balance { level, trigger, why, .. } if usable => {
                    let a_try = BalanceTry {
                        pass: Some(trigger.name()),
                        level,
                        reaches: reaches(level),
                        reason: why.name(),
                        about: why.about(),
                        count: 0,
                        have_ns: None,
                        need_ns: None,
                    };
                    w.seen.tried(e.cpu, (Some(trigger as u8), level, why.name()), a_try);
                }
                _ => {}
            }
        }
    }

    /// Begins windows that start before this instant, with the world as it was then, and ends those that end before it.
    fn begin(&mut self, now: u64) {
        let Chances { world, watches, begun, active, .. } = self;
        while let Some(w) = watches.get_mut(*begun).filter(|w| w.window.from < now) {
            if let Some(on) = world.queued_on(w.window.task) {
                w.queue(world, on, w.window.from);
            }
            active.push(*begun);
            *begun += 1;
        }
        active.retain(|at| {
            let w = &mut watches[*at];
            if !w.over && w.window.until < now {
                w.close(w.window.until);
                w.over = true;
            }
            !w.over
        });
        if active.is_empty() && *begun == watches.len() {
            self.done.store(true, Relaxed);
        }
    }
}

impl Watch {
    fn queue(&mut self, world: &World, on: CpuId, at: u64) {
        let task = self.window.task;
        let usable: Vec<CpuId> = world.free().iter().filter(|c| world.may_use(task, *c)).collect();
        usable.into_iter().for_each(|c| self.seen.start(c, at, true));
        if world.is_held_for(task, on) {
            self.hold(at);
        }
    }
    fn hold(&mut self, at: u64) {
        if self.held.is_none() {
            let mut so_far = self.seen.clone();
            so_far.stop_all(at);
            self.held = Some(Box::new(so_far));
        }
    }
    fn restore(&mut self) {
        if let Some(held) = self.held.take() {
            self.seen = *held;
        }
    }
    fn close(&mut self, at: u64) {
        self.held = None;
        self.seen.stop_all(at);
    }
}

impl WaitSoFar {
    fn tried(&mut self, cpu: CpuId, key: TryKey, what: BalanceTry) {
        let tries = &mut self.cpus.entry(cpu).or_default().tries;
        let counted = tries.get(&key).map_or(0, |t| t.count);
        tries.insert(key, BalanceTry { count: counted + 1, ..what });
    }
}

impl Sink for Chances {
    fn event(&mut self, e: &Event) {
        self.begin(e.at.0);
        self.note(e);
        let changes = self.world.apply(e);
        changes.iter().for_each(|change| self.change(e.at.0, *change));
        self.world.recycle(changes);
    }
    fn wants_details(&self) -> bool {
        true
    }
}
