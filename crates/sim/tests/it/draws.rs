//! Drawn workloads whose tasks change all their scheduling properties while they run: policy, nice value, priority,
//! slice, CPUs. They are in groups with weights and quotas, they sleep, wait, wake each other, yield, fork and end,
//! talk through channels and spin for a lock. Changes from outside move them between groups, and change groups and
//! CPUs. Every draw runs under one of the profiles and one of its preemption models, on one of a few machines, with all
//! invariants walked after every step, and its events must make sense.
//!
//! A draw is small, so that it takes milliseconds. The same draws are made each time, unless `SCHEDLAB_DRAWS` gives
//! their number (`.ci/run slow`): then the draws are new. The seed of a drawn run is printed, and `SCHEDLAB_DRAW_SEED`
//! repeats it.

use crate::support::checker::Checker;
use crate::support::{machine, simulated};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestRunner};
use schedlab_base::{CpuId, CpuSet, GroupId, Ns, TaskId, Version};
use schedlab_kernel::feature::FEATURES;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Attr, Kernel, Limit, PROFILES, Policy};
use schedlab_machine::{Cpu, Machine, Topology};
use schedlab_workload::{Builder, Built, ChannelKind, Env, Later, Op, PortId, Program, ROOT_GROUP, WordId};
use std::sync::LazyLock;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Instant, SystemTime};

/// Draws of a usual run of the tests: about a minute.
const DRAWS: u32 = 8_000;
/// Words that the tasks of a draw wait on.
const WORDS: u32 = 2;
/// The word that is a lock, after the other words.
const LOCK: WordId = WordId(WORDS);
/// Channels that tasks talk through.
const CHANNELS: usize = 2;
/// CPU masks that tasks may take.
const MASKS: usize = 3;
/// Profiles of EEVDF, the last ones of the table.
const EEVDF: usize = 4;
/// Operations of a task. Then it leaves, so that every draw ends.
const MOST_OPS: u32 = 2_000;

/// One CPU, several, two threads of a core, several caches; others are drawn ([`kinds`]).
static MACHINES: LazyLock<Vec<Machine>> =
    LazyLock::new(|| ["smp-1", "smp-2", "smp-4", "x5570-2x4-smt", "epyc-2x4"].map(machine).into());

/// Cores of one kind: how many, threads of each, their capacity, and whether they begin a cache of their own.
#[derive(Clone, Copy, Debug)]
struct Kind {
    cores: u32,
    threads: u32,
    capacity: u32,
    own_cache: bool,
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let capacity = prop_oneof![2 => Just(1024u32), 3 => 100u32..1024];
    let kind = (1u32..5, 1u32..3, capacity, any::<bool>())
        .prop_map(|(cores, threads, capacity, own_cache)| Kind { cores, threads, capacity, own_cache });
    prop::collection::vec(kind, 2..4)
}

/// A machine of unlike cores and caches.
fn uneven(kinds: &[Kind]) -> Machine {
    let (mut cpus, mut capacity) = (Vec::new(), Vec::new());
    let (mut llc, mut core) = (0, 0);
    for (at, kind) in kinds.iter().enumerate() {
        llc += u32::from(kind.own_cache && at > 0);
        for _ in 0..kind.cores {
            let row = |thread| Cpu { package: 0, node: 0, llc, cluster: core, core, thread };
            cpus.extend((0..kind.threads).map(row));
            capacity.extend((0..kind.threads).map(|_| kind.capacity));
            core += 1;
        }
    }
    let mut topology = Topology::plain(cpus, vec![vec![10]]);
    topology.capacity = capacity;
    topology.check().expect("a topology");
    Machine { name: "uneven".to_owned(), topology, ..machine("smp-4") }
}

/// One act of a task.
#[derive(Clone, Copy, Debug)]
enum Act {
    Run(u64),
    Sleep(u64),
    Wait {
        word: u32,
        for_us: u64,
    },
    Wake {
        word: u32,
        count: u32,
    },
    Yield,
    Set(Attr),
    Pin(u32),
    /// Takes the lock for this time, us.
    Lock(u64),
    Send {
        channel: u32,
        bytes: u32,
    },
    Recv {
        channel: u32,
        bytes: u32,
    },
}

impl Act {
    /// The operations of an act.
    fn steps(self) -> Vec<Step> {
        let op = match self {
            Act::Run(us) => Op::Run { work: Ns::us(us) },
            Act::Sleep(us) => Op::Sleep { length: Ns::us(us) },
            Act::Wait { word, for_us } => return vec![Step::Wait { word: WordId(word), for_us }],
            Act::Wake { word, count } => Op::Wake { word: WordId(word), count },
            Act::Yield => Op::Yield,
            Act::Set(attr) => Op::SetAttr { attr },
            Act::Pin(mask) => Op::SetAffinity { mask },
            Act::Lock(us) => {
                let all = [
                    Op::SpinLock { word: LOCK },
                    Op::Run { work: Ns::us(us) },
                    Op::SpinUnlock { word: LOCK },
                ];
                return all.map(Step::Op).into();
            }
            Act::Send { channel, bytes } => Op::Send { port: PortId(2 * channel + 1), bytes },
            Act::Recv { channel, bytes } => Op::Recv { port: PortId(2 * channel), bytes },
        };
        vec![Step::Op(op)]
    }
}

/// The next step of a task.
#[derive(Clone, Copy, Debug)]
enum Step {
    Op(Op),
    Wait { word: WordId, for_us: u64 },
}

/// A change from outside.
#[derive(Clone, Debug)]
enum Change {
    Shares(Index, u64),
    /// Quota and period, us.
    Limit(Index, Option<(u64, u64)>),
    Confine(Index, u32),
    Move(Index, Index),
    Allow(Index, u32),
}

fn change() -> impl Strategy<Value = Change> {
    let (at, mask) = (any::<Index>(), 0..MASKS as u32);
    let limit = prop::option::weighted(0.7, (1_000u64..6_000, 1_000u64..10_000));
    prop_oneof![
        1 => (at.clone(), 2u64..20_000).prop_map(|(group, shares)| Change::Shares(group, shares)),
        2 => (at.clone(), limit).prop_map(|(group, limit)| Change::Limit(group, limit)),
        1 => (at.clone(), mask.clone()).prop_map(|(group, mask)| Change::Confine(group, mask)),
        4 => (at.clone(), at.clone()).prop_map(|(task, group)| Change::Move(task, group)),
        2 => (at, mask).prop_map(|(task, mask)| Change::Allow(task, mask)),
    ]
}

fn attr() -> impl Strategy<Value = Attr> {
    let slice = prop_oneof![3 => Just(0u64), 1 => 100_000u64..1_000_000, 1 => 1_000_000u64..100_000_000];
    let policy = prop_oneof![
        5 => Just(Policy::Other),
        1 => Just(Policy::Batch),
        2 => Just(Policy::Idle),
        1 => Just(Policy::Fifo),
        1 => Just(Policy::Rr),
    ];
    let nice = prop_oneof![2 => Just(0i8), 1 => -20i8..20];
    (policy, nice, slice, 1u8..5).prop_map(|(policy, nice, slice, priority)| {
        if policy.is_fair() {
            Attr { policy, nice, slice: Ns(slice).into(), ..Attr::default() }
        } else {
            Attr { policy, rt_priority: priority, ..Attr::default() }
        }
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (1u64..2_500).prop_map(Act::Run),
        1 => (2_500u64..20_000).prop_map(Act::Run),
        4 => (0u64..2_500).prop_map(Act::Sleep),
        2 => (0..WORDS, 0u64..3_000).prop_map(|(word, for_us)| Act::Wait { word, for_us }),
        3 => (0..WORDS, 1u32..4).prop_map(|(word, count)| Act::Wake { word, count }),
        2 => Just(Act::Yield),
        3 => attr().prop_map(Act::Set),
        2 => (0..MASKS as u32).prop_map(Act::Pin),
        1 => (1u64..500).prop_map(Act::Lock),
        2 => (0..CHANNELS as u32, 1u32..9_000).prop_map(|(channel, bytes)| Act::Send { channel, bytes }),
        2 => (0..CHANNELS as u32, 1u32..3_000).prop_map(|(channel, bytes)| Act::Recv { channel, bytes }),
    ]
}

/// A task of a draw.
#[derive(Clone, Debug)]
struct Plan {
    acts: Vec<Act>,
    attr: Attr,
    mask: Option<u32>,
    group: Option<Index>,
    /// The earlier task that forks it, if one does.
    parent: Option<Index>,
    /// How many tasks have this plan; the copies exist from the start.
    copies: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let attr = prop_oneof![1 => Just(Attr::default()), 1 => attr()];
    let mask = prop::option::weighted(0.3, 0..MASKS as u32);
    let group = prop::option::weighted(0.7, any::<Index>());
    let parent = prop::option::weighted(0.3, any::<Index>());
    let copies = prop_oneof![5 => Just(1usize), 1 => 2usize..7];
    (prop::collection::vec(act(), 1..7), attr, mask, group, parent, copies).prop_map(
        |(acts, attr, mask, group, parent, copies)| Plan { acts, attr, mask, group, parent, copies },
    )
}

/// The tasks of these plans, copies last, so that the places of the others stay.
fn copied(plans: &[Plan]) -> Vec<Plan> {
    let more = plans.iter().flat_map(|plan| {
        let alone = Plan { parent: None, ..plan.clone() };
        std::iter::repeat_n(alone, plan.copies - 1)
    });
    plans.iter().cloned().chain(more).collect()
}

/// A group, below the root or an earlier one.
#[derive(Clone, Debug)]
struct Group {
    above: Option<Index>,
    shares: u64,
    /// Quota and period, us, and the part of the quota that the group may save up, per cent.
    limit: Option<(u64, u64, u64)>,
    idle: bool,
}

fn group() -> impl Strategy<Value = Group> {
    let shares = prop_oneof![1 => Just(1024u64), 2 => 2u64..20_000];
    let limit = prop::option::weighted(0.4, (1_000u64..6_000, 1_000u64..10_000, 0u64..=100));
    (prop::option::weighted(0.4, any::<Index>()), shares, limit, prop::bool::weighted(0.2))
        .prop_map(|(above, shares, limit, idle)| Group { above, shares, limit, idle })
}

/// The full input of a draw.
#[derive(Clone, Debug)]
struct Draw {
    machine: Index,
    /// Its own machine, instead of one of the few.
    uneven: Option<Vec<Kind>>,
    profile: Index,
    toggles: Vec<(Index, bool)>,
    hz: u64,
    model: Index,
    autogroup: bool,
    seed: u64,
    ms: u64,
    processes: bool,
    masks: Vec<u32>,
    channels: Vec<ChannelKind>,
    groups: Vec<Group>,
    /// Changes, each with the part of the run after which it comes, per mille.
    changes: Vec<(u64, Change)>,
    tasks: Vec<Plan>,
}

/// Hogs and short sleepers with slices of their own, for longer: the balancer moves tasks that sleep while queued.
fn crowd() -> impl Strategy<Value = Draw> {
    let slice = |range: std::ops::Range<u64>| prop_oneof![1 => Just(0u64), 3 => range];
    let of = |acts: Vec<Act>, slice: u64, copies: usize| {
        let attr = Attr { slice: Ns(slice).into(), ..Attr::default() };
        Plan { acts, attr, mask: None, group: None, parent: None, copies }
    };
    let hogs = (slice(1_000_000..20_000_000), 2usize..14)
        .prop_map(move |(slice, copies)| of(vec![Act::Run(20_000)], slice, copies));
    let sleeper = (slice(100_000..1_500_000), 10u64..200, 200u64..2_500, 1usize..4).prop_map(
        move |(slice, run, sleep, copies)| of(vec![Act::Run(run), Act::Sleep(sleep)], slice, copies),
    );
    (draw_of(plan()), hogs, prop::collection::vec(sleeper, 1..3), 250u64..600).prop_map(
        |(draw, hogs, mut plans, ms)| {
            plans.push(hogs);
            let (groups, changes) = (Vec::new(), Vec::new());
            Draw { tasks: copied(&plans), groups, changes, toggles: Vec::new(), ms, ..draw }
        },
    )
}

/// Draws on machines of unlike cores and caches.
fn on_uneven() -> impl Strategy<Value = Draw> {
    (draw_of(plan()), kinds()).prop_map(|(draw, kinds)| Draw { uneven: Some(kinds), ..draw })
}

fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![39 => draw_of(plan()), 1 => crowd()]
}

fn draw_of(plan: impl Strategy<Value = Plan>) -> impl Strategy<Value = Draw> {
    let hz = prop_oneof![Just(100u64), Just(250), Just(1000)];
    let toggles = prop::collection::vec((any::<Index>(), any::<bool>()), 0..4);
    let kernel = (any::<Index>(), any::<Index>(), toggles, hz, any::<Index>(), prop::bool::weighted(0.2));
    let kinds = [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp];
    let channels = prop::collection::vec(prop::sample::select(kinds.to_vec()), CHANNELS);
    let changes = prop::collection::vec((0u64..1_000, change()), 1..6);
    let changes = prop_oneof![2 => Just(Vec::new()), 1 => changes];
    let groups = prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(group(), 1..4)];
    let masks = prop::collection::vec(any::<u32>(), MASKS);
    let load = (prop::collection::vec(plan, 1..9), groups, masks, channels, changes);
    let ms = prop_oneof![3 => 2u64..25, 1 => 25u64..60];
    (kernel, load, any::<u64>(), ms, any::<bool>()).prop_map(
        |(kernel, (plans, groups, masks, channels, changes), seed, ms, processes)| {
            let (machine, profile, toggles, hz, model, autogroup) = kernel;
            let tasks = copied(&plans);
            Draw {
                machine,
                uneven: None,
                profile,
                toggles,
                hz,
                model,
                autogroup,
                seed,
                ms,
                processes,
                masks,
                channels,
                groups,
                changes,
                tasks,
            }
        },
    )
}

impl Draw {
    fn machine(&self) -> Machine {
        match &self.uneven {
            Some(kinds) => uneven(kinds),
            None => MACHINES[self.machine.index(MACHINES.len())].clone(),
        }
    }

    fn nr_cpus(&self) -> usize {
        match &self.uneven {
            Some(kinds) => kinds.iter().map(|kind| (kind.cores * kind.threads) as usize).sum(),
            None => MACHINES[self.machine.index(MACHINES.len())].topology.nr_cpus(),
        }
    }

    fn kernel(&self) -> Kernel {
        // The newest profiles have the most mechanisms, so they come up twice as often.
        let at = self.profile.index(PROFILES.len() + EEVDF);
        let profile = PROFILES.get(at).unwrap_or_else(|| &PROFILES[at - EEVDF]);
        let mut kernel = Kernel::of(profile.version);
        for (feature, on) in &self.toggles {
            kernel.features.switch(FEATURES[feature.index(FEATURES.len())].feature, *on);
        }
        kernel.tunables.hz = self.hz;
        kernel.tunables.autogroup = u64::from(self.autogroup);
        let models = [Preempt::None, Preempt::Voluntary, Preempt::Full, Preempt::Lazy];
        let has: Vec<Preempt> = models.into_iter().filter(|m| m.releases().has(kernel.version)).collect();
        kernel.tunables.preempt = has[self.model.index(has.len())] as u64;
        kernel
    }

    /// CPUs of a mask: at least one of the machine's.
    fn mask(&self, at: u32) -> CpuSet {
        let (n, bits) = (self.nr_cpus() as u32, self.masks[at as usize]);
        (0..n).filter(|c| bits >> (c % 32) & 1 == 1 || *c == bits % n).map(CpuId).collect()
    }

    fn parent_of(&self, task: usize) -> Option<usize> {
        self.tasks[task].parent.filter(|_| task > 0).map(|p| p.index(task))
    }

    /// The CPUs that a task may ever run on; `None` for all. Until it has set itself up it has its parent's.
    fn allowed(&self, task: usize) -> Option<CpuSet> {
        let plan = &self.tasks[task];
        let later = plan.acts.iter().filter_map(|a| if let Act::Pin(m) = a { Some(*m) } else { None });
        let outside = self.changes.iter().filter_map(|(_, change)| match change {
            Change::Confine(_, m) | Change::Allow(_, m) => Some(*m),
            _ => None,
        });
        let own = later.chain(outside).fold(self.mask(plan.mask?), |all, m| all.or(&self.mask(m)));
        match self.parent_of(task) {
            Some(parent) => Some(own.or(&self.allowed(parent)?)),
            None => Some(own),
        }
    }

    /// Declares the groups with their properties.
    fn declare_groups(&self, b: &mut Builder) -> Vec<GroupId> {
        let version = self.kernel().version;
        let (mut ids, mut paths) = (Vec::new(), Vec::<String>::new());
        for (i, group) in self.groups.iter().enumerate() {
            let above = group.above.filter(|_| i > 0).map_or("", |at| paths[at.index(i)].as_str());
            paths.push(format!("{above}/g{i}"));
            let id = b.group(&paths[i]).expect("a path");
            let decl = b.edit_group(id);
            decl.shares = group.shares;
            if let Some((quota, period, burst)) = group.limit.filter(|_| version >= Version::new(3, 2)) {
                (decl.quota, decl.period) = (Some(Ns::us(quota)), Ns::us(period));
                let bursts = version >= Version::new(5, 14);
                decl.burst = if bursts { Ns::us(quota * burst / 100) } else { Ns::ZERO };
            }
            decl.idle = group.idle && version >= Version::new(5, 15);
            ids.push(id);
        }
        ids
    }

    /// The changes from outside that this kernel and its groups can have.
    fn later(&self, groups: &[GroupId]) -> Vec<(Ns, Later)> {
        let version = self.kernel().version;
        let settable: Vec<GroupId> =
            groups.iter().zip(&self.groups).filter(|(_, g)| !g.idle).map(|(id, _)| *id).collect();
        let one = |at: &Index, of: &[GroupId]| (!of.is_empty()).then(|| of[at.index(of.len())]);
        let task = |at: &Index| TaskId::from(at.index(self.tasks.len()));
        let later = |change: &Change| match change {
            Change::Shares(group, shares) => Some(Later::Shares(one(group, &settable)?, *shares)),
            Change::Limit(group, limit) => {
                let group = one(group, groups).filter(|_| version >= Version::new(3, 2))?;
                let (quota, period) = limit.unzip();
                let period = period.map_or(Limit::default().period, Ns::us);
                Some(Later::Limited(group, Limit { quota: quota.map(Ns::us), period, ..Limit::default() }))
            }
            Change::Confine(group, mask) => Some(Later::Confined(one(group, groups)?, *mask)),
            Change::Move(at, group) => {
                let any: Vec<GroupId> = groups.iter().copied().chain([ROOT_GROUP]).collect();
                (!groups.is_empty()).then(|| Later::Moved(task(at), any[group.index(any.len())]))
            }
            Change::Allow(at, mask) => Some(Later::Allowed(task(at), *mask)),
        };
        let mut all: Vec<(Ns, Later)> = (self.changes.iter())
            .filter_map(|(part, change)| Some((Ns::us(self.ms * part), later(change)?)))
            .collect();
        all.sort_by_key(|(at, _)| *at);
        all
    }

    fn workload(&self) -> Built {
        let mut b = Builder::new(self.seed);
        b.lasts(Ns::ms(self.ms), Ns::ZERO);
        if self.processes {
            b.as_processes();
        }
        (0..=LOCK.0).for_each(|_| {
            b.word();
        });
        self.channels.iter().for_each(|kind| {
            b.channel(*kind);
        });
        (0..MASKS as u32).for_each(|m| {
            b.mask(self.mask(m));
        });
        let groups = self.declare_groups(&mut b);
        for (i, plan) in self.tasks.iter().enumerate() {
            let children = (0..self.tasks.len()).filter(|c| self.parent_of(*c) == Some(i));
            let children = children.map(TaskId::from).collect();
            let steps = plan.acts.iter().flat_map(|act| act.steps()).collect();
            let program = Script { steps, at: 0, children };
            let id = b.task(format!("t{i}"), Box::new(program)).expect("few tasks");
            let task = b.edit(id);
            task.attr = plan.attr;
            task.affinity = plan.mask.map(|m| self.mask(m));
            task.spawned_by = self.parent_of(i).map(TaskId::from);
            if let Some(group) = plan.group.filter(|_| !groups.is_empty()) {
                task.group = groups[group.index(groups.len())];
            }
        }
        let mut built = b.finish().expect("the first task starts by itself");
        built.later = self.later(&groups);
        built
    }

    /// Runs it; the error names the fault.
    fn run(&self) -> Result<(), String> {
        let machine = self.machine();
        let mut checker = Checker::new(&machine);
        for task in 0..self.tasks.len() {
            if let Some(allowed) = self.allowed(task) {
                checker.restrict(TaskId::from(task), allowed);
            }
        }
        let workload = self.workload();
        checker.limit(&workload);
        let report = simulated(&machine, self.kernel(), self.seed, workload, &mut checker);
        checker.verdict(&report.map_err(|e| e.to_string())?)
    }
}

/// A plan, carried out again and again.
struct Script {
    steps: Vec<Step>,
    at: u32,
    children: Vec<TaskId>,
}

impl Program for Script {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(task) = self.children.pop() {
            return Op::Spawn { task };
        }
        if self.at == MOST_OPS {
            return Op::Exit;
        }
        self.at += 1;
        match self.steps[(self.at as usize - 1) % self.steps.len()] {
            Step::Op(op) => op,
            Step::Wait { word, for_us } => {
                Op::Wait { word, value: env.word(word).load(SeqCst), until: env.now() + Ns::us(for_us) }
            }
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Makes `usual` draws, unless `SCHEDLAB_DRAWS` gives another number.
fn hold(usual: u32, draws_of: impl Strategy<Value = Draw>) {
    let draws = number("SCHEDLAB_DRAWS");
    let drawn =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let seed = number("SCHEDLAB_DRAW_SEED").unwrap_or_else(|| draws.map_or(1, |_| drawn()));
    let cases = draws.map_or(usual, |n| n.try_into().expect("fewer than 4 billion draws"));
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 5_000,
        ..ProptestConfig::default()
    };
    let begun = Instant::now();
    println!("{cases} draws; SCHEDLAB_DRAWS={cases} SCHEDLAB_DRAW_SEED={seed} makes them again");
    let result = TestRunner::new(config).run(&draws_of, |draw| draw.run().map_err(TestCaseError::fail));
    println!("done after {:?}", begun.elapsed());
    result.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
}

#[test]
fn invariants_hold_when_tasks_change_in_mid_run() {
    hold(DRAWS, draw());
}

#[test]
fn invariants_hold_on_machines_whose_cpus_are_unlike() {
    hold(DRAWS / 4, on_uneven());
}
