//! A scheduling entity, the element of a cfs_rq: a task or the queue of a group.

use super::group::shares::FINE;
use super::runqueue::CfsRqId;
use super::slope::{Bearer, Slope, whole};
use crate::pelt::Pelt;
use crate::util_est::UtilEst;
use schedlab_base::{Id, TaskId};
use schedlab_kernel::History;

/// The weight of a group's entity until its shares are computed, 1024 times as fine.
const LEAST_WEIGHT: u64 = 2 * FINE;

/// The initial vruntime of a group's entities, virtual ns: far behind a queue whose CPU has run for long, as all CPUs
/// have at time 0. Profiles before 5.10 keep 0, so that a group's first task has less than a sleeper's credit there.
const GROUP_VRUNTIME: i64 = -1_000_000_000;

/// An entity's index in the arena.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EntityId(pub u32);

impl Id for EntityId {
    #[inline]
    fn at(self) -> usize {
        self.0 as usize
    }
    #[inline]
    fn of(at: usize) -> EntityId {
        EntityId(at as u32)
    }
}

/// A scheduling entity (`struct sched_entity`).
#[derive(Clone, Debug)]
pub struct Entity {
    /// Virtual runtime, ns at nice 0.
    pub vruntime: i64,
    /// Load weight, 1024 at nice 0.
    pub weight: u64,
    /// The weight 1024 times as fine. Only groups' entities have fractions of a weight.
    pub fine_weight: u64,
    /// EEVDF: its weight in its timeline's sums; equal to `weight`, but fine where groups above tasks divide weights
    /// (7.3).
    pub line_weight: u64,
    /// `line_weight` 1024 times as fine.
    pub line_fine: u64,
    /// Converts real time to the virtual time of `line_fine`.
    pub slope: Slope,
    /// Whether the slope uses the weight's inverse.
    by_inverse: bool,
    /// Whether its timeline has fine weights.
    fine_line: bool,
    /// Whether it is on its cfs_rq (queued or running).
    pub on_rq: bool,
    /// Start of the running time that is not yet accounted, ns.
    pub exec_start: u64,
    /// CPU time, ns.
    pub sum_exec: u64,
    /// `sum_exec` when it was last picked.
    pub prev_sum_exec: u64,
    /// EEVDF: virtual deadline, or the distance to it if `rel_deadline`. Virtual ns.
    pub deadline: i64,
    /// EEVDF: its lag when it left its queue, virtual ns.
    pub vlag: i64,
    /// EEVDF: the virtual runtime at which slice protection ends.
    pub vprot: i64,
    /// EEVDF: its slice, real ns.
    pub slice_ns: u64,
    /// EEVDF: whether it is queued although its task sleeps (DELAY_DEQUEUE).
    pub delayed: bool,
    /// EEVDF: whether `deadline` is a distance.
    pub rel_deadline: bool,
    /// The queue that it is on, or would be on.
    pub cfs_rq: CfsRqId,
    /// The queue of the group, if the entity is a group's.
    pub my_q: Option<CfsRqId>,
    /// The group's entity one level up.
    pub parent: Option<EntityId>,
    /// The task, if it is a task's.
    pub task: Option<TaskId>,
    /// Load tracking.
    pub avg: Pelt,
    /// Utilisation estimate from its last sleep, for a task (4.17+).
    pub est: UtilEst,
}

impl Entity {
    pub fn of_task(task: TaskId, weight: u64, cfs_rq: CfsRqId, history: &History) -> Entity {
        let mut e = Entity {
            vruntime: 0,
            weight,
            fine_weight: weight * FINE,
            line_weight: weight,
            line_fine: weight * FINE,
            slope: Slope::exact(weight * FINE),
            by_inverse: history.delta_by_inverse,
            fine_line: history.flat_pick,
            on_rq: false,
            exec_start: 0,
            sum_exec: 0,
            prev_sum_exec: 0,
            deadline: 0,
            vlag: 0,
            vprot: 0,
            slice_ns: 0,
            delayed: false,
            rel_deadline: false,
            cfs_rq,
            my_q: None,
            parent: None,
            task: Some(task),
            avg: Pelt { left_out: u32::from(history.load_sum_unweighted), ..Pelt::default() },
            est: UtilEst::default(),
        };
        e.set_weight(weight * FINE);
        e
    }
    /// A group's entity on the queue `on`, for the group's queue `below`; `parent` is the entity one level up.
    pub fn of_group(below: CfsRqId, on: CfsRqId, parent: Option<EntityId>, history: &History) -> Entity {
        let of_task = Entity::of_task(TaskId(0), 0, on, history);
        let vruntime = if history.same_prio_stays { GROUP_VRUNTIME } else { 0 };
        let mut e = Entity { vruntime, my_q: Some(below), parent, task: None, ..of_task };
        e.set_weight(LEAST_WEIGHT);
        e
    }
    /// Gives it another weight.
    pub fn set_weight(&mut self, fine: u64) {
        self.fine_weight = fine;
        self.weight = whole(fine);
        if self.avg.left_out > 0 {
            self.avg.left_out = self.weight as u32;
        }
        (self.line_fine, self.line_weight) = (fine, if self.fine_line { fine } else { self.weight });
        let bearer = if self.my_q.is_some() { Bearer::Group } else { Bearer::Task };
        self.slope = if self.by_inverse { Slope::by_inverse(fine, bearer) } else { Slope::exact(fine) };
    }
    /// Gives it another weight on its timeline.
    pub fn set_line_weight(&mut self, fine: u64) {
        self.line_fine = fine;
        self.line_weight = if self.fine_line { fine } else { whole(fine) };
        self.slope = Slope::exact(fine);
    }
    /// Charges it up to `clock`; returns the time since its last charge, ns. Interrupts are charged to the interrupted
    /// task, as with 2.6.30's only clock and in later kernels without IRQ_TIME_ACCOUNTING.
    #[inline]
    pub fn charge(&mut self, clock: u64, unit: u64) -> u64 {
        let delta = self.charge_time(clock);
        if delta > 0 {
            self.vruntime += self.slope.virtual_ns_in(delta, unit) as i64;
        }
        delta
    }
    /// The same without virtual time, for a task of another class.
    #[inline]
    pub fn charge_time(&mut self, clock: u64) -> u64 {
        let delta = clock.saturating_sub(self.exec_start);
        if delta > 0 {
            self.exec_start = clock;
            self.sum_exec += delta;
        }
        delta
    }
    /// CPU time since it was last picked, ns (not since it last slept).
    #[inline]
    pub fn ran_since_pick(&self) -> u64 {
        self.sum_exec - self.prev_sum_exec
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    #[test]
    fn virtual_time_is_by_the_inverse_of_the_weight_from_5_10_to_7_2() {
        for (version, vruntime) in [
            (Version::new(4, 19), 93_090_909),
            (Version::new(6, 1), 93_090_908),
            (Version::new(7, 3), 93_090_909),
        ] {
            let mut e = Entity::of_task(TaskId(0), 110, CfsRqId(0), &History::of(version));
            e.charge(10_000_000, 1024);
            assert_eq!(e.vruntime, vruntime, "{version}");
        }
    }
}
