//! The loop over groups that nearly every pass takes: after the local group, all groups of at most 16 CPUs.
//!
//! On a machine whose cores share one cache a group is one CPU, many million of them in a run, and a pass pauses
//! whenever another CPU acts. So the loop continues a pass in place, without copying it; it borrows the state of other
//! CPUs once for many groups; and it selects instead of branching, since neither the type nor the load of the next
//! group can be predicted. [`groups`](super::groups) has the loop for all other cases: the local group, groups too
//! large to be read at one instant, domains whose CPUs differ in capacity or in threads, passes that D001's shortcuts
//! may end or that share statistics, and every group once a real-time task exists.

use crate::balance::capacity::{GroupFacts, SCALE};
use crate::balance::era::PassKind;
use crate::balance::spare::DomainFacts;
use crate::balance::spare::busiest::{DomainStats, Totals};
use crate::balance::spare::stats::{CpuSample, Tally};
use crate::balance::state::{Groups, Pass, PassStage};
use crate::cpu::Cpu;
use crate::fair::CfsRq;
use crate::fixed::Fixed;
use crate::remote_reads::RemoteReads;
use crate::system::System;
use crate::util_est::cpu_util;
use schedlab_base::{Arena, CpuId};
use schedlab_kernel::Feature;

/// Number of CPUs read before simulated time advances, unless the tunable says otherwise. A core is read at one
/// instant. If a whole node were read at one instant, its state would be some 10 us too old, and newidle passes, which
/// trigger each other through the overload flag, would be half as many.
const AT_ONCE: usize = 16;

/// How a pass continues after reading groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterReading {
    /// Another CPU acts first.
    Pause,
    Complete,
    /// With the next group, which the other loop must read.
    Group,
}

/// Other CPUs as a pass sees them: their cache lines, and their state.
pub(super) struct Sight<'s, 'm> {
    pub(super) lines: &'s mut RemoteReads,
    pub(super) state: OtherCpus<'s, 'm>,
    horizon: u64,
}

/// The state of other CPUs that a pass reads, by CPU.
#[derive(Clone, Copy)]
pub(super) struct OtherCpus<'s, 'm> {
    pub(super) fixed: &'s Fixed<'m>,
    /// Their root queues.
    queues: &'s [CfsRq],
    nr_running: &'s [u32],
    idle: &'s [bool],
    capacity: &'s [u64],
    misfit: &'s [u64],
    /// By group.
    imbalanced: &'s [bool],
    /// All bits if estimates of utilisation count, else none.
    estimates: u64,
    delayed_set_apart: bool,
}

impl<'m> System<'m> {
    /// Whether there has been no real-time task yet and passes share no statistics (ILB_SHARE).
    #[inline]
    pub(super) fn plain_groups(&self) -> bool {
        !self.rt.shared.any && !self.has(Feature::IlbShare)
    }

    #[inline]
    pub(super) fn sight(&mut self) -> Sight<'_, 'm> {
        self.cpus_and_sight().1
    }

    #[inline]
    fn cpus_and_sight(&mut self) -> (&mut Arena<CpuId, Cpu>, Sight<'_, 'm>) {
        let System { cpus, fixed, remote_reads, fair, rqs, balance, stepping, .. } = self;
        let (misfit, imbalanced) = (&*balance.misfit, &*balance.imbalanced);
        let (nr_running, idle) = rqs.by_cpu();
        let (queues, capacity) = (&*fair.queues, &*fixed.cpu_capacity);
        let estimates = if fixed.kernel.features.has(Feature::UtilEst) { u64::MAX } else { 0 };
        let delayed_set_apart = fixed.history.delayed_set_apart;
        let state = OtherCpus {
            fixed,
            queues,
            nr_running,
            idle,
            capacity,
            misfit,
            imbalanced,
            estimates,
            delayed_set_apart,
        };
        (cpus, Sight { lines: remote_reads, state, horizon: stepping.horizon })
    }

    /// Continues a pass of `by` at this instant if it is in the loop over groups. Returns the time it has reached, and
    /// whether it must pause there.
    #[inline]
    pub(super) fn read_on(&mut self, by: CpuId, pass: impl FnOnce(&mut Cpu) -> &mut Pass) -> (u64, bool) {
        let (now, plain) = (self.now, self.plain_groups());
        let (cpus, mut sight) = self.cpus_and_sight();
        let pass = pass(&mut cpus[by]);
        if !plain || !matches!(pass.stage, PassStage::Groups(_)) {
            return (now, false);
        }
        let mut at = now;
        let next = sight.read_ring(by, pass, &mut at);
        self.accounts.stats.stats_ns += at - now;
        (at, next == AfterReading::Pause)
    }
}

impl Sight<'_, '_> {
    #[inline]
    pub(super) fn sample(&self, cpu: CpuId) -> CpuSample {
        self.state.sample(cpu)
    }

    /// Reads groups after the local one.
    pub(super) fn read_ring(&mut self, by: CpuId, pass: &mut Pass, at: &mut u64) -> AfterReading {
        let Pass { stage, dst, level, trigger, visited, groups_read, again, .. } = pass;
        let PassStage::Groups(Groups { group, read: 0, seen: Some((seen, scan)), .. }) = stage else {
            return AfterReading::Group;
        };
        if *again || !scan.is_complete() {
            return AfterReading::Group;
        }
        let fixed = self.state.fixed;
        let facts = &fixed.spare_facts[*dst][*level];
        if !facts.alike {
            return AfterReading::Group;
        }
        let ring = &fixed.domains.of_cpu[*dst][*level].groups;
        let Some(ring) = ring.get(*group..) else { return AfterReading::Complete };
        let (nr, nr_cpus, too_large) = if facts.are_cpus && fixed.whole_cpus {
            let nr = self.read_cpus(by, seen, facts, ring, at);
            (nr, nr, false)
        } else {
            let to_idle = facts.groups_are_cores && facts.gives_to_idle(PassKind::from(*trigger));
            self.read_groups((by, to_idle), seen, facts, ring, at)
        };
        *group += nr;
        *visited = visited.saturating_add(u16::try_from(nr_cpus).unwrap_or(u16::MAX));
        *groups_read = groups_read.saturating_add(u16::try_from(nr).unwrap_or(u16::MAX));
        match nr == ring.len() {
            true => AfterReading::Complete,
            false if too_large => AfterReading::Group,
            false => AfterReading::Pause,
        }
    }

    /// Reads groups before time must pass, and before one that is too large. Returns how many, the number of their
    /// CPUs, and whether such a group is next. `to_idle`: see [`DomainStats::consider_sums`].
    fn read_groups(
        &mut self,
        (by, to_idle): (CpuId, bool),
        seen: &mut DomainStats,
        facts: &DomainFacts,
        ring: &[u32],
        at: &mut u64,
    ) -> (usize, usize, bool) {
        let (state, fixed) = (self.state.of_one_length(), self.state.fixed);
        let (costs, mut lines, batch) = (&fixed.machine.costs, self.lines.by(by), fixed.at_once());
        let (mut now, mut totals, mut bar) = (*at, Totals::default(), seen.bar());
        let (mut nr, mut nr_cpus, mut too_large, mut from) = (0, 0, false, 0);
        for &index in ring {
            let cpus = fixed.group_cpus.of(index);
            if cpus.len() > batch {
                too_large = true;
                break;
            }
            let mut sums = Tally::default();
            for &cpu in cpus {
                now += lines.visit_ns(costs, cpu);
                sums.add(&state.sample(cpu));
            }
            let capacity = fixed.group_capacity[index as usize];
            let (tasks, fair, load) = (sums.nr_running(), sums.h_nr_running(), || sums.avg_load(capacity));
            if bar.reached(cpus.len() as u32, tasks, fair, load) {
                // A copy, so that the loop has its sums in registers.
                let (sums, of_group) = ({ sums }, state.group(index, cpus.len()));
                seen.pass_over(nr - from);
                seen.consider_sums(facts, index, &sums, &of_group, to_idle);
                (bar, from) = (seen.bar(), nr + 1);
            }
            totals.add(&sums, capacity);
            (nr, nr_cpus) = (nr + 1, nr_cpus + cpus.len());
            if now >= self.horizon {
                break;
            }
        }
        seen.pass_over(nr - from);
        seen.add_totals(&totals);
        *at = now;
        (nr, nr_cpus, too_large)
    }

    /// Reads groups that are one CPU of whole capacity each; returns how many were read before time must pass. A pass
    /// on a machine with one large cache and no threads reads nothing else.
    fn read_cpus(
        &mut self,
        by: CpuId,
        seen: &mut DomainStats,
        facts: &DomainFacts,
        ring: &[u32],
        at: &mut u64,
    ) -> usize {
        let OtherCpus { fixed, nr_running, estimates, delayed_set_apart, .. } = self.state;
        let queues = &self.state.queues[..nr_running.len()];
        let (costs, mut lines, mut bar) = (&fixed.machine.costs, self.lines.by(by), seen.bar());
        let (mut now, mut totals, mut nr, mut from) = (*at, Totals::default(), 0, 0);
        for &index in ring {
            let cpu = fixed.group_cpus.first(index);
            debug_assert!(fixed.group_cpus.of(index).len() == 1, "group {index} of {by} is more than {cpu}");
            now += lines.visit_ns(costs, cpu);
            let (tasks, q) = (nr_running[cpu.index()], &queues[cpu.index()]);
            let (fair, load) = (q.balanced(delayed_set_apart), q.avg.load_avg);
            if bar.reached(1, tasks, fair, || load) {
                seen.pass_over(nr - from);
                self.state.consider(seen, facts, index, cpu);
                (bar, from) = (seen.bar(), nr + 1);
            }
            totals.add_cpu(load, cpu_util(q.avg.util_avg, q.util_est & estimates, SCALE), tasks);
            nr += 1;
            if now >= self.horizon {
                break;
            }
        }
        totals.add_capacity(SCALE * nr as u64);
        seen.pass_over(nr - from);
        seen.add_totals(&totals);
        *at = now;
        nr
    }
}

impl<'s, 'm> OtherCpus<'s, 'm> {
    /// The same with all of its slices cut to the number of CPUs: a loop then checks a CPU's number once.
    #[inline(always)]
    pub(super) fn of_one_length(&self) -> OtherCpus<'s, 'm> {
        let n = self.nr_running.len();
        OtherCpus {
            queues: &self.queues[..n],
            idle: &self.idle[..n],
            capacity: &self.capacity[..n],
            misfit: &self.misfit[..n],
            ..*self
        }
    }

    pub(super) fn nr_cpus(&self) -> usize {
        self.nr_running.len()
    }

    #[inline(always)]
    pub(super) fn sample(&self, cpu: CpuId) -> CpuSample {
        let at = cpu.index();
        let nr_running = self.nr_running[at];
        let q = &self.queues[at];
        CpuSample {
            cpu,
            load: q.avg.load_avg,
            util: cpu_util(q.avg.util_avg, q.util_est & self.estimates, self.capacity[at]),
            runnable: q.avg.runnable_avg,
            nr_running,
            h_nr_running: q.balanced(self.delayed_set_apart),
            idle: self.idle[at],
            misfit: self.misfit[at],
        }
    }

    /// Considers a group of one CPU. A function of its own, so that the loop has its state in registers.
    #[inline(never)]
    fn consider(&self, seen: &mut DomainStats, facts: &DomainFacts, index: u32, cpu: CpuId) {
        seen.consider_cpu(facts, index, &self.sample(cpu), self.imbalanced[index as usize]);
    }

    /// The facts about a group without real-time tasks.
    #[inline]
    pub(super) fn group(&self, index: u32, weight: usize) -> GroupFacts {
        GroupFacts {
            imbalanced: self.imbalanced[index as usize],
            ..GroupFacts::of(weight as u32, self.fixed.group_capacity[index as usize])
        }
    }
}

impl Fixed<'_> {
    /// Number of CPUs that a pass reads at one instant.
    #[inline]
    pub(super) fn at_once(&self) -> usize {
        match self.kernel.tunables.probe_batch {
            0 => AT_ONCE,
            n => n as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;
    use schedlab_trace::{BalanceTrigger, Discard};

    /// The groups of CPU 0's only domain are cores of two threads, but for its own.
    const UNEVEN: &str = "name = 'uneven'\nabout = 'one core has one thread'\nsource = 'made'\nlike = 'smp-8'\n\
                          [topology]\ncores = [1, 3]\nthreads_per_core = [1, 2]\nllcs = [2]";

    const TRIGGERS: [BalanceTrigger; 3] =
        [BalanceTrigger::Newidle, BalanceTrigger::Busy, BalanceTrigger::Idle];

    /// Gives every CPU another load; `draw` determines the loads, and which CPUs have read each line.
    fn fill(sys: &mut System<'_>, draw: u64) {
        let stream = sys.fixed.stream.purpose("test").number(draw);
        for cpu in (0..sys.nr_cpus()).map(CpuId::from) {
            let own = stream.number(cpu.0.into());
            let (nr, root) = (own.below(0, 4) as u32, sys.root(cpu));
            let q = &mut sys.fair.queues[root];
            (q.h_nr_queued, q.h_nr_running) = (nr, nr.saturating_sub(own.below(1, 2) as u32));
            q.avg.load_avg = own.below(2, 4096);
            (q.avg.runnable_avg, q.avg.util_avg) = (own.below(3, 3000), own.below(4, 1025));
            q.util_est = own.below(5, 1025);
            sys.rqs.set(cpu, nr, 0, nr == 0 && own.below(6, 2) == 0);
            if own.below(7, 2) == 0 {
                sys.remote_reads.read(CpuId(0), cpu);
            }
        }
        // Pauses at every group, at some, or at none.
        sys.stepping.horizon = [0, 300, 2000, u64::MAX][draw as usize % 4];
        sys.fixed.kernel.tunables.probe_batch = [0, 1, 3][draw as usize / 4 % 3];
        let flags = stream.purpose("flags");
        for (at, flag) in sys.balance.imbalanced.iter_mut().enumerate() {
            *flag = flags.below(at as u64, 8) == 0;
        }
    }

    /// The statistics of a whole pass by CPU 0, its time, the CPUs and groups read, and when it paused.
    fn pass(sys: &mut System<'_>, level: usize, trigger: BalanceTrigger, by_ring: bool) -> String {
        let (by, mut at, mut turns) = (CpuId(0), 0, 0);
        let (mut p, horizon) = (sys.begin_pass(by, level, trigger), sys.stepping.horizon);
        p.stage = PassStage::Groups(Groups::new());
        let facts = sys.fixed.spare_facts[by][level];
        let mut pauses = Vec::new();
        loop {
            turns += 1;
            assert!(turns < 1000, "no end");
            let next = if by_ring { sys.sight().read_ring(by, &mut p, &mut at) } else { AfterReading::Group };
            let next =
                if next == AfterReading::Group { sys.read_group(by, &mut p, &facts, &mut at) } else { next };
            match next {
                AfterReading::Complete => break,
                AfterReading::Pause => {
                    pauses.push(at);
                    sys.stepping.horizon = at + horizon;
                }
                AfterReading::Group => {}
            }
        }
        sys.stepping.horizon = horizon;
        let PassStage::Groups(g) = p.stage else { return "another stage".to_owned() };
        format!("{:?} {} at {at}, {} CPUs, {} groups, {pauses:?}", g.seen, g.group, p.visited, p.groups_read)
    }

    #[test]
    fn both_loops_over_groups_see_the_same() {
        let (mut busiest, mut paused, mut went_on) = (0, 0, 0);
        for (name, profile) in [
            ("smp-8", "v5.10"),
            ("smp-8", "v6.12"),
            ("fb-2x24-smt", "v6.6"),
            ("nodes-2x4", "v6.18"),
            (UNEVEN, "v6.5"),
            (UNEVEN, "v6.6"),
        ] {
            let machine = if name == UNEVEN { Machine::parse("uneven", name) } else { Machine::load(name) };
            let machine = machine.expect("a machine");
            let kernel = Kernel::profile(profile).expect("a profile");
            for draw in 0..60 {
                let (mut a, mut b) = (Discard, Discard);
                let mut by_ring = System::new(&machine, kernel, 1, &mut a);
                let mut other = System::new(&machine, kernel, 1, &mut b);
                fill(&mut by_ring, draw);
                fill(&mut other, draw);
                for level in 0..other.fixed.domains.of_cpu[CpuId(0)].len() {
                    let trigger = TRIGGERS[draw as usize % 3];
                    let seen = pass(&mut by_ring, level, trigger, true);
                    assert_eq!(
                        seen,
                        pass(&mut other, level, trigger, false),
                        "{name} {profile}, level {level}, draw {draw}"
                    );
                    busiest += u32::from(seen.contains("busiest: Some"));
                    paused += u32::from(!seen.ends_with("[]"));
                    went_on += u32::from(seen.ends_with("[]"));
                }
            }
        }
        assert!(busiest > 100 && paused > 20 && went_on > 20, "{busiest}, {paused}, {went_on}");
    }
}
