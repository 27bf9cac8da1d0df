//! On any machine, kernel and workload the invariants hold, the events make sense, and no run hangs.

use crate::support::checker::Checker;
use crate::support::machine;
use crate::support::sweep::{Detailed, Swept, sweep};
use proptest::prelude::*;
use proptest::sample::Index;
use schedlab_analyse::conserve::{Chances, Stretches, Window, World};
use schedlab_base::{CpuId, CpuSet, Ns, TaskId};
use schedlab_kernel::feature::FEATURES;
use schedlab_kernel::{Attr, Kernel, PROFILES, Policy};
use schedlab_machine::shape::{Numbering, Shape};
use schedlab_machine::{Costs, Domains, Machine};
use schedlab_sim::{Setup, SimReport, simulate};
use schedlab_trace::{Event, Sink};
use schedlab_workload::{Builder, Built, ChannelKind, Env, Op, Outcome, PortId, Program, WordId};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Words that the tasks of a case share; the last ones are barriers.
const WORDS: u32 = 4;
/// The channels of a case: all tasks write to the second ends and read from the first.
const CHANNELS: [ChannelKind; 4] = [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp];
/// CPU masks that tasks of a case may take.
const MASKS: usize = 3;

/// One act of a task.
#[derive(Clone, Copy, Debug)]
enum Act {
    RunUs(u64),
    RunNs(u64),
    SpinForUs(u64),
    SpinUntilUs(u64),
    SleepUs(u64),
    SleepUntilUs(u64),
    Wait { word: u32, value: u32, for_us: Option<u64> },
    Set { word: u32, value: u32 },
    Wake { word: u32, count: u32 },
    Barrier { word: u32 },
    Send { channel: u32, bytes: u32 },
    Recv { channel: u32, bytes: u32 },
    Touch { kb: u32, rounds: u32 },
    Yield,
    Nice(i8),
    Policy(Policy),
    Affinity(u32),
    Exit,
}

impl Act {
    /// Whether it takes almost no time, from its second round on.
    fn ends_at_once(&self) -> bool {
        match self {
            Act::RunNs(ns) => *ns < 50,
            Act::SpinForUs(us) => *us == 0,
            Act::SpinUntilUs(_) | Act::Set { .. } => true,
            _ => false,
        }
    }
}

/// One of [`CHANNELS`].
fn channel() -> impl Strategy<Value = u32> {
    0..CHANNELS.len() as u32
}

fn bytes() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0u32), 6 => 1u32..500, 2 => 500u32..60_000]
}

fn act() -> impl Strategy<Value = Act> {
    let word = 0..WORDS;
    let policy = prop_oneof![Just(Policy::Other), Just(Policy::Batch), Just(Policy::Idle)];
    prop_oneof![
        4 => (1u64..3_000).prop_map(Act::RunUs),
        1 => (0u64..500).prop_map(Act::RunNs),
        2 => (0u64..2_000).prop_map(Act::SpinForUs),
        1 => (0u64..20_000).prop_map(Act::SpinUntilUs),
        3 => (0u64..3_000).prop_map(Act::SleepUs),
        1 => (0u64..20_000).prop_map(Act::SleepUntilUs),
        3 => (word.clone(), 0u32..2, prop::option::weighted(0.7, 0u64..3_000))
            .prop_map(|(word, value, for_us)| Act::Wait { word, value, for_us }),
        1 => (word.clone(), 0u32..2).prop_map(|(word, value)| Act::Set { word, value }),
        3 => (word.clone(), prop_oneof![Just(1u32), Just(2), Just(u32::MAX)])
            .prop_map(|(word, count)| Act::Wake { word, count }),
        2 => word.prop_map(|word| Act::Barrier { word }),
        2 => (channel(), bytes()).prop_map(|(channel, bytes)| Act::Send { channel, bytes }),
        2 => (channel(), bytes()).prop_map(|(channel, bytes)| Act::Recv { channel, bytes }),
        // Enough work that a task of only such acts does not slow simulated time to a crawl.
        1 => (1u32..2_000, 10u32..30).prop_map(|(kb, rounds)| Act::Touch { kb, rounds }),
        1 => Just(Act::Yield),
        1 => (-20i8..20).prop_map(Act::Nice),
        1 => policy.prop_map(Act::Policy),
        1 => (0..MASKS as u32).prop_map(Act::Affinity),
        1 => Just(Act::Exit),
    ]
}

/// A task of a case.
#[derive(Clone, Debug)]
struct TaskPlan {
    acts: Vec<Act>,
    /// It starts again at the end instead of leaving.
    again: bool,
    nice: i8,
    mask: Option<u32>,
    /// An earlier task starts it; else it starts with the run.
    parent: Option<Index>,
    footprint_kb: u32,
    slack_us: Option<u64>,
    /// Its group, if the case has groups.
    group: Option<Index>,
}

/// Task groups of a case, each below the root or an earlier one, with its shares.
type Groups = Vec<(Option<Index>, u64)>;

fn groups() -> impl Strategy<Value = Groups> {
    let shares = prop_oneof![Just(2u64), Just(1024), Just(8192), 2u64..262_144];
    let group = (prop::option::weighted(0.5, any::<Index>()), shares);
    prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(group, 1..6)]
}

fn task() -> impl Strategy<Value = TaskPlan> {
    let nice = prop_oneof![4 => Just(0i8), 1 => -20i8..20];
    let parent = prop::option::weighted(0.3, any::<Index>());
    let mask = prop::option::weighted(0.2, 0..MASKS as u32);
    let acts = prop::collection::vec(act(), 1..8);
    let slack = prop::option::weighted(0.2, 0u64..500);
    let group = prop::option::weighted(0.7, any::<Index>());
    (acts, prop::bool::weighted(0.8), nice, mask, parent, 1u32..2_000, slack, group).prop_map(
        |(acts, again, nice, mask, parent, footprint_kb, slack_us, group)| TaskPlan {
            // A program whose acts all end at once makes a step every nanosecond for ever, and takes minutes.
            again: again && !acts.iter().all(|a| a.ends_at_once()),
            acts,
            nice,
            mask,
            parent,
            footprint_kb,
            slack_us,
            group,
        },
    )
}

/// The full input of a case.
#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    /// The one of [`DONORS`] that gives the machine its idle states and background tasks.
    donor: Index,
    idle_states: usize,
    background: bool,
    /// Every cost at its default, or at the end of its range chosen by a bit of this number.
    costs: Option<u64>,
    profile: Index,
    /// Features switched, by place in the table.
    toggles: Vec<(Index, bool)>,
    tunables: Vec<(&'static str, u64)>,
    seed: u64,
    duration_us: u64,
    warmup: bool,
    processes: bool,
    masks: Vec<u32>,
    groups: Groups,
    tasks: Vec<TaskPlan>,
}

const DONORS: [&str; 4] = ["smp-1", "spr-2x56", "x5570-2x4-smt", "fb-2x24-smt"];

fn shape() -> impl Strategy<Value = Shape> {
    let part = || prop_oneof![3 => Just(1u32), 1 => Just(2)];
    (part(), part(), part(), 1u32..4, prop::bool::ANY, part(), prop::bool::ANY)
        .prop_map(|(packages, llcs_each, clusters, cores_each, nodes, threads, adjacent)| {
            let llcs = packages * llcs_each;
            let cores = llcs * clusters * cores_each;
            let numbering = if adjacent { Numbering::Adjacent } else { Numbering::SiblingsLast };
            let nodes = if nodes { packages } else { 1 };
            let clusters = if clusters == 1 { 0 } else { llcs * clusters };
            Shape { packages, nodes, llcs, clusters, numbering, ..Shape::flat(cores, threads) }
        })
        .prop_filter("at most 16 CPUs", |s| s.cores * s.threads_per_core <= 16)
}

fn tunable() -> impl Strategy<Value = (&'static str, u64)> {
    prop_oneof![
        (100u64..=1000).prop_map(|v| ("hz", v)),
        (100_000u64..20_000_000).prop_map(|v| ("sched_latency_ns", v)),
        (10_000u64..5_000_000).prop_map(|v| ("min_granularity_ns", v)),
        (0u64..5_000_000).prop_map(|v| ("wakeup_granularity_ns", v)),
        (0u64..=2).prop_map(|v| ("scale_by_cpus", v)),
        (0u64..=1).prop_map(|v| ("compat_yield", v)),
        (0u64..2_000_000).prop_map(|v| ("migration_cost_ns", v)),
        (1u64..40).prop_map(|v| ("nr_migrate", v)),
        (0u64..200_000).prop_map(|v| ("timer_slack_ns", v)),
        (0u64..5).prop_map(|v| ("probe_batch", v)),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let machine =
        (shape(), any::<Index>(), 0usize..6, prop::bool::ANY, prop::option::weighted(0.3, any::<u64>()));
    let toggles = prop::collection::vec((any::<Index>(), prop::bool::ANY), 0..6);
    let kernel = (any::<Index>(), toggles, prop::collection::vec(tunable(), 0..5));
    let run = (
        any::<u64>(),
        500u64..20_000,
        prop::bool::weighted(0.2),
        prop::collection::vec(any::<u32>(), MASKS),
        any::<bool>(),
        groups(),
    );
    (machine, kernel, run, prop::collection::vec(task(), 1..14)).prop_map(|(machine, kernel, run, tasks)| {
        let (shape, donor, idle_states, background, costs) = machine;
        let (profile, toggles, tunables) = kernel;
        let (seed, duration_us, warmup, masks, processes, groups) = run;
        Case {
            shape,
            donor,
            idle_states,
            background,
            costs,
            profile,
            toggles,
            tunables,
            seed,
            duration_us,
            warmup,
            processes,
            masks,
            groups,
            tasks,
        }
    })
}

impl Case {
    fn machine(&self) -> Machine {
        let mut m = machine(DONORS[self.donor.index(DONORS.len())]);
        m.topology = self.shape.topology().expect("a regular shape");
        m.idle_states.truncate(self.idle_states);
        // They are rare on a quiet host; here they come 200 times as often.
        m.background.iter_mut().for_each(|b| b.every = Ns(b.every.0 / 200));
        if let Some(bits) = self.costs {
            for (i, row) in Costs::TABLE.iter().enumerate() {
                m.costs.set(row.name, if bits >> (i % 64) & 1 == 1 { row.range.1 } else { row.range.0 });
            }
        }
        m
    }

    fn kernel(&self) -> Kernel {
        let mut kernel = Kernel::of(PROFILES[self.profile.index(PROFILES.len())].version);
        for (feature, on) in &self.toggles {
            kernel.features.switch(FEATURES[feature.index(FEATURES.len())].feature, *on);
        }
        for (name, value) in &self.tunables {
            kernel.tunables.set(name, *value).expect("in range");
        }
        kernel
    }

    /// CPUs of a mask: any of the machine's, at least one.
    fn mask(&self, at: u32) -> CpuSet {
        let n = self.shape.cores * self.shape.threads_per_core;
        let bits = self.masks[at as usize] | 1 << (self.masks[at as usize] % n);
        (0..n).filter(|c| bits >> c & 1 == 1).map(CpuId).collect()
    }

    fn workload(&self) -> Built {
        let mut b = Builder::new(self.seed);
        let warmup = if self.warmup { self.duration_us / 3 } else { 0 };
        b.lasts(Ns::us(self.duration_us), Ns::us(warmup));
        for _ in 0..WORDS {
            b.word();
        }
        for kind in CHANNELS {
            b.channel(kind);
        }
        if self.processes {
            b.as_processes();
        }
        for m in 0..MASKS as u32 {
            b.mask(self.mask(m));
        }
        let (mut ids, mut paths) = (Vec::new(), Vec::<String>::new());
        for (i, (above, shares)) in self.groups.iter().enumerate() {
            let above = above.filter(|_| i > 0).map_or("", |at| paths[at.index(i)].as_str());
            paths.push(format!("{above}/g{i}"));
            let id = b.group(&paths[i]).expect("a path");
            b.edit_group(id).shares = *shares;
            ids.push(id);
        }
        let parent_of = |i: usize| self.tasks[i].parent.filter(|_| i > 0).map(|p| p.index(i));
        let barrier_size = self.tasks.len() as u32;
        for (i, t) in self.tasks.iter().enumerate() {
            let children =
                (0..self.tasks.len()).filter(|c| parent_of(*c) == Some(i)).map(TaskId::from).collect();
            let program = Script { acts: t.acts.clone(), again: t.again, at: 0, children, barrier_size };
            let id = b.task(format!("t{i}"), Box::new(program)).expect("few tasks");
            let task = b.edit(id);
            task.attr = Attr::nice(t.nice);
            task.affinity = t.mask.map(|m| self.mask(m));
            task.spawned_by = parent_of(i).map(TaskId::from);
            task.footprint_kb = t.footprint_kb;
            task.timer_slack = t.slack_us.map(Ns::us);
            if let Some(group) = t.group.filter(|_| !ids.is_empty()) {
                task.group = ids[group.index(ids.len())];
            }
        }
        b.finish().expect("the first task starts by itself")
    }

    /// The CPUs that a task may ever run on; `None` for all. A new task has its parent's at first.
    fn allowed(&self, at: usize) -> Option<CpuSet> {
        let task = &self.tasks[at];
        let later = task.acts.iter().filter_map(|a| if let Act::Affinity(m) = a { Some(*m) } else { None });
        let own = later.fold(self.mask(task.mask?), |all, m| all.or(&self.mask(m)));
        match task.parent.filter(|_| at > 0) {
            Some(parent) => Some(own.or(&self.allowed(parent.index(at))?)),
            None => Some(own),
        }
    }
}

/// A task's plan, carried out.
struct Script {
    acts: Vec<Act>,
    again: bool,
    at: usize,
    children: Vec<TaskId>,
    barrier_size: u32,
}

impl Program for Script {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(task) = self.children.pop() {
            return Op::Spawn { task };
        }
        loop {
            if self.at >= self.acts.len() {
                if !self.again {
                    return Op::Exit;
                }
                self.at = 0;
            }
            self.at += 1;
            if let Some(op) = self.op(self.acts[self.at - 1], env) {
                return op;
            }
            // Setting a word takes no operation, but a script must not set words for ever.
            if self.at >= self.acts.len() {
                return Op::Run { work: Ns(1) };
            }
        }
    }
}

impl Script {
    fn op(&self, act: Act, env: &mut dyn Env) -> Option<Op> {
        let us = |us: u64| Ns::us(us);
        Some(match act {
            Act::RunUs(n) => Op::Run { work: us(n) },
            Act::RunNs(n) => Op::Run { work: Ns(n) },
            Act::SpinForUs(n) => Op::SpinTo { at: env.now() + us(n) },
            Act::SpinUntilUs(n) => Op::SpinTo { at: us(n) },
            Act::SleepUs(n) => Op::Sleep { length: us(n) },
            Act::SleepUntilUs(n) => Op::SleepTo { at: us(n) },
            Act::Wait { word, value, for_us } => {
                let until = for_us.map_or(Ns::MAX, |n| env.now() + us(n));
                Op::Wait { word: WordId(word), value, until }
            }
            Act::Set { word, value } => {
                env.word(WordId(word)).store(value, SeqCst);
                return None;
            }
            Act::Wake { word, count } => Op::Wake { word: WordId(word), count },
            Act::Barrier { word } => {
                let id = WordId(word);
                let arrived = env.word(id).fetch_add(1, SeqCst) + 1;
                if arrived.is_multiple_of(self.barrier_size) {
                    Op::Wake { word: id, count: u32::MAX }
                } else {
                    Op::Wait { word: id, value: arrived, until: env.now() + Ns::ms(5) }
                }
            }
            Act::Send { channel, bytes } => Op::Send { port: PortId(2 * channel + 1), bytes },
            Act::Recv { channel, bytes } => Op::Recv { port: PortId(2 * channel), bytes },
            Act::Touch { kb, rounds } => Op::Touch { kb, rounds },
            Act::Yield => Op::Yield,
            Act::Nice(n) => Op::SetAttr { attr: Attr::nice(n) },
            Act::Policy(policy) => Op::SetAttr { attr: Attr { policy, ..Attr::default() } },
            Act::Affinity(mask) => Op::SetAffinity { mask },
            Act::Exit => match env.outcome() {
                // Exits only now and then; otherwise all tasks would leave at once.
                Outcome::Done => Op::Yield,
                _ => Op::Exit,
            },
        })
    }
}

/// No case takes this much CPU time, in ticks of /proc/PID/stat (hundredths of a second): a minute.
const ENDLESS_TICKS: u64 = 6_000;

/// The CPU time of a thread of this process, in such ticks; 0 if it is gone. Wall time is unsuitable: on a busy machine
/// a case of a second may take minutes.
fn cpu_ticks(thread: &Path) -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc").join(thread).join("stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    // utime and stime are fields 14 and 15; the name in parentheses is the second.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[test]
fn the_cpu_time_of_a_thread_is_read() {
    let me = std::fs::read_link("/proc/thread-self").expect("Linux");
    let (from, begun) = (cpu_ticks(&me), Instant::now());
    while cpu_ticks(&me) == from {
        assert!(begun.elapsed() < Duration::from_secs(60), "{from} hundredths of a second");
    }
}

/// Simulates; fails if that takes longer than any case can, since then simulated time has stopped.
fn watched<S: Sink>(case: &Case, sink: &mut S, check: bool) -> Result<SimReport, String> {
    let (stop, (done, wait)) = (AtomicBool::new(false), mpsc::channel::<()>());
    let (machine, kernel) = (case.machine(), case.kernel());
    let (seed, background) = (case.seed, case.background);
    let setup = Setup {
        machine: &machine,
        kernel,
        changes: Vec::new(),
        workload: case.workload(),
        seed,
        background,
        check,
        stop: Some(&stop),
        clock: None,
    };
    let me = std::fs::read_link("/proc/thread-self").expect("Linux");
    let from = cpu_ticks(&me);
    let report = std::thread::scope(|s| {
        let (stop, me) = (&stop, &me);
        s.spawn(move || {
            while wait.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                if cpu_ticks(me) > from + ENDLESS_TICKS {
                    return stop.store(true, SeqCst);
                }
            }
        });
        let report = simulate(setup, sink);
        drop(done);
        report
    });
    let report = report.map_err(|e| e.to_string())?;
    if report.stopped {
        Err(format!("no end after {} events at {}", report.events, report.end))
    } else {
        Ok(report)
    }
}

fn checker(case: &Case) -> Checker {
    let machine = case.machine();
    let built = case.workload();
    let mut checker = Checker::new(&machine).measure_from(built.warmup);
    for i in 0..case.tasks.len() {
        if let Some(allowed) = case.allowed(i) {
            checker.restrict(TaskId::from(i), allowed);
        }
    }
    checker
}

/// This many cases, or PROPTEST_CASES for a longer hunt.
fn config(cases: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { given.cases } else { cases };
    ProptestConfig {
        cases,
        max_shrink_iters: 3_000,
        max_shrink_time: 120_000,
        failure_persistence: None,
        ..given
    }
}

/// Counts events, to check that some occurred.
struct Counted<S>(S, u64);

impl<S: Sink> Sink for Counted<S> {
    fn event(&mut self, event: &Event) {
        self.1 += 1;
        self.0.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.0.sample(at, task, series, value);
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// Walks every invariant after every event, and checks that the event stream makes sense.
    #[test]
    fn any_machine_kernel_and_workload_make_sense(case in case()) {
        let mut sink = Counted(checker(&case), 0);
        let report = watched(&case, &mut sink, true);
        let report = report.map_err(TestCaseError::fail)?;
        prop_assert!(report.end <= Ns::us(case.duration_us + case.duration_us / 3));
        prop_assert!(sink.1 > 0);
        sink.0.verdict(&report).map_err(TestCaseError::fail)?;
    }
}

/// Masks of a case's tasks as they begin, then those of the machine's own tasks; and the masks that they may take
/// later.
fn masks(case: &Case) -> (Vec<Option<CpuSet>>, Vec<CpuSet>) {
    let mut allowed: Vec<Option<CpuSet>> = case.tasks.iter().map(|t| t.mask.map(|m| case.mask(m))).collect();
    let machine = case.machine();
    for source in machine.background.iter().filter(|_| case.background) {
        let cpus = (0..machine.topology.nr_cpus()).map(CpuId::from);
        if source.per_cpu {
            allowed.extend(cpus.map(|cpu| Some(std::iter::once(cpu).collect())))
        } else {
            allowed.push(None)
        }
    }
    (allowed, (0..MASKS as u32).map(|m| case.mask(m)).collect())
}

proptest! {
    #![proptest_config(config(60))]

    /// The stretches in which a task waited while a CPU was idle equal those found by a sweep over all events, and in
    /// each of them some CPU was idle all the time.
    #[test]
    fn idle_cpus_during_waits_are_found(case in prop_oneof![case(), busy_case()]) {
        let (allowed, later) = masks(&case);
        let topology = case.machine().topology;
        let (nr_cpus, domains) = (topology.nr_cpus(), Domains::build(&topology, case.kernel().version));
        let world = || World::new(nr_cpus, allowed.clone(), later.clone());
        let warmup = case.workload().warmup;
        let mut seen = Detailed::default();
        let end = watched(&case, &mut seen, false).map_err(TestCaseError::fail)?.end;
        let mut stretches = Stretches::new(world(), domains.clone(), warmup, usize::MAX / 4);
        seen.events.iter().for_each(|e| stretches.event(e));
        let found = stretches.finish(end);
        let swept = sweep(&seen.events, nr_cpus, allowed.clone(), &later, warmup, end);
        let task_ns = found.causes.values().map(|(_, ns)| ns).sum();
        prop_assert_eq!(Swept { covered_ns: found.covered_ns, task_ns }, swept);
        prop_assert_eq!(found.longest.iter().map(|s| s.length()).sum::<u64>(), task_ns);
        let windows: Vec<Window> = found.longest.iter().map(|s| s.window()).collect();
        let mut chances = Chances::new(world(), domains, &windows, Arc::default());
        seen.events.iter().for_each(|e| chances.event(e));
        for (stretch, chance) in found.longest.iter().zip(chances.finish(false)) {
            prop_assert_eq!(chance.map(|c| c.free_ns), Some(stretch.length()), "{:?}", stretch);
        }
    }
}

/// Tasks that compute, and short sleepers that stir the balance: no task may starve while a CPU is idle.
fn busy_case() -> impl Strategy<Value = Case> {
    let worker = prop_oneof![
        3 => Just(vec![Act::RunUs(50_000)]),
        1 => (500u64..20_000, 10u64..5_000).prop_map(|(run, sleep)| vec![Act::RunUs(run), Act::SleepUs(sleep)]),
    ];
    let task = (worker, prop::option::weighted(0.15, 0..MASKS as u32)).prop_map(|(acts, mask)| TaskPlan {
        acts,
        again: true,
        nice: 0,
        mask,
        parent: None,
        footprint_kb: 64,
        slack_us: None,
        group: None,
    });
    (case(), prop::collection::vec(task, 1..24)).prop_map(|(case, tasks)| Case {
        tasks,
        tunables: Vec::new(),
        toggles: Vec::new(),
        costs: None,
        warmup: false,
        duration_us: 2_500_000,
        ..case
    })
}

proptest! {
    #![proptest_config(config(200))]

    /// No task waits for two seconds while a CPU that it may use is idle all the time.
    #[test]
    fn no_task_waits_for_ever_while_a_cpu_is_idle(case in busy_case()) {
        let mut sink = checker(&case);
        sink.longest_wait_ns = 2_000_000_000;
        let report = watched(&case, &mut sink, false).map_err(TestCaseError::fail)?;
        sink.verdict(&report).map_err(TestCaseError::fail)?;
    }
}
