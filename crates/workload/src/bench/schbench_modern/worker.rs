//! Workers: get a request, sleep, compute under the CPU's lock, answer.

use super::lock::CpuLocks;
use super::{Pace, Request};
use crate::bench::wake_list::{BLOCKED, Hub, Seat, post};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

enum Got {
    /// Do this operation, then ask again.
    Do(Op),
    /// A request. Its latency counts from this time.
    Request(Ns),
}

/// The source of a worker's requests.
pub enum Source {
    /// The worker asks its message thread.
    Listed(Listed),
    /// Requests come by the clock.
    Queued(Queued),
}

impl Source {
    fn next(&mut self, env: &mut dyn Env) -> Got {
        match self {
            Source::Listed(s) => s.next(env),
            Source::Queued(s) => s.next(env),
        }
    }
}

enum Asking {
    /// Gets on the list and posts the message thread.
    Post,
    /// Has posted: waits for the wake.
    Wait,
    /// Waits, or has waited.
    Waiting,
}

/// A worker that puts itself on its message thread's list.
pub struct Listed {
    hub: Hub,
    seat: Seat,
    number: u64,
    wakeup: SeriesId,
    state: Asking,
}

impl Listed {
    pub fn new(hub: Hub, seat: Seat, number: u64, wakeup: SeriesId) -> Listed {
        Listed { hub, seat, number, wakeup, state: Asking::Post }
    }
    fn next(&mut self, env: &mut dyn Env) -> Got {
        loop {
            match self.state {
                Asking::Post => {
                    self.seat.enlist(&self.hub, self.number, env);
                    self.state = Asking::Wait;
                    if let Some(wake) = post(self.hub.word, env) {
                        return Got::Do(wake);
                    }
                }
                Asking::Wait => {
                    self.state = Asking::Waiting;
                    return Got::Do(Op::Wait { word: self.seat.word, value: BLOCKED, until: Ns::MAX });
                }
                Asking::Waiting if self.seat.blocked(env) => self.state = Asking::Wait,
                Asking::Waiting => {
                    let now = env.now();
                    let waited = self.seat.waited(now, env);
                    env.record(self.wakeup, waited.0);
                    self.state = Asking::Post;
                    return Got::Request(now);
                }
            }
        }
    }
}

/// The state shared by a worker and a message thread that sends by the clock. Requests themselves need no memory: their
/// number gives the due time.
#[derive(Clone)]
pub struct Inbox {
    /// Number of requests put in, modulo 2^32. The worker waits on this word.
    put: WordId,
    /// 1 while the worker sleeps or is about to. If the message thread resets it to 0, it must wake the worker; if the
    /// worker resets it, no wake is due.
    sleeps: SlotId,
    /// Time at which the message thread began to wake the worker, ns.
    wake_time: SlotId,
}

impl Inbox {
    pub fn new(b: &mut Builder) -> Inbox {
        Inbox { put: b.word(), sleeps: b.slot(), wake_time: b.slot() }
    }
    /// Adds a request at `now`; returns a wake if the worker sleeps.
    pub fn put(&self, now: Ns, env: &mut dyn Env) -> Option<Op> {
        // Add the request first, then look. The worker does the reverse, so one of them sees the other.
        env.word(self.put).fetch_add(1, SeqCst);
        if env.slot(self.sleeps).load(SeqCst) == 0 {
            return None;
        }
        env.slot(self.wake_time).store(now.0, SeqCst);
        let owed = env.slot(self.sleeps).swap(0, SeqCst) == 1;
        owed.then_some(Op::Wake { word: self.put, count: 1 })
    }
}

/// A worker whose requests come by the clock.
pub struct Queued {
    inbox: Inbox,
    pace: Pace,
    /// The message thread's number of this worker's first request, and the step to the next.
    number: u64,
    step: u64,
    wakeup: SeriesId,
    /// Number of requests taken.
    taken: u32,
    /// Whether it has set `sleeps`.
    asleep: bool,
}

impl Queued {
    pub fn new(inbox: Inbox, pace: Pace, number: u64, step: u64, wakeup: SeriesId) -> Queued {
        Queued { inbox, pace, number, step, wakeup, taken: 0, asleep: false }
    }
    fn next(&mut self, env: &mut dyn Env) -> Got {
        let woken = self.asleep && env.slot(self.inbox.sleeps).swap(0, SeqCst) == 0;
        self.asleep = false;
        if env.word(self.inbox.put).load(SeqCst) == self.taken {
            self.asleep = true;
            env.slot(self.inbox.sleeps).store(1, SeqCst);
            return Got::Do(Op::Wait { word: self.inbox.put, value: self.taken, until: Ns::MAX });
        }
        if woken {
            let begun = Ns(env.slot(self.inbox.wake_time).load(SeqCst));
            let waited = env.now().since(begun);
            env.record(self.wakeup, waited.0);
        }
        let due = self.pace.due(self.number);
        self.taken = self.taken.wrapping_add(1);
        self.number += self.step;
        Got::Request(due)
    }
}

enum State {
    /// No request.
    Free,
    /// Has slept: takes the CPU's lock.
    Lock,
    /// Number of operations left.
    Compute(u64),
}

pub struct Worker {
    source: Source,
    request: Request,
    locks: Option<CpuLocks>,
    /// Counts its requests.
    answered: SlotId,
    latency: SeriesId,
    /// The start of the request's latency.
    begun: Ns,
    state: State,
}

impl Worker {
    pub(super) fn new(
        source: Source,
        request: Request,
        locks: Option<CpuLocks>,
        answered: SlotId,
        latency: SeriesId,
    ) -> Worker {
        Worker { source, request, locks, answered, latency, begun: Ns::ZERO, state: State::Free }
    }
    fn answer(&mut self, env: &mut dyn Env) {
        if let Some(locks) = &mut self.locks {
            locks.release(env);
        }
        let latency = env.now().since(self.begun);
        env.record(self.latency, latency.0);
        env.slot(self.answered).fetch_add(1, Relaxed);
        self.state = State::Free;
    }
}

impl Program for Worker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                State::Free => match self.source.next(env) {
                    Got::Do(op) => return op,
                    Got::Request(begun) => {
                        self.begun = begun;
                        self.state = State::Lock;
                        if self.request.sleep > Ns::ZERO {
                            return Op::Sleep { length: self.request.sleep };
                        }
                    }
                },
                State::Lock => {
                    if let Some(spin) = self.locks.as_mut().and_then(|l| l.take(env)) {
                        return spin;
                    }
                    self.state = State::Compute(self.request.operations);
                }
                State::Compute(0) => self.answer(env),
                State::Compute(left) => {
                    self.state = State::Compute(left - 1);
                    return Op::Touch { kb: self.request.footprint_kb, rounds: self.request.rounds };
                }
            }
        }
    }
}
