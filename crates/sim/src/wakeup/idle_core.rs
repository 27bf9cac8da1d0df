//! The hint that a cache domain has an idle core, and the kernel whose search a run uses.

use crate::fixed::Fixed;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::history::SIS_CORE_IS_OF;
use schedlab_kernel::{Feature, History};

impl Fixed<'_> {
    /// The mechanisms of the kernel whose search runs: SIS_CORE gives a later kernel's search to a kernel that has no
    /// search for cores.
    pub fn search_history(&self) -> &History {
        let borrows = !self.history.core_search && self.kernel.features.has(Feature::SisCore);
        if borrows { &CORE_SEARCH } else { &self.history }
    }
}

/// The mechanisms of the kernel whose search SIS_CORE gives to an older one.
static CORE_SEARCH: History = History::of(SIS_CORE_IS_OF);

impl System<'_> {
    /// The cache domain of a CPU.
    #[inline]
    pub fn llc_of(&self, cpu: CpuId) -> usize {
        self.fixed.machine.topology.cpu(cpu).llc as usize
    }
    /// A CPU went idle: if its siblings are also idle, its cache has an idle core (`update_idle_core`, 4.9+).
    pub fn note_idle_core(&mut self, cpu: CpuId) {
        if !self.has(Feature::SisCore) || !self.fixed.smt_present {
            return;
        }
        let siblings = &self.board.siblings[cpu];
        if siblings.iter().all(|s| self.rqs.is_idle(*s)) {
            let llc = self.llc_of(cpu);
            self.llc[llc].has_idle_cores = true;
        }
    }
}
