//! A thread of the pool: requests, marking, and how the world is stopped.
//!
//! Threads count as active while they may run anything. One that comes to rest takes itself off that number and then
//! looks whether the world is to stand; the one that stops the world says so first and then looks at the number. So one
//! of the two always sees the other.

use super::{OPEN, Pool, Words};
use crate::op::{Env, Op, Program, SlotId};
use schedlab_base::Ns;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone, Copy)]
enum State {
    /// It is about to run: at the start, after a rest, after a stop.
    Wake,
    /// It looks for something to do; a safepoint.
    Look,
    /// It has come to rest, and waits until the world runs.
    Rests(Doing),
    /// As `Wake`, with work in hand.
    Resumes(Doing),
    /// It waits for the bell.
    Idles,
    Works(Doing),
    /// It stops the world; whether that is the first stop of a collection.
    Stops(bool, Ns),
    /// It works while the world stands.
    Stands(bool, Ns),
    /// The world runs: it wakes the others.
    Starts(bool),
    /// It has rung the bell, and those who wait are woken.
    Rings,
}

/// Work in hand.
#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    /// A part of a request, and what is left of it.
    Part {
        request: u64,
        left: Ns,
    },
    /// A piece of marking.
    Piece {
        left: Ns,
    },
}

/// A thread of the pool.
pub(super) struct Thread {
    pool: Arc<Pool>,
    state: State,
    /// The collection to which it is dedicated.
    cycle: u64,
    /// What it has marked in this collection, for its fraction.
    marked: Ns,
}

impl Program for Thread {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            if let Some(op) = self.step(env) {
                return op;
            }
        }
    }
}

impl Thread {
    pub fn of(pool: &Arc<Pool>) -> Thread {
        Thread { pool: pool.clone(), state: State::Wake, cycle: 0, marked: Ns::ZERO }
    }
    fn step(&mut self, env: &mut dyn Env) -> Option<Op> {
        match self.state {
            State::Wake => {
                env.slot(self.pool.words.active).fetch_add(1, SeqCst);
                self.state = State::Look;
                None
            }
            State::Look => self.look(env),
            State::Rests(doing) => self.rests(doing, env),
            State::Resumes(doing) => {
                env.slot(self.pool.words.active).fetch_add(1, SeqCst);
                self.goes_on(doing, env)
            }
            State::Idles => {
                env.slot(self.pool.words.idle).fetch_sub(1, SeqCst);
                self.state = State::Wake;
                None
            }
            State::Works(doing) => self.worked(doing, env),
            State::Stops(first, since) => self.stops(first, since, env),
            State::Stands(first, since) => Some(self.stood(first, since, env)),
            State::Starts(first) => self.starts(first, env),
            State::Rings => {
                self.state = State::Look;
                Some(Op::Wake { word: self.pool.words.bell, count: self.pool.threads as u32 })
            }
        }
    }

    /// Whether the world is to stand.
    fn is_to_stand(&self, env: &mut dyn Env) -> bool {
        env.word(self.pool.words.stop).load(SeqCst) == 1
    }

    /// Comes to rest; returns a wake of the thread that waits for this.
    fn comes_to_rest(&self, env: &mut dyn Env) -> Option<Op> {
        let Words { active, quiet, .. } = self.pool.words;
        // Count first, then look: the thread that stops the world does the reverse.
        env.slot(active).fetch_sub(1, SeqCst);
        self.is_to_stand(env).then(|| {
            env.word(quiet).fetch_add(1, SeqCst);
            Op::Wake { word: quiet, count: 1 }
        })
    }

    /// A safepoint with work in hand, or none.
    fn goes_on(&mut self, doing: Doing, env: &mut dyn Env) -> Option<Op> {
        if self.is_to_stand(env) {
            self.state = State::Rests(doing);
            return self.comes_to_rest(env);
        }
        self.state = match doing {
            Doing::Nothing => State::Look,
            _ => State::Works(doing),
        };
        self.chunk()
    }

    fn rests(&mut self, doing: Doing, env: &mut dyn Env) -> Option<Op> {
        if self.is_to_stand(env) {
            return Some(Op::Wait { word: self.pool.words.stop, value: 1, until: Ns::MAX });
        }
        self.state = State::Resumes(doing);
        None
    }

    /// The next stretch of the work in hand, up to a safepoint.
    fn chunk(&self) -> Option<Op> {
        match self.state {
            State::Works(Doing::Part { left, .. } | Doing::Piece { left }) => {
                Some(Op::Run { work: left.min(self.pool.safepoint) })
            }
            _ => None,
        }
    }

    fn look(&mut self, env: &mut dyn Env) -> Option<Op> {
        if self.is_to_stand(env) {
            return self.goes_on(Doing::Nothing, env);
        }
        let marking = env.slot(self.pool.words.marking).load(SeqCst);
        if marking != 0 && self.marks_first(marking, env) && self.take_piece(env) {
            return self.chunk();
        }
        if self.take_part(env) || (marking != 0 && self.take_piece(env)) {
            return self.chunk();
        }
        self.idles(env)
    }

    /// Whether it marks although requests may wait.
    fn marks_first(&mut self, marking: u64, env: &mut dyn Env) -> bool {
        if self.cycle != marking {
            self.cycle = marking;
            let place = env.slot(self.pool.words.dedicated).fetch_add(1, SeqCst);
            self.marked = if place < self.pool.dedicated() { Ns::MAX } else { Ns::ZERO };
        }
        if self.marked == Ns::MAX {
            return true;
        }
        let began = Ns(env.slot(self.pool.words.began).load(SeqCst));
        !self.pool.has_marked(self.marked, env.now().since(began))
    }

    /// Takes one of what `most` are, if any is left.
    fn take(taken: SlotId, most: u64, env: &mut dyn Env) -> Option<u64> {
        let taken = env.slot(taken);
        let mut next = taken.load(SeqCst);
        while next < most {
            match taken.compare_exchange(next, next + 1, SeqCst, SeqCst) {
                Ok(_) => return Some(next),
                Err(seen) => next = seen,
            }
        }
        None
    }

    fn take_part(&mut self, env: &mut dyn Env) -> bool {
        let arrived = env.slot(self.pool.words.arrived).load(SeqCst);
        let Some(part) = Self::take(self.pool.words.taken, arrived, env) else { return false };
        let request = part / self.pool.parts;
        self.state = State::Works(Doing::Part { request, left: self.pool.part(request) });
        true
    }

    fn take_piece(&mut self, env: &mut dyn Env) -> bool {
        if Self::take(self.pool.words.pieces, self.pool.all_pieces(), env).is_none() {
            return false;
        }
        self.state = State::Works(Doing::Piece { left: self.pool.safepoint });
        true
    }

    fn idles(&mut self, env: &mut dyn Env) -> Option<Op> {
        let Words { arrived, taken, bell, idle, marking, pieces, .. } = self.pool.words;
        env.slot(idle).fetch_add(1, SeqCst);
        let value = env.word(bell).load(SeqCst);
        let waits = env.slot(taken).load(SeqCst) >= env.slot(arrived).load(SeqCst);
        let marks =
            env.slot(marking).load(SeqCst) != 0 && env.slot(pieces).load(SeqCst) < self.pool.all_pieces();
        if !waits || marks {
            env.slot(idle).fetch_sub(1, SeqCst);
            return None;
        }
        self.state = State::Idles;
        if let Some(wake) = self.comes_to_rest(env) {
            // It waits at its next step: the bell may have rung meanwhile.
            return Some(wake);
        }
        Some(Op::Wait { word: bell, value, until: Ns::MAX })
    }

    /// A stretch of work has ended, at a safepoint.
    fn worked(&mut self, doing: Doing, env: &mut dyn Env) -> Option<Op> {
        let left = |left: Ns| left.since(left.min(self.pool.safepoint));
        match doing {
            Doing::Part { request, left: had } if left(had) > Ns::ZERO => {
                self.goes_on(Doing::Part { request, left: left(had) }, env)
            }
            Doing::Part { request, .. } => self.served(request, env),
            Doing::Piece { .. } | Doing::Nothing => self.marked_piece(env),
        }
    }

    fn served(&mut self, request: u64, env: &mut dyn Env) -> Option<Op> {
        let Words { served, collects, .. } = self.pool.words;
        self.state = State::Look;
        let open = self.pool.words.open[request as usize % OPEN];
        if env.slot(open).fetch_add(1, SeqCst) + 1 < self.pool.parts {
            return None;
        }
        env.slot(open).store(0, SeqCst);
        let now = env.now();
        env.record(self.pool.latency, now.since(self.pool.due(request)).0);
        let all = env.slot(served).fetch_add(1, SeqCst) + 1;
        let is_due = self.pool.gc_every > 0 && all >= self.pool.gc_every;
        if is_due && env.slot(collects).swap(1, SeqCst) == 0 {
            self.begins_to_stop(true, env);
        }
        None
    }

    fn marked_piece(&mut self, env: &mut dyn Env) -> Option<Op> {
        if self.marked != Ns::MAX {
            self.marked += self.pool.safepoint;
        }
        self.state = State::Look;
        let done = env.slot(self.pool.words.done).fetch_add(1, SeqCst) + 1;
        if done == self.pool.all_pieces() {
            self.begins_to_stop(false, env);
        }
        None
    }

    fn begins_to_stop(&mut self, first: bool, env: &mut dyn Env) {
        let now = env.now();
        if first {
            env.slot(self.pool.words.began).store(now.0, SeqCst);
        }
        env.word(self.pool.words.stop).store(1, SeqCst);
        self.state = State::Stops(first, now);
    }

    /// Waits until it alone may run.
    fn stops(&mut self, first: bool, since: Ns, env: &mut dyn Env) -> Option<Op> {
        let Words { active, quiet, .. } = self.pool.words;
        let value = env.word(quiet).load(SeqCst);
        if env.slot(active).load(SeqCst) > 1 {
            return Some(Op::Wait { word: quiet, value, until: Ns::MAX });
        }
        self.state = State::Stands(first, since);
        (self.pool.gc_pause > Ns::ZERO).then_some(Op::Run { work: self.pool.gc_pause })
    }

    /// What was to be done while the world stood is done: it runs again.
    fn stood(&mut self, first: bool, since: Ns, env: &mut dyn Env) -> Op {
        let Words { stop, marking, cycles, pieces, done, dedicated, .. } = self.pool.words;
        let now = env.now();
        env.record(self.pool.pause, now.since(since).0);
        if first && self.pool.all_pieces() > 0 {
            [pieces, done, dedicated].into_iter().for_each(|slot| env.slot(slot).store(0, SeqCst));
            let number = env.slot(cycles).fetch_add(1, SeqCst) + 1;
            env.slot(marking).store(number, SeqCst);
        } else {
            self.ends(now, env);
        }
        env.word(stop).store(0, SeqCst);
        self.state = State::Starts(first);
        Op::Wake { word: stop, count: self.pool.threads as u32 }
    }

    /// The collection is over.
    fn ends(&mut self, now: Ns, env: &mut dyn Env) {
        let Words { marking, began, served, collects, .. } = self.pool.words;
        let began = Ns(env.slot(began).load(SeqCst));
        env.record(self.pool.collection, now.since(began).0);
        env.slot(marking).store(0, SeqCst);
        env.slot(served).store(0, SeqCst);
        env.slot(collects).store(0, SeqCst);
    }

    /// Wakes idle threads, which mark.
    fn starts(&mut self, first: bool, env: &mut dyn Env) -> Option<Op> {
        self.state = if first { State::Rings } else { State::Look };
        if first {
            env.word(self.pool.words.bell).fetch_add(1, SeqCst);
        }
        None
    }
}
