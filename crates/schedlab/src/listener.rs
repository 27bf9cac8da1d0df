//! Shows the lab's work on standard error: notes, and bars for runs and builds.

use crate::progress::Bar;
use crate::timing::Timed;
use crate::{interrupt, output};
use schedlab_base::{Result, counted};
use schedlab_kernels::Step;
use schedlab_lab::ask::builds::Estimate;
use schedlab_lab::{Cell, Done, Listener, Progress};
use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval of the notes about a build where no bar is shown.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// Shows the work, unless it is to be quiet.
#[derive(Clone, Copy, Default)]
pub struct Shown<'a> {
    /// Whether bars and optional notes are left out.
    pub quiet: bool,
    /// The executor whose table is printed when runs have been made.
    pub timed: Option<&'a Timed<'a>>,
}

impl Shown<'_> {
    /// Shows the work, unless `quiet`.
    pub fn new(quiet: bool) -> Shown<'static> {
        Shown { quiet, timed: None }
    }
}

impl Listener for Shown<'_> {
    fn wants_notes(&self) -> bool {
        !self.quiet
    }
    fn note(&self, text: &str) {
        if !self.quiet {
            output::note(text);
        }
    }
    fn warn(&self, text: &str) {
        output::note(text);
    }
    fn step(&self, words: &str) -> Box<dyn Progress + '_> {
        let bar = Bar::steps(self.quiet);
        bar.say(words.to_owned());
        Box::new(bar)
    }
    fn runs(&self) -> Box<dyn Progress + '_> {
        let is_noted = !self.quiet && !std::io::stderr().is_terminal();
        let estimate = is_noted.then(|| Mutex::new(RunsEstimate::default()));
        Box::new(Runs { bar: Some(Bar::runs(self.quiet)), timed: self.timed, estimate })
    }
    fn build(&self, estimate: Estimate) -> Box<dyn schedlab_kernels::Listener + '_> {
        Box::new(KernelBuild {
            bar: Bar::build(self.quiet),
            quiet: self.quiet,
            on_terminal: std::io::stderr().is_terminal(),
            estimate,
            noted: Instant::now(),
        })
    }
    fn stop_flag(&self) -> Result<&'static AtomicBool> {
        interrupt::stop_flag()
    }
}

/// A bar for runs, and the table of their times below it when they have been made. Without a terminal a note says how
/// long they will take.
struct Runs<'a> {
    bar: Option<Bar>,
    timed: Option<&'a Timed<'a>>,
    estimate: Option<Mutex<RunsEstimate>>,
}

/// How long runs will take, from the first ones that were made.
#[derive(Default)]
struct RunsEstimate {
    began: Option<Instant>,
    /// Runs that are still to be made or found.
    left: usize,
    made: usize,
    is_said: bool,
}

/// Runs that take less time than this in all need no note.
const SHORT: Duration = Duration::from_secs(5);
/// Fewer runs say little about the others: loads differ, and each is made once before any is made twice.
const FEWEST: usize = 4;

impl RunsEstimate {
    fn start(&mut self, runs: usize) {
        *self = RunsEstimate { began: Some(Instant::now()), left: runs, ..RunsEstimate::default() };
    }
    /// The note, once, when a run has ended.
    fn done(&mut self, is_new: bool) -> Option<String> {
        self.left = self.left.saturating_sub(1);
        self.made += usize::from(is_new);
        let so_far = self.began?.elapsed();
        (!self.is_said && so_far >= SHORT && self.made >= FEWEST && self.left > 0).then(|| {
            self.is_said = true;
            let left = so_far.mul_f64(self.left as f64 / self.made as f64);
            let (made, left_runs) = (counted(self.made, "run"), self.left);
            format!("{made} made in {}, about {} left for {left_runs} more", in_words(so_far), in_words(left))
        })
    }
}

/// "40 s", "7 min".
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        s if s < 120 => format!("{} s", s.max(1)),
        s => format!("{} min", s.div_ceil(60)),
    }
}

impl Progress for Runs<'_> {
    fn start(&self, runs: usize) {
        self.bar.iter().for_each(|bar| bar.start(runs));
        if let Some(estimate) = &self.estimate {
            estimate.lock().unwrap_or_else(PoisonError::into_inner).start(runs);
        }
    }
    fn done(&self, cell: &Cell, seed: u64, how: Done<'_>) {
        let is_new = matches!(how, Done::Made(_));
        let estimate = self.estimate.as_ref().map(|e| e.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(text) = estimate.and_then(|mut estimate| estimate.done(is_new)) {
            output::note(&text);
        }
        if let Some(bar) = &self.bar {
            bar.done(cell, seed, how);
        }
    }
    fn waiting(&self, done: usize, words: &str) {
        self.bar.iter().for_each(|bar| bar.waiting(done, words));
    }
    fn note(&self, text: &str) {
        self.bar.iter().for_each(|bar| bar.note(text));
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.bar = None;
        if let Some(timed) = self.timed {
            timed.take_table().lines().for_each(output::note);
        }
    }
}

/// Notes for the steps of a build, and a bar for its objects; without a terminal further notes.
struct KernelBuild {
    bar: Bar,
    quiet: bool,
    on_terminal: bool,
    estimate: Estimate,
    noted: Instant,
}

impl schedlab_kernels::Listener for KernelBuild {
    fn say(&mut self, text: &str) {
        if !self.quiet {
            self.bar.above(|| output::note(text));
        }
    }
    fn step(&mut self, step: &Step) {
        let done = self.estimate.words(step);
        if !self.quiet && !self.on_terminal && self.noted.elapsed() > NOTE_EVERY {
            self.noted = Instant::now();
            output::note(&done);
        }
        self.bar.at(step.done * 1000 / step.of.max(1), format!("{done}: {}", step.file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_runs_say_once_how_long_the_others_take() {
        let ago = |s| Instant::now().checked_sub(Duration::from_secs(s));
        let mut estimate = RunsEstimate { began: ago(60), left: 104, ..RunsEstimate::default() };
        assert_eq!((estimate.done(true), estimate.done(true), estimate.done(true)), (None, None, None));
        let said = estimate.done(true).unwrap();
        assert_eq!(said, "4 runs made in 60 s, about 25 min left for 100 more");
        assert_eq!(estimate.done(true), None, "once");
        let mut short = RunsEstimate { began: ago(1), left: 10, made: 9, is_said: false };
        assert_eq!(short.done(true), None);
    }
}
