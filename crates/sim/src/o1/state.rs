//! State: a CPU's two arrays, and the scheduler's data of a task.

use super::array::PrioArray;
use super::bonus::Sleep;
use super::prio::{MAX_PRIO, static_prio};
use schedlab_base::TaskId;
use schedlab_kernel::Attr;

/// The arrays of one CPU (the O(1) scheduler's part of `struct runqueue`).
#[derive(Clone, Debug)]
pub struct O1Rq {
    arrays: [PrioArray; 2],
    active: u8,
    /// When the first task expired since the arrays were swapped, ticks (`expired_timestamp`).
    pub expired_since: Option<u64>,
    /// The best static priority that has expired since then; 140 for none (`best_expired_prio`).
    pub best_expired: u8,
    /// The time of the last tick, ns (`timestamp_last_tick`).
    pub last_tick_ns: u64,
    /// The sum of its tasks' weights (`raw_weighted_load`).
    pub weight: u64,
}

impl Default for O1Rq {
    fn default() -> O1Rq {
        O1Rq {
            arrays: [PrioArray::default(), PrioArray::default()],
            active: 0,
            expired_since: None,
            best_expired: MAX_PRIO,
            last_tick_ns: 0,
            weight: 0,
        }
    }
}

impl O1Rq {
    /// The number of the active array, or of the expired one.
    #[inline]
    pub fn number(&self, expired: bool) -> u8 {
        self.active ^ u8::from(expired)
    }
    /// Whether the array of that number is the expired one.
    #[inline]
    pub fn is_expired(&self, number: u8) -> bool {
        number != self.active
    }
    /// The active array, or the expired one.
    #[inline]
    pub fn array(&self, expired: bool) -> &PrioArray {
        &self.arrays[usize::from(self.number(expired))]
    }
    /// The same, mutable.
    #[inline]
    pub fn array_mut(&mut self, expired: bool) -> &mut PrioArray {
        &mut self.arrays[usize::from(self.number(expired))]
    }
    #[inline]
    pub fn numbered(&mut self, number: u8) -> &mut PrioArray {
        &mut self.arrays[usize::from(number)]
    }
    /// Number of tasks in both.
    #[inline]
    pub fn len(&self) -> usize {
        self.arrays[0].len() + self.arrays[1].len()
    }
    /// Whether neither has a task.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Swaps the arrays if the active one is empty. Returns the next task to run, with its priority.
    pub fn first(&mut self) -> Option<(u8, TaskId)> {
        if self.array(false).is_empty() && !self.is_empty() {
            self.active ^= 1;
            self.expired_since = None;
            self.best_expired = MAX_PRIO;
        }
        self.array(false).first()
    }
    /// A task of this static priority expires.
    pub fn note_expired(&mut self, static_prio: u8) {
        self.best_expired = self.best_expired.min(static_prio);
    }
}

/// The scheduler's data of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct O1Task {
    pub prio: u8,
    /// The number of the array that it is in.
    pub array: Option<u8>,
    /// Whether it was in the expired array when it left for another CPU.
    pub was_expired: bool,
    /// Whether the slice is its first one (`first_time_slice`).
    pub first_slice: bool,
    /// The kind of its last sleep.
    pub sleep: Sleep,
    /// Ticks left of its slice (`time_slice`).
    pub left: u64,
    /// Its average of sleep, ns (`sleep_avg`).
    pub avg_ns: u64,
    /// When it was last switched, woken or created, ns (`timestamp`).
    pub since_ns: u64,
    /// When it was last switched out, ns (`last_ran`).
    pub last_ran_ns: u64,
    /// Its weight, while it is queued.
    pub weight: u64,
    pub parent: Option<TaskId>,
}

impl O1Task {
    /// A task without a parent: it has not slept yet.
    pub fn new(attr: Attr) -> O1Task {
        O1Task {
            prio: static_prio(attr.nice),
            array: None,
            was_expired: false,
            first_slice: false,
            sleep: Sleep::Normal,
            left: 0,
            avg_ns: 0,
            since_ns: 0,
            last_ran_ns: 0,
            weight: 0,
            parent: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrays_change_places_when_the_active_one_is_empty() {
        let mut rq = O1Rq::default();
        assert_eq!(rq.first(), None);
        rq.array_mut(true).push(125, TaskId(1));
        rq.array_mut(false).push(120, TaskId(2));
        (rq.expired_since, rq.best_expired) = (Some(7), 120);
        assert_eq!((rq.first(), rq.expired_since), (Some((120, TaskId(2))), Some(7)));
        rq.array_mut(false).remove(120, TaskId(2));
        assert_eq!(rq.first(), Some((125, TaskId(1))));
        assert_eq!((rq.expired_since, rq.best_expired, rq.len()), (None, MAX_PRIO, 1));
        assert!(rq.is_expired(rq.number(true)) && rq.array(true).is_empty());
    }
}
