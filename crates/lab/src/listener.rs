//! The audience of the work on a request: the command line shows bars and notes. The lab itself does not print.

use crate::builds::Estimate;
use crate::exec::{Progress, Silent};
use schedlab_base::Result;
use std::sync::atomic::AtomicBool;

/// Hears about the work. A returned value is dropped when that part of the work has ended.
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
