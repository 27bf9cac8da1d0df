//! The priority array: tasks by rank, first come first served within a rank (`struct rt_prio_array`).
//!
//! The kernel has 100 lists and a bitmap; here one vector holds the tasks in the order in which they run. The running
//! task stays in it.

use super::Rank;
use schedlab_base::TaskId;

#[derive(Clone, Debug, Default)]
pub struct PrioArray {
    tasks: Vec<(Rank, TaskId)>,
}

impl PrioArray {
    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
    /// Tasks in the order in which they will run.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, TaskId)> + '_ {
        self.tasks.iter().copied()
    }
    #[inline]
    pub fn first(&self) -> Option<TaskId> {
        self.tasks.first().map(|(_, t)| *t)
    }
    /// Its rank; [`Rank::NONE`] without any.
    #[inline]
    pub fn highest(&self) -> Rank {
        self.tasks.first().map_or(Rank::NONE, |(r, _)| *r)
    }
    /// The rank of the second task (`highest_prio.next`).
    pub fn next(&self) -> Rank {
        self.tasks.get(1).map_or(Rank::NONE, |(r, _)| *r)
    }
    /// Adds a task after, or before, all others of its rank.
    pub fn insert(&mut self, rank: Rank, task: TaskId, at_head: bool) {
        let at = if at_head {
            self.tasks.partition_point(|(r, _)| *r < rank)
        } else {
            self.tasks.partition_point(|(r, _)| *r <= rank)
        };
        debug_assert!(
            !self.tasks.iter().any(|(_, t)| *t == task),
            "{task:?} is queued twice, now at {rank:?}"
        );
        self.tasks.insert(at, (rank, task));
        debug_assert!(self.tasks.is_sorted_by_key(|(r, _)| *r), "ranks are out of order: {:?}", self.tasks);
    }
    /// Removes a task; returns its rank.
    pub fn remove(&mut self, task: TaskId) -> Rank {
        let at = self.tasks.iter().position(|(_, t)| *t == task);
        let at = at.unwrap_or_else(|| panic!("{task:?} is not in the array"));
        self.tasks.remove(at).0
    }
    /// Moves a task after, or before, all others of its rank (`requeue_task_rt`).
    pub fn requeue(&mut self, task: TaskId, at_head: bool) {
        let rank = self.remove(task);
        self.insert(rank, task, at_head);
    }
    /// Whether another task has the same rank as this one.
    pub fn has_equal(&self, task: TaskId) -> bool {
        let own = self.tasks.iter().find(|(_, t)| *t == task).map(|(r, _)| *r);
        self.tasks.iter().any(|(r, t)| Some(*r) == own && *t != task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(tasks: &[(u8, u32)]) -> PrioArray {
        let mut array = PrioArray::default();
        tasks.iter().for_each(|(rank, task)| array.insert(Rank(*rank), TaskId(*task), false));
        array
    }

    fn order(array: &PrioArray) -> Vec<u32> {
        array.iter().map(|(_, t)| t.0).collect()
    }

    #[test]
    fn the_most_important_comes_first_and_equals_in_order_of_arrival() {
        let a = array(&[(50, 1), (10, 2), (50, 3), (10, 4)]);
        assert_eq!(order(&a), [2, 4, 1, 3]);
        assert_eq!((a.highest(), a.next()), (Rank(10), Rank(10)));
        assert_eq!((array(&[]).highest(), array(&[(7, 1)]).next()), (Rank::NONE, Rank::NONE));
    }

    #[test]
    fn a_requeued_task_goes_behind_or_before_its_equals() {
        let mut a = array(&[(10, 1), (10, 2), (20, 3)]);
        a.requeue(TaskId(1), false);
        assert_eq!(order(&a), [2, 1, 3]);
        a.requeue(TaskId(1), true);
        assert_eq!(order(&a), [1, 2, 3]);
        assert!(a.has_equal(TaskId(2)) && !a.has_equal(TaskId(3)));
    }
}
