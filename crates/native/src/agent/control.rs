//! The controller: starts all tasks together, advances the run's phases, and ends it.
//!
//! It is idle while tasks run: it sleeps until the next phase is due, a task rings the bell (all ready, all gone, or a
//! failure), or the stop descriptor is ready. A flag and a signal end the tasks. The signal is repeated until they are
//! gone, because one that arrives between a task's check of the flag and its sleep is lost.

use crate::agent::parent::signal_name;
use crate::agent::recording::Recording;
use crate::agent::setting_changes::Changes;
use crate::agent::task_changes::Laters;
use crate::sys::{self, Reaped, Scope};
use crate::tasks::arena::Phase;
use crate::tasks::shared::Shared;
use crate::tasks::task;
use crate::watch::counters::Offspring;
use crate::watch::findings::ObserverFindings;
use crate::watch::kernel_counters::KernelCounters;
use schedlab_base::{Error, Ns, Result};
use schedlab_record::Observe;
use std::cell::RefCell;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Time for tasks to leave after the run; longer is an error.
const LEAVE_WITHIN: Ns = Ns::secs(10);
/// First pause between two rounds of nudges; it doubles up to [`NUDGE_PAUSE_MAX`].
const NUDGE_PAUSE: Ns = Ns::ms(1);
const NUDGE_PAUSE_MAX: Ns = Ns::ms(16);

/// Number of the controller's sleeps before it makes tasks whose beginning is measured. It was busy with reading the
/// job and opening the recording, up to 100 ms, and forks and wakeups would avoid its CPU because of that load. The
/// load decays in eight half-lives (32 ms, kernel 3.8 and later). UTIL_EST (4.17 and later) forgets a quarter of a
/// task's utilisation each time it falls asleep.
const RESTS: u32 = 16;
/// Length of each of these sleeps.
const REST: Ns = Ns::ms(16);
/// The longest sleep of a controller of threads.
const DAY: Ns = Ns::secs(86_400);
/// Interval in which a controller of processes looks for dead ones.
const REAP_EVERY: Ns = Ns::ms(500);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Woke {
    Time,
    /// The awaited condition holds.
    Done,
    Stop,
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Length of the measured time.
    pub measured: Ns,
    pub stopped: bool,
    /// Whether tasks were still working.
    pub unfinished: bool,
    /// Beginning and end of the measured time by the monotonic clock; `None` if there was none.
    pub window: Option<(Ns, Ns)>,
}

/// Sleeps for `least` or a little longer, until a tick. It uses the time-out of a socket that nobody writes to, which
/// the kernel rounds up to ticks. Without a socket it does not sleep: runs then differ more, but are not wrong.
fn sleep_to_tick(least: Duration) {
    if let Ok((mut quiet, _open)) = UnixStream::pair()
        && quiet.set_read_timeout(Some(least)).is_ok()
    {
        let _ = quiet.read(&mut [0]);
    }
}

pub struct Controller<'a> {
    shared: &'a Shared,
    changes: &'a Changes,
    later: &'a Laters,
    stop: Option<BorrowedFd<'a>>,
    /// Records context switches, or all events.
    recording: RefCell<Recording>,
}

impl<'a> Controller<'a> {
    /// Will make `changes` and those of groups and tasks at their times, and end the run early when `stop` becomes
    /// readable or is hung up. `observe`: the kind of recording.
    pub fn new(
        shared: &'a Shared,
        (changes, later): (&'a Changes, &'a Laters),
        stop: Option<BorrowedFd<'a>>,
        observe: Observe,
    ) -> Controller<'a> {
        let recording = Recording::open(observe, shared);
        if recording.has_events() {
            shared.watch();
        }
        let recording = RefCell::new(recording);
        Controller { shared, changes, later, stop, recording }
    }

    /// Runs the workload from the first thread to the end of the measured time, which begins after `warmup` and lasts
    /// `duration`. `counting` and `kernel` count only the measured time.
    ///
    /// # Errors
    /// When the counters can't be enabled or disabled.
    pub fn run(
        &self,
        warmup: Ns,
        duration: Ns,
        counting: &mut Offspring,
        kernel: &mut KernelCounters,
    ) -> Result<Ended> {
        let arena = &self.shared.arena;
        let mut woke = if warmup == Ns::ZERO { self.rest() } else { Woke::Time };
        if woke == Woke::Time {
            woke = self.gather();
        }
        if woke != Woke::Done {
            return Ok(Ended {
                measured: Ns::ZERO,
                stopped: woke == Woke::Stop,
                unfinished: true,
                window: None,
            });
        }
        let start = sys::monotonic_ns();
        let mut from = None;
        arena.start_ns().store(start, SeqCst);
        for (phase, until) in [(Phase::WarmUp, warmup), (Phase::Measure, warmup.plus(duration))] {
            if until == Ns::ZERO {
                continue;
            }
            if phase == Phase::Measure {
                kernel.before();
                self.recording.borrow_mut().measure(self.shared);
                counting.start()?;
                let now = sys::monotonic_ns();
                from = Some(now);
                self.changes.begin(now);
            }
            arena.advance(phase);
            sys::futex_wake(arena.phase_word(), u32::MAX, self.shared.scope);
            // The measured time counts from here, so that enabling measurements does not shorten it.
            let until = from.map_or(start.saturating_add(until.0), |from| from.saturating_add(duration.0));
            woke = self.wait(until, || arena.all_done());
            if woke != Woke::Time {
                break;
            }
        }
        let ended = sys::monotonic_ns();
        let measured = from.map_or(0, |from| ended - from);
        if from.is_some() {
            counting.stop()?;
            // Read before the rings are emptied, which takes longer. Later events do not count anyway.
            kernel.after();
        }
        if self.shared.is_watched() {
            // Running tasks would fill the rings, on busy CPUs faster than they are emptied. Without events the tasks
            // continue: records of stays belong to tasks, which must still exist.
            arena.advance(Phase::Stop);
        }
        self.recording.borrow_mut().close(ended, self.shared);
        let window = from.map(|from| (Ns(from), Ns(ended)));
        let unfinished = woke != Woke::Done;
        Ok(Ended { measured: Ns(measured), stopped: woke == Woke::Stop, unfinished, window })
    }

    pub fn found(self) -> ObserverFindings {
        self.recording.into_inner().found(self.shared)
    }

    /// Sleeps until the load of the preparation has decayed, so that it does not affect the tasks, and ends at a tick.
    /// So the time from the tasks' start to the next tick does not depend on the length of the preparation.
    fn rest(&self) -> Woke {
        let mut slept = (1..RESTS).map(|_| self.wait(sys::monotonic_ns().saturating_add(REST.0), || false));
        slept.find(|woke| *woke != Woke::Time).unwrap_or_else(|| {
            sleep_to_tick(Duration::from_nanos(REST.0));
            Woke::Time
        })
    }

    /// Makes the initial tasks and waits until each is ready.
    fn gather(&self) -> Woke {
        let shared = self.shared;
        for id in (0..shared.len()).filter(|id| shared.is_waiting_root(*id)) {
            if let Err(error) = task::spawn(shared, id, None) {
                shared.fail(error);
                return Woke::Failed;
            }
            if self.stop_asked() {
                return Woke::Stop;
            }
        }
        self.wait(u64::MAX, || shared.arena.ready().load(SeqCst) >= shared.roots)
    }

    /// Makes due changes; returns the time of the next one.
    fn make_due(&self, now_ns: u64) -> Result<u64> {
        let setting = self.changes.make_due(now_ns)?;
        let from = self.changes.begun();
        let later = from.map_or(Ok(None), |from| self.later.make_due(from, now_ns, self.shared))?;
        Ok(setting.into_iter().chain(later).min().unwrap_or(u64::MAX))
    }

    fn stop_asked(&self) -> bool {
        self.stop.is_some() && sys::wait_readable([self.stop], 0)[0]
    }

    /// Sleeps until `done`, a stop, a failure, or the absolute time `until_ns`.
    fn wait(&self, until_ns: u64, done: impl Fn() -> bool) -> Woke {
        loop {
            self.shared.bell.quiet();
            let now = sys::monotonic_ns();
            match () {
                () if self.shared.arena.phase() == Phase::Stop => return Woke::Failed,
                () if done() => return Woke::Done,
                () if now >= until_ns => return Woke::Time,
                () => {}
            }
            let until_ns = match self.make_due(now) {
                Ok(next) => next.min(until_ns),
                Err(error) => {
                    self.shared.fail(error);
                    return Woke::Failed;
                }
            };
            let longest = if self.shared.scope == Scope::Threads { DAY } else { REAP_EVERY };
            let recording = self.recording.borrow();
            let fds = [self.stop, Some(self.shared.bell.fd()), recording.fd()];
            let [stop, _, full] = sys::wait_readable(fds, (until_ns - now).min(longest.0));
            drop(recording);
            if stop {
                return Woke::Stop;
            }
            if full {
                self.recording.borrow_mut().read(self.shared);
            }
            self.reap();
        }
    }

    /// Ends all remaining tasks and waits for them.
    pub fn end(&self) -> Result<()> {
        let arena = &self.shared.arena;
        arena.advance(Phase::Stop);
        sys::futex_wake(arena.phase_word(), u32::MAX, self.shared.scope);
        let (from, mut pause) = (sys::monotonic_ns(), NUDGE_PAUSE);
        while arena.live().load(SeqCst) > 0 {
            let waited = Ns(sys::monotonic_ns() - from);
            if waited > LEAVE_WITHIN {
                let left = arena.live().load(SeqCst);
                return Err(Error::internal(format!(
                    "{} {} still there {waited} after the end",
                    schedlab_base::counted(left, "task"),
                    schedlab_base::one_or(left, "was", "were")
                )));
            }
            self.nudge_all();
            self.shared.bell.quiet();
            if arena.live().load(SeqCst) > 0 {
                sys::wait_readable([Some(self.shared.bell.fd())], pause.0);
            }
            self.reap();
            pause = pause.plus(pause).min(NUDGE_PAUSE_MAX);
        }
        self.reap_rest();
        Ok(())
    }

    /// Reaps ended processes. A process that ended without leaving properly fails the run.
    fn reap(&self) {
        if self.shared.scope == Scope::Threads {
            return;
        }
        while let Reaped::Child(process, status) = sys::reap(false) {
            if let Some(signal) = status.signal() {
                self.shared.died(process, &format!("died of signal {signal} ({})", signal_name(signal)));
            } else if !status.success() {
                self.shared.died(process, &format!("ended unasked: {status}"));
            }
        }
    }

    /// Waits for the end of the last process, so that all CPU time is known. All have left the run already.
    fn reap_rest(&self) {
        if self.shared.scope == Scope::Processes {
            while sys::reap(true) != Reaped::None {}
        }
    }

    fn nudge_all(&self) {
        let arena = &self.shared.arena;
        let threads = (0..self.shared.len()).map(|id| arena.thread(id).load(SeqCst));
        threads.filter(|t| *t != 0).for_each(|t| sys::nudge(t, self.shared.scope));
    }
}
