//! The high-resolution tick of a runqueue: a timer that ends a slice between two ticks (`hrtick`, `core.c`).
//!
//! Only [`crate::fair::eevdf`] arms it (`hrtick_at`). It fires in the timer interrupt and always requests a switch.

use crate::system::System;
use schedlab_base::CpuId;
use schedlab_board::engine::NEVER;
use schedlab_trace::SwitchReason;

impl System<'_> {
    /// Handles the timer of `cpu` if it has fired.
    pub fn hrtick(&mut self, cpu: CpuId) {
        if self.cpus[cpu].hrtick_at > self.now {
            return;
        }
        self.cpus[cpu].hrtick_at = NEVER;
        if let Some(curr) = self.cpus[cpu].curr {
            self.task_tick(curr);
            self.resched(cpu, cpu, SwitchReason::TickSlice);
        }
    }

    /// Time spent by the coming switch on arming the timer, ns.
    pub fn hrtick_ns(&mut self, cpu: CpuId) -> u64 {
        let c = &mut self.cpus[cpu];
        let moved = std::mem::take(&mut c.hrtick_moved);
        let sets = if self.fixed.history.hrtick_stays { moved } else { c.hrtick_at != NEVER };
        if sets { self.fixed.machine.costs.hrtick_ns } else { 0 }
    }
}
