//! Counts the decisions of passes and ticks, and emits their details.

use crate::balance::newidle_gate::{EnterFacts, Skip};
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_trace::{ActiveReason, EventKind, KickReason, SkipReason};

impl System<'_> {
    /// Counts a pass over a domain of `dst` that is not begun.
    #[inline]
    pub(super) fn skip(&mut self, dst: CpuId, level: usize, why: SkipReason) {
        self.skip_for(dst, level, why, || (0, 0));
    }
    /// The same after a comparison of two times, ns: the available one and the needed one.
    #[inline]
    pub(super) fn skip_for(
        &mut self,
        dst: CpuId,
        level: usize,
        why: SkipReason,
        compared: impl FnOnce() -> (u64, u64),
    ) {
        self.accounts.stats.skips[why as usize] += 1;
        if self.out.wants_details() {
            let short = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
            let (have_ns, need_ns) = compared();
            let (have_ns, need_ns) = (short(have_ns), short(need_ns));
            self.emit_detail(dst, EventKind::Skip { level: level as u8, why, have_ns, need_ns });
        }
    }
    /// Counts that a CPU about to go idle does not look for work.
    #[inline]
    pub(super) fn skip_newidle(&mut self, dst: CpuId, why: Skip, f: &EnterFacts) {
        self.skip_for(dst, 0, why.into(), || match why {
            Skip::ShortIdle => (f.avg_idle_ns, f.migration_cost_ns),
            Skip::NoOverload => (0, 0),
            Skip::TooDear => (f.avg_idle_ns, f.lowest_cost_ns),
        });
    }
    /// Counts a tick's decision whether a tickless CPU must balance.
    pub(super) fn kick_decided(&mut self, cpu: CpuId, why: KickReason, to: Option<CpuId>) {
        self.accounts.stats.kicks[why as usize] += 1;
        self.emit_detail(cpu, EventKind::Kick { why, to });
    }
    /// Counts that a running task is to be pushed.
    pub(crate) fn count_push(&mut self, why: ActiveReason) {
        self.accounts.stats.pushes[why as usize] += 1;
    }
}
