//! Per-entity load tracking: geometric averages, in integers, of the time for which a task or a runqueue is runnable
//! and running.
//!
//! Time is cut into periods of 1024 us, where a microsecond is 1024 ns; a period's share decays by y per period with
//! y^32 = 1/2. A sum is at most 47742; an average is a sum divided by its largest possible value at that time. `load`
//! is the time runnable times the load weight, `runnable` the time times the number runnable times 1024, `util` the
//! time running times 1024. Mirrors kernels 4.3 to 7.3 at a fixed frequency. CPUs of less capacity have a clock of
//! their own ([`crate::rq::pelt_clock`]), or scale utilisation ([`Pelt::update_by`]). [`sums`] adds to a queue's sums
//! and subtracts from them.

mod sums;

pub use sums::{Removed, SumRule};

use crate::balance::capacity::SCALE;
use crate::fair::group::shares::FINE;
use schedlab_kernel::History;

/// The limit of a sum of periods: 1024 (1 + y + y^2 + ...), in the kernel's integers.
pub const LOAD_AVG_MAX: u64 = 47_742;

/// log2 of the unit of accounted time, ns.
const UNIT_SHIFT: u32 = 10;
/// Units in a period.
const PERIOD: u64 = 1024;
/// The largest value of a sum of weight one at the start of a period.
const LEAST_DIVIDER: u64 = LOAD_AVG_MAX - PERIOD;
/// Number of periods after which a sum is half.
const HALF_LIFE: u64 = 32;

/// y^k for k = 0 to 31, in units of 2^-32; y^0 is just below one.
const DECAY: [u32; HALF_LIFE as usize] = decay_table();

const fn decay_table() -> [u32; HALF_LIFE as usize] {
    const ONE: u128 = 1 << 60;
    // y is the 32nd root of a half, that is, five square roots.
    let mut y = ONE / 2;
    let mut roots = 0;
    while roots < 5 {
        y = isqrt(y * ONE);
        roots += 1;
    }
    let mut table = [u32::MAX; HALF_LIFE as usize];
    let (mut power, mut k) = (y, 1);
    while k < HALF_LIFE as usize {
        table[k] = (power >> 28) as u32;
        power = power * y / ONE;
        k += 1;
    }
    table
}

const fn isqrt(n: u128) -> u128 {
    let (mut low, mut high) = (0, 1 << 61);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if middle * middle <= n {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// `value` after `periods` of decay.
fn decay(value: u64, periods: u64) -> u64 {
    let halvings = periods / HALF_LIFE;
    if halvings > 63 {
        return 0;
    }
    let value = value >> halvings;
    match (periods % HALF_LIFE) as usize {
        0 => value,
        k => ((u128::from(value) * u128::from(DECAY[k])) >> 32) as u64,
    }
}

/// Averages of one entity, or of a runqueue as the sum of its entities, including blocked ones.
///
/// The averages come last in memory: in a queue they are next to the other fields that a balance pass reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Pelt {
    /// Time of the last update, ns, in whole units.
    pub last_update_ns: u64,
    /// Elapsed units of the current period, 0 to 1023.
    pub period_contrib: u32,
    /// The entity's weight, which is not in `load_sum`; 0 if it is, as in a queue's sum.
    pub left_out: u32,
    /// Sum behind `load_avg`.
    pub load_sum: u64,
    /// Sum behind `runnable_avg`.
    pub runnable_sum: u64,
    /// Sum behind `util_avg`.
    pub util_sum: u64,
    /// Load average: the weight, for an entity that is always runnable.
    pub load_avg: u64,
    /// Average number of runnable tasks, times 1024 (5.7+).
    pub runnable_avg: u64,
    /// Utilisation: 1024 for an entity that always runs.
    pub util_avg: u64,
}

/// Facts for a new task's first utilisation.
#[derive(Clone, Copy, Debug)]
pub struct FirstUtilFacts {
    /// Utilisation of the runqueue it starts on.
    pub cfs_util_avg: u64,
    /// Load average of that runqueue.
    pub cfs_load_avg: u64,
    /// Capacity of that CPU.
    pub capacity: u64,
}

impl Pelt {
    /// Accounts for the time since the last update: `load_weight` is the weight if runnable and 0 if not, `runnable`
    /// the number of runnable tasks (0 or 1 for a task). Returns whether a period ended, that is, whether the averages
    /// changed.
    #[inline]
    pub fn update(&mut self, now_ns: u64, load_weight: u64, runnable: u64, running: bool) -> bool {
        self.update_by(now_ns, load_weight, runnable, if running { SCALE } else { 0 })
    }

    /// The same; `running` is the capacity that counts as used: 0 while it does not run; otherwise 1024, unless only
    /// utilisation is scaled by the CPU's capacity (before 5.1).
    #[inline]
    pub fn update_by(&mut self, now_ns: u64, load_weight: u64, runnable: u64, running: u64) -> bool {
        let units = now_ns.saturating_sub(self.last_update_ns) >> UNIT_SHIFT;
        if units == 0 {
            return false;
        }
        self.last_update_ns += units << UNIT_SHIFT;
        let total = u64::from(self.period_contrib) + units;
        let crossed = total >= PERIOD;
        let contribution = if crossed { self.cross(total) } else { units };
        self.period_contrib = (total % PERIOD) as u32;
        // An entity that is not on the runqueue has no weight, and neither runs nor is runnable.
        if load_weight > 0 {
            let load = if self.left_out > 0 { 1 } else { load_weight };
            self.load_sum += load * contribution;
            self.runnable_sum += (runnable * contribution) << 10;
            self.util_sum += contribution * running;
        }
        if crossed {
            self.refresh();
        }
        crossed
    }

    /// Decays the sums over the periods that ended, and returns the time to add: the rest of the first period, decayed
    /// to the end, the whole periods between, and the part of the last.
    fn cross(&mut self, total: u64) -> u64 {
        let periods = total / PERIOD;
        self.load_sum = decay(self.load_sum, periods);
        self.runnable_sum = decay(self.runnable_sum, periods);
        self.util_sum = decay(self.util_sum, periods);
        let first = decay(PERIOD - u64::from(self.period_contrib), periods);
        let between = LOAD_AVG_MAX - decay(LOAD_AVG_MAX, periods) - PERIOD;
        first + between + total % PERIOD
    }

    /// Whether the utilisation is so high that there is no idle time to catch up in (`update_idle_rq_clock_pelt`).
    /// `other`: the sum of other classes.
    pub fn is_saturated(&self, other: u64) -> bool {
        // The part of the current period is left out: the kernel uses a limit that is the same at any time.
        self.util_sum + other >= (LEAST_DIVIDER << 10) - LOAD_AVG_MAX
    }

    /// The largest value of a sum of weight one at this time.
    fn divider(&self) -> u64 {
        LEAST_DIVIDER + u64::from(self.period_contrib)
    }

    /// The sum of the load including the weight.
    fn weighted(&self) -> u64 {
        self.load_sum * u64::from(self.left_out).max(1)
    }

    fn refresh(&mut self) {
        let divider = self.divider();
        self.load_avg = self.weighted() / divider;
        self.runnable_avg = self.runnable_sum / divider;
        self.util_avg = self.util_sum / divider;
    }

    /// Sets the sums to those that correspond to the averages at this point of the period.
    pub(crate) fn sums_from_averages(&mut self) {
        let divider = self.divider();
        let (load, weight) = (self.load_avg * divider, u64::from(self.left_out));
        self.load_sum = match weight {
            0 => load,
            _ if weight < load => load / weight,
            _ => 1,
        };
        self.runnable_sum = self.runnable_avg * divider;
        self.util_sum = self.util_avg * divider;
    }

    /// The averages of a new task. It has the load of a task that was always runnable. Its utilisation is the
    /// runqueue's own in proportion to the weight, at most half of the free capacity (and exactly that half on an idle
    /// runqueue). Up to 6.9 the weight is the fine one, so that a task gets that half. In kernels before this rule it
    /// is 1024.
    pub fn settled(history: &History, weight: u64, now_ns: u64, room: FirstUtilFacts) -> Pelt {
        let util = if !history.new_task_util {
            1024
        } else {
            let cap = room.capacity.saturating_sub(room.cfs_util_avg) / 2;
            let weight = if history.new_util_by_fine_weight { weight * FINE } else { weight };
            match room.cfs_util_avg {
                0 => cap,
                util => (util * weight / (room.cfs_load_avg + 1)).min(cap),
            }
        };
        let mut pelt = Pelt {
            last_update_ns: now_ns,
            period_contrib: PERIOD as u32 - 1,
            left_out: if history.load_sum_unweighted { weight as u32 } else { 0 },
            load_avg: weight,
            runnable_avg: util,
            util_avg: util,
            ..Pelt::default()
        };
        pelt.sums_from_averages();
        pelt
    }
}

#[cfg(test)]
mod tests;
