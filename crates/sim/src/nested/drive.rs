//! A vCPU from inside: it continues, and stands still. The host's side is the board's
//! ([`schedlab_board::nested::drive`]).

use crate::frame::Step;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_board::board::Context;
use schedlab_board::drivers::UserMode;
use schedlab_board::engine::NEVER;
use schedlab_board::speed::Speed;

impl System<'_> {
    /// The vCPU continues after `stood_ns`: what it was doing takes that much longer.
    pub(super) fn resume(&mut self, vcpu: CpuId, stood_ns: u64, speed: Speed) {
        if let Some(hosted) = &mut self.hosted {
            hosted.runs[vcpu.index()] = true;
            hosted.speed[vcpu.index()] = speed;
        }
        let c = &mut self.cpus[vcpu];
        let frame = match (c.hard.active(), c.soft.active()) {
            (true, _) => &mut c.hard,
            (false, true) => &mut c.soft,
            (false, false) => &mut c.task,
        };
        match frame.step {
            Step::User => self.start_user(vcpu),
            // Its timers have continued.
            Step::Halted { .. } => {}
            _ if frame.ends != NEVER => frame.ends += stood_ns,
            _ => {}
        }
        for context in [Context::Task, Context::Hard] {
            // A vCPU is taken off before it takes a lock, not while it has one.
            self.cpus[vcpu].waking[context as usize].put_off(stood_ns);
        }
    }

    /// The vCPU stands still from this instant on.
    pub(super) fn stand_still(&mut self, vcpu: CpuId) {
        self.account_user(vcpu);
        if let Some(hosted) = &mut self.hosted {
            hosted.runs[vcpu.index()] = false;
        }
    }
}
