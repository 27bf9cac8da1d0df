//! A run on a machine that has come to rest: tasks are set up, the clock runs to the end, accounts are closed.

use crate::blocks::Blocks;
use crate::charge::{self, Prices};
use crate::cpu::Current;
use crate::engine::{Accounts, Engine};
use crate::ext::Ext;
use crate::ext_parts::{Parts, Ran};
use crate::ext_program::Program;
use crate::rest::{self, Rested};
use crate::setting::{Setting, set};
use crate::task::{Life, Task};
use crate::{turns, visits};
use schedlab_base::{CpuId, Error, Ns, Result, SchedulerFailure, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::decision::Rules;
use schedlab_board::drivers::{Links, Runs, UserMode};
use schedlab_board::engine::{NEVER, WinnerTree};
use schedlab_board::masks::confine;
use schedlab_board::nested::Guest;
use schedlab_board::net::Peer;
use schedlab_board::objects::Objects;
use schedlab_board::report::SimReport;
use schedlab_board::run::{check_turns, counting, starters};
use schedlab_board::thread::Thread;
use schedlab_board::turns::Rounds;
use schedlab_kernel::Level;
use schedlab_kernel::policy::group_of;
use schedlab_machine::Machine;
use schedlab_record::{Schedstat, schedstat};
use schedlab_trace::Sink;
use schedlab_workload::{Built, Later, Place, ROOT_GROUP};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// How much later than asked a timer may fire by default, ns.
pub const TIMER_SLACK_NS: u64 = 50_000;
/// Steps between two looks at the flags from outside.
const LOOK_EVERY: u64 = 4096;
/// This many steps at one instant are an endless loop, in a program or in the engine.
const STEPS_AT_ONCE: u64 = 1_000_000;

/// A run, on a machine that has come to rest.
pub struct Setup<'a> {
    /// Settings in the middle of the run, each from its time on, ns since the run began.
    pub changes: Vec<(Ns, Vec<Setting>)>,
    /// The workload, built with the same seed.
    pub workload: Built,
    /// The kernels of its virtual machines, booted.
    pub guests: Vec<Box<dyn Guest + 'a>>,
    /// The machines behind its links, booted.
    pub peers: Vec<Box<dyn Peer + 'a>>,
    pub seed: u64,
    /// The sched_ext scheduler that has the tasks from the start.
    pub ext: Option<Scx>,
    /// Other schedulers instead, each from its time on, in order; `None`: the kernel's own classes.
    pub later_ext: Vec<(Ns, Option<Scx>)>,
    /// The rules that explain the code's choices, if the run asks for it.
    pub rules: Option<Box<dyn Rules + 'a>>,
    /// Steps between two walks over the invariants of the board; `None`: they are not walked.
    pub walk_every: Option<u64>,
    /// The run ends then, if its workload lasts longer.
    pub until: Option<Ns>,
    /// Ends the run early when it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// The run stores its progress here from time to time, simulated ns.
    pub clock: Option<&'a AtomicU64>,
}

/// A sched_ext scheduler in one of its forms.
pub enum Scx {
    Object(Box<Ext>),
    Program(Box<Program>),
}

/// Runs a workload on the image's kernel, to the workload's end.
///
/// # Errors
/// A workload that this machine or this kernel can't run, and whatever the kernel's code does that no kernel may.
pub fn simulate<'m: 'a, 'a>(
    rested: Rested<'m>,
    setup: Setup<'a>,
    sink: &'a mut dyn Sink,
) -> Result<SimReport> {
    let Setup { mut workload, rules, seed, stop, walk_every, .. } = setup;
    let Rested { engine, settings, rise, object } = rested;
    let machine = engine.board.machine;
    check_turns(machine, setup.peers.is_empty() && setup.guests.is_empty())?;
    confine(&mut workload, machine)?;
    let end = (workload.warmup + workload.duration).0;
    let mut outside = Outside {
        rise: None,
        measure_from: workload.warmup.0,
        changes: setup.changes.into_iter().map(|(at, s)| (at.0, s)).collect(),
        later: workload.later.iter().map(|(at, l)| (workload.warmup.plus(*at).0, *l)).collect(),
    };
    let mut engine = engine.reporting_to(sink);
    engine.kernel.image().seed(seed);
    let scheduler = match &setup.ext {
        Some(Scx::Object(ext)) => {
            Some(ext.enable(&mut engine, object).map_err(|e| e.of_scheduler(SchedulerFailure::Refused))?)
        }
        _ => None,
    };
    let first_own = workload.tasks.len();
    let starters = load(&mut engine, workload, settings.iter().any(Setting::asks_for_sessions))?;
    setup.guests.into_iter().for_each(|guest| engine.board.add_guest(guest));
    rest::draw_arrivals(&mut engine, seed, first_own);
    engine.board.lay_out_memory();
    let (warmup_ns, turns) = (outside.measure_from, engine.board.turns.is_some());
    let rise = rise.map(|rise| Rise { at: rise.level.begins_ns(warmup_ns, turns), ..rise });
    match rise {
        Some(rise) if rise.at == 0 => rise.begin(&mut engine)?,
        later => outside.rise = later,
    }
    if let Some(rules) = rules {
        engine.explain_by(rules, &settings);
    }
    engine.alive += setup.peers.iter().filter(|peer| !peer.is_done()).count();
    engine.board.peers = setup.peers;
    // Tasks that a program's scheduler has start when it has attached, as on a machine where it is started first.
    let waiting = match &setup.ext {
        Some(Scx::Program(_)) => starters,
        _ => start(&mut engine, starters).map(|()| Vec::new())?,
    };
    let end = setup.until.map_or(end, |until| end.min(until.0));
    let clock = Clock { end, walk_every, stop, progress: setup.clock, under_scheduler: false };
    let mut order = Order::of(&mut engine, seed);
    let mut ran = Ran::default();
    let parts = Parts { first: setup.ext, enabled: scheduler, waiting, later: setup.later_ext, object };
    let ended = parts.drive(&mut engine, (&mut order, &clock), &mut outside, &mut ran)?;
    engine.now = ended.at;
    let mut report = report(engine, ended, &outside)?;
    ran.report_in(&mut report.found);
    Ok(report)
}

/// Who acts next: a CPU in its turn, or the one with the next event.
pub(crate) enum Order {
    Turns(Rounds),
    Events { seed: u64 },
}

impl Order {
    fn of(engine: &mut Engine<'_>, seed: u64) -> Order {
        turns::begin(engine, seed).map_or(Order::Events { seed }, Order::Turns)
    }
    pub fn drive<'m>(
        &mut self,
        engine: &mut Engine<'m>,
        clock: &Clock<'_>,
        outside: &mut Outside<'m>,
    ) -> Result<Ended> {
        match self {
            Order::Turns(rounds) => turns::drive(rounds, engine, clock, outside),
            Order::Events { seed } => drive(engine, *seed, clock, outside),
        }
    }
}

/// The tasks that start by themselves do so.
///
/// # Errors
/// What the kernel's code does meanwhile that no kernel may.
pub(crate) fn start(engine: &mut Engine<'_>, starters: Vec<TaskId>) -> Result<()> {
    starters.into_iter().for_each(|task| engine.start_task(task));
    engine.fault.take().map_or(Ok(()), Err)
}

/// Where a run gets a level that counts: at its begin, or short of the end of its warm-up. The rest, and a warm-up up
/// to there, are free. Paths that were priced before keep their price.
pub(crate) struct Rise<'m> {
    pub at: u64,
    pub level: Level,
    /// It has the costs that the image's code does not.
    pub machine: &'m Machine,
    pub blocks: Blocks,
}

impl<'m> Rise<'m> {
    fn begin(self, engine: &mut Engine<'m>) -> Result<()> {
        (engine.board.machine, engine.level) = (self.machine, self.level);
        engine.kernel.image().count(self.blocks, &Prices::of(&self.machine.costs))?;
        if self.level.weaves() {
            engine.kernel.image().weave(self.level == Level::Exact);
        }
        let has_siblings = engine.board.siblings.iter().any(|siblings| !siblings.is_empty());
        engine.shares_cores = has_siblings && engine.board.turns.is_none();
        // The entered CPU gets what it holds of lines.
        engine.enter(CpuId(0));
        engine.lay_out_objects();
        Ok(())
    }
}

impl Engine<'_> {
    /// The objects of channels, words and tasks get their lines. Nobody else has them on CPUs that take turns.
    fn lay_out_objects(&mut self) {
        let (board, image) = (&mut self.board, self.kernel.image());
        if board.turns.is_none() {
            let mut threads_of = BTreeMap::<u32, usize>::new();
            self.tasks.iter().for_each(|t| *threads_of.entry(t.mm).or_default() += 1);
            let shares = self.tasks.iter().map(|t| t.mm > 0 && threads_of[&t.mm] > 1);
            let (words, shares_files) = (board.user.words.len(), shares.take(board.threads.len()).collect());
            board.objects =
                Some(Objects::new(&board.channels, words, shares_files, |lines| image.object(lines)));
        }
    }
}

/// Declares the workload's tasks, before those that are there already; returns those that start by themselves.
fn load(engine: &mut Engine<'_>, mut workload: Built, in_sessions: bool) -> Result<Vec<TaskId>> {
    engine.board.load(&mut workload, Place::Host);
    engine.enter(CpuId(0));
    engine.make_groups(&workload.groups)?;
    engine.alive = counting(&workload, Place::Host);
    let starters = starters(&workload, Place::Host);
    let own = engine.without_tasks(workload.tasks.len());
    for mut decl in workload.tasks {
        // Threads share an address space; a process has its own.
        let mm = if workload.processes { engine.tasks.len() as u32 + 2 } else { 1 };
        // A benchmark, or a file, is a session, as a shell starts it; tasks in a group stay there.
        let is_in_session =
            in_sessions && decl.group == ROOT_GROUP && !decl.background && decl.place == Place::Host;
        let session = is_in_session.then(|| {
            decl.part.checked_add(1).map_or_else(|| group_of(&decl.name).to_owned(), |n| n.to_string())
        });
        let (attr, allowed, group) = (decl.attr, decl.affinity.take(), decl.group);
        engine.board.threads.push(Thread::of(decl, TIMER_SLACK_NS));
        engine.tasks.push(Task { group, session, allowed, mm, ..Task::new(attr) });
    }
    for (task, thread) in own {
        engine.tasks.push(task);
        engine.board.threads.push(thread);
    }
    Ok(starters)
}

/// Events from outside at stated times.
pub struct Outside<'m> {
    rise: Option<Rise<'m>>,
    measure_from: u64,
    changes: VecDeque<(u64, Vec<Setting>)>,
    later: VecDeque<(u64, Later)>,
}

impl<'m> Outside<'m> {
    /// Nothing happens.
    pub fn nothing() -> Outside<'m> {
        Outside { rise: None, measure_from: NEVER, changes: VecDeque::new(), later: VecDeque::new() }
    }
    /// When the next one is due.
    pub fn next(&self) -> u64 {
        let change = self.changes.front().map_or(NEVER, |c| c.0);
        let rise = self.rise.as_ref().map_or(NEVER, |rise| rise.at);
        self.measure_from.min(rise).min(change).min(self.later.front().map_or(NEVER, |l| l.0))
    }
    /// Handles the events that are due.
    pub fn act(&mut self, engine: &mut Engine<'m>, ended: &mut Ended) -> Result<()> {
        engine.finish_verbs();
        if let Some(rise) = self.rise.take_if(|rise| rise.at <= engine.now) {
            rise.begin(engine)?;
        }
        if self.measure_from <= engine.now {
            ended.before = Some(begin_measuring(engine)?);
            self.measure_from = NEVER;
        }
        while let Some((_, settings)) = due(&mut self.changes, engine.now) {
            engine.enter(CpuId(0));
            set(&mut engine.kernel, &settings)?;
            let preempt = settings.iter().filter_map(Setting::preempt).next_back();
            engine.preempt = preempt.unwrap_or(engine.preempt);
            engine.pass_settings(&settings);
        }
        while let Some((_, later)) = due(&mut self.later, engine.now) {
            engine.change(later);
        }
        Ok(())
    }
}

/// Takes the first of a list in order of time, if it is due.
fn due<T>(list: &mut VecDeque<(u64, T)>, now: u64) -> Option<(u64, T)> {
    if list.front()?.0 <= now { list.pop_front() } else { None }
}

/// The end of a run, and the flags that may end it before.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    pub end: u64,
    walk_every: Option<u64>,
    stop: Option<&'a AtomicBool>,
    progress: Option<&'a AtomicU64>,
    /// Whether a sched_ext scheduler has the tasks.
    pub under_scheduler: bool,
}

impl Clock<'_> {
    /// The same with another end.
    pub(crate) fn ending_at(self, end: u64) -> Self {
        Clock { end, ..self }
    }
    /// Nobody ends it before, and nobody watches.
    pub fn up_to(end: u64) -> Clock<'static> {
        Clock { end, walk_every: None, stop: None, progress: None, under_scheduler: false }
    }
    /// Whether the run is over after a step at `at`: a fault, no task left, a stop from outside.
    #[inline]
    pub fn is_over(&self, engine: &mut Engine<'_>, at: u64, ended: &mut Ended) -> Result<bool> {
        let goes_on = engine.fault.is_none() && engine.alive > 0 && at < engine.findings.due;
        if goes_on && self.walk_every.is_none() && !engine.steps.is_multiple_of(LOOK_EVERY) {
            return Ok(false);
        }
        self.looks(engine, at, ended)
    }
    #[cold]
    fn looks(&self, engine: &mut Engine<'_>, at: u64, ended: &mut Ended) -> Result<bool> {
        if let Some(fault) = engine.fault.take() {
            return Err(fault);
        }
        if engine.alive == 0 {
            ended.at = at.max(engine.board.measure_from);
            return Ok(true);
        }
        if at >= engine.findings.due {
            engine.audit(false);
        }
        if self.walk_every.is_some_and(|steps| engine.steps.is_multiple_of(steps)) {
            engine.walk()?;
        }
        if engine.steps.is_multiple_of(LOOK_EVERY) {
            engine.kernel.image().gather_chains();
            self.progress.inspect(|clock| clock.store(at, Relaxed));
            if self.stop.is_some_and(|s| s.load(Relaxed)) {
                (ended.at, ended.stopped) = (at, true);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How a run ended.
pub struct Ended {
    pub(crate) at: u64,
    pub(crate) stopped: bool,
    /// The kernel's counters when measuring began.
    pub(crate) before: Option<Schedstat>,
}

impl Ended {
    /// A run that ends by the clock.
    pub fn at(at: u64) -> Ended {
        Ended { at, stopped: false, before: None }
    }
}

/// Lets CPUs act in the order of their next events until the end.
pub fn drive<'m>(
    engine: &mut Engine<'m>,
    seed: u64,
    clock: &Clock<'_>,
    outside: &mut Outside<'m>,
) -> Result<Ended> {
    let n = engine.nr_cpus();
    let mut tree = engine.order_of_events(seed);
    tree.arm(n, outside.next());
    let mut ended = Ended::at(clock.end);
    let mut at_once = 0;
    while let Some((slot, at)) = tree.first().filter(|(_, at)| *at < clock.end) {
        at_once = if at == engine.now { at_once + 1 } else { 0 };
        if at_once > STEPS_AT_ONCE {
            return Err(stands_still(at, clock));
        }
        let woven = engine.kernel.weaves() && slot < n;
        if woven {
            engine.horizon = WinnerTree::time(tree.take(slot)).min(clock.end);
        } else if engine.kernel.weaves() {
            // Only CPUs' verbs are woven: what else acts does so at its instant.
            engine.horizon = at;
        }
        if slot == n {
            engine.now = at;
            outside.act(engine, &mut ended)?;
            tree.arm(n, outside.next());
        } else if let Some(number) = slot.checked_sub(n + 1) {
            let horizon = WinnerTree::time(tree.take(slot)).min(clock.end);
            engine.now = at;
            engine.peer_acts(number, horizon);
            tree.arm(slot, engine.slot_event(CpuId::from(slot)));
        } else {
            engine.steps += 1;
            engine.step(CpuId::from(slot), at);
            let next = engine.next_event(CpuId::from(slot));
            if woven { tree.put(slot, next) } else { tree.arm(slot, next) }
        }
        engine.rearm(&mut tree);
        if clock.is_over(engine, at, &mut ended)? {
            break;
        }
    }
    Ok(ended)
}

fn stands_still(at: u64, clock: &Clock<'_>) -> Error {
    let e = Error::input(format!("the run stands still at {}: its CPUs act and no time passes", Ns(at)));
    match clock.under_scheduler {
        true => e
            .of_scheduler(SchedulerFailure::StandsStill)
            .help("a scheduler does so that kicks CPUs, or gives slices of 0, without end"),
        false => e.help("a program does so that loops over operations which take no time: give it a 'run'"),
    }
}

/// The kernel's own counters.
fn counters(engine: &mut Engine<'_>) -> Result<Schedstat> {
    let text = engine.kernel.image().apart(|image| image.schedstat());
    if text.is_empty() {
        return Err(Error::internal("the image has no /proc/schedstat: the tree's initcalls have not run"));
    }
    schedstat::parse(Path::new("the image's /proc/schedstat"), text.as_bytes())
}

/// Brings user work of every CPU up to this instant.
fn settle_accounts(engine: &mut Engine<'_>) {
    for cpu in engine.cpus.ids() {
        let in_user = engine.cpus[cpu].in_user();
        engine.account_user(cpu);
        if in_user
            && engine.cpus[cpu].current.program().is_some_and(|t| engine.board.threads[t].vcpu().is_some())
        {
            // It continues.
            engine.start_user(cpu);
        }
        let now = engine.now;
        let c = &mut engine.cpus[cpu];
        // The last event of a woven verb may be later than this instant: the excess is taken back.
        let stayed_ns = now.wrapping_sub(std::mem::replace(&mut c.since, now));
        if c.current != Current::Idle {
            c.busy_ns = c.busy_ns.wrapping_add(stayed_ns);
        }
    }
}

/// CPU time of a task so far, ns.
fn runtime_ns(engine: &mut Engine<'_>, task: TaskId) -> u64 {
    match engine.tasks[task].pid {
        0 => 0,
        pid => engine.kernel.usage(pid).runtime_ns,
    }
}

/// The warm-up is over: sums start again.
fn begin_measuring(engine: &mut Engine<'_>) -> Result<Schedstat> {
    settle_accounts(engine);
    engine.enter(CpuId(0));
    for task in engine.tasks.ids() {
        engine.board.threads[task].before = (engine.board.threads[task].work_ns, runtime_ns(engine, task));
    }
    engine.begin_quotas();
    engine.accounts = Accounts::default();
    engine.count_anew();
    let counted = counters(engine);
    // The code executed by this look does not belong to the run.
    engine.kernel.image().take_counts();
    visits::forget();
    engine.kernel.image().take_chains();
    counted
}

fn report(mut engine: Engine<'_>, mut ended: Ended, outside: &Outside<'_>) -> Result<SimReport> {
    if ended.before.is_none() {
        // All tasks have left, or the run was stopped, during the warm-up.
        ended.before = Some(begin_measuring(&mut engine)?);
    }
    engine.finish_verbs();
    engine.audit(true);
    if let Some(fault) = engine.fault.take() {
        return Err(fault);
    }
    let chains = engine.kernel.image().take_chains();
    let functions = engine.kernel.image().take_counts();
    settle_accounts(&mut engine);
    engine.enter(CpuId(0));
    let mut report =
        SimReport { end: Ns(ended.at), events: engine.steps, stopped: ended.stopped, ..SimReport::default() };
    let change = outside.changes.front().map(|c| c.0);
    let later = outside.later.front().map(|l| l.0);
    let from = Ns(engine.board.measure_from);
    report.missed = change.into_iter().chain(later).min().map(|at| Ns(at).since(from));
    for task in engine.tasks.ids() {
        let exec_ns = runtime_ns(&mut engine, task);
        let is_born = engine.tasks[task].life != Life::Unborn;
        report.tasks.push(engine.board.threads[task].account(is_born, exec_ns));
    }
    report.wakeups = engine.accounts.wakeups;
    (report.chains, report.functions) = (chains, functions);
    report.image_functions = engine.kernel.image().functions();
    add_samples(&mut engine, ended.at, &mut report);
    engine.close_others(ended.at, &mut report)?;
    let after = counters(&mut engine)?;
    engine.board.complete(&mut report);
    let found = &mut report.found;
    if let Some(before) = &ended.before {
        let (counted, warnings) = schedstat::delta(before, &after)?;
        found.schedstat = Some(counted);
        found.warnings.extend(warnings);
    }
    found.warnings.extend(engine.kernel.warnings());
    found.warnings.extend(engine.findings.warnings());
    found.counters.extend(sums(&engine));
    found.counters.extend(engine.quota_counts());
    if let Some(explaining) = &engine.explaining {
        found.counters.extend(engine.accounts.explained.counters());
        found.warnings.extend(explaining.warnings());
    }
    found.warnings.extend(engine.accounts.explained.warnings());
    Ok(report)
}

/// Where the code is charged by what it executes: fills its samples up to the time for which CPUs were not halted, and
/// takes the time of balancing from them.
fn add_samples(engine: &mut Engine<'_>, end: u64, report: &mut SimReport) {
    if !engine.level.counts() {
        return;
    }
    let halted = engine.halted_ns(end);
    let all_ns = (end - engine.board.counted_from) * engine.nr_cpus() as u64;
    // A CPU's clock stands still until it has left its idle state.
    let unhalted = all_ns.saturating_sub(halted + engine.accounts.idle_exit_ns);
    charge::complete(&mut report.chains, unhalted);
    let sampled = |names: &[&str]| charge::sampled_ns(&report.chains, names);
    engine.accounts.newidle_ns = sampled(&["newidle_balance", "sched_balance_newidle"]);
    engine.accounts.periodic_ns =
        sampled(&["rebalance_domains", "sched_balance_domains", "_nohz_idle_balance"]);
    let stats_ns = sampled(&["update_sd_lb_stats"]);
    report.found.counters.insert("balance.stats_time".to_owned(), stats_ns);
}

/// Counters by metric name.
fn sums(engine: &Engine<'_>) -> [(String, u64); 5] {
    let (accounts, counts) = (&engine.accounts, &engine.board.counts);
    let all = [
        ("refill.time", counts.refill_ns),
        ("smt.shared_time", counts.smt_shared_ns),
        ("idle.exit_time", accounts.idle_exit_ns),
        ("balance.newidle_time", accounts.newidle_ns),
        ("balance.periodic_time", accounts.periodic_ns),
    ];
    all.map(|(name, n)| (name.to_owned(), n))
}
