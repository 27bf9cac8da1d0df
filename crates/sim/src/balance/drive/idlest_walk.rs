//! Drives the slow path of fork and exec through time: idlest group, idlest CPU in it, one level down, until no level
//! is left.
//!
//! Each CPU read costs a visit. Mirrors the descent in `select_task_rq_fair` of 3.4, 4.5 and 6.5.

use super::ring::{OtherCpus, Sight};
use crate::balance::capacity::{GroupFacts, SCALE};
use crate::balance::first_places::FirstPlaces;
use crate::balance::idlest::{
    ByLoad, ByRoom, BySpare, GroupChoice, NodeStay, SpareDomain, SpareGroup, SpareSample, next_level,
};
use crate::balance::idlest_cpu::{Candidate, IdleSleep, IdlestCpu};
use crate::balance::spare::stats::CpuSample;
use crate::balance::state::{Descent, Why, levels};
use crate::frame::Step;
use crate::remote_reads::{LineReader, visit_ns};
use crate::system::System;
use schedlab_base::{CpuId, Ns, TaskId};

impl System<'_> {
    /// Searches one level. `Err(time)`: the descent continues at that time; `Ok`: the CPU is chosen.
    pub fn walk_on(&mut self, by: CpuId, task: TaskId, walk: &mut Descent) -> Result<CpuId, u64> {
        let Some(level) = walk.level else { return Ok(self.nearest_allowed(task, walk.at)) };
        let mut cost = 0;
        let weight = self.fixed.domains.of_cpu[walk.at][level].cpus.len() as u32;
        let group = match self.idlest_group(by, task, walk, level, &mut cost) {
            GroupChoice::Stay(_) => {
                walk.level = next_level(&levels(&self.fixed.domains, walk.at, walk.why), weight);
                return Err(self.now + cost);
            }
            GroupChoice::Go(group) => group,
        };
        if let Some(cpu) = self.idlest_cpu(by, task, walk.at, group, &mut cost) {
            walk.at = cpu;
        }
        walk.level = next_level(&levels(&self.fixed.domains, walk.at, walk.why), weight);
        Err(self.now + cost)
    }

    /// The CPU itself if the task may run there, else the lowest CPU that it may use.
    fn nearest_allowed(&self, task: TaskId, cpu: CpuId) -> CpuId {
        let t = &self.tasks[task];
        if t.may_run_on(cpu) { cpu } else { t.allowed.as_ref().and_then(|a| a.lowest()).unwrap_or(cpu) }
    }

    fn visit(&mut self, by: CpuId, cpu: CpuId) -> u64 {
        let costs = &self.fixed.machine.costs;
        costs.fork_visit_ns + visit_ns(costs, self.remote_reads.read(by, cpu))
    }

    fn idlest_group(
        &mut self,
        by: CpuId,
        task: TaskId,
        walk: &Descent,
        level: usize,
        cost: &mut u64,
    ) -> GroupChoice {
        let at = walk.at;
        let itself = (walk.why == Why::Exec).then_some(task);
        let by_spare = self.fixed.history.idlest_by_spare;
        let params = self.fixed.domains.of_cpu[at][level].params;
        let domain = self.spare_domain(task, at, level);
        if by_spare && walk.why == Why::Fork && self.reads_all(task) && !params.asym_capacity {
            return self.idlest_of_all(by, walk, level, &domain, cost);
        }
        let (mut loads, mut spares) = (ByLoad::default(), BySpare::default());
        let mut rooms = itself.filter(|_| self.fixed.history.exec_by_capacity).map(|_| ByRoom::default());
        for g in 0..self.fixed.domains.of_cpu[at][level].groups.len() {
            let index = self.fixed.domains.of_cpu[at][level].groups[g];
            let nr = self.fixed.domains.groups[index as usize].cpus.len();
            let local = g == 0 || self.fixed.overlaps(index, at, level);
            let cpus = &self.fixed.domains.groups[index as usize].cpus;
            if !cpus.iter().any(|c| self.tasks[task].may_run_on(*c)) {
                continue;
            }
            let capacity = self.group_capacity(index);
            for i in 0..nr {
                let cpu = self.fixed.domains.groups[index as usize].cpus[i];
                if self.fixed.history.idlest_counts_allowed && !self.tasks[task].may_run_on(cpu) {
                    continue;
                }
                *cost += self.visit(by, cpu);
                if let Some(rooms) = &mut rooms {
                    rooms.add(self.room_without(cpu, task));
                }
                let idx = params.forkexec_idx;
                match by_spare {
                    true => spares.add(&self.spare_sample(cpu, itself)),
                    false if local => loads.add(self.source_load(cpu, idx)),
                    false => loads.add(self.target_load(cpu, idx)),
                }
            }
            if let Some(rooms) = &mut rooms {
                rooms.close(index, local);
            }
            if by_spare {
                let imbalanced = self.balance.imbalanced[index as usize];
                let misfit = params.asym_capacity && itself.is_some_and(|t| !self.fits_group(t, index));
                let max_capacity =
                    if params.asym_capacity { self.kinds(index, 0).max_capacity } else { SCALE };
                let group = SpareGroup { capacity, weight: nr as u32, imbalanced, misfit, max_capacity };
                spares.close(index, &group, &domain, local);
            } else {
                loads.close(index, capacity, local);
            }
        }
        let util = self.fair.entities[self.tasks[task].entity].avg.util_avg;
        if let Some(choice) = rooms.and_then(|rooms| rooms.choose(util, params.imbalance_pct)) {
            return choice;
        }
        if by_spare { spares.choose(&domain) } else { loads.choose(params.imbalance_pct) }
    }

    /// Whether the search reads every CPU, and each counts with its whole capacity.
    fn reads_all(&self, task: TaskId) -> bool {
        self.tasks[task].allowed.is_none() && !self.rt.shared.any
    }

    /// The capacity of `cpu` that is free if `task` is not there.
    fn room_without(&self, cpu: CpuId, task: TaskId) -> u64 {
        let is_there = self.tasks[task].cpu == cpu;
        let used = if is_there { self.util_without(cpu, task) } else { self.cfs_util(cpu) };
        self.fixed.cpu_capacity[cpu].saturating_sub(used)
    }

    /// The facts about a domain of `at` that decide where `task` goes.
    fn spare_domain(&self, task: TaskId, at: CpuId, level: usize) -> SpareDomain {
        let domain = &self.fixed.domains.of_cpu[at][level];
        let local = &self.fixed.domains.groups[domain.groups[0] as usize].cpus;
        let allowed = local.iter().filter(|c| self.tasks[task].may_run_on(**c)).count() as u32;
        let span = domain.cpus.len() as u32;
        SpareDomain {
            imbalance_pct: domain.params.imbalance_pct,
            numa: domain.params.numa,
            stays: NodeStay::of(&self.fixed.history, span, domain.imb_numa_nr, allowed),
        }
    }

    /// The facts about a CPU. If `itself`, a running task that looks for another CPU, is on it, they exclude that task
    /// (`cpu_load_without`, `idle_cpu_without`).
    fn spare_sample(&mut self, cpu: CpuId, itself: Option<TaskId>) -> SpareSample {
        let load = itself.filter(|t| self.tasks[*t].cpu == cpu).map(|t| (t, self.task_h_load(t)));
        let avg = &self.fair.queues[self.root(cpu)].avg;
        let all = SpareSample {
            load: avg.load_avg,
            util: self.cfs_util(cpu),
            runnable: avg.runnable_avg,
            nr_running: self.rqs.nr_running(cpu),
            idle: self.rqs.is_idle(cpu),
        };
        let Some((task, load)) = load else { return all };
        let own = &self.fair.entities[self.tasks[task].entity].avg;
        let nr_running = all.nr_running.saturating_sub(1);
        SpareSample {
            load: all.load.saturating_sub(load),
            util: self.util_without(cpu, task),
            runnable: all.runnable.saturating_sub(own.runnable_avg),
            nr_running,
            idle: nr_running == 0,
        }
    }

    fn idlest_cpu(
        &mut self,
        by: CpuId,
        task: TaskId,
        at: CpuId,
        group: u32,
        cost: &mut u64,
    ) -> Option<CpuId> {
        let cpus = &self.fixed.domains.groups[group as usize].cpus;
        if let ([only], true) = (&cpus[..], self.fixed.history.only_cpu_unread) {
            return Some(*only);
        }
        let mut search = IdlestCpu::new(self.fixed.chooser, at);
        for i in 0..self.fixed.domains.groups[group as usize].cpus.len() {
            let cpu = self.fixed.domains.groups[group as usize].cpus[i];
            if !self.tasks[task].may_run_on(cpu) {
                continue;
            }
            *cost += self.visit(by, cpu);
            let candidate = Candidate {
                cpu,
                load: self.load_now(cpu),
                sleep: self.rqs.is_idle(cpu).then(|| self.sleep_of(cpu)),
                sched_idle: self.yields_to(&self.fixed.history, cpu, task),
            };
            if search.probe(&candidate) {
                break;
            }
        }
        search.result().map(|c| c.cpu)
    }

    fn sleep_of(&self, cpu: CpuId) -> IdleSleep {
        let c = &self.cpus[cpu];
        let exit_latency_us = match c.task.step {
            Step::Halted { state } => {
                self.fixed.machine.idle_states.get(usize::from(state)).map(|s| (s.exit.0 / 1000) as u32)
            }
            _ => None,
        };
        IdleSleep { exit_latency_us, since: Ns(c.idle_stamp) }
    }
}

impl System<'_> {
    /// The choice for a new task that may run anywhere. While tasks that are there from the start are placed, it reads
    /// only the groups that may have changed; no time passes then.
    fn idlest_of_all(
        &mut self,
        by: CpuId,
        walk: &Descent,
        level: usize,
        domain: &SpareDomain,
        cost: &mut u64,
    ) -> GroupChoice {
        let is_first = walk.at == CpuId(0) && level + 1 == self.fixed.domains.of_cpu[CpuId(0)].len();
        let mut places = if is_first { self.balance.first_places.take() } else { None };
        let mut groups = self.sight().groups(by, walk, level, domain);
        match &mut places {
            Some(places) if places.is_read() => groups.read_changed(places),
            Some(unread) => match FirstPlaces::of(groups.cpus(), groups.state.nr_cpus()) {
                Some(read) => {
                    **unread = read;
                    groups.read_all(|place, rank| unread.rank(place, rank));
                }
                None => {
                    groups.read_all(|_, _| {});
                    places = None;
                }
            },
            None => groups.read_all(|_, _| {}),
        }
        *cost += groups.cost;
        let choice = groups.spares.choose(domain);
        if is_first {
            self.balance.first_places = places;
        }
        choice
    }
}

/// The groups of a domain as the search for the idlest one reads them. It borrows the state of other CPUs once for all
/// groups: on a machine of a thousand CPUs a new task reads all of them.
struct GroupReader<'s, 'm> {
    state: OtherCpus<'s, 'm>,
    lines: LineReader<'s>,
    ring: &'s [u32],
    domain: &'s SpareDomain,
    at: CpuId,
    level: usize,
    spares: BySpare,
    /// Time spent, ns.
    cost: u64,
}

impl<'s, 'm> Sight<'s, 'm> {
    fn groups(self, by: CpuId, walk: &Descent, level: usize, domain: &'s SpareDomain) -> GroupReader<'s, 'm> {
        GroupReader {
            state: self.state,
            lines: self.lines.by(by),
            ring: &self.state.fixed.domains.of_cpu[walk.at][level].groups,
            domain,
            at: walk.at,
            level,
            spares: BySpare::default(),
            cost: 0,
        }
    }
}

impl<'s> GroupReader<'s, '_> {
    /// The CPUs of each group.
    fn cpus(&self) -> impl Iterator<Item = &'s [CpuId]> + use<'s> {
        let (ring, fixed) = (self.ring, self.state.fixed);
        ring.iter().map(move |index| fixed.group_cpus.of(*index))
    }

    /// Reads the group at a place of the ring, and returns its rank.
    #[inline]
    fn read(&mut self, place: usize) -> u64 {
        let (index, fixed) = (self.ring[place], self.state.fixed);
        let (cpus, costs) = (fixed.group_cpus.of(index), &fixed.machine.costs);
        for &cpu in cpus {
            self.cost += costs.fork_visit_ns + self.lines.visit_ns(costs, cpu);
            let CpuSample { load, util, runnable, nr_running, idle, .. } = self.state.sample(cpu);
            self.spares.add(&SpareSample { load, util, runnable, nr_running, idle });
        }
        let GroupFacts { capacity, weight, imbalanced, .. } = self.state.group(index, cpus.len());
        let group = SpareGroup { capacity, weight, imbalanced, misfit: false, max_capacity: SCALE };
        let local = place == 0 || fixed.overlaps(index, self.at, self.level);
        self.spares.close(index, &group, self.domain, local)
    }

    fn read_all(&mut self, mut ranks: impl FnMut(usize, u64)) {
        for place in 0..self.ring.len() {
            ranks(place, self.read(place));
        }
    }

    /// Reads the groups that got a task since the last search, then the local one and the idlest of the others.
    fn read_changed(&mut self, places: &mut FirstPlaces) {
        while let Some(place) = places.next_changed() {
            places.rank(place, self.read(place));
        }
        self.spares = BySpare::default();
        self.read(0);
        if let Some(place) = places.idlest() {
            self.read(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::NewTask;
    use crate::upkeep_tests::{born, new_hog};
    use schedlab_base::CpuSet;
    use schedlab_kernel::{Attr, Kernel, Policy};
    use schedlab_machine::Machine;
    use schedlab_trace::Discard;

    #[test]
    fn a_new_task_goes_to_a_cpu_with_sched_idle_tasks_only_before_an_idle_one_since_5_7() {
        for (profile, wants) in [("v5.4", 0), ("v6.5", 1), ("v7.3", 1)] {
            let machine = Machine::load("nodes-2x4").expect("a machine");
            let mut sink = Discard;
            let mut sys = System::new(&machine, Kernel::profile(profile).expect("a profile"), 1, &mut sink);
            let runs = born(&mut sys, CpuId(1));
            sys.rqs.add_sched_idle(CpuId(1), 1);
            sys.tasks[runs].attr.policy = Policy::Idle;
            // Two CPUs that have just become idle, and one with a SCHED_IDLE task.
            sys.cpus[CpuId(0)].idle_stamp = 10;
            let group = sys.fixed.domains.of_cpu[CpuId(0)].last().expect("domains").groups[0];
            let new = born(&mut sys, CpuId(5));
            let found = sys.idlest_cpu(CpuId(5), new, CpuId(0), group, &mut 0);
            assert_eq!(found, Some(CpuId(wants)), "{profile}");
        }
    }

    #[test]
    fn a_new_task_stays_on_its_node_by_the_cpus_that_it_may_use_since_6_0() {
        let machine = Machine::load("spr-2x56").expect("a machine");
        let stays = |profile: &str, allowed: &str| {
            let mut sink = Discard;
            let mut sys = System::new(&machine, Kernel::profile(profile).expect("a profile"), 1, &mut sink);
            let task = born(&mut sys, CpuId(0));
            sys.tasks[task].allowed = Some(CpuSet::parse(allowed).expect("CPUs"));
            let top = sys.fixed.domains.of_cpu[CpuId(0)].len() - 1;
            sys.spare_domain(task, CpuId(0), top).stays
        };
        assert_eq!(stays("v6.12", "0-2,56-60"), NodeStay::NearlyAlikeBelow(3), "three CPUs of node 0");
        assert_eq!(stays("v6.12", "0-223"), NodeStay::NearlyAlikeBelow(14));
        assert_eq!(
            stays("v5.19", "0-2,56-60"),
            NodeStay::Below(28),
            "imb_numa_nr was a quarter of the node's"
        );
        assert_eq!(stays("v5.15", "0-2,56-60"), NodeStay::Below(56));
        assert_eq!(stays("v5.10", "0-2,56-60"), NodeStay::WhileIdle);
    }

    /// EuroSys 2016, "a decade of wasted cores": nodes two hops apart that are in all groups.
    #[test]
    fn before_4_13_a_new_task_never_leaves_a_node_that_is_in_all_groups() {
        let line = "packages = 4\nnodes = 4\nllcs = 4\ncores = 8\n\
                    distances = [[10, 20, 30, 40], [20, 10, 20, 30], [30, 20, 10, 20], [40, 30, 20, 10]]";
        let head =
            "name = 'line'\nabout = 'four nodes in a line'\nsource = 'made'\nlike = 'smp-8'\n[topology]\n";
        let machine = Machine::parse("line", &format!("{head}{line}")).expect("a machine");
        for (profile, leaves) in [("v4.5", false), ("v4.14", true)] {
            let mut sink = Discard;
            let mut sys = System::new(&machine, Kernel::profile(profile).expect("a profile"), 1, &mut sink);
            let new = born(&mut sys, CpuId(2));
            // CPUs 2 and 3, node 1, are busy; the two groups of the domain of all nodes share node 1.
            let root = sys.root(CpuId(2));
            (sys.fair.queues[root].avg.load_avg, sys.fair.queues[root].runnable.load_avg) = (4096, 4096);
            let level = sys.fixed.domains.of_cpu[CpuId(2)].len() - 1;
            let walk = Descent { at: CpuId(2), level: Some(level), why: Why::Fork };
            let choice = sys.idlest_group(CpuId(2), new, &walk, level, &mut 0);
            assert_eq!(matches!(choice, GroupChoice::Go(_)), leaves, "{profile}: {choice:?}");
        }
    }

    /// Tasks of every kind are placed one after another, with and without what earlier searches have read.
    #[test]
    fn first_tasks_go_where_a_search_of_all_groups_puts_them() {
        for (machine, profile) in [
            ("smp-8", "v6.5"),
            ("smp-64", "v6.12"),
            ("fb-2x24-smt", "v6.1"),
            ("nodes-2x4", "v5.10"),
            ("smp-8", "v7.3"),
        ] {
            let machine = Machine::load(machine).expect("a machine");
            let kernel = Kernel::profile(profile).expect("a profile");
            let place = |remembers: bool| {
                let mut sink = Discard;
                let mut sys = System::new(&machine, kernel, 1, &mut sink);
                sys.balance.first_places = remembers.then(Box::default);
                let placed: Vec<CpuId> = (0..200u32)
                    .map(|n| {
                        let nice = if n % 5 == 0 { -10 } else { (n % 7) as i8 };
                        let rt = n > 150 && n % 10 == 0;
                        let policy = if rt { Policy::Fifo } else { Policy::Other };
                        let rt_priority = if rt { 10 } else { 0 };
                        let attr = Attr { policy, nice, rt_priority, ..Attr::default() };
                        let allowed = (n % 11 == 3).then(|| CpuSet::parse("1-3").expect("CPUs"));
                        let task = crate::run::add(&mut sys, NewTask { attr, allowed, ..new_hog() });
                        sys.start_task(task);
                        sys.tasks[task].cpu
                    })
                    .collect();
                let lines: Vec<_> = sys.cpus.ids().map(|cpu| sys.remote_reads.read(CpuId(0), cpu)).collect();
                let kept = sys.balance.first_places.is_some_and(|places| places.is_read());
                (placed, lines, kept)
            };
            let ((by_all, read, _), (by_kept, read_too, kept)) = (place(false), place(true));
            assert_eq!(by_kept, by_all, "{} {profile}", machine.name);
            assert_eq!(read_too, read, "{} {profile}: lines that CPU 0 has", machine.name);
            assert!(kept, "{} {profile}: no search remembered anything", machine.name);
        }
    }
}
