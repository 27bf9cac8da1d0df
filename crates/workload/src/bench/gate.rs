//! The gate that times programs which end by themselves: a common start, and an end that the last task notes.
//!
//! All tasks gather at the gate. The last one to arrive notes the time, opens the gate and wakes the others. When they
//! are done they leave one by one, and the last one gets the elapsed time.

use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

const SHUT: u32 = 0;
const OPEN: u32 = 1;

/// The state that the tasks of a gate share.
#[derive(Clone, Copy)]
pub struct Gate {
    /// Number of tasks.
    size: u32,
    arrived: SlotId,
    left: SlotId,
    /// Opening time, ns.
    opened: SlotId,
    word: WordId,
}

enum State {
    Outside,
    AtGate,
    Inside,
}

/// One task's passage through a gate.
pub struct Pass {
    gate: Gate,
    state: State,
}

impl Gate {
    pub fn new(size: usize, b: &mut Builder) -> Gate {
        Gate { size: size as u32, arrived: b.slot(), left: b.slot(), opened: b.slot(), word: b.word() }
    }
    pub fn pass(self) -> Pass {
        Pass { gate: self, state: State::Outside }
    }
    /// Whether the caller is the last task to increase `counter`.
    fn last(&self, counter: SlotId, env: &mut dyn Env) -> bool {
        env.slot(counter).fetch_add(1, SeqCst) + 1 == u64::from(self.size)
    }
}

impl Pass {
    /// The next operation; `None` once the gate is open.
    pub fn enter(&mut self, env: &mut dyn Env) -> Option<Op> {
        let Gate { size, arrived, opened, word, .. } = self.gate;
        match self.state {
            State::Inside => return None,
            State::Outside if self.gate.last(arrived, env) => {
                self.state = State::Inside;
                let now = env.now();
                env.slot(opened).store(now.0, SeqCst);
                env.word(word).store(OPEN, SeqCst);
                return Some(Op::Wake { word, count: size });
            }
            State::Outside => self.state = State::AtGate,
            State::AtGate if env.word(word).load(SeqCst) == SHUT => {} // woken by a signal or spuriously
            State::AtGate => {
                self.state = State::Inside;
                return None;
            }
        }
        Some(Op::Wait { word, value: SHUT, until: Ns::MAX })
    }
    /// Leaves. The last task gets the time since the gate was opened.
    pub fn leave(&self, env: &mut dyn Env) -> Option<Ns> {
        if !self.gate.last(self.gate.left, env) {
            return None;
        }
        let now = env.now();
        Some(now.since(Ns(env.slot(self.gate.opened).load(SeqCst))))
    }
}
