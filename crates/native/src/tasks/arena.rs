//! The memory that tasks share: the workload's words and cells, and the few words that control a run.
//!
//! All of it lies in one shared mapping, so that processes share it as well as threads do. Each word has a cache line
//! of its own, so that it never slows its neighbour. The order of phases is the protocol: the controller alone moves
//! the phase on (but a task that fails sets [`Phase::Stop`]), and tasks look at it between two operations.

use crate::sys::{Line, Lines};
use schedlab_base::{Error, Result};
use schedlab_workload::{SlotId, WordId};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Phase {
    /// Tasks are being made; those already there wait for the start.
    Gather = 0,
    /// Running; nothing is measured yet.
    WarmUp = 1,
    /// Running; values and counters count.
    Measure = 2,
    /// Over: every task leaves at its next operation.
    Stop = 3,
}

impl Phase {
    fn of(number: u32) -> Phase {
        match number {
            0 => Phase::Gather,
            1 => Phase::WarmUp,
            2 => Phase::Measure,
            _ => Phase::Stop,
        }
    }
}

const PHASE: usize = 0;
const START: usize = 1;
const READY: usize = 2;
const LIVE: usize = 3;
const RESULTS: usize = 4;
const PARKED: usize = 5;
const CONTROL_LINES: usize = 6;

#[derive(Debug)]
pub struct Arena {
    lines: Lines,
    first_slot: usize,
    first_task: usize,
    tasks: usize,
}

impl Arena {
    /// An arena for these numbers of futex words, cells and tasks, all zero.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(words: usize, slots: usize, tasks: usize) -> Result<Arena> {
        let first_slot = CONTROL_LINES + words;
        let first_task = first_slot + slots;
        let lines = Lines::map(first_task + 2 * tasks).map_err(|e| {
            Error::machine(format!("can't map {words} words and {slots} cells for the workload: {e}"))
                .help("use fewer threads")
        })?;
        Ok(Arena { lines, first_slot, first_task, tasks })
    }
    #[inline]
    fn line(&self, at: usize) -> &Line {
        &self.lines.get()[at]
    }
    /// A futex word of the workload.
    #[inline]
    pub fn word(&self, id: WordId) -> &AtomicU32 {
        &self.line(CONTROL_LINES + id.index()).word
    }
    /// A cell of the workload.
    #[inline]
    pub fn slot(&self, id: SlotId) -> &AtomicU64 {
        &self.line(self.first_slot + id.index()).slot
    }
    /// The phase as a futex word: tasks wait on it for the start.
    pub fn phase_word(&self) -> &AtomicU32 {
        &self.line(PHASE).word
    }
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::of(self.phase_word().load(SeqCst))
    }
    /// Moves the phase on; never back.
    pub fn advance(&self, to: Phase) {
        self.phase_word().fetch_max(to as u32, SeqCst);
    }
    /// The monotonic clock at time 0 of the run, ns.
    pub fn start_ns(&self) -> &AtomicU64 {
        &self.line(START).slot
    }
    /// How many tasks are ready to start.
    pub fn ready(&self) -> &AtomicU32 {
        &self.line(READY).word
    }
    /// How many tasks have begun and not left.
    pub fn live(&self) -> &AtomicU32 {
        &self.line(LIVE).word
    }
    /// How many of these have done their work and wait for the end.
    pub fn parked(&self) -> &AtomicU32 {
        &self.line(PARKED).word
    }
    /// Whether no task works any more. The answer is right also while tasks begin, wait and leave.
    pub fn all_done(&self) -> bool {
        // A waiting task never goes back to work. So no task works if the tasks there now are no more than waited
        // before.
        let parked = self.parked().load(SeqCst);
        self.live().load(SeqCst) <= parked
    }
    /// Maps its pages in the calling process.
    pub fn map_here(&self) {
        self.lines.map_here();
    }
    /// How many bytes of results processes have written.
    pub fn results(&self) -> &AtomicU64 {
        &self.line(RESULTS).slot
    }
    /// The thread id of a task; 0 before it is there and after it left.
    pub fn thread(&self, task: usize) -> &AtomicU32 {
        &self.line(self.first_task + task).word
    }
    /// The thread id of a task, kept after the task has left.
    pub fn last_thread(&self, task: usize) -> &AtomicU64 {
        &self.line(self.first_task + task).slot
    }
    /// The monotonic clock at the end of a task's work, ns; 0 before it.
    pub fn done_ns(&self, task: usize) -> &AtomicU64 {
        &self.line(self.first_task + self.tasks + task).slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_cache_line_of_its_own() {
        let a = Arena::new(2, 2, 2).unwrap();
        let mut at: Vec<usize> = vec![
            a.phase_word().as_ptr() as usize,
            a.start_ns().as_ptr() as usize,
            a.ready().as_ptr() as usize,
            a.live().as_ptr() as usize,
            a.results().as_ptr() as usize,
            a.parked().as_ptr() as usize,
        ];
        at.extend([0, 1].map(|i| a.word(WordId(i)).as_ptr() as usize));
        at.extend([0, 1].map(|i| a.slot(SlotId(i)).as_ptr() as usize));
        at.extend([0, 1].map(|i| a.thread(i).as_ptr() as usize));
        at.extend([0, 1].map(|i| a.done_ns(i).as_ptr() as usize));
        let mut lines: Vec<usize> = at.iter().map(|a| a / 64).collect();
        lines.dedup();
        assert_eq!(lines.len(), 14);
        assert!(lines.is_sorted());
    }

    #[test]
    fn all_are_done_when_those_who_are_there_wait() {
        let a = Arena::new(0, 0, 0).unwrap();
        a.live().store(2, SeqCst);
        a.parked().store(1, SeqCst);
        assert!(!a.all_done());
        a.live().store(1, SeqCst);
        assert!(a.all_done());
    }

    #[test]
    fn the_phase_never_goes_back() {
        let a = Arena::new(0, 0, 0).unwrap();
        a.advance(Phase::Stop);
        a.advance(Phase::Measure);
        assert_eq!(a.phase(), Phase::Stop);
    }
}
