//! A scheduling entity, the element of a cfs_rq: a task or the queue of a group.

use super::group::shares::FINE;
use super::runqueue::CfsRqId;
use crate::pelt::Pelt;
use crate::util_est::UtilEst;
use schedlab_base::{Id, TaskId};
use schedlab_kernel::policy::NICE_0_WEIGHT;

/// The least weight of a group's entity (`scale_load_down`).
const LEAST_WEIGHT: u64 = 2;

/// An entity's place in the arena.
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
    /// The same 1024 times as fine. Only groups' entities have fractions of a weight.
    pub fine_weight: u64,
    /// EEVDF: its weight on its timeline; the same, except where groups above a task divide it (7.3).
    pub line_weight: u64,
    /// The same 1024 times as fine.
    pub line_fine: u64,
    /// Whether it is on its cfs_rq (queued or running).
    pub on_rq: bool,
    /// Start of the running time that is not yet accounted, ns.
    pub exec_start: u64,
    /// CPU time, ns.
    pub sum_exec: u64,
    /// `sum_exec` when it was last picked.
    pub prev_sum_exec: u64,
    /// EEVDF: virtual deadline; while `rel_deadline`, the distance to it. Virtual ns.
    pub deadline: i64,
    /// EEVDF: its lag when it left its queue, virtual ns.
    pub vlag: i64,
    /// EEVDF: the virtual runtime at which slice protection ends.
    pub vprot: i64,
    /// EEVDF: its slice, real ns.
    pub slice_ns: u64,
    /// EEVDF: queued although its task sleeps (DELAY_DEQUEUE).
    pub delayed: bool,
    /// EEVDF: `deadline` is a distance.
    pub rel_deadline: bool,
    /// The queue it is, or would be, on.
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
    /// A task's entity on a queue.
    pub fn of_task(task: TaskId, weight: u64, cfs_rq: CfsRqId) -> Entity {
        Entity {
            vruntime: 0,
            weight,
            fine_weight: weight * FINE,
            line_weight: weight,
            line_fine: weight * FINE,
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
            avg: Pelt::default(),
            est: UtilEst::default(),
        }
    }
    /// A group's entity on the queue `on`, for the group's queue `below`; `parent` is the entity one level up.
    pub fn of_group(below: CfsRqId, on: CfsRqId, parent: Option<EntityId>) -> Entity {
        let of_task = Entity::of_task(TaskId(0), LEAST_WEIGHT, on);
        Entity { my_q: Some(below), parent, task: None, ..of_task }
    }
    /// Gives it another weight.
    pub fn set_weight(&mut self, fine: u64) {
        self.fine_weight = fine;
        self.weight = (fine / FINE).max(if self.my_q.is_some() { LEAST_WEIGHT } else { 0 });
        (self.line_fine, self.line_weight) = (self.fine_weight, self.weight);
    }
    /// Gives it another weight on its timeline.
    pub fn set_line_weight(&mut self, fine: u64) {
        self.line_fine = fine;
        self.line_weight = (fine / FINE).max(LEAST_WEIGHT);
    }
    /// Charges it up to `clock`; returns the time since its last charge, ns. Interrupts are charged to the interrupted
    /// task, as by 2.6.30's only clock and by later kernels without IRQ_TIME_ACCOUNTING.
    #[inline]
    pub fn charge(&mut self, clock: u64, unit: u64) -> u64 {
        let delta = self.charge_time(clock);
        if delta > 0 {
            let virtual_ns = match self.my_q {
                None if self.line_fine == self.fine_weight => virtual_time_in(delta, self.weight, unit),
                None => virtual_time_in(delta, self.line_fine, unit * FINE),
                Some(_) => virtual_time_in(delta, self.fine_weight, unit * FINE),
            };
            self.vruntime += virtual_ns as i64;
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

/// Real time as this weight's virtual time: `delta * 1024 / weight`.
#[inline]
pub fn virtual_time(delta_ns: u64, weight: u64) -> u64 {
    virtual_time_in(delta_ns, weight, NICE_0_WEIGHT)
}

/// Real time as this weight's virtual time: `delta * unit / weight`. `unit` is the weight that ages with the clock.
#[inline]
pub fn virtual_time_in(delta_ns: u64, weight: u64, unit: u64) -> u64 {
    if weight == unit {
        delta_ns
    } else {
        (u128::from(delta_ns) * u128::from(unit) / u128::from(weight)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::virtual_time;

    #[test]
    fn a_heavier_entity_ages_slower() {
        assert_eq!(virtual_time(1_000_000, 1024), 1_000_000);
        assert_eq!(virtual_time(1_000_000, 2048), 500_000);
        assert_eq!(virtual_time(1_000_000, 15), 68_266_666);
    }
}
