//! HRTICK: a timer at the end of the running task's slice, so that the switch need not wait for a tick.
//!
//! The timer is armed while more than one entity is queued (`hrtick_start_fair`; if protection ends earlier, that has
//! to wait for a tick or a wakeup). It fires in the timer interrupt and always requests a switch.
//!
//! - Before 7.3 (read in 6.12.117) it is armed for the slice minus the time that the task has run since its pick, at
//!   every pick, and again when an entity comes or goes. If the task has already run for longer, a switch is requested
//!   at once.
//! - In 7.3.4 it is armed for the time when the task reaches its deadline at its current weight, and is left alone when
//!   possible. An entity that comes arms it only if it is off, and one that goes leaves it on. A picked task with
//!   others waiting moves it only if its slice ends more than 5 us from the armed time. Going idle cancels it.
//!
//! Another CPU's timer is armed by an interrupt (`hrtick_csd`). At the end of that interrupt the CPU obeys a lazy
//! request for a switch. Not modelled: the time of the sender.

use crate::fair::entity::Entity;
use crate::fair::group::shares::FINE;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::engine::NEVER;
use schedlab_kernel::Feature;
use schedlab_kernel::policy::NICE_0_WEIGHT;
use schedlab_trace::SwitchReason;

/// A slice may end this far from the armed time without moving the timer, ns.
const NEAR_NS: u64 = 5_000;
/// The shortest time for which it is armed, ns.
const SHORTEST_NS: u64 = 10_000;

/// Time until an entity reaches its deadline, ns (7.3).
fn until_deadline_ns(e: &Entity) -> u64 {
    let virt = (e.deadline - e.vruntime).max(0) as u128;
    let real = virt * u128::from(e.line_fine) / u128::from(NICE_0_WEIGHT * FINE);
    (real as u64).max(SHORTEST_NS)
}

/// Time until an entity has run for its slice since it was picked, ns; `None` if it has run for longer (before 7.3).
fn left_of_slice_ns(e: &Entity) -> Option<u64> {
    e.slice_ns.checked_sub(e.ran_since_pick()).map(|left| left.max(SHORTEST_NS))
}

impl System<'_> {
    /// An entity has joined or left the queue of `cpu`, or stays after it was about to leave (`hrtick_update`).
    pub(super) fn hrtick_update(&mut self, cpu: CpuId, joined: bool) {
        let stays = self.fixed.history.hrtick_stays;
        if !self.has(Feature::Hrtick) || stays && !(joined && self.cpus[cpu].hrtick_at == NEVER) {
            return;
        }
        match self.slice_end(cpu) {
            None => {}
            Some(SliceEnd::At(at)) if at == self.cpus[cpu].hrtick_at => {}
            Some(SliceEnd::At(at)) => {
                self.cpus[cpu].hrtick_at = at;
                if cpu != self.stepping.acting {
                    self.kick(self.stepping.acting, cpu);
                }
            }
            Some(SliceEnd::Over) => {
                self.resched(self.stepping.acting, cpu, SwitchReason::TickSlice);
            }
        }
    }

    /// `next` was picked on `cpu` after `prev` (`set_next_task_fair`, `hrtick_schedule_exit`).
    pub(super) fn hrtick_picked(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) {
        let armed = self.cpus[cpu].hrtick_at;
        let end = match self.slice_end(cpu) {
            Some(SliceEnd::At(at)) => Some(at),
            // A request for a switch during a switch is lost.
            Some(SliceEnd::Over) | None => None,
        };
        if !self.fixed.history.hrtick_stays {
            // `schedule()` first cancels the timer.
            self.cpus[cpu].hrtick_at = end.unwrap_or(NEVER);
            return;
        }
        let at = match next {
            None => NEVER,
            Some(_) if next == prev => return,
            Some(_) => match end {
                Some(at) if armed == NEVER || at.abs_diff(armed) > NEAR_NS => at,
                _ => return,
            },
        };
        self.cpus[cpu].hrtick_at = at;
        self.cpus[cpu].hrtick_moved = at != NEVER;
    }

    /// The end of the running task's slice; `None` if no other entity waits for it.
    fn slice_end(&self, cpu: CpuId) -> Option<SliceEnd> {
        let mut queue = self.root(cpu);
        let e = loop {
            // The queue's current entity, not the CPU's current task: in `schedule()` that is still the previous one.
            let e = &self.fair.entities[self.fair.queues[queue].curr?];
            match e.my_q {
                Some(below) => queue = below,
                None => break e,
            }
        };
        let waited_for = self.has(Feature::Hrtick) && e.on_rq && self.nr_on_line(self.root(cpu)) > 1;
        let left_ns = || match self.fixed.history.hrtick_stays {
            true => Some(until_deadline_ns(e)),
            false => left_of_slice_ns(e),
        };
        // Its progress was last accounted at `exec_start`.
        let end = || left_ns().map_or(SliceEnd::Over, |ns| SliceEnd::At(e.exec_start + ns));
        waited_for.then(end)
    }
}

enum SliceEnd {
    /// At this time, ns.
    At(u64),
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::runqueue::CfsRqId;
    use schedlab_base::Version;
    use schedlab_kernel::History;

    fn of_weight(weight: u64) -> Entity {
        Entity::of_task(TaskId(0), weight, CfsRqId(0), &History::of(Version::new(7, 3)))
    }

    #[test]
    fn the_timer_ends_with_the_slice_despite_protection() {
        let mut e = of_weight(1024);
        (e.vruntime, e.vprot, e.deadline) = (0, 1_000_000, 2_000_000);
        assert_eq!(until_deadline_ns(&e), 2_000_000);
        e.set_line_weight(2049 * FINE);
        assert_eq!(until_deadline_ns(&e), 4_001_953, "rounded down");
        e.deadline = 5;
        assert_eq!(until_deadline_ns(&e), SHORTEST_NS);
    }

    #[test]
    fn before_7_3_weight_does_not_count_and_a_slice_may_be_over() {
        let mut e = of_weight(2048);
        (e.deadline, e.slice_ns, e.prev_sum_exec, e.sum_exec) = (2_000_000, 3_000_000, 5_000_000, 6_000_000);
        assert_eq!(left_of_slice_ns(&e), Some(2_000_000));
        e.sum_exec = 8_000_000;
        assert_eq!(left_of_slice_ns(&e), Some(SHORTEST_NS));
        e.sum_exec += 1;
        assert_eq!(left_of_slice_ns(&e), None);
    }
}
