//! Progress on standard error: a bar with an estimate of the time left, hidden where there is no terminal.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use schedlab_base::{Ns, printable};
use schedlab_lab::{Cell, Done, Progress};
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const REDRAW: Duration = Duration::from_millis(200);

/// A bar that goes away when it is dropped; and whether it and all notes are kept quiet.
pub struct Bar(ProgressBar, bool);

impl Bar {
    fn new(quiet: bool, style: ProgressStyle) -> Bar {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        bar.enable_steady_tick(REDRAW);
        Bar(bar, quiet)
    }
    /// Counts runs.
    pub fn runs(quiet: bool) -> Bar {
        Bar::new(quiet, style("{bar:30} {pos}/{len} runs, {elapsed} so far, {eta} left  {wide_msg}"))
    }
    /// Counts down a run of known length in real time.
    pub fn countdown(quiet: bool, length: Ns) -> Bar {
        let left = move |state: &ProgressState, out: &mut dyn Write| {
            let left = length.as_secs_f64() - state.elapsed().as_secs_f64();
            let _ = write!(out, "{:.0}s", left.max(0.0).ceil());
        };
        Bar::new(quiet, style("{spinner} {elapsed} so far, {left} left  {wide_msg}").with_key("left", left))
    }
    /// Whether bars are seen.
    pub fn shows(quiet: bool) -> bool {
        !quiet && io::stderr().is_terminal()
    }
    /// Shows one simulated run of that length; its clock is the progress.
    pub fn simulated(quiet: bool, length: Ns, clock: &'static AtomicU64) -> Bar {
        let left = move |state: &ProgressState, out: &mut dyn Write| {
            let done = Ns(clock.load(Relaxed)).as_secs_f64();
            let _ = match state.elapsed().as_secs_f64() * (length.as_secs_f64() - done) / done {
                left if left.is_finite() => write!(out, "{:.0}s", left.max(0.0).ceil()),
                _ => write!(out, "?"),
            };
        };
        Bar::new(quiet, style("{spinner} {elapsed} so far, {left} left  {wide_msg}").with_key("left", left))
    }
    /// Shows work whose progress arrives per mille.
    pub fn share(quiet: bool) -> Bar {
        let bar = Bar::new(quiet, style("{bar:30} {percent}%, {elapsed} so far, {eta} left  {wide_msg}"));
        bar.0.set_length(1000);
        bar
    }
    /// Shows a build; its words include the time that is left.
    pub fn build(quiet: bool) -> Bar {
        let bar = Bar::new(quiet, style("{bar:30} {percent}%, {elapsed} so far  {wide_msg}"));
        bar.0.set_length(1000);
        bar
    }
    /// Sets the share that is done, per mille.
    pub fn at(&self, done: u64, words: String) {
        self.0.set_position(done);
        self.message(&words);
    }
    /// Words after the bar. They may hold names from other people, with characters that a terminal would obey.
    fn message(&self, words: &str) {
        self.0.set_message(printable::name(words).into_owned());
    }
    /// The words that are shown.
    #[cfg(test)]
    fn words(&self) -> String {
        self.0.message()
    }
    /// Prints something above the bar.
    pub fn above(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }
    /// Shows work of unknown length.
    pub fn steps(quiet: bool) -> Bar {
        Bar::new(quiet, style("{spinner} {elapsed} so far  {wide_msg}"))
    }
    /// Shows the current step.
    pub fn say(&self, words: String) {
        self.message(&words);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Bar {
    fn start(&self, runs: usize) {
        self.0.set_position(0);
        self.0.set_length(runs as u64);
        // Runs found in the store take no time and must not shorten the estimate.
        self.0.reset_eta();
    }
    fn done(&self, cell: &Cell, seed: u64, how: Done<'_>) {
        if matches!(how, Done::Found(_)) {
            self.0.reset_eta();
        }
        self.0.inc(1);
        self.message(&format!("{}, seed {seed}", cell.title()));
    }
    fn waiting(&self, done: usize, words: &str) {
        self.0.set_position(done as u64);
        self.message(words);
    }
    fn note(&self, text: &str) {
        if !self.1 {
            self.above(|| output::note(text));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_codes_in_words_are_shown_escaped() {
        const BAD: &str = "a\u{1b}]0;PWN\u{7}\u{1b}[2Jx.o\nb";
        let bar = Bar::build(true);
        let shown = || {
            let words = bar.words();
            assert!(!words.contains(printable::acts) && words.contains("\\u001b[2Jx.o"), "{words}");
        };
        bar.at(1, BAD.to_owned());
        shown();
        bar.say(BAD.to_owned());
        shown();
        bar.waiting(1, BAD);
        shown();
    }
}
