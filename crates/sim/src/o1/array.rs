//! A priority array (`struct prio_array`): a list of tasks for each priority, and a bitmap of the lists that have any.
//!
//! Invariants: a priority's bit is set if and only if its list has a task; `len` counts the tasks of all lists. The
//! running task stays in its list.

use super::prio::MAX_PRIO;
use schedlab_base::TaskId;
use std::collections::VecDeque;

const LISTS: usize = MAX_PRIO as usize;

/// The array. The first task of the lowest-numbered list is the next to run.
#[derive(Clone, Debug)]
pub struct PrioArray {
    len: usize,
    bitmap: [u64; LISTS.div_ceil(64)],
    lists: Vec<VecDeque<TaskId>>,
}

impl Default for PrioArray {
    fn default() -> PrioArray {
        PrioArray { len: 0, bitmap: [0; LISTS.div_ceil(64)], lists: vec![VecDeque::new(); LISTS] }
    }
}

impl PrioArray {
    /// Number of tasks (`nr_active`).
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The tasks of one priority, first to last.
    pub fn list(&self, prio: u8) -> &VecDeque<TaskId> {
        &self.lists[usize::from(prio)]
    }
    /// Puts a task at the end of its list (`enqueue_task`).
    pub fn push(&mut self, prio: u8, task: TaskId) {
        let list = &mut self.lists[usize::from(prio)];
        debug_assert!(!list.contains(&task), "{task:?} is in the list of {prio} twice");
        list.push_back(task);
        self.count_in(prio);
    }
    /// Puts a task directly before another of the same list, or at its end if the other is not there.
    pub fn push_before(&mut self, prio: u8, task: TaskId, other: TaskId) {
        let list = &mut self.lists[usize::from(prio)];
        let at = list.iter().position(|t| *t == other).unwrap_or(list.len());
        list.insert(at, task);
        self.count_in(prio);
    }
    fn count_in(&mut self, prio: u8) {
        self.bitmap[usize::from(prio) / 64] |= 1 << (prio % 64);
        self.len += 1;
    }
    /// Takes a task out of its list (`dequeue_task`); false if it is not there.
    pub fn remove(&mut self, prio: u8, task: TaskId) -> bool {
        let list = &mut self.lists[usize::from(prio)];
        let bit = self.bitmap[usize::from(prio) / 64] >> (prio % 64) & 1 == 1;
        debug_assert!(
            bit != list.is_empty(),
            "priority {prio} has {} tasks, and its bit is {bit}",
            list.len()
        );
        let Some(at) = list.iter().position(|t| *t == task) else { return false };
        list.remove(at);
        if list.is_empty() {
            self.bitmap[usize::from(prio) / 64] &= !(1 << (prio % 64));
        }
        self.len -= 1;
        true
    }
    /// Moves a task to the end of its list (`requeue_task`).
    pub fn requeue(&mut self, prio: u8, task: TaskId) {
        if self.remove(prio, task) {
            self.push(prio, task);
        }
    }
    /// The best priority from `from` on that has a task (`sched_find_first_bit`, `find_next_bit`).
    #[inline]
    pub fn first_from(&self, from: u8) -> Option<u8> {
        let (word, bit) = (usize::from(from) / 64, from % 64);
        let mut left = self.bitmap.get(word)? & (u64::MAX << bit);
        for at in word..self.bitmap.len() {
            if at > word {
                left = self.bitmap[at];
            }
            if left != 0 {
                return Some((at * 64) as u8 + left.trailing_zeros() as u8);
            }
        }
        None
    }
    /// The next task to run, and its priority.
    #[inline]
    pub fn first(&self) -> Option<(u8, TaskId)> {
        let prio = self.first_from(0)?;
        self.list(prio).front().map(|task| (prio, *task))
    }
    /// Every task, best first.
    pub fn iter(&self) -> impl Iterator<Item = (u8, TaskId)> + '_ {
        (0..MAX_PRIO).flat_map(|prio| self.list(prio).iter().map(move |task| (prio, *task)))
    }
    /// Checks the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let listed: usize = self.lists.iter().map(VecDeque::len).sum();
        if listed != self.len {
            return Err(format!("a priority array has {listed} tasks and counts {}", self.len));
        }
        let wrong = |prio: &u8| {
            let bit = self.bitmap[usize::from(*prio) / 64] >> (prio % 64) & 1 == 1;
            bit == self.list(*prio).is_empty()
        };
        match (0..MAX_PRIO).find(wrong) {
            Some(prio) => Err(format!("the bit of priority {prio} does not tell whether its list has tasks")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_best_priority_runs_first_and_equals_in_turn() {
        let mut array = PrioArray::default();
        for (prio, task) in [(120, 1), (115, 2), (120, 3), (139, 4), (115, 5)] {
            array.push(prio, TaskId(task));
        }
        assert_eq!(array.first(), Some((115, TaskId(2))));
        array.requeue(115, TaskId(2));
        assert_eq!(array.first(), Some((115, TaskId(5))));
        assert!(array.remove(115, TaskId(5)) && array.remove(115, TaskId(2)));
        let order: Vec<u32> = array.iter().map(|(_, t)| t.0).collect();
        assert_eq!((order, array.len()), (vec![1, 3, 4], 3));
        assert!(!array.remove(120, TaskId(9)));
        assert_eq!([0, 120, 121, 139].map(|from| array.first_from(from)), [120, 120, 139, 139].map(Some));
    }

    #[test]
    fn a_forked_process_stands_right_before_its_parent() {
        let mut array = PrioArray::default();
        (1..4).for_each(|t| array.push(120, TaskId(t)));
        array.push_before(120, TaskId(4), TaskId(2));
        array.push_before(120, TaskId(5), TaskId(9));
        let order: Vec<u32> = array.list(120).iter().map(|t| t.0).collect();
        assert_eq!(order, [1, 4, 2, 3, 5]);
        array.check().unwrap();
    }

    proptest! {
        #[test]
        fn bits_counts_and_lists_agree(acts in prop::collection::vec((100u8..140, 0u32..12), 1..200)) {
            let mut array = PrioArray::default();
            let mut at: Vec<Option<u8>> = vec![None; 12];
            for (prio, task) in acts {
                match at[task as usize].take() {
                    Some(old) => prop_assert!(array.remove(old, TaskId(task))),
                    None => {
                        array.push(prio, TaskId(task));
                        at[task as usize] = Some(prio);
                    }
                }
                prop_assert_eq!(array.check(), Ok(()));
                prop_assert_eq!(array.first().map(|(prio, _)| prio), at.iter().flatten().min().copied());
                prop_assert!(array.iter().map(|(prio, _)| prio).is_sorted());
            }
        }
    }
}
