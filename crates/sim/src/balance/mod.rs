//! Load balancing as 2.6.30, 3.4, 4.5 and 6.5 do it (`load_balance` and what calls it).
//!
//! The rules are pure functions, one noun a file; `pass` drives one domain's pass through time, `newidle` and
//! `periodic` decide when and how far up, `idlest_walk` is the slow path of fork. Loads are weights (1024 at nice 0)
//! or their averages; ticks are jiffies. Since 5.5 groups are judged by spare capacity instead: rules in [`spare`],
//! driven by `groups` and `take_spare`; what the CPUs of a domain share, and what reading it costs, is in [`shared`].

pub mod busiest;
pub mod capacity;
pub mod classify;
pub mod detach;
pub mod era;
mod groups;
pub mod idlest;
pub mod idlest_cpu;
pub mod idlest_walk;
pub mod imbalance;
pub mod interval;
mod loads;
pub mod newidle;
pub mod newidle_dice;
pub mod newidle_gate;
pub mod nohz;
pub mod pass;
pub mod periodic;
mod push;
pub mod queue;
mod reasons;
pub mod settle;
pub mod shared;
pub mod spare;
pub mod stats;
mod take;
mod take_spare;

use newidle_dice::Dice;
use newidle_gate::DomainCost;
use schedlab_base::{Arena, CpuId, Stream};
use schedlab_machine::{Domain, Turns};
use settle::{Bounds, DomainState};

/// What passes change about one CPU's domain.
#[derive(Clone, Copy, Debug)]
pub struct LevelState {
    /// Interval and failures.
    pub state: DomainState,
    /// What bounds them.
    pub bounds: Bounds,
    /// What newidle passes cost.
    pub cost: DomainCost,
    /// How often they pull something.
    pub dice: Dice,
    /// When it last balanced, in ticks.
    pub last_balance: u64,
    /// Version of the domain's shared state that this CPU read last.
    pub hints_seen: u32,
}

impl LevelState {
    /// A fresh domain.
    pub fn new(domain: &Domain) -> LevelState {
        let p = &domain.params;
        LevelState {
            state: DomainState { interval_ms: p.first_interval_ms, nr_balance_failed: 0 },
            bounds: Bounds {
                min_interval_ms: p.min_interval_ms,
                max_interval_ms: p.max_interval_ms,
                cache_nice_tries: p.cache_nice_tries,
            },
            cost: DomainCost::default(),
            dice: Dice::default(),
            last_balance: 0,
            hints_seen: 0,
        }
    }
}

/// What a guest's CPU knows of its domains when a run begins: what newidle passes have cost since boot, drawn for each.
pub fn remember_boot(levels: &mut [LevelState], turns: &Turns, stream: Stream, cpu: usize) {
    let of_cpu = stream.purpose("boot").number(cpu as u64);
    for (at, level) in levels.iter_mut().enumerate() {
        let known = turns.newidle_ns[of_cpu.below(at as u64, turns.newidle_ns.len() as u64) as usize];
        level.cost = DomainCost::known(known.into());
    }
}

/// Balancing for CPUs whose tick is stopped (`struct nohz`).
#[derive(Clone, Debug)]
pub struct NohzState {
    /// CPUs whose tick is stopped, or was until their next busy tick (`idle_cpus_mask`).
    pub tickless: Arena<CpuId, bool>,
    /// How many they are.
    pub nr_tickless: u32,
    /// When idle balance is due next, in ticks.
    pub next_balance: u64,
    /// When averages of tickless CPUs are to be brought up to date next, in ticks (`next_blocked`, 4.17+).
    pub next_blocked: u64,
    /// Some tickless CPU may have load left to decay (`has_blocked`).
    pub has_blocked: bool,
    /// The CPU that holds the lock of SD_SERIALIZE domains.
    pub serial: Option<CpuId>,
}

impl NohzState {
    /// All CPUs idle.
    pub fn new(nr_cpus: usize) -> NohzState {
        NohzState {
            tickless: Arena::filled(true, nr_cpus),
            nr_tickless: nr_cpus as u32,
            next_balance: 0,
            next_blocked: 0,
            has_blocked: false,
            serial: None,
        }
    }
}
