//! The first choice of a wakeup: the waker's CPU or the previous one, which is then the *target* of the search
//! (`select_task_rq_fair`).
//!
//! Before 2.6.32 the waker's CPU, once chosen, is final: there is no search for an idle CPU. Passive balancing
//! (SD_WAKE_BALANCE) may also choose it. The domain that decides is the lowest that holds both CPUs, whatever its
//! flags.

use super::affine;
use crate::balance::fits::fits;
use crate::o1::wake::WakeChoice;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;
use schedlab_machine::Domain;
use schedlab_trace::{AffineReason, PlaceReason};

/// The outcome of the first choice.
pub struct Target {
    /// The waker's CPU or the previous one.
    pub cpu: CpuId,
    /// The waker's domain in which `wake_affine` chose the waker's CPU, if the choice is to be counted.
    pub affine: Option<u8>,
    /// Why there is no search, if there is none.
    pub unsearched: Option<PlaceReason>,
    /// The reason given by `wake_affine`, if it was called.
    pub why: Option<AffineReason>,
}

impl System<'_> {
    /// Chooses the target of a wakeup by `cpu`. `waker`: the task that wakes; `None` for an interrupt.
    pub(super) fn choose_target(
        &mut self,
        cpu: CpuId,
        waker: Option<TaskId>,
        wakee: TaskId,
        prev: CpuId,
    ) -> Target {
        let stays = Target { cpu: prev, affine: None, unsearched: None, why: None };
        if cpu == prev {
            return stays;
        }
        if self.fixed.history.o1 {
            return self.o1_target(cpu, waker, wakee, prev);
        }
        let unsearched = self.fixed.history.prev_unsearched.then_some(PlaceReason::NoAffineDomain);
        let no_domain = Target { cpu: prev, affine: None, unsearched, why: None };
        let wakee_load = self.task_h_load(wakee);
        let current_load = waker.map_or(0, |t| self.task_h_load(t));
        let task = &self.tasks[wakee];
        if !task.may_run_on(cpu) {
            return no_domain;
        }
        let factor = self.llc[self.llc_of(cpu)].weight;
        let waker_flips = waker.map_or(0, |t| self.tasks[t].flips.count);
        if super::wide::wake_wide(waker_flips, task.flips.count, factor, &self.fixed.history) {
            return stays;
        }
        if self.fixed.history.wake_cap && self.is_capped(wakee, cpu, prev) {
            return stays;
        }
        let early = self.fixed.history.passive_wakeups;
        let domains = &self.fixed.domains.of_cpu[cpu];
        let asked = |d: &Domain| (d.params.wake_affine || early) && d.span.contains(prev);
        let Some(level) = domains.iter().position(asked) else { return no_domain };
        let params = &domains[level].params;
        let sync = waker.filter(|t| self.board.seats[cpu].sync_wakes && self.believes_sync(*t, wakee));
        let facts = affine::AffineFacts {
            current_load: if sync.is_some() { current_load } else { 0 },
            wakee_load,
            effects: self.effects(cpu, wakee, prev, sync),
            ..self.affine_facts(cpu, prev, sync, params.imbalance_pct, params.wake_idx)
        };
        // An early kernel's own search never starts at a chosen waker's CPU. Another search, chosen by a feature, does,
        // as in later kernels.
        let unsearched = |reason| Some(reason).filter(|_| early && self.has(Feature::SisWakeIdle));
        let may_be_affine = params.wake_affine && self.allows_affine();
        let (choice, why) = may_be_affine.then(|| affine::wake_affine(&facts)).unzip();
        if choice == Some(affine::AffineChoice::Waker) {
            let affine = self.counts_affine(facts.sync).then_some(level as u8);
            return Target { cpu, affine, unsearched: unsearched(PlaceReason::WakeAffine), why };
        }
        let passive = early && params.wake_balance;
        if passive && affine::passive(facts.this_load, facts.prev_load, facts.imbalance_pct) {
            return Target { cpu, affine: None, unsearched: unsearched(PlaceReason::WakeBalance), why };
        }
        Target { why, ..stays }
    }

    /// The same before CFS. `wake_idle` then searches near the choice.
    fn o1_target(&self, cpu: CpuId, waker: Option<TaskId>, wakee: TaskId, prev: CpuId) -> Target {
        let of = |cpu, affine, why| Target { cpu, affine, unsearched: None, why };
        if !self.tasks[wakee].may_run_on(cpu) {
            return of(prev, None, None);
        }
        let sync = waker.filter(|_| self.board.seats[cpu].sync_wakes);
        match self.o1_choose(cpu, sync, wakee, prev) {
            WakeChoice::Affine(level, why) => of(cpu, Some(level as u8), Some(why)),
            WakeChoice::Balance => of(cpu, None, None),
            WakeChoice::Prev(why) => of(prev, None, Some(why)),
        }
    }

    /// Whether a task is too large for the smaller of two CPUs, on a machine whose CPUs differ much (`wake_cap`).
    fn is_capped(&self, task: TaskId, cpu: CpuId, prev: CpuId) -> bool {
        let (capacity, most) = (&self.fixed.cpu_capacity, self.fixed.max_capacity);
        let least = capacity[cpu].min(capacity[prev]);
        most - least >= most >> 3 && !fits(self.task_util_est(task), least)
    }

    /// Whether affine wakeups are on (AFFINE_WAKEUPS, if the kernel has it).
    fn allows_affine(&self) -> bool {
        self.has(Feature::AffineWakeups) || self.fixed.history.always_affine
    }

    /// Whether pulled wakees are counted: not in older kernels if the waker is about to sleep. (They do count the few
    /// of these pulls that are made because both CPUs are half empty; not modelled.)
    fn counts_affine(&self, sync: bool) -> bool {
        !sync || self.fixed.history.counts_sync_affine
    }

    /// The changes of load that kernels before 4.14 compute.
    fn effects(&self, cpu: CpuId, wakee: TaskId, prev: CpuId, sync: Option<TaskId>) -> affine::Effects {
        if self.fixed.history.affine_by_idleness {
            return affine::Effects::default();
        }
        let load = |task: TaskId| {
            let entity = self.entity(task);
            (if self.tracks_load() { entity.avg.load_avg } else { entity.weight }) as i64
        };
        let own = load(wakee);
        let leaves = |at: CpuId, weight: i64| {
            sync.map_or(0, |waker| self.effective_load(waker, at, weight * load(waker), -load(waker)))
        };
        affine::Effects {
            waker_on_this: leaves(cpu, -1),
            waker_on_prev: leaves(prev, 0),
            wakee_on_this: self.effective_load(wakee, cpu, own, own),
            wakee_on_prev: self.effective_load(wakee, prev, 0, own),
        }
    }

    /// The facts for `wake_affine`, without the loads of waker and wakee. `sync`: the waker, if it says that it is
    /// about to sleep; wakers of futexes and timers never do.
    fn affine_facts(
        &self,
        cpu: CpuId,
        prev: CpuId,
        sync: Option<TaskId>,
        imbalance_pct: u32,
        wake_idx: u8,
    ) -> affine::AffineFacts<'_> {
        let averages = self.fixed.history.affine_by_idleness;
        let (this_now, prev_now) = (self.load_now(cpu), self.load_now(prev));
        // For the waker, delayed tasks are asleep (6.15, 6.12.117).
        let nr_running = self.rqs.nr_running(cpu) - self.nr_delayed(cpu);
        affine::AffineFacts {
            history: &self.fixed.history,
            features: self.fixed.kernel.features,
            sync: sync.is_some(),
            this_idle: self.rqs.is_idle(cpu),
            prev_idle: self.rqs.is_idle(prev),
            shares_cache: self.shares_cache(cpu, prev),
            this_nr_running: nr_running,
            this_load: if averages { this_now } else { self.target_load(cpu, wake_idx) },
            prev_load: if averages { prev_now } else { self.source_load(prev, wake_idx) },
            prev_target_load: self.target_load(prev, wake_idx),
            this_load_per_task: this_now.checked_div(u64::from(nr_running)).unwrap_or(0),
            current_load: 0,
            wakee_load: 0,
            effects: affine::Effects::default(),
            this_capacity: self.capacity_of(cpu),
            prev_capacity: self.capacity_of(prev),
            imbalance_pct: u64::from(imbalance_pct),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::upkeep_tests::{born, with_system};
    use schedlab_base::{CpuId, CpuSet};
    use schedlab_trace::PlaceReason;

    #[test]
    fn without_an_affine_domain_the_previous_cpu_is_taken_unsearched_before_3_18() {
        for (version, unsearched) in [("v3.4", Some(PlaceReason::NoAffineDomain)), ("v4.5", None)] {
            with_system(version, |sys| {
                let task = born(sys, CpuId(1));
                let mut allowed = CpuSet::new();
                allowed.insert(CpuId(1));
                sys.tasks[task].allowed = Some(allowed);
                let target = sys.choose_target(CpuId(0), None, task, CpuId(1));
                assert_eq!((target.cpu, target.unsearched), (CpuId(1), unsearched), "{version}");
            });
        }
    }
}
