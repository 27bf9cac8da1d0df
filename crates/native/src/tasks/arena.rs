//! The tasks' shared memory: the workload's words and cells, and the few words that control a run.
//!
//! Everything is in one shared mapping, for processes as well as threads. Each word has its own cache line, so that it
//! never slows a neighbour. The order of phases is the protocol: only the controller advances the phase (but a failed
//! task sets [`Phase::Stop`]), and tasks check it between two operations.

use crate::sys::{Line, Lines};
use schedlab_base::{Error, Result};
use schedlab_workload::{SlotId, WordId};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Phase {
    /// Tasks are being made; existing ones wait for the start.
    Gather = 0,
    /// Tasks run; nothing is measured yet.
    WarmUp = 1,
    /// Tasks run; values and counters count.
    Measure = 2,
    /// The end: every task leaves at its next operation.
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
    /// An arena with these numbers of futex words, cells and tasks, all zero.
    ///
    /// # Errors
    /// Without enough memory.
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
    #[inline]
    pub fn word(&self, id: WordId) -> &AtomicU32 {
        &self.line(CONTROL_LINES + id.index()).word
    }
    #[inline]
    pub fn slot(&self, id: SlotId) -> &AtomicU64 {
        &self.line(self.first_slot + id.index()).slot
    }
    /// The phase as a futex word, on which tasks wait for the start.
    pub fn phase_word(&self) -> &AtomicU32 {
        &self.line(PHASE).word
    }
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::of(self.phase_word().load(SeqCst))
    }
    /// Advances the phase; it never goes back.
    pub fn advance(&self, to: Phase) {
        self.phase_word().fetch_max(to as u32, SeqCst);
    }
    /// The monotonic clock at time 0 of the run, ns.
    pub fn start_ns(&self) -> &AtomicU64 {
        &self.line(START).slot
    }
    /// Number of tasks ready to start.
    pub fn ready(&self) -> &AtomicU32 {
        &self.line(READY).word
    }
    /// Number of tasks that have begun and not left.
    pub fn live(&self) -> &AtomicU32 {
        &self.line(LIVE).word
    }
    /// Number of these that have done their work and wait for the end.
    pub fn parked(&self) -> &AtomicU32 {
        &self.line(PARKED).word
    }
    /// Whether no task works any more. The answer is correct even while tasks begin, wait and leave.
    pub fn all_done(&self) -> bool {
        // A waiting task never works again. So no task works if there are now no more tasks than were waiting before.
        let parked = self.parked().load(SeqCst);
        self.live().load(SeqCst) <= parked
    }
    /// Maps its pages in the calling process.
    pub fn map_here(&self) {
        self.lines.map_here();
    }
    /// Number of bytes of results that processes have written.
    pub fn results(&self) -> &AtomicU64 {
        &self.line(RESULTS).slot
    }
    /// The thread id of a task; 0 before it exists and after it left.
    pub fn thread(&self, task: usize) -> &AtomicU32 {
        &self.line(self.first_task + task).word
    }
    /// The thread id of a task; stays after the task has left.
    pub fn last_thread(&self, task: usize) -> &AtomicU64 {
        &self.line(self.first_task + task).slot
    }
    /// The monotonic clock at the end of a task's work, ns; 0 before.
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
    fn all_tasks_are_done_when_the_existing_ones_wait() {
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
