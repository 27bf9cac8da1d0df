//! What does not change during a run: the machine, its domains, the kernel's version, and what follows from these.

use crate::balance::capacity::{SCALE, cpu_capacity};
use crate::balance::era::Balancer;
use crate::balance::idlest_cpu::Chooser;
use crate::balance::members::GroupCpus;
use crate::balance::newidle_gate::Gates;
use crate::balance::shared::DomainShared;
use crate::balance::spare::DomainFacts;
use crate::booted;
use crate::cache_by_level::by_domain;
use crate::fair::granularity::Granularity;
use crate::pelt::SumRule;
use crate::task::Class;
use crate::util_est::EstimateRule;
use schedlab_base::{Arena, CpuId, Stream};
use schedlab_board::NO_DICE;
use schedlab_board::board::Board;
use schedlab_kernel::{Feature, History, Kernel};
use schedlab_machine::{Domain, Domains, Group, Level, Machine, Topology};

/// Data that do not change during a run, except the kernel's switches; see
/// [`System::switch_kernel`](crate::system::System::switch_kernel).
pub struct Fixed<'s> {
    pub machine: &'s Machine,
    /// Its domains under this kernel.
    pub domains: Domains,
    pub group_cpus: GroupCpus,
    /// Version, features, tunables.
    pub kernel: Kernel,
    /// The version's mechanisms.
    pub history: History,
    /// How its queues' sums of load fit their averages.
    pub sum_rule: SumRule,
    /// How its estimates of utilisation follow.
    pub estimate_rule: EstimateRule,
    pub fair: Class,
    /// The balancer of kernels that weigh groups by average load.
    pub balancer: Balancer,
    /// The gates of newidle balance.
    pub gates: Gates,
    /// The choice of a new task's CPU within a group.
    pub chooser: Chooser,
    /// Scaled granularities.
    pub gran: Granularity,
    pub tick_ns: u64,
    /// Ticks since boot when the run begins, as balancing counts them: longer than any domain's interval, so that all
    /// domains are due at the first tick. 0 before 2.6.23.
    pub first_jiffy: u64,
    /// Any core of the machine has more than one thread.
    pub smt_present: bool,
    /// CPUs differ in capacity, and the kernel's domains say so (`sched_asym_cpucap_active`).
    pub asym: bool,
    /// Load averages count time by capacity.
    pub scales_time: bool,
    /// Some CPUs have a domain of clusters, and the kernel looks for one (`sched_cluster_active`).
    pub clusters: bool,
    /// The highest capacity (`rd->max_cpu_capacity`).
    pub max_capacity: u64,
    pub cpu_capacity: Arena<CpuId, u64>,
    /// Every CPU has a whole CPU's capacity.
    pub whole_cpus: bool,
    /// Capacity of each group of the domains: the sum of its CPUs'.
    pub group_capacity: Vec<u64>,
    pub group_cores: Vec<u32>,
    /// The facts about each CPU's domains, by level, that balancing by spare capacity needs.
    pub spare_facts: Arena<CpuId, Vec<DomainFacts>>,
    /// The number of the shared state of a CPU's domains, by level.
    pub shared_of: Arena<CpuId, Vec<Option<u32>>>,
    /// The time for which tasks stay cache hot, by CPU and domain, ns, where the kernel has it by distance.
    pub cutoffs: Arena<CpuId, Vec<Option<u64>>>,
    /// Cost jitter and other draws of the machine, apart from the workload's.
    pub stream: Stream,
    /// Whether the kernel draws ([`schedlab_board::NO_DICE`]).
    pub dice: bool,
}

impl<'s> Fixed<'s> {
    /// The data of a run, and the shared states of the domains as they are at its start.
    pub fn new(board: &Board<'s>, kernel: Kernel, seed: u64) -> (Fixed<'s>, Vec<DomainShared>) {
        let (machine, siblings, speed) = (board.machine, &board.siblings, &board.speed);
        let topology = &machine.topology;
        let history = board.history;
        let domains = Domains::build(topology, kernel.version);
        let n = topology.nr_cpus();
        let cpu_capacity = capacities(topology, &history, board);
        let (shared, shared_of) = crate::balance::shared::build(&domains, &cpu_capacity, kernel.features);
        let fixed = Fixed {
            gran: Granularity::of(&kernel, n),
            tick_ns: 1_000_000_000 / kernel.tunables.hz,
            first_jiffy: booted::first_jiffy(&kernel, &history, n),
            smt_present: crate::wakeup::llc::smt_present(topology),
            asym: domains.asym.iter().any(Option::is_some),
            clusters: history.scans_clusters
                && domains.of_cpu.iter().flatten().any(|d| d.level == Level::Cls),
            scales_time: history.pelt_scales_time && speed.iter().any(|s| *s != SCALE),
            whole_cpus: cpu_capacity.iter().all(|capacity| *capacity == SCALE),
            max_capacity: cpu_capacity.iter().copied().max().unwrap_or(SCALE),
            group_capacity: domains.groups.iter().map(|g| group_capacity(g, &cpu_capacity)).collect(),
            group_cores: domains.groups.iter().map(|g| group_cores(g, siblings)).collect(),
            spare_facts: domains.of_cpu.iter().map(|levels| spare_facts(&history, levels)).collect(),
            group_cpus: GroupCpus::new(&domains.groups),
            cutoffs: by_domain(&kernel, topology, &domains),
            sum_rule: SumRule::of(&history),
            estimate_rule: EstimateRule::of(&history),
            fair: Class::fair(&history),
            balancer: Balancer::of(&history),
            gates: Gates::of(&history),
            chooser: Chooser::of(&history),
            stream: Stream::new(seed).purpose("machine"),
            dice: seed & NO_DICE == 0,
            cpu_capacity,
            shared_of,
            domains,
            kernel,
            history,
            machine,
        };
        (fixed, shared)
    }
    /// The time for which a task stays cache hot in a domain of `cpu`, ns; `None` if the tunables say it.
    pub fn cutoff_ns(&self, cpu: CpuId, level: usize) -> Option<u64> {
        self.cutoffs[cpu].get(level).copied().flatten()
    }
}

/// The mechanisms of a kernel, as a run has them.
pub fn history_of(kernel: &Kernel) -> History {
    let mut history = History::of(kernel.version);
    // A patch that brings the feature back decides whether a sleep is credited.
    history.credits_sleepers &= !kernel.brought.is_some_and(|all| all.has(Feature::NewFairSleepers));
    history
}

/// Capacity of each CPU. Where the architecture states capacities, threads share none.
fn capacities(topology: &Topology, history: &History, board: &Board<'_>) -> Arena<CpuId, u64> {
    if !topology.capacity.is_empty() && !history.o1 {
        return board.speed.clone();
    }
    board.siblings.iter().map(|others| cpu_capacity(history, others.len() + 1)).collect()
}

fn spare_facts(history: &History, levels: &[Domain]) -> Vec<DomainFacts> {
    (0..levels.len()).map(|level| DomainFacts::of(history, levels, level)).collect()
}

fn group_capacity(group: &Group, of: &Arena<CpuId, u64>) -> u64 {
    group.cpus.iter().map(|c| of[*c]).sum()
}

impl Fixed<'_> {
    /// Whether a group behind a CPU's own has that CPU, too: then it is local as well. Before 4.13 nodes may be in all
    /// groups of a domain, and take nothing from each other there.
    pub fn overlaps(&self, group: u32, cpu: CpuId, level: usize) -> bool {
        self.domains.of_cpu[cpu][level].params.numa && self.domains.groups[group as usize].span.contains(cpu)
    }
}

/// A core counts once, at the first of its threads in the group.
fn group_cores(group: &Group, siblings: &Arena<CpuId, Vec<CpuId>>) -> u32 {
    let first = |c: &&CpuId| siblings[**c].iter().all(|s| s > *c || !group.span.contains(*s));
    group.cpus.iter().filter(first).count() as u32
}
