//! The sub-machines on real threads. The rig runs one program at a time, so only these tests have true races.

use super::sync::{Barrier, Condition, Mutex};
use crate::op::{Env, Op, Outcome, SeriesId, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Condvar, Mutex as Guard};

/// Words, cells and futex queues shared by threads.
#[derive(Default)]
struct Arena {
    words: [AtomicU32; 4],
    slots: [AtomicU64; 4],
    /// A futex's queue lock, and its sleepers.
    queue: Guard<()>,
    sleepers: [Condvar; 4],
}

/// One thread's view of the arena.
struct View<'a>(&'a Arena);

impl Env for View<'_> {
    fn now(&mut self) -> Ns {
        Ns::ZERO
    }
    fn outcome(&self) -> Outcome {
        Outcome::Done
    }
    fn cpu(&mut self) -> schedlab_base::CpuId {
        schedlab_base::CpuId(0)
    }
    fn word(&self, id: WordId) -> &AtomicU32 {
        &self.0.words[id.index()]
    }
    fn slot(&self, id: SlotId) -> &AtomicU64 {
        &self.0.slots[id.index()]
    }
    fn record(&mut self, _: SeriesId, _: u64) {}
}

impl View<'_> {
    /// Futex operations; a wait may return early, as real ones may.
    fn perform(&self, op: Op) {
        let queue = self.0.queue.lock().unwrap();
        match op {
            Op::Wait { word, value, until: Ns::MAX } => {
                if self.0.words[word.index()].load(SeqCst) == value {
                    drop(self.0.sleepers[word.index()].wait(queue).unwrap());
                }
            }
            Op::Wake { word, count: 1 } => self.0.sleepers[word.index()].notify_one(),
            Op::Wake { word, .. } => self.0.sleepers[word.index()].notify_all(),
            other => panic!("{other:?}"),
        }
    }
    fn finish(&mut self, mut poll: impl FnMut(&mut dyn Env) -> Option<Op>) {
        while let Some(op) = poll(self) {
            self.perform(op);
        }
    }
    fn once(&mut self, op: impl FnOnce(&mut dyn Env) -> Option<Op>) {
        if let Some(op) = op(self) {
            self.perform(op);
        }
    }
    fn lock(&mut self, mutex: Mutex) {
        let mut locking = mutex.lock();
        self.finish(|env| locking.poll(env));
    }
}

const MUTEX: Mutex = Mutex(WordId(0));
const CONDITION: Condition = Condition { word: WordId(1), count: SlotId(1) };

#[test]
fn a_mutex_excludes() {
    let arena = Arena::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut view = View(&arena);
                for _ in 0..5_000 {
                    view.lock(MUTEX);
                    // Not an atomic increment: if two threads were inside, one increment would be lost.
                    let seen = arena.slots[0].load(Relaxed);
                    std::hint::black_box(seen);
                    arena.slots[0].store(seen + 1, Relaxed);
                    view.once(|env| MUTEX.unlock(env));
                }
            });
        }
    });
    assert_eq!(arena.slots[0].load(Relaxed), 20_000);
}

#[test]
fn a_barrier_keeps_all_in_step() {
    let arena = Arena::default();
    let barrier = Barrier { word: WordId(2), arrived: SlotId(2), users: 4 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut view = View(&arena);
                for round in 0..2_000 {
                    arena.slots[3].fetch_add(1, SeqCst);
                    let mut arriving = barrier.arrive();
                    view.finish(|env| arriving.poll(env));
                    let come = arena.slots[3].load(SeqCst);
                    assert!((4 * (round + 1)..=4 * (round + 2)).contains(&come), "round {round}: {come}");
                }
            });
        }
    });
}

#[test]
fn as_many_waits_end_as_signals_were_given() {
    let arena = Arena::default();
    let counts = || {
        let count = arena.slots[1].load(SeqCst);
        (count >> 32, count & 0xffff_ffff)
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut view = View(&arena);
                for _ in 0..1_000 {
                    view.lock(MUTEX);
                    let mut waiting = CONDITION.wait(MUTEX);
                    view.finish(|env| waiting.poll(env));
                    let seen = arena.slots[0].load(Relaxed);
                    arena.slots[0].store(seen + 1, Relaxed);
                    view.once(|env| MUTEX.unlock(env));
                }
            });
        }
        let mut view = View(&arena);
        let mut given = 0;
        while given < 3_000 {
            // A signal is lost unless there is a waiter without a permit.
            let (waiters, permits) = counts();
            if waiters > permits {
                view.once(|env| CONDITION.signal(env));
                given += 1;
            }
            assert!(arena.slots[0].load(Relaxed) <= given);
            std::thread::yield_now();
        }
    });
    assert_eq!((arena.slots[0].load(Relaxed), counts()), (3_000, (0, 0)));
}
