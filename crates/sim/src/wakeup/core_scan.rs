//! The search of 4.9 and later: a wholly idle core, else an idle CPU, else an idle sibling.
//!
//! All phases run over the allowed CPUs of the target's LLC in ascending number from a start, wrapping around. A core
//! is read when its first allowed thread is reached, and the search returns that thread.
//!
//! - Before 5.13 (4.9 fair.c): cores from the target on, if the LLC's flag says that one is idle; then single CPUs, if
//!   that pays off; then the target's siblings.
//! - Since 5.13 (6.1 fair.c): with no idle core, the previous CPU's idle sibling first. Then *either* cores, where an
//!   idle thread found on the way is the fallback and the budget does not count, *or* single CPUs within the budget.
//!   The start is the CPU after the target (5.15), so the target comes last.
//!
//! A failed search for a core clears the flag. 5.12, between the two, is treated as 5.11.
//!
//! A CPU that runs only SCHED_IDLE tasks is taken like an idle CPU or sibling. From 5.4 to 5.6 it is only the last
//! resort, when a scan's budget ends or at the end of the siblings. It does not make a core idle. While a core is
//! searched it may become the fallback, and ends the reading of its core (5.13+).

use super::search::{Answer, SearchStep, View};
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_machine::Domain;
use schedlab_trace::PlaceReason;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// An idle sibling of the previous CPU (5.13+).
    PrevSiblings,
    /// A wholly idle core.
    Cores,
    Cpus,
    /// An idle sibling of the target (before 5.13).
    TargetSiblings,
    Over,
}

/// A search under way.
#[derive(Clone, Copy, Debug)]
pub struct CoreScan {
    phase: Phase,
    /// The index in the LLC's list of CPUs at which the scan starts.
    first: usize,
    /// Number of CPUs of the LLC passed in this phase, wrapping around.
    passed: usize,
    /// Number of threads of the current core passed.
    thread: usize,
    /// Whether no thread of the current core was found busy.
    core_idle: bool,
    /// The first idle allowed thread found while searching a core (5.13+), or the first CPU of this phase that runs
    /// only SCHED_IDLE tasks (5.4 to 5.6).
    spare: Option<CpuId>,
    /// Whether the spare CPU runs SCHED_IDLE tasks.
    spare_runs: bool,
    /// Number of CPUs that may still be probed one by one.
    budget: u32,
    has_idle_cores: bool,
    core_search_failed: bool,
    /// Whether the single CPUs were not searched, because it did not pay off or there was no budget.
    skipped: bool,
    /// Whether the budget ended before all CPUs of the LLC were read.
    spent: bool,
}

/// Whether the searches for cores and for single CPUs are one.
fn merged(view: &View<'_>) -> bool {
    view.history.merged_search
}

impl CoreScan {
    /// A search before its first probe. The scalars of the view are read only here.
    pub fn start(view: &View<'_>) -> CoreScan {
        let has_idle_cores = view.has_idle_cores;
        let budget = budget(view, has_idle_cores && merged(view));
        let mut scan = CoreScan {
            phase: Phase::Cores,
            first: first_place(view),
            passed: 0,
            thread: 0,
            core_idle: true,
            spare: None,
            spare_runs: false,
            budget: budget.unwrap_or(0),
            has_idle_cores,
            core_search_failed: false,
            skipped: budget.is_none(),
            spent: false,
        };
        scan.phase = match (view.llc(view.target).is_some(), merged(view), has_idle_cores) {
            (false, ..) => Phase::Over,
            (_, true, false) if view.shares_cache(view.prev, view.target) => Phase::PrevSiblings,
            (_, true, _) => scan.merged_search(),
            (_, false, true) => Phase::Cores,
            (_, false, false) => scan.single_search(),
        };
        scan
    }

    /// Whether the search for an idle core has failed: then the LLC's `has_idle_cores` must be cleared.
    pub fn clears_idle_cores(&self) -> bool {
        self.core_search_failed
    }
    /// Whether the current probe belongs to a scan whose duration is added to `avg_scan_cost` once the search ends,
    /// unless the budget [ended it](CoreScan::out_of_budget). Before 5.13 always; since then under SIS_PROP.
    pub fn timed(&self, view: &View<'_>) -> bool {
        self.phase == Phase::Cpus && (!merged(view) || view.features.has(Feature::SisProp))
    }
    /// Whether the budget ended the scan of single CPUs.
    pub fn out_of_budget(&self) -> bool {
        self.spent
    }

    pub fn step(&mut self, view: &View<'_>, last: Option<Answer>) -> SearchStep {
        if let Some(found) = last.and_then(|answer| self.answer(view, answer)) {
            return found;
        }
        loop {
            let probe = match self.phase {
                Phase::PrevSiblings => self.next_sibling(view, view.prev),
                Phase::Cores => match self.next_of_cores(view) {
                    Some(SearchStep::Probe(cpu)) => Some(cpu),
                    Some(end) => return end,
                    None => None,
                },
                Phase::Cpus => self.next_cpu(view),
                Phase::TargetSiblings => self.next_sibling(view, view.target),
                Phase::Over => return self.nothing(),
            };
            if let Some(cpu) = probe {
                return SearchStep::Probe(cpu);
            }
            if let Some(found) = self.last_resort(view) {
                return found;
            }
            self.next_phase(view);
        }
    }

    /// Processes the answer to the last probe; returns the search's end, if the answer ends it.
    fn answer(&mut self, view: &View<'_>, answer: Answer) -> Option<SearchStep> {
        let (cpu, reason) = match self.phase {
            Phase::PrevSiblings | Phase::TargetSiblings => {
                let owner = if self.phase == Phase::PrevSiblings { view.prev } else { view.target };
                let cpu = view.thread(owner, self.thread)?;
                self.thread += 1;
                (cpu, PlaceReason::IdleSibling)
            }
            Phase::Cpus => {
                let cpu = self.present(view)?;
                self.passed += 1;
                (cpu, PlaceReason::IdleCpu)
            }
            Phase::Cores => {
                self.answer_core(view, answer);
                return None;
            }
            Phase::Over => return None,
        };
        let waits = answer == Answer::SchedIdle && !view.history.sched_idle_at_once;
        if waits && self.spare.is_none() {
            (self.spare, self.spare_runs) = (Some(cpu), true);
        }
        (answer != Answer::Busy && !waits).then(|| SearchStep::Found(cpu, answer.reason(reason)))
    }

    /// 5.4 to 5.6: takes a CPU with only SCHED_IDLE tasks if the budget ends the scan, or no sibling is idle.
    fn last_resort(&mut self, view: &View<'_>) -> Option<SearchStep> {
        if merged(view) {
            return None;
        }
        let spare = self.spare.take()?;
        let takes = self.phase == Phase::TargetSiblings || self.spent;
        takes.then_some(SearchStep::Found(spare, PlaceReason::SchedIdle))
    }

    /// A thread of the current core was read. After a busy thread, the core's other threads are still read in the first
    /// kernels with this search, are not read in later ones, and are read in the merged search until a fallback is
    /// known.
    fn answer_core(&mut self, view: &View<'_>, answer: Answer) {
        let thread = self.present(view).and_then(|core| view.thread(core, self.thread));
        self.thread += 1;
        if answer != Answer::Busy && self.spare.is_none() {
            self.spare = thread.filter(|cpu| merged(view) && view.allows(*cpu));
            self.spare_runs = answer == Answer::SchedIdle;
        }
        if answer.is_idle() {
            return;
        }
        self.core_idle = false;
        let goes_on = !view.history.leaves_busy_cores || merged(view) && self.spare.is_none();
        if !goes_on {
            self.leave_core();
        }
    }

    /// The current CPU of the scan; `None` past the end.
    #[inline]
    fn present(&self, view: &View<'_>) -> Option<CpuId> {
        let cpus = &view.llc(view.target)?.cpus;
        if let Some(cluster) = view.cluster(view.target) {
            return self.present_by_cluster(view, cpus, cluster);
        }
        let at = self.first + self.passed;
        let wrapped = if at < cpus.len() { at } else { at - cpus.len() };
        (self.passed < cpus.len()).then(|| cpus[wrapped])
    }

    /// The same if the target's cluster comes first (6.7), then the rest of its cache.
    fn present_by_cluster(&self, view: &View<'_>, cpus: &[CpuId], cluster: &Domain) -> Option<CpuId> {
        let start = start_cpu(view);
        let wrapped = |all: &[CpuId], at: usize| all[(all.partition_point(|c| *c < start) + at) % all.len()];
        let beyond = match self.passed.checked_sub(cluster.cpus.len()) {
            None => return Some(wrapped(&cluster.cpus, self.passed)),
            Some(beyond) => beyond,
        };
        (0..cpus.len()).map(|at| wrapped(cpus, at)).filter(|c| !cluster.span.contains(*c)).nth(beyond)
    }

    fn leave_core(&mut self) {
        (self.passed, self.thread, self.core_idle) = (self.passed + 1, 0, true);
    }

    /// The next thread to read in the search for a core, or the core found.
    fn next_of_cores(&mut self, view: &View<'_>) -> Option<SearchStep> {
        loop {
            let core = self.present(view)?;
            if self.thread == 0 && !(view.allows(core) && first_of_core(view, core)) {
                self.leave_core();
                continue;
            }
            match view.thread(core, self.thread) {
                Some(cpu) => return Some(SearchStep::Probe(cpu)),
                None if self.core_idle => return Some(SearchStep::Found(core, PlaceReason::IdleCore)),
                None => self.leave_core(),
            }
        }
    }

    /// The next CPU to read one by one.
    fn next_cpu(&mut self, view: &View<'_>) -> Option<CpuId> {
        loop {
            let cpu = self.present(view)?;
            let allowed = view.allows(cpu);
            if allowed || !view.history.forbidden_cpus_free {
                let Some(left) = self.budget.checked_sub(1) else {
                    self.spent = true;
                    return None;
                };
                self.budget = left;
            }
            if allowed {
                return Some(cpu);
            }
            self.passed += 1;
        }
    }

    /// The next thread of the owner's core to read. Without SMT there is none. Later kernels skip the owner, which they
    /// have just read.
    fn next_sibling(&mut self, view: &View<'_>, owner: CpuId) -> Option<CpuId> {
        let threads = &view.smt(owner)?.cpus;
        let skip = |cpu: CpuId| !view.allows(cpu) || cpu == owner && view.history.skips_own_thread;
        while let Some(cpu) = threads.get(self.thread) {
            if !skip(*cpu) {
                return Some(*cpu);
            }
            self.thread += 1;
        }
        None
    }

    /// The current phase has ended.
    fn next_phase(&mut self, view: &View<'_>) {
        let next = match self.phase {
            Phase::PrevSiblings => self.merged_search(),
            Phase::Cores => {
                self.core_search_failed = true;
                if merged(view) { Phase::Over } else { self.single_search() }
            }
            Phase::Cpus if !merged(view) => Phase::TargetSiblings,
            Phase::Cpus | Phase::TargetSiblings | Phase::Over => Phase::Over,
        };
        (self.phase, self.passed, self.thread, self.core_idle) = (next, 0, 0, true);
    }

    /// 5.13+: cores or CPUs; neither if the budget refuses the search, which leaves the flag unchanged.
    fn merged_search(&self) -> Phase {
        match (self.skipped, self.has_idle_cores) {
            (true, _) => Phase::Over,
            (false, true) => Phase::Cores,
            (false, false) => Phase::Cpus,
        }
    }

    /// Before 5.13: single CPUs if that pays off, else straight to the siblings.
    fn single_search(&self) -> Phase {
        if self.skipped { Phase::TargetSiblings } else { Phase::Cpus }
    }

    fn nothing(&self) -> SearchStep {
        match self.spare {
            Some(cpu) if self.spare_runs => SearchStep::Found(cpu, PlaceReason::SchedIdle),
            Some(cpu) => SearchStep::Found(cpu, PlaceReason::IdleCpu),
            None if self.skipped => SearchStep::NotFound(PlaceReason::ScanSkipped),
            None => SearchStep::NotFound(PlaceReason::TargetBusy),
        }
    }
}

/// The CPU from which the scan starts: the target, or the number after it.
fn start_cpu(view: &View<'_>) -> CpuId {
    CpuId(view.target.0 + u32::from(view.history.scans_after_target))
}

/// The index in the LLC's list from which the scan starts; past the highest number it wraps to 0.
fn first_place(view: &View<'_>) -> usize {
    let cpus = view.llc(view.target).map_or(&[][..], |llc| &llc.cpus[..]);
    let start = start_cpu(view);
    let first = cpus.partition_point(|c| *c < start);
    if first == cpus.len() { 0 } else { first }
}

/// Whether the CPU is the first allowed thread of its core in the scan's order. (A core is read as a whole when its
/// first thread is reached, and all its threads leave the list.)
fn first_of_core(view: &View<'_>, cpu: CpuId) -> bool {
    let start = start_cpu(view);
    let place = |c: CpuId| (c < start, c);
    let threads = view.smt(cpu).map_or(&[][..], |smt| &smt.cpus[..]);
    threads.iter().all(|t| !view.allows(*t) || place(*t) >= place(cpu))
}

/// How many CPUs may be probed one by one; `None` if the search must not be made.
///
/// SIS_UTIL (6.0+): `nr_idle_scan`; at 0 none are probed, not even for cores. SIS_PROP (4.13 to 6.1): the LLC's size
/// times average idle time over average cost of a scan, at least 4, minus one. Before 4.13: no limit, but no search at
/// all if average idle time / 512 is less than a scan's average cost.
fn budget(view: &View<'_>, cores: bool) -> Option<u32> {
    let mut probes = u32::MAX;
    if view.features.has(Feature::SisProp) && !cores {
        probes = proportional(view) - 1;
    }
    if view.features.has(Feature::SisUtil) {
        probes = (view.nr_idle_scan > 0).then_some(view.nr_idle_scan)?;
    }
    let too_dear = view.avg_idle_ns / 512 < view.avg_scan_cost_ns;
    if !view.history.scan_always_tried && too_dear { None } else { Some(probes) }
}

/// SIS_PROP's number; the last of these CPUs is not probed.
fn proportional(view: &View<'_>) -> u32 {
    let aged = view.history.ages_wake_idle;
    let idle = if aged { view.wake_avg_idle_ns } else { view.avg_idle_ns / 512 };
    let weight = view.llc(view.target).map_or(0, |llc| llc.cpus.len() as u64);
    let cost = view.avg_scan_cost_ns.saturating_add(1);
    let nr = weight.saturating_mul(idle) / cost;
    u32::try_from(nr).unwrap_or(u32::MAX).max(4)
}

#[cfg(test)]
#[path = "core_scan_tests.rs"]
mod tests;
