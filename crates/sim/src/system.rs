//! One simulated kernel on one machine: CPUs, tasks, runqueues, and the dispatch of the next event of a CPU.
//!
//! A [`System`] owns neither clock nor queue: the caller asks `next_event(cpu)` when a CPU acts next, and calls
//! `step(cpu, now)` then; CPUs whose next event changed are named in `touched`. Time is ns since the run began.

use crate::balance::capacity::{SCALE, cpu_capacity};
use crate::balance::era::Balancer;
use crate::balance::idlest_cpu::Chooser;
use crate::balance::members::GroupCpus;
use crate::balance::newidle_gate::Gates;
use crate::balance::shared::{DomainShared, Gathered};
use crate::balance::state::NohzState;
use crate::booted;
use crate::cache::Caches;
use crate::channel::state::Channels;
use crate::costs::Lines;
use crate::cpu::Cpu;
use crate::fair::granularity::Granularity;
use crate::fair::group::{GroupRq, TaskGroup};
use crate::fair::{CfsRq, CfsRqId, Entity, EntityId};
use crate::frame::{Frame, Step, Sys};
use crate::memory::{Sets, by_domain};
use crate::nested::{Hosted, Nested};
use crate::net::{Nic, remote::Remote};
use crate::o1::state::O1Rq;
use crate::observe::{Intervals, Stats};
use crate::preempt::Parked;
use crate::rq::pelt_lag::PeltLag;
use crate::rt::{RtRq, RtShared};
use crate::task::Class;
use crate::task::Task;
use crate::turns::sharing::Sharing;
use crate::wakeup::llc::LlcShared;
use schedlab_base::{Arena, CpuId, CpuSet, Error, GroupId, Ns, Stream, TaskId};
use schedlab_kernel::{Feature, History, Kernel};
use schedlab_machine::{Domains, Group, Machine};
use schedlab_record::schedstat::Schedstat;
use schedlab_trace::{Counters, Event, EventKind, Sink};
use schedlab_workload::Later;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Data that do not change during a run, except the kernel's switches; see [`System::switch_kernel`].
pub struct Fixed<'s> {
    /// The machine.
    pub machine: &'s Machine,
    /// Its domains under this kernel.
    pub domains: Domains,
    /// The CPUs of its groups.
    pub group_cpus: GroupCpus,
    /// Version, features, tunables.
    pub kernel: Kernel,
    /// The version's mechanisms.
    pub history: History,
    /// Its fair class.
    pub fair: Class,
    /// The balancer of kernels that weigh groups by average load.
    pub balancer: Balancer,
    /// The gates of newidle balance.
    pub gates: Gates,
    /// The choice of a new task's CPU within a group.
    pub chooser: Chooser,
    /// Scaled granularities.
    pub gran: Granularity,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// Ticks since boot when the run begins, as balancing counts them: longer than any domain's interval, so that all
    /// domains are due at the first tick. 0 before 2.6.23.
    pub first_jiffy: u64,
    /// Hardware threads of the same core, the CPU itself excluded.
    pub siblings: Arena<CpuId, Vec<CpuId>>,
    /// Any core of the machine has more than one thread.
    pub smt_present: bool,
    /// Speed of each CPU: its capacity as the machine states it, 1024 for a fastest one.
    pub speed: Arena<CpuId, u64>,
    /// CPUs differ in capacity, and the kernel's domains say so (`sched_asym_cpucap_active`).
    pub asym: bool,
    /// Load averages count time by capacity.
    pub scales_time: bool,
    /// The highest capacity (`rd->max_cpu_capacity`).
    pub max_capacity: u64,
    /// Capacity of each CPU.
    pub cpu_capacity: Arena<CpuId, u64>,
    /// Capacity of each group of the domains: the sum of its CPUs'.
    pub group_capacity: Vec<u64>,
    /// Cores of each group.
    pub group_cores: Vec<u32>,
    /// The number of the shared state of a CPU's domains, by level.
    pub shared_of: Arena<CpuId, Vec<Option<u32>>>,
    /// The time for which tasks stay cache hot, by CPU and domain, ns, where the kernel has it by distance.
    pub cutoffs: Arena<CpuId, Vec<Option<u64>>>,
    /// Allowed-CPU masks of the workload.
    pub masks: Vec<CpuSet>,
    /// Cost jitter and other draws of the machine, apart from the workload's.
    pub stream: Stream,
}

impl Fixed<'_> {
    /// The time for which a task stays cache hot in a domain of `cpu`, ns; `None` if the tunables say it.
    pub fn cutoff_ns(&self, cpu: CpuId, level: usize) -> Option<u64> {
        self.cutoffs[cpu].get(level).copied().flatten()
    }
}

/// A simulated kernel.
pub struct System<'s> {
    /// Data that do not change.
    pub fixed: Fixed<'s>,
    /// The instant being simulated, ns.
    pub now: u64,
    /// The CPU that acts.
    pub acting: CpuId,
    /// What acts is not one of the CPUs, but a writer outside of the run: whatever it asks of a CPU, it signals.
    pub from_outside: bool,
    /// No other CPU acts before this time, ns: a scan may go on inline until then.
    pub horizon: u64,
    /// CPUs.
    pub cpus: Arena<CpuId, Cpu>,
    /// Runnable tasks per CPU (`rq->nr_running`), dense because scans read it.
    pub nr_running: Arena<CpuId, u32>,
    /// Those of them that are SCHED_IDLE, delayed ones included (`cfs.h_nr_idle`, earlier `idle_h_nr_running`).
    pub nr_sched_idle: Arena<CpuId, u32>,
    /// `idle_cpu()` per CPU: idle task current, nothing runnable, wake list empty.
    pub idle: Arena<CpuId, bool>,
    /// CPUs that are not halted; they slow their siblings down.
    pub active: Arena<CpuId, bool>,
    /// Who has read each CPU's line since it changed.
    pub lines: Lines,
    /// Contents of the cores' private caches, by task.
    pub caches: Caches,
    /// Working sets in the machine's caches; `None` where these are not known, and `caches` holds.
    pub memory: Option<Sets>,
    /// Shared state of each cache domain.
    pub llc: Vec<LlcShared>,
    /// Tasks.
    pub tasks: Arena<TaskId, Task>,
    /// System calls that tasks have left in the middle, by task.
    pub parked: Arena<TaskId, Parked>,
    /// Entities.
    pub entities: Arena<EntityId, Entity>,
    /// cfs_rqs; number n is CPU n's root queue.
    pub queues: Arena<CfsRqId, CfsRq>,
    /// Task groups; 0 is the root.
    pub groups: Arena<GroupId, TaskGroup>,
    /// The part of each cfs_rq that only groups have.
    pub group_rqs: Arena<CfsRqId, GroupRq>,
    /// Some group has a quota (`cfs_bandwidth_used`).
    pub limits: bool,
    /// Some group is idle.
    pub idle_groups: bool,
    /// Real-time runqueues.
    pub rt: Arena<CpuId, RtRq>,
    /// The O(1) scheduler's arrays, by CPU; none under kernels without it.
    pub o1: Arena<CpuId, O1Rq>,
    /// How far the clock of each CPU's load averages is behind.
    pub pelt_lag: Arena<CpuId, PeltLag>,
    /// The load of a running task that is too large for its CPU, by CPU (`misfit_task_load`).
    pub misfit: Arena<CpuId, u64>,
    /// State that the real-time runqueues share.
    pub rt_shared: RtShared,
    /// Futex words.
    pub words: Vec<AtomicU32>,
    /// Shared cells.
    pub slots: Vec<AtomicU64>,
    /// Waiters of each word, oldest first.
    pub waiters: Vec<VecDeque<TaskId>>,
    /// Pipes and sockets.
    pub channels: Channels,
    /// Some runqueue of the root domain had two runnable tasks (`rd->overload`).
    pub overload: bool,
    /// `sgc->imbalance` of every group.
    pub group_flags: Vec<bool>,
    /// Shared state of domains.
    pub shared: Vec<DomainShared>,
    /// Statistics of groups that one CPU gathered, for others to use (ILB_SHARE); empty without the feature.
    pub gathered: Vec<Option<Gathered>>,
    /// Tickless-idle balancing.
    pub nohz: NohzState,
    /// Counters that events do not carry.
    pub stats: Stats,
    /// The counters of /proc/schedstat.
    pub schedstat: Schedstat,
    /// Waits that began earlier count from here, ns: the end of the warm-up once it is over.
    pub counted_from: u64,
    /// CPUs whose next event changed in this step, beside the one that stepped.
    pub touched: Vec<CpuId>,
    /// A CPU may go on at once with what follows at the same instant; see [`System::at_once`].
    pub merge: bool,
    /// Steps made so far.
    pub steps: u64,
    /// Workload tasks that have not left yet.
    pub alive: usize,
    /// Tasks that spin for a lock, by its word, those that came first at the front.
    pub spinners: Vec<VecDeque<TaskId>>,
    /// Changes of groups and tasks in mid-run, with their times.
    pub later: VecDeque<(u64, Later)>,
    /// The programs' measurements by interval.
    pub intervals: Intervals,
    /// Values before this time are not recorded, ns.
    pub measure_from: u64,
    /// `min_vruntime` of each queue as the invariant walk saw it last.
    pub floors: Arena<CfsRqId, i64>,
    /// A task's request that cannot be simulated: ends the run.
    pub fault: Option<Error>,
    /// Virtual machines whose vCPUs are tasks of this kernel.
    pub nested: Vec<Nested<'s>>,
    /// Machines behind a link.
    pub remotes: Vec<Remote<'s>>,
    /// Its network interface.
    pub nic: Nic,
    /// The part that depends on the host, if this kernel is a guest's.
    pub hosted: Option<Hosted>,
    /// State of turns, if the CPUs take turns.
    pub turns: Option<Sharing>,
    /// The sink asks for details.
    pub tells: bool,
    /// The counters that the sink asks for.
    pub counts: Counters,
    /// Receives the events.
    pub sink: &'s mut dyn Sink,
}

impl<'s> System<'s> {
    /// A system with idle CPUs and no tasks.
    pub fn new(machine: &'s Machine, kernel: Kernel, seed: u64, sink: &'s mut dyn Sink) -> System<'s> {
        let topology = &machine.topology;
        let n = topology.nr_cpus();
        let mut history = History::of(kernel.version);
        // A patch that brings the feature back decides whether a sleep is credited.
        history.credits_sleepers &= !kernel.brought.is_some_and(|all| all.has(Feature::NewFairSleepers));
        let domains = Domains::build(topology, kernel.version);
        let siblings: Arena<CpuId, Vec<CpuId>> = (0..n)
            .map(CpuId::from)
            .map(|c| topology.smt_mask(c).iter().filter(|s| *s != c).collect())
            .collect();
        let speed: Arena<CpuId, u64> =
            (0..n).map(CpuId::from).map(|c| u64::from(topology.capacity_of(c))).collect();
        // Where the architecture states capacities, threads share none.
        let cpu_capacity: Arena<CpuId, u64> = match !topology.capacity.is_empty() && !history.o1 {
            true => speed.clone(),
            false => siblings.iter().map(|others| cpu_capacity(&history, others.len() + 1)).collect(),
        };
        let of_group = |g: &Group| g.cpus.iter().map(|c| cpu_capacity[*c]).sum();
        // A core counts once, at the first of its threads in the group.
        let first = |c: &&CpuId, g: &Group| siblings[**c].iter().all(|s| s > *c || !g.span.contains(*s));
        let cores_of = |g: &Group| g.cpus.iter().filter(|c| first(c, g)).count() as u32;
        let group_cores = domains.groups.iter().map(cores_of).collect();
        let group_capacity = domains.groups.iter().map(of_group).collect();
        let cpus = domains
            .of_cpu
            .iter()
            .enumerate()
            .map(|(c, own)| booted::cpu(machine, &kernel, &history, seed, CpuId::from(c), own))
            .collect();
        let (shared, shared_of) = crate::balance::shared::build(&domains, &cpu_capacity, kernel.features);
        let sharable = if kernel.features.has(Feature::IlbShare) { domains.groups.len() } else { 0 };
        let nr_llc = topology.cpus.iter().map(|c| c.llc as usize + 1).max().unwrap_or(0);
        System {
            now: 0,
            acting: CpuId(0),
            from_outside: false,
            horizon: 0,
            cpus,
            nr_running: Arena::filled(0, n),
            nr_sched_idle: Arena::filled(0, n),
            idle: Arena::filled(true, n),
            active: Arena::filled(false, n),
            lines: Lines::new(topology),
            caches: Caches::new(topology, &machine.costs),
            memory: None,
            llc: (0..nr_llc).map(|l| LlcShared::new(topology, l)).collect(),
            tasks: Arena::new(),
            parked: Arena::new(),
            entities: Arena::new(),
            queues: (0..n).map(|c| CfsRq::new(CpuId::from(c), None)).collect(),
            groups: std::iter::once(TaskGroup::root()).collect(),
            group_rqs: Arena::filled(GroupRq::default(), n),
            limits: false,
            idle_groups: false,
            rt: Arena::filled(RtRq::default(), n),
            o1: Arena::filled(O1Rq::default(), if history.o1 { n } else { 0 }),
            pelt_lag: Arena::filled(PeltLag::default(), n),
            misfit: Arena::filled(0, n),
            rt_shared: RtShared::default(),
            words: Vec::new(),
            slots: Vec::new(),
            waiters: Vec::new(),
            channels: Channels::default(),
            overload: false,
            group_flags: vec![false; domains.groups.len()],
            shared,
            gathered: vec![None; sharable],
            nohz: NohzState::new(n),
            stats: Stats::default(),
            schedstat: crate::observe::schedstat(&domains, kernel.features),
            counted_from: 0,
            touched: Vec::with_capacity(16),
            merge: false,
            steps: 0,
            alive: 0,
            spinners: Vec::new(),
            later: VecDeque::new(),
            intervals: Intervals::default(),
            measure_from: 0,
            floors: Arena::filled(i64::MIN, n),
            fault: None,
            nested: Vec::new(),
            remotes: Vec::new(),
            nic: Nic::default(),
            hosted: None,
            turns: machine.turns.map(|spec| Sharing::new(spec, n)),
            tells: sink.wants_details(),
            counts: sink.wants_counters(),
            sink,
            fixed: Fixed {
                gran: Granularity::of(&kernel, n),
                tick_ns: 1_000_000_000 / kernel.tunables.hz,
                first_jiffy: booted::first_jiffy(&kernel, &history, n),
                siblings,
                smt_present: crate::wakeup::llc::smt_present(topology),
                asym: domains.asym.iter().any(Option::is_some),
                scales_time: history.pelt_scales_time && speed.iter().any(|s| *s != SCALE),
                max_capacity: cpu_capacity.iter().copied().max().unwrap_or(SCALE),
                speed,
                cpu_capacity,
                group_capacity,
                group_cores,
                shared_of,
                cutoffs: by_domain(&kernel, topology, &domains),
                group_cpus: GroupCpus::new(&domains.groups),
                domains,
                kernel,
                fair: Class::fair(&history),
                balancer: Balancer::of(&history),
                gates: Gates::of(&history),
                chooser: Chooser::of(&history),
                history,
                machine,
                masks: Vec::new(),
                stream: Stream::new(seed).purpose("machine"),
            },
        }
    }

    /// Number of CPUs.
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }
    /// CPU `n`'s root queue.
    #[inline]
    pub fn root(&self, cpu: CpuId) -> CfsRqId {
        CfsRqId(cpu.0)
    }
    /// A task's entity.
    #[inline]
    pub fn entity(&self, task: TaskId) -> &Entity {
        &self.entities[self.tasks[task].entity]
    }
    /// Number of a CPU's fair tasks that sleep while queued (DELAY_DEQUEUE).
    #[inline]
    pub fn nr_delayed(&self, cpu: CpuId) -> u32 {
        let q = &self.queues[self.root(cpu)];
        q.h_nr_queued - q.h_nr_running
    }
    /// Whether a CPU has no runnable task; `nr_running` alone counts delayed ones, too.
    #[inline]
    pub fn only_delayed(&self, cpu: CpuId) -> bool {
        self.nr_running[cpu] == self.nr_delayed(cpu)
    }
    /// Number of a CPU's fair tasks as balancing counts them: since 6.14 without delayed ones.
    #[inline]
    pub fn h_nr_balanced(&self, cpu: CpuId) -> u32 {
        let q = &self.queues[self.root(cpu)];
        if self.fixed.history.delayed_set_apart { q.h_nr_running } else { q.h_nr_queued }
    }
    /// Runnable fair tasks of a CPU (`cfs.h_nr_runnable`).
    #[inline]
    pub fn h_nr_running(&self, cpu: CpuId) -> u32 {
        self.queues[self.root(cpu)].h_nr_running
    }
    /// Whether a feature is on.
    #[inline]
    pub fn has(&self, feature: Feature) -> bool {
        self.fixed.kernel.features.has(feature)
    }
    /// From this instant on, features and tunables are those of `kernel`, as after a write to `sched/features`:
    /// operations under way go on, and use the new ones from their next step on. The version stays.
    pub fn switch_kernel(&mut self, kernel: Kernel) {
        debug_assert!(kernel.version == self.fixed.kernel.version, "a running kernel keeps its version");
        self.fixed.gran = Granularity::of(&kernel, self.nr_cpus());
        self.fixed.kernel = kernel;
    }
    /// Emits an event at this instant on `cpu`.
    #[inline]
    pub fn emit(&mut self, cpu: CpuId, kind: EventKind) {
        self.sink.event(&Event { at: Ns(self.now), cpu, kind });
    }
    /// Emits a detail ([`EventKind::is_detail`]), if the sink asks for details.
    #[inline]
    pub fn tell(&mut self, cpu: CpuId, kind: EventKind) {
        if self.tells {
            self.tell_now(cpu, kind);
        }
    }
    /// A separate function, so that runs without details do not load its code.
    #[cold]
    #[inline(never)]
    fn tell_now(&mut self, cpu: CpuId, kind: EventKind) {
        debug_assert!(kind.is_detail(), "{kind:?} is for every sink");
        self.emit(cpu, kind);
    }
    /// Notes that `cpu`'s next event may have changed.
    #[inline]
    pub fn touch(&mut self, cpu: CpuId) {
        self.touched.push(cpu);
    }

    /// The time of `cpu`'s next event; [`NEVER`](crate::engine::NEVER) if it waits for others.
    #[inline]
    pub fn next_event(&self, cpu: CpuId) -> u64 {
        let c = &self.cpus[cpu];
        if c.hard.active() {
            return c.hard.ends;
        }
        let base = if c.soft.active() { c.soft.ends } else { c.task.ends };
        if !c.soft.active() && c.task.step.irqs_off() {
            return base;
        }
        base.min(c.irq_due().max(self.now))
    }

    /// Lets `cpu` handle the events that are due at `now`.
    pub fn step(&mut self, cpu: CpuId, now: u64) {
        debug_assert!(now >= self.now, "time runs forward");
        self.now = now;
        self.acting = cpu;
        let c = &self.cpus[cpu];
        if c.hard.active() {
            self.hard_step(cpu);
        } else if (c.soft.active() || !c.task.step.irqs_off()) && c.irq_due() <= now {
            self.interrupt(cpu);
        } else if c.soft.active() {
            self.soft_step(cpu);
        } else {
            self.task_step(cpu);
        }
    }

    /// The task context's step has ended.
    fn task_step(&mut self, cpu: CpuId) {
        let step = self.cpus[cpu].task.step;
        match step {
            Step::User => self.user_done(cpu),
            Step::Syscall(sys) => self.syscall(cpu, sys),
            Step::Wakeup => self.wakeup_step(cpu, Context::Task),
            Step::Fork { task } => self.fork_step(cpu, task),
            Step::Exec => self.exec_step(cpu),
            Step::Newidle => self.newidle_step(cpu),
            Step::Pick => self.pick_and_switch(cpu, 0),
            Step::Switch { prev } => self.switched(cpu, prev),
            Step::IdleExit => self.begin_idle_loop(cpu),
            Step::IdleLoop => self.idle_loop(cpu),
            Step::BeforeIdle { at } => self.update_before_idle(cpu, at),
            Step::Halted { .. } => self.end_of_polling(cpu),
            Step::None | Step::Rebalance | Step::Tick | Step::Timer | Step::TimerExit | Step::Ipi => {
                unreachable!("{cpu} stepped in task context at {step:?}")
            }
        }
    }

    /// Starts a step of the task context that takes `cost_ns`.
    #[inline]
    pub fn begin(&mut self, cpu: CpuId, step: Step, cost_ns: u64) {
        self.cpus[cpu].task = Frame::until(step, self.now + cost_ns);
    }
    /// Starts a system call of the current task that takes `cost_ns` before it has its effect.
    #[inline]
    pub fn begin_syscall(&mut self, cpu: CpuId, sys: Sys, cost_ns: u64) {
        let costs = &self.fixed.machine.costs;
        let entry_ns = costs.program_ns + costs.syscall_ns;
        self.begin(cpu, Step::Syscall(sys), entry_ns + cost_ns);
    }
    /// Allows or forbids merged steps, also of guests.
    pub fn let_merge(&mut self, merge: bool) {
        self.merge = merge;
        self.nested.iter_mut().for_each(|own| own.sys.merge = merge);
        self.remotes.iter_mut().for_each(|own| own.sys.merge = merge);
    }
    /// Whether the acting CPU may go on at once with a step that follows at this very instant. It may if arming and
    /// finding it would give the same order, that is, unless a CPU it has touched could come before it.
    #[inline]
    pub fn at_once(&mut self) -> bool {
        let goes_on = self.merge && self.touched.is_empty();
        self.steps += u64::from(goes_on);
        goes_on
    }
    /// The next tick of the one grid all CPUs share, after `now`.
    #[inline]
    pub fn next_tick(&self) -> u64 {
        (self.now / self.fixed.tick_ns + 1) * self.fixed.tick_ns
    }
}

/// The waking contexts of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A system call of the current task.
    Task = 0,
    /// An interrupt.
    Hard = 1,
}

/// The frame of `context` on a CPU.
pub fn frame_of(cpu: &mut Cpu, context: Context) -> &mut Frame {
    match context {
        Context::Task => &mut cpu.task,
        Context::Hard => &mut cpu.hard,
    }
}
