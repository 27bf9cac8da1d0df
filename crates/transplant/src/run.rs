//! A run: the image boots for a machine, tasks are set up, the clock runs to the end, accounts are drawn up.

use crate::blocks::Blocks;
use crate::board::{Accounts, Board, booted_at_ns, first_due_ns, rest_ns};
use crate::charge::{self, Prices};
use crate::cpu::{Current, Next};
use crate::kernel::{Debug, Kernel};
use crate::setting::{Setting, set};
use crate::task::{Life, Task, UserOp};
use crate::{turns, visits};
use schedlab_base::{CpuId, Error, Ns, Result, Stream, TaskId};
use schedlab_kernel::policy::group_of;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Attr, History, Level};
use schedlab_machine::Machine;
use schedlab_record::{Schedstat, schedstat};
use schedlab_trace::{MoveReason, Sink};
use schedlab_workload::build::TaskDecl;
use schedlab_workload::{Built, Later, Outcome, Place, Program, ROOT_GROUP};
use schedlab_world::arrivals::Arrivals;
use schedlab_world::cache_by_level::Sources;
use schedlab_world::channel::state::Channels;
use schedlab_world::decision::Rules;
use schedlab_world::engine::{NEVER, WinnerTree};
use schedlab_world::masks::confine;
use schedlab_world::nested::Guest;
use schedlab_world::net::{Nic, Peer};
use schedlab_world::report::{SimReport, TaskAccount};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

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
    let mut board = Board::new(machine, kernel, (history, preempt), sink);
    board.accounts.measure_from = workload.warmup.0;
    board.level = level;
    board.nic = Nic::new(&workload, Place::Host, board.nr_cpus());
    let starters = load(&mut board, workload, settings.iter().any(Setting::asks_for_sessions))?;
    guests.into_iter().for_each(|guest| board.add_guest(guest));
    if background {
        load_background(&mut board, seed);
    }
    board.lay_out_memory();
    rest(&mut board, seed)?;
    if level.weaves() {
        board.kernel.image().weave(level == Level::Exact);
    }
    if let Some(rules) = rules {
        board.explain_by(rules);
    }
    board.alive += peers.iter().filter(|peer| !peer.is_done()).count();
    board.peers = peers;
    for task in starters {
        board.start_task(task);
    }
    if let Some(fault) = board.fault.take() {
        return Err(fault);
    }
    let clock = Clock { end, stop, progress: clock };
    let ended = match board.turns {
        Some(_) => turns::drive(&mut board, seed, &clock, &mut outside)?,
        None => drive(&mut board, seed, &clock, &mut outside)?,
    };
    board.now = ended.at;
    report(board, ended, &outside)
}

/// The machine comes to rest: each CPU runs its kernel threads once, as at a boot, goes idle, and stops its tick.
/// Without that no CPU would have an `idle_stamp`, by which the slow path chooses among idle CPUs. Once its domains are
/// due, each balances them with nothing to move, as it has on a machine that was up for long: intervals are long,
/// SIS_UTIL scans all of a cache, and no runqueue counts as overloaded. Each balances once more half-way: what the boot
/// has left in the averages of its queues, by which new tasks are judged, has decayed by then. Nobody watches, and time
/// begins anew afterwards.
fn rest(board: &mut Board<'_>, seed: u64) -> Result<()> {
    for cpu in board.cpus.ids() {
        board.enter(cpu);
        for pid in board.kernel.kthreads(cpu) {
            board.kernel.image().wake(pid, false);
        }
        board.take_notes(cpu);
        board.begin(cpu, Next::Settle, 0);
    }
    let (alive, intervals) = (board.alive, std::mem::take(&mut board.accounts.intervals));
    board.alive = 1;
    let nothing = &mut Outside { measure_from: NEVER, changes: VecDeque::new(), later: VecDeque::new() };
    let (due, end) = (first_due_ns(board.nr_cpus()), rest_ns(board.nr_cpus()));
    for at in [due, end / 2] {
        drive(board, seed, &Clock { end: at, stop: None, progress: None }, nothing)?;
        board.now = at;
        for cpu in board.cpus.ids() {
            board.enter(cpu);
            board.kernel.image().irq_idle_tick();
            board.settle_after(cpu);
        }
    }
    drive(board, seed, &Clock { end, stop: None, progress: None }, nothing)?;
    board.cpus.ids().for_each(|cpu| board.cpus[cpu].shift(end));
    (board.now, board.epoch, board.alive, board.steps) = (0, board.epoch + end, alive, 0);
    board.findings.begin();
    let measure_from = board.accounts.measure_from;
    board.accounts = Accounts { intervals, measure_from, ..Accounts::default() };
    board.watched = true;
    Ok(())
}

/// Declares the workload's tasks; returns those that start by themselves.
fn load(board: &mut Board<'_>, workload: Built, in_sessions: bool) -> Result<Vec<TaskId>> {
    board.user.lay_out(workload.words, workload.slots);
    board.channels = Channels::new(workload.channels, &workload.sets, workload.tasks.len());
    board.masks = workload.masks;
    board.accounts.intervals.names = workload.series.iter().map(|s| s.name.clone()).collect();
    board.make_groups(&workload.groups)?;
    let here = |t: &TaskDecl| t.place == Place::Host;
    board.alive = workload.tasks.iter().filter(|t| t.counts() && here(t)).count();
    let mut starters = Vec::new();
    for decl in workload.tasks {
        let id = TaskId::from(board.tasks.len());
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
        let task = declared(name, program, attr);
        board.tasks.push(Task {
            background,
            counts,
            waits_at_end,
            group,
            session,
            allowed: affinity,
            footprint_kb,
            mm,
            slack_ns: timer_slack.map_or(task.slack_ns, |s| s.0),
            ..task
        });
    }
    // Background tasks come first: they serve the others.
    starters.sort_by_key(|id| !board.tasks[*id].background);
    Ok(starters)
}

/// A task of the kernel's, or of the workload before the rest of its declaration.
fn declared(name: String, program: Box<dyn Program>, attr: Attr) -> Task {
    Task {
        name,
        program,
        life: Life::Unborn,
        pid: 0,
        user: UserOp::Ask,
        outcome: Outcome::Done,
        background: true,
        counts: false,
        waits_at_end: false,
        attr,
        allowed: None,
        group: ROOT_GROUP,
        session: None,
        parked: None,
        own: None,
        slack_ns: 50_000,
        mm: 0,
        footprint_kb: 4,
        warm_kb: 0,
        refill_ns: 0,
        reuse: Default::default(),
        ran_on: CpuId(0),
        asked: MoveReason::Moved,
        timed: false,
        waking: false,
        asleep: false,
        placed: None,
        last: None,
        work_ns: 0,
        ended: NEVER,
        before: (0, 0),
    }
}

/// The machine's own tasks: each is made before the machine rests, and sleeps until its first arrival.
fn load_background(board: &mut Board<'_>, seed: u64) {
    let n = board.nr_cpus();
    let machine = board.machine;
    for (s, source) in machine.background.iter().enumerate() {
        let stream = Stream::new(seed).purpose("background").number(s as u64);
        let homes: Vec<usize> =
            if source.per_cpu { (0..n).collect() } else { vec![stream.below(0, n as u64) as usize] };
        for home in homes {
            let cpu = CpuId::from(home);
            let name = if source.per_cpu { format!("{}/{home}", source.name) } else { source.name.clone() };
            let program = Arrivals::new(source, stream.number(home as u64)).asleep(rest_ns(n));
            let task = declared(name, Box::new(program), Attr::nice(source.nice));
            let allowed = source.per_cpu.then(|| std::iter::once(cpu).collect());
            let id = board.tasks.push(Task { allowed, ran_on: cpu, ..task });
            board.start_task(id);
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
    pub fn act(&mut self, board: &mut Board<'_>, ended: &mut Ended) -> Result<()> {
        board.finish_verbs();
        if self.measure_from <= board.now {
            ended.before = Some(begin_measuring(board)?);
            self.measure_from = NEVER;
        }
        while let Some((_, settings)) = due(&mut self.changes, board.now) {
            board.enter(CpuId(0));
            for setting in &settings {
                set(&mut board.kernel, setting)?;
                board.preempt = setting.preempt().unwrap_or(board.preempt);
            }
            board.pass_features();
        }
        while let Some((_, later)) = due(&mut self.later, board.now) {
            board.change(later);
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
    pub fn is_over(&self, board: &mut Board<'_>, at: u64, ended: &mut Ended) -> Result<bool> {
        if let Some(fault) = board.fault.take() {
            return Err(fault);
        }
        if board.alive == 0 {
            ended.at = at.max(board.accounts.measure_from);
            return Ok(true);
        }
        if at >= board.findings.due {
            board.audit(false);
        }
        if board.steps.is_multiple_of(LOOK_EVERY) {
            board.kernel.image().gather_chains();
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
fn drive(board: &mut Board<'_>, seed: u64, clock: &Clock<'_>, outside: &mut Outside) -> Result<Ended> {
    let n = board.nr_cpus();
    let mut tree = WinnerTree::new(n + 1 + board.peers.len(), Stream::new(seed).purpose("ties"));
    (0..n).for_each(|c| tree.arm(c, board.next_event(CpuId::from(c))));
    board.touched.clear();
    tree.arm(n, outside.next());
    (0..board.peers.len()).for_each(|p| tree.arm(n + 1 + p, board.peers[p].next_event()));
    let mut ended = Ended::at(clock.end);
    let mut at_once = 0;
    while let Some((slot, at)) = tree.first().filter(|(_, at)| *at < clock.end) {
        at_once = if at == board.now { at_once + 1 } else { 0 };
        if at_once > STEPS_AT_ONCE {
            let text = format!("the run stands still at {}: its CPUs act and no time passes", Ns(at));
            return Err(Error::input(text));
        }
        if board.kernel.weaves() {
            // Only CPUs' verbs are woven: what else acts does so at its instant.
            board.horizon = if slot < n { WinnerTree::time(tree.take(slot)).min(clock.end) } else { at };
        }
        if slot == n {
            board.now = at;
            outside.act(board, &mut ended)?;
            tree.arm(n, outside.next());
        } else if let Some(number) = slot.checked_sub(n + 1) {
            let horizon = WinnerTree::time(tree.take(slot)).min(clock.end);
            board.peer_acts(number, at, horizon);
            tree.arm(slot, board.peers[number].next_event());
        } else {
            board.steps += 1;
            board.step(CpuId::from(slot), at);
            tree.arm(slot, board.next_event(CpuId::from(slot)));
        }
        while let Some(touched) = board.touched.pop() {
            tree.arm(touched.index(), board.slot_event(touched));
        }
        if clock.is_over(board, at, &mut ended)? {
            break;
        }
    }
    Ok(ended)
}

/// The kernel's own counters.
fn counters(board: &mut Board<'_>) -> Result<Schedstat> {
    let text = board.kernel.image().schedstat();
    if text.is_empty() {
        return Err(Error::internal("the image has no /proc/schedstat: the tree's initcalls have not run"));
    }
    schedstat::parse(Path::new("the image's /proc/schedstat"), text.as_bytes())
}

/// Brings user work of every CPU up to this instant.
fn settle_accounts(board: &mut Board<'_>) {
    for cpu in board.cpus.ids() {
        let in_user = board.cpus[cpu].in_user();
        board.account_user(cpu);
        if in_user && board.cpus[cpu].current.program().is_some_and(|t| board.vcpu_of(t).is_some()) {
            // It continues.
            board.start_user(cpu);
        }
        let now = board.now;
        let c = &mut board.cpus[cpu];
        // The last event of a woven verb may be later than this instant: what lies beyond is taken back.
        let stayed_ns = now.wrapping_sub(std::mem::replace(&mut c.since, now));
        if c.current != Current::Idle {
            c.busy_ns = c.busy_ns.wrapping_add(stayed_ns);
        }
    }
}

/// CPU time of a task so far, ns.
fn runtime_ns(board: &mut Board<'_>, task: TaskId) -> u64 {
    match board.tasks[task].pid {
        0 => 0,
        pid => board.kernel.usage(pid).runtime_ns,
    }
}

/// The warm-up is over: sums start again.
fn begin_measuring(board: &mut Board<'_>) -> Result<Schedstat> {
    settle_accounts(board);
    board.enter(CpuId(0));
    for task in board.tasks.ids() {
        board.tasks[task].before = (board.tasks[task].work_ns, runtime_ns(board, task));
    }
    board.begin_quotas();
    let accounts = std::mem::take(&mut board.accounts);
    board.accounts = Accounts {
        intervals: accounts.intervals,
        measure_from: accounts.measure_from,
        counted_from: board.now,
        ..Accounts::default()
    };
    if let Some(memory) = &mut board.by_level {
        memory.sources = Sources::default();
    }
    let now = board.now;
    board.peers.iter_mut().for_each(|peer| peer.begin_measuring(now));
    board.begin_measuring_guests();
    let counted = counters(board);
    // What this look has executed is not the run's.
    board.kernel.image().take_counts();
    visits::forget();
    board.kernel.image().take_chains();
    counted
}

fn report(mut board: Board<'_>, mut ended: Ended, outside: &Outside) -> Result<SimReport> {
    if ended.before.is_none() {
        // All tasks left, or the run was stopped, during the warm-up.
        ended.before = Some(begin_measuring(&mut board)?);
    }
    board.finish_verbs();
    board.audit(true);
    if let Some(fault) = board.fault.take() {
        return Err(fault);
    }
    let chains = board.kernel.image().take_chains();
    let functions = board.kernel.image().take_counts();
    settle_accounts(&mut board);
    board.enter(CpuId(0));
    let mut report =
        SimReport { end: Ns(ended.at), events: board.steps, stopped: ended.stopped, ..SimReport::default() };
    let change = outside.changes.front().map(|c| c.0);
    let later = outside.later.front().map(|l| l.0);
    let from = Ns(board.accounts.measure_from);
    report.missed = change.into_iter().chain(later).min().map(|at| Ns(at).since(from));
    for task in board.tasks.ids() {
        let cpu_time_ns = runtime_ns(&mut board, task);
        let t = &board.tasks[task];
        report.tasks.push(TaskAccount {
            name: t.name.clone(),
            background: t.background,
            ended: (t.life != Life::Unborn).then_some(Ns(t.ended)),
            cpu_time_ns: cpu_time_ns.saturating_sub(t.before.1),
            work_ns: t.work_ns - t.before.0,
        });
    }
    report.wakeups = board.accounts.wakeups;
    (report.chains, report.functions) = (chains, functions);
    if board.level.counts() {
        let halted = board.halted_ns(ended.at);
        let all_ns = (ended.at - board.accounts.counted_from) * board.nr_cpus() as u64;
        // A CPU's clock stands still until it has left its idle state.
        let unhalted = all_ns.saturating_sub(halted + board.accounts.idle_exit_ns);
        charge::complete(&mut report.chains, unhalted);
        let sampled = |names: &[&str]| charge::sampled_ns(&report.chains, names);
        board.accounts.newidle_ns = sampled(&["newidle_balance", "sched_balance_newidle"]);
        board.accounts.periodic_ns =
            sampled(&["rebalance_domains", "sched_balance_domains", "_nohz_idle_balance"]);
        let stats_ns = sampled(&["update_sd_lb_stats"]);
        report.found.counters.insert("balance.stats_time".to_owned(), stats_ns);
    }
    // Tasks of other machines have their accounts there, by the same ids.
    board.close_guests(ended.at, &mut report)?;
    for mut peer in std::mem::take(&mut board.peers) {
        peer.close(ended.at, &mut report)?;
    }
    let after = counters(&mut board)?;
    let found = &mut report.found;
    found.duration = report.end.since(from);
    found.intervals.append(&mut board.accounts.intervals.kept);
    found.intervals.sort_by_key(|i| i.start);
    let lost = board.accounts.intervals.dropped;
    found.warnings.extend((lost > 0).then(|| schedlab_record::accounts::dropped(lost)));
    if let Some(before) = &ended.before {
        let (counted, warnings) = schedstat::delta(before, &after)?;
        found.schedstat = Some(counted);
        found.warnings.extend(warnings);
    }
    found.warnings.extend(board.kernel.warnings());
    found.warnings.extend(board.findings.warnings());
    let work = report.tasks.iter().filter(|t| !t.background).map(|t| t.work_ns).sum();
    let accounts = &board.accounts;
    let sums = [
        ("work", work),
        ("refill.time", accounts.refill_ns),
        ("smt.shared_time", accounts.smt_shared_ns),
        ("idle.exit_time", accounts.idle_exit_ns),
        ("balance.newidle_time", accounts.newidle_ns),
        ("balance.periodic_time", accounts.periodic_ns),
    ];
    found.counters.extend(sums.map(|(name, n)| (name.to_owned(), n)));
    found.counters.extend(board.by_level.iter().flat_map(|memory| memory.sources.named()));
    found.counters.extend(board.quota_counts());
    found.counters.extend(accounts.explained.counters());
    found.warnings.extend(accounts.explained.warnings());
    if board.channels.may_lose() {
        *found.counters.entry("udp.lost".to_owned()).or_default() += accounts.datagrams_lost;
    }
    Ok(report)
}
