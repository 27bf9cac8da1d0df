//! A run: tasks are set up, the clock runs to the end, accounts are drawn up, cheap invariants checked.

use crate::fair::Entity;
use crate::fair::early::overlap::Overlap;
use crate::fair::group::sessions;
use crate::nested::{self, set_up::Guests};
use crate::net::set_up::Unlinked;
use crate::o1::state::O1Task;
use crate::observe::Stats;
use crate::outside::Outside;
use crate::preempt::Parked;
use crate::system::System;
use crate::task::Class;
use crate::task::{Task, TaskCounts, TaskState};
use crate::timer::Fires;
use crate::turns;
use crate::wakeup::wide::Flips;
use crate::{Setup, SimReport, TaskAccount};
use schedlab_base::{CpuId, CpuSet, Error, GroupId, Ns, Result, Stream, TaskId};
use schedlab_board::arrivals::Arrivals;
use schedlab_board::board::Counts;
use schedlab_board::board::Kernel as _;
use schedlab_board::cache_by_level::Sources;
use schedlab_board::channel::state::Channels;
use schedlab_board::drivers::{Links, UserMode};
use schedlab_board::engine::WinnerTree;
use schedlab_board::masks::confine;
use schedlab_board::nested::Guest;
use schedlab_board::net::{Nic, Peer};
use schedlab_board::thread::Thread;
use schedlab_kernel::{Attr, History, Kernel, Policy};
use schedlab_machine::Machine;
use schedlab_workload::{Built, Place, Program, ROOT_GROUP};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Steps between two checks of the stop flag and reports of progress.
const STOP_EVERY: u64 = 4096;

pub(crate) struct NewTask {
    pub(crate) name: String,
    pub(crate) background: bool,
    pub(crate) waits_at_end: bool,
    /// The run lasts as long as it.
    pub(crate) counts: bool,
    pub(crate) program: Box<dyn Program>,
    pub(crate) attr: Attr,
    pub(crate) allowed: Option<CpuSet>,
    pub(crate) footprint_kb: u32,
    /// Timer slack, ns; `None` for the kernel's default.
    pub(crate) slack_ns: Option<u64>,
    /// Address space; `None` for the kernel's own tasks.
    pub(crate) mm: Option<u32>,
    pub(crate) cpu: CpuId,
    pub(crate) group: GroupId,
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
    if machine.turns.is_some() && !(workload.nested.is_empty() && workload.remotes.is_empty()) {
        let text =
            format!("{} has CPUs that take turns: no other machine is simulated with it", machine.name);
        return Err(Error::input(text).help("take a machine without [turns]"));
    }
    let (mut guests, mut links) =
        (Guests::of(machine, &mut workload)?, Unlinked::of(machine, &mut workload)?);
    confine(&mut workload, machine)?;
    let mut sys = System::new(machine, kernel, seed, sink);
    sys.board.measure_from = workload.warmup.0;
    sys.board.nic = Nic::new(&workload, Place::Host, sys.nr_cpus());
    let starters = load_workload(&mut sys, workload, Place::Host);
    guests.boot(seed).into_iter().for_each(|guest| nested::set_up::add(&mut sys, guest));
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
    for task in tasks {
        sys.start_task(task);
        let cpu = sys.tasks[task].cpu;
        sys.kick(CpuId(0), cpu);
    }
}

/// Declares the workload's tasks; returns those that start by themselves `here`.
pub(crate) fn load_workload(sys: &mut System<'_>, mut workload: Built, here: Place) -> Vec<TaskId> {
    let autogroup = sys.fixed.history.autogroup && sys.fixed.kernel.tunables.autogroup != 0;
    if autogroup {
        sessions::separate(&mut workload, here);
    }
    sys.board.user.lay_out(workload.words, workload.slots);
    sys.board.channels = Channels::new(workload.channels, &workload.sets, workload.tasks.len());
    sys.board.masks = workload.masks;
    let warmup = workload.warmup;
    sys.run.later = workload.later.iter().map(|(at, later)| (warmup.plus(*at).0, *later)).collect();
    sys.board.intervals.names = workload.series.iter().map(|s| s.name.clone()).collect();
    sys.declare_groups(&workload.groups);
    sys.run.alive = workload.tasks.iter().filter(|t| t.counts() && t.place == here).count();
    let mut starters = Vec::new();
    for t in workload.tasks {
        let id = TaskId::from(sys.tasks.len());
        if t.spawned_by.is_none() && t.place == here {
            starters.push(id);
        }
        let (counts, name, program, attr) = (t.counts(), t.name, t.program, t.attr);
        add(
            sys,
            NewTask {
                name,
                background: t.background,
                waits_at_end: t.waits_at_end,
                counts,
                program,
                attr,
                allowed: t.affinity,
                footprint_kb: t.footprint_kb,
                slack_ns: t.timer_slack.map(|s| s.0),
                // Threads share an address space; a process has its own.
                mm: Some(if workload.processes { id.0 + 1 } else { 0 }),
                cpu: CpuId(0),
                group: t.group,
            },
        );
    }
    // Background tasks come first: they serve the others.
    starters.sort_by_key(|id| !sys.board.threads[*id].background);
    starters
}

/// Declares the machine's own tasks, asleep until their first arrival.
fn load_background(sys: &mut System<'_>, machine: &Machine) {
    let n = sys.nr_cpus();
    for (s, source) in machine.background.iter().enumerate() {
        let stream = sys.fixed.stream.purpose("background").number(s as u64);
        let homes: Vec<usize> =
            if source.per_cpu { (0..n).collect() } else { vec![stream.below(0, n as u64) as usize] };
        for home in homes {
            let program = Arrivals::new(source, stream.number(home as u64));
            let (first, cpu) = (program.first(), CpuId::from(home));
            let name = if source.per_cpu { format!("{}/{home}", source.name) } else { source.name.clone() };
            let allowed = source.per_cpu.then(|| std::iter::once(cpu).collect());
            let attr = Attr::nice(source.nice);
            let id = add(
                sys,
                NewTask {
                    name,
                    background: true,
                    waits_at_end: false,
                    counts: false,
                    program: Box::new(program),
                    attr,
                    allowed,
                    footprint_kb: 4,
                    slack_ns: None,
                    mm: None,
                    cpu,
                    group: ROOT_GROUP,
                },
            );
            let task = &mut sys.tasks[id];
            task.state = TaskState::Sleeping;
            task.detached = true;
            let number = sys.cpus[cpu].timers.start(Fires::Wakes(id), first, 0);
            sys.tasks[id].timer = Some((cpu, number));
        }
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
    let slack_ns = new.slack_ns.unwrap_or(sys.fixed.kernel.tunables.timer_slack_ns);
    sys.board.threads.push(Thread {
        background: new.background,
        counts: new.counts,
        waits_at_end: new.waits_at_end,
        ran_on: new.cpu,
        ..Thread::new(new.name, new.program, new.footprint_kb, slack_ns)
    });
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
    let mut tree = WinnerTree::new(n + 1 + sys.board.peers.len(), Stream::new(seed).purpose("ties"));
    (0..n).for_each(|c| tree.arm(c, sys.next_event(CpuId::from(c))));
    (0..sys.board.peers.len()).for_each(|r| tree.arm(n + 1 + r, sys.board.peers[r].next_event()));
    sys.stepping.touched.clear();
    // Events from outside share one slot, however many there are, so that ties between CPUs fall the same way without
    // them.
    let mut outside = Outside::new(sys, &how.changes);
    tree.arm(n, outside.next());
    let mut first = tree.least();
    while let Some((slot, at)) = tree.turn_of(first) {
        if at >= clock.end {
            break;
        }
        if slot == n {
            sys.now = at;
            outside.act(sys);
            while let Some(touched) = sys.stepping.touched.pop() {
                tree.arm(touched.index(), sys.slot_event(touched));
            }
            tree.arm(n, outside.next());
            first = tree.least();
            continue;
        }
        if slot > n {
            first = match remote_turn(sys, &mut tree, (&mut clock, how), (slot, at))? {
                Some(next) => next,
                None => break,
            };
            continue;
        }
        match turn(sys, &mut tree, &mut clock, slot, at, how)? {
            Some(next) => first = next,
            None => break,
        }
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
        let looks_up = sys.run.alive == 0 || sys.stepping.steps >= clock.look_at;
        if (looks_up || how.check || sys.run.fault.is_some()) && over(sys, clock, at, how)? {
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
    while let Some(touched) = sys.stepping.touched.pop() {
        tree.arm(touched.index(), sys.slot_event(touched));
    }
    tree.arm(slot, sys.board.peers[number].next_event());
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
            sys.enter_vcpu(c, curr, vcpu, speed);
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
    for mut own in std::mem::take(&mut sys.others.nested) {
        let counted = own.counted;
        own.close(clock.end, counted, &mut report)?;
    }
    for mut link in std::mem::take(&mut sys.board.peers) {
        link.close(clock.end, &mut report)?;
    }
    let work = report.tasks.iter().filter(|t| !t.background).map(|t| t.work_ns).sum();
    let found = &mut report.found;
    found.duration = report.end.since(Ns(sys.board.measure_from));
    found.intervals.append(&mut sys.board.intervals.kept);
    // The intervals of several tasks are kept in the order in which they ended.
    found.intervals.sort_by_key(|i| i.start);
    let lost = sys.board.intervals.dropped;
    found.warnings.extend((lost > 0).then(|| schedlab_record::accounts::dropped(lost)));
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
    if let Some(memory) = &sys.board.by_level {
        found.counters.extend(memory.sources.named());
    }
    found.counters.insert("work".to_owned(), work);
    if sys.board.channels.may_lose() {
        *found.counters.entry("udp.lost".to_owned()).or_default() += sys.board.counts.datagrams_lost;
    }
    Ok(report)
}

/// A task's CPU time and work since the warm-up ended.
pub(crate) fn account(sys: &System<'_>, task: TaskId) -> TaskAccount {
    let thread = &sys.board.threads[task];
    TaskAccount {
        name: thread.name.clone(),
        background: thread.background,
        ended: (sys.tasks[task].state != TaskState::Unborn).then_some(Ns(thread.ended)),
        cpu_time_ns: sys.entity(task).sum_exec - thread.before.1,
        work_ns: thread.work_ns - thread.before.0,
    }
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
    sys.board.counts = Counts::default();
    if let Some(memory) = &mut sys.board.by_level {
        memory.sources = Sources::default();
    }
    sys.accounts.schedstat.clear();
    sys.begin_counting_quotas();
    sys.board.counted_from = sys.now;
    for own in &mut sys.others.nested {
        own.begin_measuring(sys.now);
    }
    for link in &mut sys.board.peers {
        link.begin_measuring(sys.now);
    }
}
