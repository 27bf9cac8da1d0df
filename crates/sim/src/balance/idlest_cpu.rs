//! Chooses a CPU in the chosen group for a forked or exec'd task.
//!
//! Mirrors `find_idlest_cpu` of 3.4 and 4.5 and `find_idlest_group_cpu` of 6.x. The caller passes in the group's CPUs
//! on which the task may run, in ascending order. 3.4 compares load alone. Later kernels take an idle CPU if there is
//! one: the one that wakes fastest, and among equals the one that went idle last.

use super::era::Balancer;
use schedlab_base::{CpuId, Ns};
use schedlab_kernel::History;
use schedlab_trace::PlaceReason;

/// The generations of this choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Chooser {
    /// Up to 3.17: the least load; the asking CPU wins ties.
    Load,
    /// 3.18 to 5.4: an idle CPU by its idle state, else (5.4) the first one with only SCHED_IDLE tasks, else the least
    /// load.
    IdleState,
    /// 5.5 and later: the same, but a CPU with only SCHED_IDLE tasks is taken at once, and ties go to the first.
    IdleStateFirst,
}

impl Chooser {
    /// The choice of a version. The exact releases between 4.5 and 5.5 that brought the small differences are not
    /// modelled.
    pub fn of(history: &History) -> Chooser {
        match () {
            () if history.idlest_first_tie => Chooser::IdleStateFirst,
            () if history.idlest_by_idle_state => Chooser::IdleState,
            () => Chooser::Load,
        }
    }
}

impl From<Balancer> for Chooser {
    fn from(balancer: Balancer) -> Chooser {
        match balancer {
            Balancer::V2_6 | Balancer::V3_4 => Chooser::Load,
            Balancer::V4_5 => Chooser::IdleState,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleSleep {
    /// Exit latency of its idle state, us; `None` while it polls or is between states.
    pub exit_latency_us: Option<u32>,
    /// When it went idle (`idle_stamp`); 0 if not recorded.
    pub since: Ns,
}

/// One CPU as the search reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub cpu: CpuId,
    /// Load of this instant (`weighted_cpuload`; PELT `cpu_load` in 5.5+).
    pub load: u64,
    /// Its idle state, if it is idle.
    pub sleep: Option<IdleSleep>,
    /// Whether it runs only SCHED_IDLE tasks, which yield to the new task.
    pub sched_idle: bool,
}

/// Why a CPU was chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IdlestRule {
    /// It is idle, and the fastest idle one to wake; among equals the last to have gone idle.
    Idle,
    SchedIdle,
    /// No CPU is idle; it is the least loaded.
    LeastLoaded,
    /// No CPU was read, or none qualified: the CPU for which the search is made.
    Fallback,
}

/// The chosen CPU, and the rule that chose it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlestChoice {
    pub cpu: CpuId,
    pub how: IdlestRule,
}

impl IdlestChoice {
    /// The reason of a placement by this search.
    pub const REASON: PlaceReason = PlaceReason::IdlestFork;
}

/// The search's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlestCpu {
    chooser: Chooser,
    this_cpu: CpuId,
    idle: Option<CpuId>,
    exit_latency_us: Option<u32>,
    since: Ns,
    sched_idle: Option<CpuId>,
    least: Option<(CpuId, u64)>,
}

impl IdlestCpu {
    /// `this_cpu`: the CPU for which the search is made, the forking one or the one chosen a level above.
    pub fn new(chooser: Chooser, this_cpu: CpuId) -> IdlestCpu {
        let (idle, exit_latency_us, since, sched_idle, least) = (None, None, Ns::ZERO, None, None);
        IdlestCpu { chooser, this_cpu, idle, exit_latency_us, since, sched_idle, least }
    }

    /// Reads the next CPU. Returns true when the search is over.
    pub fn probe(&mut self, c: &Candidate) -> bool {
        if self.chooser == Chooser::IdleStateFirst && c.sched_idle {
            self.sched_idle = Some(c.cpu);
            return true;
        }
        match c.sleep.filter(|_| self.chooser != Chooser::Load) {
            Some(sleep) => self.probe_idle(c.cpu, sleep),
            None if self.idle.is_some() || self.sched_idle.is_some() => {}
            None if c.sched_idle && self.chooser != Chooser::Load => self.sched_idle = Some(c.cpu),
            None => self.probe_load(c),
        }
        false
    }

    fn probe_idle(&mut self, cpu: CpuId, sleep: IdleSleep) {
        let quicker =
            sleep.exit_latency_us.is_some_and(|us| self.exit_latency_us.is_none_or(|best| us < best));
        // A CPU between idle states counts as equal to any. So one that went idle later replaces a faster one found
        // before.
        let equal = sleep.exit_latency_us.is_none() || sleep.exit_latency_us == self.exit_latency_us;
        if quicker {
            self.exit_latency_us = sleep.exit_latency_us;
        }
        if quicker || (equal && sleep.since > self.since) {
            self.since = sleep.since;
            self.idle = Some(cpu);
        }
    }

    fn probe_load(&mut self, c: &Candidate) {
        let own_tie = self.chooser != Chooser::IdleStateFirst && c.cpu == self.this_cpu;
        let less = self.least.is_none_or(|(_, least)| c.load < least || (own_tie && c.load == least));
        if less {
            self.least = Some((c.cpu, c.load));
        }
    }

    /// The choice; in 3.4 `None` if no CPU was read.
    pub fn result(&self) -> Option<IdlestChoice> {
        let at_once = self.chooser == Chooser::IdleStateFirst;
        let found = [
            (self.sched_idle.filter(|_| at_once), IdlestRule::SchedIdle),
            (self.idle, IdlestRule::Idle),
            (self.sched_idle, IdlestRule::SchedIdle),
            (self.least.map(|(cpu, _)| cpu), IdlestRule::LeastLoaded),
            (Some(self.this_cpu).filter(|_| self.chooser != Chooser::Load), IdlestRule::Fallback),
        ];
        found.into_iter().find_map(|(cpu, how)| cpu.map(|cpu| IdlestChoice { cpu, how }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    const ALL: [Chooser; 3] = [Chooser::Load, Chooser::IdleState, Chooser::IdleStateFirst];

    fn busy(cpu: u32, load: u64) -> Candidate {
        Candidate { cpu: CpuId(cpu), load, sleep: None, sched_idle: false }
    }
    fn idle(cpu: u32, exit_latency_us: impl Into<Option<u32>>, since: u64) -> Candidate {
        let sleep = Some(IdleSleep { exit_latency_us: exit_latency_us.into(), since: Ns(since) });
        Candidate { sleep, ..busy(cpu, 0) }
    }
    fn pick(chooser: Chooser, cpus: &[Candidate]) -> Option<(u32, IdlestRule)> {
        let mut s = IdlestCpu::new(chooser, CpuId(2));
        let _ = cpus.iter().any(|c| s.probe(c));
        s.result().map(|c| (c.cpu.0, c.how))
    }

    #[test]
    fn versions_have_their_choice() {
        let of = |text: &str| Chooser::of(&History::of(Version::parse(text).unwrap()));
        assert_eq!(["v3.4", "v4.5", "v6.5"].map(of), ALL);
        assert_eq!([Balancer::V3_4, Balancer::V4_5].map(Chooser::from), [ALL[0], ALL[1]]);
    }

    #[test]
    fn the_least_loaded_when_no_cpu_is_idle() {
        for c in ALL {
            assert_eq!(
                pick(c, &[busy(0, 30), busy(1, 20), busy(3, 20)]),
                Some((1, IdlestRule::LeastLoaded)),
                "{c:?}"
            );
        }
    }

    #[test]
    fn the_asking_cpu_wins_ties_in_older_kernels() {
        let tie = [busy(1, 20), busy(2, 20), busy(3, 20)];
        assert_eq!(ALL.map(|c| pick(c, &tie).map(|p| p.0)), [Some(2), Some(2), Some(1)]);
    }

    #[test]
    fn only_3_4_prefers_load_to_idleness() {
        let mut loaded = idle(1, 10, 50);
        loaded.load = 500;
        let cpus = [busy(0, 20), loaded];
        assert_eq!(pick(ALL[0], &cpus), Some((0, IdlestRule::LeastLoaded)));
        assert_eq!(pick(ALL[1], &cpus), Some((1, IdlestRule::Idle)));
        assert_eq!(pick(ALL[2], &cpus), Some((1, IdlestRule::Idle)));
    }

    #[test]
    fn the_quickest_to_wake_then_the_last_to_sleep() {
        for c in [ALL[1], ALL[2]] {
            let from = |cpus: &[Candidate]| pick(c, cpus).map(|p| p.0);
            assert_eq!(from(&[idle(0, 133, 900), idle(1, 2, 100)]), Some(1), "shallower beats later");
            assert_eq!(from(&[idle(0, 2, 100), idle(1, 133, 900)]), Some(0));
            assert_eq!(from(&[idle(0, 2, 100), idle(1, 2, 300), idle(3, 2, 200)]), Some(1));
            assert_eq!(from(&[idle(0, 2, 100), idle(1, None, 300)]), Some(1), "no state, but later");
            assert_eq!(from(&[idle(0, 2, 100), idle(1, None, 50)]), Some(0));
            assert_eq!(
                from(&[idle(0, None, 100), idle(1, 133, 50)]),
                Some(1),
                "a state beats none before it"
            );
        }
    }

    #[test]
    fn an_idle_cpu_without_state_or_stamp_is_overlooked() {
        assert_eq!(pick(ALL[1], &[idle(0, None, 0), busy(1, 5)]), Some((1, IdlestRule::LeastLoaded)));
        assert_eq!(pick(ALL[1], &[idle(0, None, 0)]), Some((2, IdlestRule::Fallback)));
    }

    #[test]
    fn a_cpu_with_sched_idle_tasks_only_beats_idle_ones_in_6_5_and_loaded_ones_in_5_4() {
        let gives_way = |cpu, load| Candidate { sched_idle: true, ..busy(cpu, load) };
        let cpus = [gives_way(1, 3), idle(3, 2, 100)];
        assert_eq!(pick(ALL[2], &cpus), Some((1, IdlestRule::SchedIdle)));
        assert_eq!(pick(ALL[1], &cpus), Some((3, IdlestRule::Idle)));
        let cpus = [busy(0, 1), gives_way(1, 3), gives_way(3, 2)];
        assert_eq!(pick(ALL[1], &cpus), Some((1, IdlestRule::SchedIdle)));
        assert_eq!(pick(ALL[0], &cpus), Some((0, IdlestRule::LeastLoaded)));
    }

    #[test]
    fn without_candidates_the_asking_cpu_is_chosen() {
        assert_eq!(
            ALL.map(|c| pick(c, &[])),
            [None, Some((2, IdlestRule::Fallback)), Some((2, IdlestRule::Fallback))]
        );
        assert_eq!(IdlestChoice::REASON.name(), "idlest_fork");
    }
}
