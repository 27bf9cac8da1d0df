//! A wakeup's choice by what a kernel's own code read of its machine: the same rules as those of a simulated wakeup,
//! without a machine of ours and without time. All reads are of one instant.

use super::affine::{AffineChoice, AffineFacts, Effects, wake_affine};
use super::prelude::Prelude;
use super::search::{Answer, Needs, Search, SearchStep, View};
use super::target::asked_domain;
use super::wide::wake_wide;
use crate::fair::oracle::fleet::timeless;
use crate::fair::oracle::queue::{gives_way, picks};
use crate::fixed::{Fixed, history_of};
use schedlab_base::{CpuId, Result};
use schedlab_board::board::Board;
use schedlab_board::decision::{AskedChoice, AskedChoiceCpu, AskedQueue, Bearing, Choice, Rules};
use schedlab_kernel::{Feature, Kernel};
use schedlab_machine::Machine;
use schedlab_trace::{AffineReason, PlaceReason};

/// Our rules for a release on a machine.
pub struct Explainer<'m> {
    fixed: Fixed<'m>,
    /// CPUs of the last-level cache of each CPU.
    llc_weight: Vec<u32>,
    /// Of the state that is asked about.
    capacities: Vec<u64>,
    /// A machine for questions about one queue.
    small: Machine,
}

impl<'m> Explainer<'m> {
    /// The rules of that kernel.
    ///
    /// # Errors
    /// As [`timeless`].
    pub fn new(machine: &'m Machine, kernel: Kernel) -> Result<Explainer<'m>> {
        let board = Board::new(machine, history_of(&kernel));
        let (fixed, _) = Fixed::new(&board, kernel, 0);
        let cpus = &machine.topology.cpus;
        let weight = |llc: u32| cpus.iter().filter(|c| c.llc == llc).count() as u32;
        let llc_weight = cpus.iter().map(|c| weight(c.llc)).collect();
        let small = timeless(&Machine::load("smp-2")?)?;
        Ok(Explainer { fixed, llc_weight, capacities: Vec::new(), small })
    }

    /// The first choice: the waker's CPU or the previous one.
    fn target(&self, s: &AskedChoice) -> (CpuId, Option<AffineReason>) {
        let history = &self.fixed.history;
        let may_use = s.allowed.as_ref().is_none_or(|allowed| allowed.contains(s.cpu));
        let factor = self.llc_weight[s.cpu.index()];
        if s.cpu == s.prev || !may_use || wake_wide(s.waker_flips, s.wakee_flips, factor, history) {
            return (s.prev, None);
        }
        let Some(level) = asked_domain(&self.fixed, s.cpu, s.prev) else { return (s.prev, None) };
        let (this, prev) = (&s.cpus[s.cpu.index()], &s.cpus[s.prev.index()]);
        let facts = AffineFacts {
            history,
            features: self.fixed.kernel.features,
            sync: s.sync,
            this_idle: this.is_idle,
            prev_idle: prev.is_idle,
            shares_cache: self.shares_cache(s.cpu, s.prev),
            this_nr_running: this.nr_running.saturating_sub(this.nr_delayed),
            this_load: this.load,
            prev_load: prev.load,
            prev_target_load: prev.load,
            this_load_per_task: 0,
            current_load: if s.sync { s.waker_load } else { 0 },
            wakee_load: s.wakee_load,
            effects: Effects::default(),
            this_capacity: this.capacity,
            prev_capacity: prev.capacity,
            imbalance_pct: self.fixed.domains.of_cpu[s.cpu][level].params.imbalance_pct.into(),
        };
        let (choice, why) = wake_affine(&facts);
        (if choice == AffineChoice::Waker { s.cpu } else { s.prev }, Some(why))
    }

    fn shares_cache(&self, a: CpuId, b: CpuId) -> bool {
        let topology = &self.fixed.machine.topology;
        topology.cpu(a).llc == topology.cpu(b).llc
    }

    fn view<'v>(&'v self, s: &'v AskedChoice, target: CpuId) -> View<'v> {
        let near = &s.cpus[target.index()];
        let asks = self.fixed.asym && self.fixed.history.capacity_scan;
        View {
            domains: &self.fixed.domains,
            allowed: s.allowed.as_ref(),
            target,
            prev: s.prev,
            waker: s.cpu,
            recent: s.recent,
            history: self.fixed.search_history(),
            features: self.fixed.kernel.features,
            target_nr_running: near.nr_running,
            has_idle_cores: near.has_idle_cores,
            nr_idle_scan: near.nr_idle_scan,
            avg_idle_ns: s.avg_idle_ns,
            wake_avg_idle_ns: s.wake_avg_idle_ns,
            avg_scan_cost_ns: s.avg_scan_cost_ns,
            packs: false,
            needs: asks.then_some(Needs { util: s.util, capacities: &self.capacities }),
            clusters: self.fixed.clusters,
        }
    }
}

/// Tunables of trees, without `sched_` before their names, that decide nothing which rules are asked, or whose effect
/// is part of a state.
const OF_NO_EFFECT: [&str; 18] = [
    "nr_migrate",
    "tunable_scaling",
    "autogroup_enabled",
    "cfs_bandwidth_slice_us",
    "rt_period_us",
    "rt_runtime_us",
    "rr_timeslice_ms",
    "preempt",
    "cgroup_mode",
    "child_runs_first",
    "idle_min_granularity_ns",
    "schedstats",
    "numa_balancing",
    "deadline_period_max_us",
    "deadline_period_min_us",
    "latency_warn_ms",
    "latency_warn_once",
    "panic_on_warn",
];
/// Folders of such tunables.
const FOLDERS: [&str; 4] = ["llc_balancing/", "numa_balancing/", "fair_server/", "ext_server/"];

impl Rules for Explainer<'_> {
    fn switch(&mut self, feature: &str, on: bool) -> bool {
        let known = Feature::parse(feature);
        known.map(|feature| self.fixed.kernel.features.switch(feature, on)).is_ok()
    }

    /// A tree's granularities are those of its number of CPUs, as ours are here.
    fn tune(&mut self, tunable: &str, value: &str) -> bool {
        let name = tunable.strip_prefix("sched_").unwrap_or(tunable);
        let (gran, own) = (&mut self.fixed.gran, &mut self.fixed.kernel.tunables);
        let of_rules = match name {
            "latency_ns" => &mut gran.latency_ns,
            "min_granularity_ns" => &mut gran.min_ns,
            "wakeup_granularity_ns" => &mut gran.wakeup_ns,
            "base_slice_ns" => &mut gran.base_ns,
            "migration_cost_ns" => &mut own.migration_cost_ns,
            _ => return OF_NO_EFFECT.contains(&name) || FOLDERS.iter().any(|f| name.starts_with(f)),
        };
        value.parse().map(|value| *of_rules = value).is_ok()
    }

    fn gives_way(&mut self, queue: &AskedQueue, bearings: &[Bearing]) -> bool {
        gives_way(&self.small, &self.fixed.kernel, self.fixed.gran, (queue, bearings))
    }

    fn pick(&mut self, queue: &AskedQueue, bearings: &[Bearing]) -> Option<usize> {
        picks(&self.small, &self.fixed.kernel, self.fixed.gran, (queue, bearings))
    }

    fn choose(&mut self, s: &AskedChoice) -> std::result::Result<Choice, &'static str> {
        let has = |feature| self.fixed.kernel.features.has(feature);
        if has(Feature::VcpuPack) {
            return Err("VCPU_PACK is on");
        }
        if has(Feature::SisIdleCfsRq) {
            return Err("SIS_IDLE_CFS_RQ is on");
        }
        let by_capacity = self.fixed.asym && self.fixed.history.capacity_scan;
        self.capacities.clear();
        self.capacities.extend(s.cpus.iter().map(|c| c.capacity).filter(|_| by_capacity));
        let (target, affine) = self.target(s);
        let view = self.view(s, target);
        let mut probes = 0;
        let mut read = |cpu: CpuId| {
            probes += 1;
            answer(&view, &s.cpus[cpu.index()], s.sched_idle)
        };
        let stacks = stacks(&view, s, &mut read);
        let (cpu, reason) = stacks.unwrap_or_else(|| search(&view, &mut read));
        Ok(Choice { cpu, reason, affine, probes })
    }
}

/// The answer of a probe.
fn answer(view: &View<'_>, cpu: &AskedChoiceCpu, wakee_is_sched_idle: bool) -> Answer {
    let only_sched_idle = cpu.nr_running > 0 && cpu.nr_running == cpu.nr_sched_idle;
    let waits = view.history.sched_idle_wakees_wait && wakee_is_sched_idle;
    match cpu.is_idle {
        true => Answer::Idle,
        false if view.history.reads_sched_idle && only_sched_idle && !waits => Answer::SchedIdle,
        false => Answer::Busy,
    }
}

/// A CPU's own kernel thread wakes a task of that CPU: the task stays there if nothing else waits (5.6). The waker
/// runs, so that neither the target nor the previous CPU, which are both this one, is idle.
fn stacks(
    view: &View<'_>,
    s: &AskedChoice,
    read: &mut dyn FnMut(CpuId) -> Answer,
) -> Option<(CpuId, PlaceReason)> {
    let cpu = s.cpu;
    let stays = s.by_cpu_thread && s.prev == cpu && s.cpus[cpu.index()].nr_running <= 1 && view.fits(cpu);
    let mut threads =
        std::iter::successors(view.thread_beside(cpu, 0), |(passed, _)| view.thread_beside(cpu, *passed));
    let alone = stays && threads.all(|(_, thread)| read(thread).is_idle());
    alone.then_some((cpu, PlaceReason::KthreadStacks))
}

/// The tests before the search, and the search.
fn search(view: &View<'_>, read: &mut dyn FnMut(CpuId) -> Answer) -> (CpuId, PlaceReason) {
    let mut prelude = Prelude::start();
    if let Ok(found) = to_the_end(|answer| prelude.step(view, answer), read) {
        return found;
    }
    let mut search = Search::start(view);
    to_the_end(|answer| search.step(view, answer), read).unwrap_or_else(|reason| {
        let by_capacity = matches!(search, Search::Capacity(_));
        prelude.fallback().filter(|_| !by_capacity).unwrap_or((view.target, reason))
    })
}

/// Answers each probe at once. The error is the reason why nothing was found.
fn to_the_end(
    mut step: impl FnMut(Option<Answer>) -> SearchStep,
    read: &mut dyn FnMut(CpuId) -> Answer,
) -> std::result::Result<(CpuId, PlaceReason), PlaceReason> {
    let mut answer = None;
    loop {
        match step(answer) {
            SearchStep::Probe(cpu) => answer = Some(read(cpu)),
            SearchStep::Found(cpu, reason) => return Ok((cpu, reason)),
            SearchStep::NotFound(reason) => return Err(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::{CpuSet, Version};

    fn state(machine: &Machine) -> AskedChoice {
        let busy = AskedChoiceCpu {
            load: 1024,
            capacity: 1024,
            nr_running: 1,
            nr_idle_scan: 8,
            ..AskedChoiceCpu::default()
        };
        let (cpu, prev, recent) = (CpuId(1), CpuId(2), CpuId(2));
        AskedChoice {
            cpus: vec![busy; machine.topology.nr_cpus()],
            cpu,
            prev,
            recent,
            // Enough that equal loads leave the task where it was (WA_BIAS).
            wakee_load: 100,
            ..AskedChoice::default()
        }
    }

    fn chosen(
        s: &AskedChoice,
        machine: &Machine,
        features: &[(&str, bool)],
    ) -> std::result::Result<Choice, &'static str> {
        let mut rules = Explainer::new(machine, Kernel::of(Version::new(6, 12))).unwrap();
        assert!(features.iter().all(|(name, on)| rules.switch(name, *on)));
        rules.choose(s)
    }

    #[test]
    fn the_rules_choose_by_what_the_code_has_read() {
        let machine = Machine::load("smp-8").unwrap();
        let mut s = state(&machine);
        let stays = chosen(&s, &machine, &[]).unwrap();
        assert_eq!((stays.cpu, stays.reason), (CpuId(2), PlaceReason::TargetBusy));
        s.cpus[2].is_idle = true;
        let idle = chosen(&s, &machine, &[]).unwrap();
        let prev_idle = Some(AffineReason::PrevIdle);
        assert_eq!((idle.cpu, idle.reason, idle.affine), (CpuId(2), PlaceReason::TargetIdle, prev_idle));
        s.cpus[2].is_idle = false;
        s.cpus[6].is_idle = true;
        let found = chosen(&s, &machine, &[]).unwrap();
        assert_eq!((found.cpu, found.reason), (CpuId(6), PlaceReason::IdleCpu));
        s.cpus[6] = AskedChoiceCpu { is_idle: false, nr_sched_idle: 1, ..s.cpus[6] };
        let gives_way = chosen(&s, &machine, &[]).unwrap();
        assert_eq!((gives_way.cpu, gives_way.reason), (CpuId(6), PlaceReason::SchedIdle));
        s.allowed = CpuSet::parse("0-5").ok();
        assert_eq!(chosen(&s, &machine, &[]).unwrap().cpu, CpuId(2));
    }

    #[test]
    fn loads_are_the_roots_and_features_the_images() {
        let machine = Machine::load("smp-8").unwrap();
        let mut s = state(&machine);
        s.cpus[1].load = 100;
        s.wakee_load = 50;
        let light = chosen(&s, &machine, &[]).unwrap();
        assert_eq!((light.cpu, light.affine), (CpuId(1), Some(AffineReason::WakerLighter)));
        let off = chosen(&s, &machine, &[("WA_WEIGHT", false)]).unwrap();
        assert_eq!((off.cpu, off.affine), (CpuId(2), Some(AffineReason::Neither)));
        assert_eq!(chosen(&s, &machine, &[("VCPU_PACK", true)]), Err("VCPU_PACK is on"));
    }
    #[test]
    fn a_cpus_own_kernel_thread_keeps_its_wakee_beside_it() {
        let machine = Machine::load("smp-8").unwrap();
        let mut s = AskedChoice { cpu: CpuId(2), by_cpu_thread: true, ..state(&machine) };
        s.cpus[6].is_idle = true;
        let stacks = chosen(&s, &machine, &[]).unwrap();
        assert_eq!((stacks.cpu, stacks.reason), (CpuId(2), PlaceReason::KthreadStacks));
        s.cpus[2].nr_running = 2;
        assert_eq!(chosen(&s, &machine, &[]).unwrap().cpu, CpuId(6), "another task waits there");
        s.cpus[2].nr_running = 1;
        s.cpu = CpuId(1);
        assert_eq!(chosen(&s, &machine, &[]).unwrap().cpu, CpuId(6), "it wakes a task of another CPU");
    }

    #[test]
    fn tunables_have_the_trees_names_and_what_decides_nothing_is_known() {
        let machine = Machine::load("smp-8").unwrap();
        let mut rules = Explainer::new(&machine, Kernel::of(Version::new(6, 1))).unwrap();
        let boots_with = rules.fixed.gran;
        assert!(rules.tune("rt_runtime_us", "900000") && rules.tune("preempt", "full"));
        assert_eq!(rules.fixed.gran, boots_with);
        for name in ["wakeup_granularity_ns", "sched_wakeup_granularity_ns"] {
            assert!(rules.tune(name, "7000000"));
            assert_eq!(rules.fixed.gran.wakeup_ns, 7_000_000, "for this number of CPUs, as the tree has it");
        }
        assert!(!rules.tune("burst_penalty_scale", "7") && !rules.switch("BURST", true));
    }
}
