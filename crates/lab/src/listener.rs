//! The audience of the work on a request: the command line shows bars and notes. The lab itself does not print.

use crate::ask::builds::Estimate;
use crate::ask::cell::Cell;
use schedlab_base::{Error, Result};
use schedlab_record::Record;
use std::sync::atomic::AtomicBool;

/// The end of a run.
pub enum Done<'a> {
    /// It was made.
    Made(&'a Record),
    /// It was found in the store.
    Found(&'a Record),
    Failed(&'a Error),
}

/// Called for runs as they end, from any thread. Libraries do not print.
pub trait Progress: Sync {
    /// `runs` runs are to be made.
    fn start(&self, runs: usize);
    /// A run ended.
    fn done(&self, cell: &Cell, seed: u64, how: Done<'_>);
    /// So many runs are done while others make them; `words` say how these are.
    fn waiting(&self, _done: usize, _words: &str) {}
    /// Shows a message at once.
    fn note(&self, _text: &str) {}
}

/// No progress shown.
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: usize) {}
    fn done(&self, _: &Cell, _: u64, _: Done<'_>) {}
}

/// Hears of the work. What it returns is dropped when that part of the work has ended.
pub trait Listener {
    /// Whether notes are wanted: some cost time.
    fn wants_notes(&self) -> bool;
    /// A note that quiet commands leave out.
    fn note(&self, text: &str);
    /// A note that the user must see.
    fn warn(&self, text: &str);
    /// Work of unknown length begins.
    fn step(&self, words: &str) -> Box<dyn Progress + '_>;
    /// Runs of a plan are made.
    fn runs(&self) -> Box<dyn Progress + '_>;
    /// A kernel is built, with an estimate of the time left.
    fn build(&self, estimate: Estimate) -> Box<dyn schedlab_kernels::Listener + '_>;
    /// The flag that ends the work early. It is requested when work begins that can be ended early.
    ///
    /// # Errors
    /// When signals can't be caught here.
    fn stop_flag(&self) -> Result<&'static AtomicBool>;
}

/// Nothing is shown, and nothing ends the work.
impl Listener for Silent {
    fn wants_notes(&self) -> bool {
        false
    }
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
    fn step(&self, _: &str) -> Box<dyn Progress + '_> {
        Box::new(Silent)
    }
    fn runs(&self) -> Box<dyn Progress + '_> {
        Box::new(Silent)
    }
    fn build(&self, _: Estimate) -> Box<dyn schedlab_kernels::Listener + '_> {
        Box::new(Silent)
    }
    fn stop_flag(&self) -> Result<&'static AtomicBool> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Ok(&NEVER)
    }
}

impl schedlab_kernels::Listener for Silent {
    fn say(&mut self, _: &str) {}
    fn step(&mut self, _: &schedlab_kernels::Step) {}
}
