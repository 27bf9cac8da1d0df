//! A run: tasks are set up, the clock runs to the end, accounts are drawn up, cheap invariants checked.

use crate::fair::Entity;
use crate::fair::early::overlap::Overlap;
use crate::fair::group::sessions;
use crate::nested::set_up::Guests;
use crate::net::set_up::Unlinked;
use crate::o1::state::O1Task;
use crate::observe::Stats;
use crate::outside::Outside;
use crate::preempt::Parked;
use crate::system::System;
use crate::task::Class;
use crate::task::{Task, TaskCounts, TaskState};
use crate::turns;
use crate::wakeup::wide::Flips;
use crate::{Setup, SimReport, TaskAccount};
use schedlab_base::{CpuId, CpuSet, Error, GroupId, Ns, Result, TaskId};
use schedlab_board::arrivals::of_machine;
use schedlab_board::board::Kernel as _;
use schedlab_board::drivers::{Links, Runs, UserMode, VirtualMachines};
use schedlab_board::engine::WinnerTree;
use schedlab_board::masks::confine;
use schedlab_board::net::Peer;
use schedlab_board::run::{check_turns, counting, starters};
use schedlab_board::thread::Thread;
use schedlab_kernel::{Attr, History, Kernel, Policy};
use schedlab_machine::Machine;
use schedlab_workload::{Built, Place, ROOT_GROUP};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Steps between two checks of the stop flag and reports of progress.
const STOP_EVERY: u64 = 4096;

/// A new task.
pub(crate) struct NewTask {
    pub(crate) thread: Thread,
    pub(crate) attr: Attr,
    pub(crate) allowed: Option<CpuSet>,
    /// Address space; `None` for the kernel's own tasks.
    pub(crate) mm: Option<u32>,
    pub(crate) cpu: CpuId,
    pub(crate) group: GroupId,
}

impl NewTask {
    /// One of the kernel's own, without attributes of its own.
    pub(crate) fn of(thread: Thread) -> NewTask {
        let (attr, cpu) = (Attr::default(), CpuId(0));
        NewTask { thread, attr, allowed: None, mm: None, cpu, group: ROOT_GROUP }
    }
}

/// Runs a simulation; see [`crate::simulate`], for `merge` [`crate::simulate_unmerged`], and for `walk_every`
/// [`crate::simulate_walking`].
pub fn run(
    setup: Setup<'_>,
    merge: bool,
    walk_every: Option<u64>,
    sink: &mut dyn schedlab_trace::Sink,
) -> Result<SimReport> {
    let Setup { machine, kernel, changes, mut workload, seed, background, check, stop, clock: watched } =
        setup;
    if workload.attrs().any(|a| a.policy == Policy::Deadline) {
        let text = "the simulator's rules have no SCHED_DEADLINE";
        return Err(Error::input(text)
            .help("the kernel's own class has it (--backend code), and live kernels run it"));
    }
    crate::fair::group::check(&workload.groups, &History::of(kernel.version))?;
    let end = (workload.warmup + workload.duration).0;
    check_turns(machine, workload.nested.is_empty() && workload.remotes.is_empty())?;
    let (mut guests, mut links) =
        (Guests::of(machine, &mut workload)?, Unlinked::of(machine, &mut workload)?);
    confine(&mut workload, machine)?;
    let mut sys = System::new(machine, kernel, seed, sink);
    let starters = load_workload(&mut sys, workload, Place::Host);
    guests.boot(seed).into_iter().for_each(|guest| sys.board.add_guest(Box::new(guest)));
    sys.board.peers = links.boot(seed).into_iter().map(|link| Box::new(link) as Box<dyn Peer>).collect();
    sys.run.alive += sys.board.peers.iter().filter(|link| !link.is_done()).count();
    if background {
        load_background(&mut sys, machine);
    }
    sys.board.lay_out_memory();
    start_all(&mut sys, starters);
    sys.let_merge(merge && !check);
    let look_every = walk_every.map_or(STOP_EVERY, |steps| steps.clamp(1, STOP_EVERY));
    let how = Drive { check, walks: walk_every.is_some(), look_every, stop, clock: watched, changes };
    let clock = RunClock { end, look_at: look_every, stopped: false, missed: None };
    let mut clock = match sys.board.turns {
        Some(_) => turns::drive::drive(&mut sys, clock, &how)?,
        None => drive(&mut sys, seed, clock, &how)?,
    };
    finish(&mut sys, &mut clock);
    report(sys, clock)
}

/// Starts tasks, and signals the CPUs that they are on.
pub(crate) fn start_all(sys: &mut System<'_>, tasks: Vec<TaskId>) {
    sys.balance.first_places = Some(Box::default());
    for task in tasks {
        sys.start_task(task);
        let cpu = sys.tasks[task].cpu;
        sys.kick(CpuId(0), cpu);
    }
    sys.balance.first_places = None;
}

/// Declares the workload's tasks; returns those that start by themselves `here`.
pub(crate) fn load_workload(sys: &mut System<'_>, mut workload: Built, here: Place) -> Vec<TaskId> {
    let autogroup = sys.fixed.history.autogroup && sys.fixed.kernel.tunables.autogroup != 0;
    if autogroup {
        sessions::separate(&mut workload, here);
    }
    sys.board.load(&mut workload, here);
    let warmup = workload.warmup;
    sys.run.later = workload.later.iter().map(|(at, later)| (warmup.plus(*at).0, *later)).collect();
    sys.declare_groups(&workload.groups);
    sys.run.alive = counting(&workload, here);
    let (starters, slack_ns) = (starters(&workload, here), sys.fixed.kernel.tunables.timer_slack_ns);
    for mut task in workload.tasks {
        // Threads share an address space; a process has its own.
        let mm = Some(if workload.processes { sys.tasks.len() as u32 + 1 } else { 0 });
        let (attr, allowed, group) = (task.attr, task.affinity.take(), task.group);
        add(sys, NewTask { attr, allowed, mm, group, ..NewTask::of(Thread::of(task, slack_ns)) });
    }
    starters
}

/// Declares the machine's own tasks, asleep until their first arrival.
fn load_background(sys: &mut System<'_>, machine: &Machine) {
    let slack_ns = sys.fixed.kernel.tunables.timer_slack_ns;
    for mut own in of_machine(machine, sys.fixed.stream) {
        let (attr, allowed, cpu, first) = (own.attr, own.allowed.take(), own.home, own.program.first());
        let id = add(sys, NewTask { attr, allowed, cpu, ..NewTask::of(own.into_thread(slack_ns)) });
        let task = &mut sys.tasks[id];
        task.state = TaskState::Sleeping;
        task.detached = true;
        sys.wake_at(cpu, id, first);
    }
}

/// Declares a task.
pub(crate) fn add(sys: &mut System<'_>, new: NewTask) -> TaskId {
    let id = TaskId::from(sys.tasks.len());
    let queue = sys.group_queue(new.group, new.cpu);
    let mut e = Entity::of_task(id, new.attr.weight(&sys.fixed.history), queue, &sys.fixed.history);
    e.parent = sys.owner_of(new.group, new.cpu);
    let entity = sys.fair.entities.push(e);
    sys.parked.push(Parked::default());
    sys.board.threads.push(Thread { ran_on: new.cpu, ..new.thread });
    sys.tasks.push(Task {
        class: Class::of(new.attr, sys.fixed.fair),
        rr_ticks: 0,
        attr: new.attr,
        o1: O1Task::new(new.attr),
        allowed: new.allowed,
        own: None,
        state: TaskState::Unborn,
        group: new.group,
        cpu: new.cpu,
        on_rq: false,
        queued_at: 0,
        on_cpu: false,
        entity,
        relative: false,
        detached: false,
        throttles: false,
        waits_on: None,
        timer: None,
        timed_out: false,
        mm: new.mm,
        overlap: Overlap::new(sys.fixed.gran.wakeup_ns),
        flips: Flips::default(),
        recent: new.cpu,
        counted: TaskCounts::default(),
    });
    id
}

/// Ways to drive the clock, and observers outside the run.
pub(crate) struct Drive<'a> {
    /// The expensive invariants are walked after every step.
    pub(crate) check: bool,
    /// The invariants are walked at every look.
    walks: bool,
    /// Steps between two looks at the flags from outside.
    look_every: u64,
    stop: Option<&'a AtomicBool>,
    clock: Option<&'a AtomicU64>,
    /// Changes of the kernel's switches, with their times.
    pub(crate) changes: Vec<(Ns, Kernel)>,
}

impl Drive<'_> {
    /// Reports the run's progress, and returns whether the run is to end.
    fn wants_an_end(&self, now: u64) -> bool {
        if let Some(clock) = self.clock {
            clock.store(now, Relaxed);
        }
        self.stop.is_some_and(|s| s.load(Relaxed))
    }
}

/// The clock's position in a run.
pub(crate) struct RunClock {
    pub(crate) end: u64,
    /// The number of steps at which to look up next.
    pub(crate) look_at: u64,
    stopped: bool,
    /// The time of the first change from outside that was not made.
    pub(crate) missed: Option<Ns>,
}

/// Lets CPUs act in the order of their next events until the end.
fn drive(sys: &mut System<'_>, seed: u64, mut clock: RunClock, how: &Drive<'_>) -> Result<RunClock> {
    let n = sys.nr_cpus();
    let mut tree = sys.order_of_events(seed);
    let mut outside = Outside::new(sys, &how.changes);
    tree.arm(n, outside.next());
    let mut first = tree.least();
    while let Some((slot, at)) = tree.turn_of(first) {
        if at >= clock.end {
            break;
        }
        let next = if slot < n {
            turn(sys, &mut tree, &mut clock, slot, at, how)?
        } else if slot > n {
            remote_turn(sys, &mut tree, (&mut clock, how), (slot, at))?
        } else {
            sys.now = at;
            outside.act(sys);
            sys.rearm(&mut tree);
            tree.arm(n, outside.next());
            Some(tree.least())
        };
        let Some(next) = next else { break };
        first = next;
    }
    clock.missed = outside.left();
    Ok(clock)
}

/// The clock has run out.
fn finish(sys: &mut System<'_>, clock: &mut RunClock) {
    let measured = sys.now >= sys.board.measure_from;
    sys.now = clock.end;
    if !measured {
        // All tasks left, or the run was stopped, during the warm-up: nothing of it counts.
        begin_measuring(sys);
    }
}

/// The CPU of `slot` acts at `at`, and again as long as its next step comes before any other CPU's, ties included: the
/// order of steps is the tree's, and so is every step's horizon. A softirq that takes no time is not interrupted by
/// others' steps, since the kernel's code, with which machines without costs are compared, has it as one call. Returns
/// the key of the next CPU; `None` when the run is over.
///
/// The key is read before the CPU acts, and not from the tree afterwards, so that a processor need not wait for the
/// CPU's new time to continue with the next.
#[inline]
fn turn(
    sys: &mut System<'_>,
    tree: &mut WinnerTree,
    clock: &mut RunClock,
    slot: usize,
    mut at: u64,
    how: &Drive<'_>,
) -> Result<Option<u64>> {
    let cpu = CpuId::from(slot);
    let mut rival = tree.take(slot);
    loop {
        sys.stepping.steps += 1;
        sys.stepping.horizon = WinnerTree::time(rival).min(clock.end);
        sys.step(cpu, at);
        if !sys.stepping.touched.is_empty() {
            while let Some(touched) = sys.stepping.touched.pop() {
                if touched != cpu {
                    tree.arm(touched.index(), sys.slot_event(touched));
                }
            }
            rival = tree.least();
        }
        if sys.stepping.steps >= sys.stepping.look_at && over(sys, clock, at, how)? {
            return Ok(None);
        }
        let next = sys.next_event(cpu);
        if next == at && sys.is_in_softirq(cpu) {
            continue;
        }
        if tree.key(slot, next) > rival {
            tree.put(slot, next);
            return Ok(Some(rival));
        }
        if !sys.stepping.merge || next >= clock.end {
            tree.put(slot, next);
            return Ok(Some(tree.least()));
        }
        at = next;
    }
}

/// The machine behind a link of `slot` acts at `at`. Returns the key of the next slot; `None` when the run is over.
#[cold]
fn remote_turn(
    sys: &mut System<'_>,
    tree: &mut WinnerTree,
    (clock, how): (&mut RunClock, &Drive<'_>),
    (slot, at): (usize, u64),
) -> Result<Option<u64>> {
    let number = slot - sys.nr_cpus() - 1;
    let rival = tree.take(slot);
    sys.now = at;
    sys.peer_acts(number, WinnerTree::time(rival).min(clock.end));
    sys.rearm(tree);
    tree.arm(slot, sys.slot_event(CpuId::from(slot)));
    let looks_up = sys.run.alive == 0 || sys.stepping.steps >= clock.look_at || sys.run.fault.is_some();
    if looks_up && over(sys, clock, at, how)? {
        return Ok(None);
    }
    Ok(Some(tree.least()))
}

/// Whether a run ends after a step at `at`: a fault, no task left, a stop from outside.
#[cold]
pub(crate) fn over(sys: &mut System<'_>, clock: &mut RunClock, at: u64, how: &Drive<'_>) -> Result<bool> {
    if let Some(fault) = sys.run.fault.take() {
        return Err(fault);
    }
    if how.check || (how.walks && sys.stepping.steps >= clock.look_at) {
        crate::invariants::walk(sys)?;
    }
    if sys.run.alive == 0 {
        clock.end = at.max(sys.board.measure_from);
        return Ok(true);
    }
    if sys.stepping.steps >= clock.look_at {
        clock.look_at = sys.stepping.steps + how.look_every;
        clock.stopped = how.wants_an_end(at);
        clock.end = if clock.stopped { at } else { clock.end };
    }
    sys.stepping.look_at = if how.check { 0 } else { clock.look_at };
    Ok(clock.stopped)
}

/// Brings user work and CPU time of every CPU up to this instant.
pub(crate) fn settle_accounts(sys: &mut System<'_>) {
    for c in (0..sys.nr_cpus()).map(CpuId::from) {
        let runs = sys.cpus[c].in_user();
        sys.account_user(c);
        if let Some(vcpu) = sys.cpus[c].curr.filter(|_| runs).and_then(|t| sys.board.threads[t].vcpu()) {
            let speed = sys.speed(c);
            let Some(curr) = sys.cpus[c].curr else { continue };
            sys.enter_vcpu(curr, vcpu, speed);
        }
        sys.charge_curr(c);
        let cpu = &mut sys.cpus[c];
        let stayed = sys.now - std::mem::replace(&mut cpu.since, sys.now);
        if cpu.curr.is_some() {
            cpu.busy_ns += stayed;
        }
    }
}

fn report(mut sys: System<'_>, clock: RunClock) -> Result<SimReport> {
    // A `schedule()` that the end cuts off has charged up to its beginning only. A task that has left its queue was
    // charged as it left.
    sys.release_clocks();
    settle_accounts(&mut sys);
    crate::invariants::accounts_agree(&sys)?;
    let mut report = SimReport {
        end: Ns(clock.end),
        events: sys.stepping.steps,
        stopped: clock.stopped,
        ..SimReport::default()
    };
    report.missed = clock.missed.map(|at| at.since(Ns(sys.board.measure_from)));
    report.tasks = sys.tasks.ids().map(|t| account(&sys, t)).collect();
    report.wakeups = sys.accounts.stats.wakeups;
    sys.close_others(clock.end, &mut report)?;
    sys.board.complete(&mut report);
    let found = &mut report.found;
    found.counters.extend(sys.quota_counts());
    if sys.fair.groups.len() > 1 {
        found
            .counters
            .insert("group.crowded_time".to_owned(), sys.accounts.stats.crowded_ticks * sys.fixed.tick_ns);
    }
    let mut schedstat = sys.accounts.schedstat;
    schedstat.timestamp = (clock.end - sys.board.counted_from.min(clock.end)) / sys.fixed.tick_ns;
    found.schedstat = Some(schedstat);
    found.counters.extend(sys.accounts.stats.named(&sys.board.counts));
    Ok(report)
}

/// A task's CPU time and work since the warm-up ended.
pub(crate) fn account(sys: &System<'_>, task: TaskId) -> TaskAccount {
    let (is_born, exec_ns) = (sys.tasks[task].state != TaskState::Unborn, sys.entity(task).sum_exec);
    sys.board.threads[task].account(is_born, exec_ns)
}

impl System<'_> {
    /// A `schedule()` that the end cuts off gives the runqueue's clock free.
    pub(crate) fn release_clocks(&mut self) {
        for cpu in self.cpus.ids() {
            if self.cpus[cpu].curr.is_some_and(|t| self.tasks[t].on_rq) {
                self.cpus[cpu].clock.release();
            }
        }
    }
}

/// The warm-up is over: sums start again.
pub(crate) fn begin_measuring(sys: &mut System<'_>) {
    settle_accounts(sys);
    for t in sys.tasks.ids() {
        let exec = sys.entity(t).sum_exec;
        sys.board.threads[t].before = (sys.board.threads[t].work_ns, exec);
    }
    sys.accounts.stats = Stats::default();
    sys.accounts.schedstat.clear();
    sys.begin_counting_quotas();
    sys.count_anew();
}
