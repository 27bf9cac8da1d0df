//! The engine: runs a workload with a thread or process per task, and sums up their measurements.
//!
//! Threads are the default; a workload may ask for processes, which share only the arena. Processes are forked from a
//! caller that must have no other threads. A process that a task spawns becomes the task's sibling, so that the
//! controller can reap every process.

use crate::agent::control::{Controller, Ended};
use crate::agent::setting_changes::Changes;
use crate::agent::task_changes::Laters;
use crate::settings::cgroups::Places;
use crate::sys;
use crate::sys::limits;
use crate::tasks::shared::Shared;
use crate::watch::counters::{Counts, Offspring, Width};
use crate::watch::findings::ObserverFindings;
use crate::watch::kernel_counters::KernelCounters;
use schedlab_base::{Error, Ns, Result, Warning};
use schedlab_record::{Findings, Observe};
use schedlab_workload::Built;
use schedlab_workload::beside::Parts;
use schedlab_workload::build::cut_off;
use std::os::fd::BorrowedFd;

#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Measurements of clocks, programs and the kernel's accounts: every declared series; counters of the tasks (absent
    /// if this kernel lacks them); /proc/schedstat of the whole machine over the measured time.
    pub own: Findings,
    /// Findings about the scheduler.
    pub found: ObserverFindings,
    /// Performance counters of the tasks over the measured time.
    pub counts: Counts,
    /// Whether `stop` ended it early.
    pub stopped: bool,
}

/// Runs a workload in this process until its time is over, all tasks have left, or `stop` becomes readable or is hung
/// up. For a workload of processes, this process must have one thread and no other children.
///
/// # Errors
/// When the workload needs something that this machine or user can't have: threads, CPUs, policies, channels.
pub fn run_built(built: Built, stop: Option<BorrowedFd<'_>>) -> Result<Measured> {
    let kernel = KernelCounters::live();
    run_changing(built, &Places::default(), &Changes::default(), stop, Observe::Counters, kernel)
}

/// Why counters are not used together with events: at every switch the kernel swaps the two tasks' counters. This takes
/// 2,700 instructions in Linux 6.1, which lengthen each wakeup and each way to sleep.
const BESIDE_EVENTS: &str =
    "not counted while events are recorded: each task's counters would slow down its switches";

/// As [`run_built`], with control groups for its tasks, changes of settings during the run, and given kernel counters.
///
/// # Errors
/// As [`run_built`], and when the kernel refuses a change.
pub(crate) fn run_changing(
    mut built: Built,
    groups: &Places,
    changes: &Changes,
    stop: Option<BorrowedFd<'_>>,
    observe: Observe,
    mut kernel: KernelCounters,
) -> Result<Measured> {
    limits::confine(&mut built)?;
    sys::install_nudge().map_err(|e| Error::machine(format!("can't install a signal handler: {e}")))?;
    sys::ignore_broken_pipes();
    let (warmup, duration, to_the_end) = (built.warmup, built.duration, built.to_the_end);
    let later = Laters::of(&built, groups)?;
    let beside = Parts::of(&built);
    let shared = Shared::new(built, groups)?;
    let controller = Controller::new(&shared, (changes, &later), stop, observe);
    // Tasks inherit these, so open them first.
    let mut counting = match shared.is_watched() {
        true => Offspring::none(BESIDE_EVENTS),
        false => Width::of(observe).map_or_else(Offspring::unwanted, Offspring::open),
    };
    let Ended { measured, stopped, unfinished, window } =
        controller.run(warmup, duration, &mut counting, &mut kernel)?;
    let ended = sys::monotonic_ns();
    controller.end()?;
    let ending = Ns(sys::monotonic_ns() - ended);
    let found = controller.found();
    let mut totals = shared.totals()?;
    let mut warnings = shared.channels.settle()?;
    if measured == Ns::ZERO && !stopped {
        let text = format!("the workload ended within its warm-up of {warmup}: nothing was measured");
        warnings.push(Warning::new("run.in_warmup", text));
    }
    if !stopped {
        warnings.extend((to_the_end && unfinished).then(|| cut_off(duration)));
        warnings.extend(later.missed());
        warnings
            .extend(window.into_iter().flat_map(|(from, end)| beside.ended_early(&shared.ends(), from, end)));
        warnings.extend(overrun(measured, duration));
        // In other runs CPU time comes from events, or the tasks had ended before.
        warnings.extend(slow_end(measured, ending).filter(|_| unfinished && found.seen.tasks.is_empty()));
    }
    let names = shared.columns.iter().map(|c| c.name.clone());
    let (intervals, dropped) = std::mem::take(&mut totals.intervals).in_order(warmup, &shared.columns);
    warnings.extend(dropped);
    totals.tasks.sort_by_key(|(id, _)| *id);
    let own = Findings {
        duration: measured,
        series: names.zip(totals.series.drain(..)).collect(),
        counters: totals.counters.named(),
        schedstat: kernel.counted(&mut warnings),
        tasks: totals.tasks.iter().map(|(id, used)| used.account(&shared.names[*id])).collect(),
        intervals,
        warnings,
        ..Findings::default()
    };
    Ok(Measured { own, found, counts: counting.read(), stopped })
}

/// Whether a time is more than a twentieth of `of`, and more than a wakeup on a busy machine.
fn much(time: Ns, of: Ns) -> bool {
    time > Ns(of.0 / 20).plus(Ns::ms(20))
}

/// The warning about a run that was measured too long: its process was stopped, or could not run.
fn overrun(measured: Ns, wanted: Ns) -> Option<Warning> {
    much(measured.since(wanted), wanted).then(|| {
        let text = format!("measured for {measured} instead of {wanted}: the run was stopped or starved");
        Warning::new("run.overran", text)
    })
}

/// The warning about tasks that left slowly. Each reads its counters when it leaves, so these cover more than the
/// measured time.
fn slow_end(measured: Ns, ending: Ns) -> Option<Warning> {
    much(ending, measured).then(|| {
        let text = format!(
            "the tasks took {ending} to end after the measured {measured}, and their CPU time, switches and waits \
             include that: use fewer tasks or a longer run"
        );
        Warning::new("run.slow_end", text)
    })
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod window_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_times_cause_warnings() {
        let second = Ns::secs(1);
        assert_eq!((overrun(Ns::ms(1_015), second), slow_end(second, Ns::ms(60))), (None, None));
        assert!(overrun(Ns::ms(1_100), second).is_some_and(|w| w.message.contains("instead of 1s")));
        assert!(slow_end(second, Ns::ms(300)).is_some_and(|w| w.message.contains("fewer tasks")));
    }
}
