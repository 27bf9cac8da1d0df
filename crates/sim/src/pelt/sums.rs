//! Additions to the sums of a queue and subtractions from them: entities that are attached and detached, loads that
//! were left behind, groups' entities that follow their queues, and new weights.
//!
//! An average changes only at the end of a period, but its sum all the time, so sums that are added and subtracted are
//! rounded differently from averages. Nothing becomes negative. A [`SumRule`] says how a queue's sum is then made to
//! fit its average.

use super::{LEAST_DIVIDER, Pelt};
use schedlab_kernel::History;

/// How a queue's sums are made to fit its averages after an entity was added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumRule {
    /// The sums that correspond to the averages at this point of the period, in most places (up to 5.16).
    FromAverages,
    /// At least the sums that correspond to the averages at the start of a period, after a subtraction; otherwise an
    /// average would rise at the next update.
    Bounded,
    /// The same in 32 bits, which a large load exceeds (5.17 to 7.2).
    BoundedIn32Bits,
    /// As `Bounded`, also after an addition of load (7.3).
    BoundedBothWays,
}

impl SumRule {
    pub fn of(history: &History) -> SumRule {
        match () {
            () if history.sums_from_averages => SumRule::FromAverages,
            () if history.sums_bound_in_32_bits => SumRule::BoundedIn32Bits,
            () if history.added_load_bounded => SumRule::BoundedBothWays,
            () => SumRule::Bounded,
        }
    }
}

/// The averages of tasks that have left a runqueue, which it has not subtracted yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    pub tasks: u32,
    load_avg: u64,
    runnable_avg: u64,
    util_avg: u64,
}

impl Removed {
    pub fn add(&mut self, entity: &Pelt) {
        self.tasks += 1;
        self.load_avg += entity.load_avg;
        self.runnable_avg += entity.runnable_avg;
        self.util_avg += entity.util_avg;
    }
}

/// A queue's average and its sum.
struct Part<'a> {
    avg: &'a mut u64,
    sum: &'a mut u64,
}

impl Part<'_> {
    fn add(&mut self, avg: u64, sum: u64) {
        *self.avg += avg;
        *self.sum += sum;
    }
    fn sub(&mut self, avg: u64, sum: u64) {
        *self.avg = self.avg.saturating_sub(avg);
        *self.sum = self.sum.saturating_sub(sum);
    }
    fn bound(&mut self, rule: SumRule) {
        let (sum, least) = (*self.sum, *self.avg * LEAST_DIVIDER);
        *self.sum = match rule {
            SumRule::BoundedIn32Bits => u64::from((sum as u32).max(least as u32)),
            _ => sum.max(least),
        };
    }
    /// Makes the sum fit the average; `divider` is the queue's.
    fn fit(&mut self, rule: SumRule, divider: u64) {
        match rule {
            SumRule::FromAverages => *self.sum = *self.avg * divider,
            _ => self.bound(rule),
        }
    }
    /// Replaces a part `old` of average and sum with `new`.
    fn exchange(&mut self, old: (u64, u64), new: (u64, u64), rule: SumRule, divider: u64) {
        *self.avg = (*self.avg + new.0).saturating_sub(old.0);
        *self.sum = (*self.sum + new.1).saturating_sub(old.1);
        self.fit(rule, divider);
    }
}

impl Pelt {
    fn load(&mut self) -> Part<'_> {
        Part { avg: &mut self.load_avg, sum: &mut self.load_sum }
    }
    fn runnable(&mut self) -> Part<'_> {
        Part { avg: &mut self.runnable_avg, sum: &mut self.runnable_sum }
    }
    fn util(&mut self) -> Part<'_> {
        Part { avg: &mut self.util_avg, sum: &mut self.util_sum }
    }

    /// Moves an entity to the same point of the period as the runqueue to which it is about to be [added](Pelt::add);
    /// its averages stay.
    pub fn align_to(&mut self, rq: &Pelt) {
        self.last_update_ns = rq.last_update_ns;
        self.period_contrib = rq.period_contrib;
        self.sums_from_averages();
    }

    /// Changes the weight (`reweight_entity`): the load follows at once, for its whole history.
    pub fn reweight(&mut self, old: u64, new: u64) {
        if self.left_out > 0 {
            self.left_out = new as u32;
        } else if let Some(unweighted) = self.load_sum.checked_div(old) {
            self.load_sum = unweighted * new;
        } else {
            return;
        }
        self.load_avg = self.weighted() / self.divider();
    }

    /// Runnable time without weights of an entity of `weight`.
    pub fn runnable_time(&self, weight: u64) -> u64 {
        if self.left_out > 0 { self.load_sum } else { self.load_sum.checked_div(weight).unwrap_or(0) }
    }

    /// Updates the averages of a group's entity from its queue, after a task has joined or left that
    /// (`update_tg_cfs_util`, `_runnable`, `_load`; 4.10, read in 5.10.262 to 7.3.4). `weight` is the entity's,
    /// `load_weight` the queue's. `came` is the runnable time, without weights, that was added or (negative) removed.
    /// The entity is on the queue `above`, whose place in the period counts.
    pub fn follow(&mut self, group: &Pelt, weight: u64, load_weight: u64, came: i64, above: &Pelt) {
        let divider = above.divider();
        if self.util_avg != group.util_avg {
            (self.util_avg, self.util_sum) = (group.util_avg, group.util_avg * divider);
        }
        if self.runnable_avg != group.runnable_avg {
            (self.runnable_avg, self.runnable_sum) = (group.runnable_avg, group.runnable_avg * divider);
        }
        if came == 0 {
            return;
        }
        let own = self.runnable_time(weight);
        let runnable = if came > 0 {
            (own + came as u64).min(divider)
        } else {
            // All tasks of the queue are assumed to be equally runnable; the entity's own time is the limit.
            group.load_sum.checked_div(load_weight).unwrap_or(0).min(own)
        };
        // A running entity is runnable.
        let runnable = runnable.max(self.util_sum >> 10);
        self.load_sum = if self.left_out > 0 { runnable } else { weight * runnable };
        self.load_avg = weight * runnable / divider;
    }

    /// Updates this runqueue after an attached entity became `new` by [following](Pelt::follow) its own queue.
    pub fn exchange(&mut self, old: &Pelt, new: &Pelt, rule: SumRule) {
        let divider = self.divider();
        if old.load_avg != new.load_avg || old.load_sum != new.load_sum {
            let (was, is) = ((old.load_avg, old.weighted()), (new.load_avg, new.weighted()));
            self.load().exchange(was, is, rule, divider);
        }
        if old.runnable_avg != new.runnable_avg {
            let (was, is) = ((old.runnable_avg, old.runnable_sum), (new.runnable_avg, new.runnable_sum));
            self.runnable().exchange(was, is, rule, divider);
        }
        if old.util_avg != new.util_avg {
            let (was, is) = ((old.util_avg, old.util_sum), (new.util_avg, new.util_sum));
            self.util().exchange(was, is, rule, divider);
        }
    }

    /// Updates this runqueue after an attached entity got another weight, and so another load.
    pub fn exchange_load(&mut self, old: &Pelt, new: &Pelt, rule: SumRule) {
        self.sub_load(old, rule);
        self.add_load(new, rule);
    }

    fn sub_load(&mut self, entity: &Pelt, rule: SumRule) {
        let mut load = self.load();
        load.sub(entity.load_avg, entity.weighted());
        // Kernels with sums from averages do not change this one.
        if rule != SumRule::FromAverages {
            load.bound(rule);
        }
    }

    fn add_load(&mut self, entity: &Pelt, rule: SumRule) {
        let mut load = self.load();
        load.add(entity.load_avg, entity.weighted());
        if rule == SumRule::BoundedBothWays {
            load.bound(rule);
        }
    }

    /// An entity is attached to this runqueue (`attach_entity_load_avg`).
    pub fn add(&mut self, entity: &Pelt, rule: SumRule) {
        self.add_load(entity, rule);
        self.runnable().add(entity.runnable_avg, entity.runnable_sum);
        self.util().add(entity.util_avg, entity.util_sum);
    }

    /// An entity is detached (`detach_entity_load_avg`). Rounding may have left less than the entity added.
    pub fn sub(&mut self, entity: &Pelt, rule: SumRule) {
        let divider = self.divider();
        self.sub_load(entity, rule);
        let mut runnable = self.runnable();
        runnable.sub(entity.runnable_avg, entity.runnable_sum);
        runnable.fit(rule, divider);
        let mut util = self.util();
        util.sub(entity.util_avg, entity.util_sum);
        util.fit(rule, divider);
    }

    /// Subtracts loads that were left behind (`update_cfs_rq_load_avg`). Their sums follow from their averages at this
    /// point of the period. Returns the subtracted runnable time, without weights.
    pub fn remove(&mut self, gone: &Removed, rule: SumRule) -> u64 {
        let divider = self.divider();
        let mut load = self.load();
        load.sub(gone.load_avg, gone.load_avg * divider);
        load.fit(rule, divider);
        let mut runnable = self.runnable();
        runnable.sub(gone.runnable_avg, gone.runnable_avg * divider);
        runnable.fit(rule, divider);
        let mut util = self.util();
        util.sub(gone.util_avg, gone.util_avg * divider);
        util.bound(rule);
        // A negative time is shifted, so the subtracted time is rounded up.
        (gone.runnable_avg * divider).div_ceil(1 << 10)
    }
}
