//! The controller: starts all tasks together, moves the run from phase to phase, and ends it.
//!
//! It does nothing while tasks run: it sleeps until the next phase is due, a task rings the bell (all ready, all gone,
//! or a failure), or the stop descriptor speaks. Tasks end by a flag and a signal that is sent again until they are
//! gone, because one sent between a task's look at the flag and its sleep would be lost.

use crate::arena::Phase;
use crate::changes::Changes;
use crate::counters::Offspring;
use crate::engine::Shared;
use crate::found::Found;
use crate::kernel_counters::KernelCounters;
use crate::parent::signal_name;
use crate::recording::Recording;
use crate::sys::{self, Reaped, Scope};
use schedlab_base::{Error, Ns, Result};
use schedlab_record::Observe;
use std::cell::RefCell;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How long tasks get to leave once the run is over, before that is an error.
const LEAVE_WITHIN: Ns = Ns::secs(10);
/// First pause between two rounds of nudges; it doubles up to [`NUDGE_PAUSE_MAX`].
const NUDGE_PAUSE: Ns = Ns::ms(1);
const NUDGE_PAUSE_MAX: Ns = Ns::ms(16);

/// The controller sleeps so often, and each time so long, before it makes tasks whose beginning is measured. Reading the job and
/// opening the recording keeps a CPU busy for up to 100 ms, and forks and wakeups would shun that CPU for its load. After eight
/// half-lives (32 ms, kernel 3.8 and later) nothing is left of a load average; of what UTIL_EST remembers of a task (4.17 and
/// later) a quarter goes each time it falls asleep.
const RESTS: u32 = 16;
/// Each of them.
const REST: Ns = Ns::ms(16);
/// The longest sleep of the controller of threads.
const DAY: Ns = Ns::secs(86_400);
/// How often the controller of processes looks for dead ones.
const REAP_EVERY: Ns = Ns::ms(500);

/// Why the controller looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Woke {
    /// The time came.
    Time,
    /// What it waited for holds.
    Done,
    /// It was told to stop.
    Stop,
    /// A task failed.
    Failed,
}

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// For how long it was measured.
    pub measured: Ns,
    /// It was told to stop.
    pub stopped: bool,
    /// Tasks were still at work.
    pub unfinished: bool,
}

/// Sleeps until a tick, so long at least, by a timeout that the kernel counts in ticks, rounded up (of a socket that nobody writes
/// to). Who can't have a socket does not sleep: it is a matter of comparing like with like, and none of right and wrong.
fn sleep_to_tick(least: Duration) {
    if let Ok((mut quiet, _open)) = UnixStream::pair()
        && quiet.set_read_timeout(Some(least)).is_ok()
    {
        let _ = quiet.read(&mut [0]);
    }
}

/// The controlling thread's view of a run.
pub struct Controller<'a> {
    shared: &'a Shared,
    changes: &'a Changes,
    stop: Option<BorrowedFd<'a>>,
    /// Context switches, or all events, as they are recorded.
    recording: RefCell<Recording>,
}

impl<'a> Controller<'a> {
    /// A controller that makes `changes` as time goes by, and ends the run early when `stop` can be read or is hung up.
    /// `observe` says how closely it is watched.
    pub fn new(
        shared: &'a Shared,
        changes: &'a Changes,
        stop: Option<BorrowedFd<'a>>,
        observe: Observe,
    ) -> Controller<'a> {
        let recording = Recording::open(observe, shared);
        if recording.tells_events() {
            shared.watch();
        }
        let recording = RefCell::new(recording);
        Controller { shared, changes, stop, recording }
    }

    /// From the first thread to the end of `duration`, which is measured and begins after `warmup`. `counting` and `kernel` count
    /// that time only.
    ///
    /// # Errors
    /// When the counters can't be switched.
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
            return Ok(Ended { measured: Ns::ZERO, stopped: woke == Woke::Stop, unfinished: true });
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
            // What it takes to begin to measure is not taken from what is measured.
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
            // Before the rings, which take longer to empty; events that come after the end don't count.
            kernel.after();
        }
        if self.shared.is_watched() {
            // Tasks that went on would fill the rings, on busy CPUs faster than they are emptied. Records of stays are the tasks'
            // own, who must be there yet.
            arena.advance(Phase::Stop);
        }
        self.recording.borrow_mut().close(ended, self.shared);
        Ok(Ended { measured: Ns(measured), stopped: woke == Woke::Stop, unfinished: woke != Woke::Done })
    }

    /// What watching the run found.
    pub fn found(self) -> Found {
        self.recording.into_inner().found(self.shared)
    }

    /// Comes to rest, so that what was prepared before is not seen by the tasks, and ends it at a tick: when the next one comes
    /// after the tasks' start is not to depend on how long the preparation took.
    fn rest(&self) -> Woke {
        let mut slept = (1..RESTS).map(|_| self.wait(sys::monotonic_ns().saturating_add(REST.0), || false));
        slept.find(|woke| *woke != Woke::Time).unwrap_or_else(|| {
            sleep_to_tick(Duration::from_nanos(REST.0));
            Woke::Time
        })
    }

    /// Makes the tasks that are there from the start and waits until each is ready.
    fn gather(&self) -> Woke {
        let shared = self.shared;
        for id in (0..shared.len()).filter(|id| shared.is_waiting_root(*id)) {
            if let Err(error) = shared.spawn(id, None) {
                shared.fail(error);
                return Woke::Failed;
            }
            if self.stop_asked() {
                return Woke::Stop;
            }
        }
        self.wait(u64::MAX, || shared.arena.ready().load(SeqCst) >= shared.roots)
    }

    fn stop_asked(&self) -> bool {
        self.stop.is_some() && sys::wait_readable([self.stop], 0)[0]
    }

    /// Sleeps until `done`, the stop, a failure, or the absolute time `until_ns`.
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
            let until_ns = match self.changes.make_due(now) {
                Ok(next) => next.map_or(until_ns, |due| due.min(until_ns)),
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

    /// Ends every task that is left and waits for it.
    pub fn end(&self) -> Result<()> {
        let arena = &self.shared.arena;
        arena.advance(Phase::Stop);
        sys::futex_wake(arena.phase_word(), u32::MAX, self.shared.scope);
        let (from, mut pause) = (sys::monotonic_ns(), NUDGE_PAUSE);
        while arena.live().load(SeqCst) > 0 {
            let waited = Ns(sys::monotonic_ns() - from);
            if waited > LEAVE_WITHIN {
                let left = arena.live().load(SeqCst);
                return Err(Error::internal(format!("{left} tasks were still there {waited} after the end")));
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

    /// Takes up processes that ended; one that ended otherwise than by leaving fails the run.
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

    /// All have left; waits the moment until the last has ended, so that their CPU time is known.
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
