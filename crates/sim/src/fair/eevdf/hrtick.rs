//! HRTICK: a timer at the end of the running task's slice, so that it need not wait for a tick.
//!
//! The timer is armed while more than one entity is queued, for the time when the running task reaches its deadline at
//! its present weight (`hrtick_start_fair` as read in 7.3.4; protection that ends earlier has to wait for a tick or a
//! wakeup). It fires in the timer interrupt and always asks for a switch.
//!
//! - Before 7.3 it is armed anew when an entity comes or goes, and at every switch.
//! - In 7.3.4 it stays as it is when possible. An entity that comes arms it only if it is off, and one that goes leaves
//!   it on. A picked task with others waiting moves it only if its slice ends more than 5 us from the armed time.
//!   Idling cancels it.
//!
//! Not modelled: the interrupt that arms it on another CPU.

use crate::fair::entity::Entity;
use crate::fair::group::shares::FINE;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;
use schedlab_kernel::policy::NICE_0_WEIGHT;
use schedlab_world::engine::NEVER;

/// A slice may end this far from the armed time without moving the timer, ns.
const NEAR_NS: u64 = 5_000;
/// The shortest time for which it is armed, ns.
const SHORTEST_NS: u64 = 10_000;

/// Time until the entity's slice ends, ns; `down`: rounded down, as in 7.3.
fn left_ns(e: &Entity, down: bool) -> u64 {
    let virt = (e.deadline - e.vruntime).max(0) as u128;
    let real = if down {
        virt * u128::from(e.line_fine) / u128::from(NICE_0_WEIGHT * FINE)
    } else {
        (virt * u128::from(e.line_weight)).div_ceil(u128::from(NICE_0_WEIGHT))
    };
    (real as u64).max(SHORTEST_NS)
}

impl System<'_> {
    /// An entity has joined the queue of `cpu`, has left it, or stays after it was about to leave (`hrtick_update`).
    pub(super) fn hrtick_update(&mut self, cpu: CpuId, joined: bool) {
        let stays = self.fixed.history.hrtick_stays;
        if !stays || joined && self.cpus[cpu].hrtick_at == NEVER {
            self.hrtick_follow(cpu);
        }
    }

    /// `next` was picked on `cpu` after `prev` (`set_next_task_fair`, `hrtick_schedule_exit`).
    pub(super) fn hrtick_picked(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) {
        if !self.fixed.history.hrtick_stays {
            return self.hrtick_follow(cpu);
        }
        let armed = self.cpus[cpu].hrtick_at;
        let at = match next {
            None => NEVER,
            Some(_) if next == prev => return,
            Some(_) => match self.slice_end(cpu) {
                Some(at) if armed == NEVER || at.abs_diff(armed) > NEAR_NS => at,
                _ => return,
            },
        };
        self.cpus[cpu].hrtick_at = at;
        self.cpus[cpu].hrtick_moved = at != NEVER;
    }

    /// Arms the timer for the running task of `cpu`, or cancels it.
    fn hrtick_follow(&mut self, cpu: CpuId) {
        let armed = self.cpus[cpu].hrtick_at;
        if armed == NEVER && !self.has(Feature::Hrtick) {
            return;
        }
        let at = self.slice_end(cpu).unwrap_or(NEVER);
        if at != armed {
            self.cpus[cpu].hrtick_at = at;
            if cpu != self.stepping.acting {
                self.touch(cpu);
            }
        }
    }

    /// When the running task's slice ends; `None` if no other entity waits for that.
    fn slice_end(&self, cpu: CpuId) -> Option<u64> {
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
        // Its progress was last accounted at `exec_start`.
        waited_for.then(|| e.exec_start + left_ns(e, self.fixed.history.hrtick_stays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::runqueue::CfsRqId;

    #[test]
    fn it_ends_with_the_slice_whatever_is_protected() {
        let mut e = Entity::of_task(TaskId(0), 1024, CfsRqId(0));
        (e.vruntime, e.vprot, e.deadline) = (0, 1_000_000, 2_000_000);
        assert_eq!(left_ns(&e, false), 2_000_000);
        e.set_line_weight(2049 * FINE);
        assert_eq!(left_ns(&e, false), 4_001_954, "rounded up: the slice must be over by then");
        assert_eq!(left_ns(&e, true), 4_001_953, "7.3 rounds down");
        e.deadline = 5;
        assert_eq!(left_ns(&e, true), SHORTEST_NS);
    }
}
