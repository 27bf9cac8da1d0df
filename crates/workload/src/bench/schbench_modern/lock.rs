//! One spin lock per CPU. A worker holds it while computing on that CPU.
//!
//! As in the original, a worker tries the lock of the CPU on which it began, and starts over if it is on another CPU
//! when it gets the lock. It spins a microsecond between two tries, so that a simulated wait does not make a thousand
//! events; therefore a waiter may see the release that much later.

use crate::build::Builder;
use crate::op::{Env, Op, WordId};
use schedlab_base::{Ns, cpuset::MAX_CPUS};
use std::sync::atomic::Ordering::SeqCst;

/// Spin time between two tries.
pub const SPIN: Ns = Ns::us(1);

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The locks of all CPUs, and one task's state.
#[derive(Clone)]
pub struct CpuLocks {
    /// The lock of CPU 0; the others follow.
    first: WordId,
    /// The lock that the task wants or holds.
    wanted: Option<WordId>,
}

impl CpuLocks {
    /// Makes a lock for each CPU that a machine can have.
    pub fn new(b: &mut Builder) -> CpuLocks {
        let first = b.word();
        (1..MAX_CPUS).for_each(|_| {
            b.word();
        });
        CpuLocks { first, wanted: None }
    }
    fn here(&self, env: &mut dyn Env) -> WordId {
        WordId(self.first.0 + env.cpu().0 % MAX_CPUS)
    }
    /// Tries to take this CPU's lock. `None`: the task holds it; else the spin after which to call again.
    pub fn take(&mut self, env: &mut dyn Env) -> Option<Op> {
        loop {
            let wanted = match self.wanted {
                Some(wanted) => wanted,
                None => self.here(env),
            };
            self.wanted = Some(wanted);
            if env.word(wanted).compare_exchange(FREE, HELD, SeqCst, SeqCst).is_err() {
                return Some(Op::SpinTo { at: env.now().plus(SPIN) });
            }
            if self.here(env) == wanted {
                return None;
            }
            self.release(env);
        }
    }
    pub fn release(&mut self, env: &mut dyn Env) {
        if let Some(held) = self.wanted.take() {
            env.word(held).store(FREE, SeqCst);
        }
    }
}
