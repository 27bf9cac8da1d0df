//! A run: the image boots for a machine, tasks are set up, the clock runs to the end, accounts are drawn up.

use crate::blocks::Blocks;
use crate::charge::{self, Prices};
use crate::cpu::{Current, Next};
use crate::engine::{Accounts, Engine, booted_at_ns, first_due_ns, rest_ns};
use crate::kernel::{Debug, Kernel};
use crate::setting::{Setting, set};
use crate::task::{Life, Task};
use crate::{turns, visits};
use schedlab_base::{CpuId, Error, Ns, Result, Stream, TaskId};
use schedlab_board::arrivals::Arrivals;
use schedlab_board::board::Counts;
use schedlab_board::cache_by_level::Sources;
use schedlab_board::channel::state::Channels;
use schedlab_board::decision::Rules;
use schedlab_board::drivers::{Links, UserMode};
use schedlab_board::engine::{NEVER, WinnerTree};
use schedlab_board::masks::confine;
use schedlab_board::nested::Guest;
use schedlab_board::net::{Nic, Peer};
use schedlab_board::report::{SimReport, TaskAccount};
use schedlab_board::thread::Thread;
use schedlab_kernel::policy::group_of;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Attr, History, Level};
use schedlab_machine::Machine;
use schedlab_record::{Schedstat, schedstat};
use schedlab_trace::Sink;
use schedlab_workload::build::TaskDecl;
use schedlab_workload::{Built, Later, Place, ROOT_GROUP};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// How much later than asked a timer may fire by default, ns.
const TIMER_SLACK_NS: u64 = 50_000;
/// Steps between two looks at the flags from outside.
const LOOK_EVERY: u64 = 4096;
/// So many steps at one instant are an endless loop, in a program or in the engine.
const STEPS_AT_ONCE: u64 = 1_000_000;

/// The full input of a run.
pub struct Setup<'a> {
    pub machine: &'a Machine,
    /// The image's shared object.
    pub object: &'a Path,
    /// The image of the same tree that does not count, where the code is charged by what it executes.
    pub plain: Option<&'a Path>,
    pub level: Level,
    /// The release that the tree is of: channels and policies have its rules.
    pub history: History,
    /// The preemption model that the image was built with.
    pub preempt: Preempt,
    /// Settings from the start.
    pub settings: Vec<Setting>,
    /// Settings in the middle of the run, each from its time on, ns since the run began.
    pub changes: Vec<(Ns, Vec<Setting>)>,
    /// The workload, built with the same seed.
    pub workload: Built,
    /// The kernels of its virtual machines, booted.
    pub guests: Vec<Box<dyn Guest + 'a>>,
    /// The machines behind its links, booted.
    pub peers: Vec<Box<dyn Peer + 'a>>,
    pub seed: u64,
    /// Whether the machine's background tasks run.
    pub background: bool,
    /// Who says why the code chose as it did, if somebody asks.
    pub rules: Option<Box<dyn Rules + 'a>>,
    /// How the run helps to find a fault.
    pub debug: Debug<'a>,
    /// Ends the run early when it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// The run stores its progress here from time to time, simulated ns.
    pub clock: Option<&'a AtomicU64>,
}

/// Runs a workload on the image's kernel, to the workload's end. A process makes one run.
///
/// # Errors
/// A workload that this machine or this kernel can't run, and whatever the kernel's code does that no kernel may.
pub fn simulate(setup: Setup<'_>, sink: &mut dyn Sink) -> Result<SimReport> {
    let Setup {
        machine,
        object,
        plain,
        level,
        history,
        preempt,
        settings,
        changes,
        mut workload,
        guests,
        peers,
        seed,
        background,
        rules,
        mut debug,
        stop,
        clock,
    } = setup;
    if machine.turns.is_some() && level.weaves() {
        let text = format!("{} has CPUs that take turns: none acts while another one does", machine.name);
        return Err(Error::input(text).help("take level counted, or a machine without [turns]"));
    }
    if machine.turns.is_some() && !(peers.is_empty() && guests.is_empty()) {
        let text =
            format!("{} has CPUs that take turns: no other machine is simulated with it", machine.name);
        return Err(Error::input(text).help("take a machine without [turns]"));
    }
    confine(&mut workload, machine)?;
    let counted;
    let machine = match plain {
        Some(_) => {
            counted = Machine { costs: machine.costs.beside_counted_code(), ..machine.clone() };
            &counted
        }
        None => machine,
    };
    let mut kernel =
        Kernel::boot(object, machine, seed, booted_at_ns(machine.topology.nr_cpus()), &mut debug)?;
    settings.iter().try_for_each(|s| set(&mut kernel, s))?;
    let preempt = settings.iter().filter_map(Setting::preempt).next_back().unwrap_or(preempt);
    if let Some(plain) = plain {
        kernel.image().count(Blocks::of(object, plain)?, &Prices::of(&machine.costs))?;
    }
    let end = (workload.warmup + workload.duration).0;
    let mut outside = Outside {
        measure_from: workload.warmup.0,
        changes: changes.into_iter().map(|(at, s)| (at.0, s)).collect(),
        later: workload.later.iter().map(|(at, l)| (workload.warmup.plus(*at).0, *l)).collect(),
    };
    let mut engine = Engine::new(machine, kernel, (history, preempt), sink);
    engine.board.measure_from = workload.warmup.0;
    engine.level = level;
    engine.board.nic = Nic::new(&workload, Place::Host, engine.nr_cpus());
    let starters = load(&mut engine, workload, settings.iter().any(Setting::asks_for_sessions))?;
    guests.into_iter().for_each(|guest| engine.add_guest(guest));
    if background {
        load_background(&mut engine, seed);
    }
    engine.board.lay_out_memory();
    rest(&mut engine, seed)?;
    if level.weaves() {
        engine.kernel.image().weave(level == Level::Exact);
    }
    if let Some(rules) = rules {
        engine.explain_by(rules, &settings);
    }
    engine.alive += peers.iter().filter(|peer| !peer.is_done()).count();
    engine.board.peers = peers;
    for task in starters {
        engine.start_task(task);
    }
    if let Some(fault) = engine.fault.take() {
        return Err(fault);
    }
    let clock = Clock { end, stop, progress: clock };
    let ended = match engine.board.turns {
        Some(_) => turns::drive(&mut engine, seed, &clock, &mut outside)?,
        None => drive(&mut engine, seed, &clock, &mut outside)?,
    };
    engine.now = ended.at;
    report(engine, ended, &outside)
}

/// The machine comes to rest: each CPU runs its kernel threads once, as at a boot, goes idle, and stops its tick.
/// Without that no CPU would have an `idle_stamp`, by which the slow path chooses among idle CPUs. Once its domains are
/// due, each balances them with nothing to move, as it has on a machine that was up for long: intervals are long,
/// SIS_UTIL scans all of a cache, and no runqueue counts as overloaded. Each balances once more half-way: what the boot
/// has left in the averages of its queues, by which new tasks are judged, has decayed by then. Nobody watches, and time
/// begins anew afterwards.
fn rest(engine: &mut Engine<'_>, seed: u64) -> Result<()> {
    for cpu in engine.cpus.ids() {
        engine.enter(cpu);
        for pid in engine.kernel.kthreads(cpu) {
            engine.kernel.image().wake(pid, false);
        }
        engine.take_notes(cpu);
        engine.begin(cpu, Next::Settle, 0);
    }
    let alive = engine.alive;
    engine.alive = 1;
    let nothing = &mut Outside { measure_from: NEVER, changes: VecDeque::new(), later: VecDeque::new() };
    let (due, end) = (first_due_ns(engine.nr_cpus()), rest_ns(engine.nr_cpus()));
    for at in [due, end / 2] {
        drive(engine, seed, &Clock { end: at, stop: None, progress: None }, nothing)?;
        engine.now = at;
        for cpu in engine.cpus.ids() {
            engine.enter(cpu);
            engine.kernel.image().irq_idle_tick();
            engine.settle_after(cpu);
        }
    }
    drive(engine, seed, &Clock { end, stop: None, progress: None }, nothing)?;
    engine.cpus.ids().for_each(|cpu| engine.cpus[cpu].shift(end));
    (engine.now, engine.epoch, engine.alive, engine.steps) = (0, engine.epoch + end, alive, 0);
    engine.findings.begin();
    engine.accounts = Accounts::default();
    engine.board.counts = Counts::default();
    engine.watched = true;
    Ok(())
}

/// Declares the workload's tasks; returns those that start by themselves.
fn load(engine: &mut Engine<'_>, workload: Built, in_sessions: bool) -> Result<Vec<TaskId>> {
    engine.board.user.lay_out(workload.words, workload.slots);
    engine.board.channels = Channels::new(workload.channels, &workload.sets, workload.tasks.len());
    engine.board.masks = workload.masks;
    engine.board.intervals.names = workload.series.iter().map(|s| s.name.clone()).collect();
    engine.make_groups(&workload.groups)?;
    let here = |t: &TaskDecl| t.place == Place::Host;
    engine.alive = workload.tasks.iter().filter(|t| t.counts() && here(t)).count();
    let mut starters = Vec::new();
    for decl in workload.tasks {
        let id = TaskId::from(engine.tasks.len());
        if decl.spawned_by.is_none() && here(&decl) {
            starters.push(id);
        }
        // Threads share an address space; a process has its own.
        let mm = if workload.processes { id.0 + 2 } else { 1 };
        // A benchmark, or a file, is a session, as a shell starts it; tasks in a group stay there.
        let session =
            (in_sessions && decl.group == ROOT_GROUP && !decl.background && here(&decl)).then(|| {
                decl.part.checked_add(1).map_or_else(|| group_of(&decl.name).to_owned(), |n| n.to_string())
            });
        let (counts, waits_at_end, group) = (decl.counts(), decl.waits_at_end, decl.group);
        let TaskDecl { name, program, attr, affinity, footprint_kb, timer_slack, background, .. } = decl;
        let slack_ns = timer_slack.map_or(TIMER_SLACK_NS, |s| s.0);
        let thread = Thread::new(name, program, footprint_kb, slack_ns);
        engine.board.threads.push(Thread { background, counts, waits_at_end, ..thread });
        engine.tasks.push(Task { group, session, allowed: affinity, mm, ..Task::new(attr) });
    }
    // Background tasks come first: they serve the others.
    starters.sort_by_key(|id| !engine.board.threads[*id].background);
    Ok(starters)
}

/// The machine's own tasks: each is made before the machine rests, and sleeps until its first arrival.
fn load_background(engine: &mut Engine<'_>, seed: u64) {
    let n = engine.nr_cpus();
    let machine = engine.board.machine;
    for (s, source) in machine.background.iter().enumerate() {
        let stream = Stream::new(seed).purpose("background").number(s as u64);
        let homes: Vec<usize> =
            if source.per_cpu { (0..n).collect() } else { vec![stream.below(0, n as u64) as usize] };
        for home in homes {
            let cpu = CpuId::from(home);
            let name = if source.per_cpu { format!("{}/{home}", source.name) } else { source.name.clone() };
            let program = Arrivals::new(source, stream.number(home as u64)).asleep(rest_ns(n));
            let thread = Thread::new(name, Box::new(program), 4, TIMER_SLACK_NS);
            engine.board.threads.push(Thread { background: true, ran_on: cpu, ..thread });
            let allowed = source.per_cpu.then(|| std::iter::once(cpu).collect());
            let id = engine.tasks.push(Task { allowed, ..Task::new(Attr::nice(source.nice)) });
            engine.start_task(id);
        }
    }
}

/// What comes from outside at stated times.
pub struct Outside {
    measure_from: u64,
    changes: VecDeque<(u64, Vec<Setting>)>,
    later: VecDeque<(u64, Later)>,
}

impl Outside {
    /// When the next of it is due.
    pub fn next(&self) -> u64 {
        let change = self.changes.front().map_or(NEVER, |c| c.0);
        self.measure_from.min(change).min(self.later.front().map_or(NEVER, |l| l.0))
    }
    /// Handles what is due.
    pub fn act(&mut self, engine: &mut Engine<'_>, ended: &mut Ended) -> Result<()> {
        engine.finish_verbs();
        if self.measure_from <= engine.now {
            ended.before = Some(begin_measuring(engine)?);
            self.measure_from = NEVER;
        }
        while let Some((_, settings)) = due(&mut self.changes, engine.now) {
            engine.enter(CpuId(0));
            for setting in &settings {
                set(&mut engine.kernel, setting)?;
                engine.preempt = setting.preempt().unwrap_or(engine.preempt);
            }
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

/// When a run ends, and who may end it before.
pub struct Clock<'a> {
    pub end: u64,
    stop: Option<&'a AtomicBool>,
    progress: Option<&'a AtomicU64>,
}

impl Clock<'_> {
    /// Whether the run is over after a step at `at`: a fault, no task left, a stop from outside.
    pub fn is_over(&self, engine: &mut Engine<'_>, at: u64, ended: &mut Ended) -> Result<bool> {
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
    at: u64,
    stopped: bool,
    /// The kernel's counters when measuring began.
    before: Option<Schedstat>,
}

impl Ended {
    /// A run that ends by the clock.
    pub fn at(at: u64) -> Ended {
        Ended { at, stopped: false, before: None }
    }
}

/// Lets CPUs act in the order of their next events until the end.
fn drive(engine: &mut Engine<'_>, seed: u64, clock: &Clock<'_>, outside: &mut Outside) -> Result<Ended> {
    let n = engine.nr_cpus();
    let mut tree = WinnerTree::new(n + 1 + engine.board.peers.len(), Stream::new(seed).purpose("ties"));
    (0..n).for_each(|c| tree.arm(c, engine.next_event(CpuId::from(c))));
    engine.touched.clear();
    tree.arm(n, outside.next());
    (0..engine.board.peers.len()).for_each(|p| tree.arm(n + 1 + p, engine.board.peers[p].next_event()));
    let mut ended = Ended::at(clock.end);
    let mut at_once = 0;
    while let Some((slot, at)) = tree.first().filter(|(_, at)| *at < clock.end) {
        at_once = if at == engine.now { at_once + 1 } else { 0 };
        if at_once > STEPS_AT_ONCE {
            let text = format!("the run stands still at {}: its CPUs act and no time passes", Ns(at));
            return Err(Error::input(text));
        }
        if engine.kernel.weaves() {
            // Only CPUs' verbs are woven: what else acts does so at its instant.
            engine.horizon = if slot < n { WinnerTree::time(tree.take(slot)).min(clock.end) } else { at };
        }
        if slot == n {
            engine.now = at;
            outside.act(engine, &mut ended)?;
            tree.arm(n, outside.next());
        } else if let Some(number) = slot.checked_sub(n + 1) {
            let horizon = WinnerTree::time(tree.take(slot)).min(clock.end);
            engine.now = at;
            engine.peer_acts(number, horizon);
            tree.arm(slot, engine.board.peers[number].next_event());
        } else {
            engine.steps += 1;
            engine.step(CpuId::from(slot), at);
            tree.arm(slot, engine.next_event(CpuId::from(slot)));
        }
        while let Some(touched) = engine.touched.pop() {
            tree.arm(touched.index(), engine.slot_event(touched));
        }
        if clock.is_over(engine, at, &mut ended)? {
            break;
        }
    }
    Ok(ended)
}

/// The kernel's own counters.
fn counters(engine: &mut Engine<'_>) -> Result<Schedstat> {
    let text = engine.kernel.image().schedstat();
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
        // The last event of a woven verb may be later than this instant: what lies beyond is taken back.
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
    engine.board.counts = Counts::default();
    engine.board.counted_from = engine.now;
    if let Some(memory) = &mut engine.board.by_level {
        memory.sources = Sources::default();
    }
    let now = engine.now;
    engine.board.peers.iter_mut().for_each(|peer| peer.begin_measuring(now));
    engine.begin_measuring_guests();
    let counted = counters(engine);
    // What this look has executed is not the run's.
    engine.kernel.image().take_counts();
    visits::forget();
    engine.kernel.image().take_chains();
    counted
}

fn report(mut engine: Engine<'_>, mut ended: Ended, outside: &Outside) -> Result<SimReport> {
    if ended.before.is_none() {
        // All tasks left, or the run was stopped, during the warm-up.
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
        let cpu_time_ns = runtime_ns(&mut engine, task);
        let t = &engine.board.threads[task];
        report.tasks.push(TaskAccount {
            name: t.name.clone(),
            background: t.background,
            ended: (engine.tasks[task].life != Life::Unborn).then_some(Ns(t.ended)),
            cpu_time_ns: cpu_time_ns.saturating_sub(t.before.1),
            work_ns: t.work_ns - t.before.0,
        });
    }
    report.wakeups = engine.accounts.wakeups;
    (report.chains, report.functions) = (chains, functions);
    if engine.level.counts() {
        let halted = engine.halted_ns(ended.at);
        let all_ns = (ended.at - engine.board.counted_from) * engine.nr_cpus() as u64;
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
    // Tasks of other machines have their accounts there, by the same ids.
    engine.close_guests(ended.at, &mut report)?;
    for mut peer in std::mem::take(&mut engine.board.peers) {
        peer.close(ended.at, &mut report)?;
    }
    let after = counters(&mut engine)?;
    let found = &mut report.found;
    found.duration = report.end.since(from);
    found.intervals.append(&mut engine.board.intervals.kept);
    found.intervals.sort_by_key(|i| i.start);
    let lost = engine.board.intervals.dropped;
    found.warnings.extend((lost > 0).then(|| schedlab_record::accounts::dropped(lost)));
    if let Some(before) = &ended.before {
        let (counted, warnings) = schedstat::delta(before, &after)?;
        found.schedstat = Some(counted);
        found.warnings.extend(warnings);
    }
    found.warnings.extend(engine.kernel.warnings());
    found.warnings.extend(engine.findings.warnings());
    let work = report.tasks.iter().filter(|t| !t.background).map(|t| t.work_ns).sum();
    let accounts = &engine.accounts;
    let sums = [
        ("work", work),
        ("refill.time", engine.board.counts.refill_ns),
        ("smt.shared_time", engine.board.counts.smt_shared_ns),
        ("idle.exit_time", accounts.idle_exit_ns),
        ("balance.newidle_time", accounts.newidle_ns),
        ("balance.periodic_time", accounts.periodic_ns),
    ];
    found.counters.extend(sums.map(|(name, n)| (name.to_owned(), n)));
    found.counters.extend(engine.board.by_level.iter().flat_map(|memory| memory.sources.named()));
    found.counters.extend(engine.quota_counts());
    if let Some(explaining) = &engine.explaining {
        found.counters.extend(engine.accounts.explained.counters());
        found.warnings.extend(explaining.warnings());
    }
    found.warnings.extend(engine.accounts.explained.warnings());
    if engine.board.channels.may_lose() {
        *found.counters.entry("udp.lost".to_owned()).or_default() += engine.board.counts.datagrams_lost;
    }
    Ok(report)
}
