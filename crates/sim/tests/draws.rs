//! Drawn workloads whose tasks change all that the scheduler knows of them while they run: policy, nice value,
//! priority, slice, CPUs. They are in groups with weights and quotas, they sleep, wait, wake each other, yield, fork
//! and end. Every draw runs under one of the profiles, on one of a few machines, with all invariants walked after
//! every step, and its events must make sense.
//!
//! A draw is small, so that it takes milliseconds. The same draws are made each time, unless `SCHEDLAB_DRAWS` gives
//! their number (`.ci/run slow`): then they are new ones. The seed of a drawn run is printed, and `SCHEDLAB_DRAW_SEED`
//! repeats it.

mod support;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestRunner};
use schedlab_base::{CpuId, CpuSet, Ns, TaskId, Version};
use schedlab_kernel::feature::FEATURES;
use schedlab_kernel::{Attr, Kernel, PROFILES, Policy};
use schedlab_machine::{Cpu, Machine, Topology};
use schedlab_workload::{Builder, Built, Env, Op, Program, WordId};
use std::sync::LazyLock;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Instant, SystemTime};
use support::checker::Checker;
use support::{machine, simulated};

/// Draws of a usual run of the tests: about a minute.
const DRAWS: u32 = 8_000;
/// Words that the tasks of a draw wait on.
const WORDS: u32 = 2;
/// CPU masks that tasks may take.
const MASKS: usize = 3;
/// Profiles of EEVDF, the last ones of the table.
const EEVDF: usize = 4;
/// Operations of a task. Then it leaves, so that no draw takes for ever.
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
    Wait { word: u32, for_us: u64 },
    Wake { word: u32, count: u32 },
    Yield,
    Set(Attr),
    Pin(u32),
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
    (policy, nice, slice, 1u8..5).prop_map(|(policy, nice, slice, priority)| match policy.is_fair() {
        true => Attr { policy, nice, slice: Ns(slice), rt_priority: 0 },
        false => Attr { policy, rt_priority: priority, ..Attr::default() },
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
    /// How many tasks have this plan; the others are there from the start.
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
    /// Quota and period, us, and the part of the quota that it may save up, per cent.
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
    /// Its own machine, in place of one of the few.
    uneven: Option<Vec<Kind>>,
    profile: Index,
    toggles: Vec<(Index, bool)>,
    hz: u64,
    autogroup: bool,
    seed: u64,
    ms: u64,
    processes: bool,
    masks: Vec<u32>,
    groups: Vec<Group>,
    tasks: Vec<Plan>,
}

/// Hogs and short sleepers with slices of their own, for longer: the balancer moves tasks that sleep while queued.
fn crowd() -> impl Strategy<Value = Draw> {
    let slice = |range: std::ops::Range<u64>| prop_oneof![1 => Just(0u64), 3 => range];
    let of = |acts: Vec<Act>, slice: u64, copies: usize| {
        let attr = Attr { slice: Ns(slice), ..Attr::default() };
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
            Draw { tasks: copied(&plans), groups: Vec::new(), toggles: Vec::new(), ms, ..draw }
        },
    )
}

/// Draws on machines of unlike cores and caches, without quotas.
fn on_uneven() -> impl Strategy<Value = Draw> {
    (draw_of(plan()), kinds()).prop_map(|(mut draw, kinds)| {
        draw.groups.iter_mut().for_each(|group| group.limit = None);
        Draw { uneven: Some(kinds), ..draw }
    })
}

fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![39 => draw_of(plan()), 1 => crowd()]
}

fn draw_of(plan: impl Strategy<Value = Plan>) -> impl Strategy<Value = Draw> {
    let hz = prop_oneof![Just(100u64), Just(250), Just(1000)];
    let toggles = prop::collection::vec((any::<Index>(), any::<bool>()), 0..4);
    let kernel = (any::<Index>(), any::<Index>(), toggles, hz, prop::bool::weighted(0.2));
    let groups = prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(group(), 1..4)];
    let load = (prop::collection::vec(plan, 1..9), groups, prop::collection::vec(any::<u32>(), MASKS));
    let ms = prop_oneof![3 => 2u64..25, 1 => 25u64..60];
    (kernel, load, any::<u64>(), ms, any::<bool>()).prop_map(
        |((machine, profile, toggles, hz, autogroup), (plans, groups, masks), seed, ms, processes)| Draw {
            machine,
            uneven: None,
            profile,
            toggles,
            hz,
            autogroup,
            seed,
            ms,
            processes,
            masks,
            groups,
            tasks: copied(&plans),
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
        // The newest profiles have most mechanisms, so they come up twice as often.
        let at = self.profile.index(PROFILES.len() + EEVDF);
        let profile = PROFILES.get(at).unwrap_or_else(|| &PROFILES[at - EEVDF]);
        let mut kernel = Kernel::of(profile.version);
        for (feature, on) in &self.toggles {
            kernel.features.switch(FEATURES[feature.index(FEATURES.len())].feature, *on);
        }
        kernel.tunables.hz = self.hz;
        kernel.tunables.autogroup = u64::from(self.autogroup);
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
        let own = later.fold(self.mask(plan.mask?), |all, m| all.or(&self.mask(m)));
        match self.parent_of(task) {
            Some(parent) => Some(own.or(&self.allowed(parent)?)),
            None => Some(own),
        }
    }

    /// Declares the groups, each with what the kernel knows of it.
    fn declare_groups(&self, b: &mut Builder) -> Vec<schedlab_base::GroupId> {
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

    fn workload(&self) -> Built {
        let mut b = Builder::new(self.seed);
        b.lasts(Ns::ms(self.ms), Ns::ZERO);
        if self.processes {
            b.as_processes();
        }
        (0..WORDS).for_each(|_| {
            b.word();
        });
        (0..MASKS as u32).for_each(|m| {
            b.mask(self.mask(m));
        });
        let groups = self.declare_groups(&mut b);
        for (i, plan) in self.tasks.iter().enumerate() {
            let children = (0..self.tasks.len()).filter(|c| self.parent_of(*c) == Some(i));
            let children = children.map(TaskId::from).collect();
            let program = Script { acts: plan.acts.clone(), at: 0, children };
            let id = b.task(format!("t{i}"), Box::new(program)).expect("few tasks");
            let task = b.edit(id);
            task.attr = plan.attr;
            task.affinity = plan.mask.map(|m| self.mask(m));
            task.spawned_by = self.parent_of(i).map(TaskId::from);
            if let Some(group) = plan.group.filter(|_| !groups.is_empty()) {
                task.group = groups[group.index(groups.len())];
            }
        }
        b.finish().expect("the first task starts by itself")
    }

    /// Runs it; the error names what is wrong.
    fn run(&self) -> Result<(), String> {
        let machine = self.machine();
        let mut checker = Checker::new(&machine);
        checker.limited = self.groups.iter().any(|g| g.limit.is_some());
        for task in 0..self.tasks.len() {
            if let Some(allowed) = self.allowed(task) {
                checker.restrict(TaskId::from(task), allowed);
            }
        }
        let report = simulated(&machine, self.kernel(), self.seed, self.workload(), &mut checker);
        checker.verdict(&report.map_err(|e| e.to_string())?)
    }
}

/// A plan, carried out again and again.
struct Script {
    acts: Vec<Act>,
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
        match self.acts[(self.at as usize - 1) % self.acts.len()] {
            Act::Run(us) => Op::Run { work: Ns::us(us) },
            Act::Sleep(us) => Op::Sleep { length: Ns::us(us) },
            Act::Wait { word, for_us } => {
                let word = WordId(word);
                Op::Wait { word, value: env.word(word).load(SeqCst), until: env.now() + Ns::us(for_us) }
            }
            Act::Wake { word, count } => Op::Wake { word: WordId(word), count },
            Act::Yield => Op::Yield,
            Act::Set(attr) => Op::SetAttr { attr },
            Act::Pin(mask) => Op::SetAffinity { mask },
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Runs so many draws, a usual run's unless `SCHEDLAB_DRAWS` says otherwise.
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
fn whatever_tasks_change_in_mid_run_the_invariants_hold() {
    hold(DRAWS, draw());
}

#[test]
fn they_hold_on_machines_whose_cpus_are_unlike() {
    hold(DRAWS / 4, on_uneven());
}
