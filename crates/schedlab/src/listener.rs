//! Shows the lab's work on standard error: notes, and bars for runs and builds.

use crate::progress::Bar;
use crate::timing::Timed;
use crate::{interrupt, output};
use schedlab_base::Result;
use schedlab_kernels::Step;
use schedlab_lab::builds::Estimate;
use schedlab_lab::{Cell, Done, Listener, Progress};
use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Between two notes about a build where no bar is shown.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// Shows the work, unless it is to be quiet.
#[derive(Clone, Copy, Default)]
pub struct Shown<'a> {
    /// Whether bars and notes that need not be seen are left out.
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
        Box::new(Runs { bar: Some(Bar::runs(self.quiet)), timed: self.timed })
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

/// A bar for runs, and the table of their times below it when they have been made.
struct Runs<'a> {
    bar: Option<Bar>,
    timed: Option<&'a Timed<'a>>,
}

impl Progress for Runs<'_> {
    fn start(&self, runs: usize) {
        self.bar.iter().for_each(|bar| bar.start(runs));
    }
    fn done(&self, cell: &Cell, seed: u64, how: Done<'_>) {
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
