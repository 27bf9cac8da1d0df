//! Reads and writes the state that the CPUs of a domain share, with the cost, ns.

use crate::balance::shared::Gathered;
use crate::balance::spare::newidle_scan::{DomainSpan, SharedHints};
use crate::balance::spare::stats::GroupStats;
use crate::balance::state::Pass;
use crate::remote_reads::{LineRead, probe_ns};
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_machine::Distance;
use schedlab_trace::BalanceTrigger;
impl System<'_> {
    /// Cost of fetching a line that `writer` wrote.
    fn fetch_ns(&self, by: CpuId, writer: CpuId) -> u64 {
        let read = match self.remote_reads.distance(by, writer) {
            Distance::Own => LineRead::Hit,
            Distance::Smt | Distance::Llc => LineRead::MissNear,
            Distance::Node | Distance::Remote => LineRead::MissFar,
        };
        probe_ns(&self.fixed.machine.costs, read)
    }

    /// The shared hints of the domain of a pass for `dst`, if it has and uses them, and the cost of reading them, ns.
    pub fn read_hints(
        &mut self,
        by: CpuId,
        dst: CpuId,
        level: usize,
        trigger: BalanceTrigger,
    ) -> (Option<SharedHints>, u64) {
        let obeys = self.has(Feature::IlbUtil) || self.has(Feature::IlbFast);
        if trigger != BalanceTrigger::Newidle || !obeys {
            return (None, 0);
        }
        let Some(at) = self.fixed.shared_of[dst][level] else { return (None, 0) };
        let (version, writer, hints) = {
            let s = &self.balance.shared[at as usize];
            (s.version, s.writer, s.hints)
        };
        // The reading CPU has its own copy of the line; its record of the level has the version of that copy.
        let level = &mut self.cpus[dst].levels[level];
        let unchanged = std::mem::replace(&mut level.hints_seen, version) == version;
        let cost = if unchanged { self.fixed.machine.costs.probe_hit_ns } else { self.fetch_ns(by, writer) };
        (Some(hints), cost)
    }

    /// Changes the shared state of a pass's domain; returns the cost, 0 if `change` changes nothing.
    pub fn write_hints(
        &mut self,
        by: CpuId,
        p: &Pass,
        change: impl FnOnce(&mut SharedHints, &DomainSpan) -> bool,
    ) -> u64 {
        let Some(at) = self.fixed.shared_of[p.dst][p.level] else { return 0 };
        let s = &mut self.balance.shared[at as usize];
        let span = s.span;
        if !change(&mut s.hints, &span) {
            return 0;
        }
        s.version = s.version.wrapping_add(1);
        let before = std::mem::replace(&mut s.writer, by);
        self.fetch_ns(by, before)
    }

    /// ILB_SHARE: statistics of a group that are no older than the duration of this CPU's most expensive pass over the
    /// domain; and the cost of reading them.
    pub fn gathered(
        &self,
        by: CpuId,
        dst: CpuId,
        level: usize,
        group: u32,
        at: u64,
    ) -> Option<(GroupStats, u64)> {
        let window_ns = self.cpus[dst].levels[level].cost.max_ns;
        let g = self.balance.gathered.get(group as usize)?.as_ref()?;
        (g.by != by && at.saturating_sub(g.at_ns) <= window_ns).then(|| (g.stats, self.fetch_ns(by, g.by)))
    }

    /// ILB_SHARE: stores a group's statistics for others; returns the cost.
    pub fn leave_gathered(&mut self, by: CpuId, group: u32, at_ns: u64, stats: GroupStats) -> u64 {
        let Some(place) = self.balance.gathered.get_mut(group as usize) else { return 0 };
        let before = place.replace(Gathered { at_ns, by, stats });
        before.map_or(self.fixed.machine.costs.probe_hit_ns, |b| self.fetch_ns(by, b.by))
    }
}
